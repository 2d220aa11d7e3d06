"""Tables in files that are not text: spreadsheets, Parquet, Arrow, JSON lines, SPSS, Stata and SAS."""

from __future__ import annotations

import codecs
import io
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from sparsefield.app.tables.read_options import FileFormat
from sparsefield.app.tables.text import check_header, with_types
from sparsefield.app.tables.values import as_whole
from sparsefield.errors import DataError

STATISTICAL = {"spss": "read_sav", "stata": "read_dta", "sas": "read_sas7bdat", "sas-transport": "read_xport"}
"""{kind of file: the function of pyreadstat that reads it}"""

NEED = "pip install 'sparsefield[files]'"


def read_typed(data: bytes, path: Path, kind: str, name: str) -> pl.DataFrame:
    """Read a file whose columns have types; ``path`` is a file with the content, ``name`` its name in messages."""
    if kind in STATISTICAL:
        table = _read_statistical(path, kind, name)
    elif kind == "parquet":
        table = pl.read_parquet(data)
    elif kind == "jsonl":
        table = pl.read_ndjson(io.BytesIO(data.removeprefix(codecs.BOM_UTF8)), infer_schema_length=None)
    else:
        table = pl.read_ipc(io.BytesIO(data)) if kind == "arrow" else pl.read_ipc_stream(io.BytesIO(data))
    nested = [column for column, dtype in table.schema.items() if dtype.is_nested()]
    if nested:
        raise DataError(
            f"{name}: columns have lists or records as cells, which a table of values does not have; "
            f"columns: {', '.join(nested[:8])}: make a column of each part, or remove them."
        )
    return table


def read_sheet(data: bytes, name: str, sheet: str | None, found: FileFormat) -> tuple[pl.DataFrame, FileFormat]:
    """Read a sheet of a spreadsheet, and say which; its cells are typed as those of text are, as ``found`` says."""
    try:
        import fastexcel
    except ImportError:
        raise DataError(f"{name}: this is an Excel or OpenDocument file: {NEED} to read it.") from None
    try:
        workbook = fastexcel.read_excel(data)
        sheet = choose(workbook.sheet_names, sheet, name, "sheet")
        cells = workbook.load_sheet(sheet, header_row=None, dtypes="string").to_polars()
    except fastexcel.FastExcelError as error:
        raise DataError(f"{name}: the workbook cannot be read ({one_line(error)}): save it again, or as CSV.") from None
    names = [f"x{k}" for k in range(cells.width)]
    if found.header and cells.height:
        names = [cell or f"column {k + 1}" for k, cell in enumerate(cells.row(0))]
        check_header(names, name)
        cells = cells.slice(1)
    cells.columns = names
    table, found = with_types(cells.filter(~pl.all_horizontal(pl.all().is_null())), found)
    for column in table.get_columns():  # spreadsheets store dates as times at midnight
        if column.dtype == pl.Datetime and column.is_not_null().any() and (column == column.dt.truncate("1d")).all():
            table = table.with_columns(column.cast(pl.Date))
    return table, replace(found, table=sheet)


def choose(names: Sequence[str], wanted: str | None, file: str, what: str) -> str:
    """Return the sheet or table to read: the wanted one, or the only one."""
    listed = ", ".join(repr(name) for name in names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    if wanted is not None and wanted not in names:
        raise DataError(f"{file}: there is no {what} {wanted!r}; the file has {listed or 'none'}.")
    if not names:
        raise DataError(f"{file}: there is no {what} in the file: give another file.")
    if wanted is None and len(names) > 1:
        raise DataError(
            f"{file}: there are {len(names)} {what}s, {listed}: choose one, such as with "
            f"--set read.{what}={shlex.quote(names[0])}."
        )
    return names[0] if wanted is None else wanted


def _read_statistical(path: Path, kind: str, name: str) -> pl.DataFrame:
    """Read a file of SPSS, Stata or SAS.

    Values that the file declares missing are null. A column whose values all have labels has the labels: as an Enum, in
    the order of the values, if its measure is ordinal, otherwise as text. Other labeled columns keep their numbers.
    """
    try:
        import pyreadstat
    except ImportError:
        raise DataError(f"{name}: this is a file of SPSS, Stata or SAS: {NEED} to read it.") from None
    try:
        cells, about = getattr(pyreadstat, STATISTICAL[kind])(str(path), output_format="dict")
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, ValueError) as error:
        raise DataError(
            f"{name}: the file cannot be read ({one_line(error)}): export it again, or save it as CSV."
        ) from None
    labels, measures = about.variable_value_labels, about.variable_measure
    return pl.DataFrame(
        labeled_column(column, values, labels.get(column, {}), ordered=measures.get(column) == "ordinal")
        for column, values in cells.items()
    )


def labeled_column(name: str, values: Any, labels: dict[Any, str], *, ordered: bool) -> pl.Series:
    """Return a column with its labels if all its values have some; labels that values share also have the value."""
    column = pl.Series(name, list(values), strict=False)
    if column.dtype == pl.String:
        column = column.set(column.str.strip_chars() == "", None)
    if column.dtype.is_float():
        column = as_whole(column.fill_nan(None))
    if column.dtype.is_numeric():  # Stata labels its missing values .a to .z by letters
        labels = {value: label for value, label in labels.items() if not isinstance(value, str)}
    used = set(column.drop_nulls())
    if not used or not used <= labels.keys():
        return column
    texts, spelled = list(labels.values()), {}
    for value, text in sorted(labels.items()):
        shown = f"{value:g}" if isinstance(value, float) else value
        spelled[value] = text if texts.count(text) == 1 else f"{text} ({shown})"
    # Labels of values that are missing by declaration, such as "refused", are no levels.
    levels = [text for value, text in spelled.items() if min(used) <= value <= max(used)]
    cells = [None if value is None else spelled[value] for value in column]
    return pl.Series(name, cells, dtype=pl.Enum(levels) if ordered else pl.String)


def one_line(error: Exception) -> str:
    """Return the message of an error in one line."""
    return " ".join(str(error).split()).rstrip(".")[:200] or type(error).__name__


@contextmanager
def polars_errors(path: Path | str) -> Iterator[None]:
    """Raise polars' errors as one-line `DataError` with the name of the file."""
    try:
        yield
    except pl.exceptions.PolarsError as error:
        line = (str(error).strip().splitlines() or ["it is damaged"])[0].rstrip(".")
        raise DataError(f"{path}: the file cannot be read ({line}): is it complete?") from error
