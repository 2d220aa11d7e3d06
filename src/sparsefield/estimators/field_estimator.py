"""The base class of the estimators: parameters, the results of a fit, reading of tables, and saving."""

from __future__ import annotations

import logging
import os
import warnings
from abc import abstractmethod
from collections import ChainMap, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import entry_points
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsefield.compute import Engine
from sparsefield.data import Dataset, Layout, Schema, Source, as_source, check_kind, compile_table, make_frame
from sparsefield.data.frame_building import Frame
from sparsefield.data.frames import is_dask_collection
from sparsefield.data.schema_learning import Kinds, given_kinds
from sparsefield.errors import DataError
from sparsefield.estimators.answers import states_of
from sparsefield.induction import RULES, InductionRule
from sparsefield.inference import INFERENCE, InferenceMethod
from sparsefield.model import Field, FitRecord, IterationRecord
from sparsefield.model.feature_tables import bias_table, edge_table, feature_table, path_table
from sparsefield.model.model_file import save_field
from sparsefield.objectives import EM, OBJECTIVES, Objective
from sparsefield.options import Abbreviated, to_plain
from sparsefield.parameters import FieldParameters, automatic_treatment
from sparsefield.solver import SELECTIONS, Features, FitCallbacks, PathPoint, SelectionCriterion, Solver, WarmStart
from sparsefield.solver.state import listeners

FEWEST_ROWS = 2
"""A fit to fewer rows is refused: one row says nothing about what varies."""

LOG = logging.getLogger("sparsefield")


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

    @property
    def of_path(self) -> Dataset:
        """The tables on which l1 is selected."""
        return self.dataset if self.without_latent is None else self.without_latent


@cache
def load_plugins() -> None:
    """Add what installed packages announce to `OBJECTIVES`, `RULES` and `INFERENCE`, by the names of entry points.

    The groups are ``sparsefield.objectives``, ``sparsefield.rules`` and ``sparsefield.inference``. A name that is
    already there is kept, and a package that cannot be imported is reported and left out.
    """
    for group, registry in {"objectives": OBJECTIVES, "rules": RULES, "inference": INFERENCE}.items():
        for point in entry_points(group=f"sparsefield.{group}"):
            try:
                registry.setdefault(point.name, point.load())
            except Exception as error:
                package = point.dist.name if point.dist is not None else point.value
                warnings.warn(
                    f"The entry point {point.name!r} of sparsefield.{group} in package {package!r} cannot be loaded "
                    f"({error}): update or remove the package.",
                    stacklevel=2,
                )


PARTS = {
    "objective": Abbreviated((Objective,), OBJECTIVES, "in Python an object of a subclass of Objective"),
    "induction": Abbreviated(
        (InductionRule,), RULES, "in Python an object such as CFI(threshold=0.2) or FixedGraph(edges=[('a', 'b')])"
    ),
    "selection": Abbreviated((SelectionCriterion,), SELECTIONS, "in Python an object such as EBIC(gamma=0.5)"),
    "features": Abbreviated((Features,), {None: Features}, "a Features such as Features(max_order=3)"),
    "missing": Abbreviated(
        (EM, InferenceMethod),
        ChainMap[Any, Any]({EM.name: EM}, INFERENCE),
        "in Python an object such as EM(max_error=0.05)",
    ),
    "inference": Abbreviated((InferenceMethod,), INFERENCE, "in Python an object such as Gibbs(sweeps=1000)"),
    "solver": Abbreviated((Solver,), {None: Solver}, "a Solver such as Solver(max_iter=5000)"),
}
"""Parameters that are option objects."""


def option_objects() -> list[Callable[..., Any]]:
    """Return the classes of option objects that a model file may name."""
    load_plugins()
    registries = OBJECTIVES, RULES, SELECTIONS, INFERENCE
    return [*(kind for registry in registries for kind in registry.values()), Features, EM, Solver]


def as_seed(random_state: Any) -> int | None:
    """Return an integer seed; a random state or generator is drawn from."""
    if random_state is None:
        return None
    if isinstance(random_state, Integral):
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(np.iinfo(np.int32).max))
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


class FieldEstimator(FieldParameters, BaseEstimator):
    """Base class of `MarkovField`, `CRFClassifier` and `RelationalField`.

    Parameters that are option objects may be abbreviated: ``induction="cfi"`` counts as ``CFI()``. Setting an option of
    such an object, as in ``set_params(induction__threshold=0.1)``, puts another object in its place; an object that was
    passed in is never changed.
    """

    field_: Field
    kind_: str

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
        """Frame of pairs of variables that share features, those that hold first, and stronger ones before others.

        Columns are variable_a, variable_b, weight, sign, strength, beyond, p_value, q_value. Over linked tables, also
        the template and the tables of both ends: template, table_a, ..., table_b, ...

        The weight is that of the linear feature of two ordinal, numeric or two-state columns, and its sign is 1 or -1;
        the larger state of two is the one that says yes, or the last by the alphabet. ``beyond`` is the Euclidean norm
        of their other weights, of levels and bins. Between other columns, states have no order: the weight is the norm
        of all weights, and the sign 0. The strength is the size of the weight, or ``beyond`` where that is 0. Selected
        by predictions (``selection="heldout"``), many weights help only a little. The p-value is that of a test that
        the edge is not needed beside all others, linear or curved, from regressions without L1 and a sandwich variance
        in which rows of ``groups`` count together and a weight is no number of rows. The q-value is the least false
        discovery rate (Benjamini and Hochberg) at which the edge holds among all that the table could have: read those
        up to 0.05 as the network.
        Both are NaN where there are no tests: with ``Solver(test_edges=False)``, for linked and sparse tables, latent
        variables, other objectives than "pl", beliefs in place of missing cells, rows in parts, and tables that are
        too wide.
        """
        check_is_fitted(self)
        return edge_table(self.field_, self.kind_)

    @property
    def history_(self) -> Frame:
        """Frame with a row per iteration: objective, features, phase, seconds and more."""
        return make_frame(self._record.history(), self.kind_)

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
        record = self._record
        if not record.path:
            raise AttributeError("There is no path: l1 was given. Fit with l1='auto', or see `regularization_path`.")
        return path_table(record.path, record.criterion, self.kind_)

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

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with ``deep``, also those of option objects, as ``induction__threshold``."""
        params = super().get_params(deep=False)
        for name in PARTS if deep else ():
            try:
                part = self.resolve(name)
            except (TypeError, ValueError):  # a value that `fit` refuses
                continue
            params |= {f"{name}__{option}": value for option, value in part.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, and options of option objects such as ``induction__threshold``; return the estimator."""
        nested: dict[str, dict[str, Any]] = defaultdict(dict)
        for key in [key for key in params if key.partition("__")[0] in PARTS and "__" in key]:
            name, _, option = key.partition("__")
            nested[name][option] = params.pop(key)
        super().set_params(**params)
        for name, options in nested.items():
            part = self.resolve(name)
            part.refuse_unknown(options)
            setattr(self, name, replace(part, **options))
        return self

    def resolve(self, name: str) -> Any:
        """Return the option object that a parameter is or abbreviates, such as ``CFI()`` for ``"induction"``."""
        value = getattr(self, name)
        if name == "missing" and value == "auto":
            value = automatic_treatment(str(getattr(self.objective, "name", self.objective)))
        if isinstance(value, str) and value not in PARTS[name].names:
            load_plugins()
        return PARTS[name].resolve(name, value)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one safetensors file, which `sparsefield.load` reads without running any code.

        Times, ``n_jobs`` and the ``engine``, ``callbacks`` and ``checkpoint`` of the solver are left out: the same fit
        on this machine always writes the same bytes.
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

    @abstractmethod
    def _compile_fitted(self, X: Any, y: Any, sample_weight: Any) -> Dataset:
        """Compile tables with the schemas of the fitted field, sparsely where a fit does."""

    def _compile_densely(self, X: Any) -> Dataset:
        """Compile a table with the schema of the fitted field, whatever its columns are for."""
        return Dataset.single(compile_table(self._with_learned_names(as_source(X)), self.field_.schema))

    def _contradictions(self, parts: Mapping[str, Any]) -> Iterator[str]:
        """Yield a sentence for each pair of parameters that only this estimator excludes; ``parts`` are its objects."""
        yield from ()

    def _callbacks(self) -> FitCallbacks:
        """Return the listeners of the fit; events that have none are logged."""
        callbacks = self.resolve("solver").callbacks or listeners.get() or FitCallbacks()
        return FitCallbacks(callbacks.on_iteration or _log_iteration, callbacks.on_path_point or _log_path_point)

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
            raise DataError(f"X is a {type(X).__name__} of Dask, which only MarkovField.fit takes: pass X.compute().")
        source = as_source(X)
        if reset and source.n_rows < FEWEST_ROWS:
            raise DataError(f"X has 1 row: 1 sample(s), while a minimum of {FEWEST_ROWS} is required to learn from.")
        validate_data(self, source.native if source.kind == "array" else X, reset=reset, skip_check_array=True)
        return source if reset else self._with_learned_names(source)

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

    def _plain_params(self) -> dict[str, Any]:
        """Return the parameters that a saved file has, as values that JSON can express."""
        params = {name: value for name, value in self.get_params(deep=False).items() if name != "n_jobs"}
        params["solver"] = solver_without_checkpoint(self)
        # The state of a generator is no seed: a loaded field draws new numbers.
        if not isinstance(self.random_state, Integral):
            params["random_state"] = None
        return to_plain(params)


def column_names(source: Source, columns: Any) -> list[str]:
    """Return the distinct names of columns given by name or by position; names take precedence."""
    names, columns = [], () if columns is None else columns
    if not isinstance(columns, Iterable):
        raise DataError(f"observed is {columns!r}; it must be a list of columns.")
    for column in [columns] if isinstance(columns, str) else columns:
        if column in source.keys:
            names.append(source.names[source.keys.index(column)])
        elif not isinstance(column, Integral) or isinstance(column, bool):
            names.append(str(column))
        elif -len(source.names) <= int(column) < len(source.names):
            names.append(source.names[int(column)])
        else:
            raise DataError(f"Column {column} does not exist: there are {len(source.names)} columns.")
    return list(dict.fromkeys(names))


def fitted_field(fitted: FieldEstimator | Field) -> Field:
    """Return the field of a fitted estimator; a field is returned as it is."""
    if isinstance(fitted, Field):
        return fitted
    check_is_fitted(fitted)
    return fitted.field_


def solver_without_checkpoint(estimator: FieldEstimator) -> Solver | None:
    """Return the options of an estimator's solver that say what is learned, None if they are the defaults."""
    solver = replace(estimator.resolve("solver"), checkpoint=None, engine=None, callbacks=None)
    return None if solver == Solver() else solver


def _log_iteration(record: IterationRecord) -> None:
    LOG.info(
        "step %d (%s): objective %.4f, %d of %d features have weights, %.1f s",
        record.iteration, record.phase, record.objective, record.active, record.features, record.seconds,
    )  # fmt: skip


def _log_path_point(point: PathPoint) -> None:
    LOG.info("l1 %.4g: %d features, score %.4f", point.l1, len(point.field.features), point.score)


def _nan_if_none(value: float | None) -> float:
    """Return NaN for a value that a field which was not learned lacks."""
    return np.nan if value is None else value
