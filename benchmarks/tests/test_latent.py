"""Data of latent classes, and the comparison with and without a latent variable."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import latent
from benchmarks.latent import draw_latent_classes, run_latent


def test_score_of_the_truth_is_that_of_the_mixture_by_enumeration() -> None:
    drawn = draw_latent_classes(5, 4, 3, seed=2)

    def chance(row: np.ndarray) -> float:
        return float(np.mean([np.prod(np.where(row == 1, p, 1 - p)) for p in drawn.chances]))

    expected = []
    for row in drawn.rows:
        flipped = [np.where(np.arange(4) == v, 1 - row, row) for v in range(4)]
        expected.append(sum(np.log(chance(row) / (chance(row) + chance(other))) for other in flipped))
    assert drawn.score(drawn.rows) == pytest.approx(np.mean(expected))


def test_a_latent_variable_scores_better_on_latent_classes(monkeypatch) -> None:
    drawn = draw_latent_classes(1200, 12, 3, seed=0)
    train, valid, test = np.split(drawn.rows, 3)
    monkeypatch.setattr(latent, "_load", lambda name, seed: ((train, valid, test), drawn))
    monkeypatch.setitem(latent.GRIDS, "latent classes", (5.0, 10.0))
    said: list[str] = []
    alone, with_latent, truth = run_latent(("latent classes",), said.append, states=3, n_jobs=1)
    assert alone["test_score"] < with_latent["test_score"] < truth["test_score"] + 0.05
    assert len(said) >= 2


def test_other_data_are_refused() -> None:
    with pytest.raises(ValueError, match="got 'iris'"):
        run_latent(("iris",))
