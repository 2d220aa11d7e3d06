"""A field over the columns of one table, with gaps."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

import sparsefield
from sparsefield import config
from sparsefield.data import (
    DenseDataset,
    Label,
    LocalDataset,
    Schema,
    Source,
    Table,
    compile_sparse,
    compile_table,
    fill,
    learn_schema,
)
from sparsefield.errors import DataError, UnseenStateWarning
from sparsefield.estimators.answer_tables import drawn_cells, drawn_frame, filled_cells, log_belief, probabilities
from sparsefield.estimators.distributed_fit import PlacedEstimator
from sparsefield.estimators.latent_start import check_latent, start_latent, with_shares
from sparsefield.estimators.queries import (
    Completion,
    Probability,
    event_probability,
    marginal_probabilities,
    warn_of_search,
)
from sparsefield.estimators.validation import as_seed, check_weights, check_y, column_names
from sparsefield.inference import Gibbs, InferenceMethod, draw_often
from sparsefield.inference.elimination import MAX_CELLS
from sparsefield.inference.map_inference import complete
from sparsefield.io import read_uai
from sparsefield.io.model_file import check_field
from sparsefield.io.row_blocks import is_matrix_file, is_stream, read_matrix
from sparsefield.model import Field, FitRecord

__all__ = ["MarkovField"]

QUERY_CHAINS = Gibbs(chains=8, burn_in=500, sweeps=5000)
"""For questions that exact inference cannot answer: one row, so there is time for long chains."""


class MarkovField(TransformerMixin, PlacedEstimator):
    """Learn a sparse Markov network (a conditional random field) from a table of categorical columns with gaps.

    Parameters
    ----------
    induction : {"cfi", "cfi-paper", "grafting", "ideal-parent", "full", "graph"}
        Who joins the field: contrastive feature induction, exact at thresholds of 0, or as the paper prints it, which
        differs where unary weights are penalized; exhaustive gradients; the cosine of signal and error;
        every candidate at once (Full-L1); a given graph, see ``graph``.
    objective : {"pl", "cd"}
        Pseudo-likelihood, or mean-field contrastive divergence as in the paper.
    l1, l2 : float; l1 may be "auto"
        Penalties ``l1 |theta| + l2 |theta|^2 / 2`` beside a loss that is a *sum* over rows: the larger the table, the
        larger an l1 that means the same.
    threshold : float or (float, float)
        Errors and signals below it are ignored by ``"cfi"`` and ``"ideal-parent"``; a pair is (errors, signals). On a
        sparse table small errors count as errors at rest, and all signals count.
    batch_size : int or "auto"
        How many features join at a time. The paper has 50; "auto" is four times the number of states, or as many as
        are there already, and at least 50.
    certify : bool
        Go on until an exact pass over all candidates finds no optimality violation above ``kkt_tol`` x l1. With
        False the fit ends where the induction rule does, as in the paper; ``kkt_violation_`` is reported either way.
    max_iter, tol : cap on optimizer steps; the relative change of objective and L1 norm that counts as none
    kkt_tol : float
        Largest violation that a certificate allows, as a fraction of l1.
    inference : {"mean-field", "bp", "exact", "gibbs"} or an inference method
        How gaps are filled, in fitting and in answers: mean field; belief propagation, exact where gaps make up a tree;
        elimination, refused where gaps depend on each other too widely; means over Gibbs chains. A method with options
        is an object, such as ``MeanField(tolerance=1e-4, max_sweeps=50, damping=0.2)`` or `BeliefPropagation`,
        `ExactInference`, `Gibbs`.
    penalize_unary : bool
        Whether the penalties hold for unary weights too, as in the paper. False predicts better and is faster on all
        data that we measured; a state that training never saw is penalized either way.
    steps_per_batch : int, "auto" or "converge"
        Optimizer steps after each batch: a number, or until convergence, as in the original Grafting. "auto" is 1, as
        in the paper; but on a sparse table, where scoring takes longer than a step, as many as bring a certified fit
        near its optimum.
    stages : {1, 2}
        1 induces from the start; 2 lets unary features converge first.
    max_order : int
        Most columns of a feature. With 3 and more, conjunctions of that many states join the field too (Eq. 14); each
        has a feature of one column less, with a weight, to grow from. Tables are dense then.
    lift : {"active", "all"}
        "all" lets triples grow from every pair of states: for dependencies, such as an exclusive or, of which no pair
        shows anything. It looks at all triples, so it is for tables of at most some hundred states.
    selection : {"heldout", "ebic"}
        How ``l1="auto"`` chooses among fields along a path of falling l1: "heldout" takes the sparsest whose score on
        held-out cells is within one standard error of the best; "ebic" takes the best extended Bayesian information
        criterion (gamma 0.5), which wants fewer features: for networks rather than for predictions.
    refit : bool
        Estimate the chosen features anew without L1, which removes its shrinkage; with "ebic", features whose weight
        is not supported by the data go, unless the table is a sparse one. The certificate speaks of the field before
        that.
    order_penalty : float
        Each column of a feature beyond two multiplies its l1 by so much: of triples there are so many that chance alone
        makes some look useful.
    graph : list of pairs of column names, for ``induction="graph"``
    hidden : {name: number of states} or None
        Variables that no table ever has a cell of, such as ``{"topic": 8}``: columns depend on each other because they
        depend on these. `predict_proba` tells what is believed of them. ``random_state`` decides where learning begins,
        and so which of several optima it ends in. Tables are dense then, and ``max_order`` is 2.
    numeric : "auto" or list of observed columns that are numbers rather than categories
        "auto": a column with fractions, or with more than ten different whole numbers.
    checkpoint : path of a folder, or None
        Where the state of a fit is saved every few iterations. A fit with the same data and options that finds it goes
        on from there and ends with the same bits as one that was never interrupted; it is removed at the end.
    engine : None, `distributed.Client` or address
        Where a fit runs: None is this machine; a client, or the address of a scheduler such as ``"dask://host:8786"``,
        is a Dask cluster (extra ``cluster``). The result is the same, bit for bit. Questions are answered here.
    n_jobs : int or None
        Threads; None takes all cores. The result is the same, bit for bit, for any number.
    random_state : int, numpy.random.RandomState or None
        Seed of `sample`, of what ``l1="auto"`` holds out, and of the start of latent variables. None draws other rows
        each time in `sample`; fits always take the same seed then. With a given l1 and no latent variables, fitting
        draws nothing.
    verbose : int
        1 prints a line per iteration.

    Attributes
    ----------
    features_, edges_, history_ : frames
    states_ : dict of column -> sorted list of its states
    l1_, path_ : the l1 of the fit, and what was tried where it was chosen
    kkt_violation_, objective_, n_iter_, converged_

    Notes
    -----
    A gap (None, NaN, null) is a hidden cell. A value at prediction time that training never saw is treated as a gap,
    with a warning, and left as it is in the output. A constant column is allowed and carries no features. A column
    without any value, or with nearly as many values as rows, is refused. A gap in an observed column carries no
    signal.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rain = rng.integers(0, 2, 500)
    >>> wet = np.where(rng.random(500) < 0.9, rain, 1 - rain)
    >>> X = np.column_stack([rain, wet]).astype(float)
    >>> X[0, 1] = np.nan
    >>> field = MarkovField().fit(X)
    >>> bool(field.transform(X)[0, 1] == rain[0])
    True
    """

    def __init__(
        self,
        *,
        latent: Mapping[str, int] | None = None,
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
        super().__init__(
            induction=induction, objective=objective, l1=l1, l2=l2, threshold=threshold, batch_size=batch_size,
            certify=certify, max_iter=max_iter, tol=tol, kkt_tol=kkt_tol, inference=inference,
            penalize_unary=penalize_unary, steps_per_batch=steps_per_batch, stages=stages, max_order=max_order,
            lift=lift, order_penalty=order_penalty, selection=selection, refit=refit, graph=graph, numeric=numeric,
            checkpoint=checkpoint, engine=engine, n_jobs=n_jobs, random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.latent = latent

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        observed: Sequence[str | int] | None = None,
        sample_weight: Any = None,
        states: Mapping[str, Sequence[Label]] | None = None,
    ) -> MarkovField:
        """Learn the field.

        Parameters
        ----------
        X : frame, 2-D array or sparse 0/1 matrix; or, for data larger than memory, a stream of such
            Rows by columns; gaps are None, NaN or null. A stream is an iterator of blocks of rows, all of one kind
            and with the same columns (or a function that returns an iterator, or something to iterate over that is
            no table); or the path of a Parquet file, of a folder of such, or a list of paths; or that of a folder
            which `sparsefield.io.save_rows` wrote. Its rows go through temporary files, whose place TMPDIR
            decides, and have no gaps. The path of an ``.npz`` of scipy's is read whole. With ``engine``, a Dask array
            or frame, or Parquet files that its workers read: rows stay there, and may have gaps.
        y : ignored
            It stands here because scikit-learn's pipelines pass it.
        observed : columns, by name or position, that are conditioned on and never predicted
        sample_weight : (rows,) weights; for a stream, of the rows of all blocks
        states : {column: its states}
            States that are known to exist, whether or not ``X`` has an example of them.
        """
        self._check_parameters()
        X = read_matrix(X) if is_matrix_file(X) else X
        placed = self._is_placed(X)
        if placed or is_stream(X):
            if self.latent:
                raise DataError("latent= needs all rows in memory, as one table; X comes in parts.")
            fit = self._fit_placed if placed else self._fit_stream
            return fit(X, y, observed, sample_weight, states)
        source = self._read(X, reset=True)
        check_y(y, source.n_rows)
        weight = check_weights(sample_weight, source.n_rows)
        schema = learn_schema(
            source,
            observed=column_names(source, observed),
            numeric=self._numeric(source),
            states=states,
            sample_weight=weight,
        )
        if self.latent:
            self._fit_latent(source, schema, weight)
            return self
        table = compile_sparse(source, schema, weight) if self._takes_sparse() else None
        table = table or compile_table(source, schema, sample_weight=weight)
        self._learn(DenseDataset.single(table), source.kind)
        return self

    def _fit_latent(self, source: Source, schema: Schema, weight: np.ndarray | None) -> None:
        """Learn a field with latent variables, whose shares are told once it is known."""
        if source.kind == "sparse":
            raise DataError("latent= is for tables that may have gaps; X is a sparse matrix: pass X.toarray().")
        given = compile_table(source, schema, sample_weight=weight)
        schema, start = start_latent(given, check_latent(self.latent), as_seed(self.random_state) or 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnseenStateWarning)  # of the same cells as above
            table = compile_table(source, schema, sample_weight=weight)
        sample, choice = DenseDataset.single(table), None
        if self.l1 == "auto":
            # A path begins where no column depends on another, and there latent states would all become alike.
            alone = DenseDataset.single(given)
            with self._fit_engine(alone) as engine:
                choice = self._choose(alone, engine)
        self._learn(sample, source.kind, start, choice)
        self.field_ = with_shares(self.field_, table, self._ask(sample).marginals[0])

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not check_latent(self.latent):
            return
        if self.max_order > 2:
            raise ValueError(f"latent variables have features of two columns alone: max_order is {self.max_order}.")
        if self.refit:
            raise ValueError("refit=True does not go with latent variables: nothing would hold their weights.")

    @classmethod
    def from_field(cls, field: Field, *, kind: str | None = None, **params: Any) -> MarkovField:
        """An estimator that answers by a field which was not learned here, but given.

        Parameters
        ----------
        field : Field
            Over one table.
        kind : "array" or the name of a frame library, such as "pandas"
            The kind of table that the field is taken to come from. `sample` gives that kind back; polars for "array".
            None is "array" where columns are called x0, x1, ..., as those of arrays are, and else "polars".
        **params
            Of the estimator.
        """
        if len(field.layout.schemas) != 1:
            raise DataError(f"A {cls.__name__} is a field over one table; this one is over linked tables.")
        try:
            check_field(field)
        except ValueError as error:
            raise DataError(f"The field makes no sense: {error}.") from error
        if kind is None:
            names = field.schema.input_names
            unnamed = names == tuple(f"x{k}" for k in range(len(names)))
            kind = "array" if unnamed else "polars"
        estimator = cls(**params)
        estimator._restore(replace(field, record=FitRecord(version=sparsefield.__version__)), {"kind": kind})
        return estimator

    @classmethod
    def from_uai(
        cls,
        path: str | os.PathLike[str],
        *,
        names: Mapping[str, list[Label]] | str | os.PathLike[str] | None = None,
        **params: Any,
    ) -> MarkovField:
        """An estimator that answers by the Markov or Bayesian network of a UAI file.

        Columns are x0, x1, ... and states 0, 1, ..., unless ``names`` has them, as `to_uai` returned or wrote them. A
        zero in a table counts as exp(-50) times its smallest other entry; a warning tells how many there are.
        """
        return cls.from_field(read_uai(path, names=names), **params)

    def transform(self, X: Any) -> Any:
        """``X`` with its gaps filled by the most probable state; the same kind of table comes back."""
        if sp.issparse(X):
            self._read(X)
            return X.copy()  # which has no gaps
        source, table = self._compile(X)
        (missing,) = self._ask(DenseDataset.single(table)).marginals
        return fill(X, source, filled_cells(table, missing))

    def predict_proba(self, X: Any) -> dict[str, np.ndarray]:
        """{column: (rows, states)}: for a gap its belief; for a seen cell, its probability given everything else.

        A latent variable is a column of gaps.

        The columns of each array follow ``states_[column]``.
        """
        _, table = self._compile(X)
        (conditionals,) = self._ask(DenseDataset.single(table)).conditionals
        return probabilities(table.schema, conditionals)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean over rows of the pseudo-log-likelihood of the seen cells (natural log); a stream goes block by block."""
        X = read_matrix(X) if is_matrix_file(X) else X
        if is_stream(X):
            return self._score_stream(X)
        source = self._read(X)
        dense = len(self.field_.conjunctions) or self.field_.layout.has_latent
        sparse = None if dense else compile_sparse(source, self.field_.schema)
        table = sparse or compile_table(source, self.field_.schema)
        return self._log_likelihood(DenseDataset.single(table)) / table.n_rows

    def conditional_log_likelihood(self, X_true: Any, X_with_gaps: Any) -> float:
        """Mean log-belief in the truth, over the cells that are gaps in ``X_with_gaps`` and known in ``X_true``."""
        _, table = self._compile(X_with_gaps)
        _, truth = self._compile(X_true)
        if truth.n_rows != table.n_rows:
            raise DataError(f"X_true has {truth.n_rows} rows, X_with_gaps {table.n_rows}.")
        (missing,) = self._ask(DenseDataset.single(table)).marginals
        total, count = log_belief(table, truth, missing)
        if count == 0:
            raise DataError("No cell is a gap in X_with_gaps and known in X_true: there is nothing to score.")
        return total / count

    def sample(
        self,
        n: int = 1,
        *,
        given: Any = None,
        sweeps: int = 500,
        chains: int | None = None,
        thin: int = 100,
        random_state: int | np.random.RandomState | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Any:
        """Draw rows by Gibbs sampling.

        Parameters
        ----------
        n : number of rows; with ``given``, of rows for each of its rows
        given : a table with gaps to draw; needed when the field has observed columns
        sweeps : sweeps of each chain before its first row is taken
        chains : how many chains share the rows (of each row of ``given``), which then stand chain after chain; None
            gives every row a chain of its own
        thin : sweeps between two rows of one chain
        progress : hears, now and then, how many sweeps are done and how many there are
        random_state : seed, or a RandomState to draw one from; the estimator's own when None
        """
        check_is_fitted(self)
        for name, value, least in (("n", n, 1), ("chains", chains, 1), ("sweeps", sweeps, 1), ("thin", thin, 1)):
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}.")
        chains = n if chains is None else min(chains, n)
        schema = self.field_.schema
        seed = as_seed(self.random_state if random_state is None else random_state)
        if given is None:
            if schema.observed:
                names = ", ".join(v.name for v in schema.observed[:5])
                raise DataError(f"The field is conditioned on observed columns ({names}): pass them as given=.")
            table = _empty_table(self.field_, chains)
        else:
            _, table = self._compile(given, repeat=chains)
        sample = DenseDataset.single(table)
        length = -(-n // chains)
        with self._engine(sample) as engine:
            (codes,) = draw_often(
                self.field_, sample, count=length, sweeps=sweeps, thin=thin, seed=seed, engine=engine, progress=progress
            )
        # (draws, targets, rows of given x chains) to (targets, rows of given x n), each chain's rows together.
        shape = codes.shape[1], -1, chains * length
        codes = np.moveaxis(codes, 0, 2).reshape(shape)[:, :, _dealt(n, chains, length)]
        return drawn_frame(schema, codes.reshape(len(codes), -1), self.kind_)

    def complete(self, X: Any, *, max_cells: int = MAX_CELLS, details: bool = False) -> Any:
        """``X`` with the gaps of each row in their most probable *joint* state; the same kind of table comes back.

        `transform` takes the most probable state of each gap by itself, which together may be less probable, or even
        contradict each other.

        Parameters
        ----------
        X : table with gaps
        max_cells : int
            Rows whose gaps need no larger table are eliminated, and their completion is exact. Elsewhere max-product
            belief propagation and twenty restarts, each improved one gap at a time, search for it, with a warning.
        details : bool
            True returns a `Completion`: the table, whether each row's completion is exact, and its log-probability.
        """
        if sp.issparse(X):
            self._read(X)
            table, n_rows = X.copy(), X.shape[0]  # which has no gaps
            return Completion(table, np.ones(n_rows, dtype=bool), np.zeros(n_rows)) if details else table
        source, table = self._compile(X)
        sample = DenseDataset.single(table)
        with self._engine(sample) as engine:
            found = complete(self.field_, sample, engine, max_cells=max_cells)
        warn_of_search(found)
        filled = fill(X, source, drawn_cells(table, found.codes[0]))
        return Completion(filled, found.exact[0], found.log_probability[0]) if details else filled

    def probability(
        self,
        event: Mapping[Any, Any],
        given: Mapping[Any, Any] | None = None,
        *,
        max_cells: int = MAX_CELLS,
        gibbs: Gibbs | None = None,
    ) -> Probability:
        """P(event | given) of a row of which nothing else is known.

        Parameters
        ----------
        event : {column: state or list of states}
            All of them together.
        given : {column: state}
            What is seen; every observed column must be there, None where its value is not known.
        max_cells : int
            Exact where elimination needs no larger table, else by Gibbs sampling.
        gibbs : Gibbs, optional
            Chains for that; ``Gibbs(chains=8, burn_in=500, sweeps=5000)`` unless told.

        Returns
        -------
        Probability
            With value, method ("exact" or "gibbs") and error, the standard error.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> rain = rng.integers(0, 2, 500)
        >>> wet = np.where(rng.random(500) < 0.9, rain, 1 - rain)
        >>> field = MarkovField(l1=0.1).fit(np.column_stack([rain, wet]))
        >>> answer = field.probability({"x0": 1}, given={"x1": 1})
        >>> answer.method, round(answer.value, 1)
        ('exact', 0.9)
        """
        check_is_fitted(self)
        return event_probability(self.field_, event, given, max_cells=max_cells, gibbs=gibbs or QUERY_CHAINS)

    def marginals(
        self,
        given: Mapping[Any, Any] | None = None,
        *,
        max_cells: int = MAX_CELLS,
        gibbs: Gibbs | None = None,
    ) -> dict[str, np.ndarray]:
        """{column: probabilities of its states, as in ``states_``} of a row of which only ``given`` is known.

        Exact where elimination needs no table of more than ``max_cells``, else by Gibbs sampling with a warning that
        states the largest standard error. Parameters are those of `probability`.
        """
        check_is_fitted(self)
        return marginal_probabilities(self.field_, given, max_cells=max_cells, gibbs=gibbs or QUERY_CHAINS)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns that `transform` returns: those that came in."""
        check_is_fitted(self)
        return np.array(self.field_.schema.input_names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _compile(self, X: Any, repeat: int = 1) -> tuple[Source, Table]:
        if is_stream(X):
            raise DataError(
                "X is a stream of blocks, whose answers might not fit into memory: go block by block, as in "
                "[field.transform(block) for block in blocks]; sparsefield.io.read_blocks(path) reads files so."
            )
        source = self._read(X)
        table = compile_table(source, self.field_.schema, repeat=repeat)
        return source, table

    def _compile_again(self, X: Any, y: Any, sample_weight: Any) -> LocalDataset:
        """Rows to learn from once more, under the schema that there is."""
        X = read_matrix(X) if is_matrix_file(X) else X
        if is_stream(X):
            raise DataError("Rows are to be halved, so all of them have to be in memory; X is a stream of blocks.")
        source = self._read(X)
        weight = check_weights(sample_weight, source.n_rows)
        table = compile_sparse(source, self.field_.schema, weight) if self._takes_sparse() else None
        return DenseDataset.single(table or compile_table(source, self.field_.schema, sample_weight=weight))


def _dealt(n: int, chains: int, length: int) -> np.ndarray:
    """Which of chains x length rows make up ``n``: the first chains give one more where all cannot give as many."""
    chain, place = np.divmod(np.arange(chains * length), length)
    return np.flatnonzero(place < n // chains + (chain < n % chains))


def _empty_table(field: Field, n_rows: int) -> Table:
    """Rows of gaps."""
    names = [variable.name for variable in field.schema.targets]
    nothing = Source(tuple(names), n_rows, "array", np.full((n_rows, len(names)), np.nan, dtype=config.FLOAT))
    return compile_table(nothing, field.schema)
