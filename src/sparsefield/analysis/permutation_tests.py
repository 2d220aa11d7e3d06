"""Permutation tests of whether the networks of groups of rows differ.

As in the NetworkComparisonTest (van Borkulo and others, 2022), each group is fitted by itself, at a fixed l1, and the
labels of the groups are permuted among rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import false_discovery_control

from sparsefield.analysis.bootstrap import Progress
from sparsefield.analysis.group_refits import LossModel, SubsetFit, SubsetProblem
from sparsefield.analysis.network import sum_by_node
from sparsefield.compute import Engine
from sparsefield.data import Schema
from sparsefield.solver.checkpoint import CheckpointFile

CHUNK = 32
"""Permutations between two saves of the state."""

SLACK = 1e-9
"""Relative difference below which two statistics count as equal."""

STANDARDIZED_SLACK = 1e-6
"""Difference of standardized statistics below which they count as equal; drawn ones are in single precision."""

STANDARDIZED_ROWS = 64
"""Permutations that are standardized at a time."""

MOST_NUMBERS = 5 * 10**7
"""Statistics of edges and nodes in all permutations of a test that are kept, at most."""

MATCHED_ROWS = 1000
"""Rows that are matched at a time: the time of an assignment grows faster than their number."""

SHUFFLES, CHANCE = 199, 0.1
"""Permutations of the test whether missing cells differ between groups, and the p-value above which they do not."""

Adjustment = Literal["max", "holm", "bh", "none"]


def match_missing(missing: np.ndarray, numbers: np.ndarray, seed: int) -> np.ndarray:
    """Return patterns of missing cells, (rows, variables), that contain those of the rows and are alike in all groups.

    A penalized fit shrinks weights the more, the fewer cells are observed, so groups of one distribution have different
    weights where one of them has more missing cells. Each row of the largest group is matched with a row of every other
    group, so that they share as many missing cells as possible, and all of them get the union of their patterns.
    Where missing cells are spread over groups as if by chance, nothing changes. Values are not looked at, so that under
    the hypothesis that groups are alike, and if cells are missing by chance within groups, rows can be permuted.

    Parameters
    ----------
    missing : (rows, variables) bool
    numbers : (rows,), the group of each row: 0, 1, ...
    """
    rng = np.random.default_rng(seed)
    if not missing.any() or not _differ(missing, numbers, rng):
        return missing
    groups = [rng.permutation(np.flatnonzero(numbers == group)) for group in range(numbers.max() + 1)]
    largest, *others = sorted(groups, key=len, reverse=True)
    union, partners = missing[largest], []
    for rows in others:
        partner = np.resize(rows, len(largest))
        for first in range(0, len(largest), MATCHED_ROWS):
            part = slice(first, first + MATCHED_ROWS)
            shared = union[part].astype(np.float32) @ missing[partner[part]].T.astype(np.float32)
            partner[part] = partner[part][linear_sum_assignment(shared, maximize=True)[1]]
        union = union | missing[partner]
        partners.append(partner)
    matched = np.empty_like(missing)
    for rows in (largest, *partners):
        matched[rows] = union  # a row with several partners gets the pattern of the last one
    return matched


def _differ(missing: np.ndarray, numbers: np.ndarray, rng: np.random.Generator) -> bool:
    """Return whether groups differ in which cells, and which pairs of cells, are missing, beyond chance."""
    cells, groups = missing.astype(np.float32), range(numbers.max() + 1)

    def spread(labels: np.ndarray) -> float:
        shares = [cells[labels == group].T @ cells[labels == group] / (labels == group).sum() for group in groups]
        return float(np.var(shares, axis=0).sum())

    observed = spread(numbers) * (1.0 - 1e-6)
    above = sum(spread(rng.permutation(numbers)) >= observed for _ in range(SHUFFLES))
    return (1 + above) / (1 + SHUFFLES) <= CHANCE


@dataclass(frozen=True)
class CandidateEdges:
    """The pairs of variables that candidate pairs of columns belong to."""

    ends: np.ndarray
    """(edges, 2): numbers of variables, ascending."""
    edge_of_pair: np.ndarray
    """(pairs,)"""
    n_variables: int

    @classmethod
    def of(cls, schema: Schema, pairs: np.ndarray) -> CandidateEdges:
        """Return the edges of pairs of columns, (pairs, 2)."""
        ends, edge = np.unique(np.sort(schema.variable_of_column[pairs], axis=1), axis=0, return_inverse=True)
        return cls(ends.reshape(-1, 2), edge.ravel(), schema.n_variables)

    def norms(self, weights: np.ndarray) -> np.ndarray:
        """Return the Euclidean norm of the weights of each edge, (edges,)."""
        return np.sqrt(np.bincount(self.edge_of_pair, np.square(weights), len(self.ends)))

    def statistics(self, weights: np.ndarray) -> np.ndarray:
        """Return how much the networks of two groups, or of the two most different ones of several, differ.

        Parameters
        ----------
        weights : (groups, pairs)

        Returns
        -------
        (2 + edges + variables,)
            Difference of the sums of the strengths of all edges (global strength); largest difference of an edge
            (structure); norms of the differences of the weights of each edge; and differences of the strength
            centrality of each variable, the sum of the strengths of its edges.
        """
        pairs = combinations(range(len(weights)), 2)
        differences = np.max([self.norms(weights[a] - weights[b]) for a, b in pairs], axis=0)
        strengths = np.array([self.norms(part) for part in weights])
        nodes = np.array([sum_by_node(self.ends, part, self.n_variables) for part in strengths])
        whole = [np.ptp(strengths.sum(axis=1)), differences.max(initial=0.0)]
        return np.concatenate([whole, differences, np.ptp(nodes, axis=0)])


@dataclass(frozen=True)
class PermutationResult:
    """The statistics of two groups or more, and how often permuted labels reached them."""

    groups: tuple[int, ...]
    """Numbers of the compared groups."""
    n_edges: int
    observed: np.ndarray
    """(statistics,): see `CandidateEdges.statistics`."""
    counts: np.ndarray
    """(statistics,): permutations with at least the observed value."""
    drawn: np.ndarray
    """(permutations, 3): global strength, structure and the largest difference of a node of each permutation."""
    singles: np.ndarray
    """(permutations, edges + nodes), in single precision; (permutations, 0) where these would be too many."""
    unconverged: int
    """Number of fits that did not converge."""

    @property
    def p_values(self) -> np.ndarray:
        """(statistics,): (1 + count) / (1 + permutations); NaN without permutations."""
        return (1.0 + self.counts) / (1.0 + len(self.drawn)) if len(self.drawn) else np.full(len(self.counts), np.nan)

    def of_edges(self, statistics: np.ndarray) -> np.ndarray:
        """Return those of all statistics that are of edges, (edges,)."""
        return statistics[2 : 2 + self.n_edges]

    def of_nodes(self, statistics: np.ndarray) -> np.ndarray:
        """Return those of all statistics that are of nodes, (variables,)."""
        return statistics[2 + self.n_edges :]


@dataclass(frozen=True)
class PermutationTest:
    """The test of two groups or more.

    Parameters
    ----------
    groups : numbers of the compared groups
    number : of the test, from which its random numbers follow
    all_rows : the rows of all groups
    numbers : (rows,), the group of each row
    l1 : of each of all groups
    fits : those of all groups by themselves
    start : (parameters,): biases and weights of all candidates, near those of all rows
    """

    groups: tuple[int, ...]
    number: int
    all_rows: SubsetProblem
    numbers: np.ndarray
    seed: int
    l1: Sequence[float]
    fits: Sequence[SubsetFit]
    start: np.ndarray

    def run(
        self, permutations: int, engine: Engine, checkpoint: CheckpointFile | None, progress: Progress | None
    ) -> PermutationResult:
        """Return the result of a number of permutations, a multiple of which is saved on the way."""
        fits, n_edges = [self.fits[group] for group in self.groups], len(self._edges.ends)
        observed = self._edges.statistics(self._weights(fits))
        width = len(observed) - 2
        if len(self.groups) > 2 or permutations * width > MOST_NUMBERS:
            width = 0
        counts, drawn = np.zeros(len(observed), dtype=np.int64), np.empty((0, 3))
        singles, unconverged = np.empty((0, width), dtype=np.float32), int(not all(fit.converged for fit in fits))
        saved = None if checkpoint is None else checkpoint.load()
        if saved is not None:
            counts, drawn, singles = (saved[0][name] for name in ("counts", "drawn", "singles"))
            unconverged = saved[1]["unconverged"]
        while len(drawn) < permutations:
            chunk = engine.map(self._permuted, range(len(drawn), min(len(drawn) + CHUNK, permutations)))
            vectors = np.array([statistics for statistics, _ in chunk])
            counts = counts + (vectors >= observed * (1.0 - SLACK)).sum(axis=0)
            node = vectors[:, 2 + n_edges :].max(axis=1, initial=0.0)
            drawn = np.concatenate([drawn, np.column_stack([vectors[:, :2], node])])
            singles = np.concatenate([singles, vectors[:, 2 : 2 + width].astype(np.float32)])
            unconverged += sum(not converged for _, converged in chunk)
            if checkpoint is not None:
                checkpoint.save({"counts": counts, "drawn": drawn, "singles": singles}, {"unconverged": unconverged})
            if progress is not None:
                progress(len(drawn), permutations)
        return PermutationResult(self.groups, n_edges, observed, counts, drawn, singles, unconverged)

    def _weights(self, fits: Sequence[SubsetFit]) -> np.ndarray:
        return np.array([fit.theta[self.all_rows.n_biases :] for fit in fits])

    @cached_property
    def _edges(self) -> CandidateEdges:
        return CandidateEdges.of(self.all_rows.layout.schemas[0], self.all_rows.pairs)

    @cached_property
    def _problem(self) -> SubsetProblem:
        """The rows of the compared groups."""
        rows, compared = self.all_rows, np.isin(self.numbers, self.groups)
        return SubsetProblem(rows.rows.subset(compared), rows.layout, rows.pairs, rows.l2)

    @cached_property
    def _labels(self) -> np.ndarray:
        """(compared rows,): position in ``groups`` of the group of each row."""
        compared = self.numbers[np.isin(self.numbers, self.groups)]
        return np.array([self.groups.index(number) for number in compared.tolist()])

    @cached_property
    def _starts(self) -> list[tuple[float, np.ndarray, LossModel]]:
        """Penalty, parameters to start from and model of the loss, for each group."""
        problem, starts = self._problem, []
        row_weight = np.bincount(problem.rows.owner, problem.rows.block.weight, problem.rows.n_rows)
        for k, group in enumerate(self.groups):
            share = float(row_weight[self._labels == k].sum() / row_weight.sum())
            fit, model = problem.pooled(self.l1[group], share, self.start)
            starts.append((self.l1[group], fit.theta, model))
        return starts

    def _permuted(self, number: int) -> tuple[np.ndarray, bool]:
        """Return the statistics of groups with permuted labels, and whether all fits converged."""
        labels = np.random.default_rng([self.seed, self.number, number]).permutation(self._labels)
        fits = [self._problem.fit(labels == k, *start) for k, start in enumerate(self._starts)]
        return self._edges.statistics(self._weights(fits)), all(fit.converged for fit in fits)


def adjust_results(
    pairs: Sequence[PermutationResult], adjustment: Adjustment
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the adjusted p-values of edges and of nodes, for each pair of groups; NaN without permutations.

    Edges are adjusted for the edges of all pairs of groups, and nodes for all nodes.
    """
    n, adjusted = pairs[0].n_edges, []
    parts = ((PermutationResult.of_edges, slice(n), 1), (PermutationResult.of_nodes, slice(n, None), 2))
    for choose, singles, largest in parts:
        p, observed = ([choose(each, getattr(each, name)) for each in pairs] for name in ("p_values", "observed"))
        if adjustment != "max" or not len(pairs[0].drawn):
            ends = np.cumsum([len(part) for part in p])[:-1]
            adjusted.append(np.split(adjust(np.concatenate(p), adjustment), ends))
        elif pairs[0].singles.shape[1]:
            adjusted.append(adjust_by_maximum(observed, [result.singles[:, singles] for result in pairs]))
        else:
            adjusted.append(adjust_by_plain_maximum(observed, [result.drawn[:, largest] for result in pairs]))
    return adjusted[0], adjusted[1]


def adjust(p: np.ndarray, method: Adjustment) -> np.ndarray:
    """Return p-values adjusted for multiple tests, without the statistics that "max" needs.

    "holm" bounds the probability of any false rejection, "bh" (Benjamini and Hochberg) the expected share of false ones
    among the rejections.

    Examples
    --------
    >>> adjust(np.array([0.01, 0.04, 0.03]), "holm").tolist()
    [0.03, 0.06, 0.06]
    >>> adjust(np.array([0.01, 0.04, 0.03]), "bh").round(3).tolist()
    [0.03, 0.04, 0.04]
    """
    if method == "bh" and not np.isnan(p).any():
        return false_discovery_control(p) if len(p) else p
    if method != "holm":
        return p
    order, adjusted = np.argsort(p, kind="stable"), np.empty(len(p))
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted[order] = np.minimum(steps, 1.0)
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
    parts = [_standardize(statistics, permuted) for statistics, permuted in zip(observed, drawn, strict=True)]
    largest = np.max([maxima for _, maxima in parts], axis=0)
    return [_shares_reaching(scores - STANDARDIZED_SLACK, largest) for scores, _ in parts]


def adjust_by_plain_maximum(observed: Sequence[np.ndarray], maxima: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return p-values as `adjust_by_maximum` does, without standardizing, of the maxima of each permutation."""
    largest = np.max(list(maxima), axis=0)
    return [_shares_reaching(statistics * (1.0 - STANDARDIZED_SLACK), largest) for statistics in observed]


def _shares_reaching(thresholds: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Return (1 + number of maxima that reach a threshold) / (1 + number of maxima), (thresholds,)."""
    reached = len(largest) - np.searchsorted(np.sort(largest), thresholds, side="left")
    return (1.0 + reached) / (1.0 + len(largest))


def _standardize(observed: np.ndarray, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the standardized observed statistics, and the largest one of each permutation.

    The variance of a statistic is averaged with the mean variance of all: an edge that has a weight in very few
    permutations would otherwise have the largest statistic in each of these.
    """
    blocks = [drawn[k : k + STANDARDIZED_ROWS] for k in range(0, len(drawn), STANDARDIZED_ROWS)]
    count = len(drawn) + 1.0
    rounded = observed.astype(drawn.dtype).astype(np.float64)
    mean = (drawn.sum(axis=0, dtype=np.float64) + rounded) / count
    squares = np.sum([np.square(block - mean).sum(axis=0) for block in blocks], axis=0)
    variance = (squares + np.square(rounded - mean)) / count
    scale = np.sqrt((variance + variance.mean()) / 2.0) if len(variance) else variance
    scale = np.where(scale > 0.0, scale, 1.0)
    maxima = [((block - mean) / scale).max(axis=1, initial=-np.inf) for block in blocks]
    return (rounded - mean) / scale, np.concatenate(maxima)
