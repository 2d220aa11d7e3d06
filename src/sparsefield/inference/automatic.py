"""This module infers missing cells exactly where that is cheap, and by Gibbs sampling elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.inference.elimination import batches_by_shape
from sparsefield.inference.exact_marginals import exact_logits
from sparsefield.inference.factor_graph import (
    build_factors,
    cells_of_components,
    component_of_cell,
    count_entities,
    normalize,
    write_beliefs,
)
from sparsefield.inference.gibbs import Gibbs, run_chains
from sparsefield.inference.method import InferenceMethod
from sparsefield.inference.missing_problem import MissingProblem
from sparsefield.kernels.component_enumeration import enumerate_components

MAX_ENUMERATED = 4096
"""Joint states of a component that are enumerated."""

MAX_ENUMERATED_IF_UNSURE = 65536
"""The same for components on which the first Gibbs chains disagree: longer chains would take more time."""

MAX_SHAPES = 2000
"""Shapes of larger components that are solved by elimination, the most frequent ones: each needs a plan of its own."""

FIRST_CHAINS = Gibbs(chains=8, burn_in=20, sweeps=80, max_r_hat=1.1)
LONG_CHAINS = Gibbs(chains=8, burn_in=250, sweeps=1000)
"""Gibbs chains, and those that follow where the first ones do not agree. Fewer chains than these would too often be in
the same one of several modes, and agree."""


@dataclass(frozen=True)
class AutomaticInference(InferenceMethod):
    """Automatic inference is exact where missing cells are few or depend on each other narrowly.

    The missing cells of a row, or of linked rows, form connected components. Small ones are enumerated, and
    larger ones solved by variable elimination where its tables are small. For others Gibbs chains are run, longer ones
    where they disagree. In a table with more than 2,000 patterns of large components, chains are also run for those of
    the rarest patterns: whether a row is among them depends on the other rows.

    Parameters
    ----------
    max_cells : int
        Largest number of entries of a table of variable elimination.
    retry : bool
        Whether longer chains are run where the first ones disagree.
    """

    max_cells: int = 4096
    retry: bool = True
    name = "auto"
    advice = "Use inference='exact' or inference=Gibbs(burn_in=..., sweeps=...)"

    def fill(self, problem: MissingProblem, theta: np.ndarray) -> int:
        graph = build_factors(problem, theta)
        owner, states = component_of_cell(graph), np.diff(graph.offsets)
        joint = np.bincount(owner, np.log2(states), graph.n_components)
        few, more = (
            np.flatnonzero(joint <= np.log2(most) + 1e-9) for most in (MAX_ENUMERATED, MAX_ENUMERATED_IF_UNSURE)
        )
        others = np.setdiff1d(np.arange(graph.n_components), few)
        batches = batches_by_shape(graph, self.max_cells, others, MAX_SHAPES)
        batches = [batch for batch in batches if batch.plan.feasible]
        beliefs = normalize(graph, exact_logits(graph, batches))
        largest = int(np.bincount(owner, minlength=1).max(initial=1)), int(states.max(initial=1))
        enumerate_components(graph, few, MAX_ENUMERATED, *largest, beliefs)
        solved = [owner[batch.missing_cells[:, 0]] for batch in batches]
        unsure = np.setdiff1d(others, np.concatenate([few, *solved]))
        cell_of_state = np.repeat(np.arange(graph.n_missing), np.diff(graph.offsets))
        for chains in (FIRST_CHAINS, LONG_CHAINS) if self.retry else (FIRST_CHAINS,):
            if not len(unsure):
                break
            means = run_chains(graph, chains, components=unsure)
            drawn = np.isfinite(means.value)
            beliefs[drawn] = means.value[drawn]
            unsure = np.unique(owner[cell_of_state[means.r_hat > chains.max_r_hat]])
            enumerate_components(graph, np.intersect1d(unsure, more), MAX_ENUMERATED_IF_UNSURE, *largest, beliefs)
            unsure = np.setdiff1d(unsure, more)
        write_beliefs(problem, graph, beliefs)
        cells = cells_of_components(graph, np.isin(np.arange(graph.n_components), unsure))
        return count_entities(problem, cells)
