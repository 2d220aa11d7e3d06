"""This module trains an estimator: from its parameters and compiled tables to a field."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import sparsefield
from sparsefield import config
from sparsefield.compute import Engine, Threads
from sparsefield.data import Dataset, deduplicate_rows
from sparsefield.errors import DataError
from sparsefield.estimators.likelihood_training import (
    LikelihoodResult,
    Reestimation,
    estimate_by_likelihood,
    likelihood_contradictions,
    objective_of_structure,
    warn_if_wide,
)
from sparsefield.estimators.nested_parameters import PARTS, NestedParameters
from sparsefield.estimators.row_groups import number_groups
from sparsefield.estimators.validation import as_seed, parameter_problems
from sparsefield.interrupts import interrupts_as_such
from sparsefield.model import Field, FitRecord, IterationRecord
from sparsefield.model.fit_record import LikelihoodRecord
from sparsefield.objectives import EM, AnyObjective, BetheEvaluator, DenseEvaluator, LikelihoodEvaluator
from sparsefield.parameter_checks import problems_of, raise_problems
from sparsefield.solver import (
    EBIC,
    FitCallbacks,
    FitResult,
    HeldOut,
    PathPoint,
    PathSelection,
    PathTrainer,
    SelectionCheckpoint,
    SelectionOptions,
    Trainer,
    TrainingOptions,
    WarmStart,
    fingerprint,
    open_path_fold,
    prune_by_wald,
    select_l1,
    warm_start,
)

MIN_REFIT_L2 = 0.01
"""Smallest l2 of a refit, which has no L1 penalty to keep weights finite."""


@dataclass(frozen=True)
class TrainingData:
    """Compiled tables of one fit."""

    dataset: Dataset
    kind: str
    """Kind of the tables that the user passed: "array", "sparse" or the name of a frame library."""
    engine: Engine | None = None
    """An open engine that holds the rows already; None if the fit opens its own."""
    start: WarmStart | None = None
    """Initial weights of latent variables."""
    without_latent: Dataset | None = None
    """The tables without latent variables, on which l1 is selected. A path starts where all weights are 0, and from
    there the states of a latent variable would never become different."""
    groups: np.ndarray | None = None
    """(rows,): numbers of groups, whose rows are held out together when l1 is selected."""


class TrainingMethods(NestedParameters):
    """Private methods that check the parameters, train, select l1 and refit."""

    field_: Field
    kind_: str

    def _check_parameters(self) -> None:
        """Refuse invalid parameters, all at once, before any work is done."""
        parts, problems = self._resolve_parts()
        own = self.get_params(deep=False)
        problems += problems_of(own, left_out=PARTS)
        problems += [problem for part in parts.values() for problem in part.problems()]
        raise_problems([*problems, *parameter_problems(own), *self._own_problems()])
        raise_problems(self._contradictions(parts))

    def _own_problems(self) -> list[str]:
        """Return a sentence for each invalid parameter that other estimators do not have."""
        return []

    def _contradictions(self, parts: Mapping[str, Any]) -> Iterator[str]:
        """Yield a sentence for each pair of valid parameters that exclude each other."""
        rule, order = parts["induction"].name, parts["max_order"].max_order
        yield from likelihood_contradictions(self.objective, self.refit, self.engine, parts)
        if isinstance(parts["missing"], EM) and self.objective == "cd":
            yield (
                f"missing='em' is for objective='pl', not {self.objective!r}: use missing='mean-field' "
                "(--missing-cells mean-field)."
            )
        if isinstance(parts["selection"], EBIC) and self.objective != "pl":
            yield f"selection='ebic' is a criterion of objective='pl', not of {self.objective!r}."
        if self.penalty == "group" and (order > 2 or rule in ("ideal-parent", "cfi-paper")):
            which = f"max_order={order}" if order > 2 else f"induction={rule!r}"
            yield f"penalty='group' selects edges, not {which}: use penalty='l1'."
        if order > 2 and rule not in ("cfi", "grafting"):
            yield f"max_order={order} needs induction='cfi' or 'grafting', got {rule!r}."

    def _resolve_parts(self) -> tuple[dict[str, Any], list[str]]:
        """Return the option objects of parameters, and a sentence for each parameter that is none."""
        parts, problems = {}, []
        for name in PARTS:
            try:
                parts[name] = self._resolve(name)
            except ValueError as error:
                problems.append(str(error))
        return parts, problems

    def _read_groups(self, groups: Any, n_rows: int) -> np.ndarray | None:
        """Return the numbers of the groups of rows, (rows,), and refuse groups where no rows are held out."""
        if groups is None:
            return None
        selection = self._resolve("selection")
        if self.l1 == "auto" and not isinstance(selection, HeldOut):
            raise ValueError(
                f"groups= (--group) are held out together, but selection={selection.name!r} holds out nothing: leave "
                "groups out, or use selection='heldout'."
            )
        return number_groups(groups, n_rows)

    def _engine(self, dataset: Dataset) -> Engine:
        """Return threads for a dataset; the result is the same with any number of threads."""
        small = dataset.n_cells < config.CELLS_FOR_THREADS
        return Threads(1 if small and self.n_jobs != 0 else self.n_jobs)

    def _fold_threads(self, dataset: Dataset) -> int:
        """Return how many threads share the folds of a choice of l1; 1 if the engine uses threads itself."""
        selection = self._resolve("selection")
        if self.engine is not None or not isinstance(selection, HeldOut) or selection.folds == 1:
            return 1
        between = config.CELLS_FOR_FOLD_THREADS <= dataset.n_cells < config.CELLS_FOR_BLOCK_THREADS
        if not dataset.is_plain or not between:
            return 1
        return Threads(self.n_jobs).n_threads

    def _fit_engine(self, dataset: Dataset) -> Engine:
        """Return the engine of a fit: the cluster that ``engine`` names, or this machine."""
        if self.engine is None:
            return self._engine(dataset)
        from sparsefield.compute.dask_engine import DaskEngine

        return DaskEngine(self.engine, self.n_jobs)

    def _accepts_sparse(self) -> bool:
        """Return whether induction rule and objective can work on a sparse table."""
        order, pseudo = self._resolve("max_order").max_order, self.objective == "pl" and self.refit != "ml"
        return self._resolve("induction").supports_sparse and pseudo and order == 2

    def _training_options(self) -> TrainingOptions:
        solver, order = self._resolve("solver"), self._resolve("max_order")
        return TrainingOptions(
            l1=1.0 if isinstance(self.l1, str) else self.l1,
            l2=self.l2,
            penalty=self.penalty,
            penalize_biases=self.penalize_biases,
            stages=solver.stages,
            max_order=order.max_order,
            expand=order.expand,
            order_penalty=order.order_penalty,
            certify=solver.certify,
            max_iter=solver.max_iter,
            tol=solver.tol,
            kkt_tol=solver.kkt_tol,
        )

    def _train(self, data: TrainingData) -> None:
        """Learn from compiled tables, select l1 if it is "auto", and keep the result."""
        self._check_targets(data.dataset)
        dataset = data.dataset
        merged = deduplicate_rows(dataset)
        options, selection, saved, start = self._training_options(), None, None, data.start
        with interrupts_as_such(), self._open_engine(data) as engine:
            if self.l1 == "auto":
                saved = self._selection_checkpoint(data)
                selection = self._select_l1(data, engine, checkpoint=saved)
                options = replace(options, l1=selection.l1)
                start = start or self._selected_start(dataset, selection)
            trainer = self._make_trainer(merged, options, engine, self._resolve("solver").checkpoint, start)
            finished = self._finish(merged, trainer, trainer.run(), engine)
        result = finished.fit
        if saved is not None:
            saved.clear()
        if not result.converged:
            self._warn_not_converged(len(result.iterations), result.kkt_violation)
        self._warn_if_inexact(len(result.iterations), result.mc_error)
        warn_if_wide(finished.record, dataset.layout)
        record = FitRecord(
            version=sparsefield.__version__,
            n_rows=dataset.n_rows,
            l1=float(options.l1),
            objective=float(result.objective),
            kkt_violation=float(result.kkt_violation),
            converged=bool(result.converged),
            mc_error=None if math.isnan(result.mc_error) else float(result.mc_error),
            refit=bool(self.refit),
            iterations=result.iterations,
            path=() if selection is None else selection.rows(),
            criterion=None if selection is None else selection.criterion,
            likelihood=finished.record,
        )
        self.field_ = replace(result.field, record=record)
        self.kind_ = data.kind

    def _open_engine(self, data: TrainingData) -> AbstractContextManager[Engine]:
        return self._fit_engine(data.dataset) if data.engine is None else nullcontext(data.engine)

    def _warn_not_converged(self, n_iter: int, violation: float) -> None:
        solver = self._resolve("solver")
        if self.objective == "cd":
            remedy = "The gradient of cd is not that of its loss, so this is expected."
        elif n_iter >= solver.max_iter:
            remedy = "Raise solver=Solver(max_iter=...) (--max-iter)."
        elif not solver.certify:
            remedy = "Solver(certify=True) (--certify) continues until it is small."
        elif self.objective == "bethe":
            remedy = "Where weights are large, belief propagation has no fixed point or several: raise l1, or use 'pl'."
        else:
            remedy = "Raise l1 or l2."
        unchecked = "" if solver.certify else ", with certify off,"
        warnings.warn(
            f"The fit stopped after {n_iter} iterations{unchecked} with an optimality violation of {violation:.3g}. "
            f"{remedy}",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _warn_if_inexact(self, n_iter: int, mc_error: float) -> None:
        missing = self._resolve("missing")
        if not isinstance(missing, EM) or not mc_error > missing.max_error:
            return
        reached = n_iter >= self._resolve("solver").max_iter
        remedy = (
            "solver=Solver(max_iter=...) (--max-iter)"
            if reached
            else f"missing=EM(max_copies=...) above {missing.max_copies}"
        )
        warnings.warn(
            f"The draws of missing cells leave a Monte Carlo error of {mc_error:.2g} standard errors of the weights "
            f"(mc_error_), more than max_error = {missing.max_error:g}. Raise {remedy}.",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _check_targets(self, dataset: Dataset) -> None:
        if dataset.layout.n_targets == 0:
            raise DataError(
                "Every column is observed, so there is nothing to predict: leave at least one column a target."
            )

    def _make_trainer(
        self,
        dataset: Dataset,
        options: TrainingOptions,
        engine: Engine,
        checkpoint: str | os.PathLike[str] | None = None,
        start: WarmStart | None = None,
        callbacks: FitCallbacks | None = None,
        objective: AnyObjective | None = None,
    ) -> Trainer:
        return Trainer(
            dataset,
            rule=self._resolve("induction"),
            objective=self._objective_of_structure(dataset) if objective is None else objective,
            missing=self._resolve("missing"),
            options=options,
            engine=engine,
            callbacks=callbacks or self._callbacks(),
            checkpoint=checkpoint,
            start=start,
        )

    def _callbacks(self) -> FitCallbacks:
        """Return the listeners of the fit; with ``verbose``, events that have none are printed."""
        callbacks = self.callbacks or FitCallbacks()
        if not self.verbose:
            return callbacks
        return FitCallbacks(
            on_iteration=callbacks.on_iteration or _print_iteration,
            on_path_point=callbacks.on_path_point or _print_path_point,
        )

    def _selection_checkpoint(self, data: TrainingData) -> SelectionCheckpoint | None:
        """Return where a choice of l1 is saved; None unless the solver has a checkpoint."""
        folder = self._resolve("solver").checkpoint
        if folder is None:
            return None
        dataset = data.dataset if data.without_latent is None else data.without_latent
        parts = [self._resolve(name) for name in ("induction", "missing", "inference")]
        parts += [self._objective_of_structure(dataset), self._training_options()]
        ways = replace(self._selection_options(dataset), n_threads=1)  # threads change nothing
        return SelectionCheckpoint(folder, fingerprint(dataset, *parts, ways, data.groups))

    def _selection_options(self, dataset: Dataset) -> SelectionOptions:
        return SelectionOptions(
            criterion=self._resolve("selection"),
            kkt_tol=self._resolve("solver").kkt_tol,
            seed=as_seed(self.random_state) or 0,
            n_threads=self._fold_threads(dataset),
            refit_l2=max(self.l2, MIN_REFIT_L2) if self.refit else None,
        )

    def _select_l1(
        self,
        data: TrainingData,
        engine: Engine,
        patience: int | None = None,
        checkpoint: SelectionCheckpoint | None = None,
    ) -> PathSelection:
        """Follow the regularization path and select l1; ``patience`` is the number of worse values that ends it."""
        dataset = data.dataset if data.without_latent is None else data.without_latent
        self._check_targets(dataset)
        options, ways = replace(self._training_options(), certify=True, rough=True), self._selection_options(dataset)
        if patience is not None:
            ways = replace(ways, patience=patience)
        open_fold = open_path_fold if checkpoint is None else checkpoint.open_fold
        objective = self._objective_of_structure(dataset)

        def make(dataset: Dataset, l1: float, kkt_tol: float, *, first: bool) -> Trainer:
            at = replace(options, l1=l1, kkt_tol=kkt_tol)
            called = None if first else FitCallbacks()
            return self._make_trainer(dataset, at, used, callbacks=called, objective=objective)

        inference, callbacks = self._resolve("inference"), self._callbacks()
        with Threads(1) if ways.n_threads > 1 else nullcontext(engine) as used:
            return select_l1(dataset, make, inference, used, ways, callbacks, data.groups, open_fold)

    def _objective_of_structure(self, dataset: Dataset) -> AnyObjective:
        return objective_of_structure(self.objective, dataset, self._resolve("induction"))

    def _finish(self, dataset: Dataset, trainer: Trainer, result: FitResult, engine: Engine) -> LikelihoodResult:
        """Estimate the weights of a fit again, if that is wanted: without L1, by the likelihood, or both."""
        options, wanted = trainer.options, self.objective == "ml" or self.refit == "ml"
        if self.refit:
            l2, allowed = max(self.l2, MIN_REFIT_L2), trainer.allowed_violation
            options = replace(options, l1=0.0, l2=l2, kkt_tol=allowed)
            # Components that are too wide for the likelihood keep these weights.
            result = replace(result, field=self._refit(trainer))
        if isinstance(trainer.evaluator, BetheEvaluator) and self.refit and not trainer.state.converged:
            result = replace(result, converged=False)
        if not wanted:
            return LikelihoodResult(result)
        if isinstance(trainer.evaluator, LikelihoodEvaluator):
            return LikelihoodResult(result, LikelihoodRecord(trainer.evaluator.max_cells, "ml"))
        selected_by = "cd" if self.objective == "cd" else "pl"
        how = Reestimation(replace(options, certify=True), selected_by, refit=bool(self.refit))
        return estimate_by_likelihood(dataset, result, how, engine, self._callbacks())

    def _selected_start(self, dataset: Dataset, selection: PathSelection) -> WarmStart | None:
        """Return the selected weights of the first fold, from which the fit to all rows starts.

        There are none unless the objective is convex and its optimum is certified: the result would depend on them.
        """
        if self.objective != "pl" or dataset.has_missing or not self._resolve("solver").certify:
            return None
        return warm_start(selection.path[selection.selected].fit.field)

    def _refit(self, trainer: Trainer) -> Field:
        """Return the field with its features estimated again without L1."""
        path, l2, selection = PathTrainer(trainer), max(self.l2, MIN_REFIT_L2), self._resolve("selection")
        if isinstance(selection, EBIC) and isinstance(trainer.evaluator, DenseEvaluator):
            return prune_by_wald(path, l2, selection.gamma)
        return path.refit_without_l1(trainer.problem.active, l2)


def _print_iteration(record: IterationRecord) -> None:
    _print(
        f"{record.iteration:5d}  {record.phase:<8}  objective {record.objective:14.4f}  "
        f"features {record.active:7,d} of {record.features:7,d}  {record.seconds:7.1f} s"
    )


def _print_path_point(point: PathPoint) -> None:
    _print(f"l1 {point.l1:10.4g}  features {len(point.fit.field.features):7,d}  score {point.score:14.4f}")


def _print(line: str) -> None:
    print(line, file=sys.stderr)
