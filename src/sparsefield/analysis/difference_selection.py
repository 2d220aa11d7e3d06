"""This module selects the penalty of differences between groups by cross-validation over rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from sparsefield.analysis.group_layout import GroupLayout
from sparsefield.analysis.joint_fit import GroupRows, JointFit, JointOptions, fit_groups
from sparsefield.compute import Engine
from sparsefield.objectives import make_evaluator
from sparsefield.objectives.pseudo_likelihood import PseudoLikelihood
from sparsefield.solver import warm_start

FOLDS = 5
VALUES = 9
"""Finite values of l1_difference that are tried."""

SMALLEST_SHARE = 0.02
"""The smallest one, as a share of the smallest value without any difference."""

ROUGH_TOLERANCE = 0.05
"""Violation of optimality, as a share of the penalty, of fits that only have to be scored."""


@dataclass(frozen=True)
class DifferencePenalty:
    """A value of l1_difference that was tried, and its score."""

    l1_difference: float
    """Infinite for groups that differ in their biases only."""
    score: float
    """Mean log-pseudo-likelihood of a held-out row."""
    error: float
    """Standard error of the difference from the best score."""
    selected: bool


def select_difference(
    rows: GroupRows,
    options: JointOptions,
    pairs: np.ndarray,
    engine: Engine,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[DifferencePenalty, ...]:
    """Return the values of l1_difference that were tried, the largest first.

    The largest one whose score is within one standard error of the best is selected: groups differ where the data show
    it.

    Parameters
    ----------
    rows : without missing cells
    options : l1_difference is ignored
    pairs : candidates, (pairs, 2)
    """
    fold = _draw_folds(rows.numbers, seed)
    values = _values(rows, options, pairs, engine)
    scores, weights = np.empty((FOLDS, len(values))), np.empty(FOLDS)
    for k in range(FOLDS):
        kept, held_out = rows.take(fold != k), rows.take(fold == k)
        share = kept.table.total_weight / rows.table.total_weight
        weights[k] = held_out.table.total_weight
        for j, fit in enumerate(_path(kept, options, values, share, pairs, engine)):
            scores[k, j] = -_loss(held_out, fit, engine) / weights[k]
        if progress is not None:
            progress(k + 1, FOLDS)
    mean = np.average(scores, axis=0, weights=weights)
    best = int(np.argmax(mean))
    error = (scores - scores[:, [best]]).std(axis=0, ddof=1) / np.sqrt(FOLDS)
    chosen = int(np.flatnonzero(mean >= mean[best] - error)[0])
    parts = zip(values, mean.tolist(), error.tolist(), strict=True)
    return tuple(DifferencePenalty(*part, k == chosen) for k, part in enumerate(parts))


def _draw_folds(numbers: np.ndarray, seed: int) -> np.ndarray:
    """Return the fold of each row, (rows,); each group is divided evenly."""
    rng, fold = np.random.default_rng(seed), np.empty(len(numbers), dtype=np.int64)
    for group in np.unique(numbers):
        mine = np.flatnonzero(numbers == group)
        fold[rng.permutation(mine)] = np.arange(len(mine)) % FOLDS
    return fold


def _values(rows: GroupRows, options: JointOptions, pairs: np.ndarray, engine: Engine) -> list[float]:
    """Return infinity, and values that fall from the smallest one without a difference."""
    if not len(pairs):
        return [np.inf]
    pooled = fit_groups(rows, replace(options, l1_difference=np.inf), pairs, pairs, engine)
    layout = GroupLayout.of(rows.schema, rows.names)
    evaluator = make_evaluator(rows.dataset(layout), PseudoLikelihood(), engine, options.missing)
    evaluator.evaluate(evaluator.compile(layout.arcs(pooled.field.pairs)), pooled.field.theta)
    features = np.concatenate([layout.differences(pairs, group) for group in range(rows.n_groups)])
    n = layout.n_target_columns
    gradient = evaluator.gradient(evaluator.compile(layout.arcs(features)), n + len(features))[n:]
    largest = float((np.abs(gradient) / layout.feature_factors(features)).max(initial=0.0))
    smallest = max(SMALLEST_SHARE * largest, options.l1 / rows.n_groups)
    if largest <= smallest:
        return [np.inf]
    return [np.inf, *np.geomspace(0.8 * largest, smallest, VALUES).tolist()]


def _path(
    rows: GroupRows, options: JointOptions, values: list[float], share: float, pairs: np.ndarray, engine: Engine
) -> Iterator[JointFit]:
    """Yield fits to some of the rows, each from the one before; ``share`` is the share of the rows."""
    start = None
    for value in values:
        rough = replace(options.training, kkt_tol=ROUGH_TOLERANCE)
        at = JointOptions(share * options.l1, share * value, rough, options.missing)
        fit = fit_groups(rows, at, pairs, pairs, engine, start)
        start = warm_start(fit.field)
        yield fit


def _loss(rows: GroupRows, fit: JointFit, engine: Engine) -> float:
    """Return minus the log-pseudo-likelihood of other rows."""
    evaluator = make_evaluator(rows.dataset(fit.layout), PseudoLikelihood(), engine, fit.options.missing)
    return evaluator.evaluate(evaluator.compile(fit.layout.arcs(fit.field.pairs)), fit.field.theta)[0]
