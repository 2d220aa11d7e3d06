"""This module computes exact marginals by variable elimination and refuses rows whose treewidth is too large."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.errors import DataError
from sparsefield.inference.elimination import MAX_CELLS, EliminationBatch, batches_by_shape, marginal_logits
from sparsefield.inference.factor_graph import FactorGraph, build_factors, entity_of_cell, normalize, write_beliefs
from sparsefield.inference.method import FillResult, InferenceMethod
from sparsefield.inference.missing_problem import MissingProblem


@dataclass(frozen=True)
class ExactInference(InferenceMethod):
    """Exact inference computes the marginals that enumeration would give.

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
            self._refuse_wide(problem, batch)
        write_beliefs(problem, graph, normalize(graph, exact_logits(graph, batches)))
        return FillResult(0, frozenset({self.name}))

    def _refuse_wide(self, problem: MissingProblem, batch: EliminationBatch) -> None:
        plan = batch.plan
        if not plan.feasible:
            row = problem.entity_row[entity_of_cell(problem)[batch.missing_cells[0, 0]]]
            raise DataError(
                f"Exact inference would need a table of {plan.table_size:,} cells or more for row {row}, whose missing "
                f"cells have a treewidth of at least {plan.width}; max_cells is {self.max_cells:,}. Raise it with "
                "inference=ExactInference(max_cells=...), or use inference='bp' or 'gibbs'."
            )


def exact_logits(graph: FactorGraph, batches: list[EliminationBatch]) -> np.ndarray:
    """Return the logits of the marginals of all missing cells of some batches; those of other cells are 0."""
    logits = np.zeros(graph.offsets[-1])
    for batch in batches:
        for part in batch.split():
            for cell, found in enumerate(marginal_logits(graph, part)):
                logits[graph.offsets[part.missing_cells[:, cell]] + np.arange(len(found))[:, None]] = found
    return logits
