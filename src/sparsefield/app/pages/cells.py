"""Cells of tables under a model: beliefs, shares of states, and how surprising values are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from sparsefield.app.tables.fill import TableToFill
from sparsefield.data import Label, Relational, Schema, Variable
from sparsefield.data.column_types import days_of, family_of, write_number
from sparsefield.data.table import Table
from sparsefield.errors import DataError
from sparsefield.estimators import MarkovField, RelationalField
from sparsefield.estimators.answers import deviation, mean
from sparsefield.estimators.compiled_rows import compile_densely, infer_cells
from sparsefield.inference import state_probabilities

UNLIKELY = 0.05
"""Probability below which a number is called surprising."""

LEAST = float(np.finfo(float).tiny)

# -- beliefs and shares ----------------------------------------------------------------------------------------------


def table_beliefs(
    model: MarkovField | RelationalField, data: Any
) -> tuple[dict[str, dict[str, np.ndarray]], frozenset[str]]:
    """Return {table: {column: (rows, states)}} as ``predict_proba`` has them, with the levels of numbers; and methods.

    ``data`` are linked tables for a `RelationalField`, and one table, whose name is empty, for a `MarkovField`.
    """
    dataset = compile_densely(model, data)
    answer = infer_cells(model, dataset)
    parts = zip(dataset.layout.tables, dataset.layout.schemas, answer.conditionals, strict=True)
    return {name: beliefs_by_column(schema, own) for name, schema, own in parts}, answer.methods


def beliefs_by_column(schema: Schema, probabilities: np.ndarray) -> dict[str, np.ndarray]:
    """Return {column: (rows, states)} of all targets from the probabilities (states, rows) of a table."""
    return {v.name: state_probabilities(schema, k, probabilities) for k, v in enumerate(schema.targets)}


def group_states(variable: Variable, probabilities: np.ndarray) -> tuple[tuple[Label, ...], np.ndarray]:
    """Return the states of a variable with their probabilities, (..., states): for a number, its bins."""
    if not variable.bins:
        return variable.states, probabilities
    starts = np.flatnonzero(np.diff(variable.bins, prepend=-1))
    return variable.bin_labels, np.add.reduceat(probabilities, starts, axis=-1)


def state_labels(variable: Variable) -> tuple[Label, ...]:
    """Return the states of a variable, or the bins of a number."""
    return variable.bin_labels if variable.bins else variable.states


def code_of(variable: Variable, value: Any) -> int:
    """Return the code of a state, or of the level of a number."""
    return int(variable.codes_of(np.array([value]))[0]) if variable.numeric else variable.code_of_label[value]


def number_range(variable: Variable, belief: np.ndarray) -> tuple[float, float]:
    """Return the mean and the standard deviation of a number with probabilities (states,) of its levels."""
    return float(mean(variable, belief[None])[0]), float(deviation(variable, belief[None])[0])


class DataShares:
    """States of one table, as positions among the states of their variable, or among the bins of a number."""

    def __init__(self, table: Table) -> None:
        self.schema, self.n_rows = table.schema, table.n_rows
        self._codes = table.codes()

    def matching(self, evidence: Mapping[str, Any]) -> np.ndarray | None:
        """Return (rows,) bool: which rows agree with evidence {predicted column: state or number}.

        A number agrees if it is in the same bin. None where a covariate is among the evidence: the compiled rows have
        no states of covariates.
        """
        rows = np.ones(self.n_rows, dtype=bool)
        for name, value in evidence.items():
            number = self.schema.index_of_name[name]
            if number >= len(self.schema.targets):
                return None
            variable = self.schema.variable(number)
            rows &= self._positions(number) == _shown_positions(variable)[code_of(variable, value)]
        return rows

    def counts(self, name: str, rows: np.ndarray | None = None) -> np.ndarray | None:
        """Return (states,) the rows with each state of a column, of some rows or of all; None for a covariate."""
        number = self.schema.index_of_name[name]
        if number >= len(self.schema.targets):
            return None
        positions = self._positions(number)
        chosen = positions >= 0 if rows is None else rows & (positions >= 0)
        return np.bincount(positions[chosen], minlength=len(state_labels(self.schema.variable(number))))

    def cross_counts(self, first: str, second: str) -> np.ndarray | None:
        """Return (states, states) the rows with each pair of states of two columns; None for a covariate."""
        numbers = self.schema.index_of_name[first], self.schema.index_of_name[second]
        if max(numbers) >= len(self.schema.targets):
            return None
        a, b = map(self._positions, numbers)
        sizes = [len(state_labels(self.schema.variable(number))) for number in numbers]
        known = (a >= 0) & (b >= 0)
        return np.bincount(a[known] * sizes[1] + b[known], minlength=sizes[0] * sizes[1]).reshape(sizes)

    def _positions(self, number: int) -> np.ndarray:
        codes = np.asarray(self._codes[number])
        return np.where(codes >= 0, _shown_positions(self.schema.variable(number))[codes], -1)


def _shown_positions(variable: Variable) -> np.ndarray:
    """Return (codes,) the position of each code among the states, or the bins of a number."""
    positions = np.asarray(variable.position_of_code)
    return np.unique(variable.bins, return_inverse=True)[1][positions] if variable.bins else positions


# -- rows of the data ------------------------------------------------------------------------------------------------


class TableRows:
    """Tables of the data and their model; the name of the only table of a plain field is empty.

    ``data`` are the linked tables of a `RelationalField`.
    """

    def __init__(self, model: Any, tables: Mapping[str, TableToFill], data: Relational | None = None) -> None:
        self.model, self.tables, self.data = model, tables, data
        keys = {} if data is None else data.keys
        self._names: dict[str, pl.Series | None] = {}
        """Names of the rows of a table: their key, or the first column that is not in the model."""
        for table, source in tables.items():
            known = source.schema.index_of_name
            key = keys.get(table) or next((name for name in source.cells.columns if name not in known), None)
            self._names[table] = None if key not in source.cells.columns else source.cells[key].cast(pl.String)

    def check(self, table: str, row: int) -> None:
        """Refuse a row that the data do not have."""
        if table not in self.tables or not 0 <= row < self.tables[table].cells.height:
            raise DataError(f"The data have no row {row + 1}" + (f" of table {table!r}." if table else "."))

    def row_name(self, table: str, row: int) -> str:
        """Return the name and number of a row."""
        names = self._names[table]
        name = None if names is None else names[row]
        return f"row {row + 1}" if name is None else f"{name} (row {row + 1})"

    def values(self, table: str, row: int) -> dict[str, Any]:
        """Return {column: value} of a row; none of a table that only links others."""
        cells = self.tables[table].table
        return cells.row(row, named=True) if cells.width else {}

    def find(self, table: str, text: str, limit: int) -> list[int]:
        """Return rows by their number, or by text that their name contains."""
        n_rows, names, text = self.tables[table].cells.height, self._names[table], text.strip().lower()
        if not text:
            return list(range(min(limit, n_rows)))
        rows = [int(text) - 1] if text.isdecimal() and 0 < int(text) <= n_rows else []
        if names is None:
            return rows
        named = names.str.to_lowercase().str.contains(text, literal=True).fill_null(False)
        return list(dict.fromkeys([*rows, *named.arg_true().head(limit).to_list()]))[:limit]

    def variable(self, table: str, name: str) -> Variable:
        """Return a variable, or refuse a column that the model does not have."""
        return find_variable(self.tables[table].schema if table in self.tables else None, name)

    def describe(self, table: str, row: int, beliefs: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Return the values of a row, most surprising first, and beliefs about its missing values, most certain first.

        ``beliefs`` {column: (states,)} of observed values are those given all other values of the row.
        """
        source = self.tables[table]
        values, missing, covariates, unknown = [], [], [], []
        for name, value in self.values(table, row).items():
            variable = self.variable(table, name)
            if variable.role == "observed":
                covariates.append({"name": name, "value": str(value)})
            elif is_known(variable, value):
                values.append({"name": name, **_observed(variable, value, beliefs[name])})
            elif name in source.missing and source.missing[name][row]:
                missing.append({"name": name, **_missing(variable, beliefs[name])})
            else:
                unknown.append({"name": name, "value": str(source.cells[name][row])})
        values.sort(key=lambda shown: -shown["surprise"])
        missing.sort(key=lambda shown: -max(shown["belief"]))
        return {"values": values, "missing": missing, "covariates": covariates, "unknown": unknown}


def find_variable(schema: Schema | None, name: str) -> Variable:
    """Return a variable of a schema, or refuse a column that it does not have."""
    if schema is None or name not in schema.index_of_name:
        raise DataError(f"The model has no column {name!r}.")
    return schema.variable(schema.index_of_name[name])


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
        "value": str(value).removesuffix(".0") if variable.numeric else str(value),
        "probability": float(probabilities[place]),
        "expected": expected,
        "surprising": surprising,
        "surprise": float((belief * logs).sum() - logs[place]),
    }


def _missing(variable: Variable, belief: np.ndarray) -> dict[str, Any]:
    """Return the belief about a missing value: its states, and the value that `predict` fills in."""
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
