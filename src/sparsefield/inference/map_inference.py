"""The most probable joint states of gaps: exact by elimination, searched for where gaps depend on each other widely."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Block, DenseDataset
from sparsefield.inference.belief_propagation import BeliefPropagation, message_beliefs
from sparsefield.inference.elimination import MAX_CELLS, largest, parts_by_shape, total
from sparsefield.inference.factor_graph import FactorGraph, build_factors, component_of_cell, entity_of_cell
from sparsefield.inference.missing_problem import compile_problem, independent_groups
from sparsefield.kernels.gibbs_chains import search
from sparsefield.model import Field

__all__ = ["MAPResult", "complete"]

RESTARTS, SWEEPS = 20, 50
"""Of the search: how often it starts anew, and sweeps in which each start cools down."""


@dataclass(frozen=True)
class MAPResult:
    """The most probable joint states of all gaps, table by table."""

    codes: tuple[np.ndarray, ...]
    """(targets, rows) int32, seen cells included."""
    exact: tuple[np.ndarray, ...]
    """(rows,): whether nothing can be more probable. Else the states were searched for."""
    log_probability: tuple[np.ndarray, ...]
    """(rows,): ln of the joint probability of a row's gaps, and of those that it is linked with, given what is seen;
    NaN where states were searched for."""


def complete(field: Field, sample: DenseDataset, engine: Engine, *, max_cells: int = MAX_CELLS) -> MAPResult:
    """Find the most probable joint states of all gaps.

    Parts that need no table of more than ``max_cells`` are eliminated, with maxima for sums. In others, max-product
    belief propagation makes a first proposal; it and twenty restarts, each cooled down by Gibbs sweeps, are improved
    one gap at a time, and the best is taken.
    """
    blocks = [table.blocks for table in sample.tables]
    codes = [np.concatenate([block.codes for block in part], axis=1) for part in blocks]
    exact = [np.ones(table.n_rows, dtype=bool) for table in sample.tables]
    chances = [np.zeros(table.n_rows) for table in sample.tables]

    def one(members: list[tuple[int, Block]]) -> None:
        woven = compile_problem(sample, field.graphs, members)
        graph = build_factors(woven.web, field.theta)
        best, sure, chance = best_codes(graph, max_cells)
        member, variable, row = woven.gap_cells
        circle = woven.web.entity_circle[entity_of_cell(woven.web)]
        # Each part's chance counts once for its circle.
        of_circle = np.bincount(circle[graph.component_cells[graph.part_offsets[:-1]]], chance, woven.web.n_circles)
        for k, (t, block) in enumerate(members):
            mine = member == k
            where = block.start + row[mine]
            codes[t][variable[mine], where] = best[mine]
            np.logical_and.at(exact[t], where, sure[mine])
            chances[t][where] = of_circle[circle[mine]]

    engine.map(one, independent_groups(sample, blocks))
    return MAPResult(tuple(codes), tuple(exact), tuple(chances))


def best_codes(graph: FactorGraph, max_cells: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(gaps,) the most probable codes, and whether they surely are; (parts,) ln of their probability."""
    codes, sure = np.zeros(graph.n_missing, dtype=np.int64), np.ones(graph.n_missing, dtype=bool)
    chance, wide, part = np.full(graph.n_parts, np.nan), [], component_of_cell(graph)
    for parts in parts_by_shape(graph, max_cells):
        if not parts.plan.narrow:
            wide.append(part[parts.missing_cells[:, 0]])
            sure[parts.missing_cells] = False
            continue
        for piece in parts.pieces():
            codes[piece.missing_cells], top = largest(graph, piece)
            chance[part[piece.missing_cells[:, 0]]] = np.minimum(top - total(graph, piece), 0.0)
    if wide:
        _search(graph, np.concatenate(wide), codes)
    return codes, sure, chance


def _search(graph: FactorGraph, parts: np.ndarray, codes: np.ndarray) -> None:
    logits, _ = message_beliefs(graph, BeliefPropagation(damping=0.3), parts, hard=True)
    states, room = np.diff(graph.offsets), np.empty(np.diff(graph.offsets).max())
    for part in parts:
        for cell in graph.component_cells[graph.part_offsets[part] : graph.part_offsets[part + 1]]:
            first = graph.offsets[cell]
            codes[cell] = logits[first : first + states[cell]].argmax()
        search(graph, part, 0, RESTARTS, SWEEPS, codes, room)
