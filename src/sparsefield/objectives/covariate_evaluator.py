"""Pseudo-likelihood on labels given sparse covariates.

Labels are a dense table. The logit of a label state is its bias, its arcs from other labels, and the product of the
row's covariates with their weights; the gradient of such a weight is the sum over rows of covariate x error. Covariates
are never written out as dense columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from sparsefield.compute import Engine
from sparsefield.data import Arcs, CovariateWeights, Dataset, Layout, SparseMatrix
from sparsefield.kernels import mean_field_sweep as kernels
from sparsefield.kernels.chain_scores import padded_width
from sparsefield.model import Adjacency, compile_adjacency
from sparsefield.objectives import block_evaluation
from sparsefield.objectives.block_evaluation import EvaluatedBlock
from sparsefield.objectives.curvature import RegressionHessian
from sparsefield.objectives.dense_evaluator import GradientFactors
from sparsefield.objectives.objective import PairQuery
from sparsefield.objectives.training_rows import TrainingRows


class CovariateArcs(NamedTuple):
    """The arcs of a working set: those between labels, and those from covariates, by covariate."""

    labels: Adjacency
    """Arcs between labels, whose features are numbered among all."""
    offsets: np.ndarray
    """(covariates + 1,): covariate c has the arcs from offsets[c] to offsets[c + 1]."""
    states: np.ndarray
    """(covariate arcs,) int32: target states."""
    features: np.ndarray
    """(covariate arcs,): index into theta."""

    def weights(self, theta: np.ndarray) -> CovariateWeights:
        """Return the weights of the covariates."""
        return CovariateWeights(self.offsets, self.states, theta[self.features])


def split_arcs(label_layout: Layout, n_covariates: int, arcs: Arcs) -> CovariateArcs:
    """Return arcs of labels and covariates, which are numbered after the columns of the labels, in two parts."""
    n = label_layout.n_columns
    among = np.flatnonzero(arcs.source < n)
    labels = Arcs(arcs.target[among], arcs.source[among], arcs.feature[among])
    outside = np.flatnonzero(arcs.source >= n)
    outside = outside[np.lexsort((arcs.target[outside], arcs.source[outside]))]
    return CovariateArcs(
        compile_adjacency(label_layout, labels)[0],
        np.searchsorted(arcs.source[outside] - n, np.arange(n_covariates + 1)),
        arcs.target[outside].astype(np.int32),
        label_layout.n_target_columns + arcs.feature[outside],
    )


@dataclass(frozen=True)
class CovariateGradientFactors:
    """The errors at one point, from which candidates are scored."""

    labels: GradientFactors
    """Errors and expectations of the labels."""
    covariates: SparseMatrix
    errors: np.ndarray
    """(rows, padded states): errors of the labels."""
    engine: Engine
    layout: Layout

    def propose(self, rule: Any, query: PairQuery) -> Any:
        """Return the pairs that a rule proposes."""
        return rule.score_covariates(self, query)


class CovariateEvaluator:
    """An evaluator of pseudo-likelihood on labels given sparse covariates."""

    keeps_errors = True

    def __init__(self, sample: Dataset, engine: Engine) -> None:
        self.layout, self.label_layout = sample.layout, sample.label_layout
        self.total_weights = sample.total_weights
        self.source = TrainingRows(sample.layout, sample.hold_blocks(engine, block_evaluation.as_evaluated))
        self._covariates, self._engine = sample.covariates, engine
        self._row_weights = sample.row_weights
        self._found, self._bias_hessian = self.source.rows, np.empty(0)
        self._errors = np.zeros((sample.n_rows, padded_width(self.layout.n_target_columns)))

    def compile(self, arcs: Arcs) -> CovariateArcs:
        """Return arcs in the form that the other methods take."""
        return split_arcs(self.label_layout, self._covariates.n_columns, arcs)

    def evaluate(self, arcs: CovariateArcs, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return loss and gradient without penalties; `gradient` and `gradient_factors` then refer to this point."""
        self._found = self.source.rows
        self._found, (loss, gradient, self._bias_hessian) = self.source.rows.map_update(
            evaluate_labels, self.label_layout, self._covariates, arcs, theta
        )
        n = self.layout.n_target_columns
        errors = self._found.map(block_errors)
        self._errors = np.zeros_like(self._errors)
        self._errors[:, :n] = np.concatenate(errors, axis=1).T
        self._set_covariate_gradient(arcs, gradient)
        return float(loss), gradient

    def gradient(self, arcs: CovariateArcs, size: int) -> np.ndarray:
        """Return the gradient of other arcs, with ``size`` parameters, from the errors of the last evaluation."""
        gradient = self._found.sum(label_gradient, arcs.labels, size)
        self._set_covariate_gradient(arcs, gradient)
        return gradient

    def _set_covariate_gradient(self, arcs: CovariateArcs, gradient: np.ndarray) -> None:
        covariates, sums = self._covariates, np.empty(len(arcs.states))
        self._engine.map(
            lambda block: covariates.pair_sums(arcs.offsets, arcs.states, self._errors, block, sums),
            covariates.column_blocks,
        )
        gradient[arcs.features] = sums

    def gradient_factors(self) -> CovariateGradientFactors:
        """Return the errors of the last evaluation."""
        sums, bias_gradient = self._found.sum(block_evaluation.sum_factors, self.label_layout)
        total = max(self.total_weights[0], np.finfo(float).tiny)
        labels = GradientFactors(self.label_layout, self._found, (sums / total,), (bias_gradient,), self.total_weights)
        return CovariateGradientFactors(labels, self._covariates, self._errors, self._engine, self.layout)

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the weighted mean and variance of each column over the rows, (columns,) each."""
        total = max(self.total_weights[0], np.finfo(float).tiny)
        sums, squares = self.source.rows.sum(block_evaluation.sum_beliefs, self.label_layout)
        mean, variance = self._covariates.moments(self._row_weights)
        label_mean = sums / total
        label_variance = np.maximum(squares / total - label_mean**2, 0.0)
        return np.concatenate([label_mean, mean]), np.concatenate([label_variance, variance])

    def moments_of(self, conjunctions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return nothing: there are no conjunctions."""
        return np.empty(len(conjunctions)), np.empty(len(conjunctions))

    def bias_hessian(self) -> np.ndarray:
        """Return the sum over rows of p (1 - p) (states,), the diagonal of the Hessian for the biases."""
        return self._bias_hessian

    def arc_hessian(self, arcs: CovariateArcs) -> None:
        """Return None: for single arcs it would take as long as a gradient."""

    def hessian_cost(self, arcs: CovariateArcs) -> float:
        """Return infinity: labels may have too many covariates for their Hessians."""
        return np.inf

    def regression_hessians(self, arcs: CovariateArcs, theta: np.ndarray, free: np.ndarray) -> list[RegressionHessian]:
        """Refuse: `hessian_cost` is infinite."""
        raise NotImplementedError

    def penalty_factors(self, features: np.ndarray) -> np.ndarray:
        """Return the factors of l1 for features, (features,)."""
        return self.layout.feature_factors(features)


def evaluate_labels(
    part: EvaluatedBlock, layout: Layout, covariates: SparseMatrix, arcs: CovariateArcs, theta: np.ndarray
) -> tuple[EvaluatedBlock, tuple[float, np.ndarray, np.ndarray]]:
    """Return a block of labels with its errors; and the loss, the gradient of the labels and the `bias_hessian`."""
    block, graph = part.block, arcs.labels
    sums = covariates.logits(arcs.weights(theta), block.n_target_columns, block.start, block.start + block.n_rows)
    if len(graph.arc_source):
        sums += _label_weights(graph, theta) @ block.beliefs
    errors = np.empty((block.n_target_columns, block.n_rows))
    loss = kernels.sweep(block, graph, theta, False, block.beliefs, errors, sums)
    part = part._replace(errors=errors, expectations=block.beliefs)
    gradient = label_gradient(part, graph, len(theta))
    return part, (loss, gradient, block_evaluation.bias_hessian(part, layout))


def _label_weights(graph: Adjacency, theta: np.ndarray) -> sp.csr_array:
    """Return the weights of the arcs between labels, (states, states)."""
    n = len(graph.arc_offsets) - 1
    return sp.csr_array((theta[graph.arc_feature], graph.arc_source, graph.arc_offsets), shape=(n, n))


def label_gradient(part: EvaluatedBlock, graph: Adjacency, size: int) -> np.ndarray:
    """Return the gradient (size,) of biases and of pairs of labels; 0 for pairs with a covariate."""
    out = np.empty(size)
    kernels.gradient(graph, part.errors, part.expectations, out)
    return out


def block_errors(part: EvaluatedBlock) -> np.ndarray:
    """Return the errors of a block, (states, rows)."""
    return part.errors
