"""Permutation tests of whether the networks of groups of rows differ.

As in the NetworkComparisonTest (van Borkulo and others, 2022), each group is fitted by itself, at a fixed l1, and the
labels of the groups are permuted among rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np
from scipy.optimize import linear_sum_assignment

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

OBSERVED_PRECISION = 20.0
"""How much smaller the tolerance of the fits of the groups is than that of permuted groups, whose statistics only have
to be above or below the observed ones."""

MOST_NUMBERS = 5 * 10**7
"""Statistics of edges and nodes in all permutations of a test that are kept, at most."""

MATCHED_ROWS = 1000
"""Rows that are matched at a time: the time of an assignment grows faster than their number."""

SHUFFLES, CHANCE = 199, 0.1
"""Permutations of the test whether missing cells differ between groups, and the p-value above which they do not."""

Adjustment = Literal["max", "holm", "bh", "none"]
Progress = Callable[[int, int], None]


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


@dataclass(frozen=True)
class GroupStatistics:
    """How much the networks of two groups, or of the two most different ones of several, differ."""

    global_strength: float
    """Difference of the sums of the strengths of all edges."""
    structure: float
    """Largest difference of an edge."""
    edges: np.ndarray
    """(edges,): norm of the difference of the weights."""
    nodes: np.ndarray
    """(variables,): difference of the strength centrality, the sum of the strengths of a variable's edges."""

    @classmethod
    def of(cls, edges: CandidateEdges, weights: np.ndarray) -> GroupStatistics:
        """Return the statistics of the weights of groups, (groups, pairs)."""
        pairs = list(combinations(range(len(weights)), 2))
        differences = np.max([edges.norms(weights[a] - weights[b]) for a, b in pairs], axis=0)
        strengths = np.array([edges.norms(part) for part in weights])
        nodes = np.array([sum_by_node(edges.ends, part, edges.n_variables) for part in strengths])
        return cls(
            float(np.ptp(strengths.sum(axis=1))),
            float(differences.max(initial=0.0)),
            differences,
            np.ptp(nodes, axis=0),
        )

    def as_vector(self) -> np.ndarray:
        """Return all statistics in one array: global strength, structure, edges, nodes."""
        return np.concatenate([[self.global_strength, self.structure], self.edges, self.nodes])


@dataclass(frozen=True)
class PermutationResult:
    """The statistics of two groups or more, and how often permuted labels reached them."""

    groups: tuple[int, ...]
    """Numbers of the compared groups."""
    observed: GroupStatistics
    counts: np.ndarray
    """(statistics,): permutations with at least the observed value, in the order of `GroupStatistics.as_vector`."""
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

    @property
    def edge_p(self) -> np.ndarray:
        """(edges,)"""
        return self.p_values[2 : 2 + len(self.observed.edges)]

    @property
    def node_p(self) -> np.ndarray:
        """(variables,)"""
        return self.p_values[2 + len(self.observed.edges) :]


@dataclass(frozen=True)
class SeparateFits:
    """The fits of all groups, each by itself. Every comparison of a group has the same one."""

    l1: tuple[float, ...]
    """The penalty of each group: that of all rows times the square root of its share of the rows, as the noise in a
    gradient grows with the square root of the number of rows."""
    fits: tuple[SubsetFit, ...]
    weights: np.ndarray
    """(groups, pairs)"""

    @classmethod
    def of(cls, problem: SubsetProblem, numbers: np.ndarray, l1: float, start: np.ndarray) -> SeparateFits:
        """Return the fits of the groups with the numbers 0, 1, ... (rows,), from given parameters."""
        groups = [numbers == group for group in range(int(numbers.max()) + 1)]
        penalties = tuple(l1 * float(np.sqrt(rows.mean())) for rows in groups)
        fits = tuple(
            problem.fit(rows, penalty, start, None, OBSERVED_PRECISION)
            for rows, penalty in zip(groups, penalties, strict=True)
        )
        return cls(penalties, fits, np.array([fit.theta[problem.n_biases :] for fit in fits]))


@dataclass(frozen=True)
class PermutationTest:
    """The test of two groups or more.

    Parameters
    ----------
    groups : numbers of the compared groups
    number : of the test, from which its random numbers follow
    all_rows : the rows of all groups
    numbers : (rows,), the group of each row
    separate : the fits of the groups by themselves
    start : (parameters,): biases and weights of all candidates, near those of all rows
    """

    groups: tuple[int, ...]
    number: int
    all_rows: SubsetProblem
    numbers: np.ndarray
    seed: int
    separate: SeparateFits
    start: np.ndarray

    def run(
        self, permutations: int, engine: Engine, checkpoint: CheckpointFile | None, progress: Progress | None
    ) -> PermutationResult:
        """Return the result of a number of permutations, a multiple of which is saved on the way."""
        observed = GroupStatistics.of(self._edges, self.separate.weights[list(self.groups)])
        threshold = observed.as_vector() * (1.0 - SLACK)
        counts, drawn = np.zeros(len(threshold), dtype=np.int64), np.empty((0, 3))
        unconverged = int(not all(self.separate.fits[group].converged for group in self.groups))
        width, n_edges = len(threshold) - 2, len(observed.edges)
        if len(self.groups) > 2 or permutations * width > MOST_NUMBERS:
            width = 0
        singles = np.empty((0, width), dtype=np.float32)
        saved = None if checkpoint is None else checkpoint.load()
        if saved is not None:
            arrays, facts = saved
            counts, drawn, singles = arrays["counts"], arrays["drawn"], arrays["singles"]
            unconverged = facts["unconverged"]
        while len(drawn) < permutations:
            chunk = engine.map(self._permuted, range(len(drawn), min(len(drawn) + CHUNK, permutations)))
            vectors = np.array([statistics.as_vector() for statistics, _ in chunk])
            counts = counts + (vectors >= threshold).sum(axis=0)
            node = vectors[:, 2 + n_edges :].max(axis=1, initial=0.0)
            drawn = np.concatenate([drawn, np.column_stack([vectors[:, :2], node])])
            singles = np.concatenate([singles, vectors[:, 2 : 2 + width].astype(np.float32)])
            unconverged += sum(not converged for _, converged in chunk)
            if checkpoint is not None:
                checkpoint.save({"counts": counts, "drawn": drawn, "singles": singles}, {"unconverged": unconverged})
            if progress is not None:
                progress(len(drawn), permutations)
        return PermutationResult(self.groups, observed, counts, drawn, singles, unconverged)

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
    def _starts(self) -> tuple[tuple[float, np.ndarray, LossModel], ...]:
        """Penalty, parameters to start from and model of the loss, for each group."""
        problem, starts = self._problem, []
        row_weight = np.bincount(problem.rows.owner, problem.rows.block.weight, problem.rows.n_rows)
        for k, group in enumerate(self.groups):
            share = float(row_weight[self._labels == k].sum() / row_weight.sum())
            fit, model = problem.pooled(self.separate.l1[group], share, self.start)
            starts.append((self.separate.l1[group], fit.theta, model))
        return tuple(starts)

    def _permuted(self, number: int) -> tuple[GroupStatistics, bool]:
        """Return the statistics of groups with permuted labels, and whether all fits converged."""
        rng = np.random.default_rng([self.seed, self.number, number])
        labels, problem = rng.permutation(self._labels), self._problem
        fits = [problem.fit(labels == k, *start) for k, start in enumerate(self._starts)]
        weights = np.array([fit.theta[problem.n_biases :] for fit in fits])
        return GroupStatistics.of(self._edges, weights), all(fit.converged for fit in fits)


def adjust_results(
    pairs: Sequence[PermutationResult], adjustment: Adjustment
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the adjusted p-values of edges and of nodes, for each pair of groups; NaN without permutations.

    Edges are adjusted for the edges of all pairs of groups, and nodes for all nodes.
    """
    edge_p, node_p = [result.edge_p for result in pairs], [result.node_p for result in pairs]
    if adjustment != "max" or not len(pairs[0].drawn):
        return _adjust_all(edge_p, adjustment), _adjust_all(node_p, adjustment)
    edges, nodes = [result.observed.edges for result in pairs], [result.observed.nodes for result in pairs]
    n_edges = len(edges[0])
    if pairs[0].singles.shape[1]:
        return (
            adjust_by_maximum(edges, [result.singles[:, :n_edges] for result in pairs]),
            adjust_by_maximum(nodes, [result.singles[:, n_edges:] for result in pairs]),
        )
    return (
        adjust_by_plain_maximum(edges, [result.drawn[:, 1] for result in pairs]),
        adjust_by_plain_maximum(nodes, [result.drawn[:, 2] for result in pairs]),
    )


def _adjust_all(p: Sequence[np.ndarray], method: Adjustment) -> list[np.ndarray]:
    """Return p-values of several pairs of groups, adjusted for their number in all of them."""
    return np.split(adjust(np.concatenate(p), method), np.cumsum([len(part) for part in p])[:-1])


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
    count, order = len(p), np.argsort(p, kind="stable")
    adjusted = p.copy()
    if method == "holm":
        adjusted[order] = np.maximum.accumulate(p[order] * np.arange(count, 0, -1))
    elif method == "bh":
        raised = p[order] * count / np.arange(1, count + 1)
        adjusted[order] = np.minimum.accumulate(raised[::-1])[::-1]
    return np.minimum(adjusted, 1.0)


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
