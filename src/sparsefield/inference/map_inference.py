"""This module finds the most probable joint states of missing cells (MAP), by elimination or simulated annealing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Block, Dataset
from sparsefield.inference.belief_propagation import BeliefPropagation, propagate_messages
from sparsefield.inference.elimination import MAX_CELLS, batches_by_shape, log_partition, most_probable
from sparsefield.inference.factor_graph import FactorGraph, build_factors, component_of_cell, entity_of_cell
from sparsefield.inference.missing_problem import compile_problem, independent_groups
from sparsefield.kernels.gibbs_chains import anneal
from sparsefield.model import Field

RESTARTS, SWEEPS = 20, 50
"""Number of restarts of simulated annealing, and sweeps of each."""


@dataclass(frozen=True)
class MAPResult:
    """A MAP result holds the most probable joint states of all missing cells, table by table."""

    codes: tuple[np.ndarray, ...]
    """(targets, rows) int32, observed cells included."""
    exact: tuple[np.ndarray, ...]
    """(rows,): whether the states are provably the most probable ones; otherwise they were found by a search."""
    log_probability: tuple[np.ndarray, ...]
    """(rows,): log-probability of the missing cells of a row and of its linked rows given the observed cells; NaN where
    ``exact`` is false."""


def complete(field: Field, sample: Dataset, engine: Engine, *, max_cells: int = MAX_CELLS) -> MAPResult:
    """Find the most probable joint states of all missing cells.

    Connected components that need no table of more than ``max_cells`` entries are solved exactly by max-product
    elimination. For the others, max-product belief propagation proposes states, simulated annealing restarts from
    random ones, iterated conditional modes improve both, and the best result is returned.
    """
    blocks = [table.blocks for table in sample.tables]
    codes = [np.concatenate([block.codes for block in part], axis=1) for part in blocks]
    exact = [np.ones(table.n_rows, dtype=bool) for table in sample.tables]
    log_probability = [np.zeros(table.n_rows) for table in sample.tables]

    def one(members: list[tuple[int, Block]]) -> None:
        compiled = compile_problem(sample, field.graphs, members)
        graph = build_factors(compiled.problem, field.theta)
        best, certain, component_log_probability = most_probable_codes(graph, max_cells)
        member, variable, row = compiled.missing_cells
        problem = compiled.problem
        row_component = problem.entity_component[entity_of_cell(problem)]
        # Components of the factor graph lie within components of linked rows; log-probabilities add up.
        first_cells = graph.component_cells[graph.component_offsets[:-1]]
        total = np.bincount(row_component[first_cells], component_log_probability, problem.n_components)
        for k, (t, block) in enumerate(members):
            mine = member == k
            where = block.start + row[mine]
            codes[t][variable[mine], where] = best[mine]
            np.logical_and.at(exact[t], where, certain[mine])
            log_probability[t][where] = total[row_component[mine]]

    engine.map(one, independent_groups(sample, blocks))
    return MAPResult(tuple(codes), tuple(exact), tuple(log_probability))


def most_probable_codes(graph: FactorGraph, max_cells: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the most probable codes (cells,), whether they are exact (cells,), and log-probabilities (components,)."""
    codes, exact = np.zeros(graph.n_missing, dtype=np.int64), np.ones(graph.n_missing, dtype=bool)
    log_probability, wide, component = np.full(graph.n_components, np.nan), [], component_of_cell(graph)
    for batch in batches_by_shape(graph, max_cells):
        if not batch.plan.feasible:
            wide.append(component[batch.missing_cells[:, 0]])
            exact[batch.missing_cells] = False
            continue
        for part in batch.split():
            codes[part.missing_cells], top = most_probable(graph, part)
            of_part = np.minimum(top - log_partition(graph, part), 0.0)
            log_probability[component[part.missing_cells[:, 0]]] = of_part
    if wide:
        _search(graph, np.concatenate(wide), codes)
    return codes, exact, log_probability


def _search(graph: FactorGraph, components: np.ndarray, codes: np.ndarray) -> None:
    """Search for the most probable codes of some components, and write them to ``codes``."""
    logits, _ = propagate_messages(graph, BeliefPropagation(damping=0.3), components, max_product=True)
    buffer = np.empty(np.diff(graph.offsets).max())
    for component in components:
        first, last = graph.component_offsets[component], graph.component_offsets[component + 1]
        for cell in graph.component_cells[first:last]:
            codes[cell] = logits[graph.offsets[cell] : graph.offsets[cell + 1]].argmax()
        anneal(graph, component, 0, RESTARTS, SWEEPS, codes, buffer)
