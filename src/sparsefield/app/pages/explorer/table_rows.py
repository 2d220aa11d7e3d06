"""This module describes rows under a model: surprising values, beliefs about missing values, accepted values."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from sparsefield.analysis.network import variable_at
from sparsefield.app.pages.explorer.cell_beliefs import (
    cell_beliefs,
    expected_log_probability,
    group_states,
    number_range,
    tail_probabilities,
)
from sparsefield.app.pages.explorer.conditional_beliefs import RowBeliefs, collect_warnings, row_beliefs, with_method
from sparsefield.data import Relational
from sparsefield.data.column_types import days_of, family_of
from sparsefield.data.number_text import write_number
from sparsefield.data.schema import Label, Schema, Variable

UNLIKELY = 0.05
"""Probability below which a number is called surprising."""

LEAST = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class InputTable:
    """One table of the data."""

    raw: pl.DataFrame
    """The table as it was read; cells of a CSV file are text."""
    known: pl.DataFrame
    """The columns of the model, with its types; null for missing values and for values unknown to the model."""
    missing: dict[str, pl.Series] = field(default_factory=dict)
    """{column: (rows,) bool}: where the predicted columns have missing values."""
    name: str = "completed.csv"
    """Name of the file to download."""
    separator: str = ","
    header: bool = True
    key: str | None = None
    """The column that identifies rows."""

    @property
    def n_rows(self) -> int:
        return self.known.height

    @cached_property
    def missing_rows(self) -> dict[str, frozenset[int]]:
        """{column: rows in which its value is missing}"""
        return {name: frozenset(missing.arg_true().to_list()) for name, missing in self.missing.items()}

    @cached_property
    def row_names(self) -> pl.Series | None:
        """Names of the rows: their key, or the first column that is not in the model."""
        known = set(self.known.columns)
        key = self.key or next((name for name in self.raw.columns if name not in known), None)
        return None if key is None or key not in self.raw.columns else self.raw[key].cast(pl.String)


@dataclass(frozen=True)
class ObservedValue:
    """A value of a row, and its probability given all other values.

    The probability of a number is that of a value at least as far out, on both sides.
    """

    name: str
    state: Label
    probability: float
    expected: Label
    """The most probable state given all other values, or the mean of a number."""
    expected_probability: float
    accepted: bool
    spread: float | None = None
    """Standard deviation of a number given all other values; None for other variables."""
    dtype: str = ""
    """Type of a column of dates, times or durations, whose numbers are days."""

    @property
    def is_surprising(self) -> bool:
        """Whether another state is more probable, or a number is in the outermost twentieth."""
        return self.expected != self.state if self.spread is None else self.probability < UNLIKELY

    expected_log: float = 0.0
    """Mean of the log-probability under the predicted distribution, which is lower for columns of many states."""

    @property
    def log_probability(self) -> float:
        """Natural logarithm of the probability of the value given all others."""
        return math.log(max(self.probability, LEAST))

    @property
    def surprise(self) -> float:
        """How far the log-probability is below its mean under the predicted distribution."""
        return self.expected_log - self.log_probability


@dataclass(frozen=True)
class MissingValue:
    """A missing value or a latent variable of a row, and the belief about it."""

    name: str
    states: tuple[Label, ...]
    """States of a nominal or ordinal variable, bins of a number."""
    belief: np.ndarray
    """(states,): the probability of each state."""
    number: float | int | None = None
    """Mean of a number; None for other variables."""
    spread: float | None = None
    """Standard deviation of a number; None for other variables."""
    dtype: str = ""
    """Type of a column of dates, times or durations, whose numbers are days."""
    ordered: bool = False

    @property
    def best(self) -> Label:
        """The most probable state, or the mean of a number."""
        return self.states[int(self.belief.argmax())] if self.number is None else self.number


@dataclass(frozen=True)
class RowView:
    """A row under a model."""

    values: list[ObservedValue]
    """Most surprising first."""
    missing: list[MissingValue]
    """Most certain first."""
    observed: list[tuple[str, Any]]
    """Covariates (observed columns) with their values."""
    unknown: list[tuple[str, Any]]
    """Columns whose value did not occur in training, with that value."""
    latent: list[MissingValue]
    """Latent variables, which no table contains."""
    methods: frozenset[str]
    """The inference methods that computed the beliefs about missing values."""
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class AcceptedValue:
    """An imputed value that the user accepted."""

    table: str
    row: int
    name: str
    state: Label


class TableRows:
    """Rows of tables under a model, and the imputed values that were accepted.

    The name of the only table of a plain field is empty; ``data`` are the linked tables of a `RelationalField`.
    """

    def __init__(self, model: Any, tables: dict[str, InputTable], data: Relational | None = None) -> None:
        self.model, self.tables, self.data = model, tables, data
        layout = model.field_.layout
        self.schemas: dict[str, Schema] = dict(zip(layout.tables, layout.schemas, strict=True))
        self.accepted: dict[tuple[str, int, str], AcceptedValue] = {}
        self._cache: tuple[Any, Any] = (None, None)

    def row_name(self, table: str, row: int) -> str:
        """Return the name and number of a row."""
        names = self.tables[table].row_names
        name = None if names is None else names[row]
        return f"row {row + 1}" if name is None else f"{name} (row {row + 1})"

    def find(self, table: str, text: str, limit: int) -> list[int]:
        """Return rows by their number, or by text that their name contains."""
        source, text = self.tables[table], text.strip().lower()
        if not text:
            return list(range(min(limit, source.n_rows)))
        found = [int(text) - 1] if text.isdecimal() and 0 < int(text) <= source.n_rows else []
        if source.row_names is None:
            return found
        named = source.row_names.str.to_lowercase().str.contains(text, literal=True).fill_null(False)
        return list(dict.fromkeys([*found, *named.arg_true().head(limit).to_list()]))[:limit]

    def describe(self, table: str, row: int, method: str) -> RowView:
        """Return the values of a row, most surprising first, and beliefs about its missing values.

        Both are given all other values of the row, accepted ones included.
        """
        source, schema = self.tables[table], self.schemas[table]
        with collect_warnings() as lines:
            found = self._beliefs(table, row, method)
        beliefs, cells = found.values, source.known.row(row, named=True)
        values, missing, observed, unknown, latent = [], [], [], [], []
        for name in schema.order:
            variable = variable_at(schema, schema.index_of_name[name])
            if variable.role == "latent":
                latent.append(MissingValue(name, variable.states, beliefs[name]))
            if name not in cells:
                continue
            if variable.role == "observed":
                observed.append((name, cells[name]))
                continue
            accepted = self.accepted.get((table, row, name))
            value, belief = cells[name] if accepted is None else accepted.state, beliefs[name]
            if variable.numeric and value is not None:
                values.append(_observed_number(variable, cell_number(variable, value), belief, accepted is not None))
            elif value is not None and value in variable.code_of_label:
                k, best = int(variable.position_of_code[variable.code_of_label[value]]), int(belief.argmax())
                shown = variable.states[k], float(belief[k]), variable.states[best], float(belief[best])
                expected = expected_log_probability(belief, belief)
                values.append(ObservedValue(name, *shown, accepted is not None, expected_log=expected))
            elif row in source.missing_rows.get(name, ()):
                missing.append(_missing_value(variable, belief))
            else:
                unknown.append((name, source.raw[name][row]))
        values.sort(key=lambda one: -one.surprise)
        missing.sort(key=lambda one: -one.belief.max())
        return RowView(values, missing, observed, unknown, latent, found.methods, tuple(lines))

    def accept(self, table: str, row: int, names: list[str] | None, method: str) -> list[AcceptedValue]:
        """Accept the most probable states of some missing values of a row, or of all, as they are shown now."""
        new = [
            AcceptedValue(table, row, one.name, one.best)
            for one in self.describe(table, row, method).missing
            if names is None or one.name in names
        ]
        self.accepted.update({(one.table, one.row, one.name): one for one in new})
        return new

    def undo(self, table: str, row: int, name: str) -> None:
        """Make an accepted value missing again."""
        self.accepted.pop((table, row, name), None)

    def completed(self, table: str) -> pl.DataFrame:
        """Return the table as text, with accepted values in place of missing ones.

        A predicted column that the table lacks is added if one of its values was accepted.
        """
        source = self.tables[table]
        frame = source.raw.with_columns(pl.all().cast(pl.String))
        states: dict[str, dict[int, str]] = {}
        for one in self.accepted.values():
            if one.table == table:
                states.setdefault(one.name, {})[one.row] = _format_state(one.state, self.dtype(table, one.name))
        for name, by_row in states.items():
            column = frame[name] if name in frame else pl.Series(name, [None] * source.n_rows, dtype=pl.String)
            frame = frame.with_columns(column.scatter(list(by_row), pl.Series(by_row.values(), dtype=pl.String)))
        return frame

    def csv(self, table: str) -> bytes:
        """Return `completed` as CSV, in the format of the input file."""
        source, buffer = self.tables[table], io.BytesIO()
        self.completed(table).write_csv(buffer, separator=source.separator, include_header=source.header)
        return buffer.getvalue()

    def dtype(self, table: str, name: str) -> str:
        """Return the type of a column of dates, times or durations; empty for others."""
        schema = self.schemas[table]
        return variable_at(schema, schema.index_of_name[name]).dtype

    def _beliefs(self, table: str, row: int, method: str) -> RowBeliefs:
        model = with_method(self.model, method)
        if self.data is None:
            values = self.tables[table].known.row(row, named=True)
            values |= {one.name: one.state for one in self.accepted.values() if (one.table, one.row) == (table, row)}
            return row_beliefs(model, [values.get(name) for name in self.schemas[table].order])
        # Linked rows depend on each other, so the beliefs of all rows are computed together and cached.
        key = method, tuple(self.accepted.values())
        if self._cache[0] != key:
            self._cache = key, cell_beliefs(model, self.data_with())
        found = self._cache[1]
        return RowBeliefs({name: belief[row] for name, belief in found.values[table].items()}, found.methods)

    def data_with(self, changes: Sequence[tuple[str, int, str, Label | None]] = ()) -> Relational:
        """Return the linked tables with accepted values, and with changes (table, row, column, value or None)."""
        assert self.data is not None
        changed: dict[str, pl.DataFrame] = {}
        accepted = [(one.table, one.row, one.name, one.state) for one in self.accepted.values()]
        for table, row, name, state in (*accepted, *changes):
            frame = changed[table] if table in changed else self.data.tables[table]
            changed[table] = frame.with_columns(_replace_cell(frame[name], row, state))
        return self.data.with_tables(changed)

    def is_missing(self, table: str, row: int, name: str) -> bool:
        """Return whether a cell has no value, not even an accepted one."""
        return (table, row, name) not in self.accepted and row in self.tables[table].missing_rows.get(name, ())


def _observed_number(variable: Variable, value: float, belief: np.ndarray, accepted: bool) -> ObservedValue:
    place = int(variable.position_of_code[variable.codes_of(np.array([value]))[0]])
    mean, spread = number_range(variable, belief)
    shown = int(value) if variable.whole and value.is_integer() else value
    tails = tail_probabilities(belief)
    expected = expected_log_probability(belief, tails)
    return ObservedValue(
        variable.name, shown, float(tails[place]), mean, 1.0, accepted, spread, variable.dtype, expected
    )


def _missing_value(variable: Variable, belief: np.ndarray) -> MissingValue:
    states, grouped = group_states(variable, belief)
    if not variable.numeric:
        return MissingValue(variable.name, states, grouped, ordered=variable.ordered)
    mean, spread = number_range(variable, belief)
    number = _rounded(variable, mean)
    return MissingValue(variable.name, states, grouped, number, spread, variable.dtype, variable.ordered)


def _rounded(variable: Variable, number: float) -> float:
    found = float(variable.round(np.array(number)))
    return int(found) if variable.whole else found


def _replace_cell(column: pl.Series, row: int, state: Label | None) -> pl.Series:
    if column.dtype == pl.Object:  # mixed types
        values = column.to_list()
        values[row] = state
        return pl.Series(column.name, values, dtype=pl.Object)
    if state is not None and column.dtype.is_temporal():
        values = column.to_list()
        values[row] = _date_of_days(column.dtype, float(state))
        return pl.Series(column.name, values, dtype=column.dtype)
    dtype = pl.Series([state]).dtype if column.dtype == pl.Null else column.dtype
    return column.cast(dtype).scatter(row, pl.Series([state]).cast(dtype))


def _date_of_days(dtype: pl.DataType, days: float) -> Any:
    """Return a number of days as a date, time or duration."""
    if dtype == pl.Duration:
        return timedelta(days=days)
    if dtype == pl.Time:
        return (datetime(1970, 1, 1) + timedelta(days=days)).time()
    zone = getattr(dtype, "time_zone", None)
    moment = datetime(1970, 1, 1, tzinfo=UTC if zone else None) + timedelta(days=days)
    return moment.date() if dtype == pl.Date else moment


def cell_number(variable: Variable, value: Any) -> float:
    """Return the value of a numeric cell; of dates, the number of days."""
    return days_of(variable.name, value, variable.dtype, "evidence") if family_of(variable.dtype) else float(value)


def _format_state(state: Label, dtype: str) -> str:
    """Return a state as a CSV file has it; a number of days as a date."""
    if family_of(dtype) and isinstance(state, (int, float)):
        return write_number(state, dtype=dtype)
    return str(state).lower() if isinstance(state, bool) else str(state)
