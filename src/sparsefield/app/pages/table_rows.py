"""Rows of the data under a model: how surprising their values are, beliefs about missing ones, completed tables."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from sparsefield.analysis.network import variable_at
from sparsefield.app.pages.cell_beliefs import code_of, group_states, number_range
from sparsefield.data import Relational
from sparsefield.data.column_types import days_of, family_of, write_number
from sparsefield.data.schema import Label, Schema, Variable
from sparsefield.errors import DataError

UNLIKELY = 0.05
"""Probability below which a number is called surprising."""

LEAST = float(np.finfo(float).tiny)

Cell = tuple[str, int, str]
"""Table, row and column of a cell."""


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
    def row_names(self) -> pl.Series | None:
        """Names of the rows: their key, or the first column that is not in the model."""
        known = set(self.known.columns)
        key = self.key or next((name for name in self.raw.columns if name not in known), None)
        return None if key is None or key not in self.raw.columns else self.raw[key].cast(pl.String)


class TableRows:
    """Tables of the data and their model; the name of the only table of a plain field is empty.

    ``data`` are the linked tables of a `RelationalField`.
    """

    def __init__(self, model: Any, tables: dict[str, InputTable], data: Relational | None = None) -> None:
        self.model, self.tables, self.data = model, tables, data
        layout = model.field_.layout
        self.schemas: dict[str, Schema] = dict(zip(layout.tables, layout.schemas, strict=True))

    def check(self, table: str, row: int) -> None:
        """Refuse a row that the data do not have."""
        if table not in self.tables or not 0 <= row < self.tables[table].n_rows:
            raise DataError(f"The data have no row {row + 1}" + (f" of table {table!r}." if table else "."))

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
        rows = [int(text) - 1] if text.isdecimal() and 0 < int(text) <= source.n_rows else []
        if source.row_names is None:
            return rows
        named = source.row_names.str.to_lowercase().str.contains(text, literal=True).fill_null(False)
        return list(dict.fromkeys([*rows, *named.arg_true().head(limit).to_list()]))[:limit]

    def variable(self, table: str, name: str) -> Variable:
        """Return a variable, or refuse a column that the model does not have."""
        return find_variable(self.schemas.get(table), name)

    def values_of(self, table: str, row: int, accepted: Mapping[Cell, Label]) -> dict[str, Any]:
        """Return {column: value} of a row, accepted values included; None where one is missing."""
        values = self.tables[table].known.row(row, named=True)
        return {name: accepted.get((table, row, name), value) for name, value in values.items()}

    def describe(
        self, table: str, row: int, beliefs: Mapping[str, np.ndarray], accepted: Mapping[Cell, Label]
    ) -> dict[str, Any]:
        """Return the values of a row, most surprising first, and beliefs about its missing values, most certain first.

        ``beliefs`` {column: (states,)} of observed values are those given all other values of the row.
        """
        source = self.tables[table]
        values, missing, covariates, unknown = [], [], [], []
        for name, value in self.values_of(table, row, accepted).items():
            variable = self.variable(table, name)
            if variable.role == "observed":
                covariates.append({"name": name, "value": str(value)})
            elif is_known(variable, value):
                shown = _observed(variable, value, beliefs[name])
                values.append({"name": name, "accepted": (table, row, name) in accepted, **shown})
            elif name in source.missing and source.missing[name][row]:
                missing.append({"name": name, **_missing(variable, beliefs[name])})
            else:
                unknown.append({"name": name, "value": str(source.raw[name][row])})
        values.sort(key=lambda shown: -shown["surprise"])
        missing.sort(key=lambda shown: -max(shown["belief"]))
        return {"values": values, "missing": missing, "covariates": covariates, "unknown": unknown}

    def data_with(self, changes: Mapping[Cell, Label | None]) -> Relational:
        """Return the linked tables with changed cells; None makes a cell missing."""
        assert self.data is not None
        changed: dict[str, pl.DataFrame] = {}
        for (table, row, name), state in changes.items():
            frame = changed[table] if table in changed else self.data.tables[table]
            changed[table] = frame.with_columns(_replace_cell(frame[name], row, state))
        return self.data.with_tables(changed)

    def csv(self, table: str, accepted: Mapping[Cell, Label]) -> bytes:
        """Return a table as CSV in the format of the input file, with accepted values in place of missing ones.

        A predicted column that the table lacks is added if one of its values was accepted.
        """
        source = self.tables[table]
        frame = source.raw.with_columns(pl.all().cast(pl.String))
        by_column: dict[str, dict[int, str]] = {}
        for (own, row, name), state in accepted.items():
            if own == table:
                by_column.setdefault(name, {})[row] = _format_state(state, self.variable(table, name).dtype)
        for name, states in by_column.items():
            column = frame[name] if name in frame else pl.Series(name, [None] * source.n_rows, dtype=pl.String)
            frame = frame.with_columns(column.scatter(list(states), pl.Series(states.values(), dtype=pl.String)))
        buffer = io.BytesIO()
        frame.write_csv(buffer, separator=source.separator, include_header=source.header)
        return buffer.getvalue()


def find_variable(schema: Schema | None, name: str) -> Variable:
    """Return a variable of a schema, or refuse a column that it does not have."""
    if schema is None or name not in schema.index_of_name:
        raise DataError(f"The model has no column {name!r}.")
    return variable_at(schema, schema.index_of_name[name])


def is_known(variable: Variable, value: Any) -> bool:
    """Return whether a cell has a value that the model knows."""
    return value is not None and (variable.numeric or variable.role == "observed" or value in variable.code_of_label)


def read_value(variable: Variable, text: str) -> Label:
    """Return the state or number of a variable that a text stands for; of dates, the number of days."""
    if not variable.numeric:
        for state in variable.states:
            if str(state) == text:
                return state
        raise DataError(f"Column {variable.name!r} has no state {text!r}.")
    if family_of(variable.dtype):
        return days_of(variable.name, text, variable.dtype, "evidence")
    try:
        return float(text)
    except ValueError:
        raise DataError(f"Column {variable.name!r} is numeric: {text!r} is no number.") from None


def _observed(variable: Variable, value: Any, belief: np.ndarray) -> dict[str, Any]:
    """Return an observed value, its probability given all others, and what was expected.

    The probability of a number is that of a value at least as far out, on both sides. The surprise is how far the log
    of the probability is below its mean under the predicted distribution, which differs between columns.
    """
    if variable.numeric:
        number = days_of(variable.name, value, variable.dtype, "value") if family_of(variable.dtype) else float(value)
        place = int(variable.position_of_code[code_of(variable, number)])
        upper = np.cumsum(belief[::-1])[::-1]
        probabilities = np.minimum(1.0, 2.0 * np.minimum(np.cumsum(belief), upper))
        expected, surprising = _number_text(variable, belief), bool(probabilities[place] < UNLIKELY)
    else:
        place, best = int(variable.position_of_code[code_of(variable, value)]), int(belief.argmax())
        probabilities, surprising = belief, place != best
        expected = f"{variable.states[best]} ({belief[best]:.0%})"
    logs = np.log(np.maximum(probabilities, LEAST))
    return {
        "value": str(value),
        "probability": float(probabilities[place]),
        "expected": expected,
        "surprising": surprising,
        "surprise": float((belief * logs).sum() - logs[place]),
    }


def _missing(variable: Variable, belief: np.ndarray) -> dict[str, Any]:
    """Return the belief about a missing value: its states, and the value to accept."""
    states, grouped = group_states(variable, belief)
    shown = {"states": [str(state) for state in states], "belief": np.round(grouped, 4).tolist()}
    if not variable.numeric:
        return {**shown, "best": str(variable.states[int(belief.argmax())]), "text": ""}
    best = float(variable.round(np.array(number_range(variable, belief)[0])))
    dated = bool(family_of(variable.dtype))
    value = write_number(best, dtype=variable.dtype) if dated else str(int(best) if variable.whole else best)
    return {**shown, "best": value, "text": _number_text(variable, belief)}


def _number_text(variable: Variable, belief: np.ndarray) -> str:
    mean, spread = number_range(variable, belief)
    return f"{write_number(mean, dtype=variable.dtype)} \u00b1 {write_number(spread)}"


def _replace_cell(column: pl.Series, row: int, state: Label | None) -> pl.Series:
    if column.dtype == pl.Object or (state is not None and column.dtype.is_temporal()):
        values: Sequence[Any] = column.to_list()
        values[row] = state if column.dtype == pl.Object else _date_of_days(column.dtype, float(state or 0))
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


def _format_state(state: Label, dtype: str) -> str:
    """Return a state as a CSV file has it; a number of days as a date."""
    if family_of(dtype) and isinstance(state, (int, float)):
        return write_number(state, dtype=dtype)
    if isinstance(state, float) and state.is_integer():
        return str(int(state))
    return str(state).lower() if isinstance(state, bool) else str(state)
