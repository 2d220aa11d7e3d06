"""This module fits the fields of several groups of rows together: shared weights plus penalized differences."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sparsefield.analysis.group_layout import GroupCandidates, GroupLayout
from sparsefield.analysis.group_refits import undetermined_biases
from sparsefield.compute import Engine
from sparsefield.data import DenseDataset, Layout, Schema, Table, deduplicate_rows
from sparsefield.data.table import join_blocks, rebuild_table
from sparsefield.inference import InferenceMethod
from sparsefield.model import Field
from sparsefield.objectives import EM
from sparsefield.objectives.pseudo_likelihood import PseudoLikelihood
from sparsefield.solver import FitResult, Trainer, TrainingOptions, WarmStart, warm_start

MAX_ROUNDS = 8
"""How many times candidates that violate optimality are added, at most."""


@dataclass(frozen=True)
class GroupRows:
    """The rows of a table, and the group of each."""

    table: Table
    numbers: np.ndarray
    """(rows,): number of the group of each row."""
    names: tuple[str, ...]

    @property
    def n_groups(self) -> int:
        return len(self.names)

    @property
    def schema(self) -> Schema:
        return self.table.schema

    def part(self, chosen: np.ndarray) -> Table:
        """Return the rows of a mask, (rows,)."""
        rows, codes = np.flatnonzero(chosen), self.table.codes()
        return rebuild_table(self.table, codes[:, rows], rows, self.schema.n_columns)

    def take(self, chosen: np.ndarray) -> GroupRows:
        """Return the rows of a mask, (rows,), with their groups."""
        return GroupRows(self.part(chosen), self.numbers[chosen], self.names)

    def dataset(self, layout: GroupLayout) -> DenseDataset:
        """Return one table for each group, with equal rows merged."""
        tables = [self.part(self.numbers == group) for group in range(self.n_groups)]
        merged = [deduplicate_rows(DenseDataset.single(table)).tables[0] for table in tables]
        return DenseDataset(layout, tuple(merged))  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class JointOptions:
    """The penalties and other options of a joint fit."""

    l1: float
    l1_difference: float
    """May be infinite, for groups that differ in their biases only."""
    training: TrainingOptions
    missing: EM | InferenceMethod


@dataclass(frozen=True)
class JointFit:
    """The result of a joint fit."""

    options: JointOptions
    result: FitResult
    violation: float
    """Largest violation of optimality over all candidates."""
    converged: bool

    @property
    def field(self) -> Field:
        """The field over one table for each group."""
        return self.result.field

    @property
    def layout(self) -> GroupLayout:
        layout = self.field.layout
        assert isinstance(layout, GroupLayout)
        return layout

    def group_field(self, group: int) -> Field:
        """Return the field of one group, over one table."""
        layout = self.layout
        pairs, weights = layout.group_weights(self.field.pairs, self.field.weights, group)
        first, last = layout.target_starts[group : group + 2]
        return Field(Layout.single(layout.schemas[0]), self.field.biases[first:last].copy(), pairs, weights)

    def shared_pairs(self) -> np.ndarray:
        """Return the pairs of one table that have a weight in some group, (pairs, 2)."""
        return np.unique(self.field.pairs % self.layout.width, axis=0)


def fit_groups(
    rows: GroupRows,
    options: JointOptions,
    candidates: np.ndarray,
    likely: np.ndarray,
    engine: Engine,
    start: WarmStart | None = None,
) -> JointFit:
    """Fit the fields of all groups together.

    Parameters
    ----------
    candidates : (pairs, 2), all pairs of columns that may have a weight
    likely : (pairs, 2), those that the fit begins with; others join where they violate optimality
    start : weights to start from, of a fit to the same groups
    """
    base = min(options.l1, options.l1_difference)
    layout = GroupLayout.of(rows.schema, rows.names, options.l1 / base, options.l1_difference / base)
    dataset, training = rows.dataset(layout), replace(options.training, l1=base)
    for _ in range(MAX_ROUNDS):
        trainer = Trainer(
            dataset,
            rule=GroupCandidates(likely),
            objective=PseudoLikelihood(),
            missing=options.missing,
            options=training,
            engine=engine,
            start=_restrict(start, layout, likely),
        )
        _penalize_undetermined(trainer, dataset)
        result = trainer.run()
        excess = _excess(trainer, layout, candidates)
        outside = np.flatnonzero(excess > trainer.allowed_violation)
        if not len(outside):
            break
        likely, start = np.unique(np.concatenate([likely, candidates[outside]]), axis=0), warm_start(result.field)
    violation = max(result.kkt_violation, float(excess.max(initial=0.0)))
    return JointFit(options, result, violation, result.converged and not len(outside))


def _restrict(start: WarmStart | None, layout: GroupLayout, likely: np.ndarray) -> WarmStart | None:
    """Return a start without features that are no candidates."""
    if start is None:
        return None
    known = np.isin(layout.keys(start.features), layout.keys(layout.features_of(likely)))
    return WarmStart(start.biases, start.features[known], start.weights[known])


def _penalize_undetermined(trainer: Trainer, dataset: DenseDataset) -> None:
    """Penalize biases that would diverge, such as those of a state that a group never has."""
    single = Layout.single(dataset.layout.schemas[0])
    found = [undetermined_biases(join_blocks(table.blocks).beliefs, single) for table in dataset.tables]
    problem = trainer.problem
    problem.penalty = replace(problem.penalty, on_biases=problem.penalty.on_biases | np.concatenate(found))


def _excess(trainer: Trainer, layout: GroupLayout, candidates: np.ndarray) -> np.ndarray:
    """Return by how much each pair violates optimality, (candidates,): its shared weight, or a difference.

    Features of the working set count as satisfied: the optimizer has seen to them.
    """
    features = layout.features_of(candidates)
    n, evaluator = layout.n_target_columns, trainer.evaluator
    gradient = evaluator.gradient(evaluator.compile(layout.arcs(features)), n + len(features))[n:]
    excess = np.abs(gradient) - trainer.options.l1 * layout.feature_factors(features)
    excess[np.isin(layout.keys(features), trainer.problem.working_set.pair_keys)] = 0.0
    n_features = len(features) // max(len(candidates), 1)
    return np.maximum(excess.reshape(n_features, len(candidates)).max(axis=0, initial=0.0), 0.0)
