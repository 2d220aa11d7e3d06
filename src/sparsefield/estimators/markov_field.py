"""`MarkovField`, the estimator for one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

import sparsefield
from sparsefield.compute.dask_rows import learn_from_partitions, open_partitions
from sparsefield.data import (
    Dataset,
    Label,
    Schema,
    Source,
    Table,
    check_weights,
    compile_sparse,
    compile_table,
    fill_cells,
    learn_schema,
    warn_incomplete_covariates,
)
from sparsefield.data.frame_building import Frame, TableT
from sparsefield.data.frames import check_names, is_dask_collection
from sparsefield.errors import DataError
from sparsefield.estimators.answers import Fill, Posterior, check_fill, drawn_cells, filled_cells, probabilities
from sparsefield.estimators.compiled_rows import (
    infer_cells,
    infer_missing,
    joint_log_likelihood,
    pseudo_log_likelihood,
    read_by_name,
    threads_for,
)
from sparsefield.estimators.field_estimator import FieldEstimator, TrainingData, as_seed, column_names
from sparsefield.estimators.latent_start import latent_training_data, with_shares
from sparsefield.estimators.queries import (
    QUERY_CHAINS,
    Probability,
    draw_rows,
    event_probability,
    find_completion,
    row_of,
)
from sparsefield.estimators.training import check_parameters, read_groups, split_groups, train
from sparsefield.inference import Gibbs, state_probabilities
from sparsefield.inference.elimination import MAX_CELLS
from sparsefield.inference.gibbs import AIS
from sparsefield.model import Field, FitRecord
from sparsefield.model.model_file import check_field
from sparsefield.options import MAX_INTEGER, problems_of, raise_problems, whole
from sparsefield.parameters import BURN_IN, THIN
from sparsefield.solver import HeldOut
from sparsefield.solver.folds import held_out_refusal


@dataclass(kw_only=True, eq=False, repr=False, match_args=False)
class MarkovField(TransformerMixin, FieldEstimator):
    """Learn a sparse Markov network (a conditional random field) from a table of nominal, ordinal and numeric columns.

    `fit` finds which states of which columns depend on each other. `transform` imputes missing cells, `predict_proba`
    returns probabilities of states, `infer` also means and quantiles of numbers, `sample` draws rows, and `probability`
    answers queries about one row. What else one asks of a fitted field is a function of it, such as
    `sparsefield.impute`, `sparsefield.confidence_intervals` or `sparsefield.plot_network`.

    Most tables need none of the parameters, or the first five. ``l1="auto"`` takes ten and more fits: in pipelines and
    loops, fix it once by ``MarkovField(l1=field.l1_)``.

    Parameters
    ----------
    kinds : "auto" or {column: kind}, default="auto"
        Kinds of columns, by name or position: "nominal", "ordinal", "numeric", or a list of all labels in ascending
        order, which is an ordinal column with that order. Kinds that are not given are found out: columns of numbers
        with fractions, or with more than ten different whole numbers, and dates are numeric; ordered categoricals,
        and columns of three to ten different whole numbers, are ordinal; all others are nominal. A numeric column
        whose values are very skewed enters features with normal quantiles of its ranks; "normal-scores" is numeric
        and always does this, "linear-scores" is numeric and never does it.
    missing : {"auto", "em", "mean-field", "bp", "exact", "gibbs"}, `EM` or an inference method, default="auto"
        How missing cells are treated in learning. "em" averages over completions of incomplete rows (Monte Carlo EM),
        which estimates the field consistently if cells are missing at random. An inference method puts its beliefs in
        the place of missing cells, as in the paper; weights are too large then where much is missing. "auto" is "em"
        for ``objective="pl"`` and "mean-field" for "cd"; "ml" sums missing cells out, exactly, with "em" only where it
        cannot. ``EM(max_error=0.05)`` is more exact.
    observed : columns, by name or position, default=None
        Columns that are conditioned on and never predicted. ``fit(X, observed=...)`` takes precedence.
    l1 : float or "auto", default="auto"
        Strength of the penalty ``l1 |theta|``, which leaves features out, beside a loss that is a *sum* over rows: a
        larger table needs a larger l1 for the same effect. "auto" selects it on a regularization path.
    selection : {"heldout", "ebic"}, `HeldOut` or `EBIC`, default="heldout"
        Criterion of ``l1="auto"``: "heldout" takes the best score in a cross-validation over rows; "ebic" takes the
        best extended Bayesian information criterion, which selects fewer features: for networks, not predictions.
    inference : {"auto", "mean-field", "bp", "exact", "gibbs"} or an inference method, default="auto"
        How missing cells are inferred in predictions: "auto" is exact where missing cells are few or depend narrowly on
        each other, elsewhere belief propagation where Gibbs sampling confirms it, else Gibbs sampling; mean field;
        belief propagation, exact where missing cells form a tree; variable elimination, refused where the treewidth is
        too large; Gibbs sampling. A method with options is an object, such as ``Gibbs(sweeps=1000)``.
    refit : bool or "ml", default=False
        Estimate the selected features again without L1, which removes its shrinkage; with "ebic", features whose
        weight the data do not support are dropped, unless the table is sparse. "ml" does so by the exact likelihood,
        where components are narrow. ``objective_`` and ``kkt_violation_`` describe the field before the refit;
        ``converged_`` is False also where a refit by "ml" did not converge.
    l2 : float, default=1.0
        Strength of the penalty ``l2 |theta|^2 / 2``, which shrinks large weights.
    penalty : {"l1", "group"}, default="l1"
        "group" selects edges instead of single features: all features of two columns have weights, or none. An edge has
        the penalty l1 x the square root of its degrees of freedom x the norm of its weights.
    features : `Features` or None, default=None
        Which features are candidates: ``Features(max_order=3)`` has conjunctions of three columns (Eq. 14),
        ``Features(coding="reference")`` the paper's coding of nominal columns, ``Features(penalize_biases=True)`` its
        penalty of biases. None is ``Features()``.
    latent : {name: number of states} or None, default=None
        Latent variables, such as ``{"topic": 8}``, on which the columns depend. `predict_proba` returns their
        probabilities. ``random_state`` determines the start, and with it the local optimum. The table is stored densely
        then, and features have two columns.
    induction : {"cfi", "cfi-paper", "grafting", "ideal-parent", "full"} or an induction rule, default="cfi"
        Rule that adds features: contrastive feature induction, `CFI`; Algorithm 1 as the paper prints it, `PaperCFI`;
        exact gradients of all candidates, `Grafting`; the cosine of signal and error, `IdealParent`; every candidate at
        once, `FullL1`. A rule with options is an object, such as ``CFI(threshold=0.2, batch_size="auto")``;
        ``FixedGraph(edges=[("a", "b")])`` has a fixed structure.
    objective : {"pl", "cd", "ml", "bethe"}, default="pl"
        Pseudo-likelihood; mean-field contrastive divergence as in the paper; or the exact log-likelihood, which sums
        missing cells out. "ml" selects features by exact gradients where the joint distribution of all targets is
        tractable, and by pseudo-likelihood otherwise. Connected components that are too wide keep the weights of the
        pseudo-likelihood, with a warning, and ``field_.record.likelihood`` names their columns. "bethe" approximates
        the log-likelihood of fields of any width by belief propagation (the Bethe likelihood), for small tables.
    solver : `Solver` or None, default=None
        Tolerances, iteration limit, certificate, checkpoints, callbacks and the cluster of a fit; None is ``Solver()``.
    n_jobs : int or None, default=None
        Number of threads; None uses all cores. The result is the same, bit for bit, for any number.
    random_state : int, numpy.random.RandomState or None, default=None
        Seed of `sample`, of the cells that ``l1="auto"`` holds out, and of the start of latent variables. With None,
        `sample` draws other rows each time, and fits use a fixed seed.

    Notes
    -----
    None, NaN and null are missing values. A value at prediction time that training never saw is treated as missing,
    with a warning, and is left as it is in the output; a number beyond those of training counts as one of the
    outermost level. A constant column is allowed and has no features. A column without any value is refused, and so is
    a nominal or ordinal one with nearly as many values as rows. A missing value of an observed column is replaced by
    the column's mean, with a warning if there are many.

    Each step of a fit is logged at the level INFO to the logger "sparsefield".

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rain = rng.integers(0, 2, 500)
    >>> wet = np.where(rng.random(500) < 0.9, rain, 1 - rain)
    >>> X = np.column_stack([rain, wet]).astype(float)
    >>> X[0, 1] = np.nan
    >>> field = MarkovField(l1=2.0).fit(X)
    >>> bool(field.transform(X)[0, 1] == rain[0])
    True
    """

    latent: Mapping[str, int] | None = None
    observed: Sequence[str | int] | str | None = None

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        observed: Sequence[str | int] | str | None = None,
        sample_weight: Any = None,
        states: Mapping[str, Sequence[Label]] | None = None,
        columns: Sequence[str] | None = None,
        groups: Any = None,
    ) -> MarkovField:
        """Learn the field.

        Parameters
        ----------
        X : frame, 2-D array or sparse 0/1 matrix; with ``Solver(engine=...)``, also a Dask array or frame
            Rows by columns; missing values are None, NaN or null. `read_sparse` reads Parquet files of 0/1 columns as
            a sparse matrix. The rows of a Dask array or frame stay on the workers.
        y : ignored
            Present for scikit-learn's pipelines, which pass it.
        observed : columns, by name or position, that are conditioned on and never predicted
            None takes those of the constructor.
        sample_weight : (rows,) weights
        states : {column: its states}
            States that exist although ``X`` may have no example of them.
        columns : names of the columns of an array or a sparse matrix, such as the items of baskets
            x0, x1, ... by default. Later arrays and matrices have the same columns in the same order.
        groups : (rows,) values, or the name of a column of ``X`` that is not learned
            Rows with the same value belong together, such as the visits of one patient. ``l1="auto"`` holds them out
            together, since one of them would tell too much about the others.
        """
        check_parameters(self)
        roles: dict[str, Any] = {"observed": observed, "sample_weight": sample_weight, "states": states}
        with self._open_training_data(X, y, **roles, columns=columns, groups=groups) as data:
            train(self, data)
            if self.latent:
                dataset: Any = data.dataset
                self.field_ = with_shares(self.field_, dataset.tables[0], infer_missing(self, dataset).values[0])
        return self

    @contextmanager
    def _open_training_data(
        self,
        X: Any,
        y: Any = None,
        *,
        observed: Any = None,
        sample_weight: Any = None,
        states: Any = None,
        columns: Any = None,
        groups: Any = None,
    ) -> Iterator[TrainingData]:
        observed = self.observed if observed is None else observed
        if is_dask_collection(X):
            if columns is not None:
                raise DataError("columns= has names for one array or sparse matrix; X comes in parts.")
            if groups is not None:
                raise DataError(
                    "groups= (--group) needs all rows in the memory of this process, as one table: X comes in parts. "
                    "Leave groups out, or pass X as one table."
                )
            with self._open_partitions(X, y, observed, sample_weight, states) as data:
                yield data
            return
        X, groups = split_groups(X, groups)
        source = _name_columns(self._read(X, reset=True), columns)
        _check_y(y, source.n_rows)
        weight, groups = check_weights(sample_weight, source.n_rows), read_groups(self, groups, source.n_rows)
        roles = {"observed": column_names(source, observed), "kinds": self._kinds(source), "states": states}
        symmetric = self.resolve("features").coding == "symmetric"
        schema = learn_schema(source, **roles, symmetric=symmetric, sample_weight=weight)
        warn_incomplete_covariates(source, roles["observed"])
        if self.latent:
            seed = as_seed(self.random_state) or 0
            latent = {name: int(count) for name, count in self.latent.items()}
            yield replace(latent_training_data(source, schema, weight, latent, seed), groups=groups)
            return
        yield TrainingData(self._compile_rows(source, schema, weight), source.kind, groups=groups)

    @contextmanager
    def _open_partitions(
        self, X: Any, y: Any, observed: Any, sample_weight: Any, states: Any
    ) -> Iterator[TrainingData]:
        """Encode the rows of a Dask array or frame on its workers, and yield them with their engine."""
        from sparsefield.compute.dask_engine import DaskEngine

        cluster = self.resolve("solver").engine
        if cluster is None:
            raise DataError(f"X is a {type(X).__name__} of Dask: pass solver=Solver(engine=client), or X.compute().")
        if self.latent:
            raise DataError("latent= needs all rows in memory, as one table; X comes in parts.")
        if self.l1 == "auto" and isinstance(self.resolve("selection"), HeldOut):
            raise held_out_refusal()
        with DaskEngine(cluster, self.n_jobs) as engine:
            parts = open_partitions(engine, X)
            source = parts.source
            _check_y(y, source.n_rows)
            if is_dask_collection(sample_weight):
                (sample_weight,) = engine.gather([engine.client.compute(sample_weight)])
            self.n_features_in_ = len(source.names)
            if source.kind != "array":
                self.feature_names_in_ = np.array(source.names, dtype=object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            dataset = learn_from_partitions(
                engine,
                parts,
                observed=column_names(source, observed),
                kinds=self._kinds(source),
                states=states,
                symmetric=self.resolve("features").coding == "symmetric",
                weight=check_weights(sample_weight, source.n_rows),
            )
            del parts  # otherwise the rows as they came stay in memory beside the blocks made from them
            yield TrainingData(dataset, source.kind, engine)

    def _contradictions(self, parts: Mapping[str, Any]) -> Iterator[str]:
        if not self.latent:
            return
        if self.refit:
            yield (
                f"refit={self.refit!r} is not possible with latent variables: without L1 their weights are not "
                "determined."
            )
        if (objective := parts["objective"].name) in ("ml", "bethe"):
            yield f"objective={objective!r} has no latent variables: use objective='pl'."

    @classmethod
    def from_field(cls, field: Field, *, kind: str | None = None, **params: Any) -> MarkovField:
        """Return an estimator for a field over one table that was given, not learned; ``params`` are its parameters.

        It counts as learned from a ``kind`` of table, "array" or the name of a frame library, which `sample` returns.
        None is "array" if the columns are named x0, x1, ..., as those of arrays are, and else "polars".
        """
        if len(field.layout.schemas) != 1:
            raise DataError(f"A {cls.__name__} is a field over one table; this one is over linked tables.")
        try:
            check_field(field)
        except ValueError as error:
            raise DataError(f"The field is invalid: {error}.") from error
        if kind is None:
            names = field.schema.input_names
            unnamed = names == tuple(f"x{k}" for k in range(len(names)))
            kind = "array" if unnamed else "polars"
        estimator = cls(**params)
        estimator._restore(replace(field, record=FitRecord(version=sparsefield.__version__)), {"kind": kind})
        return estimator

    def transform(self, X: TableT, *, fill: Fill = "auto") -> TableT:
        """Return ``X`` with each missing cell filled, as the same kind of table.

        ``fill`` is the "mean", the "median" or the "mode" of ordinal and numeric cells; "auto" takes the mean of
        numbers and the most probable state of all others. A nominal cell gets its most probable state in any case.
        Numbers of a column of whole numbers are rounded.
        """
        check_fill(fill)
        if sp.issparse(X):
            return fill_cells(X, self._read(X), {})  # which has no missing cells
        source, table = self._compile(X)
        (missing,) = infer_missing(self, Dataset.single(table)).values
        return fill_cells(X, source, filled_cells(table, missing, fill))

    def infer(self, X: Any) -> Posterior:
        """Return the distribution of every target cell given the observed cells of its row."""
        source, table = self._compile(X)
        (marginals,) = infer_missing(self, Dataset.single(table)).values
        return Posterior(source, table, marginals, source.kind)

    def predict_proba(self, X: Any, *, column: str | int | None = None) -> Any:
        """Return {column: (rows, states)}: the posterior of a missing cell; for an observed value, the probabilities of
        its states given all other observed values.

        Numeric columns are left out: see `infer`. A latent variable is a column of missing cells. The columns of each
        array follow ``states_[column]``. With ``column``, the array of that column alone is returned, which
        scikit-learn's metrics and calibration curves take.
        """
        source, table = self._compile(X)
        (conditionals,) = infer_cells(self, Dataset.single(table)).conditionals
        answers = probabilities(table.schema, conditionals)
        if column is None:
            return answers
        (name,) = column_names(source, [column])
        if name not in answers:
            raise DataError(f"Column {name!r} has no probabilities of states; columns that have: {', '.join(answers)}.")
        return answers[name]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the weighted mean over rows of the pseudo-log-likelihood (natural log) of the observed values.

        Each is predicted from all other observed values of its row; missing ones are summed or averaged out. A number
        with more values than levels has a density per standard deviation of its column instead of a probability.
        """
        source = self._read(X)
        weight = check_weights(sample_weight, source.n_rows)
        dense = len(self.field_.conjunctions) or self.field_.layout.has_latent
        sparse = None if dense else compile_sparse(source, self.field_.schema, weight)
        table = sparse or compile_table(source, self.field_.schema, sample_weight=weight)
        total = pseudo_log_likelihood(self, Dataset.single(table))
        return total / (table.n_rows if weight is None else weight.sum())

    def log_likelihood(self, X: Any, *, ais: AIS | None = None) -> np.ndarray:
        """Return the log-likelihood (natural log) of each row, (rows,): of all its observed targets together.

        Missing cells are summed out, and covariates are conditioned on. Unlike `score`, which predicts each cell from
        all others, this is the logarithm of one joint probability. It is exact where connected components of columns
        are narrow; elsewhere partition functions are estimated by annealed importance sampling, with a warning that
        has the standard error; ``ais=AIS(chains=256, steps=5000)`` lowers it. A number with more values than levels
        has a density per standard deviation.

        Examples
        --------
        >>> import numpy as np
        >>> from sparsefield import MarkovField
        >>> X = np.array([[0, 0], [0, 0], [1, 1], [1, 0]] * 50)
        >>> np.exp(MarkovField(l1=0.1).fit(X).log_likelihood(X[:4])).round(1).tolist()
        [0.5, 0.5, 0.2, 0.3]
        """
        dataset = self._compile_densely(X)
        return joint_log_likelihood(self, self.field_, dataset, ais)

    def complete(self, X: TableT, *, max_cells: int = MAX_CELLS) -> TableT:
        """Return ``X`` with the missing cells of each row in their most probable *joint* state (MAP inference).

        `transform` takes the most probable state of each missing cell separately; jointly, these states may be less
        probable, or even contradict each other. Rows for which variable elimination needs no table of more than
        ``max_cells`` get an exact completion. For others, max-product belief propagation, then simulated annealing with
        20 restarts, searches for it, with a warning.
        """
        if sp.issparse(X):
            return fill_cells(X, self._read(X), {})  # which has no missing cells
        source, table = self._compile(X)
        dataset = Dataset.single(table)
        with threads_for(self, dataset) as engine:
            codes = find_completion(self.field_, dataset, engine, max_cells).codes[0]
        return fill_cells(X, source, drawn_cells(table, codes))

    def probability(
        self,
        event: Mapping[Any, Any],
        given: Mapping[Any, Any] | None = None,
        *,
        max_cells: int = MAX_CELLS,
        gibbs: Gibbs | None = None,
    ) -> Probability:
        """Return P(event | given) for a row of which nothing else is known.

        Parameters
        ----------
        event : {column: a state, a list of states, or a range (low, high)}
            The event is that all columns have one of their states, or a value of their range. A range is for ordinal
            and numeric columns, contains both ends, and has None for an end that is open: ``(60, None)``. In a column
            of dates the ends are dates or their text; where the column has times, a date is its midnight, and without
            a time zone that of the column holds.
        given : {column: state}
            Evidence. It must have every observed column, with None where its value is unknown. Dates may be text.
        max_cells : int
            Largest table of variable elimination; beyond it the probability is estimated by Gibbs sampling.
        gibbs : Gibbs, optional
            Chains for that; ``Gibbs(chains=8, burn_in=500, sweeps=5000)`` by default.

        Returns
        -------
        Probability
            With value, method ("exact" or "gibbs") and error, the standard error.

        Examples
        --------
        >>> from sparsefield import MarkovField
        >>> rng = np.random.default_rng(0)
        >>> rain = rng.integers(0, 2, 500)
        >>> wet = np.where(rng.random(500) < 0.9, rain, 1 - rain)
        >>> field = MarkovField(l1=0.1).fit(np.column_stack([rain, wet]))
        >>> answer = field.probability({"x0": 1}, given={"x1": 1})
        >>> answer.method, round(answer.value, 1)
        ('exact', 0.9)
        """
        check_is_fitted(self)
        raise_problems(problems_of({"max_cells": max_cells}))
        if gibbs is not None and not isinstance(gibbs, Gibbs):
            raise ValueError(f"gibbs must be None or a Gibbs such as Gibbs(sweeps=10_000), got {gibbs!r}.")
        return event_probability(self.field_, event, given, max_cells, gibbs or QUERY_CHAINS)

    def marginals(self, given: Mapping[Any, Any] | None = None) -> dict[str, np.ndarray]:
        """Return {column: probabilities of its states, as in ``states_``} for a row of which only ``given`` is known.

        They are inferred by ``inference``; ``given`` is that of `probability`.
        """
        check_is_fitted(self)
        dataset, schema = row_of(self.field_.schema, given), self.field_.schema
        (beliefs,) = infer_missing(self, dataset).values
        number = {variable.name: k for k, variable in enumerate(schema.targets)}
        return {name: state_probabilities(schema, number[name], beliefs)[0] for name in schema.order if name in number}

    def sample(
        self,
        n: int = 1,
        *,
        given: Any = None,
        burn_in: int = BURN_IN,
        chains: int | None = None,
        thin: int = THIN,
        random_state: int | np.random.RandomState | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Frame:
        """Draw rows by Gibbs sampling, and return them as a frame.

        Columns of dates, times and categories have the types that they had in the table of `fit`; categories that are
        intervals are text.

        Parameters
        ----------
        n : number of rows; with ``given``, for each of its rows
        given : table whose missing cells are drawn; necessary if the field has observed columns
        burn_in : number of sweeps of each chain before its first row
        chains : number of chains that share the ``n`` rows, which come chain after chain; None gives every row its own
        thin : number of sweeps between two rows of a chain
        random_state : seed, or a RandomState to draw one from; None takes the estimator's
        progress : function that is called from time to time with the number of sweeps done and their total number
        """
        check_is_fitted(self)
        counts = {"n": n, "chains": n if chains is None else chains, "burn_in": burn_in, "thin": thin}
        raise_problems(problems_of(counts, dict.fromkeys(counts, whole(1, MAX_INTEGER))))
        seed = as_seed(self.random_state if random_state is None else random_state)
        source = None if given is None else self._read(given)
        return draw_rows(self, source, **counts, seed=seed, progress=progress)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns that `transform` returns: those of the input."""
        check_is_fitted(self)
        return np.array(self.field_.schema.input_names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _compile(self, X: Any) -> tuple[Source, Table]:
        source = self._read(X)
        return source, compile_table(source, self.field_.schema)

    def _compile_densely(self, X: Any) -> Dataset:
        return Dataset.single(self._compile(X)[1])

    def _compile_fitted(self, X: Any, y: Any, sample_weight: Any) -> Dataset:
        source = read_by_name(self, X)
        return self._compile_rows(source, self.field_.schema, check_weights(sample_weight, source.n_rows))

    def _compile_rows(self, source: Source, schema: Schema, weight: np.ndarray | None) -> Dataset:
        """Compile rows to learn from, sparsely where that is possible and faster."""
        pseudo = self.resolve("objective").is_pseudo_likelihood and self.refit != "ml"
        sparse = pseudo and self.resolve("induction").supports_sparse and self.resolve("features").max_order == 2
        # Only states other than a reference state are stored in a sparse table.
        sparse = sparse and not any(variable.symmetric for variable in schema.described)
        table = compile_sparse(source, schema, weight) if sparse else None
        return Dataset.single(table or compile_table(source, schema, sample_weight=weight))


def _name_columns(source: Source, columns: Any) -> Source:
    """Return an array or a sparse matrix with the given names of its columns; None leaves the source as it is."""
    if columns is None:
        return source
    if source.kind not in ("array", "sparse"):
        raise DataError("columns= has names for an array or a sparse matrix; X is a frame, whose columns have names.")
    if not isinstance(columns, Iterable) or isinstance(columns, (str, bytes)):
        raise DataError(f"columns is {columns!r}; it must be a list of names.")
    names = tuple(str(name) for name in columns)
    if len(names) != len(source.names):
        raise DataError(f"columns= has {len(names):,} names, but X has {len(source.names):,} columns.")
    check_names(names, "columns=")
    return replace(source, names=names)


def _check_y(y: Any, n_rows: int) -> None:
    """Refuse names of columns as ``y``, where observed columns were meant."""
    if y is not None and np.asarray(y, dtype=object).shape[:1] != (n_rows,):
        raise DataError("fit takes the observed columns by keyword: fit(X, observed=[...]).")
