"""Objectives over cells, and their evaluation on dense rows, with the errors and expectations that induction needs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparsefield import config
from sparsefield.compute import BlockCollection, Engine
from sparsefield.data import Arcs, Block, Dataset, Layout
from sparsefield.errors import DataError
from sparsefield.inference.completions import FieldWeights
from sparsefield.inference.method import InferenceMethod
from sparsefield.kernels.regression_hessians import NewtonSystem
from sparsefield.model import Adjacency, compile_adjacency
from sparsefield.objectives import block_evaluation, curvature
from sparsefield.objectives.block_evaluation import EvaluationTask, divide, evaluate_pieces
from sparsefield.objectives.objective import Objective, PairQuery, Problem
from sparsefield.objectives.training_rows import EM, hold_rows


@dataclass(frozen=True)
class GradientFactors:
    """The errors and expectations of all blocks at one point, from which candidates are scored."""

    layout: Layout
    parts: BlockCollection
    """Items are `EvaluatedBlock`."""
    means: tuple[np.ndarray, ...]
    """Table by table, (columns,): weighted means of the expectations over all rows."""
    bias_gradient: tuple[np.ndarray, ...]
    """Table by table, (states,): gradient of each bias."""
    total_weights: Sequence[float]
    averaged: bool = False
    """Whether the expectations are (q0 + q1) / 2, see `CellObjective`."""
    pair_factor: float = 1.0
    """Factor of l1 for pairs of two targets."""

    @classmethod
    def of(
        cls,
        layout: Layout,
        parts: BlockCollection,
        total_weights: Sequence[float],
        averaged: bool = False,
        pair_factor: float = 1.0,
    ) -> GradientFactors:
        """Return the factors of evaluated blocks."""
        sums, bias_gradient = parts.sum(block_evaluation.sum_factors, layout)
        means = sums / np.maximum(np.repeat(total_weights, layout.widths), np.finfo(float).tiny)
        by_table = tuple(np.split(means, layout.column_starts[1:-1]))
        gradients = tuple(np.split(bias_gradient, layout.target_starts[1:-1]))
        return cls(layout, parts, by_table, gradients, total_weights, averaged, pair_factor)

    def propose(self, rule: Any, query: PairQuery) -> Any:
        """Return the pairs that a rule proposes."""
        return rule.score_dense(self, query)


class CellObjective(Objective):
    """A loss whose gradient for a pair (A, B) is the sum over rows of error_A expectation_B + error_B expectation_A.

    Induction, the certificate and the optimizer rely on nothing else.
    """

    averaged: ClassVar[bool] = False
    """Whether expectations are (q0 + q1) / 2, and the gradient of a feature <f>_q1 - <f>_q0; otherwise they are q0."""
    by_regressions: ClassVar[bool] = False
    """Whether the loss is pseudo-likelihood, evaluated by regressions: faster than by `sweep`, with Hessians."""
    two_states_only: ClassVar[bool] = False
    """Whether `sweep` is for columns of two states; others are refused."""

    @abstractmethod
    def sweep(self, block: Block, graph: Adjacency, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the loss of a block of rows, its errors and its expectations, as in `EvaluatedBlock`.

        An error is the derivative of the loss with respect to the logit of a state, (states, rows), and 0 where the
        cell is missing.
        """

    def make_problem(self, dataset: Dataset, engine: Engine, missing: EM | InferenceMethod | None = None) -> Problem:
        if dataset.is_sparse:
            raise ValueError(f"a sparse table is for the objective 'pl', not {self.name!r}")
        schemas = dataset.layout.schemas if self.two_states_only else ()
        if wide := [v.name for schema in schemas for v in schema.described if v.role != "observed" and v.width > 1]:
            raise DataError(f"objective={self.name!r} is for two states, and {wide[0]!r} has more: leave it out.")
        return DenseEvaluator(dataset, self, engine, missing)


class DenseProblem(Problem):
    """What problems of dense rows share: moments of columns."""

    _bias_hessian: np.ndarray

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        sums, squares = self.source.rows.sum(block_evaluation.sum_beliefs, self.layout)
        return mean_and_variance(sums, squares, np.repeat(self.total_weights, self.layout.widths))

    def moments_of(self, conjunctions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sums, squares = self.source.rows.sum(block_evaluation.sum_products, self.layout, conjunctions).T
        tables = self.layout.table_of_column[conjunctions[:, 0]]
        return mean_and_variance(sums, squares, np.asarray(self.total_weights)[tables])

    def bias_hessian(self) -> np.ndarray:
        return self._bias_hessian


class DenseEvaluator(DenseProblem):
    """An objective over cells on dense rows.

    Parameters
    ----------
    dataset, objective, engine
    missing : `EM` replaces incomplete rows by completions; the beliefs of an inference method stand for missing cells
    """

    missing_cells, has_wald_statistics = "replaced", True

    def __init__(
        self, dataset: Dataset, objective: CellObjective, engine: Engine, missing: EM | InferenceMethod | None = None
    ) -> None:
        self.layout, self.total_weights = dataset.layout, dataset.total_weights
        self._objective, self._engine = objective, engine
        self.source: Any = hold_rows(dataset, engine, EM() if missing is None else missing)
        self._evaluated, self._bias_hessian = self.source.rows, np.empty(0)
        self._point: tuple[Any, np.ndarray] = (), np.empty(0)
        self._block_rows = min(dataset.n_rows, config.block_rows(dataset.n_rows))
        self._sampled: tuple[BlockCollection, list[curvature.SampledRows]] | None = None
        """The rows that were sampled last, and the sample."""

    def compile(self, arcs: Arcs) -> Any:
        return compile_adjacency(self.layout, arcs)

    def evaluate(self, graphs: Any, theta: np.ndarray) -> tuple[float, np.ndarray]:
        self._point = graphs, theta
        self._evaluated = self.source.rows  # frees the old errors before the new ones are computed
        task = self._task(graphs, len(theta))._replace(theta=theta)
        self._evaluated, (loss, gradient, self._bias_hessian) = self.source.rows.map_update(evaluate_pieces, task)
        return float(loss), gradient

    def gradient(self, graphs: Any, size: int) -> np.ndarray:
        return self._evaluated.map_update(evaluate_pieces, self._task(graphs, size))[1][1]

    def _task(self, graphs: Sequence[Adjacency], size: int) -> EvaluationTask:
        """Return the task of a gradient with ``size`` parameters."""
        if self._objective.by_regressions:
            pieces = [
                divide(graph, self._block_rows, len(self.source.rows), int(width))
                for graph, width in zip(graphs, self.layout.widths, strict=True)
            ]
        else:
            pieces = [[range(len(graph.target_offsets) - 1)] for graph in graphs]
        return EvaluationTask(self._objective, self.layout, graphs, pieces, size)

    def weights_of_field(self, graphs: Any, theta: np.ndarray) -> FieldWeights:
        """Return weights in the form that inference and draws of missing cells take."""
        return FieldWeights(self.layout, graphs, None, theta)

    def draw(self, graphs: Any, theta: np.ndarray, copies: int) -> None:
        """Replace incomplete rows by completions at some weights, drawn one sweep after the draws before."""
        self._evaluated = self.source.release()  # frees completed rows and their errors before others are drawn
        self.source.draw(self.weights_of_field(graphs, theta), copies, sweeps=1)

    def gradient_factors(self) -> Any:
        return GradientFactors.of(self.layout, self._evaluated, self.total_weights, self._objective.averaged)

    def hessian_cost(self, graphs: Any) -> float:
        if not self._objective.by_regressions or self.device is not None:  # a device takes many steps meanwhile
            return np.inf
        return curvature.relative_cost(graphs, curvature.count_rows(self.source.rows, len(self.layout.tables)))

    def newton_system(self, graphs: Any, theta: np.ndarray, free: np.ndarray) -> NewtonSystem:
        rows = self.source.rows
        if self._sampled is None or self._sampled[0] is not rows:
            self._sampled = rows, curvature.sample_rows(rows, len(self.layout.tables))
        return curvature.newton_system(self._sampled[1], graphs, theta, free, self._engine.map)

    @property
    def evaluated(self) -> BlockCollection:
        """The rows, with errors and expectations of the last evaluation."""
        return self._evaluated

    def wald_statistics(self, weights: np.ndarray) -> np.ndarray:
        """Return Wald statistics at the last point: see `curvature.wald_statistics`."""
        return curvature.wald_statistics(self.weights_of_field(*self._point), self.evaluated, weights)


def mean_and_variance(sums: np.ndarray, squares: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance from sums over rows, and the weights of these rows."""
    weights = np.maximum(weights, np.finfo(float).tiny)
    return sums / weights, np.maximum(squares / weights - np.square(sums / weights), 0.0)
