"""The exact likelihood: where a fit can learn by it, and weights that it estimates once features are selected."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
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
from sparsefield.model import pad_features
from sparsefield.model.fit_record import LikelihoodRecord, WideColumns
from sparsefield.objectives import EM, ExactLikelihood, LikelihoodEvaluator, Objective, PseudoLikelihood
from sparsefield.objectives.likelihood_evaluator import targets_of_columns
from sparsefield.solver.path import Path
from sparsefield.solver.policy import TrainingOptions
from sparsefield.solver.state import FitCallbacks, FitResult, WarmStart
from sparsefield.solver.working_set import make_field


@dataclass(frozen=True)
class LikelihoodResult:
    """The result of a fit, and how the exact likelihood was used, if it was."""

    fit: FitResult
    record: LikelihoodRecord | None = None


def estimate_by_likelihood(
    dataset: Dataset,
    result: FitResult,
    options: TrainingOptions,
    engine: Engine,
    callbacks: FitCallbacks | None = None,
    *,
    selected_by: Literal["pl", "cd"] = "pl",
    refit: bool = False,
) -> LikelihoodResult:
    """Estimate the weights of a fit by the exact likelihood; those of components that are too wide stay as they are.

    Parameters
    ----------
    selected_by : the objective of the fit
    refit : whether objective, violation of optimality and log stay those of the fit
    """
    if not dataset.is_dense:
        raise DataError("The exact likelihood is for dense tables in memory: use objective='pl' and refit=False.")
    layout, field, evaluator = dataset.layout, result.field, LikelihoodEvaluator(dataset, engine)
    features = pad_features(field.features, options.max_order)
    wide = _wide_components(layout, features, evaluator)
    names = [
        variable.name if len(layout.tables) == 1 else f"{table}.{variable.name}"
        for table, schema in zip(layout.tables, layout.schemas, strict=True)
        for variable in schema.targets
    ]
    wide_columns = [WideColumns(tuple(names[target] for target in targets), size) for targets, size in wide.items()]
    record = LikelihoodRecord(evaluator.max_cells, selected_by, tuple(wide_columns))
    narrow = ~np.isin(np.arange(layout.n_targets), [target for variables in wide for target in variables])
    mc_error = result.mc_error if wide else 0.0
    if not narrow.any():
        return LikelihoodResult(replace(result, mc_error=mc_error), record)
    own = narrow[targets_of_columns(layout)[features[:, 0]]]  # the first column is always one of a target
    start = WarmStart(field.biases, features[own], field.theta[len(field.biases) :][own])
    rule, objective = FixedCandidatesRule(), ExactLikelihood()
    given: dict[str, Any] = {"options": options, "engine": engine, "callbacks": callbacks, "start": start}
    fit = Path(dataset, rule=rule, objective=objective, missing=EM(), **given).run()
    exact, own_biases = fit.field, narrow[targets_of_columns(layout)[layout.column_of_target]]
    features = np.concatenate([features[~own], pad_features(exact.features, features.shape[1])])
    weights = np.concatenate([field.theta[len(field.biases) :][~own], exact.theta[len(exact.biases) :]])
    order = np.argsort(layout.keys(features), kind="stable")
    biases = np.where(own_biases, exact.biases, field.biases)
    merged = make_field(layout, biases, features[order], weights[order])
    converged = result.converged and fit.converged
    if refit:
        return LikelihoodResult(replace(result, field=merged, converged=converged, mc_error=mc_error), record)
    estimate = replace(fit, field=merged, converged=converged, mc_error=mc_error)
    if wide or not result.converged:
        estimate = replace(estimate, kkt_violation=max(fit.kkt_violation, result.kkt_violation))
    if not result.converged:  # the log that says why
        estimate = replace(estimate, iterations=result.iterations)
    return LikelihoodResult(estimate, record)


def _wide_components(
    layout: Layout, features: np.ndarray, evaluator: LikelihoodEvaluator
) -> dict[tuple[int, ...], int]:
    """Return the target variables of connected components, over features, with rows that are too wide.

    Values are the numbers of entries of the first table of variable elimination that is beyond the limit.
    """
    targets = np.append(targets_of_columns(layout), -1)[features]
    first, ends = np.repeat(targets[:, :1], targets.shape[1], axis=1)[targets >= 0], targets[targets >= 0]
    graph = sp.coo_matrix((np.ones(len(ends), dtype=np.int8), (first, ends)), shape=(layout.n_targets,) * 2)
    component = connected_components(graph, directed=False)[1]
    wide: dict[tuple[int, ...], int] = {}
    for variables, table_size in evaluator.too_wide(features):
        wide.setdefault(tuple(np.flatnonzero(component == component[variables[0]]).tolist()), table_size)
    return wide


NAMES = {"pl": "pseudo-likelihood", "cd": "contrastive divergence", "ml": "the likelihood"}
MOST_NAMES = 3
"""Columns of a wide component that a warning names."""


def likelihood_contradictions(refit: Any, parts: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each parameter that excludes the likelihood, exact or by belief propagation."""
    by_likelihood, name = parts["objective"].is_likelihood, parts["objective"].name
    option = f"objective={name!r}" if by_likelihood else "refit='ml'"
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
    if not isinstance(objective, ExactLikelihood):
        if objective.is_likelihood and not dataset.is_dense:
            raise DataError(f"objective={objective.name!r} is for dense tables in memory: use objective='pl'.")
        return objective
    if not dataset.is_dense:
        return PseudoLikelihood()
    with Threads(1) as engine:
        evaluator = LikelihoodEvaluator(dataset, engine)
        if rule.fixed_candidates and not isinstance(rule, FullL1):
            tractable = not evaluator.too_wide(rule.start(dataset.layout))
        else:
            tractable = joint_bits(dataset) <= np.log2(evaluator.max_cells) + 1e-9
    return objective if tractable else PseudoLikelihood()


def joint_bits(dataset: Dataset) -> float:
    """Return the logarithm (base 2) of the number of joint states of the targets of linked rows, at most."""
    bits = [np.log2(np.diff(schema.coding.state_offsets)).sum() for schema in dataset.layout.schemas]
    if dataset.is_single:
        return float(bits[0])
    rows = np.concatenate([np.full(table.n_rows, own) for table, own in zip(dataset.tables, bits, strict=True)])
    return float(np.bincount(dataset.components, rows).max(initial=0.0))


def warn_of_wide_columns(record: LikelihoodRecord, layout: Layout) -> None:
    """Warn about components whose weights are not those of the exact likelihood."""
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
