"""This module computes log-partition functions and log-likelihoods: exactly where components are narrow, and by
annealed importance sampling elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np
from scipy.special import logsumexp

from sparsefield.compute import Engine
from sparsefield.inference.elimination import MAX_CELLS, batches_by_shape, log_partition
from sparsefield.inference.factor_graph import FactorGraph, build_factors, component_of_cell
from sparsefield.inference.missing_problem import MissingProblem, compile_problem, ranges
from sparsefield.inference.missing_sums import RowGroup
from sparsefield.kernels.importance_sampling import anneal_chains
from sparsefield.model import Field
from sparsefield.options import OptionObject

Array = np.ndarray
Value = TypeVar("Value", float, Array)

MAX_TOTAL_CELLS = 2**27
"""Entries of the tables of all rows together, at most; rows beyond it have smaller tables."""

CHAINS_PER_TASK = 16
"""Chains of a component that a thread runs one after another."""

LEAST_SHARE = 1e-4
"""Smallest probability of a state in the distribution that chains start from."""


@dataclass(frozen=True)
class AIS(OptionObject):
    """Set the options of annealed importance sampling, which estimates partition functions.

    Chains start from independent columns with their training frequencies, and end at the field after ``steps``
    distributions in between, with a Gibbs sweep for each.

    Parameters
    ----------
    chains : int
        Number of chains; the standard error falls with its square root.
    steps : int
        Number of distributions; more of them make the weights of chains more equal.
    seed : int
        Seed of all draws.
    """

    chains: int = 64
    steps: int = 1000
    seed: int = 0


@dataclass(frozen=True)
class LogEstimate(Generic[Value]):
    """The logarithm of a probability or of a partition function, exact or estimated.

    Attributes
    ----------
    value : float, or (rows,) array
        Natural logarithm.
    standard_error : float, or (rows,) array
        Standard error of the estimate; 0 where it is exact. Rows that share a partition function share its error.
    method : {"exact", "ais"}
        "ais" where at least one component was estimated by annealed importance sampling.
    """

    value: Value
    standard_error: Value
    method: Literal["exact", "ais"]


class ComponentSums(NamedTuple):
    """Log-partition functions of the connected components of missing cells."""

    row: Array
    """(components,): row of the first cell, in its block."""
    value: Array
    variance: Array
    """(components,): 0 where the value is exact."""


def sum_components(field: Field, group: RowGroup, engine: Engine, options: AIS, max_cells: int) -> ComponentSums:
    """Return ln Z of each component of the missing cells of some rows, with tables of at most ``max_cells`` entries."""
    if not group.n_missing:
        return ComponentSums(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0))
    compiled = compile_problem(group.sample, field.graphs, group.members)
    graph = build_factors(compiled.problem, field.theta)
    owner = component_of_cell(graph)
    value, variance = np.empty(graph.n_components), np.zeros(graph.n_components)
    for batch in batches_by_shape(graph, max_cells):
        if batch.plan.feasible:
            for part in batch.split():
                value[owner[part.missing_cells[:, 0]]] = log_partition(graph, part)
            continue
        wide = owner[batch.missing_cells[:, 0]]
        value[wide], variance[wide] = _anneal(compiled.problem, graph, wide, engine, options)
    first = graph.component_cells[graph.component_offsets[:-1]]
    return ComponentSums(compiled.missing_cells[2][first], value, variance)


def largest_table(n_rows: int) -> int:
    """Return how many entries a table of elimination may have, given the number of rows that need one."""
    return int(max(min(MAX_CELLS, MAX_TOTAL_CELLS // max(n_rows, 1)), 2))


def _anneal(
    problem: MissingProblem, graph: FactorGraph, components: Array, engine: Engine, options: AIS
) -> tuple[Array, Array]:
    """Return estimates of ln Z of some components, and their variances."""
    base, seed = start_distribution(problem), np.uint64(options.seed)
    widest = int(np.diff(graph.offsets).max(initial=1))
    firsts = range(0, options.chains, CHAINS_PER_TASK)

    def run(task: tuple[int, int]) -> Array:
        component, first = task
        out = np.empty(min(CHAINS_PER_TASK, options.chains - first))
        anneal_chains(graph, component, base, options.steps, seed, first, np.empty(widest), out)
        return out

    parts = engine.map(run, [(int(component), first) for component in components for first in firsts])
    logs = np.concatenate(parts).reshape(len(components), options.chains)
    value = logsumexp(logs, axis=1) - np.log(options.chains)
    shares = np.exp(logs - value[:, None])  # with a mean of 1
    return value, shares.var(axis=1, ddof=1) / options.chains


def start_distribution(problem: MissingProblem) -> Array:
    """Return the log-probabilities of the states of all missing cells, if these were independent."""
    counts = np.diff(problem.state_offsets)
    states = ranges(problem.coding.state_offsets[problem.cell_variable], counts)
    shares = np.maximum(problem.coding.frequencies[states], LEAST_SHARE)
    return np.log(shares / np.repeat(np.add.reduceat(shares, problem.state_offsets[:-1]), counts))
