"""This module chooses the penalties of a linear chain by the log-likelihood of held-out sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from sparsefield.chain.training import ChainFit, ChainOptions, ChainTrainer

L2_PATH = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
L1_PATH = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
PATIENCE = 2
"""Values without an improvement after which a path ends."""

HeldOutScore = Callable[[ChainFit], float]


@dataclass(frozen=True)
class ChainPathPoint:
    """One pair of penalties that was tried."""

    l1: float
    l2: float
    n_features: int
    score: float
    """Log-likelihood of the held-out sequences, per token."""


@dataclass(frozen=True)
class ChainSelection:
    """The selected penalties, the fit at them, and all that were tried."""

    options: ChainOptions
    fit: ChainFit | None
    path: tuple[ChainPathPoint, ...]


def select_penalties(
    trainer: ChainTrainer, score: HeldOutScore, options: ChainOptions, *, l1: bool, l2: bool
) -> ChainSelection:
    """Choose penalties along paths from large to small values, with warm starts.

    If both are chosen, l2 is chosen without l1 first. Then l1 is chosen with that l2, and with smaller ones while that
    improves the score, because l1 does a part of what l2 does.

    Parameters
    ----------
    trainer : of the sequences that are not held out
    score : returns the held-out log-likelihood of a fit, per token
    options : penalties that are given
    l1, l2 : which of them to choose
    """
    if not (l1 and l2):
        return _follow(trainer, score, _along(options, "l1" if l1 else "l2"))
    best = _follow(trainer, score, _along(replace(options, l1=0.0), "l2"))
    path = best.path
    for value in (value for value in L2_PATH if value <= best.options.l2):
        found = _follow(trainer, score, _along(replace(options, l2=value), "l1"))
        path += found.path
        improved = _best_score(found) > _best_score(best)
        best = found if improved else best
        if not improved:
            break
    return replace(best, path=path)


def _along(options: ChainOptions, name: str) -> list[ChainOptions]:
    """Return options with falling values of one penalty."""
    if name == "l1":
        return [replace(options, l1=value) for value in L1_PATH]
    return [replace(options, l2=value) for value in L2_PATH]


def split_sequences(n: int, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the sequences to train with and to hold out, ascending; each has at least one."""
    order = rng.permutation(n)
    count = int(np.clip(round(share * n), 1, n - 1))
    return np.sort(order[count:]), np.sort(order[:count])


def _follow(trainer: ChainTrainer, score: HeldOutScore, path: Iterable[ChainOptions]) -> ChainSelection:
    """Return the best fit along a path, which ends after some values without an improvement."""
    best, fit, tried, failures, best_score = None, None, [], 0, -np.inf
    for options in path:
        fit = trainer.fit(options, fit)
        tried.append(ChainPathPoint(options.l1, options.l2, len(fit.theta), score(fit)))
        if best is None or tried[-1].score > best_score:
            best, best_score, failures = ChainSelection(options, fit, ()), tried[-1].score, 0
        else:
            failures += 1
        if failures == PATIENCE:
            break
    assert best is not None
    return replace(best, path=tuple(tried))


def _best_score(found: ChainSelection) -> float:
    return max(point.score for point in found.path)
