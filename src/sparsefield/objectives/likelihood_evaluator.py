"""Exact (conditional) log-likelihood, where sums over unobserved variables are tractable.

The loss is the sum over rows of ln Z(covariates) - ln Z(covariates, observed cells). Both are sums over missing cells:
of rows without any target, and of rows as they are. What observed cells add by themselves is linear in the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Arcs, Block, Dataset, Layout
from sparsefield.data.candidate_pairs import COUNT_COLUMN
from sparsefield.inference import elimination
from sparsefield.inference.completions import rows_of_block
from sparsefield.inference.method import InferenceMethod
from sparsefield.inference.missing_sums import MissingSums, RowGroup, Sums, free_rows, incomplete_rows, without_missing
from sparsefield.model import Adjacency, compile_adjacency
from sparsefield.objectives import block_evaluation
from sparsefield.objectives.block_evaluation import EvaluatedBlock
from sparsefield.objectives.em_options import EM
from sparsefield.objectives.objective import Objective, PairQuery, Problem
from sparsefield.objectives.training_rows import TrainingRows

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

    def make_problem(self, dataset: Dataset, engine: Engine, missing: EM | InferenceMethod | None = None) -> Problem:
        return LikelihoodEvaluator(dense_tables(dataset), engine)


def dense_tables(dataset: Dataset) -> Dataset:
    """Return dense tables in this process, and refuse others."""
    if not dataset.is_dense:
        raise ValueError("the likelihood is for dense tables in this process")
    return dataset


class CompiledLikelihood:
    """The features of a working set, and sums over missing cells, which are compiled on first use."""

    def __init__(self, arcs: Arcs, graphs: tuple[Adjacency, ...], n_parameters: int) -> None:
        self.arcs, self.graphs, self.n_parameters = arcs, graphs, n_parameters
        self.sums: tuple[list[MissingSums], list[MissingSums]] | None = None
        self.observed: Array | None = None


@dataclass(frozen=True)
class ExactGradients:
    """The gradients of any features at one point."""

    layout: Layout
    gradient: Callable[[Array], Array]
    """Takes features (features, columns), returns (features,)."""

    def propose(self, rule: Any, query: PairQuery) -> Any:
        """Return the pairs that a rule proposes."""
        return rule.score_exactly(self, query)


class LikelihoodEvaluator:
    """An evaluator of the exact log-likelihood of dense rows in this process; missing cells are summed out."""

    keeps_errors = True

    def __init__(self, sample: Dataset, engine: Engine) -> None:
        self.layout, self.total_weights = sample.layout, sample.total_weights
        self.source = TrainingRows(sample.layout, sample.hold_blocks(engine, block_evaluation.as_evaluated))
        self._engine = engine
        self._free, self._incomplete = free_rows(sample), incomplete_rows(sample)
        self._observed = observed_parts(sample, self._incomplete)
        self._constant = sum(log_base_measure(self.layout, t, block).sum() for t, block in sample.blocks())
        self.max_cells = largest_training_table(self._free)
        self._bias_hessian = np.empty(0)
        self._point: tuple[CompiledLikelihood, Array] | None = None

    def compile(self, arcs: Arcs) -> CompiledLikelihood:
        """Return arcs in the form that the other methods take."""
        return CompiledLikelihood(arcs, compile_adjacency(self.layout, arcs), count_parameters(self.layout, arcs))

    def evaluate(self, graph: CompiledLikelihood, theta: Array) -> tuple[float, Array]:
        """Return loss and gradient without penalties."""
        self._point = graph, theta
        free, incomplete = self._sums(graph)
        observed = self._observed_features(graph)
        loss, gradient = -self._constant - float(theta @ observed), -observed
        self._bias_hessian = np.zeros(self.layout.n_target_columns)
        for sign, sums in ((1.0, free), (-1.0, incomplete)):
            found = self._engine.map(lambda one: one.sum(theta), sums)
            for one, result in zip(sums, found, strict=True):
                loss += sign * float(one.component_weights @ result.log_partition)
                gradient += sign * expected_features_of(one, result, graph.graphs)
                if sign > 0.0:
                    self._bias_hessian += sum_of_variances(self.layout, one, result)
        return loss, gradient

    def gradient(self, graph: CompiledLikelihood, size: int) -> Array:
        """Return the gradient of other features at the last point, (size,): biases, then features."""
        assert self._point is not None
        last, theta = self._point
        n, both = self.layout.n_target_columns, join_arcs(self.layout, last.arcs, graph.arcs, len(theta))
        hessian = self._bias_hessian
        wider = np.concatenate([theta, np.zeros(size - n)])
        _, found = self.evaluate(self.compile(both), wider)
        self._point, self._bias_hessian = (last, theta), hessian
        return np.concatenate([found[:n], found[len(theta) :]])

    def gradient_factors(self) -> ExactGradients:
        """Return the gradients of all features at the last point."""
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
        found: dict[tuple[int, ...], int] = {}
        # Rows of a plain table differ in the values of factors only, but for conjunctions with covariates.
        alike = not self._free[0].sample.has_links and features.shape[1] == 2
        for group in [_first_row(self._free[0])] if alike else self._free:
            sums = MissingSums(group, graph.graphs, graph.n_parameters, self.max_cells)
            for batch in sums.too_wide:
                variables = np.unique(sums.compiled.problem.cell_variable[batch.missing_cells])
                found[tuple(variables.tolist())] = batch.plan.table_size
        return [(np.array(variables), size) for variables, size in found.items()]

    def _sums(self, graph: CompiledLikelihood) -> tuple[list[MissingSums], list[MissingSums]]:
        if graph.sums is None:
            graph.sums = self._compile_rows(graph, self._free), self._compile_rows(graph, self._incomplete)
        return graph.sums

    def _compile_rows(self, graph: CompiledLikelihood, groups: Sequence[RowGroup]) -> list[MissingSums]:
        # Features were checked before; given observed cells, the order of elimination may be slightly worse.
        found = [MissingSums(group, graph.graphs, graph.n_parameters, elimination.MAX_CELLS) for group in groups]
        if any(sums.too_wide for sums in found):
            raise ValueError("a component of the field is too wide for the exact likelihood")
        return found

    def _observed_features(self, graph: CompiledLikelihood) -> Array:
        """Return the sums over rows of features all of whose columns are observed, (parameters,)."""
        if graph.observed is None:
            graph.observed = observed_features(self.layout, graph.arcs, graph.graphs, self._observed)
        return graph.observed

    # -- for the training loop -----------------------------------------------------------------------------------

    def bias_hessian(self) -> Array:
        """Return the sum over rows of the variances of target columns, (states,)."""
        return self._bias_hessian

    def arc_hessian(self, graph: CompiledLikelihood) -> None:
        """Return None: the preconditioner is diagonal."""

    def hessian_cost(self, graph: CompiledLikelihood) -> float:
        """Return infinity: there is no Hessian."""
        return np.inf

    def regression_hessians(self, graph: CompiledLikelihood, theta: Array, free: Array) -> list[Any]:
        """Refuse: the likelihood is no sum of regressions."""
        raise NotImplementedError

    def moments(self) -> tuple[Array, Array]:
        """Return the weighted mean and variance of all columns over the rows."""
        sums, squares = self.source.rows.sum(block_evaluation.sum_beliefs, self.layout)
        weights = np.repeat(np.maximum(self.total_weights, np.finfo(float).tiny), self.layout.widths)
        return sums / weights, np.maximum(squares / weights - np.square(sums / weights), 0.0)

    def moments_of(self, conjunctions: Array) -> tuple[Array, Array]:
        """Return the weighted mean and variance of products of columns over the rows."""
        weights = np.maximum(self.total_weights, np.finfo(float).tiny)
        total = self.source.rows.sum(block_evaluation.sum_products, self.layout, conjunctions)
        total = total / weights[self.layout.table_of_column[conjunctions[:, 0]], None]
        return total[:, 0], np.maximum(total[:, 1] - total[:, 0] ** 2, 0.0)

    def penalty_factors(self, features: Array) -> Array:
        """Return the factors of l1 for features, (features,)."""
        return likelihood_factors(self.layout, features)


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


def observed_parts(sample: Dataset, incomplete: Sequence[RowGroup]) -> list[EvaluatedBlock]:
    """Return blocks whose errors are the values of observed targets, times weights, and 0 for missing cells."""
    if sample.is_single or not incomplete:
        blocks = [(t, without_missing(block, sample.layout.schemas[t])) for t, block in sample.blocks()]
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


def expected_features_of(sums: MissingSums, found: Sums, graphs: Sequence[Adjacency]) -> Array:
    """Return the expectations of all features with a missing cell, times weights of rows, (parameters,)."""
    total = found.features.copy()
    for (t, block), columns in zip(sums.group.members, found.columns, strict=True):
        part = EvaluatedBlock(t, block, columns * block.weight, block.beliefs)
        total += block_evaluation.gradient(part, False, graphs, sums.n_parameters)
    return total


def sum_of_variances(layout: Layout, sums: MissingSums, found: Sums) -> Array:
    """Return the sums over rows of the variances of the columns of missing cells, (states of all tables,)."""
    total = np.zeros(layout.n_target_columns)
    for (t, block), columns in zip(sums.group.members, found.columns, strict=True):
        start, score = int(layout.target_starts[t]), layout.schemas[t].is_score
        variance = columns * (1.0 - columns)
        variance[score] = 1.0  # scores are standardized
        total[start : start + len(columns)] += variance @ block.weight
    return total


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
        found = np.full(len(view), -1, dtype=np.int64)
        for source in range(len(layout.tables)):
            tables = np.array([t, *(v.source_table for v in layout.neighbor_views)])[np.maximum(view + 1, 0)]
            here = (tables == source) & (column != COUNT_COLUMN)
            found[here] = owners[source][np.minimum(column[here], len(owners[source]) - 1)]
        parts.append(found)
    return np.concatenate(parts)
