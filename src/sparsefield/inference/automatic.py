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

FIRST_CHAINS = Gibbs(chains=4, burn_in=25, sweeps=100)
LONG_CHAINS = Gibbs(chains=4, burn_in=500, sweeps=2000)
"""Gibbs chains, and those that follow where the first ones do not agree."""


@dataclass(frozen=True)
class AutomaticInference(InferenceMethod):
    """Automatic inference is exact where missing cells are few or depend on each other narrowly.

    The missing cells of a row, or of linked rows, form connected components. A component that variable elimination
    solves with small tables gets exact marginals; for others Gibbs chains are run, longer ones where they disagree.

    Parameters
    ----------
    max_cells : int
        Largest number of entries of a table of variable elimination.
    """

    max_cells: int = 4096
    name = "auto"
    advice = "Use inference='exact' or inference=Gibbs(burn_in=..., sweeps=...)"

    def __post_init__(self) -> None:
        if self.max_cells < 1:
            raise ValueError(f"max_cells must be at least 1, got {self.max_cells}.")

    def fill(self, problem: MissingProblem, theta: np.ndarray) -> int:
        graph = build_factors(problem, theta)
        batches = batches_by_shape(graph, self.max_cells)
        beliefs = normalize(graph, exact_logits(graph, [batch for batch in batches if batch.plan.feasible]))
        owner = component_of_cell(graph)
        wide = [owner[batch.missing_cells[:, 0]] for batch in batches if not batch.plan.feasible]
        unsure = np.sort(np.concatenate(wide)) if wide else np.empty(0, dtype=np.int64)
        cell_of_state = np.repeat(np.arange(graph.n_missing), np.diff(graph.offsets))
        for chains in (FIRST_CHAINS, LONG_CHAINS):
            if not len(unsure):
                break
            means = run_chains(graph, chains, components=unsure)
            drawn = np.isfinite(means.value)
            beliefs[drawn] = means.value[drawn]
            unsure = np.unique(owner[cell_of_state[means.r_hat > chains.max_r_hat]])
        write_beliefs(problem, graph, beliefs)
        cells = cells_of_components(graph, np.isin(np.arange(graph.n_components), unsure))
        return count_entities(problem, cells)
