"""This module decides where estimators learn by the exact likelihood, and says where they cannot."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sparsefield.compute import Engine
from sparsefield.data import Dataset, Layout
from sparsefield.errors import DataError, WideComponentWarning
from sparsefield.induction import InductionRule
from sparsefield.model.fit_record import LikelihoodRecord, WideColumns
from sparsefield.objectives import EM, Objective, PseudoLikelihood
from sparsefield.solver import FitCallbacks, FitResult, TrainingOptions, fit_by_likelihood, is_tractable
from sparsefield.solver.likelihood_stage import names_of_targets

NAMES = {"pl": "pseudo-likelihood", "cd": "contrastive divergence", "ml": "the likelihood"}
MOST_NAMES = 3
"""Columns of a wide component that a warning names."""


def likelihood_contradictions(objective: str, refit: Any, parts: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each parameter that excludes the likelihood, exact or by belief propagation."""
    by_likelihood = objective in ("ml", "bethe")
    option = f"objective={objective!r}" if by_likelihood else "refit='ml'"
    if not by_likelihood and refit != "ml":
        return
    if objective == "bethe" and refit == "ml":
        yield "refit='ml' is for the objectives 'pl', 'cd' and 'ml': use refit=True with objective='bethe'."
    missing, order = parts["missing"], parts["features"].max_order
    if by_likelihood and not isinstance(missing, EM):
        yield f"{option} sums missing cells out: leave missing='auto' in place of {missing.name!r}."
    if by_likelihood and order > 2:
        yield f"{option} learns pairs: use objective='pl' with refit='ml' for max_order={order}."
    if parts["solver"].engine is not None:
        yield f"{option} needs all rows in this process: leave Solver(engine=...) out."


def objective_of_structure(objective: Objective, dataset: Dataset, rule: InductionRule) -> Objective:
    """Return the objective by which features are selected: the likelihood only where that is tractable for all."""
    if objective.name == "bethe" and not dataset.is_dense:
        raise DataError("The Bethe likelihood is for dense tables in memory: use objective='pl'.")
    if objective.name != "ml" or (dataset.is_dense and is_tractable(dataset, rule)):
        return objective
    return PseudoLikelihood()


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
