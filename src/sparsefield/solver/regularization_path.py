"""Fields along a falling l1, each from where the last one ended, and what is to be said for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from sparsefield.data import Layout
from sparsefield.solver.fit_state import FitResult, PathPoint
from sparsefield.solver.path_trainer import PathTrainer

__all__ = ["Scorer", "ebic", "ebic_of_an_end", "end_of_walk", "follow_path", "path_values"]

NOTHING_JOINS = 1e12
"""An l1 at which the field has no pairs."""

LOOSE = 0.05
"""A field on the path may miss optimality by this share of l1: it is only to be judged, not kept."""

Scorer = Callable[[PathTrainer, FitResult], np.ndarray]
"""What a field is worth, the higher the better: several numbers whose mean counts, or one."""


def follow_path(
    make: Callable[[float, float], PathTrainer],
    judge: Scorer,
    *,
    count: int,
    ratio: float,
    kkt_tol: float,
    patience: int | None = None,
    progress: float = 0.0,
) -> Iterator[PathPoint]:
    """From the smallest l1 that selects nothing down to ``ratio`` times that, in ``count`` steps of equal factor.

    Parameters
    ----------
    make : ``make(l1, kkt_tol)`` gives a trainer
    judge : see `Scorer`
    patience : int or None
        How many fields in a row may be no better than the best so far; None goes down to the end.
    progress : float
        Share by which a score must rise to be better.
    """
    trainer = make(NOTHING_JOINS, max(kkt_tol, LOOSE))
    trainer.run()
    scores: list[float] = []
    for l1 in path_values(trainer.l1_max(), count, ratio):
        learned = trainer.step_to(float(l1))
        point = PathPoint(float(l1), judge(trainer, learned), learned)
        yield point
        scores.append(point.score)
        if patience is not None and end_of_walk(scores, patience, progress) is not None:
            return


def end_of_walk(scores: Sequence[float], patience: int, progress: float) -> int | None:
    """After how many points a walk ends because so many in a row were no better than the best before; None if never."""
    best, worse = -np.inf, 0
    for k, score in enumerate(scores):
        better = k == 0 or score > best + progress * abs(best)
        best, worse = (score, 0) if better else (best, worse + 1)
        if worse >= patience:
            return k + 1
    return None


def path_values(first: float, count: int, ratio: float) -> np.ndarray:
    """(count,): falling from ``first`` by equal factors; one value where nothing depends on anything."""
    return np.geomspace(first, ratio * first, count) if first > 0.0 else np.ones(1)


def ebic(trainer: PathTrainer, gamma: float) -> float:
    """The extended Bayesian information criterion of the field at hand, the lower the better.

    It is that of one regression per state, added up: 2 x loss, and for each end of a feature what one end costs.
    """
    active = np.flatnonzero(trainer.theta[trainer.layout.n_states :])
    ends = np.bincount(trainer.arcs.target[np.isin(trainer.arcs.feature, active)], minlength=trainer.layout.n_states)
    cost = ebic_of_an_end(trainer.layout, trainer.evaluator.total_weights, gamma)
    return float(2.0 * trainer.loss + ends @ cost)


def ebic_of_an_end(layout: Layout, weights: Sequence[float], gamma: float) -> np.ndarray:
    """(states,): ln(rows) + 2 gamma ln(columns that the state could depend on)."""
    parts = []
    for schema, width, weight in zip(layout.schemas, layout.widths, weights, strict=True):
        own = np.repeat(np.diff(schema.state_offsets), np.diff(schema.state_offsets))
        others = np.maximum(int(width) - own, 1)
        parts.append(np.log(max(weight, 1.0)) + 2.0 * gamma * np.log(others))
    return np.concatenate(parts)
