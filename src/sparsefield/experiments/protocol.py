"""The paper's protocol: hide some cells, learn from the others, predict the hidden ones, fold by fold."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from sparsefield.data import Schema, Source, read
from sparsefield.data.schema import factorize
from sparsefield.errors import DataError
from sparsefield.estimators import MarkovField
from sparsefield.experiments.metrics import UNKNOWN, Answer, Scores, score

__all__ = ["Evaluation", "Fold", "Spread", "evaluate", "hold_out"]

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Fold:
    """What one fold showed.

    Attributes
    ----------
    cells : int
        Hidden cells that were predicted.
    auc, cll, error_rate : float
        The measures of `sparsefield.experiments.metrics` for these cells.
    frequency_auc, frequency_cll, frequency_error_rate : float
        The same for the frequencies of the states in the seen cells of each column: what anyone could say.
    seconds : float
        Wall time of the fit.
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
    frequency_auc: float
    frequency_cll: float
    frequency_error_rate: float
    seconds: float
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
    estimator: MarkovField,
    folds: int = 10,
    observed: Sequence[str | int] | None = None,
    seed: int = 0,
    progress: Callable[[Fold], None] | None = None,
) -> Evaluation:
    """k-fold cross-validation over cells, as in the paper's section 4.

    The seen cells of the target columns are split at random into ``folds`` parts. Each fold turns one part
    into gaps, fits the estimator to the table, and asks it for its beliefs in these gaps given all other
    cells.

    Parameters
    ----------
    X : frame, 2-D array or sparse 0/1 matrix
        Rows by columns, as for `MarkovField.fit`; cells that are gaps already are not scored.
    estimator : MarkovField
        Cloned for every fold.
    folds : int
        At least 2.
    observed : columns, by name or position, that are conditioned on and never predicted
    seed : int
        Of the split.
    progress : callable, optional
        Gets each `Fold` when it is done.

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
    table = _Cells.of(X, estimator, observed)
    if not 2 <= folds <= table.n_cells:
        raise ValueError(f"folds must be from 2 to the number of seen target cells, {table.n_cells}; got {folds}.")
    done = []
    for k, hidden in enumerate(_split(table, folds, seed)):
        if k == 0:
            _warm_up(table, estimator, hidden, observed)
        done.append(_run_fold(table, estimator, hidden, observed))
        if progress is not None:
            progress(done[-1])
    return Evaluation(tuple(done))


def hold_out(
    X: Any,
    estimator: MarkovField,
    share: float = 0.1,
    observed: Sequence[str | int] | None = None,
    seed: int = 0,
) -> Fold:
    """Hide a share of the seen target cells once, fit to the rest, score the hidden ones; see `evaluate`."""
    if not 0 < share < 1:
        raise ValueError(f"share must lie between 0 and 1, got {share}.")
    table = _Cells.of(X, estimator, observed)
    parts = max(2, round(1 / share))
    if table.n_cells < parts:
        raise DataError(f"The table has {table.n_cells} seen target cells, too few to hide {share:.0%} of them.")
    return _run_fold(table, estimator, next(_split(table, parts, seed)), observed)


@dataclass(frozen=True)
class _Cells:
    """A table, and the true state of each of its target cells."""

    source: Source
    schema: Schema
    truth: Array
    """(rows, targets): index into the states of the whole table, -1 for a gap."""

    @classmethod
    def of(cls, X: Any, estimator: MarkovField, observed: Sequence[str | int] | None) -> _Cells:
        if sp.issparse(X):
            X = X.toarray()
        source = read(X)
        # One iteration says which columns are targets, and refuses unusable data before the long work.
        schema = _first_iteration(estimator, X, observed).field_.schema
        codes = [factorize(source.column(variable.name))[1] for variable in schema.targets]
        return cls(source, schema, np.column_stack(codes))

    @property
    def n_cells(self) -> int:
        return int(np.count_nonzero(self.truth != UNKNOWN))

    def with_gaps(self, hidden: Array) -> Any:
        """The table, same kind, with the ``hidden`` (rows, targets) cells made gaps."""
        return _with_gaps(self.source, {variable.name: hidden[:, v] for v, variable in enumerate(self.schema.targets)})


def _split(table: _Cells, folds: int, seed: int) -> Iterator[Array]:
    """(rows, targets) masks of hidden cells, one per fold."""
    cells = np.flatnonzero(table.truth.ravel() != UNKNOWN)
    mixed = np.random.default_rng(seed).permutation(cells)
    for part in np.array_split(mixed, folds):
        hidden = np.zeros(table.truth.shape, dtype=bool)
        hidden.ravel()[part] = True
        emptied = ~((table.truth != UNKNOWN) & ~hidden).any(axis=0)
        for column in np.flatnonzero(emptied):
            hidden[np.flatnonzero(hidden[:, column])[0], column] = False
        if hidden.any():
            yield hidden
        else:
            raise DataError("Each column has too few values to hide any of them: use fewer folds or more rows.")


def _run_fold(table: _Cells, estimator: MarkovField, hidden: Array, observed: Sequence[str | int] | None) -> Fold:
    field = _fresh(estimator)
    gappy = table.with_gaps(hidden)
    states = {variable.name: variable.states for variable in table.schema.targets}
    started = time.perf_counter()
    field.fit(gappy, observed=observed, states=states)
    seconds = time.perf_counter() - started
    found = field.predict_proba(gappy)
    believed, frequent = [], []
    for v, variable in enumerate(table.schema.targets):
        rows = np.flatnonzero(hidden[:, v])
        truth = table.truth[rows, v]
        believed.append(Answer(found[variable.name][rows], truth))
        seen = np.where(hidden[:, v], UNKNOWN, table.truth[:, v])
        frequencies = _smoothed_frequencies(seen, len(variable.states))
        frequent.append(Answer(np.tile(frequencies, (len(rows), 1)), truth))
    return _as_fold(field, int(hidden.sum()), score(believed), score(frequent), seconds)


def _smoothed_frequencies(seen: Array, n_states: int) -> Array:
    """(states,): shares of the states in the seen cells, with one count added to each."""
    counts = np.bincount(seen[seen != UNKNOWN], minlength=n_states) + 1.0
    return counts / counts.sum()


def _as_fold(field: MarkovField, cells: int, ours: Scores, frequencies: Scores, seconds: float) -> Fold:
    history = nw.from_native(field.history_, eager_only=True)
    induced, active = (int(history[name][-1]) if len(history) else 0 for name in ("features", "active"))
    return Fold(
        cells=cells,
        **asdict(ours),
        **{f"frequency_{name}": value for name, value in asdict(frequencies).items()},
        seconds=seconds,
        induced=induced,
        active=active,
        iterations=field.n_iter_,
        kkt_violation=float(field.kkt_violation_),
        converged=bool(field.converged_),
    )


def _fresh(estimator: MarkovField) -> MarkovField:
    """An unfitted copy that reports to whom the original does."""
    copy: Any = clone(estimator)
    copy._progress = getattr(estimator, "_progress", None)
    return copy


def _warm_up(table: _Cells, estimator: MarkovField, hidden: Array, observed: Sequence[str | int] | None) -> None:
    """Compile what a fit and a prediction with gaps need."""
    gappy = table.with_gaps(hidden)
    _first_iteration(estimator, gappy, observed).predict_proba(gappy)


def _first_iteration(estimator: MarkovField, X: Any, observed: Sequence[str | int] | None) -> MarkovField:
    copy: Any = clone(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return copy.set_params(max_iter=1, verbose=0).fit(X, observed=observed)


def _with_gaps(source: Source, gaps: dict[str, Array]) -> Any:
    """A table, same kind, with cells made gaps: ``{column: (rows,) bool}``."""
    if source.kind == "array":
        kind = source.native.dtype.kind
        array = source.native.astype({"f": source.native.dtype, "i": float, "u": float}.get(kind, object))
        for name, gap in gaps.items():
            array[gap, source.names.index(name)] = np.nan
        return array
    frame: nw.DataFrame = source.native
    changed = []
    for name, gap in gaps.items():
        if gap.any():
            seen = nw.new_series(name, ~gap, nw.Boolean(), backend=frame.implementation)
            changed.append(nw.when(seen).then(nw.col(name)).alias(name))
    return nw.to_native(frame.with_columns(*changed))
