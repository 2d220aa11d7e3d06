"""Variable elimination: sums and maxima over all states of gaps that depend on each other, one gap at a time.

A *shape* is what the order of elimination hangs on: how many states the gaps of a part have, and which of them share a
factor. Parts of one shape are eliminated together, as one more axis of every table, so that thousands of rows with a
few gaps each cost little more than one. Everything is done cell by cell and in one order, so that a part's numbers are
the same whatever it is computed with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from sparsefield.inference.factor_graph import FactorGraph

__all__ = ["Parts", "Plan", "Shape", "largest", "marginal_logits", "parts_by_shape", "plan_of", "total"]

Array = np.ndarray

CELLS_AT_A_TIME = 2**22
"""Cells of the largest table of parts that are eliminated together: beyond some megabytes there is nothing to gain."""

MAX_CELLS = 2**20
"""Cells of the largest table that elimination makes of one part: 8 MB, and a width of 19 for gaps of two states."""


class Shape(NamedTuple):
    """Gaps are numbered from 0 within a part, in their order."""

    states: tuple[int, ...]
    factors: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Plan:
    """In which order to eliminate, and which gaps are in a table together then."""

    order: tuple[int, ...]
    cliques: tuple[tuple[int, ...], ...]
    """Per step: the gap that goes, and the gaps that it is in a table with, ascending."""
    parents: tuple[int, ...]
    """The step that takes what a step leaves; -1 at the end of a part."""
    factor_steps: tuple[int, ...]
    """The step at which each factor comes in: when the first of its gaps goes."""
    cells: int
    """Of the largest table."""
    width: int
    """Gaps in the table with the most, less one."""
    narrow: bool
    """Whether no table is larger than was allowed. Else planning ended at the first that is."""


@dataclass(frozen=True)
class Parts:
    """Parts of one shape."""

    shape: Shape
    plan: Plan
    missing_cells: Array
    """(parts, gaps)"""
    factors: Array
    """(parts, factors)"""

    def pieces(self) -> Iterator[Parts]:
        """The same, a few at a time where tables are large."""
        size = max(1, CELLS_AT_A_TIME // self.plan.cells)
        for start in range(0, len(self.missing_cells), size):
            rows = slice(start, start + size)
            yield Parts(self.shape, self.plan, self.missing_cells[rows], self.factors[rows])


def parts_by_shape(graph: FactorGraph, max_cells: int, parts: Array | None = None) -> list[Parts]:
    """All parts of a graph, or some, those of one shape together; with plans for tables of at most ``max_cells``."""
    states = np.diff(graph.offsets)
    number = np.empty(graph.n_missing, dtype=np.int64)
    number[graph.component_cells] = np.arange(graph.n_missing) - np.repeat(
        graph.part_offsets[:-1], np.diff(graph.part_offsets)
    )
    local, counts = number[graph.edge_cell].tolist(), states.tolist()
    starts, factor_offsets = graph.part_factor_offsets.tolist(), graph.factor_offsets.tolist()
    factors, missing_cells, gap_starts = (
        graph.part_factors.tolist(),
        graph.component_cells.tolist(),
        graph.part_offsets.tolist(),
    )
    found: dict[Shape, list[int]] = {}
    for part in range(graph.n_parts) if parts is None else parts.tolist():
        mine = factors[starts[part] : starts[part + 1]]
        shape = Shape(
            tuple([counts[cell] for cell in missing_cells[gap_starts[part] : gap_starts[part + 1]]]),
            tuple([tuple(local[factor_offsets[f] : factor_offsets[f + 1]]) for f in mine]),
        )
        found.setdefault(shape, []).append(part)
    made = []
    for shape, members in found.items():
        which = np.array(members)[:, None]
        made.append(
            Parts(
                shape,
                plan_of(shape, max_cells),
                graph.component_cells[graph.part_offsets[which] + np.arange(len(shape.states))],
                graph.part_factors[graph.part_factor_offsets[which] + np.arange(len(shape.factors))],
            )
        )
    return made


@lru_cache(maxsize=4096)
def plan_of(shape: Shape, max_cells: int) -> Plan:
    """Eliminate the gap that ties the fewest others anew; of these, the one with the smallest table, then the first."""
    around: list[set[int]] = [set() for _ in shape.states]
    for factor in shape.factors:
        for cell in factor:
            around[cell].update(factor)
    for cell, others in enumerate(around):
        others.discard(cell)
    order, cliques, widest, largest = [], [], 0, 1
    waiting: list[tuple[int, int, int]] = []
    now = [_cost(around, shape.states, cell) for cell in range(len(shape.states))]
    for cell, cost in enumerate(now):
        heappush(waiting, (*cost, cell))
    gone: set[int] = set()
    while waiting and largest <= max_cells:
        fill, cells, cell = heappop(waiting)
        if cell in gone or (fill, cells) != now[cell]:
            continue
        gone.add(cell)
        others = around[cell]
        order.append(cell)
        cliques.append(tuple(sorted((cell, *others))))
        widest, largest = max(widest, len(others)), max(largest, cells)
        for other in _eliminate(around, cell) if largest <= max_cells else ():
            now[other] = _cost(around, shape.states, other)
            heappush(waiting, (*now[other], other))
    if largest > max_cells:
        return Plan(tuple(order), tuple(cliques), (), (), largest, widest, False)
    step = {cell: k for k, cell in enumerate(order)}
    parents = [min((step[g] for g in c if g != cell), default=-1) for cell, c in zip(order, cliques, strict=True)]
    steps = tuple(min(step[cell] for cell in factor) for factor in shape.factors)
    return Plan(tuple(order), tuple(cliques), tuple(parents), steps, largest, widest, True)


def _eliminate(around: list[set[int]], cell: int) -> set[int]:
    """Tie a gap's neighbors with each other; returns the gaps around which that changes something."""
    others = around[cell]
    changed = set(others)
    for one in others:
        for other in others - around[one]:
            if one < other:
                changed |= around[one] & around[other]  # a tie fewer is missing around these
    changed.discard(cell)
    for other in others:
        around[other] |= others
        around[other] -= {other, cell}
    return changed


def _cost(around: list[set[int]], states: tuple[int, ...], cell: int) -> tuple[int, int]:
    """Pairs of a gap's neighbors that are not tied yet, and the cells of their table."""
    others, cells = around[cell], states[cell]
    missing = -len(others)
    for other in others:
        missing += len(others) - len(around[other] & others)
        cells *= states[other]
    return missing // 2, cells


# -- sums and maxima ---------------------------------------------------------------------------------------------------


def total(graph: FactorGraph, parts: Parts, keep: Mapping[int, Array] | None = None) -> Array:
    """(parts,): ln of the sum over all states of the exponential of everything, ln Z.

    ``keep`` names gaps of the shape, and codes: the sum is over these codes of theirs alone.
    """
    plan = parts.plan
    _, sent = _collect(graph, parts, plan, hard=False, keep=keep)
    roots = [sent[step] for step, parent in enumerate(plan.parents) if parent < 0]
    return np.add.reduce(roots)


def marginal_logits(graph: FactorGraph, parts: Parts) -> list[Array]:
    """Per gap of the shape, (states, parts): ln of its marginal probabilities and a constant."""
    plan = parts.plan
    tables, sent = _collect(graph, parts, plan, hard=False)
    found: list[Array] = [np.empty(0)] * len(plan.order)
    for step in range(len(plan.order) - 1, -1, -1):
        cell, clique, parent = plan.order[step], plan.cliques[step], plan.parents[step]
        if parent >= 0:
            # What the parent holds, less what it has from here.
            wanted = tuple(other for other in clique if other != cell)
            told = _reduce(tables[parent], plan.cliques[parent], wanted, hard=False) - sent[step]
            tables[step] = tables[step] + np.expand_dims(told, clique.index(cell))
        found[cell] = _reduce(tables[step], clique, (cell,), hard=False)
    return found


def largest(graph: FactorGraph, parts: Parts) -> tuple[Array, Array]:
    """(parts, gaps) codes of a most probable assignment, and (parts,) ln of its exponential.

    Of several that are as probable, the one with the smallest code where gaps go last is taken.
    """
    plan = parts.plan
    tables, sent = _collect(graph, parts, plan, hard=True)
    codes = np.zeros((len(parts.missing_cells), len(plan.order)), dtype=np.int64)
    every = np.arange(len(parts.missing_cells))
    for step in range(len(plan.order) - 1, -1, -1):
        cell, clique = plan.order[step], plan.cliques[step]
        table = np.moveaxis(tables[step], clique.index(cell), 0)
        others = [other for other in clique if other != cell]
        codes[:, cell] = table[(slice(None), *(codes[:, other] for other in others), every)].argmax(axis=0)
    roots = [sent[step] for step, parent in enumerate(plan.parents) if parent < 0]
    return codes, np.add.reduce(roots)


def _collect(
    graph: FactorGraph, parts: Parts, plan: Plan, *, hard: bool, keep: Mapping[int, Array] | None = None
) -> tuple[list[Array], list[Array]]:
    """Per step its table, with one axis for each gap of its clique and one for the parts; and what it sends on."""
    shape, count = parts.shape, len(parts.missing_cells)
    tables = [np.zeros((*(shape.states[cell] for cell in clique), count)) for clique in plan.cliques]
    for step, cell in enumerate(plan.order):
        first = graph.offsets[parts.missing_cells[:, cell]]
        unary = graph.unary[first + np.arange(shape.states[cell])[:, None]]
        tables[step] += _widen(unary, (cell,), plan.cliques[step])
    for k, (factor, step) in enumerate(zip(shape.factors, plan.factor_steps, strict=True)):
        size = tuple(shape.states[cell] for cell in factor)
        first = graph.table_offsets[parts.factors[:, k]]
        table = graph.tables[first + np.arange(np.prod(size))[:, None]].reshape(*size, count)
        tables[step] += _widen(table, factor, plan.cliques[step])
    for cell, codes in (keep or {}).items():
        for step, clique in enumerate(plan.cliques):
            if cell in clique:
                tables[step] = tables[step].take(codes, axis=clique.index(cell))
    sent: list[Array] = []
    for step, (cell, clique, parent) in enumerate(zip(plan.order, plan.cliques, plan.parents, strict=True)):
        rest = tuple(other for other in clique if other != cell)
        sent.append(_reduce(tables[step], clique, rest, hard=hard))
        if parent >= 0:
            tables[parent] += _widen(sent[step], rest, plan.cliques[parent])
    return tables, sent


def _widen(table: Array, missing_cells: tuple[int, ...], clique: tuple[int, ...]) -> Array:
    """A table over ascending gaps with axes of length 1 for the other gaps of a clique."""
    there = iter(table.shape[:-1])
    return table.reshape(*(next(there) if cell in missing_cells else 1 for cell in clique), table.shape[-1])


def _reduce(table: Array, clique: tuple[int, ...], wanted: tuple[int, ...], *, hard: bool) -> Array:
    """ln of the sum of exponentials over all gaps but those wanted, or the largest of the values."""
    for axis in range(len(clique) - 1, -1, -1):
        if clique[axis] in wanted:
            continue
        slices = [table.take(code, axis=axis) for code in range(table.shape[axis])]
        top = slices[0].copy()
        for part in slices[1:]:
            np.maximum(top, part, out=top)
        if hard:
            table = top
            continue
        sums = np.zeros_like(top)
        for part in slices:
            part -= top
            sums += np.exp(part, out=part)
        table = np.log(sums, out=sums)
        table += top
    return table
