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

    def run(
        self, permutations: int, engine: Engine, saved: CheckpointFile | None, progress: Progress | None
    ) -> PermutationResult:
        """Return the result of a number of permutations, a multiple of which is saved on the way."""
        weights, converged = self._weights(self._labels)
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

    def selected_pairs(self) -> np.ndarray:
        """Return the candidates that have a weight in the fit of a group, (pairs, 2)."""
        return self.candidates[(self._weights(self._labels)[0] != 0.0).any(axis=0)]

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
            l1 = self.l1 * float(np.sqrt(np.mean(mine) * len(mine) / self.rows.n_rows))
            fit, model = problem.pooled(l1, float(row_weight[mine].sum() / row_weight.sum()))
            found.append(_Start(l1, fit.theta, model))
        return tuple(found)

    def _permuted(self, number: int) -> tuple[GroupStatistics, bool]:
        rng = np.random.default_rng([self.seed, self.comparison.number, number])
        return self._statistics(rng.permutation(self._labels))

    def _statistics(self, labels: np.ndarray) -> tuple[GroupStatistics, bool]:
        """Return the statistics of groups with given labels, and whether all fits converged."""
        weights, converged = self._weights(labels)
        return GroupStatistics.of(self.edges, weights), converged

    def _weights(self, labels: np.ndarray) -> tuple[np.ndarray, bool]:
        """Return the weights (groups, pairs) of groups with given labels, and whether all fits converged."""
        problem, starts = self._problem, self._starts
        fits = [problem.fit(labels == k, start.l1, start.theta, start.model) for k, start in enumerate(starts)]
        return np.array([fit.theta[problem.n_biases :] for fit in fits]), all(fit.converged for fit in fits)
