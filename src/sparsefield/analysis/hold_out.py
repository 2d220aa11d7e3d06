"""Cross-validation over cells, as in the paper: some are held out, learned without and predicted, fold by fold.

It takes any estimator with `fit`, `infer`, `set_params` and `field_`, and knows none by name.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from sparsefield.analysis.metrics import (
    INTERVAL,
    UNKNOWN,
    CellPredictions,
    ColumnEvaluation,
    evaluate_numbers,
    evaluate_states,
    pool_gains,
    score,
    shows_dependence,
)
from sparsefield.data import AUTO, BASE, Relational, Schema, Source, Variable, as_source, as_templates
from sparsefield.data.labels import as_numbers
from sparsefield.data.table import encode_rows
from sparsefield.errors import DataError, prefix_errors

Array = np.ndarray[Any, np.dtype[Any]]
Columns = Sequence[str | int] | None
"""Observed columns, by name or position."""
States = Mapping[str, Sequence[Any]] | None
"""{column: its states}."""


@dataclass(frozen=True)
class Fold:
    """Scores of the held-out cells of one fold, and costs of its fit.

    The scores are those of `sparsefield.analysis.metrics.Scores`. ``frequency_...`` are the scores of a baseline that
    predicts the frequencies of the states among the visible cells of each column.
    """

    cells: int
    """Number of held-out cells that were predicted."""
    ap: float
    cll: float
    error_rate: float
    ap_positive: float
    frequency_ap: float
    frequency_cll: float
    frequency_error_rate: float
    frequency_ap_positive: float
    rmse: float
    """Mean over numeric columns of the root mean squared error over the standard deviation; NaN if there are none."""
    frequency_rmse: float
    """The same of the mean of the visible cells."""
    seconds: float
    cpu_seconds: float
    """Processor time of the fit, over all threads."""
    induced: int
    """Number of features that ever were in the working set."""
    active: int
    iterations: int
    kkt_violation: float
    converged: bool


class Spread(NamedTuple):
    """Mean and standard deviation (n - 1) over the folds that have a measure."""

    mean: float
    sd: float
    """NaN of a single fold."""


@dataclass(frozen=True)
class Evaluation:
    """The folds of a cross-validation, in order."""

    folds: tuple[Fold, ...]
    columns: tuple[ColumnEvaluation, ...] = ()
    """Scores of each column that was predicted, over the held-out cells of all folds."""

    def spread(self, measure: str) -> Spread:
        """Return the mean and standard deviation of one measure, by its name in `Fold`."""
        values = [getattr(fold, measure) for fold in self.folds]
        known = [value for value in values if not np.isnan(value)]  # a fold may lack cells of some kind
        mean = float(np.mean(known)) if known else math.nan
        return Spread(mean, float(np.std(known, ddof=1)) if len(known) > 1 else math.nan)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "summary": {field.name: self.spread(field.name)._asdict() for field in fields(Fold)},
            "gain": {**asdict(pool_gains(self.columns)), "shows_dependence": shows_dependence(self.columns)},
            "columns": [column.as_dict() for column in self.columns],
            "folds": [asdict(fold) for fold in self.folds],
        }


def evaluate(
    X: Any,
    estimator: Any,
    folds: int = 10,
    observed: Columns = None,
    seed: int = 0,
    progress: Callable[[Fold], None] | None = None,
    *,
    states: States = None,
    sample_weight: Any = None,
    on_fit: Callable[[Any, Any], None] | None = None,
) -> Evaluation:
    """Cross-validate an estimator over cells, as in the paper's section 4.

    The cells of the target columns that have a value are split at random into ``folds`` parts. Each fold makes one part
    missing, fits the estimator to the table, and predicts these cells given all other cells.

    Parameters
    ----------
    X : frame, 2-D array or sparse 0/1 matrix; or Relational
        As for `fit`. Cells that are missing already are not scored.
    estimator : MarkovField, or RelationalField for linked tables
        It is cloned for every fold.
    folds : number of folds, at least 2
    observed : columns, by name or position, that are conditioned on and never predicted
        Linked tables declare them themselves.
    seed : seed of the split
    progress : function that is called with each `Fold` when it is done
    states : {column: its states}
        For one table: states that are known to exist, whether or not they occur in a row.
    sample_weight : (rows,) weights of the rows of one table
        Weights of fits and of scores, which are weighted averages over held-out cells: a weight of 2 counts as two
        equal rows that are held out together. Cells of rows with weight 0 are not held out. Standard errors count
        rows, not weights.
    on_fit : function that is called with the fitted estimator of each fold and the incomplete table

    Notes
    -----
    The field of every fold gets the states of the whole table. Otherwise a state whose only cells are held out would
    have probability 0, and one such cell would dominate the log-likelihood of its fold. For the same reason the
    baseline adds one count to each state. A fold never empties a column: one cell stays visible and is not scored.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsefield import MarkovField
    >>> rain = np.random.default_rng(0).integers(0, 2, 100)
    >>> evaluation = evaluate(np.column_stack([rain, rain]), MarkovField(l1=2.0), folds=5)
    >>> evaluation.spread("error_rate").mean < evaluation.spread("frequency_error_rate").mean
    True
    """
    cells = TargetCells.of(X, estimator, observed, states, sample_weight)
    n_cells = np.count_nonzero(cells.counts)
    if not 2 <= folds <= n_cells:
        raise ValueError(f"folds must be from 2 to the number of known target cells, {n_cells}; got {folds}.")
    done: list[Fold] = []
    columns: list[ColumnEvaluation] = []
    for held_out in split_cells(cells, folds, seed):
        fold, of_fold = _run_fold(cells, estimator, held_out, on_fit)
        done.append(fold)
        columns += of_fold
        if progress is not None:
            progress(fold)
    return Evaluation(tuple(done), cells.in_input_order(columns))


def hold_out(
    X: Any,
    estimator: Any,
    share: float = 0.1,
    observed: Columns = None,
    seed: int = 0,
    *,
    sample_weight: Any = None,
    on_fit: Callable[[Any, Any], None] | None = None,
) -> Evaluation:
    """Hold out a share of the known target cells once, fit to the others and score the held-out cells; see `evaluate`.

    The result has one fold.
    """
    if not 0 < share < 1:
        raise ValueError(f"share must be between 0 and 1, got {share}.")
    cells = TargetCells.of(X, estimator, observed, sample_weight=sample_weight)
    parts = max(2, round(1 / share))
    if (n_cells := np.count_nonzero(cells.counts)) < parts:
        raise DataError(f"The table has {n_cells} known target cells, too few to hold out {share:.0%} of them.")
    with prefix_errors(f"With {share:.0%} of the cells held out"):  # `TargetCells.of` has fitted the complete data
        fold, columns = _run_fold(cells, estimator, next(split_cells(cells, parts, seed)), on_fit)
    return Evaluation((fold,), cells.in_input_order(columns))


@dataclass(frozen=True)
class _TargetTable:
    """A table, and the true state of each of its target cells."""

    name: str
    source: Source
    schema: Schema
    truth: Array
    """(rows, targets): index into the states or levels of the whole table, -1 for a missing cell."""
    weights: Array
    """(rows,): weights of the rows."""

    @classmethod
    def of(cls, name: str, source: Source, schema: Schema, weights: Array) -> _TargetTable:
        truth, _, _ = encode_rows(source, schema)
        for variable, codes in zip(schema.targets, truth, strict=True):
            codes[:] = np.where(codes == UNKNOWN, UNKNOWN, variable.position_of_code[codes])
        return cls(name, source, schema, truth.T, weights)

    @property
    def counts(self) -> Array:
        """(rows, targets): whether a cell has a value, and a weight."""
        return (self.truth != UNKNOWN) & (self.weights > 0.0)[:, None]

    def with_missing(self, held_out: Array) -> Any:
        """Return a table of the same kind whose ``held_out`` (rows, targets) cells are missing."""
        source, missing = self.source, {v.name: held_out[:, k] for k, v in enumerate(self.schema.targets)}
        if source.kind == "array":
            dtype = source.native.dtype
            array = source.native.astype({"f": dtype, "i": float, "u": float}.get(dtype.kind, object))
            for name, cell in missing.items():
                array[cell, source.names.index(name)] = np.nan
            return array
        frame: nw.DataFrame = source.native
        changed = []
        for name, cell in missing.items():
            if cell.any():
                visible = nw.new_series(name, ~cell, nw.Boolean(), backend=frame.implementation)
                changed.append(nw.when(visible).then(nw.col(name)).alias(name))
        return nw.to_native(frame.with_columns(*changed))

    def full_name(self, column: str) -> str:
        return f"{self.name}.{column}" if self.name else column

    def predictions(
        self, posterior: Any, held_out: Array
    ) -> Iterator[tuple[Variable, CellPredictions, CellPredictions]]:
        """Yield each column with states, the predictions of its held-out cells, and those of its frequencies."""
        for v, variable in enumerate(self.schema.targets):
            rows = np.flatnonzero(held_out[:, v])
            if variable.numeric or not len(rows):
                continue
            positive = 1 if variable.states == (0, 1) else None
            cells = self.truth[rows, v], self.weights[rows], positive
            visible = np.flatnonzero((self.truth[:, v] != UNKNOWN) & ~held_out[:, v])
            counts = np.bincount(self.truth[visible, v], self.weights[visible], len(variable.states)) + 1.0
            frequencies = np.tile(counts / counts.sum(), (len(rows), 1))
            probabilities = posterior.state_probabilities(variable.name)[rows]
            yield variable, CellPredictions(probabilities, *cells), CellPredictions(frequencies, *cells)

    def evaluate_numbers(self, posterior: Any, fitted: Schema, held_out: Array) -> Iterator[ColumnEvaluation]:
        """Yield the scores of each numeric column with held-out cells; ``fitted`` is the schema of the visible ones."""
        numeric = [(v, x) for v, x in enumerate(self.schema.targets) if x.numeric and held_out[:, v].any()]
        if not numeric:
            return
        ends = [posterior.quantile(0.5 + k * INTERVAL / 2) for k in (-1, 1)]
        answers = [as_source(frame) for frame in (posterior.mean, *ends)]
        for v, variable in numeric:
            column, rows = self.source.column(variable.name), np.flatnonzero(held_out[:, v])
            numbers = np.full(self.source.n_rows, np.nan)
            numbers[column.present] = as_numbers(column)
            visible = np.flatnonzero(column.present & ~held_out[:, v])
            yield evaluate_numbers(
                self.full_name(variable.name),
                fitted.variables[fitted.index_of_name[variable.name]],
                numbers[rows],
                posterior.state_probabilities(variable.name)[rows],
                [as_numbers(answer.column(variable.name))[rows] for answer in answers],
                visible_mean=float(np.average(numbers[visible], weights=self.weights[visible])),
                scale=variable.scale,
                weights=self.weights[rows],
            )


@dataclass(frozen=True)
class TargetCells:
    """The target cells of one table or of several linked ones."""

    X: Any
    roles: Mapping[str, Any]
    """Keywords of `fit` for one table: observed columns, and weights where they are given."""
    tables: tuple[_TargetTable, ...]

    @classmethod
    def of(
        cls, X: Any, estimator: Any, observed: Columns, states: States = None, sample_weight: Any = None
    ) -> TargetCells:
        if sp.issparse(X):
            X = as_source(X).native.toarray()
        if sample_weight is not None and isinstance(X, Relational):
            raise DataError("Rows of linked tables have no weights: leave sample_weight out.")
        roles = {"observed": observed} | ({} if sample_weight is None else {"sample_weight": sample_weight})
        # One iteration finds out which columns are targets, and refuses unusable data before the long work.
        copy: Any = clone(estimator)
        copy.set_params(solver__max_iter=1, solver__callbacks=None, solver__test_edges=False)
        if isinstance(X, Relational) and as_templates(getattr(copy, "templates", BASE) or X.templates) in (None, AUTO):
            copy.set_params(templates=BASE)  # to choose them would take longer
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            copy.fit(X) if isinstance(X, Relational) else copy.fit(X, **roles, states=states)
        layout = copy.field_.layout
        sources = X.sources if isinstance(X, Relational) else {"": as_source(X)}
        schemas = zip(layout.tables, layout.schemas, strict=True)
        given = 1.0 if sample_weight is None else np.asarray(sample_weight, float)
        tables = tuple(
            _TargetTable.of(t, sources[t], schema.without_latent(), np.broadcast_to(given, sources[t].n_rows))
            for t, schema in schemas
        )
        return cls(X, roles, tables)

    @property
    def counts(self) -> Array:
        """(cells,): whether a cell of any table has a value, and a weight."""
        return np.concatenate([table.counts.ravel() for table in self.tables])

    def with_missing(self, held_out: list[Array]) -> Any:
        """Return the data with the held-out cells missing."""
        if not isinstance(self.X, Relational):
            return self.tables[0].with_missing(held_out[0])
        pairs = zip(self.tables, held_out, strict=True)
        return self.X.with_tables({table.name: table.with_missing(mask) for table, mask in pairs if mask.any()})

    def fit(self, estimator: Any, incomplete: Any) -> None:
        """Fit to incomplete data with the kinds and states of the complete ones."""
        kinds, states = {}, {}
        for table in self.tables:
            variables = table.schema.variables
            kinds[table.name] = {v.name: list(v.states) if v.kind == "ordinal" else v.kind for v in variables}
            states[table.name] = {v.name: v.states for v in table.schema.targets if not v.numeric}
        if isinstance(self.X, Relational):
            estimator.set_params(kinds=kinds).fit(incomplete, states=states)
        else:
            estimator.set_params(kinds=kinds[""]).fit(incomplete, **self.roles, states=states[""])

    def infer(self, estimator: Any, incomplete: Any) -> list[Any]:
        """Return the posterior of each table."""
        posterior = estimator.infer(incomplete)
        return [posterior[table.name] for table in self.tables] if isinstance(self.X, Relational) else [posterior]

    def in_input_order(self, columns: Sequence[ColumnEvaluation]) -> tuple[ColumnEvaluation, ...]:
        """Return the scores of each column, joined over folds, in the order of the input."""
        names = [table.full_name(name) for table in self.tables for name in table.schema.order]
        parts = ([column for column in columns if column.name == name] for name in names)
        return tuple(ColumnEvaluation.join(part) for part in parts if part)


def split_cells(cells: TargetCells, folds: int, seed: int) -> Iterator[list[Array]]:
    """Yield for each fold the held-out cells: a (rows, targets) mask per table."""
    known = cells.counts
    shuffled = np.random.default_rng(seed).permutation(np.flatnonzero(known))
    for part in np.array_split(shuffled, folds):
        chosen = np.zeros(known.shape, dtype=bool)
        chosen[part] = True
        masks = np.split(chosen, np.cumsum([table.truth.size for table in cells.tables])[:-1])
        held_out = [mask.reshape(table.truth.shape) for mask, table in zip(masks, cells.tables, strict=True)]
        for table, mask in zip(cells.tables, held_out, strict=True):
            emptied = ~(table.counts & ~mask).any(axis=0)
            for column in np.flatnonzero(emptied & mask.any(axis=0)):
                mask[np.flatnonzero(mask[:, column])[0], column] = False
        if not any(mask.any() for mask in held_out):
            raise DataError("Each column has too few values to hold any out: use fewer folds or more rows.")
        yield held_out


def _run_fold(
    cells: TargetCells, estimator: Any, held_out: list[Array], on_fit: Callable[[Any, Any], None] | None = None
) -> tuple[Fold, list[ColumnEvaluation]]:
    """Return the scores of one fold, and those of its columns."""
    field: Any = clone(estimator)
    field.set_params(solver__test_edges=False)
    incomplete = cells.with_missing(held_out)
    started = time.perf_counter(), time.process_time()
    cells.fit(field, incomplete)
    seconds = time.perf_counter() - started[0], time.process_time() - started[1]
    if on_fit is not None:
        on_fit(field, incomplete)
    columns: list[ColumnEvaluation] = []
    pairs: list[list[CellPredictions]] = []
    parts = zip(cells.tables, field.field_.layout.schemas, cells.infer(field, incomplete), held_out, strict=True)
    for table, fitted, posterior, mask in parts:
        for variable, *pair in table.predictions(posterior, mask):
            pairs.append(pair)
            columns.append(evaluate_states(table.full_name(variable.name), variable.kind, *pair))
        columns += table.evaluate_numbers(posterior, fitted, mask)
    ours, baseline = (asdict(score([pair[k] for pair in pairs])) for k in (0, 1))
    numbers = [column for column in columns if column.kind == "numeric"]
    record = field.field_.record
    fold = Fold(
        cells=sum(int(mask.sum()) for mask in held_out),
        **ours,
        **{f"frequency_{name}": value for name, value in baseline.items()},
        rmse=float(np.mean([column.error / column.scale for column in numbers])) if numbers else math.nan,
        frequency_rmse=float(np.mean([c.baseline_error / c.scale for c in numbers])) if numbers else math.nan,
        seconds=seconds[0],
        cpu_seconds=seconds[1],
        induced=record.iterations[-1].features if record.iterations else 0,
        active=record.iterations[-1].active if record.iterations else 0,
        iterations=record.n_iter,
        kkt_violation=record.kkt_violation,
        converged=record.converged,
    )
    return fold, columns
