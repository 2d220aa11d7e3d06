"""Generated data depend strongly on each other, and are the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import dependent_data
from benchmarks.dependent_data import CASES, MissingDataError, draw_factors, draw_texts, find_cases


def correlations(cells: np.ndarray) -> np.ndarray:
    """Absolute correlations of columns, 0 on the diagonal."""
    found = np.abs(np.corrcoef(cells.T.astype(np.float64)))
    np.fill_diagonal(found, 0.0)
    return found


@pytest.mark.parametrize("draw", [draw_factors, draw_texts])
def test_a_seed_fixes_the_table(draw) -> None:
    first, again, other = draw(40, 80, seed=3), draw(40, 80, seed=3), draw(40, 80, seed=4)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert (first.dtype, first.shape) == (np.int8, (80, 40))
    assert set(np.unique(first)) == {0, 1}


def test_a_third_of_the_cells_is_on_and_frequencies_differ() -> None:
    cells = draw_factors(300, 1000, seed=0)
    assert cells.mean() == pytest.approx(1 / 3, abs=0.02)
    frequencies = cells.mean(axis=0)
    assert frequencies.min() < 0.15
    assert frequencies.max() > 0.6


def test_factors_make_many_pairs_depend_on_each_other() -> None:
    dependent = correlations(draw_factors(200, 2000, duplicates=0.0, seed=0))
    independent = correlations(draw_factors(200, 2000, duplicates=0.0, strength=0.0, seed=0))
    assert (dependent > 0.1).mean() > 0.2
    assert (independent > 0.1).mean() < 0.001


def test_the_asked_share_of_columns_are_near_duplicates() -> None:
    cells = draw_factors(200, 2000, strength=0.0, duplicates=0.25, seed=0)
    found = correlations(cells)
    assert 0.4 <= (found.max(axis=0) > 0.6).mean() <= 0.5  # copies and their originals
    assert found.max() < 0.999
    copy, original = np.unravel_index(found.argmax(), found.shape)
    assert 0.005 < (cells[:, copy] != cells[:, original]).mean() < 0.06
    assert correlations(draw_factors(200, 2000, strength=0.0, duplicates=0.0, seed=0)).max() < 0.2


def test_texts_have_few_common_words_and_many_rare_ones() -> None:
    cells = draw_texts(1058, 1670, seed=0)
    assert cells.mean() == pytest.approx(0.078, abs=0.005)
    frequencies = np.sort(cells.mean(axis=0))[::-1]
    assert frequencies[0] > 0.4
    assert np.median(frequencies) < 0.06
    assert frequencies[-1] > 0.0


def test_words_of_one_topic_and_of_one_expression_occur_together() -> None:
    found = correlations(draw_texts(300, 2000, seed=0))
    assert (found > 0.1).mean() > 0.02
    assert (found.max(axis=0) > 0.4).mean() > 0.2


def test_cases_are_found_by_name() -> None:
    assert [case.name for case in find_cases()] == [case.name for case in CASES]
    assert next(case.l1 for case in CASES if case.name == "factors-1300") == 16.0
    assert find_cases(["texts"], short=True)[0].draw(0).train.shape == (300, 40)
    with pytest.raises(ValueError, match="no case called wet; there are factors, texts, plants, ising"):
        find_cases(["wet"], short=True)


def test_rows_to_learn_from_are_not_those_that_are_scored() -> None:
    data = find_cases(["factors"], short=True)[0].draw(0)
    assert [len(part) for part in (data.train, data.validation, data.held_out)] == [300, 100, 200]
    assert not np.array_equal(data.train[:100], data.validation)


def test_public_data_that_are_not_there_are_said_to_be_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(dependent_data, "data_folder", lambda: tmp_path)
    with pytest.raises(MissingDataError, match="plants is skipped: there is no debd/plants"):
        find_cases(["plants"])[0].draw(0)
