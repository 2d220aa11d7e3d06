"""The demonstration on scikit-learn's digits, in its quick form, and the parts it is made of."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from sparsefield.app.demo.digits_demo import (
    DemoResult,
    Digits,
    column_frequencies,
    load_pictures,
    make_table,
    run_demo,
    score_predictions,
)
from sparsefield.app.demo.figures import DIGIT, PIXELS, PixelNetwork, are_neighbors, draw_network

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DemoResult, list[str]]:
    out = tmp_path_factory.mktemp("demo") / "not" / "yet"
    lines: list[str] = []
    return out, run_demo(out, True, lines.append), lines


def test_the_files_are_there_and_parse(quick: tuple[Path, DemoResult, list[str]]) -> None:
    out, found, _ = quick
    names = ["network.svg", "digits.svg", "index.html"]
    assert found.files == [out / name for name in names]
    assert sorted(path.name for path in out.iterdir()) == sorted(names)
    for name in names[:2]:
        assert ElementTree.parse(out / name).getroot().tag == SVG + "svg"
    page = (out / "index.html").read_text("utf-8")
    assert page.count('<img src="data:image/svg+xml;base64,') == page.count("src=") == page.count("<figcaption>") == 2
    assert "http" not in page.split("<body>")[1].split("<script>")[0]


def test_the_field_beats_the_frequencies(quick: tuple[Path, DemoResult, list[str]]) -> None:
    ours, frequencies = quick[1].scores["sparsefield"], quick[1].scores["column frequencies"]
    assert ours["pixel_log_loss"] < 0.75 * frequencies["pixel_log_loss"]
    assert ours["pixel_accuracy"] > frequencies["pixel_accuracy"] + 0.08
    assert ours["digit_accuracy"] > 0.7 > 0.2 > frequencies["digit_accuracy"]
    assert ours["digit_log_loss"] < 1.0
    assert frequencies["digit_log_loss"] == pytest.approx(np.log(10), abs=0.05)


def test_neighbors_are_found_far_above_chance(quick: tuple[Path, DemoResult, list[str]]) -> None:
    strongest, chance = quick[1].neighbors
    assert chance == pytest.approx(0.12, abs=0.02)
    assert strongest > 4 * chance


def test_the_fit_converges_and_the_text_says_so(quick: tuple[Path, DemoResult, list[str]]) -> None:
    out, found, lines = quick
    assert found.field.converged_
    assert found.field.kkt_violation_ <= 0.02
    features, candidates = len(found.field.features_), found.field.field_.layout.n_candidate_pairs
    assert 0 < features < candidates
    words = " ".join(lines)
    assert f"{features:,} pair features out of {candidates:,} candidates" in words
    assert "Converged: no left-out pair would improve the fit" in words
    assert str(out / "index.html") in words


def test_a_third_of_the_pixels_and_all_digits_are_missing() -> None:
    digits = load_pictures(1297, 500, (4, 12))
    assert digits.missing[:, :PIXELS].mean() == pytest.approx(1 / 3, abs=0.01)
    assert digits.missing[:, DIGIT].all()
    assert digits.train[:, :PIXELS].max() == 2
    table = make_table(digits.test, digits.missing)
    assert table["digit"].null_count() == 500
    assert sum(table.null_count().row(0)) == digits.missing.sum()


def test_cells_without_variation_in_training_are_not_scored() -> None:
    train, test = np.zeros((6, PIXELS + 1), dtype=int), np.zeros((2, PIXELS + 1), dtype=int)
    train[::2, [0, 1, DIGIT]] = 1
    test[0, :2] = [2, 1]  # the first pixel never was 2; all but two pixels never vary
    digits = Digits(train, test, np.ones(test.shape, dtype=bool), 3)
    assert np.argwhere(digits.scored()).tolist() == [[0, 1], [0, DIGIT], [1, 0], [1, 1], [1, DIGIT]]
    scores = score_predictions(column_frequencies(digits), digits)
    assert scores["pixel_log_loss"] == pytest.approx(np.log(2))
    assert scores["digit_accuracy"] == 1.0


def test_the_network_distinguishes_neighbors_from_others() -> None:
    pairs = np.array([[0, 1], [0, 9], [0, 2], [7, 8]])  # 7 ends the first row, 8 begins the second
    assert are_neighbors(pairs).tolist() == [True, True, False, False]
    pixels = np.zeros(PIXELS)
    text = draw_network(PixelNetwork(pixels, pixels == 0, pairs, np.array([4.0, 3.0, 2.0, 1.0]), np.zeros((1, 8, 8))))
    ElementTree.fromstring(text)
    assert "neighboring pixels (2)" in text
    assert "farther apart (2)" in text
    nothing = PixelNetwork(pixels, pixels == 1, np.empty((0, 2), dtype=int), np.empty(0), np.zeros((1, 8, 8)))
    ElementTree.fromstring(draw_network(nothing))
