"""Permutation tests of whether the networks of groups of rows differ.

As in the NetworkComparisonTest (van Borkulo and others, 2022), each group is fitted by itself, at a fixed l1, and the
labels of the groups are permuted among rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from sparsefield.analysis.bootstrap import Progress
from sparsefield.analysis.group_refits import LossModel, SubsetFit, SubsetProblem
from sparsefield.analysis.network import Network, sum_by_node
from sparsefield.compute import Engine
from sparsefield.inference.completions import rows_of_block

SLACK = 1e-6
"""Difference of statistics below which they count as equal: relative, or in standard deviations. Those of permutations
are in single precision."""

ROUND, REACHED = 50, 10
"""Permutations between two looks at the p-values, and how many of them have to reach every statistic to end a test."""


def compare_networks(network: Network, weights: np.ndarray) -> np.ndarray:
    """Return how much the networks of two groups differ.

    Parameters
    ----------
    network : that of all candidate pairs
    weights : (2, pairs)

    Returns
    -------
    (2 + edges + variables,)
        Difference of the sums of the strengths of all edges (global strength); largest difference of an edge
        (structure); norms of the differences of the weights of each edge; and differences of the strength centrality of
        each variable, the sum of the strengths of its edges.
    """
    (differences,), (strengths, _) = network.norms(weights[:1] - weights[1:]), network.weigh(weights)
    nodes = np.array([sum_by_node(network.ends, part, network.n_variables) for part in strengths])
    whole = [np.ptp(strengths.sum(axis=1)), differences.max(initial=0.0)]
    return np.concatenate([whole, differences, np.ptp(nodes, axis=0)])


class PairTest:
    """A permutation test of two groups of rows.

    Parameters
    ----------
    groups : numbers of the two groups
    problem : the rows of all groups
    numbers : (rows,), the group of each row
    l1, fits : of each of all groups
    start : (parameters,): biases and weights of all candidates, near those of all rows
    """

    def __init__(
        self,
        groups: tuple[int, int],
        problem: SubsetProblem,
        numbers: np.ndarray,
        l1: Sequence[float],
        fits: Sequence[SubsetFit],
        start: np.ndarray,
    ) -> None:
        compared = np.isin(numbers, groups)
        self.groups, self.labels = groups, np.searchsorted(groups, numbers[compared])
        self.network = problem.network
        weights = np.array([fits[group].theta[problem.n_biases :] for group in groups])
        self.observed = compare_networks(self.network, weights)
        self.drawn = np.empty((0, len(self.observed)), dtype=np.float32)
        """(permutations, statistics), in single precision."""
        self.unconverged = 0
        self._l1, self._start = [l1[group] for group in groups], start
        self._part = replace(problem, rows=rows_of_block(problem.rows, np.flatnonzero(compared)))

    @cached_property
    def _models(self) -> list[tuple[SubsetFit, LossModel]]:
        """Every permuted group starts at the fit to both groups, scaled to its size, and has its model of the loss."""
        shares = [float(np.mean(self.labels == k)) for k in (0, 1)]
        return [self._part.pooled(l1, share, self._start) for l1, share in zip(self._l1, shares, strict=True)]

    def draw(self, seeds: Sequence[Sequence[int]], engine: Engine, progress: Callable[[], None]) -> None:
        """Add the statistics of permutations, each with its seed."""
        models, first = self._models, self._part.n_biases

        def permute(seed: Sequence[int]) -> tuple[np.ndarray, bool]:
            shuffled = np.random.default_rng(seed).permutation(self.labels)
            fits = [
                self._part.fit(shuffled == k, self._l1[k], fit.theta, model) for k, (fit, model) in enumerate(models)
            ]
            weights = np.array([fit.theta[first:] for fit in fits])
            return compare_networks(self.network, weights).astype(np.float32), all(fit.converged for fit in fits)

        drawn = [self.drawn]
        for statistics, converged in engine.stream(permute, seeds):
            drawn.append(statistics[None])
            self.unconverged += not converged
            progress()
        self.drawn = np.concatenate(drawn)

    @property
    def p_values(self) -> np.ndarray:
        """(statistics,): (1 + permutations that reach the observed value) / (1 + permutations); NaN without any."""
        if not len(self.drawn):
            return np.full(len(self.observed), np.nan)
        reached = (self.drawn >= self.observed * (1.0 - SLACK)).sum(axis=0)
        return (1.0 + reached) / (1.0 + len(self.drawn))


def run_tests(
    tests: Sequence[PairTest], permutations: int, seed: int, engine: Engine, progress: Progress | None
) -> None:
    """Draw permutations of all pairs of groups, until no test can become significant.

    As many as `REACHED` permutations that reach a statistic decide about it: with all adjusted p-values above their
    share, more permutations would tell nothing (Besag and Clifford, 1991).
    """
    done, total = 0, permutations * len(tests)

    def count_one() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    if progress is not None and total:
        progress(0, total)  # the time before was that of the fit of all rows
    for first in range(0, permutations, ROUND):
        numbers = range(first, min(first + ROUND, permutations))
        for k, test in enumerate(tests):
            test.draw([(seed, k, number) for number in numbers], engine, count_one)
        smallest = min(float(adjusted.min()) for adjusted in adjust_p_values(tests))
        if smallest * (1 + numbers.stop) >= 1 + REACHED:
            break


def adjust_p_values(tests: Sequence[PairTest]) -> list[np.ndarray]:
    """Return the p-values of all statistics, adjusted for the edges, the nodes or the tests of all pairs of groups.

    Without permutations they are NaN.
    """
    adjusted = [test.p_values for test in tests]
    if not len(tests[0].drawn):
        return adjusted
    n_edges = len(tests[0].network.ends)
    for chosen in (slice(0, 1), slice(1, 2), slice(2, 2 + n_edges), slice(2 + n_edges, None)):
        parts = adjust_by_maximum(*zip(*((t.observed[chosen], t.drawn[:, chosen]) for t in tests), strict=True))
        for values, part in zip(adjusted, parts, strict=True):
            values[chosen] = part
    return adjusted


def adjust_by_maximum(observed: Sequence[np.ndarray], drawn: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return adjusted p-values: how often the largest statistic of a permutation reaches an observed one.

    This is the single-step maxT adjustment of Westfall and Young (1993). It takes account of how statistics go
    together, and its smallest p-value, 1 / (1 + permutations), does not depend on their number. Statistics are
    standardized over the permutations and the observed value. With several pairs of groups, the largest statistic is
    that of all pairs. Their permutations are independent of each other, which is no less strict where statistics go
    together.

    Parameters
    ----------
    observed : of each pair of groups, (statistics,)
    drawn : of each pair of groups, (permutations, statistics)

    Examples
    --------
    >>> adjust_by_maximum([np.array([9.0, 0.5])], [np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])])[0].tolist()
    [0.25, 0.75]
    """
    scores, largest = [], []
    for statistics, permuted in zip(observed, drawn, strict=True):
        values = np.vstack([statistics.astype(permuted.dtype), permuted]).astype(float)
        variance = values.var(axis=0)
        # The variance of a statistic is averaged with the mean variance of all: an edge that has a weight in very few
        # permutations would otherwise have the largest statistic in each of these.
        scale = np.sqrt((variance + variance.mean()) / 2.0) if len(variance) else variance
        values = (values - values.mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)
        scores.append(values[0] - SLACK)
        largest.append(values[1:].max(axis=1, initial=-np.inf))
    maxima = np.sort(np.max(largest, axis=0))
    reached = [len(maxima) - np.searchsorted(maxima, values, side="left") for values in scores]
    return [(1.0 + counts) / (1.0 + len(maxima)) for counts in reached]
