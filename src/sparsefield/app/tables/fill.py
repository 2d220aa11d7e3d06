"""Filling tables: cells converted to the types of a model, and its answers written into the missing ones."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.read import list_columns
from sparsefield.app.tables.values import SAMPLE_ROWS, date_formats, missing_cells, numbers_of, parse_dates
from sparsefield.data.column_types import DATED
from sparsefield.data.schema import Schema, Variable
from sparsefield.errors import DataError, UnknownStateWarning, count, list_first

OTHER_LEVEL = "(other)"
"""The state of the levels that --top-levels groups."""


@dataclass(frozen=True)
class TableToFill:
    """A table, its columns of a model with the types of the model, and the missing cells of those that it predicts."""

    cells: pl.DataFrame
    """All columns of the table, as they are."""
    format: FileFormat
    schema: Schema
    table: pl.DataFrame
    """The columns of the model in its order, null where values are missing or unknown."""
    missing: dict[str, pl.Series]
    """{column: (rows,) bool} for columns with missing values."""

    @property
    def n_missing(self) -> int:
        """Number of missing cells."""
        return sum(int(missing.sum()) for missing in self.missing.values())

    def take(self, rows: Any) -> TableToFill:
        """Return some rows of the table, by their numbers; a row may occur several times."""
        missing = {name: cells.gather(rows) for name, cells in self.missing.items()}
        return TableToFill(self.cells[rows], self.format, self.schema, self.table[rows], missing)

    def fill(self, answer: pl.DataFrame, dates: Mapping[str, str] | None = None) -> pl.DataFrame:
        """Return the cells with those of ``answer`` where they are missing; others stay exactly as they are.

        In a file of text, numbers have the decimals of their column, and dates its format; those of a column without
        any value that of ``dates``, {column: format}.
        """
        columns, variables = [], {variable.name: variable for variable in self.schema.targets}
        for name, missing in self.missing.items():
            labels = _plain_labels(variables[name], answer[name])
            if self.format.is_text:
                labels = self._as_text(variables[name], labels, (dates or {}).get(name, ""))
            if name in self.cells.columns:
                cells = self.cells[name]
                cells = cells if cells.dtype != pl.Null else cells.cast(labels.dtype)
                labels = labels.round() if cells.dtype.is_integer() and labels.dtype.is_float() else labels
                try:
                    labels = labels.cast(cells.dtype).zip_with(missing, cells)
                except pl.exceptions.PolarsError:
                    labels = labels.cast(pl.String).zip_with(missing, cells.cast(pl.String))
            columns.append(labels.alias(name))
        return self.cells.with_columns(columns)

    def _as_text(self, variable: Variable, labels: pl.Series, form: str) -> pl.Series:
        """Return labels as their column writes them: a state as a cell with it, a number with the decimals of all."""
        name, decimal = variable.name, self.format.decimal or "."
        values, texts = pl.Series([]), pl.Series([], dtype=pl.String)
        if name in self.cells.columns:
            known = self.table[name].is_not_null()
            values = self.table[name].filter(known)
            texts = self.cells[name].cast(pl.String).filter(known).str.strip_chars()
        if labels.dtype in (pl.Date, pl.Datetime):
            form = next(iter(date_formats(texts, self.format.dates)), form)
            return labels.dt.to_string(form.replace("%.f", "")) if form else labels
        if not (labels.dtype.is_numeric() or labels.dtype == pl.Boolean):
            return labels
        lengths = texts.head(SAMPLE_ROWS).str.extract(rf"[{decimal}](\d*)$").str.len_chars().fill_null(0)
        decimals = lengths[0] if lengths.n_unique() == 1 and not texts.str.contains("[eE]").any() else 0
        decimals = decimals if len(texts) else variable.decimals or 0
        spelled = {} if variable.numeric else dict(zip(values, texts, strict=True))

        def spell(label: float) -> str:
            if isinstance(label, bool):
                return str(label).lower()
            fixed = decimals > 0 and decimals >= (variable.decimals or 0)
            return (f"{label:.{decimals}f}" if fixed else f"{label}".removesuffix(".0")).replace(".", decimal)

        words = [None if label is None else spelled.get(label) or spell(label) for label in labels]
        return pl.Series(name, words, dtype=pl.String)


def prepare_table(
    cells: pl.DataFrame, schema: Schema, found: FileFormat, name: str = "", *, known_states: bool = False
) -> TableToFill:
    """Convert a table, whose cells may be text, for a model; messages mention the ``name`` of one of several tables.

    Values that do not occur in training are null in the converted table, with a warning, but not missing: they stay.
    With ``known_states`` they are refused, because a row with them cannot be a sample from the model.
    """
    the_table = f"Table {name!r}" if name else "The table"
    columns, missing, added = {}, {}, []
    # Computed for all columns at once, because polars is slow for thousands of single columns.
    missing_of = missing_cells(cells, found.missing_words).to_dict()
    all_missing = pl.Series([True] * cells.height, dtype=pl.Boolean)
    for variable in schema.variables:
        if variable.role == "latent":
            missing[variable.name] = all_missing
            continue
        if variable.name in missing_of:
            column, is_missing = cells[variable.name], missing_of[variable.name]
        elif variable.role == "observed":
            raise DataError(f"{the_table} lacks the observed column {variable.name!r}, which the model needs: add it.")
        else:
            added.append(variable.name)
            # Text is read as dates where the model has dates, also if there is none.
            column = pl.Series(variable.name, [None] * cells.height, dtype=pl.String if variable.dtype else pl.Null)
            is_missing = all_missing
        columns[variable.name] = values = _typed(variable, column.set(is_missing, None), found)
        unknown = column.filter(values.is_null() & ~is_missing).to_list()
        states = set(variable.states) if known_states and not variable.numeric else None
        if states is not None:
            pairs = zip(column.filter(~is_missing), values.filter(~is_missing), strict=True)
            unknown = [cell for cell, label in pairs if label not in states]
        if unknown:
            place = f"Column {variable.name!r}" + (f" of table {name!r}" if name else "")
            if variable.numeric:
                problem = f"is numeric in the model, but holds {unknown[0]!r} in the table"
                raise DataError(f"{place} {problem}: correct the cell, or leave it empty.")
            if states is not None:
                raise DataError(
                    f"{place} has {count(len(unknown), 'cell')} with values that are not states of the model, such as "
                    f"{unknown[0]!r}; its states are {list_first([str(state) for state in variable.states], 6)}: "
                    "correct these cells, or leave them empty."
                )
            warnings.warn(
                f"{place} has {count(len(unknown), 'cell')} with values that do not occur in training (such as "
                f"{unknown[0]!r}); they are treated as missing and left unchanged.",
                UnknownStateWarning,
                stacklevel=2,
            )
        if variable.role == "target" and is_missing.any():
            missing[variable.name] = is_missing
    if added:
        what = f"has no column {added[0]!r}; it is added and filled"
        if len(added) > 1:
            what = f"lacks {len(added):,} columns of the model, which are added and filled; {list_columns(added)}"
        warnings.warn(f"{the_table} {what}.", UserWarning, stacklevel=2)
    table = pl.DataFrame({column: columns[column] for column in schema.input_names})
    return TableToFill(cells, found, schema, table, missing)


def _typed(variable: Variable, values: pl.Series, found: FileFormat) -> pl.Series:
    """Convert values to the type of the variable's states; values that cannot be converted become null."""
    if values.dtype.is_temporal():  # which the model refuses if it does not know dates here
        return values
    if values.dtype == pl.String:
        values = values.str.strip_chars()
        dates = DATED.fullmatch(variable.dtype)
        if dates and dates[1] in ("date", "datetime"):
            formats = date_formats(values, found.dates)
            if len(formats) > 1:
                what = f"has dates such as {values.drop_nulls()[0]!r}, whose order is not clear"
                raise DataError(f"Column {variable.name!r} {what}: give --set read.dates=day-first or =month-first.")
            times = parse_dates(values, formats[0]) if formats else values.str.to_datetime(strict=False)
            times = times.cast(pl.Datetime("us"))
            return times.dt.date() if dates[1] == "date" else times.dt.replace_time_zone(dates[3])
    kinds = {type(state) for state in variable.states} or {float}
    if kinds == {str}:
        words = values.cast(pl.String)
        known = list(map(str, variable.states))
        return words.set(~words.is_in(known), OTHER_LEVEL) if OTHER_LEVEL in known else words
    if str in kinds:  # numbers and text
        known = {str(state): state for state in variable.states}
        return pl.Series(values.name, [known.get(word) for word in values.cast(pl.String)], dtype=pl.Object)
    if kinds == {bool}:
        truth = {"true": True, "false": False}
        is_text = values.dtype == pl.String
        return values.str.to_lowercase().replace_strict(truth, default=None) if is_text else values.cast(pl.Boolean)
    if values.dtype == pl.String:
        return numbers_of(values, found.decimal or ".", known=True)
    return values.cast(pl.Float64, strict=False)  # integers compare equal, as in training


def _plain_labels(variable: Variable, labels: pl.Series) -> pl.Series:
    """Return labels as integers if the states are whole numbers, and as text if they are numbers and text."""
    if labels.dtype.is_temporal() or labels.dtype in (pl.Categorical, pl.Enum):
        return labels
    if labels.dtype == pl.Object:
        return pl.Series(labels.name, [None if label is None else str(label) for label in labels], dtype=pl.String)
    whole = variable.whole if variable.numeric else {type(state) for state in variable.states} == {int}
    return labels.cast(pl.Int64, strict=False) if whole else labels


def date_columns_as_text(table: pl.DataFrame, dates: Mapping[str, str]) -> pl.DataFrame:
    """Return a table whose columns of dates are text, in the formats {column: format} of the file of a fit."""
    known = {name: form for name, form in dates.items() if name in table.columns and table[name].dtype.is_temporal()}
    return table.with_columns(table[name].dt.to_string(form.replace("%.f", "")) for name, form in known.items())


def probability_table(prepared: TableToFill, beliefs: Mapping[str, tuple[Sequence[Any], np.ndarray]]) -> pl.DataFrame:
    """Return one row per missing value and state, sorted by row.

    ``beliefs`` are {column: (states, their probabilities (rows, states))}. The states of a number are its bins, whose
    bounds get the decimal mark of the file.
    """
    types = {"row": pl.Int64, "column": pl.String, "state": pl.String, "probability": pl.Float64}
    parts, decimal = [pl.DataFrame(schema=types)], prepared.format.decimal or "."
    variables = {variable.name: variable for variable in prepared.schema.targets}
    for name, missing in prepared.missing.items():
        states, shares = beliefs[name]
        rows, has_bins = np.flatnonzero(missing.to_numpy()), variables[name].numeric and not variables[name].dtype
        labels = [str(one).replace(".", decimal) if has_bins or isinstance(one, float) else str(one) for one in states]
        columns = np.repeat(rows + 1, len(labels)), [name] * (len(rows) * len(labels)), labels * len(rows)
        parts.append(pl.DataFrame(dict(zip(types, (*columns, shares[rows].ravel()), strict=True)), schema=types))
    return pl.concat(parts).sort("row", maintain_order=True)
