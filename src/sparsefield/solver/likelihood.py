"""The exact likelihood: where a fit can learn by it, and weights that it estimates once features are selected."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from sparsefield.compute import Engine, Threads
from sparsefield.data import Dataset, Layout
from sparsefield.errors import DataError, WideComponentWarning
from sparsefield.induction import FullL1, InductionRule
from sparsefield.induction.rules import FixedCandidatesRule
from sparsefield.model import Field, pad_features
from sparsefield.model.fit_record import LikelihoodRecord, WideColumns
from sparsefield.objectives import EM, ExactLikelihood, LikelihoodEvaluator, Objective, PseudoLikelihood
from sparsefield.objectives.likelihood_evaluator import targets_of_columns
from sparsefield.solver.path import Path
from sparsefield.solver.state import FitCallbacks, FitResult, TrainingOptions, WarmStart


class GivenFeatures(FixedCandidatesRule):
    """A rule without pairs of its own: the features are those of the warm start."""

    name = "given"


@dataclass(frozen=True)
class WideComponent:
    """Target variables that depend on each other too widely for the exact likelihood."""

    variables: tuple[int, ...]
    """Numbers of the targets, over all tables."""
    table_size: int
    """Entries of the first table of variable elimination that is beyond the limit."""


@dataclass(frozen=True)
class LikelihoodStage:
    """A field whose weights were estimated by the exact likelihood, except for wide components."""

    field: Field
    fit: FitResult | None
    """The fit of the narrow components; None if there are none."""
    max_cells: int
    wide: tuple[WideComponent, ...]


def is_tractable(dataset: Dataset, rule: InductionRule) -> bool:
    """Return whether the likelihood is tractable with any features that a rule may add."""
    with Threads(1) as engine:
        evaluator = LikelihoodEvaluator(dataset, engine)
        if rule.fixed_candidates and not isinstance(rule, FullL1):
            return not evaluator.too_wide(rule.start(dataset.layout))
        return joint_bits(dataset) <= np.log2(evaluator.max_cells) + 1e-9


def joint_bits(dataset: Dataset) -> float:
    """Return the logarithm (base 2) of the number of joint states of the targets of linked rows, at most."""
    bits = [np.log2(np.diff(schema.coding.state_offsets)).sum() for schema in dataset.layout.schemas]
    if dataset.is_single:
        return float(bits[0])
    rows = np.concatenate([np.full(table.n_rows, own) for table, own in zip(dataset.tables, bits, strict=True)])
    return float(np.bincount(dataset.components, rows).max(initial=0.0))


def fit_by_likelihood(
    dataset: Dataset,
    field: Field,
    options: TrainingOptions,
    engine: Engine,
    callbacks: FitCallbacks | None = None,
) -> LikelihoodStage:
    """Estimate the weights of a field by the exact likelihood; those of wide components stay as they are."""
    evaluator = LikelihoodEvaluator(dataset, engine)
    features = pad_features(field.features, options.max_order)
    wide = _wide_components(dataset.layout, features, evaluator)
    narrow = np.ones(dataset.layout.n_targets, dtype=bool)
    for component in wide:
        narrow[list(component.variables)] = False
    if not narrow.any():
        return LikelihoodStage(field, None, evaluator.max_cells, wide)
    kept = _are_narrow(dataset.layout, features, narrow)
    start = WarmStart(field.biases, features[kept], field.theta[len(field.biases) :][kept])
    path = Path(
        dataset,
        rule=GivenFeatures(),
        objective=ExactLikelihood(),
        missing=EM(),
        options=options,
        engine=engine,
        callbacks=callbacks,
        start=start,
    )
    fit = path.run()
    return LikelihoodStage(_merge(field, fit.field, narrow), fit, evaluator.max_cells, wide)


def _wide_components(layout: Layout, features: np.ndarray, evaluator: LikelihoodEvaluator) -> tuple[WideComponent, ...]:
    """Return connected components of targets, over features, with rows that are too wide."""
    found: dict[int, WideComponent] = {}
    component = _components_of_targets(layout, features)
    for variables, table_size in evaluator.too_wide(features):
        own = int(component[variables[0]])
        members = tuple(np.flatnonzero(component == own).tolist())
        found.setdefault(own, WideComponent(members, table_size))
    return tuple(found.values())


def _components_of_targets(layout: Layout, features: np.ndarray) -> np.ndarray:
    """Return the connected component of each target, (targets of all tables,)."""
    targets = np.append(targets_of_columns(layout), -1)[features]
    first, ends = np.repeat(targets[:, :1], targets.shape[1], axis=1).ravel(), targets.ravel()
    first, ends = first[ends >= 0], ends[ends >= 0]
    graph = sp.coo_matrix((np.ones(len(ends), dtype=np.int8), (first, ends)), shape=(layout.n_targets,) * 2)
    return connected_components(graph, directed=False)[1]


def _are_narrow(layout: Layout, features: np.ndarray, narrow: np.ndarray) -> np.ndarray:
    """Return which features belong to narrow targets, (features,); their first column is always one of a target."""
    return narrow[targets_of_columns(layout)[features[:, 0]]]


def _merge(field: Field, exact: Field, narrow: np.ndarray) -> Field:
    """Return a field with the weights of narrow targets replaced by those of another one."""
    layout, width = field.layout, max(field.features.shape[1], exact.features.shape[1])
    features, others = pad_features(field.features, width), pad_features(exact.features, width)
    weights, n = field.theta[len(field.biases) :].copy(), len(field.biases)
    keys, found = layout.keys(features), layout.keys(others)
    order = np.argsort(found)
    place = np.minimum(np.searchsorted(found[order], keys), max(len(found) - 1, 0))
    own = _are_narrow(layout, features, narrow)
    if len(found):
        known = found[order][place] == keys
        weights[own] = np.where(known, exact.theta[n:][order][place], 0.0)[own]
    else:
        weights[own] = 0.0
    own_biases = narrow[targets_of_columns(layout)[layout.column_of_target]]
    biases = np.where(own_biases, exact.biases, field.biases)
    split, kept = len(field.pairs), weights != 0.0
    return replace(
        field,
        biases=biases,
        pairs=field.pairs[kept[:split]],
        weights=weights[:split][kept[:split]],
        conjunctions=field.conjunctions[kept[split:]],
        conjunction_weights=weights[split:][kept[split:]],
    )


def names_of_targets(layout: Layout, numbers: Sequence[int]) -> list[str]:
    """Return the names of targets, numbered over all tables; with their table if there are several."""
    names = [
        variable.name if len(layout.tables) == 1 else f"{table}.{variable.name}"
        for table, schema in zip(layout.tables, layout.schemas, strict=True)
        for variable in schema.targets
    ]
    return [names[number] for number in numbers]


NAMES = {"pl": "pseudo-likelihood", "cd": "contrastive divergence", "ml": "the likelihood"}
MOST_NAMES = 3
"""Columns of a wide component that a warning names."""


def likelihood_contradictions(refit: Any, parts: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each parameter that excludes the likelihood, exact or by belief propagation."""
    by_likelihood, name = parts["objective"].is_likelihood, parts["objective"].name
    option = f"objective={name!r}" if by_likelihood else "refit='ml'"
    if not by_likelihood and refit != "ml":
        return
    if by_likelihood and name != ExactLikelihood.name and refit == "ml":
        yield f"refit='ml' is for the objectives 'pl', 'cd' and 'ml': use refit=True with {option}."
    missing, order = parts["missing"], parts["features"].max_order
    if by_likelihood and not isinstance(missing, EM):
        yield f"{option} sums missing cells out: leave missing='auto' in place of {missing.name!r}."
    if by_likelihood and order > 2:
        yield f"{option} learns pairs: use objective='pl' with refit='ml' for max_order={order}."
    if parts["solver"].engine is not None:
        yield f"{option} needs all rows in this process: leave Solver(engine=...) out."


def objective_of_structure(objective: Objective, dataset: Dataset, rule: InductionRule) -> Objective:
    """Return the objective by which features are selected: the likelihood only where that is tractable for all."""
    if isinstance(objective, ExactLikelihood):
        return objective if dataset.is_dense and is_tractable(dataset, rule) else PseudoLikelihood()
    if objective.is_likelihood and not dataset.is_dense:
        raise DataError(f"objective={objective.name!r} is for dense tables in memory: use objective='pl'.")
    return objective


@dataclass(frozen=True)
class LikelihoodResult:
    """The result of a fit, and how the exact likelihood was used, if it was."""

    fit: FitResult
    record: LikelihoodRecord | None = None


@dataclass(frozen=True)
class Reestimation:
    """How the features of a fit are weighted by the likelihood."""

    options: TrainingOptions
    selected_by: Literal["pl", "cd"]
    """The objective of the fit."""
    refit: bool
    """Whether the objective and the violation of optimality stay those of the fit."""


def estimate_by_likelihood(
    dataset: Dataset, result: FitResult, how: Reestimation, engine: Engine, callbacks: FitCallbacks
) -> LikelihoodResult:
    """Estimate the weights of a field that another objective selected by the exact likelihood."""
    if not dataset.is_dense:
        raise DataError("The exact likelihood is for dense tables in memory: use objective='pl' and refit=False.")
    stage = fit_by_likelihood(dataset, result.field, how.options, engine, callbacks)
    layout, fit = dataset.layout, stage.fit
    wide = tuple(WideColumns(tuple(names_of_targets(layout, one.variables)), one.table_size) for one in stage.wide)
    record = LikelihoodRecord(stage.max_cells, how.selected_by, wide)
    mc_error = result.mc_error if wide else 0.0
    converged = result.converged and (fit is None or fit.converged)
    if how.refit or fit is None:
        return LikelihoodResult(replace(result, field=stage.field, converged=converged, mc_error=mc_error), record)
    found = replace(fit, field=stage.field, converged=converged, mc_error=mc_error)
    if wide or not result.converged:
        found = replace(found, kkt_violation=max(fit.kkt_violation, result.kkt_violation))
    if not result.converged:  # the log that says why
        found = replace(found, iterations=result.iterations)
    return LikelihoodResult(found, record)


def warn_if_wide(record: LikelihoodRecord | None, layout: Layout) -> None:
    """Warn about components whose weights are not those of the exact likelihood."""
    if record is None or not record.wide:
        return
    largest = max(record.wide, key=lambda component: len(component.columns))
    count = sum(len(component.columns) for component in record.wide)
    names = ", ".join(map(repr, largest.columns[:MOST_NAMES])) + (", ..." if len(largest.columns) > MOST_NAMES else "")
    over_links, remedy = (" over linked rows", "fewer templates") if layout.neighbor_views else ("", "fewer edges")
    warnings.warn(
        f"The exact likelihood is too expensive for {count:,} of {layout.n_targets:,} columns, which keep the weights "
        f"of {NAMES[record.selected_by]}: the largest connected component, of {len(largest.columns):,} columns "
        f"({names}){over_links}, needs a table of {largest.table_size:,} joint states or more, and the limit is "
        f"{record.max_cells:,}. A larger l1, or {remedy}, makes components narrower.",
        WideComponentWarning,
        stacklevel=4,
    )
