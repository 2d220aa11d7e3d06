"""Variable elimination: sums and maxima over all joint states of a connected component, and exact marginals.

The *shape* of a component determines the elimination order: the number of states of its missing cells, and which of
them share a factor. Components of one shape are eliminated together, as an additional axis of every table, so that
thousands of rows with a few missing cells cost little more than one. All operations are elementwise and in a fixed
order, so that the result of a component does not depend on the other components of its batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from sparsefield.errors import DataError
from sparsefield.inference.factor_graph import FactorGraph, build_factors, write_probabilities
from sparsefield.inference.method import FillResult, InferenceMethod
from sparsefield.inference.missing_problem import MissingProblem

Array = np.ndarray

BATCH_CELLS = 2**22
"""Entries of all tables of a batch: larger batches are not faster."""

MAX_CELLS = 2**20
"""Entries of the largest table of one component: 8 MB, and a treewidth of 19 for binary cells."""


class Shape(NamedTuple):
    """The shape of a component, whose missing cells are numbered from 0."""

    states: tuple[int, ...]
    factors: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class EliminationPlan:
    """An elimination order and the cliques that it creates."""

    order: tuple[int, ...]
    cliques: tuple[tuple[int, ...], ...]
    """For each step, the eliminated cell and its neighbors at that point, ascending."""
    parents: tuple[int, ...]
    """For each step, the step that receives its message; -1 for the last step of a component."""
    factor_steps: tuple[int, ...]
    """For each factor, the step at which it is used: the elimination of the first of its cells."""
    table_size: int
    """Number of entries of the largest table."""
    feasible: bool
    """Whether no table exceeds the limit; otherwise planning ended at the first that does."""


@dataclass(frozen=True)
class EliminationBatch:
    """The components of one shape, which are eliminated together."""

    shape: Shape
    plan: EliminationPlan
    missing_cells: Array
    """(components, cells)"""
    factors: Array
    """(components, factors)"""

    def split(self) -> Iterator[EliminationBatch]:
        """Yield the components in smaller batches where tables are large."""
        states = np.array(self.shape.states)
        entries = sum(int(states[list(clique)].prod()) for clique in self.plan.cliques)
        size = max(1, BATCH_CELLS // max(entries, 1))
        for start in range(0, len(self.missing_cells), size):
            rows = slice(start, start + size)
            yield EliminationBatch(self.shape, self.plan, self.missing_cells[rows], self.factors[rows])


def batches_by_shape(
    graph: FactorGraph, max_cells: int, components: Array | None = None, max_shapes: int | None = None
) -> list[EliminationBatch]:
    """Group all components of a graph, or the given ones, by shape; plan tables of at most ``max_cells`` entries.

    With ``max_shapes``, only the components of that many shapes, the most frequent ones, are in a batch.
    """
    states = np.diff(graph.offsets)
    number = np.empty(graph.n_missing, dtype=np.int64)
    number[graph.component_cells] = np.arange(graph.n_missing) - np.repeat(
        graph.component_offsets[:-1], np.diff(graph.component_offsets)
    )
    local, counts = number[graph.edge_cell].tolist(), states.tolist()
    starts, factor_offsets = graph.component_factor_offsets.tolist(), graph.factor_offsets.tolist()
    factors, missing_cells, cell_starts = (
        graph.component_factors.tolist(),
        graph.component_cells.tolist(),
        graph.component_offsets.tolist(),
    )
    found: dict[Shape, list[int]] = {}
    for component in range(graph.n_components) if components is None else components.tolist():
        own_factors = factors[starts[component] : starts[component + 1]]
        shape = Shape(
            tuple([counts[cell] for cell in missing_cells[cell_starts[component] : cell_starts[component + 1]]]),
            tuple([tuple(local[factor_offsets[f] : factor_offsets[f + 1]]) for f in own_factors]),
        )
        found.setdefault(shape, []).append(component)
    batches = []
    for shape, members in sorted(found.items(), key=lambda item: -len(item[1]))[:max_shapes]:
        which = np.array(members)[:, None]
        batches.append(
            EliminationBatch(
                shape,
                plan_elimination(shape, max_cells),
                graph.component_cells[graph.component_offsets[which] + np.arange(len(shape.states))],
                graph.component_factors[graph.component_factor_offsets[which] + np.arange(len(shape.factors))],
            )
        )
    return batches


@lru_cache(maxsize=4096)
def plan_elimination(shape: Shape, max_cells: int) -> EliminationPlan:
    """Plan a min-fill elimination; ties go to the cell with the smallest table, then to the first."""
    neighbors: list[set[int]] = [set() for _ in shape.states]
    for factor in shape.factors:
        for cell in factor:
            neighbors[cell].update(factor)
    for cell, others in enumerate(neighbors):
        others.discard(cell)
    order, cliques, table_size = [], [], 1
    waiting: list[tuple[int, int, int]] = []
    cost = [_cost(neighbors, shape.states, cell) for cell in range(len(shape.states))]
    for cell, (fill, size) in enumerate(cost):
        heappush(waiting, (fill, size, cell))
    eliminated: set[int] = set()
    while waiting and table_size <= max_cells:
        fill, size, cell = heappop(waiting)
        if cell in eliminated or (fill, size) != cost[cell]:
            continue
        eliminated.add(cell)
        others = neighbors[cell]
        order.append(cell)
        cliques.append(tuple(sorted((cell, *others))))
        table_size = max(table_size, size)
        for other in _eliminate(neighbors, cell) if table_size <= max_cells else ():
            cost[other] = _cost(neighbors, shape.states, other)
            heappush(waiting, (*cost[other], other))
    if table_size > max_cells:
        return EliminationPlan(tuple(order), tuple(cliques), (), (), table_size, False)
    step = {cell: k for k, cell in enumerate(order)}
    parents = [min((step[g] for g in c if g != cell), default=-1) for cell, c in zip(order, cliques, strict=True)]
    steps = tuple(min(step[cell] for cell in factor) for factor in shape.factors)
    return EliminationPlan(tuple(order), tuple(cliques), tuple(parents), steps, table_size, True)


def _eliminate(neighbors: list[set[int]], cell: int) -> set[int]:
    """Connect the neighbors of a cell with each other and return the cells whose cost may change."""
    others = neighbors[cell]
    changed = set(others)
    for one in others:
        for other in others - neighbors[one]:
            if one < other:
                changed |= neighbors[one] & neighbors[other]  # these have one fill-in edge less
    changed.discard(cell)
    for other in others:
        neighbors[other] |= others
        neighbors[other] -= {other, cell}
    return changed


def _cost(neighbors: list[set[int]], states: tuple[int, ...], cell: int) -> tuple[int, int]:
    """Return the number of fill-in edges of a cell, and the size of its table."""
    others, size = neighbors[cell], states[cell]
    unconnected = -len(others)
    for other in others:
        unconnected += len(others) - len(neighbors[other] & others)
        size *= states[other]
    return unconnected // 2, size


# -- sums and maxima ---------------------------------------------------------------------------------------------------


def log_partition(graph: FactorGraph, batch: EliminationBatch, keep: Mapping[int, Array] | None = None) -> Array:
    """Return the log-partition function ln Z (components,).

    ``keep`` maps cells of the shape to codes: the sum is then restricted to these codes.
    """
    return _collect(graph, batch, maximum=False, keep=keep)[2]


class BatchMarginals(NamedTuple):
    """The log-partition functions of the components of a batch, and marginals of cells and factors."""

    log_partition: Array
    """(components,)"""
    cells: list[Array]
    """For each cell of the shape, (states, components)."""
    factors: list[Array]
    """For each factor of the shape, (entries of its table, components)."""


def batch_marginals(graph: FactorGraph, batch: EliminationBatch) -> BatchMarginals:
    """Return the marginals of all cells and factors of a batch."""
    plan, count = batch.plan, len(batch.missing_cells)
    tables, log_partition = _calibrate(graph, batch)
    for table in tables:
        np.exp(np.subtract(table, log_partition, out=table), out=table)
    cells: list[Array] = [np.empty(0)] * len(plan.order)
    for step, cell in enumerate(plan.order):
        cells[cell] = _sum_to(tables[step], plan.cliques[step], (cell,))
    parts = zip(batch.shape.factors, plan.factor_steps, strict=True)
    factors = [_sum_to(tables[step], plan.cliques[step], factor).reshape(-1, count) for factor, step in parts]
    return BatchMarginals(log_partition, cells, factors)


def _calibrate(graph: FactorGraph, batch: EliminationBatch) -> tuple[list[Array], Array]:
    """Return the logarithms of the marginals of all cliques, each plus ln Z, and ln Z (components,)."""
    plan = batch.plan
    tables, messages, total = _collect(graph, batch, maximum=False)
    for step in range(len(plan.order) - 1, -1, -1):
        cell, clique, parent = plan.order[step], plan.cliques[step], plan.parents[step]
        if parent >= 0:
            # The message from the parent, without the contribution of this step.
            wanted = tuple(other for other in clique if other != cell)
            message = _reduce(tables[parent], plan.cliques[parent], wanted, maximum=False) - messages[step]
            tables[step] = tables[step] + np.expand_dims(message, clique.index(cell))
    return tables, total


def most_probable(graph: FactorGraph, batch: EliminationBatch) -> Array:
    """Return the codes of a most probable assignment (components, cells).

    Among equally probable assignments, the one with the smallest code of the cells that are eliminated last is chosen.
    """
    plan = batch.plan
    tables, _, _ = _collect(graph, batch, maximum=True)
    codes = np.zeros((len(batch.missing_cells), len(plan.order)), dtype=np.int64)
    every = np.arange(len(batch.missing_cells))
    for step in range(len(plan.order) - 1, -1, -1):
        cell, clique = plan.order[step], plan.cliques[step]
        table = np.moveaxis(tables[step], clique.index(cell), 0)
        others = [other for other in clique if other != cell]
        codes[:, cell] = table[(slice(None), *(codes[:, other] for other in others), every)].argmax(axis=0)
    return codes


def _collect(
    graph: FactorGraph, batch: EliminationBatch, *, maximum: bool, keep: Mapping[int, Array] | None = None
) -> tuple[list[Array], list[Array], Array]:
    """Return the table of each step, one axis per cell of its clique and one for the components, and its message.

    The last result is the sum, or the maximum, over all joint states of each component.
    """
    shape, plan, count = batch.shape, batch.plan, len(batch.missing_cells)
    tables = [np.zeros((*(shape.states[cell] for cell in clique), count)) for clique in plan.cliques]
    for step, cell in enumerate(plan.order):
        first = graph.offsets[batch.missing_cells[:, cell]]
        unary_logits = graph.unary_logits[first + np.arange(shape.states[cell])[:, None]]
        tables[step] += _widen(unary_logits, (cell,), plan.cliques[step])
    for k, (factor, step) in enumerate(zip(shape.factors, plan.factor_steps, strict=True)):
        size = tuple(shape.states[cell] for cell in factor)
        first = graph.table_starts[batch.factors[:, k]]
        table = graph.tables[first + np.arange(np.prod(size))[:, None]].reshape(*size, count)
        tables[step] += _widen(table, factor, plan.cliques[step])
    for cell, codes in (keep or {}).items():
        for step, clique in enumerate(plan.cliques):
            if cell in clique:
                tables[step] = tables[step].take(codes, axis=clique.index(cell))
    messages: list[Array] = []
    for step, (cell, clique, parent) in enumerate(zip(plan.order, plan.cliques, plan.parents, strict=True)):
        others = tuple(other for other in clique if other != cell)
        messages.append(_reduce(tables[step], clique, others, maximum=maximum))
        if parent >= 0:
            tables[parent] += _widen(messages[step], others, plan.cliques[parent])
    return tables, messages, np.add.reduce([messages[step] for step, parent in enumerate(plan.parents) if parent < 0])


def _widen(table: Array, missing_cells: tuple[int, ...], clique: tuple[int, ...]) -> Array:
    """Insert axes of length 1 into a table, for the cells of a clique that it does not have."""
    sizes = iter(table.shape[:-1])
    return table.reshape(*(next(sizes) if cell in missing_cells else 1 for cell in clique), table.shape[-1])


def _sum_to(table: Array, clique: tuple[int, ...], wanted: tuple[int, ...]) -> Array:
    """Sum a table over all cells of its clique but the wanted ones, which are ascending."""
    return table.sum(axis=tuple(axis for axis, cell in enumerate(clique) if cell not in wanted))


def _reduce(table: Array, clique: tuple[int, ...], wanted: tuple[int, ...], *, maximum: bool) -> Array:
    """Reduce a table to the wanted cells by log-sum-exp, or by maxima."""
    for axis in range(len(clique) - 1, -1, -1):
        if clique[axis] in wanted:
            continue
        slices = [table.take(code, axis=axis) for code in range(table.shape[axis])]
        top = slices[0].copy()
        for part in slices[1:]:
            np.maximum(top, part, out=top)
        if maximum:
            table = top
            continue
        sums = np.zeros_like(top)
        for part in slices:
            part -= top
            sums += np.exp(part, out=part)
        table = np.log(sums, out=sums)
        table += top
    return table


# -- exact inference ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExactInference(InferenceMethod):
    """Exact inference: the marginals that enumeration would give, by variable elimination.

    The missing cells of a row, or of linked rows, form connected components of the factor graph. Each component is
    eliminated in min-fill order. Time and memory grow with the largest intermediate table, which has one entry for
    each joint state of the cells in it.

    Parameters
    ----------
    max_cells : int
        Largest number of entries of a table; rows that need a larger one are refused.
    """

    max_cells: int = MAX_CELLS
    name = "exact"

    def fill(self, problem: MissingProblem, theta: np.ndarray) -> FillResult:
        graph = build_factors(problem, theta)
        batches = batches_by_shape(graph, self.max_cells)
        for batch in batches:
            if not batch.plan.feasible:
                row = problem.entity_row[problem.entity_of_cell[batch.missing_cells[0, 0]]]
                raise DataError(
                    f"Exact inference would need a table of {batch.plan.table_size:,} cells or more for row {row}; "
                    f"max_cells is {self.max_cells:,}. Raise it with inference=ExactInference(max_cells=...), or use "
                    "inference='bp' or 'gibbs'."
                )
        write_probabilities(problem, graph.normalize(exact_logits(graph, batches)))
        return FillResult(0, frozenset({self.name}))


def exact_logits(graph: FactorGraph, batches: list[EliminationBatch]) -> np.ndarray:
    """Return the logits of the marginals of all missing cells of some batches; those of other cells are 0."""
    logits = np.zeros(graph.offsets[-1])
    for batch in batches:
        for part in batch.split():
            tables, _ = _calibrate(graph, part)
            for table, cell, clique in zip(tables, part.plan.order, part.plan.cliques, strict=True):
                found = _reduce(table, clique, (cell,), maximum=False)
                logits[graph.offsets[part.missing_cells[:, cell]] + np.arange(len(found))[:, None]] = found
    return logits
