"""This module chooses the penalties of a linear chain by the log-likelihood of held-out sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from sparsefield.solver.chain_training import ChainFit, ChainOptions, ChainTrainer

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
    """Choose l2, then l1, each along a path from large to small values, with warm starts.

    Parameters
    ----------
    trainer : of the sequences that are not held out
    score : returns the held-out log-likelihood of a fit, per token
    options : penalties that are given; l1 is 0 while l2 is chosen, if both are
    l1, l2 : which of them to choose
    """
    found = ChainSelection(replace(options, l1=0.0) if l1 else options, None, ())
    if l2:
        found = _follow(trainer, score, found, (replace(found.options, l2=value) for value in L2_PATH))
    if l1:
        smooth = found if found.fit is not None else None
        found = _follow(trainer, score, found, (replace(found.options, l1=value) for value in L1_PATH))
        if smooth is not None and _best(smooth.path).score > _best(found.path).score:
            return replace(smooth, path=found.path)
    return found


def split_sequences(n: int, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the sequences to train with and to hold out, ascending; each has at least one."""
    order = rng.permutation(n)
    count = int(np.clip(round(share * n), 1, n - 1))
    return np.sort(order[count:]), np.sort(order[:count])


def _follow(
    trainer: ChainTrainer, score: HeldOutScore, before: ChainSelection, path: Iterable[ChainOptions]
) -> ChainSelection:
    best, fit, tried, failures = before, None, list(before.path), 0
    best_score = -np.inf
    for options in path:
        fit = trainer.fit(options, fit)
        tried.append(ChainPathPoint(options.l1, options.l2, len(fit.theta), score(fit)))
        if tried[-1].score > best_score:
            best, best_score, failures = ChainSelection(options, fit, ()), tried[-1].score, 0
        else:
            failures += 1
        if failures == PATIENCE:
            break
    return replace(best, path=tuple(tried))


def _best(path: tuple[ChainPathPoint, ...]) -> ChainPathPoint:
    return max(path, key=lambda point: point.score)
