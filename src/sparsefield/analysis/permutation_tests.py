"""This module tests whether the networks of groups differ, by permuting the group labels among rows.

As in the NetworkComparisonTest (van Borkulo and others, 2022), each group is fitted by itself, at a fixed l1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sparsefield.analysis.completed_rows import CompletedRowSet
from sparsefield.analysis.group_refits import LossModel, SubsetProblem
from sparsefield.analysis.group_statistics import CandidateEdges, GroupStatistics
from sparsefield.compute import Engine
from sparsefield.data import Layout
from sparsefield.solver.checkpoint import CheckpointFile

CHUNK = 32
"""Permutations between two saves of the state."""

SLACK = 1e-9
"""Relative difference below which two statistics count as equal."""

OBSERVED_PRECISION = 20.0
"""How much smaller the tolerance of the fits of the groups is than that of permuted groups, whose statistics only have
to be above or below the observed ones."""

MOST_NUMBERS = 5 * 10**7
"""Statistics of edges and nodes in all permutations of a test that are kept, at most."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Comparison:
    """Two groups or more that are compared, by their numbers."""

    groups: tuple[int, ...]
    number: int
    """Random numbers depend on it."""


@dataclass(frozen=True)
class PermutationResult:
    """The statistics of the groups, and how often permuted labels reached them."""

    comparison: Comparison
    observed: GroupStatistics
    counts: np.ndarray
    """(statistics,): permutations with at least the observed value, in the order of `GroupStatistics.as_vector`."""
    drawn: np.ndarray
    """(permutations, 3): global strength, structure and the largest difference of a node of each permutation."""
    singles: np.ndarray
    """(permutations, edges + nodes), in single precision; (permutations, 0) where these would be too many."""
    unconverged: int
    """Number of fits that did not converge."""
    weights: np.ndarray
    """(groups, pairs): the weights of the candidates in the fit of each group by itself."""

    @property
    def p_values(self) -> np.ndarray:
        """(statistics,): (1 + count) / (1 + permutations)."""
        return (1.0 + self.counts) / (1.0 + len(self.drawn))

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

    weights: np.ndarray
    """(groups, pairs)"""
    converged: np.ndarray
    """(groups,) bool"""

    @classmethod
    def of(cls, problem: SubsetProblem, numbers: np.ndarray, l1: float, start: np.ndarray) -> SeparateFits:
        """Return the fits of the groups with the numbers 0, 1, ... (rows,), from given parameters."""
        groups = [numbers == group for group in range(int(numbers.max()) + 1)]
        fits = [
            problem.fit(mine, l1_of_group(l1, mine.sum(), len(mine)), start, None, OBSERVED_PRECISION)
            for mine in groups
        ]
        weights = np.array([fit.theta[problem.n_biases :] for fit in fits])
        return cls(weights, np.array([fit.converged for fit in fits]))


def l1_of_group(l1: float, size: int, n_rows: int) -> float:
    """Return the penalty of a group, from that of all rows."""
    return l1 * float(np.sqrt(size / n_rows))


@dataclass(frozen=True)
class _Start:
    """Where the fit of a group begins."""

    l1: float
    theta: np.ndarray
    model: LossModel


@dataclass(frozen=True)
class PermutationTest:
    """The test of one comparison.

    Parameters
    ----------
    rows : of the compared groups and perhaps others
    layout, candidates, edges : of one table
    numbers : (rows,), the group of each row
    l1 : penalty of a fit to all rows; a group has it times the square root of its share of the rows, as the noise in a
        gradient grows with the square root of the number of rows
    separate : the fits of the groups by themselves
    start : (parameters,): biases and weights of all candidates, near those of all rows
    """

    comparison: Comparison
    rows: CompletedRowSet
    layout: Layout
    candidates: np.ndarray
    edges: CandidateEdges
    numbers: np.ndarray
    l1: float
    l2: float
    seed: int
    separate: SeparateFits
    start: np.ndarray

    def run(
        self, permutations: int, engine: Engine, saved: CheckpointFile | None, progress: Progress | None
    ) -> PermutationResult:
        """Return the result of a number of permutations, a multiple of which is saved on the way."""
        groups = list(self.comparison.groups)
        weights, converged = self.separate.weights[groups], self.separate.converged[groups].all()
        observed = GroupStatistics.of(self.edges, weights)
        threshold = observed.as_vector() * (1.0 - SLACK)
        counts, drawn, unconverged = np.zeros(len(threshold), dtype=np.int64), np.empty((0, 3)), int(not converged)
        two_groups = len(self.comparison.groups) == 2
        width = len(threshold) - 2 if two_groups and permutations * (len(threshold) - 2) <= MOST_NUMBERS else 0
        singles, n_edges = np.empty((0, width), dtype=np.float32), len(observed.edges)
        found = None if saved is None else saved.load()
        if found is not None:
            counts, drawn, singles = found[0]["counts"], found[0]["drawn"], found[0]["singles"]
            unconverged = found[1]["unconverged"]
        while len(drawn) < permutations:
            numbers = range(len(drawn), min(len(drawn) + CHUNK, permutations))
            chunk = engine.map(self._permuted, numbers)
            vectors = np.array([statistics.as_vector() for statistics, _ in chunk])
            counts = counts + (vectors >= threshold).sum(axis=0)
            node = vectors[:, 2 + n_edges :].max(axis=1, initial=0.0)
            drawn = np.concatenate([drawn, np.column_stack([vectors[:, :2], node])])
            singles = np.concatenate([singles, vectors[:, 2 : 2 + width].astype(np.float32)])
            unconverged += sum(not converged for _, converged in chunk)
            if saved is not None:
                saved.save({"counts": counts, "drawn": drawn, "singles": singles}, {"unconverged": unconverged})
            if progress is not None:
                progress(len(drawn), permutations)
        return PermutationResult(self.comparison, observed, counts, drawn, singles, unconverged, weights)

    @cached_property
    def _labels(self) -> np.ndarray:
        """(compared rows,): position of the group of each row in the comparison."""
        position = {group: k for k, group in enumerate(self.comparison.groups)}
        return np.array([position[number] for number in self.numbers[self._compared].tolist()])

    @cached_property
    def _compared(self) -> np.ndarray:
        """Numbers of the compared rows."""
        return np.flatnonzero(np.isin(self.numbers, self.comparison.groups))

    @cached_property
    def _problem(self) -> SubsetProblem:
        chosen = np.zeros(self.rows.n_rows, dtype=bool)
        chosen[self._compared] = True
        place = np.cumsum(chosen) - 1
        owner = place[self.rows.owner[chosen[self.rows.owner]]]
        rows = CompletedRowSet(self.rows.subset(chosen), owner, len(self._compared))
        return SubsetProblem(rows, self.layout, self.candidates, self.l2)

    @cached_property
    def _starts(self) -> tuple[_Start, ...]:
        problem, found = self._problem, []
        row_weight = np.bincount(problem.rows.owner, problem.rows.block.weight, problem.rows.n_rows)
        for k in range(len(self.comparison.groups)):
            mine = self._labels == k
            l1 = l1_of_group(self.l1, mine.sum(), self.rows.n_rows)
            fit, model = problem.pooled(l1, float(row_weight[mine].sum() / row_weight.sum()), self.start)
            found.append(_Start(l1, fit.theta, model))
        return tuple(found)

    def _permuted(self, number: int) -> tuple[GroupStatistics, bool]:
        """Return the statistics of groups with permuted labels, and whether all fits converged."""
        rng = np.random.default_rng([self.seed, self.comparison.number, number])
        labels, problem = rng.permutation(self._labels), self._problem
        starts = enumerate(self._starts)
        fits = [problem.fit(labels == k, start.l1, start.theta, start.model) for k, start in starts]
        weights = np.array([fit.theta[problem.n_biases :] for fit in fits])
        return GroupStatistics.of(self.edges, weights), all(fit.converged for fit in fits)
