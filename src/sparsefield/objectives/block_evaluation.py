"""A block as objectives look at it: what is done with one part of the rows, wherever that part lies.

Functions here change nothing that they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sparsefield.data import Block, DenseDataset, Layout
from sparsefield.inference.method import InferenceMethod, fill_together
from sparsefield.kernels import mean_field_sweep as kernels
from sparsefield.model import Adjacency
from sparsefield.objectives.objective import Objective

__all__ = ["EvaluatedBlock"]


class EvaluatedBlock(NamedTuple):
    """A block of a table, and what the last evaluation left there."""

    table: int
    block: Block
    errors: np.ndarray = np.empty((0, 0))
    """(states, rows): q1 - q0, times the row's weight (Definition 1)."""
    expectations: np.ndarray = np.empty((0, 0))
    """(columns, rows): the beliefs that errors are multiplied with; their deviation from the mean is the signal."""
    summed: Any = None
    """Of latent variables: see `sparsefield.inference.latent_inference`."""


def as_evaluated(block: Block, table: int = 0) -> tuple[EvaluatedBlock, None]:
    """Return a block of a table, before any evaluation."""
    return EvaluatedBlock(table, block), None


def identity(part: EvaluatedBlock) -> EvaluatedBlock:
    """Return the part itself."""
    return part


def evaluate(
    part: EvaluatedBlock, layout: Layout, objective: Objective, graphs: Sequence[Adjacency], theta: np.ndarray
) -> tuple[EvaluatedBlock, tuple[float, np.ndarray, np.ndarray]]:
    """The part with errors and expectations; loss, gradient, and `uncertainty`."""
    space = objective.prepare(part.block)
    loss = objective.sweep(part.block, graphs[part.table], theta, space)
    part = part._replace(errors=space.errors, expectations=space.expectations)
    return part, (loss, gradient(part, objective.averaged, graphs, len(theta)), uncertainty(part, layout))


def gradient(part: EvaluatedBlock, averaged: bool, graphs: Sequence[Adjacency], size: int) -> np.ndarray:
    """Of graphs with ``size`` parameters, from the errors of the last evaluation."""
    out, graph = np.empty(size), graphs[part.table]
    kernels.gradient(graph, part.errors, part.expectations, out)
    if len(graph.members):
        if averaged:
            kernels.add_changed_conjunctions(graph, part.errors, part.block.beliefs, part.block.weight, out)
        else:
            kernels.add_conjunctions(graph, part.errors, part.expectations, out)
    return out


def impute_missing(
    part: EvaluatedBlock, layout: Layout, inference: InferenceMethod, graphs: Sequence[Adjacency], theta: np.ndarray
) -> tuple[EvaluatedBlock, np.ndarray]:
    """The part with new beliefs in its gaps; (states of all tables,): how far beliefs have moved. Of unlinked rows."""
    block = part.block
    if not len(block.missing_rows):
        return part, np.zeros(layout.n_states)
    before, block = block, block._replace(beliefs=block.beliefs.copy())
    fill_together(DenseDataset(layout, ()), [(part.table, block)], inference, graphs, theta)
    return part._replace(block=block), largest_change(part.table, before, block, layout)


def largest_change(table: int, before: Block, after: Block, layout: Layout) -> np.ndarray:
    """(states of all tables,): by how much beliefs in gaps differ at most."""
    n = after.n_target_states
    return _among(np.abs(after.beliefs[:n] - before.beliefs[:n]).max(axis=1, initial=0.0), layout.state_starts, table)


def set_missing(part: EvaluatedBlock, beliefs: np.ndarray, layout: Layout) -> tuple[EvaluatedBlock, None]:
    """The part with given beliefs in its gaps, as `gaps` tells them."""
    if not len(beliefs):
        return part, None
    block = part.block._replace(beliefs=part.block.beliefs.copy())
    block.beliefs[: block.n_target_states][_missing(part, layout)] = beliefs
    return part._replace(block=block), None


def find_changes(before: Block, after: Block) -> tuple[np.ndarray, np.ndarray]:
    """Places and values of beliefs that are other than they were: in gaps, and, of the rows that see a gap over a link,
    what they see of their neighbors, summed."""
    changed = np.flatnonzero(before.beliefs != after.beliefs)
    return changed, after.beliefs.ravel()[changed]


def apply_changes(part: EvaluatedBlock, changes: tuple[np.ndarray, np.ndarray]) -> tuple[EvaluatedBlock, None]:
    """The part with such news taken over."""
    places, values = changes
    if not len(places):
        return part, None
    block = part.block._replace(beliefs=part.block.beliefs.copy())
    block.beliefs.ravel()[places] = values
    return part._replace(block=block), None


def missing_beliefs(part: EvaluatedBlock, layout: Layout) -> np.ndarray:
    """q0 of all hidden cells, one after another."""
    return part.block.beliefs[: part.block.n_target_states][_missing(part, layout)]


def count_missing(part: EvaluatedBlock, layout: Layout) -> int:
    return int(_missing(part, layout).sum())


def _missing(part: EvaluatedBlock, layout: Layout) -> np.ndarray:
    """(states, rows): which beliefs are about hidden cells."""
    return np.repeat(part.block.codes < 0, np.diff(layout.schemas[part.table].state_offsets), axis=0)


def sum_factors(part: EvaluatedBlock, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """(columns of all tables,): weighted sums of the expectations; (states of all tables,): of the errors."""
    return (
        _among(part.expectations @ part.block.weight, layout.column_starts, part.table),
        _among(part.errors.sum(axis=1), layout.state_starts, part.table),
    )


def sum_beliefs(part: EvaluatedBlock, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """(columns of all tables,) each: weighted sums of q0 and of its squares."""
    beliefs, weight = part.block.beliefs, part.block.weight
    return (
        _among(beliefs @ weight, layout.column_starts, part.table),
        _among(np.square(beliefs) @ weight, layout.column_starts, part.table),
    )


def sum_products(part: EvaluatedBlock, layout: Layout, conjunctions: np.ndarray) -> np.ndarray:
    """(conjunctions, 2): weighted sums of products of columns and of their squares, for those of the part's table."""
    total = np.zeros((len(conjunctions), 2))
    mine = np.flatnonzero(layout.table_of_column[conjunctions[:, 0]] == part.table)
    if len(mine):
        which = np.where(conjunctions[mine] >= 0, conjunctions[mine] - layout.column_starts[part.table], -1)
        found = np.empty((len(mine), 2))
        kernels.product_moments(part.block.beliefs, part.block.weight, which, found)
        total[mine] = found
    return total


def uncertainty(part: EvaluatedBlock, layout: Layout) -> np.ndarray:
    """(states of all tables,): p (1 - p) summed over rows, read off the errors."""
    out = np.empty(len(part.errors))
    kernels.uncertainty(part.errors, part.block.weight, out)
    return _among(out, layout.state_starts, part.table)


def _among(values: np.ndarray, starts: np.ndarray, table: int) -> np.ndarray:
    """What belongs to one table, in its place among all tables."""
    out = np.zeros(int(starts[-1]))
    out[starts[table] : starts[table] + len(values)] = values
    return out
