"""This module computes the curvature of the pseudo-likelihood: the Hessian of each variable's regression on its arcs.

A variable is a (multinomial) logistic regression on the sources of its arcs. The Hessian of the loss is the sum of the
Hessians of these regressions, whose weights are shared by two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparsefield.data import Block, Layout
from sparsefield.data.table import missing_cells
from sparsefield.inference.completions import rows_of_block
from sparsefield.kernels.mean_field_sweep import predict_states
from sparsefield.model import Adjacency
from sparsefield.objectives.block_evaluation import EvaluatedBlock

CHUNK = 16
"""Variables that a thread processes at a time."""


@dataclass(frozen=True)
class SampledRows:
    """Some rows of a table, with weights that make up for the others."""

    table: int
    block: Block

    @cached_property
    def columns(self) -> np.ndarray:
        """(columns, rows) in single precision, which is exact enough for a Hessian."""
        return self.block.beliefs.astype(np.float32)


@dataclass(frozen=True)
class RegressionHessian:
    """The Hessian of the regression of one variable, without its free biases, which follow from the weights."""

    parameters: np.ndarray
    """(arcs,): numbers of the parameters in theta: penalized biases first, then those of the arcs."""
    matrix: np.ndarray
    """(arcs, arcs) float32: the Hessian of the loss minimized over the free biases."""
    biases: np.ndarray
    """(free biases,): numbers in theta."""
    of_gradient: np.ndarray
    """(free biases, free biases): minus this times their gradient is the step of the biases with fixed weights."""
    of_weights: np.ndarray
    """(free biases, arcs): minus this times the step of the weights is added."""


def sample_rows(part: EvaluatedBlock, stride: int) -> EvaluatedBlock:
    """Return every stride-th row of a part, with the weight of all."""
    block = part.block
    if stride == 1:
        return EvaluatedBlock(part.table, block)
    chosen = rows_of_block(block, np.arange(-block.start % stride, block.n_rows, stride))
    return EvaluatedBlock(part.table, chosen._replace(weight=stride * chosen.weight))


def join_samples(parts: Sequence[EvaluatedBlock], n_tables: int) -> list[SampledRows]:
    """Return the sampled rows of each table."""
    found = []
    for table in range(n_tables):
        blocks = [part.block for part in parts if part.table == table]
        if not blocks:
            continue
        codes = np.concatenate([block.codes for block in blocks], axis=1)
        offsets, missing_rows = missing_cells(codes)
        joined = blocks[0]._replace(
            codes=codes,
            beliefs=np.concatenate([block.beliefs for block in blocks], axis=1),
            weight=np.concatenate([block.weight for block in blocks]),
            cell_offsets=offsets,
            missing_rows=missing_rows,
        )
        found.append(SampledRows(table, joined))
    return found


def regression_hessians(
    samples: Sequence[SampledRows],
    layout: Layout,
    graphs: Sequence[Adjacency],
    theta: np.ndarray,
    free: np.ndarray,
    ridge: float,
    run: Callable[[Callable[[int], Any], Iterable[int]], list[Any]],
) -> list[RegressionHessian]:
    """Return the Hessian of every variable that has arcs or biases without penalty.

    Parameters
    ----------
    samples : rows of each table
    free : (states,) bool, which biases have no penalty
    ridge : added to the diagonal of the biases
    run : maps a function over numbers, perhaps on threads
    """
    found: list[RegressionHessian] = []
    for sample in samples:
        graph, block, schema = graphs[sample.table], sample.block, layout.schemas[sample.table]
        states = np.zeros((int(schema.coding.state_offsets[-1]), block.n_rows))
        predict_states(block, graph, theta, states)
        variables = _TableRegressions(sample, graph, states, [v.coded for v in schema.targets], free, ridge)
        targets = np.flatnonzero(np.diff(graph.target_offsets)).tolist()
        chunks = [targets[k : k + CHUNK] for k in range(0, len(targets), CHUNK)]
        found += [hessian for chunk in run(variables.hessians, chunks) for hessian in chunk]
    return found


@dataclass(frozen=True)
class _TableRegressions:
    """The regressions of the variables of one table at one point."""

    sample: SampledRows
    graph: Adjacency
    states: np.ndarray
    coded: Sequence[np.ndarray]
    free: np.ndarray
    ridge: float

    def hessians(self, targets: Sequence[int]) -> list[RegressionHessian]:
        """Return the Hessians of some variables."""
        return [self._hessian(v) for v in targets]

    def _hessian(self, v: int) -> RegressionHessian:
        graph, block = self.graph, self.sample.block
        first, last = int(graph.target_offsets[v]), int(graph.target_offsets[v + 1])
        missing = slice(*block.cell_offsets[v : v + 2])
        weight = block.weight
        if missing.start < missing.stop:
            weight = weight.copy()
            weight[block.missing_rows[missing]] = 0.0
        sources, parameters = zip(*(self._sources(c) for c in range(first, last)), strict=True)
        if last - first == 1:
            hessian = (sources[0] * self._variance(v, weight)) @ sources[0].T
            return self._eliminate_biases(hessian, parameters[0], int(self.free[parameters[0][0]]))
        sizes = np.cumsum([0, *map(len, sources)])
        hessian = np.empty((sizes[-1], sizes[-1]), dtype=np.float32)
        for a, b, covariance in self._covariances(v, weight):
            product = (sources[a] * covariance) @ sources[b].T
            hessian[sizes[a] : sizes[a + 1], sizes[b] : sizes[b + 1]] = product
            if a != b:
                hessian[sizes[b] : sizes[b + 1], sizes[a] : sizes[a + 1]] = product.T
        every = np.concatenate(parameters)
        biases = sizes[:-1][self.free[every[sizes[:-1]]]]
        order = np.concatenate([biases, np.delete(np.arange(len(every)), biases)])
        return self._eliminate_biases(hessian[np.ix_(order, order)], every[order], len(biases))

    def _variance(self, v: int, weight: np.ndarray) -> np.ndarray:
        """Return the variance of the only column of a variable in each row, times its weight."""
        states = slice(*self.graph.coding.state_offsets[v : v + 2])
        p, coded = self.states[states], self.coded[v][:, 0]
        mean = coded @ p
        return (weight * (np.square(coded) @ p - mean * mean)).astype(np.float32)

    def _covariances(self, v: int, weight: np.ndarray) -> Iterable[tuple[int, int, np.ndarray]]:
        """Yield pairs of columns of a variable, with their covariance in each row times its weight."""
        p = self.states[slice(*self.graph.coding.state_offsets[v : v + 2])]
        coded = self.coded[v].T
        means = coded @ p
        for a in range(len(coded)):
            covariances = (weight * ((coded[a] * coded[: a + 1]) @ p - means[a] * means[: a + 1])).astype(np.float32)
            yield from ((a, b, covariances[b]) for b in range(a + 1))

    def _sources(self, column: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the values (1 + arcs, rows) of a constant and of the sources of a column, and their parameters."""
        graph, columns = self.graph, self.sample.columns
        start, stop = graph.arc_offsets[column : column + 2].tolist()
        terms = slice(*graph.term_offsets[column : column + 2].tolist())
        n_terms = terms.stop - terms.start
        values = np.empty((1 + stop - start + n_terms, columns.shape[1]), dtype=np.float32)
        parameters = np.empty(len(values), dtype=np.int64)
        values[0], parameters[0] = 1.0, graph.first + column
        columns.take(graph.arc_source[start:stop], axis=0, out=values[1 : 1 + stop - start], mode="clip")
        parameters[1 : 1 + stop - start] = graph.arc_feature[start:stop]
        if n_terms:
            parameters[-n_terms:] = graph.term_feature[terms]
            for k, which in enumerate(graph.term_source[terms], start=len(values) - n_terms):
                columns[which[which >= 0]].prod(axis=0, out=values[k])
        return values, parameters

    def _eliminate_biases(self, hessian: np.ndarray, parameters: np.ndarray, count: int) -> RegressionHessian:
        """Return the Hessian without its first parameters, which are free biases."""
        own, cross, matrix = hessian[:count, :count], hessian[:count, count:], hessian[count:, count:]
        inverse = np.linalg.inv(own + self.ridge * np.eye(count)) if count > 1 else 1.0 / (own + self.ridge)
        of_weights = inverse @ cross
        matrix = matrix - cross.T @ of_weights
        return RegressionHessian(parameters[count:], matrix.astype(np.float32, copy=False), parameters[:count], inverse, of_weights)
