"""Exact and Bethe (conditional) log-likelihood of dense rows.

The loss is the sum over rows of ln Z(covariates) - ln Z(covariates, observed cells). Both are sums over missing cells:
of rows without any target, and of rows as they are. What observed cells add by themselves is linear in the weights.
Sums are exact where they are tractable, or those of belief propagation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Arcs, Block, Dataset, Layout
from sparsefield.data.layout import COUNT_COLUMN
from sparsefield.inference import elimination
from sparsefield.inference.belief_propagation import BeliefPropagation
from sparsefield.inference.completions import rows_of_block
from sparsefield.inference.method import InferenceMethod
from sparsefield.inference.missing_sums import (
    BetheMissingSums,
    MissingSums,
    RowGroup,
    free_rows,
    incomplete_rows,
    without_missing,
)
from sparsefield.model import Adjacency, compile_adjacency
from sparsefield.objectives import block_evaluation
from sparsefield.objectives.block_evaluation import EvaluatedBlock
from sparsefield.objectives.dense_evaluator import DenseProblem, GradientFactors
from sparsefield.objectives.objective import Objective, PairQuery, Problem
from sparsefield.objectives.training_rows import EM, TrainingRows

Array = np.ndarray

MAX_CELLS = 2**16
"""Entries of the largest table of a component, at most: 16 binary variables that all depend on each other."""

MAX_TRAINING_CELLS = 2**25
"""The same for the tables of all rows together: an evaluation takes seconds then."""


class ExactLikelihood(Objective):
    """Minimize minus the log-likelihood of the observed targets given the covariates; convex where no cell is missing.

    Its gradient is no sum over single cells. Missing cells are summed out.
    """

    name = "ml"
    is_likelihood = True

    def make_problem(self, dataset: Dataset, engine: Engine, missing: EM | InferenceMethod | None = None) -> Problem:
        return LikelihoodEvaluator(_dense_tables(dataset), engine)


class BetheLikelihood(Objective):
    """Minimize minus the Bethe approximation of the log-likelihood, with expectations by belief propagation.

    It is exact where the features of a row form a tree. On other graphs beliefs, and so the gradient, are approximate,
    and the loss need not be convex. With strong weights on many loops belief propagation may not converge, and the loss
    is infinite there, so that the optimizer stays where it does; or messages have several fixed points, and the loss
    jumps from one to another between neighboring weights. In both cases a fit may end before its optimum.
    """

    name = "bethe"
    is_likelihood = True

    def make_problem(self, dataset: Dataset, engine: Engine, missing: EM | InferenceMethod | None = None) -> Problem:
        return BetheEvaluator(_dense_tables(dataset), engine)


def _dense_tables(dataset: Dataset) -> Dataset:
    """Return dense tables in this process, and refuse others."""
    if not dataset.is_dense:
        raise ValueError("the likelihood is for dense tables in this process")
    return dataset


@dataclass
class CompiledLikelihood:
    """The features of a working set; sums over missing cells and over observed features are added on first use."""

    arcs: Arcs
    graphs: tuple[Adjacency, ...]
    n_parameters: int
    sums: tuple[list[MissingSums], list[MissingSums]] | None = None
    observed: Array | None = None


@dataclass(frozen=True)
class ExactGradients:
    """The gradients of any features at one point."""

    layout: Layout
    gradient: Callable[[Array], Array]
    """Takes features (features, columns), returns (features,)."""

    def propose(self, rule: Any, query: PairQuery) -> Any:
        """Return the pairs that a rule proposes."""
        return rule.score_exactly(self, query)


class LikelihoodEvaluator(DenseProblem):
    """The exact log-likelihood of dense rows in this process; missing cells are summed out."""

    missing_cells = "summed out"

    def __init__(self, dataset: Dataset, engine: Engine) -> None:
        self.layout, self.total_weights = dataset.layout, dataset.total_weights
        self.source = TrainingRows(dataset.layout, dataset.hold_blocks(engine, block_evaluation.as_evaluated))
        self._engine = engine
        self._free, self._incomplete = free_rows(dataset), incomplete_rows(dataset)
        self._observed = observed_parts(dataset, self._incomplete)
        self._constant = sum(log_base_measure(self.layout, t, block).sum() for t, block in dataset.blocks())
        self.max_cells = largest_training_table(self._free)
        self._bias_hessian = np.empty(0)
        self._point: tuple[CompiledLikelihood, Array] | None = None

    def compile(self, arcs: Arcs) -> CompiledLikelihood:
        return CompiledLikelihood(arcs, compile_adjacency(self.layout, arcs), count_parameters(self.layout, arcs))

    def evaluate(self, graph: CompiledLikelihood, theta: Array) -> tuple[float, Array]:
        self._point = graph, theta
        free, incomplete = self._sums(graph)
        if graph.observed is None:
            graph.observed = observed_features(self.layout, graph.arcs, graph.graphs, self._observed)
        loss, gradient = -self._constant - float(theta @ graph.observed), -graph.observed
        self._bias_hessian = np.zeros(self.layout.n_target_columns)
        for sign, sums in ((1.0, free), (-1.0, incomplete)):
            results = self._engine.map(lambda part: part.sum(theta), sums)
            for part, result in zip(sums, results, strict=True):
                loss += sign * float(part.component_weights @ result.log_partition)
                gradient += sign * result.features
                for (t, block), columns in zip(part.group.members, result.columns, strict=True):
                    own = EvaluatedBlock(t, block, columns * block.weight, block.beliefs)
                    gradient += sign * block_evaluation.gradient(own, False, graph.graphs, graph.n_parameters)
                    if sign > 0.0:
                        start, variance = int(self.layout.target_starts[t]), columns * (1.0 - columns)
                        variance[self.layout.schemas[t].is_score] = 1.0  # scores are standardized
                        self._bias_hessian[start : start + len(columns)] += variance @ block.weight
        return loss, gradient

    def gradient(self, graph: CompiledLikelihood, size: int) -> Array:
        assert self._point is not None
        last, theta = self._point
        n, both = self.layout.n_target_columns, join_arcs(self.layout, last.arcs, graph.arcs, len(theta))
        hessian = self._bias_hessian
        wider = np.concatenate([theta, np.zeros(size - n)])
        _, gradient = self.evaluate(self.compile(both), wider)
        self._point, self._bias_hessian = (last, theta), hessian
        return np.concatenate([gradient[:n], gradient[len(theta) :]])

    def gradient_factors(self) -> Any:
        n = self.layout.n_target_columns

        def gradient(features: Array) -> Array:
            return self.gradient(self.compile(self.layout.arcs(features)), n + len(features))[n:]

        return ExactGradients(self.layout, gradient)

    def too_wide(self, features: Array) -> list[tuple[Array, int]]:
        """Return the components of the field that need tables beyond ``max_cells``.

        Each has the target variables (numbered over all tables) of one shape of a component of missing cells, and the
        number of entries of its largest table, or of the first that is too large.
        """
        graph = self.compile(self.layout.arcs(features))
        sizes: dict[tuple[int, ...], int] = {}
        # Rows of a plain table differ in the values of factors only, but for conjunctions with covariates.
        alike = not self._free[0].sample.has_links and features.shape[1] == 2
        for group in [_first_row(self._free[0])] if alike else self._free:
            sums = MissingSums(group, graph.graphs, graph.n_parameters, self.max_cells)
            for batch in sums.too_wide:
                variables = np.unique(sums.compiled.problem.cell_variable[batch.missing_cells])
                sizes[tuple(variables.tolist())] = batch.plan.table_size
        return [(np.array(variables), size) for variables, size in sizes.items()]

    def _sums(self, graph: CompiledLikelihood) -> tuple[list[MissingSums], list[MissingSums]]:
        if graph.sums is None:
            graph.sums = self._compile_rows(graph, self._free), self._compile_rows(graph, self._incomplete)
        return graph.sums

    def _compile_rows(self, graph: CompiledLikelihood, groups: Sequence[RowGroup]) -> list[MissingSums]:
        # Features were checked before; given observed cells, the order of elimination may be slightly worse.
        compiled = [MissingSums(group, graph.graphs, graph.n_parameters, elimination.MAX_CELLS) for group in groups]
        if any(sums.too_wide for sums in compiled):
            raise ValueError("a component of the field is too wide for the exact likelihood")
        return compiled

    def penalty_factors(self, features: Array) -> Array:
        return likelihood_factors(self.layout, features)


class BetheEvaluator(LikelihoodEvaluator):
    """The Bethe likelihood of dense rows in this process."""

    def __init__(self, dataset: Dataset, engine: Engine, options: BeliefPropagation | None = None) -> None:
        super().__init__(dataset, engine)
        self._options = options or BeliefPropagation()
        schema = self.layout.schemas[0]
        one_per_edge = schema.n_columns == schema.n_target_columns == len(schema.targets)
        self._scores_by_rows = dataset.is_single and not dataset.has_missing and one_per_edge

    @property
    def unconverged(self) -> int:
        """Number of components of the last evaluation in which belief propagation did not converge."""
        if self._point is None or self._point[0].sums is None:
            return 0
        every = [part for sums in self._point[0].sums for part in sums]
        return sum(part.unconverged for part in every if isinstance(part, BetheMissingSums))

    def evaluate(self, graph: CompiledLikelihood, theta: Array) -> tuple[float, Array]:
        """Return loss and gradient without penalties; the loss is infinite where messages do not converge."""
        loss, gradient = super().evaluate(graph, theta)
        return (np.inf if self.unconverged else loss), gradient

    def too_wide(self, features: Array) -> list[tuple[Array, int]]:
        """Return nothing: messages have the size of a variable whatever the graph."""
        return []

    def gradient_factors(self) -> Any:
        """Return errors and expectations for complete rows of binary columns, else the gradients of all features.

        There all rows have the same beliefs b. The gradient of a pair that is no feature yet is b_A b_B minus x_A x_B,
        summed over rows, since no factor has both of its variables. It is the sum of (b_A - x_A) (x_B + b_B) / 2 and
        the same with A and B exchanged: errors times expectations, so that induction rules can threshold them.
        """
        if not self._scores_by_rows:
            return super().gradient_factors()
        assert self._point is not None
        (free,), _ = self._sums(self._point[0])
        (columns,) = free.expected_columns()  # of the one row without observed cells
        parts, _ = self.source.rows.map_update(_with_beliefs, columns[:, 0])
        # The factor is that of `likelihood_factors`.
        return GradientFactors.of(self.layout, parts, self.total_weights, averaged=True, pair_factor=0.5)

    def _compile_rows(self, graph: CompiledLikelihood, groups: Sequence[RowGroup]) -> list[MissingSums]:
        return [BetheMissingSums(group, graph.graphs, graph.n_parameters, self._options) for group in groups]


def _with_beliefs(part: EvaluatedBlock, beliefs: Array) -> tuple[EvaluatedBlock, None]:
    """Return a block with errors b - x, times the weights of rows, and the expectations (x + b) / 2."""
    observed, expected = part.block.beliefs, beliefs[:, None]
    errors, expectations = (expected - observed) * part.block.weight, 0.5 * (observed + expected)
    return part._replace(errors=errors, expectations=expectations), None


def _first_row(group: RowGroup) -> RowGroup:
    (table, block), *_ = group.members
    return RowGroup(group.sample, [(table, rows_of_block(block, np.arange(min(block.n_rows, 1))))])


def largest_training_table(free: Sequence[RowGroup]) -> int:
    """Return the number of entries that a table of a component may have, given the number of different rows."""
    if free and free[0].sample.has_links:
        rows = int(free[0].sample.components.max(initial=0)) + 1
    else:
        rows = sum(block.n_rows for group in free for _, block in group.members)
    return int(max(min(MAX_CELLS, MAX_TRAINING_CELLS // max(rows, 1)), 2))


def observed_parts(dataset: Dataset, incomplete: Sequence[RowGroup]) -> list[EvaluatedBlock]:
    """Return blocks whose errors are the values of observed targets, times weights, and 0 for missing cells."""
    if dataset.is_single or not incomplete:
        blocks = [(t, without_missing(block, dataset.layout.schemas[t])) for t, block in dataset.blocks()]
    else:
        blocks = incomplete[0].members
    return [
        EvaluatedBlock(t, block, block.beliefs[: block.n_target_columns] * block.weight, block.beliefs)
        for t, block in blocks
    ]


def observed_features(
    layout: Layout, arcs: Arcs, graphs: Sequence[Adjacency], parts: Sequence[EvaluatedBlock]
) -> Array:
    """Return the sums over rows of features all of whose columns are observed, (parameters,)."""
    size = count_parameters(layout, arcs)
    total = np.zeros(size)
    for part in parts:
        total += block_evaluation.gradient(part, False, graphs, size)
    total[layout.n_target_columns :] /= count_targets(layout, arcs, size)
    return total


def count_parameters(layout: Layout, arcs: Arcs) -> int:
    """Return the number of biases and features."""
    return layout.n_target_columns + int(arcs.feature.max(initial=-1)) + 1


def log_base_measure(layout: Layout, table: int, block: Block) -> Array:
    """Return the sums of the logarithms of the base measures of observed cells, times weights, (rows,)."""
    coding = layout.schemas[table].coding
    state = coding.state_offsets[:-1, None] + np.maximum(block.codes, 0)
    return (coding.log_base[state] * (block.codes >= 0)).sum(axis=0) * block.weight


def join_arcs(layout: Layout, first: Arcs, second: Arcs, n_first: int) -> Arcs:
    """Return the arcs of two lists of features, the second after the first; ``n_first`` counts biases, too."""
    n, shift = layout.n_columns, len(first.conjunctions)
    source = np.where(second.source >= n, second.source + shift, second.source)
    width = max(first.conjunctions.shape[1], second.conjunctions.shape[1])
    conjunctions = [
        np.pad(arcs.conjunctions, ((0, 0), (0, width - arcs.conjunctions.shape[1])), constant_values=-1)
        for arcs in (first, second)
    ]
    return Arcs(
        np.concatenate([first.target, second.target]),
        np.concatenate([first.source, source]),
        np.concatenate([first.feature, second.feature + n_first - layout.n_target_columns]),
        np.concatenate(conjunctions),
    )


def count_targets(layout: Layout, arcs: Arcs, n_parameters: int) -> Array:
    """Return how many columns of each feature are targets, (features,)."""
    is_target = np.append(targets_of_columns(layout) >= 0, False)
    counts = np.ones(n_parameters - layout.n_target_columns)
    simple = arcs.source < layout.n_columns
    counts[arcs.feature[simple]] += is_target[arcs.source[simple]]
    members = arcs.conjunctions[arcs.source[~simple] - layout.n_columns]
    counts[arcs.feature[~simple]] += is_target[members].sum(axis=1)
    return counts


def likelihood_factors(layout: Layout, features: Array) -> Array:
    """Return the factors of l1 for features under the likelihood: those of `pl` over their numbers of target columns.

    Pseudo-likelihood has a term for each target of a feature where the likelihood has one, so one l1 suits both.
    """
    is_target = np.append(targets_of_columns(layout) >= 0, False)
    return layout.feature_factors(features) / is_target[features].sum(axis=1)


def targets_of_columns(layout: Layout) -> Array:
    """Return the target variable of each column, numbered over all tables, -1 for none, (columns,).

    A column of a neighbor view belongs to the variable of the neighbor.
    """
    counts = [len(schema.targets) for schema in layout.schemas]
    first = np.concatenate([[0], np.cumsum(counts)])
    owners = [
        np.concatenate([first[t] + np.repeat(np.arange(counts[t]), np.diff(schema.target_offsets)), [-1]])
        for t, schema in enumerate(layout.schemas)
    ]
    parts = []
    for t in range(len(layout.tables)):
        view, column = layout.column_views(t)
        targets = np.full(len(view), -1, dtype=np.int64)
        for source in range(len(layout.tables)):
            tables = np.array([t, *(v.source_table for v in layout.neighbor_views)])[np.maximum(view + 1, 0)]
            here = (tables == source) & (column != COUNT_COLUMN)
            targets[here] = owners[source][np.minimum(column[here], len(owners[source]) - 1)]
        parts.append(targets)
    return np.concatenate(parts)
