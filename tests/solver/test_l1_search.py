"""The search for l1 along the path: which value is chosen, and that no held-out row is seen."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np
import pytest
from plain import learn_plain_schema

from sparsefield import MarkovField
from sparsefield.compute import Threads
from sparsefield.data import Dataset, as_source, compile_table
from sparsefield.induction import RULES
from sparsefield.objectives import EM, OBJECTIVES
from sparsefield.solver import Path, PathPoint, SelectionOptions, TrainingOptions
from sparsefield.solver.folds import Fold, FoldGrid, score_row_batches
from sparsefield.solver.selection import STRIDE, search_l1

VALUES = 100.0 * 0.75 ** np.arange(40)
BATCHES = 10


class ScriptedFold:
    """A fold whose scores are given by a function of the index on the path."""

    def __init__(self, number: int, curve: Any, noise: float) -> None:
        self.curve, self.points = curve, {}
        self.noise = np.random.default_rng(number).normal(0.0, noise, (len(VALUES), BATCHES))

    def fit(self, l1: float, other: Any = None) -> PathPoint:
        k, field = int(np.argmin(np.abs(VALUES - l1))), cast(Any, None)
        scores = self.curve(k) + self.noise[k] - self.noise[k].mean()
        self.points[l1] = PathPoint(l1, scores, field, np.ones(BATCHES))
        return self.points[l1]


def search(curve: Any, noise: float = 0.01, n_folds: int = 5, **options: Any) -> tuple[int, bool]:
    """Return the chosen index, and whether the score still rises at the end."""
    folds: list[Any] = [ScriptedFold(k, curve, noise) for k in range(n_folds)]
    grid = FoldGrid(folds[0], n_folds, lambda k: folds[k], VALUES, None, lambda point: None)
    return search_l1(grid, **options)


@pytest.mark.parametrize("best", [1, 7, 24])
def test_a_sharp_peak_is_found(best: int) -> None:
    found, rises = search(lambda k: -abs(k - best) - 50.0)
    assert abs(found - best) <= STRIDE // 2
    assert not rises


def test_of_a_plateau_the_sparsest_end_is_taken() -> None:
    assert search(lambda k: -max(12 - k, 0) + 1e-5 * k - 50.0, noise=0.001, min_improvement=1e-4) == (12, False)


def test_a_score_that_never_falls_is_said_to_rise_at_the_end() -> None:
    assert search(lambda k: float(k)) == (len(VALUES) - 1, True)


def test_a_second_rise_within_patience_is_found() -> None:
    def curve(k: int) -> float:
        return -50.0 + min(k, 4) + (0.0 if k < 6 else 6.0 - abs(k - 12))

    assert search(curve) == (12, False)


# -- fits --------------------------------------------------------------------------------------------------------------


def draw(n_rows: int, seed: int = 0, columns: int = 12) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n_rows, columns))
    for k in range(1, columns):
        X[:, k] = np.where(rng.random(n_rows) < 0.4, X[:, rng.integers(0, k)], X[:, k])
    return X


def test_scores_do_not_depend_on_the_weights_that_a_fold_starts_from() -> None:
    """A fit that starts from weights that have seen the held-out rows scores as one that has not."""
    source = as_source(draw(300))
    whole = Dataset.single(compile_table(source, learn_plain_schema(source)))
    held_out = np.arange(60)
    options = TrainingOptions(l1=1e12, kkt_tol=0.2, rough=True)
    with Threads(1) as engine:

        def path(sample: Dataset) -> Path:
            return Path(
                sample, rule=RULES["cfi"](), objective=OBJECTIVES["pl"](), missing=EM(), options=options, engine=engine
            )

        batches = np.arange(60) % BATCHES
        score = partial(
            score_row_batches,
            dataset=whole.subset(held_out),
            batches=batches,
            engine=engine,
            options=SelectionOptions(),
        )
        rest = whole.subset(np.arange(60, 300))
        leak, own, other = Fold(path(whole), score), Fold(path(rest), score), Fold(path(rest), score, ahead=False)
        leak.begin()
        biased = leak.fit(4.0).score
        own.begin()
        honest = own.fit(6.0).score, own.fit(4.0).score
        started = other.fit(4.0, leak).score
    assert biased > honest[1] + 0.1
    assert started == pytest.approx(honest[1], abs=0.02 * (biased - honest[1]) + 0.005)


def test_the_fit_that_starts_from_the_selection_has_the_optimum_of_a_fresh_one() -> None:
    X = draw(300)
    chosen = MarkovField(random_state=0, n_jobs=1).fit(X)
    fresh = MarkovField(l1=chosen.l1_, n_jobs=1).fit(X)
    assert chosen.converged_
    assert chosen.field_.record.objective == pytest.approx(fresh.field_.record.objective, rel=1e-4)
    assert chosen.score(X) == pytest.approx(fresh.score(X), abs=0.01)
