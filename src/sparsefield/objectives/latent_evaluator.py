"""Pseudo-likelihood of a table with latent variables, which are summed out exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsefield.data import Arcs, Layout
from sparsefield.inference.completions import FieldWeights
from sparsefield.inference.missing_sums import sum_out_latent
from sparsefield.kernels import mean_field_sweep as kernels
from sparsefield.model.field import LatentSplit, split_latent
from sparsefield.objectives.block_evaluation import EvaluatedBlock, bias_hessian
from sparsefield.objectives.dense_evaluator import DenseEvaluator


class LatentEvaluator(DenseEvaluator):
    """Minus the sum over rows and observed cells of ln p(cell | other cells of the row).

    The posterior of latent variables is computed without the predicted cell, and the gradient is exact. For pairs of
    columns it is errors x expectations, so that induction and certificate hold for them; the gradient of latent
    features has another form, so these are in the field from the start.
    """

    def compile(self, arcs: Arcs) -> Any:
        return split_latent(self.layout, arcs)

    def evaluate(self, graphs: Any, theta: np.ndarray) -> tuple[float, np.ndarray]:
        self._point, rows = (graphs, theta), self.source.rows
        self._found, (loss, gradient, self._bias_hessian) = rows.map_update(_evaluate, self.layout, graphs, theta)
        self.source.rows = self._found  # with the new beliefs of latent variables
        return float(loss), gradient

    def gradient(self, graphs: Any, size: int) -> np.ndarray:
        return self._found.sum(_gradient, graphs, size)

    def hessian_cost(self, graphs: Any) -> float:
        """Return infinity: sums over latent variables have another Hessian."""
        return np.inf

    def _field(self, graphs: Any, theta: np.ndarray) -> FieldWeights:
        return FieldWeights(self.layout, graphs.whole, graphs, theta)


def _evaluate(
    part: EvaluatedBlock, layout: Layout, graphs: LatentSplit, theta: np.ndarray
) -> tuple[EvaluatedBlock, tuple]:
    """Return the part with beliefs of latent variables and errors; and the loss, gradient and `bias_hessian`."""
    block = part.block._replace(beliefs=part.block.beliefs.copy())
    errors = np.empty((block.n_target_columns, block.n_rows))
    summed = sum_out_latent(block, graphs, theta, errors)
    part = EvaluatedBlock(part.table, block, errors, block.beliefs, summed)
    return part, (summed.loss, _gradient(part, graphs, len(theta)), _bias_hessian(part, layout, graphs.first))


def _gradient(part: EvaluatedBlock, graphs: LatentSplit, size: int) -> np.ndarray:
    out = np.empty(size)
    kernels.gradient(graphs.visible, part.errors, part.expectations, out)
    graphs.add_gradient(part.summed.totals, part.summed.change, out)
    return out


def _bias_hessian(part: EvaluatedBlock, layout: Layout, first: int) -> np.ndarray:
    """Return the sum over rows of p (1 - p) (states,), of latent states from their beliefs instead of errors."""
    out = bias_hessian(part, layout)
    q0 = part.block.beliefs[first : part.block.n_target_columns]
    out[first:] = (q0 * (1.0 - q0)) @ part.block.weight
    return out
