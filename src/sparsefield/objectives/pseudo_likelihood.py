"""Pseudo-likelihood: every observed cell is predicted from all other cells of its row.

Also its problems that are more than a sweep over dense rows: with latent variables, which are summed out, and of labels
given sparse covariates, which are never written out as dense columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Arcs, Block, CovariateWeights, Dataset, Layout, SparseMatrix
from sparsefield.inference.completions import FieldWeights
from sparsefield.inference.method import InferenceMethod
from sparsefield.inference.missing_sums import sum_out_latent
from sparsefield.kernels.chain_scores import feature_sums, padded_width
from sparsefield.model import Adjacency, compile_adjacency
from sparsefield.model.field import LatentSplit, split_latent
from sparsefield.objectives import block_evaluation
from sparsefield.objectives.block_evaluation import EvaluatedBlock, regress
from sparsefield.objectives.dense_evaluator import CellObjective, DenseEvaluator, GradientFactors, mean_and_variance
from sparsefield.objectives.objective import PairQuery, Problem
from sparsefield.objectives.sparse_evaluator import SparseEvaluator
from sparsefield.objectives.training_rows import EM


class PseudoLikelihood(CellObjective):
    """Minimize the negative pseudo-log-likelihood: minus the sum over rows and observed cells of ln q1(cell).

    It is convex, its gradient is exact, and the expectations are q0. It is the sum of the losses of one regression per
    variable: see `sparsefield.objectives.block_evaluation`.
    """

    name = "pl"
    is_pseudo_likelihood = True
    by_regressions = runs_on_devices = True

    def sweep(self, block: Block, graph: Adjacency, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        errors = np.empty((block.n_target_columns, block.n_rows))
        return regress(block, graph, theta, range(len(block.codes)), errors), errors, block.beliefs

    def make_problem(self, dataset: Dataset, engine: Engine, missing: EM | InferenceMethod | None = None) -> Problem:
        """Return the problem of a table that is dense, with or without latent variables, sparse, or on a device."""
        if engine.device is not None:
            from sparsefield.objectives.torch_evaluator import TorchEvaluator

            return TorchEvaluator(dataset, self, engine, missing)
        if dataset.layout.schemas[0].has_sparse_covariates:
            return CovariateEvaluator(dataset, engine)
        if any(table.cells is not None for table in dataset.tables):
            return SparseEvaluator(dataset, engine)
        if dataset.is_dense and dataset.layout.has_latent:
            return LatentEvaluator(dataset, self, engine, missing)
        return DenseEvaluator(dataset, self, engine, missing)


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
        self._evaluated, (loss, gradient, self._bias_hessian) = rows.map_update(
            _sum_out_latent, self.layout, graphs, theta
        )
        self.source.rows = self._evaluated  # with the new beliefs of latent variables
        return float(loss), gradient

    def gradient(self, graphs: Any, size: int) -> np.ndarray:
        return self._evaluated.sum(_gradient, graphs, size)

    def hessian_cost(self, graphs: Any) -> float:
        return np.inf  # sums over latent variables have another Hessian

    def weights_of_field(self, graphs: Any, theta: np.ndarray) -> FieldWeights:
        return FieldWeights(self.layout, graphs.whole, graphs, theta)


def _sum_out_latent(
    part: EvaluatedBlock, layout: Layout, graphs: LatentSplit, theta: np.ndarray
) -> tuple[EvaluatedBlock, tuple[float, np.ndarray, np.ndarray]]:
    """Return the part with beliefs of latent variables and errors; and the loss, gradient and `bias_hessian`."""
    block = part.block._replace(beliefs=part.block.beliefs.copy())
    errors = np.empty((block.n_target_columns, block.n_rows))
    summed = sum_out_latent(block, graphs, theta, errors)
    part = EvaluatedBlock(part.table, block, errors, block.beliefs, summed)
    hessian, q0 = block_evaluation.bias_hessian(part, layout), block.beliefs[graphs.first : block.n_target_columns]
    hessian[graphs.first :] = (q0 * (1.0 - q0)) @ block.weight  # latent states have beliefs instead of errors
    return part, (summed.loss, _gradient(part, graphs, len(theta)), hessian)


def _gradient(part: EvaluatedBlock, graphs: LatentSplit, size: int) -> np.ndarray:
    out = block_evaluation.gradient(part, False, (graphs.visible,), size)
    out[graphs.feature] = (part.summed.totals @ graphs.members.T)[graphs.column, graphs.state]
    out[graphs.tie] = (graphs.members[graphs.one] * graphs.members[graphs.other]) @ part.summed.change
    return out


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


class CovariateEvaluator(DenseEvaluator):
    """Pseudo-likelihood of labels given sparse covariates.

    The logit of a label state is its bias, its arcs from other labels, and the product of the row's covariates with
    their weights; the gradient of such a weight is the sum over rows of covariate x error.
    """

    missing_cells, has_wald_statistics = "refused", False

    def __init__(self, dataset: Dataset, engine: Engine) -> None:
        super().__init__(dataset, PseudoLikelihood(), engine)
        self.label_layout, self._covariates = dataset.label_layout, dataset.covariates
        self._row_weights = dataset.row_weights
        self._errors = np.empty((0, 0))
        """(rows, padded states): errors of the labels."""

    def compile(self, arcs: Arcs) -> CovariateArcs:
        return split_arcs(self.label_layout, self._covariates.n_columns, arcs)

    def evaluate(self, arcs: CovariateArcs, theta: np.ndarray) -> tuple[float, np.ndarray]:
        self._evaluated = self.source.rows
        self._evaluated, (loss, gradient, self._bias_hessian) = self.source.rows.map_update(
            _evaluate_labels, self.label_layout, self._covariates, arcs, theta
        )
        n = self.layout.n_target_columns
        self._errors = np.zeros((self._covariates.n_rows, padded_width(n)))
        self._errors[:, :n] = np.concatenate(self._evaluated.map(attrgetter("errors")), axis=1).T
        return float(loss), self._with_covariates(arcs, gradient)

    def gradient(self, arcs: CovariateArcs, size: int) -> np.ndarray:
        labels = self._evaluated.sum(block_evaluation.gradient, False, (arcs.labels,), size)
        return self._with_covariates(arcs, labels)

    def _with_covariates(self, arcs: CovariateArcs, gradient: np.ndarray) -> np.ndarray:
        """Set the gradient of the arcs from covariates, and return it."""
        covariates, sums = self._covariates, np.empty(len(arcs.states))
        parts = covariates.by_column, arcs.offsets, arcs.states, self._errors.ravel(), self._errors.shape[1]
        self._engine.map(lambda block: feature_sums(*parts, *block, sums), covariates.column_blocks)
        gradient[arcs.features] = sums
        return gradient

    def gradient_factors(self) -> CovariateGradientFactors:
        labels = GradientFactors.of(self.label_layout, self._evaluated, self.total_weights)
        return CovariateGradientFactors(labels, self._covariates, self._errors, self._engine, self.layout)

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        sums, squares = self.source.rows.sum(block_evaluation.sum_beliefs, self.label_layout)
        labels = mean_and_variance(sums, squares, np.array(self.total_weights))
        covariates = self._covariates.moments(self._row_weights)
        mean, variance = (np.concatenate(pair) for pair in zip(labels, covariates, strict=True))
        return mean, variance

    def hessian_cost(self, arcs: CovariateArcs) -> float:
        return np.inf  # labels may have too many covariates for their Hessians


def _evaluate_labels(
    part: EvaluatedBlock, layout: Layout, covariates: SparseMatrix, arcs: CovariateArcs, theta: np.ndarray
) -> tuple[EvaluatedBlock, tuple[float, np.ndarray, np.ndarray]]:
    """Return a block of labels with its errors; and the loss, the gradient of the labels and the `bias_hessian`."""
    block, graph, n = part.block, arcs.labels, part.block.n_target_columns
    sums = covariates.logits(arcs.weights(theta), n, block.start, block.start + block.n_rows)
    errors = np.empty((n, block.n_rows))
    loss = regress(block, graph, theta, range(len(block.codes)), errors, sums)
    part = part._replace(errors=errors, expectations=block.beliefs)
    gradient = block_evaluation.gradient(part, False, (graph,), len(theta))
    return part, (loss, gradient, block_evaluation.bias_hessian(part, layout))
