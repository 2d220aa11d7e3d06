"""Multiple imputation of the missing cells of one table by a fitted field, and Rubin's rules for what is made of it.

Each imputation is a chain that alternates two steps, as data augmentation does (Tanner and Wong 1987): missing cells
are drawn from the field, and its weights from about their posterior distribution, by estimates under the weights of a
Bayesian bootstrap and with prior means that are drawn from the prior (Newton, Polson and Xu 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.stats import f, t
from sklearn.utils.validation import check_is_fitted

from sparsefield.analysis.refit import MAX_PARAMETERS, RefitProblem, minimize_nearby, newton_solver
from sparsefield.compute import Threads
from sparsefield.data import Block, Label, Source, check_weights, compile_table, make_frame
from sparsefield.data.coding import PENALTY_FACTORS, ColumnClass
from sparsefield.data.frame_building import Frame, fill_cells
from sparsefield.data.labels import is_missing
from sparsefield.data.table import join_blocks, missing_cells
from sparsefield.errors import DataError
from sparsefield.estimators import MarkovField
from sparsefield.estimators.answers import labels_of_codes
from sparsefield.estimators.compiled_rows import learned_source, read_by_name
from sparsefield.estimators.training import refit_l2
from sparsefield.induction import FixedGraph
from sparsefield.kernels import row_draws as kernels
from sparsefield.model import Field
from sparsefield.objectives.curvature import wald_test
from sparsefield.options import raise_problems

IMPUTATIONS, ITERATIONS = 20, 10
"""Default numbers of imputations, and of iterations of each."""

LINEAR = (ColumnClass.PLAIN, ColumnClass.SCORE, ColumnClass.OBSERVED_SCORE)
"""Classes of the columns of a linear model: indicators of states without an order, and scores."""

ROWS_PER_COLUMN, MAX_FEATURES = 20, 2000
"""Rows that a table needs for each column of a linear model, so that all pairs of them can have weights; features of
such a field, at most."""

LEAST_WEIGHT = 1e-3
"""Weights that are closer to 0 have the prior of this one."""

WARM_UP = 2
"""The common start of all chains takes as many times their iterations: it begins at weights that L1 has shrunk."""

SWEEPS, LAST_SWEEPS = 1, 10
"""Gibbs sweeps over the missing cells in an iteration, and before the first and after the last estimate."""

BIAS_RIDGE = 1e-3
"""L2 penalty of a bias, which keeps those of absent states finite."""

TOLERANCE = 0.05
"""Distance from the optimum in standard errors, in the mean over weights: far below those of what is drawn."""

NAMES = ("imputation", "row")
"""The first columns of the long form."""

MIN_SHARE = 1e-4
"""The share of variance due to missing values counts as at least this: degrees of freedom stay finite, as in mice."""


@dataclass(frozen=True, eq=False)
class Imputations:
    """Several completed copies of one table, which differ only in the cells that were missing.

    An object of this class is a sequence of tables of the kind that was imputed: ``for table in imputations``,
    ``imputations[0]``, ``len(imputations)``. Analyze each of them, and `pool` the results.
    """

    table: Any
    """The incomplete table."""
    source: Source
    cells: Mapping[str, tuple[np.ndarray, tuple[list[Label], ...]]]
    """{column: (rows of its missing cells, for each imputation a value for each of them)}."""
    m: int
    """Number of imputations."""

    def __len__(self) -> int:
        return self.m

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(self.m))

    def __getitem__(self, number: int) -> Any:
        """Return the completed table of an imputation, counted from 0, of the same kind as the incomplete one."""
        if not -self.m <= number < self.m:
            raise IndexError(f"There are {self.m} imputations, numbered from 0; there is none of number {number}.")
        filled = {name: (rows, list(drawn[number])) for name, (rows, drawn) in self.cells.items()}
        return fill_cells(self.table, self.source, filled)

    def __repr__(self) -> str:
        missing = sum(len(rows) for rows, _ in self.cells.values())
        rows = f"{self.source.n_rows:,} rows x {len(self.source.names):,} columns"
        return f"Imputations({self.m} of {rows}, {missing:,} missing cells)"

    def to_frame(self) -> Frame:
        """Return all completed tables below each other, as mice's ``complete(action = "long")``.

        The first columns, ``imputation`` and ``row``, are the numbers of the imputation and the row, counted from 1.
        """
        clash = [name for name in NAMES if name in self.source.names]
        if clash:
            raise DataError(f"The table has a column {clash[0]!r}, which the long form needs for itself: rename it.")
        parts = []
        for number, table in enumerate(self, start=1):
            if self.source.kind == "array":
                cells = [[None if is_missing(value) else value for value in column] for column in table.T.tolist()]
                table = make_frame(dict(zip(self.source.names, cells, strict=True)), "polars")
            frame: nw.DataFrame = nw.from_native(table, eager_only=True).with_row_index("row")
            keys = nw.lit(number, nw.Int64).alias("imputation"), nw.col("row").cast(nw.Int64) + 1
            parts.append(frame.with_columns(*keys).select(*NAMES, *self.source.names))
        long = nw.to_native(nw.concat(parts))  # of pandas, row labels would occur several times
        return long.reset_index(drop=True) if self.source.kind == "pandas" else long


def impute(
    field: MarkovField,
    X: Any,
    m: int = IMPUTATIONS,
    *,
    seed: int = 0,
    iterations: int = ITERATIONS,
    sample_weight: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> Imputations:
    """Impute the missing cells of a table ``m`` times, for analyses that have to know how uncertain they are.

    The cells of a row are drawn jointly given its observed cells. For each imputation the weights of the field are
    drawn, too: they are estimated again from rows whose weights are drawn at random (the Bayesian bootstrap), so
    that imputations differ by as much as the data leave open (proper imputation). Observed cells never change.

    An analysis finds little of a dependence that the imputations lack. So where the table has at least 20 rows for
    each of its columns, all pairs of columns have weights in them, as in a linear model of each column, and else
    those that the field has. A graph that was given (`FixedGraph`) stays as it is.

    Parameters
    ----------
    field : fitted `MarkovField`
    X : the table of `fit`, also with new rows below
        The uncertainty of the weights is that of these rows. A frame may have further columns, which stay as they
        are, and another order of columns.
    m : number of imputations, at least 2
    seed : seed of all draws; the result does not depend on the number of threads
    iterations : how often weights and cells are drawn in turn, for each imputation
        More are necessary only where most of the information about some columns is missing.
    sample_weight : (rows,) weights, if the fit had some
    progress : function that is called with the number of iterations done and their total number

    Returns
    -------
    Imputations
        A sequence of ``m`` completed tables of the kind of ``X``, with `Imputations.to_frame`.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsefield import MarkovField, impute
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> X[:, 1] += X[:, 0]
    >>> X[::3, 1] = np.nan
    >>> imputations = impute(MarkovField(l1=5.0).fit(X), X, m=5)
    >>> len(imputations), bool(np.isnan(imputations[0]).any())
    (5, False)
    """
    check_is_fitted(field)
    raise_problems(
        f"{name} must be a whole number of at least {least}, got {value!r}."
        for name, value, least in (("m", m, 2), ("iterations", iterations, 1), ("seed", seed, 0))
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least
    )
    if field.field_.layout.has_latent:
        raise DataError("The field has latent variables, with which cells cannot be imputed: fit without latent=.")
    if not field.field_.record.is_learned:
        raise DataError("The field was given, not learned: its weights have no uncertainty. Fit it to the table.")
    table = compile_table(read_by_name(field, X), field.field_.schema)
    cells = {}
    for k, (variable, codes) in enumerate(zip(table.schema.targets, table.codes(), strict=True)):
        # Values that training never saw stay as they are.
        rows = np.setdiff1d(np.flatnonzero(codes < 0), table.unknown_rows.get(variable.name, []))
        if len(rows):
            cells[k] = rows
    if not cells:
        raise DataError("The table has no missing cells of target columns: there is nothing to impute.")
    if table.n_rows < (learned := field.field_.record.n_rows):
        raise DataError(
            f"The table has {table.n_rows:,} rows, and the field was learned from {learned:,}, which determine how "
            "uncertain its weights are: pass the table of the fit, with new rows below it."
        )
    block, weight = join_blocks(table.blocks), check_weights(sample_weight, table.n_rows)
    block = block if weight is None else block._replace(weight=weight)
    drawn_from = _field_to_draw_from(field, table.n_rows)
    with Threads(field.n_jobs) as engine:
        chains = _Chains(drawn_from, block, field.l1_, refit_l2(field), int(seed))
        total = iterations * (WARM_UP + 1)
        branches: list[_Chain] = []
        for done in range(total):
            if done < WARM_UP * iterations:
                chains.warm_up()
            else:
                branches = branches or [chains.start(number) for number in range(1, int(m) + 1)]
                engine.map(chains.advance, branches)
            if progress is not None:
                progress(done + 1, total)
        codes = engine.map(chains.finish, branches)
    labeled = {}
    for k, rows in cells.items():  # numbers are drawn from their levels
        variable, seeds = table.schema.targets[k], ([int(seed), number, k] for number in range(m))
        parts = zip(codes, map(np.random.default_rng, seeds), strict=True)
        labeled[variable.name] = rows, tuple(labels_of_codes(variable, part[k, rows], rng) for part, rng in parts)
    return Imputations(X, learned_source(field, X), labeled, int(m))


def _field_to_draw_from(field: MarkovField, n_rows: int) -> Field:
    """Return the field, with a feature of weight 0 for each pair of scores and states that it does not have.

    Where that would be too many for the rows, or the graph was given, the field stays as it is.
    """
    known, layout = field.field_, field.field_.layout
    columns = np.flatnonzero(np.isin(layout.column_classes, LINEAR))
    a, b = (columns[k] for k in np.triu_indices(len(columns), 1))
    too_many = len(columns) * ROWS_PER_COLUMN > n_rows or len(a) > MAX_FEATURES
    if not too_many and not isinstance(field.resolve("induction"), FixedGraph):
        variable, classes = layout.variable_of_own_column, layout.column_classes
        allowed = (variable[a] != variable[b]) & (layout.target_of_column[a] >= 0)
        allowed &= np.isfinite(PENALTY_FACTORS[classes[a], classes[b]])
        pairs = np.column_stack([a, b])[allowed]
        pairs = pairs[~np.isin(layout.keys(pairs), layout.keys(known.pairs))]
        weights = np.concatenate([known.weights, np.zeros(len(pairs))])
        known = replace(known, pairs=np.concatenate([known.pairs, pairs]), weights=weights)
    if len(known.theta) > MAX_PARAMETERS:
        raise DataError(
            f"The field has {len(known.theta):,} parameters, and at most {MAX_PARAMETERS:,} can be drawn jointly: use "
            "fewer columns, or a larger l1."
        )
    return known


@dataclass
class _Chain:
    """The state of a chain: the weights and cells that were drawn last, and its random numbers."""

    theta: np.ndarray
    drawn: np.ndarray
    rng: np.random.Generator


class _Chains:
    """The chains of all imputations, and their common start.

    Weights of a linear model have normal priors whose variances are estimated, one for each number of scores. Of levels
    and products selection has taken the largest weights, whose mean square is too large a variance: their priors
    have the precision l1 / |weight| at the weights of the field, as in the Bayesian lasso (Park and Casella 2008).
    """

    def __init__(self, field: Field, block: Block, l1: float, least: float, seed: int) -> None:
        self._block, self._seed, self._theta, layout = block, seed, field.theta, field.layout
        features, biases = field.features, np.full(layout.n_target_columns, BIAS_RIDGE)
        classes = layout.column_classes[features[:, :2]]
        self._regressions = (layout.target_of_column[features[:, :2]] >= 0).sum(axis=1)
        self._linear = np.isin(classes, LINEAR).all(axis=1) & (features[:, 2:] < 0).all(axis=1)
        self._scores = np.isin(classes, LINEAR[1:]).sum(axis=1)[self._linear]
        sizes = np.maximum(np.abs(field.theta[len(biases) :]), LEAST_WEIGHT)
        self._precision = np.maximum(l1 * layout.feature_factors(features) / sizes, least) / self._regressions
        self._problem = RefitProblem(layout, block, layout.arcs(features), field.graphs[0], biases)
        self._squares = [np.bincount(self._scores, minlength=3)]
        self._rows = np.flatnonzero((block.codes < 0).any(axis=0))
        self._offsets, self._missing_rows = missing_cells(np.ascontiguousarray(block.codes[:, self._rows]))
        self._first = self.start(0)
        self._set_prior()

    def _set_prior(self) -> None:
        """Set the precisions of linear weights by the latter half of the draws and one of 1, and the Hessian."""
        squares = np.mean(self._squares[len(self._squares) // 2 :], axis=0)
        self._precision[self._linear] = ((self._squares[0] + 1.0) / (squares + 1.0))[self._scores]
        biases = self._problem.l2[: self._problem.n_biases]  # each regression of a weight has its own part of the loss
        self._problem = replace(self._problem, l2=np.append(biases, self._precision * self._regressions))
        hessian = self._completed(self._first).hessian(self._theta, self._block.weight)
        self._solve = newton_solver(hessian + np.diag(self._problem.l2))

    def warm_up(self) -> None:
        """Draw the weights and cells of the common start, and estimate the variances of weights from its draws."""
        self.advance(self._first)
        self._theta = self._first.theta
        weights = self._theta[self._problem.n_biases :][self._linear]
        self._squares.append(np.bincount(self._scores, np.square(weights), 3))
        self._set_prior()

    def advance(self, chain: _Chain) -> None:
        """Draw the weights of a chain, and its missing cells."""
        factors = chain.rng.standard_exponential(self._block.n_rows)
        weight, center = self._block.weight * factors * (len(factors) / factors.sum()), np.zeros(len(chain.theta))
        center[self._problem.n_biases :] = chain.rng.standard_normal(len(self._precision)) / np.sqrt(self._precision)
        problem, tolerance = replace(self._completed(chain), center=center), TOLERANCE * float(np.sqrt(len(center)))
        chain.theta = minimize_nearby(problem, chain.theta, weight, self._solve, tolerance)
        self._draw(chain, SWEEPS)

    def finish(self, chain: _Chain) -> np.ndarray:
        """Return the codes of all cells of a chain, (targets, rows), after further sweeps."""
        self._draw(chain, LAST_SWEEPS)
        return self._completed(chain).rows.codes

    def start(self, number: int) -> _Chain:
        """Return a chain that begins at the weights of the common start."""
        drawn = np.zeros((len(self._missing_rows), 1), dtype=np.int32)
        chain = _Chain(self._theta, drawn, np.random.default_rng([self._seed, number]))
        cells = np.repeat(np.arange(len(self._block.codes)), np.diff(self._offsets)), self._missing_rows
        kernels.draw_frequencies(self._problem.graph.coding, *cells, self._row_keys(chain), drawn)
        self._draw(chain, LAST_SWEEPS)
        return chain

    def _completed(self, chain: _Chain) -> RefitProblem:
        """Return the refit of the features to the completed rows."""
        codes, beliefs = self._block.codes.copy(), self._block.beliefs.copy()
        variable = np.repeat(np.arange(len(codes)), np.diff(self._offsets))
        codes[variable, self._rows[self._missing_rows]] = chain.drawn[:, 0]
        beliefs[:, self._rows] = self._draw(chain, 0)
        return replace(self._problem, rows=self._block._replace(codes=codes, beliefs=beliefs))

    def _draw(self, chain: _Chain, sweeps: int) -> np.ndarray:
        """Draw the missing cells by Gibbs sampling from the last ones; return the columns of the incomplete rows."""
        columns = np.ascontiguousarray(self._block.beliefs[:, self._rows])
        keys = self._row_keys(chain) if sweeps else np.zeros(len(self._rows), dtype=np.uint64)
        where = self._offsets, self._missing_rows
        kernels.draw_rows(self._problem.graph, chain.theta, *where, keys, sweeps, columns, chain.drawn)
        return columns

    def _row_keys(self, chain: _Chain) -> np.ndarray:
        return kernels.row_keys(chain.rng.integers(2**32), 0, np.zeros(len(self._rows), dtype=np.int64), self._rows)


# -- Rubin's rules ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PooledEstimates:
    """Estimates that were pooled over imputations by Rubin's rules; arrays have one entry for each estimate.

    Attributes
    ----------
    estimate : mean of the estimates over the imputations
    standard_error : square root of the mean variance within imputations plus (1 + 1/m) times that between them
    degrees_of_freedom : those of Student's t, of Barnard and Rubin (1999) where the complete data have finitely many
    """

    estimate: np.ndarray
    standard_error: np.ndarray
    degrees_of_freedom: np.ndarray

    @property
    def p_value(self) -> np.ndarray:
        """(estimates,): two-sided p-value of Student's t that the estimate is 0."""
        errors = np.maximum(self.standard_error, np.finfo(float).tiny)
        with np.errstate(over="ignore"):
            return 2.0 * t.sf(np.abs(self.estimate) / errors, self.degrees_of_freedom)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper ends of the confidence intervals, (estimates,) each."""
        if not 0.0 < level < 1.0:
            raise DataError(f"level must be between 0 and 1, got {level!r}.")
        reach = t.ppf(0.5 + 0.5 * level, self.degrees_of_freedom) * self.standard_error
        return self.estimate - reach, self.estimate + reach


def pool(estimates: Any, standard_errors: Any, *, complete_df: float = np.inf) -> PooledEstimates:
    """Pool the estimates of several imputed tables by Rubin's rules.

    Parameters
    ----------
    estimates, standard_errors : (imputations,) or (imputations, estimates)
    complete_df : degrees of freedom of the analysis of a complete table
        Rows less coefficients, for a regression. With infinitely many, intervals are too narrow in small tables.

    Examples
    --------
    >>> from sparsefield import pool
    >>> pooled = pool([10.2, 9.8, 10.4], [0.5, 0.52, 0.49], complete_df=98)
    >>> pooled.estimate.round(3).tolist(), pooled.standard_error.round(3).tolist()
    ([10.133], [0.615])
    """
    values, errors = (np.asarray(part, dtype=float) for part in (estimates, standard_errors))
    problems = []
    if values.ndim not in (1, 2) or values.shape != errors.shape:
        problems.append(
            f"estimates have the shape {values.shape} (imputations, estimates), but standard_errors {errors.shape}: "
            "both need a number or a row for each imputation."
        )
    elif len(values) < 2:
        problems.append("Rubin's rules need the estimates of at least 2 imputations.")
    if not np.isfinite(values).all() or not np.isfinite(errors).all() or (errors < 0.0).any():
        problems.append("Estimates and standard errors must be finite numbers, and standard errors not negative.")
    if not complete_df > 0.0:
        problems.append(f"complete_df must be positive, got {complete_df!r}.")
    raise_problems(problems)
    values, errors, m = values.reshape(len(values), -1), errors.reshape(len(errors), -1), len(values)
    between = (1.0 + 1.0 / m) * values.var(axis=0, ddof=1)
    total = np.square(errors).mean(axis=0) + between
    share = np.divide(between, total, out=np.zeros(len(total)), where=total > 0.0)
    share = np.maximum(share, MIN_SHARE)  # mice's lambda
    df = (m - 1) / np.square(share)
    if np.isfinite(complete_df):
        observed = (complete_df + 1.0) / (complete_df + 3.0) * complete_df * (1.0 - share)
        df = df * observed / (df + observed)
    return PooledEstimates(values.mean(axis=0), np.sqrt(total), df)


def pooled_wald_test(estimates: np.ndarray, within: np.ndarray) -> float:
    """Return the p-value of the test that several weights are 0: D1 of Li, Raghunathan and Rubin (1991).

    The variance between imputations is taken as proportional to that within them: few imputations do not determine its
    own covariance matrix.

    Parameters
    ----------
    estimates : (imputations, weights)
    within : (weights, weights), mean covariance of the estimates from one table
    """
    mean, m = estimates.mean(axis=0), len(estimates)
    statistic, k = wald_test(mean, within)
    spread = wald_test(estimates - mean, within)[0].sum() / (m - 1)
    increase = max((1.0 + 1.0 / m) * spread / k, np.finfo(float).eps)
    free = k * (m - 1)
    if free > 4.0:
        degrees = 4.0 + (free - 4.0) * (1.0 + (1.0 - 2.0 / free) / increase) ** 2
    else:
        degrees = 0.5 * free * (1.0 + 1.0 / k) * (1.0 + 1.0 / increase) ** 2
    return float(f.sf(statistic / (k * (1.0 + increase)), k, degrees))
