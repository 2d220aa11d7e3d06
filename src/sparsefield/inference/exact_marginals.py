"""Exact marginals, by elimination of one gap after another; refused where gaps depend on each other too widely."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.errors import DataError
from sparsefield.inference.elimination import MAX_CELLS, Parts, marginal_logits, parts_by_shape
from sparsefield.inference.factor_graph import FactorGraph, build_factors, normalized, row_of_cell, write_beliefs
from sparsefield.inference.method import InferenceMethod
from sparsefield.inference.missing_problem import MissingProblem

__all__ = ["ExactInference", "exact_logits"]


@dataclass(frozen=True)
class ExactInference(InferenceMethod):
    """The beliefs that enumeration would find.

    The gaps of a row fall into parts that share no features; linked rows share theirs. Each part is eliminated in an
    order that ties the fewest gaps anew (min-fill). Time and memory grow with the largest table on the way, which has
    a cell for every joint state of the gaps that are in it together.

    Parameters
    ----------
    max_cells : a row that needs a larger table is refused
    """

    max_cells: int = MAX_CELLS
    name = "exact"

    def __post_init__(self) -> None:
        if self.max_cells < 1:
            raise ValueError(f"max_cells must be at least 1, got {self.max_cells}.")

    def fill(self, web: MissingProblem, theta: np.ndarray) -> int:
        graph = build_factors(web, theta)
        alike = parts_by_shape(graph, self.max_cells)
        for parts in alike:
            self._refuse(web, parts)
        write_beliefs(web, graph, normalized(graph, exact_logits(graph, alike)))
        return 0

    def _refuse(self, web: MissingProblem, parts: Parts) -> None:
        plan = parts.plan
        if not plan.narrow:
            row = row_of_cell(web, parts.missing_cells[0, 0])
            raise DataError(
                f"Exact inference would need a table of {plan.cells:,} cells or more for row {row}, where gaps depend "
                f"on each other with a width of at least {plan.width}; max_cells is {self.max_cells:,}. Raise it: "
                "inference=ExactInference(max_cells=...), or take inference='bp' or 'gibbs'."
            )


def exact_logits(graph: FactorGraph, alike: list[Parts]) -> np.ndarray:
    """Logits of the marginals of all gaps of some parts; those of others are 0."""
    logits = np.zeros(graph.offsets[-1])
    for parts in alike:
        for piece in parts.pieces():
            for cell, found in enumerate(marginal_logits(graph, piece)):
                logits[graph.offsets[piece.missing_cells[:, cell]] + np.arange(len(found))[:, None]] = found
    return logits
