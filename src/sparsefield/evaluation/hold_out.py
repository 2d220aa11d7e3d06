"""The paper's protocol: hide some cells, learn from the others, predict the hidden ones, fold by fold."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from sparsefield.data import Relational, Schema, Source, as_source
from sparsefield.data.labels import factorize
from sparsefield.errors import DataError
from sparsefield.estimators import MarkovField, RelationalField
from sparsefield.evaluation.metrics import UNKNOWN, Answer, Scores, score

__all__ = ["Evaluation", "Fold", "Spread", "TooFewCellsError", "evaluate", "hold_out"]

Array = np.ndarray[Any, np.dtype[Any]]
Estimator = MarkovField | RelationalField


class TooFewCellsError(DataError):
    """The data can be learned from, but not once some of their cells are hidden."""


@dataclass(frozen=True)
class Fold:
    """What one fold showed.

    Attributes
    ----------
    cells : int
        Hidden cells that were predicted.
    auc, cll, error_rate : float
        The measures of `sparsefield.evaluation.metrics` for these cells.
    auc_yes : float
        Area for the true state of yes/no columns alone.
    frequency_auc, frequency_cll, frequency_error_rate, frequency_auc_yes : float
        The same for the frequencies of the states in the seen cells of each column: what anyone could say.
    seconds : float
        Wall time of the fit.
    cpu_seconds : float
        Time that processors spent on it, all threads together: of one thread, what a quiet machine would take.
    induced, active : int
        Pair features that were ever let in, and those that have a weight at the end.
    iterations : int
    kkt_violation : float
    converged : bool
        Whether the fit ended with its certificate.
    """

    cells: int
    auc: float
    cll: float
    error_rate: float
    auc_yes: float
    frequency_auc: float
    frequency_cll: float
    frequency_error_rate: float
    frequency_auc_yes: float
    seconds: float
    cpu_seconds: float
    induced: int
    active: int
    iterations: int
    kkt_violation: float
    converged: bool


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation (n - 1) over folds."""

    mean: float
    sd: float


@dataclass(frozen=True)
class Evaluation:
    """All folds, in order."""

    folds: tuple[Fold, ...]

    @property
    def summary(self) -> dict[str, Spread]:
        """Mean and standard deviation of every measure of `Fold`."""
        return {name: self.spread(name) for name in (f.name for f in fields(Fold))}

    def spread(self, measure: str) -> Spread:
        """Mean and standard deviation of one measure, by its name in `Fold`."""
        values = np.array([getattr(fold, measure) for fold in self.folds], dtype=float)
        return Spread(float(values.mean()), float(values.std(ddof=1)))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        summary = {name: asdict(spread) for name, spread in self.summary.items()}
        return {"summary": summary, "folds": [asdict(fold) for fold in self.folds]}


def evaluate(
    X: Any,
    estimator: Estimator,
    folds: int = 10,
    observed: Sequence[str | int] | None = None,
    seed: int = 0,
    progress: Callable[[Fold], None] | None = None,
    *,
    states: Mapping[str, Sequence[Any]] | None = None,
    look: Callable[[Any, Any], None] | None = None,
) -> Evaluation:
    """k-fold cross-validation over cells, as in the paper's section 4.

    The seen cells of the target columns are split at random into ``folds`` parts. Each fold turns one part
    into gaps, fits the estimator to the table, and asks it for its beliefs in these gaps given all other
    cells.

    Parameters
    ----------
    X : frame, 2-D array or sparse 0/1 matrix; or Relational
        Rows by columns, as for `MarkovField.fit`; cells that are gaps already are not scored. The cells of linked
        tables are split together.
    estimator : MarkovField, or RelationalField for linked tables
        Cloned for every fold.
    folds : int
        At least 2.
    observed : columns, by name or position, that are conditioned on and never predicted
        Linked tables say it themselves.
    seed : int
        Of the split.
    progress : callable, optional
        Gets each `Fold` when it is done.
    states : {column: its states}
        Of one table: states that are known to exist, whether or not a row shows them.
    look : callable, optional
        Gets the fitted estimator of each fold, and the table with gaps that it was fitted to.

    Notes
    -----
    Hiding a cell hides its value, not which values there are: every fold's field is told the states of the
    whole table, as the paper's variables are binary by declaration. Else a state whose only cells are hidden
    would have belief 0, and one such cell would decide the mean log-belief of its fold. For the same reason
    the frequencies that a fold is compared with have one count added to each state.

    A fold never empties a column: where it would, one cell stays visible and is not scored in that fold.

    One iteration on the first fold runs before the clock does, so that no compilation is timed.

    Examples
    --------
    >>> import numpy as np
    >>> rain = np.random.default_rng(0).integers(0, 2, 100)
    >>> found = evaluate(np.column_stack([rain, rain]), MarkovField(), folds=5)
    >>> found.spread("error_rate").mean < found.spread("frequency_error_rate").mean
    True
    """
    table = _Cells.of(X, estimator, observed, states)
    if not 2 <= folds <= table.n_cells:
        raise ValueError(f"folds must be from 2 to the number of seen target cells, {table.n_cells}; got {folds}.")
    done = []
    for k, hidden in enumerate(_split(table, folds, seed)):
        if k == 0:
            _warm_up(table, estimator, hidden)
        done.append(_run_fold(table, estimator, hidden, look))
        if progress is not None:
            progress(done[-1])
    return Evaluation(tuple(done))


def hold_out(
    X: Any,
    estimator: Estimator,
    share: float = 0.1,
    observed: Sequence[str | int] | None = None,
    seed: int = 0,
) -> Fold:
    """Hide a share of the seen target cells once, fit to the rest, score the hidden ones; see `evaluate`.

    `TooFewCellsError` says that this is not possible though the data themselves can be used.
    """
    if not 0 < share < 1:
        raise ValueError(f"share must lie between 0 and 1, got {share}.")
    table = _Cells.of(X, estimator, observed)
    parts = max(2, round(1 / share))
    if table.n_cells < parts:
        raise TooFewCellsError(f"The table has {table.n_cells} seen target cells, too few to hide {share:.0%} of them.")
    try:
        return _run_fold(table, estimator, next(_split(table, parts, seed)))
    except DataError as error:  # `_Cells.of` has tried the data without gaps
        raise TooFewCellsError(f"With {share:.0%} of the cells hidden: {error}") from error


@dataclass(frozen=True)
class _Part:
    """A table, and the true state of each of its target cells."""

    name: str
    source: Source
    schema: Schema
    truth: Array
    """(rows, targets): index into the states of the whole table, -1 for a gap."""

    @classmethod
    def of(cls, name: str, source: Source, schema: Schema) -> _Part:
        codes = []
        for variable in schema.targets:
            seen, places = factorize(source.column(variable.name))
            known = {state: k for k, state in enumerate(variable.states)}
            codes.append(np.append([known[state] for state in seen], UNKNOWN)[places])
        return cls(name, source, schema, np.column_stack([np.empty((source.n_rows, 0), dtype=np.int64), *codes]))

    @property
    def states(self) -> dict[str, tuple[Any, ...]]:
        return {variable.name: variable.states for variable in self.schema.targets}

    def with_missing(self, hidden: Array) -> Any:
        """The table, same kind, with the ``hidden`` (rows, targets) cells made gaps."""
        return _with_gaps(self.source, {v.name: hidden[:, k] for k, v in enumerate(self.schema.targets)})

    def answers(self, found: dict[str, Array], hidden: Array) -> Iterator[tuple[Answer, Answer]]:
        """Per column, what was believed of its hidden cells, and what the frequencies of its seen cells say."""
        for v, variable in enumerate(self.schema.targets):
            rows = np.flatnonzero(hidden[:, v])
            truth = self.truth[rows, v]
            positive = 1 if variable.states == (0, 1) else None
            seen = np.where(hidden[:, v], UNKNOWN, self.truth[:, v])
            frequencies = _smoothed_frequencies(seen, len(variable.states))
            frequent = Answer(np.tile(frequencies, (len(rows), 1)), truth, positive)
            yield Answer(found[variable.name][rows], truth, positive), frequent


@dataclass(frozen=True)
class _Cells:
    """All target cells of one table or of several."""

    X: Any
    observed: Sequence[str | int] | None
    parts: tuple[_Part, ...]

    @classmethod
    def of(
        cls,
        X: Any,
        estimator: Estimator,
        observed: Sequence[str | int] | None,
        states: Mapping[str, Sequence[Any]] | None = None,
    ) -> _Cells:
        if sp.issparse(X):
            X = X.toarray()
        # One iteration says which columns are targets, and refuses unusable data before the long work.
        layout = _first_iteration(estimator, X, observed, states).field_.layout
        sources = X.sources if isinstance(X, Relational) else {"": as_source(X)}
        schemas = zip(layout.tables, layout.schemas, strict=True)
        return cls(
            X, observed, tuple(_Part.of(name, sources[name], schema.without_latent()) for name, schema in schemas)
        )

    @property
    def truth(self) -> Array:
        """(cells,): of all tables, one after another."""
        return np.concatenate([part.truth.ravel() for part in self.parts])

    @property
    def n_cells(self) -> int:
        return int(np.count_nonzero(self.truth != UNKNOWN))

    def cut(self, cells: Array) -> list[Array]:
        """(cells,) of all tables as (rows, targets) of each."""
        ends = np.cumsum([part.truth.size for part in self.parts])[:-1]
        return [p.reshape(part.truth.shape) for p, part in zip(np.split(cells, ends), self.parts, strict=True)]

    def with_missing(self, hidden: list[Array]) -> Any:
        if not isinstance(self.X, Relational):
            return self.parts[0].with_missing(hidden[0])
        parts = zip(self.parts, hidden, strict=True)
        return self.X.with_tables({part.name: part.with_missing(mask) for part, mask in parts if mask.any()})

    def fit(self, estimator: Any, incomplete: Any) -> None:
        """Fit to a table with gaps; the field is told the states of the whole one."""
        if isinstance(self.X, Relational):
            estimator.fit(incomplete, states={part.name: part.states for part in self.parts})
        else:
            estimator.fit(incomplete, observed=self.observed, states=self.parts[0].states)


def _split(table: _Cells, folds: int, seed: int) -> Iterator[list[Array]]:
    """Per table, (rows, targets) masks of hidden cells, one list per fold."""
    truth = table.truth
    mixed = np.random.default_rng(seed).permutation(np.flatnonzero(truth != UNKNOWN))
    for cells in np.array_split(mixed, folds):
        chosen = np.zeros(truth.shape, dtype=bool)
        chosen[cells] = True
        hidden = table.cut(chosen)
        for part, mask in zip(table.parts, hidden, strict=True):
            emptied = ~((part.truth != UNKNOWN) & ~mask).any(axis=0)
            for column in np.flatnonzero(emptied & mask.any(axis=0)):
                mask[np.flatnonzero(mask[:, column])[0], column] = False
        if any(mask.any() for mask in hidden):
            yield hidden
        else:
            raise DataError("Each column has too few values to hide any of them: use fewer folds or more rows.")


def _run_fold(
    table: _Cells, estimator: Estimator, hidden: list[Array], look: Callable[[Any, Any], None] | None = None
) -> Fold:
    field: Any = _fresh(estimator)
    incomplete = table.with_missing(hidden)
    started = time.perf_counter(), time.process_time()
    table.fit(field, incomplete)
    seconds = time.perf_counter() - started[0], time.process_time() - started[1]
    if look is not None:
        look(field, incomplete)
    found = field.predict_proba(incomplete)
    pairs = [
        pair
        for part, mask in zip(table.parts, hidden, strict=True)
        for pair in part.answers(found[part.name] if isinstance(table.X, Relational) else found, mask)
    ]
    ours, frequencies = (score([pair[k] for pair in pairs]) for k in (0, 1))
    return _as_fold(field, sum(int(mask.sum()) for mask in hidden), ours, frequencies, seconds)


def _smoothed_frequencies(seen: Array, n_states: int) -> Array:
    """(states,): shares of the states in the seen cells, with one count added to each."""
    counts = np.bincount(seen[seen != UNKNOWN], minlength=n_states) + 1.0
    return counts / counts.sum()


def _as_fold(field: Estimator, cells: int, ours: Scores, frequencies: Scores, seconds: tuple[float, float]) -> Fold:
    frame: Any = field.history_
    history = nw.from_native(frame, eager_only=True)
    induced, active = (int(history[name][-1]) if len(history) else 0 for name in ("features", "active"))
    return Fold(
        cells=cells,
        **asdict(ours),
        **{f"frequency_{name}": value for name, value in asdict(frequencies).items()},
        seconds=seconds[0],
        cpu_seconds=seconds[1],
        induced=induced,
        active=active,
        iterations=field.n_iter_,
        kkt_violation=float(field.kkt_violation_),
        converged=bool(field.converged_),
    )


def _fresh(estimator: Estimator) -> Estimator:
    """An unfitted copy that reports to whom the original does."""
    copy: Any = clone(estimator)
    return copy


def _warm_up(table: _Cells, estimator: Estimator, hidden: list[Array]) -> None:
    """Compile what a fit and a prediction with gaps need."""
    incomplete = table.with_missing(hidden)
    _first_iteration(estimator, incomplete, table.observed).predict_proba(incomplete)


def _first_iteration(
    estimator: Estimator,
    X: Any,
    observed: Sequence[str | int] | None,
    states: Mapping[str, Sequence[Any]] | None = None,
) -> Any:
    copy: Any = clone(estimator)
    copy.set_params(solver__max_iter=1, verbose=0, callbacks=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return copy.fit(X) if isinstance(X, Relational) else copy.fit(X, observed=observed, states=states)


def _with_gaps(source: Source, missing: dict[str, Array]) -> Any:
    """A table, same kind, with cells made gaps: ``{column: (rows,) bool}``."""
    if source.kind == "array":
        kind = source.native.dtype.kind
        array = source.native.astype({"f": source.native.dtype, "i": float, "u": float}.get(kind, object))
        for name, cell in missing.items():
            array[cell, source.names.index(name)] = np.nan
        return array
    frame: nw.DataFrame = source.native
    changed = []
    for name, cell in missing.items():
        if cell.any():
            seen = nw.new_series(name, ~cell, nw.Boolean(), backend=frame.implementation)
            changed.append(nw.when(seen).then(nw.col(name)).alias(name))
    return nw.to_native(frame.with_columns(*changed))
