"""Objectives over cells, and their evaluation on dense rows, with the errors and expectations that induction needs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sparsefield import config
from sparsefield.compute import BlockCollection, Engine, identity
from sparsefield.data import Arcs, Block, Dataset, Layout
from sparsefield.inference.completions import FieldWeights
from sparsefield.inference.method import InferenceMethod
from sparsefield.model import Adjacency, compile_adjacency
from sparsefield.objectives import block_evaluation, curvature
from sparsefield.objectives.block_evaluation import EvaluatedBlock
from sparsefield.objectives.em_options import EM
from sparsefield.objectives.objective import Objective, PairQuery, Problem
from sparsefield.objectives.regressions import DividedTable, divide
from sparsefield.objectives.training_rows import ClampedRows, CompletedRows, hold_rows
from sparsefield.objectives.wald import wald_statistics


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

    def propose(self, rule: Any, query: PairQuery) -> Any:
        """Return the pairs that a rule proposes."""
        return rule.score_dense(self, query)

    @cached_property
    def local_blocks(self) -> list[list[EvaluatedBlock]]:
        """Copy all blocks to this process, table by table, for inspection."""
        found: list[EvaluatedBlock] = self.parts.map(identity)
        return [[part for part in found if part.table == t] for t in range(len(self.layout.tables))]

    @property
    def errors(self) -> list[list[np.ndarray]]:
        """Return the errors (states, rows), table by table and block by block."""
        return [[part.errors for part in table] for table in self.local_blocks]

    @property
    def expectations(self) -> list[list[np.ndarray]]:
        """Return the expectations (columns, rows), table by table and block by block."""
        return [[part.expectations for part in table] for table in self.local_blocks]


class CellObjective(Objective):
    """A loss whose gradient for a pair (A, B) is the sum over rows of error_A expectation_B + error_B expectation_A.

    Induction, the certificate and the optimizer rely on nothing else.
    """

    averaged: ClassVar[bool] = False
    """Whether expectations are (q0 + q1) / 2, and the gradient of a feature <f>_q1 - <f>_q0; otherwise they are q0."""
    by_regressions: ClassVar[bool] = False
    """Whether the loss is pseudo-likelihood, which `sparsefield.objectives.regressions` evaluate faster than `sweep`,
    also in single precision, and with Hessians."""

    @abstractmethod
    def sweep(self, block: Block, graph: Adjacency, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the loss of a block of rows, its errors and its expectations, as in `EvaluatedBlock`.

        An error is the derivative of the loss with respect to the logit of a state, (states, rows), and 0 where the
        cell is missing.
        """

    def make_problem(self, dataset: Dataset, engine: Engine, missing: EM | InferenceMethod | None = None) -> Problem:
        if dataset.is_sparse:
            raise ValueError(f"a sparse table is for the objective 'pl', not {self.name!r}")
        return DenseEvaluator(dataset, self, engine, missing)


class DenseEvaluator:
    """An evaluator of dense rows.

    Parameters
    ----------
    sample, objective, engine
    missing : `EM` replaces incomplete rows by completions; the beliefs of an inference method stand for missing cells
    """

    keeps_errors = True

    def __init__(
        self,
        sample: Dataset,
        objective: CellObjective,
        engine: Engine,
        missing: EM | InferenceMethod | None = None,
    ) -> None:
        self.layout, self.total_weights = sample.layout, sample.total_weights
        self._objective = objective
        self.source = hold_rows(sample, engine, EM() if missing is None else missing)
        self._found, self._bias_hessian = self.source.rows, np.empty(0)
        self._point: tuple[Any, np.ndarray] = (), np.empty(0)
        self._engine = engine
        self._block_rows = min(sample.n_rows, config.block_rows(sample.n_rows))
        self._divided: tuple[Any, tuple[DividedTable, ...]] = None, ()
        """The graphs of the last evaluation, and their pieces."""
        self._sampled: tuple[BlockCollection, curvature.RowSample] | None = None
        """The rows that were sampled last, and the sample."""

    def compile(self, arcs: Arcs) -> tuple[Adjacency, ...]:
        """Return arcs in the form that the other methods take."""
        return compile_adjacency(self.layout, arcs)

    def evaluate(self, graphs: Sequence[Adjacency], theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return loss and gradient without penalties; `gradient` and `gradient_factors` then refer to this point."""
        self._point = graphs, theta
        self._found = self.source.rows  # frees the old errors before the new ones are computed
        if self._objective.by_regressions:
            if self._divided[0] is not graphs:
                self._divided = graphs, self._divide(graphs)
            tables = self._divided[1]
            self._found, found = self.source.rows.map_update(
                block_evaluation.evaluate_regressions, self.layout, tables, theta, self._weights(tables, theta)
            )
        else:
            self._found, found = self.source.rows.map_update(
                block_evaluation.evaluate_sweep, self._objective, self.layout, graphs, theta
            )
        loss, gradient, self._bias_hessian = found
        return float(loss), gradient

    def gradient(self, graphs: Sequence[Adjacency], size: int) -> np.ndarray:
        """Return the gradient of graphs with ``size`` parameters, from the errors of the last evaluation."""
        if self._objective.by_regressions:
            tables = self._divide(graphs)
            return self._found.map_update(block_evaluation.gradient_of_regressions, tables, size)[1]
        return self._found.sum(block_evaluation.gradient, self._objective.averaged, graphs, size)

    def _divide(self, graphs: Sequence[Adjacency]) -> tuple[DividedTable, ...]:
        """Return the regressions of each table in pieces, table by table."""
        sizes, n_blocks = zip(graphs, self.layout.widths.tolist(), strict=True), len(self.source.rows)
        return tuple(divide(graph, width, self._block_rows, n_blocks) for graph, width in sizes)

    def _weights(self, tables: Sequence[DividedTable], theta: np.ndarray) -> list[list[np.ndarray]]:
        """Return the weight matrices of all pieces, table by table."""
        found = []
        for table, width in zip(tables, self.layout.widths.tolist(), strict=True):
            run = self._engine.map if any(piece.positions is not None for piece in table.pieces) else map
            found.append(list(run(lambda piece, width=width: piece.weight_matrix(theta, width), table.pieces)))
        return found

    def impute_missing(self, graphs: Sequence[Adjacency], theta: np.ndarray) -> float:
        """Infer the missing cells of clamped rows and return the largest change of a belief."""
        assert isinstance(self.source, ClampedRows)
        return self.source.impute(self._field(graphs, theta))

    def draw_completions(self, graphs: Sequence[Adjacency], theta: np.ndarray, copies: int, sweeps: int) -> None:
        """Complete the incomplete rows again: see `CompletedRows.draw`."""
        assert isinstance(self.source, CompletedRows)
        self.source.draw(self._field(graphs, theta), copies, sweeps)

    def observed_loss(self, graphs: Any, theta: np.ndarray) -> float:
        """Return minus the sum over observed cells of ln p(cell | all other observed cells)."""
        assert isinstance(self.source, CompletedRows)
        return self.source.observed_loss(self._field(graphs, theta))

    def observed_weights(self) -> np.ndarray:
        """Return the weight of the rows in which the variable of each state is observed, (states,)."""
        assert isinstance(self.source, CompletedRows)
        return self.source.observed_weights()

    def _field(self, graphs: Any, theta: np.ndarray) -> FieldWeights:
        return FieldWeights(self.layout, graphs, None, theta)

    def gradient_factors(self) -> GradientFactors:
        """Return the errors and expectations of the last evaluation."""
        sums, bias_gradient = self._found.sum(block_evaluation.sum_factors, self.layout)
        return GradientFactors(
            self.layout,
            self._found,
            means=tuple(self._per_weight(sums)),
            bias_gradient=tuple(np.split(bias_gradient, self.layout.target_starts[1:-1])),
            total_weights=self.total_weights,
            averaged=self._objective.averaged,
        )

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the weighted mean and variance of q0 over the rows, (columns of all tables,) each."""
        sums, squares = self.source.rows.sum(block_evaluation.sum_beliefs, self.layout)
        mean, square = (np.concatenate(self._per_weight(values)) for values in (sums, squares))
        return mean, np.maximum(square - mean**2, 0.0)

    def moments_of(self, conjunctions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the weighted mean and variance of products of columns over the rows, (conjunctions,) each."""
        weights = np.maximum(self.total_weights, np.finfo(float).tiny)
        total = self.source.rows.sum(block_evaluation.sum_products, self.layout, conjunctions)
        total = total / weights[self.layout.table_of_column[conjunctions[:, 0]], None]
        return total[:, 0], np.maximum(total[:, 1] - total[:, 0] ** 2, 0.0)

    def bias_hessian(self) -> np.ndarray:
        """Return the sum over rows of p (1 - p) (states,), the diagonal of the Hessian for the biases."""
        return self._bias_hessian

    def hessian_cost(self, graphs: Sequence[Adjacency]) -> float:
        """Return how many evaluations take as long as `regression_hessians`; infinite where there are none."""
        if not self._objective.by_regressions:
            return np.inf
        return curvature.relative_cost(graphs, curvature.count_rows(self.source.rows, len(self.layout.tables)))

    def regression_hessians(
        self, graphs: Sequence[Adjacency], theta: np.ndarray, free: np.ndarray
    ) -> list[curvature.RegressionHessian]:
        """Return the Hessians of all variables at theta: see `sparsefield.objectives.curvature`."""
        return curvature.regression_hessians(self._sample(), self.layout, graphs, theta, free, self._engine.map)

    def _sample(self) -> curvature.RowSample:
        """Return a sample of the current rows."""
        rows = self.source.rows
        if self._sampled is None or self._sampled[0] is not rows:
            self._sampled = rows, curvature.sample_rows(rows, len(self.layout.tables))
        return self._sampled[1]

    def wald_statistics(
        self, arcs: Arcs, weights: np.ndarray, groups: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return Wald statistics and degrees of freedom at the last point: see `sparsefield.objectives.wald`."""
        return wald_statistics(self._field(*self._point), self._found, arcs, weights, groups)

    def arc_hessian(self, graphs: Sequence[Adjacency]) -> None:
        """Return None: for single arcs it would take as long as a gradient."""

    def penalty_factors(self, features: np.ndarray) -> np.ndarray:
        """Return the factors of l1 for features, (features,)."""
        return self.layout.feature_factors(features)

    def _per_weight(self, sums: np.ndarray) -> list[np.ndarray]:
        """Divide sums over rows (columns of all tables,) by the weight of the rows, table by table."""
        by_table = np.split(sums, self.layout.column_starts[1:-1])
        tiny = np.finfo(float).tiny
        return [part / max(weight, tiny) for part, weight in zip(by_table, self.total_weights, strict=True)]
