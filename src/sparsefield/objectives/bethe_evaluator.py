"""Bethe likelihood: the log-likelihood with ln Z and expectations by belief propagation.

It is exact where the features of a row form a tree. On other graphs beliefs, and so the gradient, are approximate, and
the loss need not be convex. With strong weights on many loops belief propagation may not converge, and the loss is
infinite there, so that the optimizer stays where it does; or messages have several fixed points, and the loss jumps
from one to another between neighboring weights. In both cases a fit may end before its optimum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Dataset, Layout
from sparsefield.inference.belief_propagation import BeliefPropagation
from sparsefield.inference.method import InferenceMethod
from sparsefield.inference.missing_sums import BetheMissingSums, MissingSums, RowGroup
from sparsefield.objectives import block_evaluation
from sparsefield.objectives.block_evaluation import EvaluatedBlock
from sparsefield.objectives.dense_evaluator import GradientFactors
from sparsefield.objectives.em_options import EM
from sparsefield.objectives.likelihood_evaluator import (
    CompiledLikelihood,
    ExactGradients,
    LikelihoodEvaluator,
    dense_tables,
)
from sparsefield.objectives.objective import Objective, Problem

Array = np.ndarray


class BetheLikelihood(Objective):
    """Minimize minus the Bethe approximation of the log-likelihood, whose expectations belief propagation computes."""

    name = "bethe"

    def make_problem(self, dataset: Dataset, engine: Engine, missing: EM | InferenceMethod | None = None) -> Problem:
        return BetheEvaluator(dense_tables(dataset), engine)


class BetheEvaluator(LikelihoodEvaluator):
    """An evaluator of the Bethe likelihood of dense rows in this process."""

    def __init__(self, sample: Dataset, engine: Engine, options: BeliefPropagation | None = None) -> None:
        super().__init__(sample, engine)
        self._options = options or BeliefPropagation()
        self._scores_by_rows = sample.is_single and not sample.has_missing and _has_one_candidate_per_edge(self.layout)

    @property
    def unconverged(self) -> int:
        """Number of components of the last evaluation in which belief propagation did not converge."""
        if self._point is None or self._point[0].sums is None:
            return 0
        return sum(one.unconverged for sums in self._point[0].sums for one in sums if isinstance(one, BetheMissingSums))

    def evaluate(self, graph: CompiledLikelihood, theta: Array) -> tuple[float, Array]:
        """Return loss and gradient without penalties; the loss is infinite where messages do not converge."""
        loss, gradient = super().evaluate(graph, theta)
        return (np.inf if self.unconverged else loss), gradient

    def too_wide(self, features: Array) -> list[tuple[Array, int]]:
        """Return nothing: messages have the size of a variable whatever the graph."""
        return []

    def gradient_factors(self) -> ExactGradients | GradientFactors:  # type: ignore[override]
        """Return errors and expectations for complete rows of binary columns, else the gradients of all features.

        There all rows have the same beliefs b. The gradient of a pair that is no feature yet is b_A b_B minus x_A x_B,
        summed over rows, since no factor has both of its variables. It is the sum of (b_A - x_A) (x_B + b_B) / 2 and
        the same with A and B exchanged: errors times expectations, so that induction rules can threshold them.
        """
        if not self._scores_by_rows:
            return super().gradient_factors()
        assert self._point is not None
        beliefs = self._beliefs(self._point[0])
        parts, _ = self.source.rows.map_update(_with_beliefs, beliefs)
        sums, bias_gradient = parts.sum(block_evaluation.sum_factors, self.layout)
        weight = max(float(self.total_weights[0]), np.finfo(float).tiny)
        means, biases = (sums / weight,), (bias_gradient,)
        # The factor is that of `likelihood_factors`.
        return GradientFactors(self.layout, parts, means, biases, self.total_weights, averaged=True, pair_factor=0.5)

    def _beliefs(self, graph: CompiledLikelihood) -> Array:
        """Return the beliefs of the one row without observed cells at the last point, (target columns,)."""
        (free,), _ = self._sums(graph)
        (columns,) = free.expected_columns()
        return columns[:, 0]

    def _compile_rows(self, graph: CompiledLikelihood, groups: Sequence[RowGroup]) -> list[MissingSums]:
        return [BetheMissingSums(group, graph.graphs, graph.n_parameters, self._options) for group in groups]


def _has_one_candidate_per_edge(layout: Layout) -> bool:
    """Return whether there are no covariates, and no variable has two columns."""
    (schema,) = layout.schemas
    return schema.n_columns == schema.n_target_columns == len(schema.targets)


def _with_beliefs(part: EvaluatedBlock, beliefs: Array) -> tuple[EvaluatedBlock, None]:
    """Return a block with errors b - x, times the weights of rows, and the expectations (x + b) / 2."""
    observed, expected = part.block.beliefs, beliefs[:, None]
    errors, expectations = (expected - observed) * part.block.weight, 0.5 * (observed + expected)
    return part._replace(errors=errors, expectations=expectations), None
