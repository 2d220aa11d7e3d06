"""Answers of inference: probabilities, numbers and labels of cells, from beliefs and codes of compiled rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from sparsefield.data import Label, Schema, Table, Variable, make_frame
from sparsefield.data.column_types import family_of
from sparsefield.data.frame_building import Frame, make_column, with_index_of
from sparsefield.data.frames import Columns
from sparsefield.data.labels import as_numbers
from sparsefield.inference import state_probabilities
from sparsefield.options import number, problems_of, raise_problems

Fill = Literal["auto", "mean", "median", "mode"]
"""What is put into a missing cell; "auto" takes the mean of a number, and the most probable state of others."""

Cells = dict[str, tuple[np.ndarray, list[Label]]]
"""{column: (rows, labels)}: what is put into missing cells."""

SHOWN_COLUMNS = 6


def has_numbers(variable: Variable) -> bool:
    """Return whether the states of a variable are numbers with an order, so that they have a mean."""
    if not variable.ordered:
        return False
    return all(isinstance(state, (int, float)) and not isinstance(state, bool) for state in variable.states)


def mean(variable: Variable, probabilities: np.ndarray) -> np.ndarray:
    """Return the expected value of cells with the given probabilities (cells, states)."""
    return probabilities @ np.array(variable.states, dtype=float)


def deviation(variable: Variable, probabilities: np.ndarray) -> np.ndarray:
    """Return the standard deviation of cells, that within the levels of a number included."""
    values = np.array(variable.states, dtype=float)
    # In standard deviations, since squares of tiny numbers would be 0.
    centered = (values - mean(variable, probabilities)[:, None]) / variable.scale
    within = np.zeros(len(values))
    if variable.limits:
        below, above = (values - variable.edges[:-1]) / variable.scale, (variable.edges[1:] - values) / variable.scale
        lower = _lower_shares(variable)
        within = (lower * np.square(below) + (1.0 - lower) * np.square(above)) / 3.0
    return variable.scale * np.sqrt((probabilities * (np.square(centered) + within)).sum(axis=1))


def quantile_places(probabilities: np.ndarray, q: float) -> np.ndarray:
    """Return the number of the state (cells,) at which the cumulated probability reaches q."""
    reached = np.cumsum(probabilities, axis=1) >= q - 1e-12
    return np.where(reached.any(axis=1), reached.argmax(axis=1), probabilities.shape[1] - 1)


def quantile(variable: Variable, probabilities: np.ndarray, q: float) -> np.ndarray:
    """Return a quantile of the numbers in cells; within a level of a number it is interpolated."""
    place = quantile_places(probabilities, q)
    values = np.array(variable.states, dtype=float)[place]
    if not variable.limits:
        return values
    cells = np.arange(len(place))
    inside = probabilities[cells, place]
    before = np.cumsum(probabilities, axis=1)[cells, place] - inside
    share = np.clip((q - before) / np.maximum(inside, np.finfo(float).tiny), 0.0, 1.0)
    values = _within_levels(variable, place, share)
    return np.round(values) if variable.whole else values


def shares_below(variable: Variable, bound: float, *, included: bool) -> np.ndarray:
    """Return the share of each level of a number, (states,), that is below a bound, or equal to it if ``included``."""
    values, low, high = np.array(variable.states, dtype=float), variable.edges[:-1], variable.edges[1:]
    lower, flat = _lower_shares(variable), variable.is_point
    below, above = (
        np.clip(np.divide(bound - start, end - start, out=1.0 * (bound >= end), where=(end > start) & ~flat), 0.0, 1.0)
        for start, end in ((low, values), (values, high))
    )
    points = values <= bound if included else values < bound
    return np.where(flat, points, lower * below + (1.0 - lower) * above)


def _lower_shares(variable: Variable) -> np.ndarray:
    """Return the share of each level below its mean, (states,): values are spread evenly below, and evenly above it.

    With this share the mean of the spread is that of the level, however skewed the values in it are.
    """
    low, high = variable.edges[:-1], variable.edges[1:]
    return np.clip((high - np.array(variable.states)) / np.maximum(high - low, np.finfo(float).tiny), 0.0, 1.0)


def _within_levels(variable: Variable, place: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return the values at shares, from 0 to 1, of the levels at some places."""
    values, lower = np.array(variable.states, dtype=float)[place], _lower_shares(variable)[place]
    low, high, tiny = variable.edges[place], variable.edges[place + 1], np.finfo(float).tiny
    below = low + np.minimum(share / np.maximum(lower, tiny), 1.0) * (values - low)
    above = values + np.clip((share - lower) / np.maximum(1.0 - lower, tiny), 0.0, 1.0) * (high - values)
    return np.where(share < lower, below, above)


def _fill_labels(variable: Variable, probabilities: np.ndarray, fill: Fill) -> list[Label]:
    """Return what is put into missing cells with the given probabilities (cells, states)."""
    if fill == "auto":
        fill = "mean" if variable.numeric else "mode"
    if variable.numeric:
        if fill == "mode":  # of the density: levels differ in width
            numbers = np.array(variable.states, dtype=float)[(probabilities / variable.widths).argmax(axis=1)]
        else:
            numbers = mean(variable, probabilities) if fill == "mean" else quantile(variable, probabilities, 0.5)
        return _as_labels(variable, numbers)
    if not variable.ordered or fill == "mode":
        places = probabilities.argmax(axis=1)
    elif fill == "mean":
        places = np.round(probabilities @ np.arange(probabilities.shape[1])).astype(np.int64)
    else:
        places = quantile_places(probabilities, 0.5)
    return [variable.states[place] for place in places]


def _as_labels(variable: Variable, numbers: np.ndarray) -> list[Label]:
    numbers = variable.round(numbers)
    return [int(number) for number in numbers] if variable.whole else numbers.tolist()


def labels_of_codes(variable: Variable, codes: np.ndarray, rng: np.random.Generator | None = None) -> list[Label]:
    """Return values for codes of states; a number is drawn from its level, or is its mean without ``rng``."""
    place = variable.position_of_code[codes]
    if not variable.numeric:
        return [variable.states[k] for k in place]
    if variable.limits and rng is not None:
        return _as_labels(variable, _within_levels(variable, place, rng.random(len(place))))
    return _as_labels(variable, np.array(variable.states, dtype=float)[place])


def states_of(schema: Schema) -> dict[str, list[Label]]:
    """Return the sorted states of every target column."""
    return {variable.name: list(variable.states) for variable in schema.targets}


def probabilities(schema: Schema, beliefs: np.ndarray) -> dict[str, np.ndarray]:
    """Return {column: (rows, states)} of the columns with states from (states, rows) beliefs."""
    return {v.name: state_probabilities(schema, k, beliefs) for k, v in enumerate(schema.targets) if not v.numeric}


def check_fill(fill: Fill) -> None:
    """Refuse another ``fill`` than those of `Fill`."""
    if not isinstance(fill, str) or fill not in get_args(Fill):
        raise ValueError(f"fill must be one of {', '.join(get_args(Fill))}, got {fill!r}.")


def filled_cells(table: Table, beliefs: np.ndarray, fill: Fill) -> Cells:
    """Return what is put into each missing cell; values that training never saw are left as they are."""
    return {
        variable.name: (rows, _fill_labels(variable, state_probabilities(table.schema, k, beliefs[:, rows]), fill))
        for k, variable, rows in _cells_to_fill(table)
    }


def drawn_cells(table: Table, codes: np.ndarray, seed: np.random.SeedSequence | None = None) -> Cells:
    """Return the states of missing cells by codes (targets, rows); without a seed, numbers are means of levels."""
    columns = drawn_columns(table.schema, codes, seed)
    return {v.name: (rows, [columns[v.name][row] for row in rows]) for _, v, rows in _cells_to_fill(table)}


def drawn_columns(
    schema: Schema, codes: np.ndarray, seed: np.random.SeedSequence | None = None
) -> dict[str, list[Label]]:
    """Return {column: labels} of (targets, rows) codes, in the order of the input columns."""
    rngs = [None] * len(schema.targets) if seed is None else map(np.random.default_rng, seed.spawn(len(schema.targets)))
    parts = zip(schema.targets, codes, rngs, strict=True)
    columns = {variable.name: labels_of_codes(variable, part, rng) for variable, part, rng in parts}
    return {name: columns[name] for name in schema.order if name in columns}


def _cells_to_fill(table: Table) -> Iterator[tuple[int, Variable, np.ndarray]]:
    """Yield number, variable and rows of the missing cells of each target, without values that training never saw."""
    codes = table.codes()
    for k, variable in enumerate(table.schema.targets):
        rows = np.setdiff1d(np.flatnonzero(codes[k] < 0), table.unknown_rows.get(variable.name, []))
        if len(rows):
            yield k, variable, rows


class Posterior:
    """The distribution of every target cell of a table given all observed cells of its row.

    An observed cell has its value with certainty. Frames are of the library of the table, polars for arrays; those of
    pandas have its index.
    """

    def __init__(self, source: Columns, table: Table, marginals: np.ndarray, kind: str) -> None:
        self._source, self._table, self._marginals, self._kind = source, table, marginals, kind

    @cached_property
    def probabilities(self) -> dict[str, Frame]:
        """{column: frame with a column for each state} of the nominal and ordinal columns.

        If a column has both the number 1 and the text 1 as states, the name of the latter has quotes.
        """
        frames = {}
        for k, variable in self._targets():
            if not variable.numeric:
                texts = Counter(map(str, variable.states))
                names = [repr(state) if texts[str(state)] > 1 else str(state) for state in variable.states]
                names = names if len(set(names)) == len(names) else list(map(repr, variable.states))
                frames[variable.name] = self._make(dict(zip(names, self._states(k).T, strict=True)))
        return frames

    def state_probabilities(self, column: str) -> np.ndarray:
        """Return the probabilities (rows, states) of the states of a column, or of the levels of a numeric one."""
        return self._states(self._table.schema.index_of_name[column])

    @cached_property
    def mean(self) -> Frame:
        """Means of the numeric columns, and of ordinal ones whose states are numbers; the mean of dates is a date."""
        return self._make(self._typed(self._summaries(mean)))

    @cached_property
    def std(self) -> Frame:
        """Standard deviations of the columns of `mean`, of dates, times and durations in days; 0 for observed cells."""
        return self._make(self._summaries(deviation, of_known=np.zeros_like))

    def quantile(self, q: float) -> Frame:
        """Return a quantile of every cell of the numeric and ordinal columns: 0.5 is the median.

        Quantiles of dates are dates, and those of ordered categories have their type.
        """
        raise_problems(problems_of({"q": q}, {"q": number(0.0, 1.0)}))
        columns: dict[str, Any] = self._summaries(lambda variable, p: quantile(variable, p, float(q)))
        for k, variable in self._targets():
            if variable.ordered and not has_numbers(variable):
                places = quantile_places(self._states(k), float(q))
                columns[variable.name] = [variable.states[place] for place in places]
        return self._make(self._typed({v.name: columns[v.name] for _, v in self._targets() if v.name in columns}))

    def __repr__(self) -> str:
        names = [variable.name for _, variable in self._targets()]
        shown = ", ".join(names[:SHOWN_COLUMNS]) + (", ..." if len(names) > SHOWN_COLUMNS else "")
        return f"Posterior({self._table.n_rows} rows; {shown})"

    def _targets(self) -> list[tuple[int, Variable]]:
        """Return number and variable of each target column, in the order of the table."""
        schema = self._table.schema
        place = {name: k for k, name in enumerate(schema.order)}
        return sorted(enumerate(schema.targets), key=lambda item: place[item[1].name])

    def _states(self, target: int) -> np.ndarray:
        return state_probabilities(self._table.schema, target, self._marginals)

    def _make(self, columns: dict[str, Any]) -> Frame:
        return with_index_of(self._source, make_frame(columns, self._kind))

    def _typed(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Return columns of dates as dates, and of ordered categories with their type."""
        typed = dict(columns)
        for k, variable in self._targets():
            dated = family_of(variable.dtype) != ""
            if variable.name in typed and (dated or (variable.dtype and not has_numbers(variable))):
                labels, known = list(typed[variable.name]), self._table.codes()[k] >= 0
                typed[variable.name] = make_column(variable.name, labels, variable.column_type, self._kind, known)
        return typed

    def _summaries(
        self,
        summary: Callable[[Variable, np.ndarray], np.ndarray],
        of_known: Callable[[np.ndarray], np.ndarray] = lambda values: values,
    ) -> dict[str, np.ndarray]:
        """Return {column: numbers} of the columns with numbers: a summary of missing cells, a function of others."""
        columns = {}
        for k, variable in self._targets():
            if not has_numbers(variable):
                continue
            values = summary(variable, self._states(k))
            if variable.role == "target" and variable.name in self._source.names:
                column, known = self._source.column(variable.name), self._table.codes()[k] >= 0
                numbers = np.zeros(len(values))
                # Values that do not occur in training may be text.
                numbers[known] = as_numbers(replace(column, values=column.values[known[column.present]], present=known))
                values = np.where(known, of_known(numbers), values)
            columns[variable.name] = values
        return columns
