"""This module defines the base class of the estimators: the results of a fit, inference, and saving."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import fields, replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsefield.compute.dask_rows import is_dask_collection
from sparsefield.data import (
    DenseDataset,
    Layout,
    LocalDataset,
    Schema,
    Source,
    SparseDataset,
    as_source,
    check_kind,
    make_frame,
)
from sparsefield.data.kinds import Kinds, given_kinds
from sparsefield.data.sparse_table import refuse_large_fit
from sparsefield.errors import DataError
from sparsefield.estimators.answer_tables import path_frame, states_of
from sparsefield.estimators.centrality_methods import CentralityMethods
from sparsefield.estimators.likelihood_methods import LikelihoodMethods, log_widths
from sparsefield.estimators.nested_parameters import to_plain
from sparsefield.estimators.output_methods import OutputMethods
from sparsefield.estimators.resampling import ResamplingMethods
from sparsefield.estimators.training import TrainingData, TrainingMethods
from sparsefield.estimators.validation import column_names
from sparsefield.frame_protocol import Frame
from sparsefield.inference import CellProbabilities, infer, infer_marginals, predict_observed
from sparsefield.model import Field, FitRecord, IterationRecord, bias_table, edge_table, feature_table
from sparsefield.model.model_file import save_field
from sparsefield.objectives import SparseEvaluator
from sparsefield.solver import Solver

NOT_SAVED = ("engine", "n_jobs", "verbose", "callbacks")
"""Parameters that say where and how a fit ran, not what was learned."""


class FieldEstimator(OutputMethods, CentralityMethods, ResamplingMethods, LikelihoodMethods, TrainingMethods):
    """Base class of `MarkovField`, `CRFClassifier` and `RelationalField`."""

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
        """Frame of the biases, strongest first: variable, state, weight; over linked tables, also the table.

        The reference state of a variable has no weight, and is left out.
        """
        check_is_fitted(self)
        return bias_table(self.field_, self.kind_)

    @property
    def edges_(self) -> Frame:
        """Frame of pairs of variables that share features: variable_a, variable_b, strength.

        The strength is the Euclidean norm of the weights of these features. Over linked tables, also the template and
        the tables of both ends: template, table_a, ..., table_b, ...
        """
        check_is_fitted(self)
        return edge_table(self.field_, self.kind_)

    @property
    def history_(self) -> Frame:
        """Frame with a row per iteration: objective, features, phase, seconds and more."""
        rows = [row.as_row() for row in self._record.iterations]
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
        return self._record.n_iter

    @property
    def l1_(self) -> float:
        """The l1 of the fit: the selected one if ``l1="auto"``; NaN for a field that was given, not learned."""
        return _nan_if_none(self._record.l1)

    @property
    def path_(self) -> Frame:
        """Frame with a row per value of l1 that was tried: l1, features, score, its error, selected, criterion.

        The error is the standard error of the score. The criterion is the one that was used: "ebic" also where too few
        cells could be held out.
        """
        rows = self._record.path
        if not rows:
            raise AttributeError("There is no path: l1 was given. Fit with l1='auto', or see `regularization_path`.")
        return path_frame(rows, self._record.criterion, self.kind_)

    @property
    def kkt_violation_(self) -> float:
        """Largest violation of the optimality conditions over all candidates, left-out ones included.

        It describes the field before a refit.
        """
        return _nan_if_none(self._record.kkt_violation)

    @property
    def objective_(self) -> float:
        """Loss and penalties at the end, a sum over rows; before a refit."""
        return _nan_if_none(self._record.objective)

    @property
    def converged_(self) -> bool:
        """Whether the fit ended with a violation of at most ``kkt_tol`` x l1."""
        return self._record.converged

    @property
    def mc_error_(self) -> float:
        """Monte Carlo error of the weights, as a share of their standard errors (root mean square).

        It is the noise of the last step of Monte Carlo EM, not the whole distance from the result of infinitely many
        draws, which is larger the more is missing: see `EM`.
        It is 0 if no cell was missing. It is NaN if beliefs were put in the place of missing cells, as by
        ``missing="mean-field"``, whose error is of another kind, and where the fit ended before it was known.
        """
        return _nan_if_none(self._record.mc_error)

    @property
    def _record(self) -> FitRecord:
        check_is_fitted(self)
        return self.field_.record

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
        """Return ``X`` as a source, after scikit-learn's checks of its columns.

        Arrays and sparse matrices have the names that `fit` was given for their columns.
        """
        if not reset:
            check_is_fitted(self)
        if isinstance(X, (str, os.PathLike)):
            raise DataError(
                f"X is the path {os.fspath(X)!r}: read the table first, for instance with polars; sparse 0/1 matrices "
                "with read_matrix or read_sparse of sparsefield.app.tables.matrix_files."
            )
        if is_dask_collection(X):
            raise DataError(
                f"X is a {type(X).__name__} of Dask, which only MarkovField.fit takes, with engine=: pass X.compute()."
            )
        if reset and sp.issparse(X):
            refuse_large_fit(X, "X")
        source = as_source(X)
        validate_data(self, source.native if source.kind == "array" else X, reset=reset, skip_check_array=True)
        return source.keeping_columns() if reset else self._with_learned_names(source)

    def _read_by_name(self, X: Any) -> Source:
        """Return the columns that the field was learned from: of a frame by name, in any order and beside others."""
        check_is_fitted(self)
        learned = getattr(self, "feature_names_in_", None)
        if learned is None or is_dask_collection(X):
            return self._read(X)
        source = as_source(X)
        if source.kind in ("array", "sparse"):
            return self._read(X)
        place = {name: k for k, name in enumerate(source.names)}
        absent = [repr(name) for name in learned if name not in place]
        if absent:
            raise DataError(f"The table lacks columns that the field was learned from: {', '.join(absent)}.")
        return replace(
            source, names=tuple(learned), native=source.native[:, [place[name] for name in learned]], keys=()
        )

    def _with_learned_names(self, source: Source) -> Source:
        """Return an array or a sparse matrix with the names of the columns that the field was learned from."""
        if source.kind not in ("array", "sparse") or hasattr(self, "feature_names_in_"):
            return source
        names = tuple(self._input_names(self.field_.schema))
        return replace(source, names=names) if len(names) == len(source.names) else source

    def _kinds(self, source: Source) -> Kinds:
        if not isinstance(self.kinds, Mapping):
            given_kinds(self.kinds, source.names)  # pyright: ignore[reportArgumentType]  # which this checks
            return "auto"
        given: dict[str, Any] = {}
        for column in self.kinds:
            name = column_names(source, [column])[0]
            if name in given:
                raise DataError(f"kinds= names the column {name!r} twice, by name and by position: remove one.")
            given[name] = self.kinds[column]
        return given

    def _log_likelihood(self, dataset: LocalDataset) -> float:
        """Return the pseudo-log-likelihood: the sum over rows and observed values of ln p(value | all others).

        For a number with more values than levels, p is a density per standard deviation.
        """
        if dataset.kind == "dense":
            with self._engine(dataset) as engine:
                found = predict_observed(self.field_, dataset, engine, thorough=True)
            self._warn_not_inferred(found.unconverged, dataset)
            return found.log_likelihood - sum(float(log_widths(table) @ table.weight()) for table in dataset.tables)
        assert isinstance(dataset, SparseDataset)
        with self._engine(dataset) as engine:
            evaluator = SparseEvaluator(dataset, engine)
            arcs = evaluator.compile(self.field_.layout.arcs(self.field_.pairs))
            return -evaluator.evaluate(arcs, self.field_.theta)[0]

    def _infer(self, dataset: DenseDataset) -> CellProbabilities:
        """Return the posterior of all cells of one table or of several."""
        with self._engine(dataset) as engine:
            posterior = infer(self.field_, dataset, self._resolve("inference"), engine)
        self._warn_not_inferred(posterior.unconverged, dataset)
        return posterior

    def _infer_marginals(self, dataset: DenseDataset) -> tuple[np.ndarray, ...]:
        """Return the marginals (states, rows) of the missing cells, table by table."""
        with self._engine(dataset) as engine:
            found = infer_marginals(self.field_, dataset, self._resolve("inference"), engine)
        self._warn_not_inferred(found.unconverged, dataset)
        return found.values

    def _warn_not_inferred(self, unconverged: int, dataset: DenseDataset) -> None:
        if unconverged:
            warnings.warn(
                f"Inference did not converge in {unconverged:,} of {dataset.n_rows:,} rows, whose beliefs may be "
                f"inaccurate. {self._resolve('inference').advice}.",
                ConvergenceWarning,
                stacklevel=4,
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
