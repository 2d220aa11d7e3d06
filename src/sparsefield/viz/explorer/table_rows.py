"""The rows of a table, or of linked tables: what is surprising in one, what its gaps may be, and what was accepted."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sparsefield.data.schema import Label, Schema
from sparsefield.viz.explorer.conditional_beliefs import answerer, noted, row_beliefs
from sparsefield.viz.explorer.subgraph import variable_at

if TYPE_CHECKING:
    from sparsefield.data import Relational

__all__ = ["Accepted", "Cell", "MissingCell", "RowView", "Rows", "TableGiven"]


@dataclass(frozen=True)
class TableGiven:
    """One table of the data."""

    raw: pl.DataFrame
    """As it came; cells of a CSV as text."""
    known: pl.DataFrame
    """The columns that the model knows, with its types; null for a gap, and for values that it cannot read."""
    missing: dict[str, pl.Series] = field(default_factory=dict)
    """Predicted columns that have gaps -> (rows,) bool."""
    name: str = "completed.csv"
    """Of the file to download."""
    separator: str = ","
    header: bool = True
    key: str | None = None
    """The column that tells rows apart."""

    @property
    def n_rows(self) -> int:
        return self.known.height

    @cached_property
    def missing_rows(self) -> dict[str, frozenset[int]]:
        """{column: rows that have a gap there}"""
        return {name: frozenset(missing_cell.arg_true().to_list()) for name, missing_cell in self.missing.items()}

    @cached_property
    def names_of_rows(self) -> pl.Series | None:
        """What rows are called: their key, or else the first column that the model does not know."""
        known = set(self.known.columns)
        others = [name for name in self.raw.columns if name not in known]
        key = self.key or (others[0] if others else None)
        return None if key is None or key not in self.raw.columns else self.raw[key].cast(pl.String)


@dataclass(frozen=True)
class Cell:
    """A seen cell, and how probable it is given everything else."""

    name: str
    state: Label
    probability: float
    expected: Label
    """The state that is most probable given everything else."""
    expected_probability: float
    accepted: bool

    @property
    def log_probability(self) -> float:
        """ln p(cell | all others)."""
        return math.log(max(self.probability, np.finfo(float).tiny))


@dataclass(frozen=True)
class MissingCell:
    """A gap, and what is believed of it."""

    name: str
    states: tuple[Label, ...]
    belief: np.ndarray
    """(states,)"""

    @property
    def best(self) -> int:
        return int(self.belief.argmax())


@dataclass(frozen=True)
class RowView:
    """What a field says of one row."""

    cells: list[Cell]
    """Most surprising first."""
    missing: list[MissingCell]
    """Most certain first."""
    observed: list[tuple[str, Any]]
    """Columns that are conditioned on, with their values."""
    unknown: list[tuple[str, Any]]
    """Cells with values that training never saw."""
    latent: list[MissingCell]
    """Variables that no table has."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Accepted:
    """A filled value that was taken over."""

    table: str
    row: int
    name: str
    state: Label


class Rows:
    """Rows under a model, and the filled values that were accepted of them.

    Parameters
    ----------
    model : fitted estimator
    tables : {name: TableGiven}; the one table of a plain field is called ""
    data : the linked tables, for a `RelationalField`
    """

    def __init__(self, model: Any, tables: dict[str, TableGiven], data: Relational | None = None) -> None:
        self.model, self.tables, self.data = model, tables, data
        layout = model.field_.layout
        self.schemas: dict[str, Schema] = dict(zip(layout.tables, layout.schemas, strict=True))
        self.accepted: dict[tuple[str, int, str], Accepted] = {}
        self._all: tuple[Any, Any] = (None, None)

    def row_name(self, table: str, row: int) -> str:
        names = self.tables[table].names_of_rows
        name = None if names is None else names[row]
        return f"row {row + 1}" if name is None else f"{name} (row {row + 1})"

    def find(self, table: str, words: str, limit: int) -> list[int]:
        """Rows by their number or by what they are called."""
        given, words = self.tables[table], words.strip().lower()
        found = [int(words) - 1] if words.isdecimal() and 0 < int(words) <= given.n_rows else []
        if not words or given.names_of_rows is None:
            return (found or list(range(min(limit, given.n_rows)))) if not words else found
        called = given.names_of_rows.str.to_lowercase().str.contains(words, literal=True).fill_null(False)
        return list(dict.fromkeys([*found, *called.arg_true().head(limit).to_list()]))[:limit]

    def look(self, table: str, row: int, method: str) -> RowView:
        """Surprising cells and gaps of a row, given all its other cells and what was accepted."""
        given, schema = self.tables[table], self.schemas[table]
        with noted() as notes:
            beliefs = self._beliefs(table, row, method)
        values = given.known.row(row, named=True)
        cells, missing, observed, unknown, latent = [], [], [], [], []
        for name in schema.order:
            variable = variable_at(schema, schema.index_of_name[name])
            if variable.role == "latent":
                latent.append(MissingCell(name, variable.states, beliefs[name]))
            if name not in values:
                continue
            if variable.role == "observed":
                observed.append((name, values[name]))
                continue
            taken = self.accepted.get((table, row, name))
            value, belief = values[name] if taken is None else taken.state, beliefs[name]
            if value is not None and value in variable.code_of_label:
                place = int(variable.position_of_code[variable.code_of_label[value]])
                best = int(belief.argmax())
                states = variable.states
                cells.append(
                    Cell(
                        name, states[place], float(belief[place]), states[best], float(belief[best]), taken is not None
                    )
                )
            elif row in given.missing_rows.get(name, ()):
                missing.append(MissingCell(name, variable.states, belief))
            else:
                unknown.append((name, given.raw[name][row]))
        cells.sort(key=lambda cell: cell.probability)
        missing.sort(key=lambda missing_cell: -missing_cell.belief.max())
        return RowView(cells, missing, observed, unknown, latent, tuple(notes))

    def accept(self, table: str, row: int, names: list[str] | None, method: str) -> list[Accepted]:
        """Take over the most probable states of some gaps of a row, or of all, as they are shown now."""
        missing = self.look(table, row, method).missing
        taken = [
            Accepted(table, row, missing_cell.name, missing_cell.states[missing_cell.best])
            for missing_cell in missing
            if names is None or missing_cell.name in names
        ]
        self.accepted.update({(one.table, one.row, one.name): one for one in taken})
        return taken

    def undo(self, table: str, row: int, name: str) -> None:
        """Make an accepted cell a gap again."""
        self.accepted.pop((table, row, name), None)

    def completed(self, table: str) -> pl.DataFrame:
        """The table as it came, as text, with what was accepted in its gaps.

        A predicted column that it lacks is added once something of it was accepted.
        """
        given = self.tables[table]
        frame = given.raw.with_columns(pl.all().cast(pl.String))
        by_name: dict[str, list[Accepted]] = {}
        for one in self.accepted.values():
            if one.table == table:
                by_name.setdefault(one.name, []).append(one)
        there, made = set(frame.columns), []
        for name, mine in by_name.items():
            column = frame[name] if name in there else pl.Series(name, [None] * given.n_rows, dtype=pl.String)
            words = pl.Series([_written(one.state) for one in mine], dtype=pl.String)
            made.append(column.scatter([one.row for one in mine], words).alias(name))
        return frame.with_columns(made)

    def csv(self, table: str) -> bytes:
        """`completed` as a CSV, laid out as the file that it came from."""
        given, buffer = self.tables[table], io.BytesIO()
        self.completed(table).write_csv(buffer, separator=given.separator, include_header=given.header)
        return buffer.getvalue()

    # -- behind them -------------------------------------------------------------------------------------------------

    def _beliefs(self, table: str, row: int, method: str) -> dict[str, np.ndarray]:
        model = answerer(self.model, method)
        if self.data is None:
            values = self.tables[table].known.row(row, named=True)
            values |= {one.name: one.state for one in self.accepted.values() if (one.table, one.row) == (table, row)}
            return row_beliefs(model, [values.get(name) for name in self.schemas[table].order])
        # Rows that are linked inform each other, so all are asked together, and once.
        key = method, tuple(self.accepted.values())
        if self._all[0] != key:
            self._all = key, model.predict_proba(self._linked())
        return {name: belief[row] for name, belief in self._all[1][table].items()}

    def _linked(self) -> Any:
        assert self.data is not None
        changed = {}
        for name in dict.fromkeys(one.table for one in self.accepted.values()):
            frame = self.data.tables[name]
            for one in self.accepted.values():
                if one.table == name:
                    frame = frame.with_columns(_with_cell(frame[one.name], one.row, one.state))
            changed[name] = frame
        return self.data.with_tables(changed)


def _with_cell(column: pl.Series, row: int, state: Label) -> pl.Series:
    if column.dtype == pl.Object:  # numbers among words
        values = column.to_list()
        values[row] = state
        return pl.Series(column.name, values, dtype=pl.Object)
    dtype = pl.Series([state]).dtype if column.dtype == pl.Null else column.dtype
    return column.cast(dtype).scatter(row, pl.Series([state]).cast(dtype))


def _written(state: Label) -> str:
    """A state as a CSV has it."""
    return str(state).lower() if isinstance(state, bool) else str(state)
