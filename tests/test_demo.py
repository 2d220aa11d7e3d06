"""The demonstration on scikit-learn's digits, in its quick form, and the parts it is made of."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from examples.digits import DIGIT, PIXELS, DemoResult, are_neighbors, load_pictures, run_demo


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DemoResult, list[str]]:
    out = tmp_path_factory.mktemp("demo") / "not" / "yet"
    lines: list[str] = []
    return out, run_demo(out, True, lines.append), lines


def test_the_pictures_are_there_and_parse(quick: tuple[Path, DemoResult, list[str]]) -> None:
    out, found, lines = quick
    assert found.files == [out / "network.svg", out / "digits.svg"]
    assert sorted(path.name for path in out.iterdir()) == ["digits.svg", "network.svg"]
    network, digits = (ElementTree.parse(path).getroot() for path in found.files)
    assert any("neighboring pixels" in (text.text or "") for text in network.iter())
    assert any("predicted" in (text.text or "") for text in digits.iter())
    assert str(out / "network.svg") in lines[-1]


def test_the_field_beats_the_most_frequent_values(quick: tuple[Path, DemoResult, list[str]]) -> None:
    ours, usual = quick[1].right["pixels"]
    assert ours > usual + 0.08
    ours, usual = quick[1].right["digits"]
    assert ours > 0.7 > 0.2 > usual


def test_neighbors_are_found_far_above_chance(quick: tuple[Path, DemoResult, list[str]]) -> None:
    strongest, chance = quick[1].neighbors
    assert chance == pytest.approx(0.12, abs=0.02)
    assert strongest > 4 * chance


def test_the_fit_converges_and_the_text_says_so(quick: tuple[Path, DemoResult, list[str]]) -> None:
    field = quick[1].field
    assert field.kkt_violation_ <= 0.02
    features, candidates = len(field.features_), field.field_.layout.n_candidate_pairs
    assert 0 < features < candidates
    words = " ".join(quick[2])
    assert f"{features:,} pair features out of {candidates:,} candidates" in words
    assert "Converged: no left-out pair would improve the fit" in words


def test_a_third_of_the_pixels_and_all_digits_are_missing() -> None:
    digits = load_pictures(1297, 500, (4, 12))
    assert digits.missing[:, :PIXELS].mean() == pytest.approx(1 / 3, abs=0.01)
    assert digits.missing[:, DIGIT].all()
    assert digits.train[:, :PIXELS].max() == 2


def test_neighbors_are_side_by_side_or_corner_to_corner() -> None:
    pairs = np.array([[0, 1], [0, 9], [0, 2], [7, 8]])  # 7 ends the first row, 8 begins the second
    assert are_neighbors(pairs).tolist() == [True, True, False, False]
