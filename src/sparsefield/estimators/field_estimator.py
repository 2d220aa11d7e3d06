"""This module defines the base class of the estimators: from parameters to a fit, its results, and saving."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import fields, replace
from numbers import Integral
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

import sparsefield
from sparsefield import config
from sparsefield.compute import Engine, Threads
from sparsefield.data import (
    Dataset,
    DenseDataset,
    Layout,
    LocalDataset,
    Schema,
    Source,
    as_source,
    check_kind,
    deduplicate_rows,
    make_frame,
)
from sparsefield.errors import DataError
from sparsefield.estimators.answer_tables import path_frame, states_of
from sparsefield.estimators.display_methods import DisplayMethods
from sparsefield.estimators.export_methods import ExportMethods
from sparsefield.estimators.nested_parameters import NestedParameters, from_plain, to_plain
from sparsefield.estimators.printing_callbacks import printing_callbacks
from sparsefield.estimators.resampling import ResamplingMethods
from sparsefield.estimators.training_data import TrainingData
from sparsefield.estimators.validation import as_seed, check_engine, check_number, choose, column_names
from sparsefield.frame_protocol import Frame
from sparsefield.inference import Posterior, infer
from sparsefield.io.model_file import save_field
from sparsefield.io.partitioned_tables import is_dask_collection
from sparsefield.model import Field, FitRecord, IterationRecord, bias_table, edge_table, feature_table
from sparsefield.objectives import OBJECTIVES, DenseEvaluator, SparseEvaluator
from sparsefield.solver import (
    EBIC,
    FitCallbacks,
    PathSelection,
    PathTrainer,
    SelectionOptions,
    Solver,
    Trainer,
    TrainingOptions,
    WarmStart,
    choose_l1,
    prune_by_wald,
)

__all__ = ["FieldEstimator", "rebuild"]

NOT_SAVED = ("engine", "n_jobs", "verbose", "callbacks")
"""Parameters that say where and how a fit ran, not what was learned."""

MIN_REFIT_L2 = 0.01
"""Smallest l2 of a refit, which has no L1 penalty to keep weights finite."""


class FieldEstimator(ExportMethods, ResamplingMethods, DisplayMethods, NestedParameters):
    """Base class of `MarkovField`, `CRFClassifier` and `RelationalField`."""

    # -- results -------------------------------------------------------------------------------------------------

    @property
    def features_(self) -> Frame:
        """Frame of the features with a weight, strongest first: variable_a, state_a, variable_b, state_b, weight.

        Where a feature has three columns and more, also variable_c, state_c and so on, empty for all others.
        Over linked tables, also the template and the tables of both ends: template, table_a, ..., table_b, ...
        """
        check_is_fitted(self)
        return feature_table(self.field_, self.kind_)

    @property
    def biases_(self) -> Frame:
        """Frame of the unary weights, strongest first: variable, state, weight; over linked tables, also the table.

        The reference state of a variable has no weight, and is left out.
        """
        check_is_fitted(self)
        return bias_table(self.field_, self.kind_)

    @property
    def edges_(self) -> Frame:
        """Frame of pairs of variables that share features: variable_a, variable_b, strength (norm of their weights).

        Over linked tables, also the template and the tables of both ends: template, table_a, ..., table_b, ...
        """
        check_is_fitted(self)
        return edge_table(self.field_, self.kind_)

    @property
    def history_(self) -> Frame:
        """Frame with a row per iteration: objective, features, phase, seconds and more."""
        check_is_fitted(self)
        rows = [row.as_row() for row in self.field_.record.iterations]
        # A table of constant columns needs no iteration.
        keys = list(rows[0]) if rows else [field.name for field in fields(IterationRecord)]
        return make_frame({key: [row[key] for row in rows] for key in keys}, self.kind_)

    @property
    def states_(self) -> dict[str, Any]:
        """{column: sorted list of its states} of the columns that are predicted; over linked tables, per table."""
        check_is_fitted(self)
        # Computed on first use: a million columns have a million lists.
        if getattr(self, "_states", (None, None))[0] is not self.field_:
            self._states = self.field_, self._read_states()
        return self._states[1]

    @property
    def n_iter_(self) -> int:
        """Number of iterations."""
        check_is_fitted(self)
        return self.field_.record.n_iter

    @property
    def l1_(self) -> float:
        """The l1 of the fit: the selected one if ``l1="auto"``; NaN for a field that was given, not learned."""
        check_is_fitted(self)
        return _nan_if_none(self.field_.record.l1)

    @property
    def path_(self) -> Frame:
        """Frame with a row per value of l1 that was tried: l1, features, score, its standard error, chosen."""
        check_is_fitted(self)
        rows = self.field_.record.path
        if not rows:
            raise AttributeError("There is no path: l1 was given. Fit with l1='auto', or see `regularization_path`.")
        return path_frame(rows, self.kind_)

    @property
    def kkt_violation_(self) -> float:
        """Largest violation of the optimality conditions over all candidates, left-out ones included.

        It describes the field before a refit.
        """
        check_is_fitted(self)
        return _nan_if_none(self.field_.record.kkt_violation)

    @property
    def objective_(self) -> float:
        """Loss and penalties at the end, a sum over rows; before a refit."""
        check_is_fitted(self)
        return _nan_if_none(self.field_.record.objective)

    @property
    def converged_(self) -> bool:
        """Whether the fit ended with a violation of at most ``kkt_tol`` x l1."""
        check_is_fitted(self)
        return self.field_.record.converged

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one safetensors file, which `sparsefield.load` reads without running any code.

        Times and traffic are left out, and so are ``engine``, ``n_jobs``, ``verbose``, ``callbacks`` and the solver's
        ``checkpoint``: the same fit always writes the same bytes, wherever it ran.
        """
        check_is_fitted(self)
        field = replace(self.field_, record=self.field_.record.without_timing())
        extra = {
            "estimator": type(self).__name__,
            "kind": self.kind_,
            "named": hasattr(self, "feature_names_in_"),
            "params": self._plain_params(),
        }
        save_field(field, path, {**extra, **self._extra()})

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what belongs to one process: a client of a cluster, and callbacks."""
        state: Any = super().__getstate__()
        return state | {"engine": self.engine if isinstance(self.engine, str) else None, "callbacks": None}

    def __sklearn_clone__(self) -> Any:
        cloned: Any = super(FieldEstimator, copy(self)).__sklearn_clone__()
        cloned.engine, cloned.callbacks = self.engine, self.callbacks
        return cloned

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.sparse = True
        return tags

    # -- for subclasses ------------------------------------------------------------------------------------------

    @abstractmethod
    def _open_training_data(self, X: Any, y: Any = None, **options: Any) -> AbstractContextManager[TrainingData]:
        """Compile what `fit` takes; temporary files and engines stay open inside the context."""

    def _read_states(self) -> dict[str, Any]:
        return states_of(self.field_.schema)

    def _extra(self) -> dict[str, Any]:
        """Return further entries of a saved file, as plain values."""
        return {}

    def _input_names(self, schema: Schema) -> Sequence[str]:
        """Return the names of the columns of X."""
        return schema.input_names

    def _restore(self, field: Field, extra: dict[str, Any]) -> None:
        """Take over what `save` wrote."""
        self.field_ = field
        self.kind_ = check_kind(extra["kind"])
        self._restore_columns(field, extra)

    def _restore_columns(self, field: Field, extra: dict[str, Any]) -> None:
        """Take over the names of the columns of one table."""
        if field.layout != Layout.single(field.schema):
            raise ValueError("linked tables, where one table is expected")
        names = self._input_names(field.schema)
        self.n_features_in_ = len(names)
        if extra.get("named", self.kind_ not in ("array", "sparse")):
            self.feature_names_in_ = np.array(names, dtype=object)

    def _read(self, X: Any, *, reset: bool = False) -> Source:
        """Return ``X`` as a source, after scikit-learn's checks of its columns."""
        if not reset:
            check_is_fitted(self)
        if is_dask_collection(X):
            raise DataError(
                f"X is a {type(X).__name__} of Dask, which only MarkovField.fit takes, with engine=: pass X.compute()."
            )
        source = as_source(X)
        validate_data(self, source.native if source.kind == "array" else X, reset=reset, skip_check_array=True)
        return source

    def _numeric(self, source: Source) -> list[str] | Literal["auto"]:
        if isinstance(self.numeric, str) and self.numeric == "auto":
            return "auto"
        return column_names(source, self.numeric)

    def _train(self, data: TrainingData) -> None:
        """Learn from compiled tables, select l1 if it is "auto", and keep the result."""
        self._check_targets(data.dataset)
        dataset = data.dataset
        merged = deduplicate_rows(dataset)
        options, selection = self._training_options(), None
        with self._open_engine(data) as engine:
            if self.l1 == "auto":
                selection = self._select_l1(data, engine)
                options = replace(options, l1=selection.l1)
            trainer = self._make_trainer(merged, options, engine, self._resolve("solver").checkpoint, data.start)
            result = trainer.run()
            if self.refit:
                result = replace(result, field=self._refit(trainer))
        if options.certify and not result.converged:
            self._warn_not_converged(len(result.iterations), result.kkt_violation)
        record = FitRecord(
            version=sparsefield.__version__,
            n_rows=dataset.n_rows,
            l1=float(options.l1),
            objective=float(result.objective),
            kkt_violation=float(result.kkt_violation),
            converged=bool(result.converged),
            refit=bool(self.refit),
            iterations=result.iterations,
            path=() if selection is None else selection.rows(),
        )
        self.field_ = replace(result.field, record=record)
        self.kind_ = data.kind

    def _open_engine(self, data: TrainingData) -> AbstractContextManager[Engine]:
        return self._fit_engine(data.dataset) if data.engine is None else nullcontext(data.engine)

    def _warn_not_converged(self, n_iter: int, violation: float) -> None:
        remedy = "Raise max_iter, or l1 and l2."
        if self.objective == "cd":
            remedy = (
                "The gradient of cd is not that of its loss, so this is expected: Solver(certify=False) accepts it."
            )
        warnings.warn(
            f"The fit stopped after {n_iter} iterations with an optimality violation of {violation:.3g}. {remedy}",
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
    ) -> Trainer:
        return Trainer(
            dataset,
            rule=self._resolve("induction"),
            objective=choose(OBJECTIVES, self.objective, "objective")(),
            inference=self._resolve("inference"),
            options=options,
            engine=engine,
            callbacks=self._callbacks(),
            checkpoint=checkpoint,
            start=start,
        )

    def _callbacks(self) -> FitCallbacks:
        """Return the listeners of the fit; with ``verbose``, events that have none are printed."""
        callbacks = self.callbacks or FitCallbacks()
        return printing_callbacks(callbacks) if self.verbose else callbacks

    def _select_l1(self, data: TrainingData, engine: Engine, patience: int | None = None) -> PathSelection:
        """Follow the regularization path and select l1; ``patience`` is the number of worse values that ends it."""
        dataset = data.dataset if data.without_latent is None else data.without_latent
        self._check_targets(dataset)
        options = replace(self._training_options(), certify=True)
        ways = SelectionOptions(
            criterion=self._resolve("selection"),
            kkt_tol=self._resolve("solver").kkt_tol,
            seed=as_seed(self.random_state) or 0,
            refit_l2=max(self.l2, MIN_REFIT_L2) if self.refit else None,
        )
        if patience is not None:
            ways = replace(ways, patience=patience)
        return choose_l1(
            dataset,
            lambda part, l1, kkt_tol: self._make_trainer(part, replace(options, l1=l1, kkt_tol=kkt_tol), engine),
            self._resolve("inference"),
            engine,
            ways,
            self._callbacks(),
        )

    def _refit(self, trainer: Trainer) -> Field:
        """Return the field with its features estimated again without L1."""
        path, l2, selection = PathTrainer(trainer), max(self.l2, MIN_REFIT_L2), self._resolve("selection")
        if isinstance(selection, EBIC) and isinstance(trainer.evaluator, DenseEvaluator):
            return prune_by_wald(path, l2, selection.gamma)
        return path.refit_without_l1(trainer.problem.active, l2)

    def _log_likelihood(self, dataset: LocalDataset) -> float:
        """Return the pseudo-log-likelihood: the sum over rows and observed values of ln p(value | all others)."""
        if dataset.kind == "dense":
            return self._infer(dataset).log_likelihood
        with self._engine(dataset) as engine:
            evaluator = SparseEvaluator(dataset, engine)
            arcs = evaluator.compile(self.field_.layout.arcs(self.field_.pairs))
            return -evaluator.evaluate(arcs, self.field_.theta)[0]

    def _infer(self, dataset: DenseDataset) -> Posterior:
        """Return the posterior of the cells of one table or of several."""
        inference = self._resolve("inference")
        with self._engine(dataset) as engine:
            posterior = infer(self.field_, dataset, inference, engine)
        if posterior.unconverged:
            warnings.warn(
                f"Inference did not converge in {posterior.unconverged:,} of {dataset.n_rows:,} rows, whose beliefs "
                f"may be inaccurate. {inference.advice}.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return posterior

    def _check_parameters(self) -> None:
        """Refuse invalid parameters before any work is done."""
        self._training_options()
        rule, order = self._resolve("induction"), self._resolve("max_order")
        for part in (rule, order, self._resolve("selection"), self._resolve("solver")):
            part.check()
        self._resolve("inference")
        choose(OBJECTIVES, self.objective, "objective")
        check_engine(self.engine)
        if isinstance(self._resolve("selection"), EBIC) and self.objective != "pl":
            raise ValueError(f"selection='ebic' is a criterion of objective='pl', not of {self.objective!r}.")
        if order.max_order > 2 and rule.name not in ("cfi", "grafting"):
            raise ValueError(f"max_order={order.max_order} needs induction='cfi' or 'grafting', got {rule.name!r}.")

    def _engine(self, dataset: Dataset) -> Engine:
        """Return threads for a dataset; the result is the same with any number of threads."""
        small = dataset.n_cells < config.CELLS_FOR_THREADS
        return Threads(1 if small and self.n_jobs != 0 else self.n_jobs)

    def _fit_engine(self, dataset: Dataset) -> Engine:
        """Return the engine of a fit: the cluster that ``engine`` names, or this machine."""
        if self.engine is None:
            return self._engine(dataset)
        from sparsefield.compute.dask_engine import DaskEngine

        return DaskEngine(self.engine, self.n_jobs)

    def _accepts_sparse(self) -> bool:
        """Return whether induction rule and objective can work on a sparse table."""
        order = self._resolve("max_order").max_order
        return self._resolve("induction").sparse and self.objective == "pl" and order == 2

    def _training_options(self) -> TrainingOptions:
        if self.l1 != "auto":
            check_number("l1", self.l1)
        check_number("l2", self.l2)
        solver, order = self._resolve("solver"), self._resolve("max_order")
        return TrainingOptions(
            l1=1.0 if isinstance(self.l1, str) else self.l1,
            l2=self.l2,
            penalize_unary=self.penalize_unary,
            stages=solver.stages,
            max_order=order.max_order,
            expand=order.expand,
            order_penalty=order.order_penalty,
            certify=solver.certify,
            max_iter=solver.max_iter,
            tol=solver.tol,
            kkt_tol=solver.kkt_tol,
        )

    def _solver_to_save(self) -> Solver | None:
        """Return the solver's options without the checkpoint, None if they are the defaults."""
        solver = replace(self._resolve("solver"), checkpoint=None)
        return None if solver == Solver() else solver

    def _plain_params(self) -> dict[str, Any]:
        """Return the parameters that a saved file has, as values that JSON can express."""
        params = {name: value for name, value in self.get_params(deep=False).items() if name not in NOT_SAVED}
        params["solver"] = self._solver_to_save()
        # The state of a generator is no seed: a loaded field draws new numbers.
        if not isinstance(self.random_state, Integral):
            params["random_state"] = None
        return to_plain(params)


def _nan_if_none(value: float | None) -> float:
    """Return NaN for a value that a field which was not learned lacks."""
    return np.nan if value is None else value


def rebuild(kind: type[FieldEstimator], field: Field, extra: dict[str, Any]) -> FieldEstimator:
    """Return the estimator that `FieldEstimator.save` wrote."""
    estimator = kind(**{name: from_plain(value) for name, value in extra["params"].items()})
    estimator._restore(field, extra)
    return estimator
