"""Training of an estimator: from its parameters and compiled tables to a field.

Functions that resample rows use `training_options` and `make_path` to learn as the estimator does.
"""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.exceptions import ConvergenceWarning

import sparsefield
from sparsefield import config
from sparsefield.compute import Engine, Threads
from sparsefield.compute.threads import report_progress
from sparsefield.compute.torch_engine import open_engine
from sparsefield.data import Dataset, as_array, as_source, deduplicate_rows
from sparsefield.data.frames import CategoricalCells
from sparsefield.errors import DataError, SelectionWarning, interrupts_as_such
from sparsefield.estimators.compiled_rows import threads_for
from sparsefield.estimators.field_estimator import PARTS, FieldEstimator, TrainingData, as_seed
from sparsefield.estimators.latent_start import latent_problems
from sparsefield.model import FitRecord
from sparsefield.model.fit_record import LikelihoodRecord
from sparsefield.objectives import EM, BetheEvaluator, LikelihoodEvaluator, Objective
from sparsefield.options import problems_of, raise_problems, resolve_parts
from sparsefield.solver import (
    EBIC,
    FitCallbacks,
    FitResult,
    HeldOut,
    Path,
    PathSelection,
    SelectionCheckpoint,
    SelectionOptions,
    TrainingOptions,
    WarmStart,
    fingerprint,
    prune_by_wald,
    select_l1,
)
from sparsefield.solver.evidence import edge_evidence
from sparsefield.solver.likelihood import (
    LikelihoodResult,
    estimate_by_likelihood,
    likelihood_contradictions,
    objective_of_structure,
    warn_of_wide_columns,
)

MIN_REFIT_L2 = 0.01
"""Smallest l2 of a refit."""


def check_parameters(estimator: FieldEstimator) -> None:
    """Refuse invalid parameters, all at once, before any work is done."""
    parts, problems = resolve_parts(PARTS, estimator.resolve)
    params = estimator.get_params(deep=False)
    latent = params.get("latent")
    raise_problems([*problems_of(params), *problems, *(() if latent is None else latent_problems(latent))])
    raise_problems([*_contradictions(estimator, parts), *estimator._contradictions(parts)])


def _contradictions(estimator: FieldEstimator, parts: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each pair of valid parameters that exclude each other."""
    rule, order, objective = parts["induction"], parts["features"].max_order, parts["objective"]
    if objective.is_likelihood or estimator.refit == "ml":
        yield from likelihood_contradictions(estimator.refit, parts)
    if isinstance(parts["missing"], EM) and not objective.supports_completions:
        yield (
            f"missing='em' is for objective='pl', not {objective.name!r}: use missing='mean-field' "
            "(--set missing=mean-field)."
        )
    if isinstance(parts["selection"], EBIC) and not objective.is_pseudo_likelihood:
        yield f"selection='ebic' is a criterion of objective='pl', not of {objective.name!r}."
    if estimator.penalty == "group" and (order > 2 or not rule.supports_groups):
        which = f"max_order={order}" if order > 2 else f"induction={rule.name!r}"
        yield f"penalty='group' selects edges, not {which}: use penalty='l1'."
    if is_device(device := parts["solver"].engine) and (order > 2 or not objective.runs_on_devices):
        which = f"max_order={order}" if order > 2 else f"objective={objective.name!r}"
        yield f"Solver(engine={device!r}) (--gpu) is for pairs by objective='pl', not for {which}: leave engine out."
    if order > 2 and not rule.supports_conjunctions:
        yield f"max_order={order} needs induction='cfi' or 'grafting', got {rule.name!r}."


def is_device(engine: Any) -> bool:
    """Return whether the ``engine`` of a solver names a device of torch, or "auto"."""
    return isinstance(engine, str) and re.fullmatch(r"auto|torch|cuda(:\d+)?", engine) is not None


def refit_l2(estimator: FieldEstimator) -> float:
    """Return the l2 of a refit of selected features, which has no L1 penalty to keep weights finite."""
    return max(float(estimator.l2), MIN_REFIT_L2)


def split_groups(X: Any, groups: Any) -> tuple[Any, Any]:
    """Return a table without the column that ``groups`` names, and its values; groups of another form are unchanged."""
    if not isinstance(groups, str):
        return X, groups
    source = as_source(X)
    if source.kind in ("array", "sparse") or groups not in source.names:
        raise DataError(
            f"groups= names the column {groups!r}, which X lacks: name another one, or pass the group of each row."
        )
    return nw.to_native(source.native.drop(groups)), nw.to_native(source.native[groups])


def read_groups(estimator: FieldEstimator, groups: Any, n_rows: int) -> np.ndarray | None:
    """Return the numbers of the groups of rows, (rows,), and refuse groups where no rows are held out."""
    if groups is None:
        return None
    selection = estimator.resolve("selection")
    if estimator.l1 == "auto" and not isinstance(selection, HeldOut):
        raise ValueError(
            f"groups= (--group) are held out together, but selection={selection.name!r} holds out nothing: leave "
            "groups out, or use selection='heldout'."
        )
    codes = group_cells(groups, n_rows).codes
    first = np.unique(codes, return_index=True)[1]
    return np.argsort(np.argsort(first))[codes]  # in order of first rows, whatever the groups are called


def group_cells(groups: Any, n_rows: int, what: str = "groups") -> CategoricalCells:
    """Return the groups of rows, (rows,) values, as categories, and refuse rows without one."""
    values = as_array(groups, what)
    if values.shape != (n_rows,):
        raise DataError(f"{what}.shape == {values.shape}, expected ({n_rows},): one group per row.")
    cells = replace(as_source(values.reshape(-1, 1), what=what), names=(what,)).categories(what)
    missing = np.flatnonzero(cells.codes < 0)
    if len(missing):
        raise DataError(
            f"{what} has {len(missing):,} missing value(s), the first in row {missing[0]} (counted from 0): give every "
            "row a group, or leave these rows out."
        )
    return cells


def fit_engine(estimator: FieldEstimator, dataset: Dataset) -> Engine:
    """Return the engine of a fit: the cluster or device that the solver names, or this machine."""
    cluster = estimator.resolve("solver").engine
    if cluster is None:
        return threads_for(estimator, dataset)
    if is_device(cluster):
        return open_engine(cluster, estimator.n_jobs)
    from sparsefield.compute.dask_engine import DaskEngine

    return DaskEngine(cluster, estimator.n_jobs)


def training_options(estimator: FieldEstimator, l1: float | None = None) -> TrainingOptions:
    """Return the options of a fit with the parameters of an estimator; ``l1`` replaces that of the estimator."""
    solver, features = estimator.resolve("solver"), estimator.resolve("features")
    return TrainingOptions(
        l1=(1.0 if isinstance(estimator.l1, str) else estimator.l1) if l1 is None else l1,
        l2=estimator.l2,
        penalty=estimator.penalty,
        penalize_biases=features.penalize_biases,
        stages=solver.stages,
        max_order=features.max_order,
        expand=features.expand,
        order_penalty=features.order_penalty,
        certify=solver.certify,
        max_iter=solver.max_iter,
        tol=solver.tol,
        kkt_tol=solver.kkt_tol,
    )


def train(estimator: FieldEstimator, data: TrainingData, make: Callable[..., Path] | None = None) -> None:
    """Learn from compiled tables, select l1 if it is "auto", and keep the result.

    ``make`` returns the path of the fit to all rows; None is `make_path`.
    """
    dataset = data.dataset
    merged = deduplicate_rows(dataset)
    options, selection, saved, start = training_options(estimator), None, None, data.start
    with interrupts_as_such(), report_progress(None), _open_engine(estimator, data) as engine:
        if estimator.l1 == "auto":
            saved = _selection_checkpoint(estimator, data)
            selection = _select_l1(estimator, data, engine, checkpoint=saved)
            options = replace(options, l1=selection.l1)
            start = start or _selected_start(estimator, dataset, selection)
        checkpoint = estimator.resolve("solver").checkpoint
        path = (make or make_path)(estimator, merged, options, engine, checkpoint, start)
        finished = _finish(estimator, merged, path, path.run(), engine)
        by_regressions = _objective_of_structure(estimator, dataset).is_pseudo_likelihood
        evidence = None
        drawn = not dataset.has_missing or isinstance(estimator.resolve("missing"), EM)
        plain = bool(dataset.tables) and dataset.is_dense and dataset.is_single and not dataset.layout.has_latent
        if estimator.resolve("solver").test_edges and by_regressions and plain and drawn:
            # A weight is no number of rows, unless equal rows were merged.
            merges = data.groups is None and np.ptp(dataset.row_weights) == 0.0
            rows, thorough = merged if merges else dataset, selection is not None or bool(estimator.refit)
            evidence = edge_evidence(path.state, rows, data.groups, dataset.n_rows, engine, thorough=thorough)
            if evidence is None:
                warnings.warn(
                    "The table is too wide for tests of edges, so no edge is known to hold: raise l1, or fit fewer "
                    "columns or rows.",
                    SelectionWarning,
                    stacklevel=3,
                )
    result = finished.fit
    if saved is not None:
        saved.clear()
    _warn_of_result(estimator, result)
    if finished.record is not None and finished.record.wide:
        warn_of_wide_columns(finished.record, dataset.layout)
    record = FitRecord(
        version=sparsefield.__version__,
        n_rows=dataset.n_rows,
        l1=float(options.l1),
        objective=float(result.objective),
        kkt_violation=float(result.kkt_violation),
        converged=bool(result.converged),
        mc_error=None if math.isnan(result.mc_error) else float(result.mc_error),
        refit=bool(estimator.refit),
        iterations=result.iterations,
        path=() if selection is None else selection.rows(),
        criterion=None if selection is None else selection.criterion,
        likelihood=finished.record,
        evidence=evidence,
    )
    estimator.field_ = replace(result.field, record=record)
    estimator.kind_ = data.kind


def follow_path(estimator: FieldEstimator, X: Any, y: Any = None, **options: Any) -> tuple[PathSelection, str]:
    """Learn fields along the regularization path, and return them with the kind of the table.

    The estimator has ``l1="auto"``; the other arguments are those of its `fit`.
    """
    check_parameters(estimator)
    opened = estimator._open_training_data(X, y, **options)
    with report_progress(None), opened as data, _open_engine(estimator, data) as engine:
        return _select_l1(estimator, data, engine, whole_path=True), data.kind


def _open_engine(estimator: FieldEstimator, data: TrainingData) -> AbstractContextManager[Engine]:
    return fit_engine(estimator, data.dataset) if data.engine is None else nullcontext(data.engine)


def _warn_of_result(estimator: FieldEstimator, result: FitResult) -> None:
    """Warn of a fit that did not converge, and of draws of missing cells that leave too much noise."""
    solver, objective, missing = (estimator.resolve(name) for name in ("solver", "objective", "missing"))
    n_iter = len(result.iterations)
    iterations = "solver=Solver(max_iter=...) (--set solver.max_iter=...)" if n_iter >= solver.max_iter else ""
    remedies = {
        "The gradient of cd is not that of its loss, so this is expected.": objective.name == "cd",
        f"Raise {iterations}.": bool(iterations),
        "Solver(certify=True) (--set solver.certify=yes) continues until it is small.": not solver.certify,
        "With large weights, beliefs have no fixed point or several: raise l1, or use 'pl'.": objective.name == "bethe",
        "Raise l1 or l2.": True,
    }
    if not result.converged:
        unchecked = "" if solver.certify else ", with certify off,"
        warnings.warn(
            f"The fit stopped after {n_iter} iterations{unchecked} with an optimality violation of "
            f"{result.kkt_violation:.3g}. {next(remedy for remedy, fits in remedies.items() if fits)}",
            ConvergenceWarning,
            stacklevel=4,
        )
    if isinstance(missing, EM) and result.mc_error > missing.max_error:
        warnings.warn(
            f"The draws of missing cells leave a Monte Carlo error of {result.mc_error:.2g} standard errors of the "
            f"weights (mc_error_), more than max_error = {missing.max_error:g}. Raise "
            f"{iterations or f'missing=EM(max_copies=...) above {missing.max_copies}; memory limits large tables'}.",
            ConvergenceWarning,
            stacklevel=4,
        )


def make_path(
    estimator: FieldEstimator,
    dataset: Dataset,
    options: TrainingOptions,
    engine: Engine,
    checkpoint: str | os.PathLike[str] | None = None,
    start: WarmStart | None = None,
    callbacks: FitCallbacks | None = None,
    objective: Objective | None = None,
) -> Path:
    """Return a path that learns from a dataset with the rule, objective and treatment of missing cells of a fit.

    ``options`` are `training_options`, such as with another l1; ``callbacks`` and ``objective`` replace its own.
    """
    if dataset.layout.n_targets == 0:
        raise DataError("Every column is observed, so there is nothing to predict: leave at least one column a target.")
    return Path(
        dataset,
        rule=estimator.resolve("induction"),
        objective=_objective_of_structure(estimator, dataset) if objective is None else objective,
        missing=estimator.resolve("missing"),
        options=options,
        engine=engine,
        callbacks=callbacks or estimator._callbacks(),
        checkpoint=checkpoint,
        start=start,
    )


def _selection_checkpoint(estimator: FieldEstimator, data: TrainingData) -> SelectionCheckpoint | None:
    """Return where a choice of l1 is saved; None unless the solver has a checkpoint."""
    folder = estimator.resolve("solver").checkpoint
    if folder is None:
        return None
    dataset = data.of_path
    parts = [estimator.resolve(name) for name in ("induction", "missing")]
    parts += [_objective_of_structure(estimator, dataset), training_options(estimator)]
    ways = replace(_selection_options(estimator, dataset), n_threads=1)  # threads change nothing
    return SelectionCheckpoint(folder, fingerprint(dataset, *parts, ways, data.groups))


def _selection_options(estimator: FieldEstimator, dataset: Dataset) -> SelectionOptions:
    selection, solver = estimator.resolve("selection"), estimator.resolve("solver")
    between = config.CELLS_FOR_FOLD_THREADS <= dataset.n_cells < config.CELLS_FOR_BLOCK_THREADS
    several_folds = isinstance(selection, HeldOut) and selection.folds != 1
    share_folds = several_folds and between and dataset.is_single and solver.engine is None
    return SelectionOptions(
        criterion=selection,
        kkt_tol=solver.kkt_tol,
        tol=solver.tol,
        seed=as_seed(estimator.random_state) or 0,
        n_threads=Threads(estimator.n_jobs).n_threads if share_folds else 1,
        refit_l2=refit_l2(estimator) if estimator.refit else None,
    )


def _select_l1(
    estimator: FieldEstimator,
    data: TrainingData,
    engine: Engine,
    checkpoint: SelectionCheckpoint | None = None,
    *,
    whole_path: bool = False,
) -> PathSelection:
    """Follow the regularization path and select l1."""
    dataset = data.of_path
    options = replace(training_options(estimator), certify=True, rough=True)
    ways = _selection_options(estimator, dataset)
    objective = _objective_of_structure(estimator, dataset)

    def make(dataset: Dataset, *, first: bool, **changes: float) -> Path:
        called = None if first else FitCallbacks()
        at = replace(options, **changes)
        return make_path(estimator, dataset, at, used, callbacks=called, objective=objective)

    callbacks = estimator._callbacks()
    with Threads(1) if ways.n_threads > 1 else nullcontext(engine) as used:
        return select_l1(dataset, make, used, ways, callbacks, data.groups, checkpoint, whole_path=whole_path)


def _objective_of_structure(estimator: FieldEstimator, dataset: Dataset) -> Objective:
    objective = estimator.resolve("objective")
    if not objective.is_likelihood:
        return objective
    return objective_of_structure(objective, dataset, estimator.resolve("induction"))


def _finish(
    estimator: FieldEstimator, dataset: Dataset, path: Path, result: FitResult, engine: Engine
) -> LikelihoodResult:
    """Estimate the weights of a fit again, if that is wanted: without L1, by the likelihood, or both."""
    options, problem, objective = path.options, path.state.problem, estimator.resolve("objective").name
    if estimator.refit:
        options = replace(options, l1=0.0, l2=refit_l2(estimator), kkt_tol=options.allowed_violation)
        # Components that are too wide for the likelihood keep these weights.
        selection = estimator.resolve("selection")
        if isinstance(selection, EBIC) and problem.has_wald_statistics:
            refitted = prune_by_wald(path, options.l2, selection.gamma)
        else:
            refitted = path.refit_without_l1(path.state.working_set.active, options.l2)
        converged = result.converged and (refitted.converged or not isinstance(problem, BetheEvaluator))
        result = replace(result, field=refitted.field, converged=converged)
    if "ml" not in (objective, estimator.refit):
        return LikelihoodResult(result)
    if isinstance(problem, LikelihoodEvaluator):
        return LikelihoodResult(result, LikelihoodRecord(problem.max_cells, "ml"))
    selected_by = "cd" if objective == "cd" else "pl"
    options, refit = replace(options, certify=True), bool(estimator.refit)
    callbacks = estimator._callbacks()
    return estimate_by_likelihood(dataset, result, options, engine, callbacks, selected_by=selected_by, refit=refit)


def _selected_start(estimator: FieldEstimator, dataset: Dataset, selection: PathSelection) -> WarmStart | None:
    """Return the selected weights of the first fold, from which the fit to all rows starts.

    There are none unless the objective is convex and its optimum is certified: the result would depend on them.
    """
    certified = estimator.resolve("objective").is_pseudo_likelihood and estimator.resolve("solver").certify
    if not certified or (dataset.has_missing and not isinstance(estimator.resolve("missing"), EM)):
        return None
    return WarmStart.from_field(selection.path[selection.selected].field)
