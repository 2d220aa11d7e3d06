"""What all estimators share: options to parts, learning, reading the outcome, saving."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import asdict, fields, replace
from numbers import Integral
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator
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
    SparseDataset,
    check_kind,
    deduplicate_rows,
    make_frame,
    read,
)
from sparsefield.errors import DataError
from sparsefield.estimators.answer_tables import states_of
from sparsefield.estimators.display_methods import ShowingMethods
from sparsefield.estimators.export_methods import ExchangeMethods
from sparsefield.estimators.resampling import ResamplingMethods
from sparsefield.estimators.validation import as_seed, check_count, check_engine, choose, column_names
from sparsefield.induction import CFI, RULES, FixedGraph, IdealParent, InductionRule
from sparsefield.inference import INFERENCE, InferenceMethod, Posterior, infer
from sparsefield.io.model_file import save_field
from sparsefield.io.partitioned_tables import is_collection
from sparsefield.model import Field, FitRecord, IterationRecord, PathRow, edge_table, feature_table
from sparsefield.objectives import OBJECTIVES, DenseEvaluator, SparseEvaluator
from sparsefield.solver import (
    PathPoint,
    PathSelection,
    PathTrainer,
    SelectionOptions,
    TrainingOptions,
    WarmStart,
    choose_l1,
    prune_by_wald,
)

__all__ = ["FieldEstimator", "as_seed", "rebuild", "states_of"]

OF_THE_MACHINE = ("checkpoint", "engine", "n_jobs", "verbose")
"""Parameters that say where and how a fit ran: nothing that a model should know."""

SELECTIONS = {"heldout": "predictions of held-out cells", "ebic": "EBIC"}
"""What l1 is chosen by."""

LEAST_L2 = 0.01
"""Of a refit, which has no L1 to hold weights that the data would let run off."""


class FieldEstimator(ExchangeMethods, ResamplingMethods, ShowingMethods, BaseEstimator):
    """Parameters and outcome of a fit.

    `MarkovField`, `CRFClassifier` and `RelationalField` say what goes in and what comes out.
    """

    def __init__(
        self,
        *,
        induction: str = "cfi",
        objective: str = "pl",
        l1: float | str = 2.0,
        l2: float = 1.0,
        threshold: float | tuple[float, float] = 0.2,
        batch_size: int | str = "auto",
        certify: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-6,
        kkt_tol: float = 0.01,
        inference: str | InferenceMethod = "mean-field",
        penalize_unary: bool = False,
        steps_per_batch: int | str = "auto",
        stages: int = 1,
        max_order: int = 2,
        lift: str = "active",
        order_penalty: float = 2.0,
        selection: str = "heldout",
        refit: bool = False,
        graph: Any = None,
        numeric: Any = "auto",
        checkpoint: str | os.PathLike[str] | None = None,
        engine: Any = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.induction = induction
        self.objective = objective
        self.l1 = l1
        self.l2 = l2
        self.threshold = threshold
        self.batch_size = batch_size
        self.certify = certify
        self.max_iter = max_iter
        self.tol = tol
        self.kkt_tol = kkt_tol
        self.inference = inference
        self.penalize_unary = penalize_unary
        self.steps_per_batch = steps_per_batch
        self.stages = stages
        self.max_order = max_order
        self.lift = lift
        self.order_penalty = order_penalty
        self.selection = selection
        self.refit = refit
        self.graph = graph
        self.numeric = numeric
        self.checkpoint = checkpoint
        self.engine = engine
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- outcome -------------------------------------------------------------------------------------------------

    @property
    def features_(self) -> Any:
        """Frame of features: variable_a, state_a, variable_b, state_b (b empty for unary), weight; strongest first.

        Where a feature has three columns and more, also variable_c, state_c and so on, empty for all others.
        Over linked tables, also the template and the tables of both ends: template, table_a, ..., table_b, ...
        """
        check_is_fitted(self)
        return feature_table(self.field_, self.kind_)

    @property
    def edges_(self) -> Any:
        """Frame of pairs of variables that share features: variable_a, variable_b, strength (norm of their weights).

        Over linked tables, also the template and the tables of both ends: template, table_a, ..., table_b, ...
        """
        check_is_fitted(self)
        return edge_table(self.field_, self.kind_)

    @property
    def history_(self) -> Any:
        """Frame with a row per iteration: objective, features, phase, seconds and more."""
        check_is_fitted(self)
        rows = [row.as_row() for row in self.field_.record.iterations]
        # A table of constants leaves nothing to iterate over.
        keys = list(rows[0]) if rows else [field.name for field in fields(IterationRecord)]
        return make_frame({key: [row[key] for row in rows] for key in keys}, self.kind_)

    @property
    def states_(self) -> dict[str, Any]:
        """{column: sorted list of its states} of the columns that are predicted; over linked tables, of each table."""
        check_is_fitted(self)
        # Made when asked for: a million columns have a million lists.
        if getattr(self, "_states", (None, None))[0] is not self.field_:
            self._states = self.field_, self._read_states()
        return self._states[1]

    @property
    def n_iter_(self) -> int:
        check_is_fitted(self)
        return self.field_.record.n_iter

    @property
    def l1_(self) -> float:
        """The l1 that the field was learned with: the chosen one where ``l1="auto"``; NaN of a field that was given."""
        check_is_fitted(self)
        return _known(self.field_.record.l1)

    @property
    def path_(self) -> Any:
        """Frame with a row per value of l1 that was tried: l1, features, score, its standard error, chosen."""
        check_is_fitted(self)
        rows = self.field_.record.path
        if not rows:
            raise AttributeError("There is no path: l1 was given. Fit with l1='auto', or see `regularization_path`.")
        return make_frame(
            {field.name: [getattr(row, field.name) for row in rows] for field in fields(PathRow)}, self.kind_
        )

    @property
    def kkt_violation_(self) -> float:
        """By how much the worst of all candidates, left-out ones included, misses the optimality conditions; of the
        field before a refit."""
        check_is_fitted(self)
        return _known(self.field_.record.kkt_violation)

    @property
    def objective_(self) -> float:
        """Loss and penalties at the end, a sum over rows; of the field before a refit."""
        check_is_fitted(self)
        return _known(self.field_.record.objective)

    @property
    def converged_(self) -> bool:
        """Whether the fit ended with its certificate: a violation below ``kkt_tol`` x l1."""
        check_is_fitted(self)
        return self.field_.record.converged

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one safetensors file, which `sparsefield.load` reads without running any code.

        Times and traffic are left out, and so are ``checkpoint``, ``engine``, ``n_jobs`` and ``verbose``, so that the
        same fit always writes the same bytes, wherever it ran.
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
        """A client of a cluster is of one process: it is not copied, and not written."""
        state: Any = super().__getstate__()
        return state if isinstance(self.engine, str) else state | {"engine": None}

    def __sklearn_clone__(self) -> Any:
        twin: Any = super(FieldEstimator, copy(self)).__sklearn_clone__()
        twin.engine = self.engine
        return twin

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.sparse = True
        return tags

    # -- for subclasses ------------------------------------------------------------------------------------------

    def _read_states(self) -> dict[str, Any]:
        return states_of(self.field_.schema)

    def _extra(self) -> dict[str, Any]:
        """What else belongs into a saved file, as plain values."""
        return {}

    def _input_names(self, schema: Schema) -> Sequence[str]:
        """Names of the columns of X."""
        return schema.input_names

    def _restore(self, field: Field, extra: dict[str, Any]) -> None:
        """Become what `save` wrote."""
        self.field_ = field
        self.kind_ = check_kind(extra["kind"])
        self._restore_columns(field, extra)

    def _restore_columns(self, field: Field, extra: dict[str, Any]) -> None:
        """Names and states of the columns of one table."""
        if field.layout != Layout.single(field.schema):
            raise ValueError("linked tables, where one plain table is wanted")
        names = self._input_names(field.schema)
        self.n_features_in_ = len(names)
        if extra.get("named", self.kind_ not in ("array", "sparse")):
            self.feature_names_in_ = np.array(names, dtype=object)

    def _read(self, X: Any, *, reset: bool = False) -> Source:
        """Look at ``X``, with scikit-learn's own bookkeeping of its columns and its own words for a mismatch."""
        if not reset:
            check_is_fitted(self)
        if is_collection(X):
            raise DataError(
                f"X is a {type(X).__name__} of Dask, which only MarkovField.fit takes, with engine=: pass X.compute()."
            )
        source = read(X)
        validate_data(self, source.native if source.kind == "array" else X, reset=reset, skip_check_array=True)
        return source

    def _numeric(self, source: Source) -> list[str] | Literal["auto"]:
        if isinstance(self.numeric, str) and self.numeric == "auto":
            return "auto"
        return column_names(source, self.numeric)

    def _learn(
        self,
        sample: Dataset,
        kind: str,
        start: WarmStart | None = None,
        choice: PathSelection | None = None,
        place: Engine | None = None,
    ) -> None:
        """Learn from compiled tables and keep the outcome; l1 is chosen unless it is given, or was chosen before.

        ``place`` is an engine that was entered already, and knows where the rows are.
        """
        self._check_targets(sample)
        options = self._options()
        merged = deduplicate_rows(sample) if isinstance(sample, DenseDataset) else sample
        with self._fit_engine(merged) if place is None else nullcontext(place) as engine:
            if choice is None and self.l1 == "auto":
                choice = self._choose(sample, engine)
            options = options if choice is None else replace(options, l1=choice.l1)
            trainer = self._trainer(merged, options, engine, self.checkpoint, start)
            learned = trainer.run()
            if self.refit:
                learned = replace(learned, field=self._refit(trainer))
        if options.certify and not learned.converged:
            warnings.warn(
                f"The fit stopped after {len(learned.steps)} iterations with an optimality violation of "
                f"{learned.kkt_violation:.3g}. "
                + (
                    "cd's gradient is not that of its loss, so this is to be expected: certify=False asks for no more."
                    if self.objective == "cd"
                    else "Raise max_iter, or l1 and l2."
                ),
                ConvergenceWarning,
                stacklevel=3,
            )
        record = FitRecord(
            version=sparsefield.__version__,
            n_rows=sample.n_rows,
            l1=float(options.l1),
            objective=float(learned.objective),
            kkt_violation=float(learned.kkt_violation),
            converged=bool(learned.converged),
            refit=bool(self.refit),
            iterations=learned.steps,
            path=() if choice is None else choice.rows(),
        )
        self.field_ = replace(learned.field, record=record)
        self.kind_ = kind

    def _check_targets(self, sample: Dataset) -> None:
        if sample.layout.n_targets == 0:
            raise DataError(
                "Every column is observed, so there is nothing to predict: leave at least one column a target."
            )

    def _trainer(
        self,
        sample: Dataset,
        options: TrainingOptions,
        engine: Engine,
        checkpoint: str | os.PathLike[str] | None = None,
        start: WarmStart | None = None,
    ) -> PathTrainer:
        return PathTrainer(
            sample,
            rule=self._rule(),
            objective=choose(OBJECTIVES, self.objective, "objective")(),
            inference=self._inference(),
            options=options,
            engine=engine,
            progress=getattr(self, "_progress", None) or (_print_step if self.verbose else None),
            checkpoint=checkpoint,
            start=start,
        )

    def _choose(self, sample: Dataset, engine: Engine, ways: SelectionOptions | None = None) -> PathSelection:
        """l1 from the data; see ``selection``."""
        options = replace(self._options(), certify=True)
        ways = replace(
            ways or SelectionOptions(),
            selection=self.selection,  # pyright: ignore[reportArgumentType]
            kkt_tol=self.kkt_tol,
            seed=as_seed(self.random_state) or 0,
            refit_l2=max(self.l2, LEAST_L2) if self.refit else None,
        )
        return choose_l1(
            sample,
            lambda part, l1, kkt_tol: self._trainer(part, replace(options, l1=l1, kkt_tol=kkt_tol), engine),
            self._inference(),
            engine,
            ways,
            getattr(self, "_hear_path", None) or (_print_point if self.verbose else None),
        )

    def _refit(self, trainer: PathTrainer) -> Field:
        l2 = max(self.l2, LEAST_L2)
        if self.selection == "ebic" and isinstance(trainer.evaluator, DenseEvaluator):
            return prune_by_wald(trainer, l2)
        return trainer.refit(trainer.theta[trainer.layout.n_states :] != 0.0, l2)

    def _log_likelihood(self, sample: LocalDataset) -> float:
        """Sum over rows and seen cells of ln p(cell | all others), the pseudo-log-likelihood."""
        if not isinstance(sample, SparseDataset):
            return self._ask(sample).log_likelihood
        with self._engine(sample) as engine:
            evaluator = SparseEvaluator(sample, engine)
            arcs = evaluator.compile(self.field_.layout.arcs(self.field_.pairs))
            return -evaluator.evaluate(arcs, self.field_.theta)[0]

    def _ask(self, sample: DenseDataset) -> Posterior:
        """Beliefs about the cells of one table or of several."""
        inference = self._inference()
        with self._engine(sample) as engine:
            answers = infer(self.field_, sample, inference, engine)
        if answers.unconverged:
            warnings.warn(
                f"Inference reached its cap in {answers.unconverged:,} of {sample.n_rows:,} rows; their beliefs are "
                f"not settled. {inference.advice}.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return answers

    def _check_parameters(self) -> None:
        """Refuse parameters that make no sense before any work is done."""
        self._options()
        self._rule()
        self._inference()
        choose(OBJECTIVES, self.objective, "objective")
        check_engine(self.engine)

    def _engine(self, sample: Dataset) -> Engine:
        """Threads for a mega-sample; the result is the same with any number of them."""
        small = sample.n_cells < config.CELLS_FOR_THREADS
        return Threads(1 if small and self.n_jobs != 0 else self.n_jobs)

    def _fit_engine(self, sample: Dataset) -> Engine:
        """Where a fit runs: on the cluster that is asked for, or here. What is asked of a field is answered here."""
        if self.engine is None:
            return self._engine(sample)
        from sparsefield.compute.dask_engine import DaskEngine

        return DaskEngine(self.engine, self.n_jobs)

    def _takes_sparse(self) -> bool:
        """Whether rule and objective can do with a sparse table."""
        return choose(RULES, self.induction, "induction").sparse and self.objective == "pl" and self.max_order == 2

    def _inference(self) -> InferenceMethod:
        if isinstance(self.inference, InferenceMethod):
            return self.inference
        return choose(INFERENCE, self.inference, "inference")()

    def _rule(self) -> InductionRule:
        kind = choose(RULES, self.induction, "induction")
        if issubclass(kind, (CFI, IdealParent)):
            errors, signals = (
                self.threshold if isinstance(self.threshold, (tuple, list)) else (self.threshold, self.threshold)
            )
            if not (errors >= 0 and signals >= 0):
                raise ValueError(f"threshold must be a number that is not negative, got {self.threshold}.")
            return kind(errors, signals)
        if issubclass(kind, FixedGraph):
            if self.graph is None:
                raise ValueError("induction='graph' needs graph=, a list of pairs of column names.")
            return FixedGraph.of(self.graph)
        return kind()

    def _options(self) -> TrainingOptions:
        choose(SELECTIONS, self.selection, "selection")
        if self.selection == "ebic" and self.objective != "pl":
            raise ValueError(f"selection='ebic' is a criterion of objective='pl', not of {self.objective!r}.")
        for name in ("l1", "l2", "tol", "kkt_tol"):
            value = getattr(self, name)
            if name == "l1" and isinstance(value, str) and value == "auto":
                continue
            if isinstance(value, str) or not np.isfinite(value) or value < 0:
                raise ValueError(f"{name} must be a number that is not negative, got {value}.")
        check_count("batch_size", self.batch_size, "auto")
        check_count("steps_per_batch", self.steps_per_batch, "auto", "converge")
        if self.stages not in (1, 2):
            raise ValueError(f"stages must be 1 or 2, got {self.stages}.")
        if not isinstance(self.max_order, Integral) or self.max_order < 2:
            raise ValueError(f"max_order must be a whole number from 2, got {self.max_order}.")
        if self.max_order > 2 and self.induction not in ("cfi", "grafting"):
            raise ValueError(f"max_order={self.max_order} needs induction='cfi' or 'grafting', got {self.induction!r}.")
        if self.lift not in ("active", "all"):
            raise ValueError(f"lift must be 'active' or 'all', got {self.lift!r}.")
        if not np.isfinite(self.order_penalty) or self.order_penalty < 1.0:
            raise ValueError(f"order_penalty must be a number from 1, got {self.order_penalty}.")
        if self.max_iter < 1:
            raise ValueError(f"max_iter must be at least 1, got {self.max_iter}.")
        return TrainingOptions(
            l1=1.0 if isinstance(self.l1, str) else self.l1,
            l2=self.l2,
            penalize_unary=self.penalize_unary,
            batch_size=self.batch_size,  # pyright: ignore[reportArgumentType]
            steps_per_batch=self.steps_per_batch,  # pyright: ignore[reportArgumentType]
            stages=self.stages,
            max_order=int(self.max_order),
            lift=self.lift,  # pyright: ignore[reportArgumentType]
            order_penalty=float(self.order_penalty),
            certify=self.certify,
            max_iter=self.max_iter,
            tol=self.tol,
            kkt_tol=self.kkt_tol,
        )

    def _plain_params(self) -> dict[str, Any]:
        params = {name: value for name, value in self.get_params(deep=False).items() if name not in OF_THE_MACHINE}
        if isinstance(self.inference, InferenceMethod):
            params["inference"] = {"method": self.inference.name, **asdict(self.inference)}  # pyright: ignore
        if self.graph is not None:
            params["graph"] = [list(edge) for edge in self.graph]
        if not isinstance(self.numeric, str):
            params["numeric"] = list(self.numeric)
        # The state of a generator is no seed: a field that comes back draws afresh.
        if not isinstance(self.random_state, Integral):
            params["random_state"] = None
        return _plain(params)


def _known(value: float | None) -> float:
    """NaN for what a field that was not learned does not have."""
    return np.nan if value is None else value


def rebuild(kind: type[FieldEstimator], field: Field, extra: dict[str, Any]) -> FieldEstimator:
    """The estimator that `FieldEstimator.save` wrote."""
    params = dict(extra["params"])
    if isinstance(params.get("inference"), dict):
        options = dict(params["inference"])
        params["inference"] = INFERENCE[options.pop("method")](**options)
    if isinstance(params.get("threshold"), list):
        params["threshold"] = tuple(params["threshold"])
    estimator = kind(**params)
    estimator._restore(field, extra)
    return estimator


def _plain(value: Any) -> Any:
    """``value`` with Python's numbers and lists for NumPy's, as JSON takes them."""
    if isinstance(value, dict):
        return {key: _plain(inside) for key, inside in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inside) for inside in value]
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def _print_point(point: PathPoint) -> None:
    count = len(point.learned.field.features)
    print(f"l1 {point.l1:10.4g}  features {count:7,d}  score {point.score:14.4f}", file=sys.stderr)


def _print_step(step: IterationRecord) -> None:
    print(
        f"{step.iteration:5d}  {step.phase:<8}  objective {step.objective:14.4f}  "
        f"features {step.active:7,d} of {step.features:7,d}  {step.seconds:7.1f} s",
        file=sys.stderr,
    )
