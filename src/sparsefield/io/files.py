"""This module reads one table from a CSV or Parquet file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl

MISSING_MARKERS = ("", "NA", "NaN", "null", "?")
PARQUET = (".parquet", ".pq")
SHOWN_COLUMNS = 8


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a table from a file.

    Attributes
    ----------
    missing : tuple of str
        Markers of missing values; if empty, NA, NaN, null and ? are used. An empty cell is always missing. In
        Parquet, which has nulls, only the markers given here count.
    header : bool
        Whether the first line of a CSV has the column names; otherwise they are x0, x1, ...
    separator : str or None
        The separator of a CSV; None is a comma, or a tab for .tsv.
    """

    missing: tuple[str, ...] = ()
    header: bool = True
    separator: str | None = None

    def markers(self, path: Path) -> list[str]:
        """Return the markers of missing values for the file at ``path``."""
        if is_parquet(path):
            return list(self.missing)
        return ["", *self.missing] if self.missing else list(MISSING_MARKERS)


def read_table(
    path: Path | str, reading: ReadOptions | None = None, *, as_text: bool = False, may_be_empty: bool = False
) -> pl.DataFrame:
    """Read one table from a CSV or Parquet file, by its suffix.

    Parameters
    ----------
    path : file; every suffix except ``.parquet`` and ``.pq`` is read as CSV
    reading : options for missing values and the CSV format; None takes the defaults
    as_text : whether the cells of a CSV are returned as text, including markers of missing values
    may_be_empty : whether a table without rows, such as a CSV with only a header, is accepted

    Returns
    -------
    polars.DataFrame

    Raises
    ------
    DataError
        If the file does not exist or holds no table.
    """
    import polars as pl
    import polars.selectors as cs

    path, reading = Path(path), reading or ReadOptions()
    if not path.is_file():
        raise DataError(f"{path}: there is no such file.")
    with polars_errors(path):
        if is_parquet(path):
            table = pl.read_parquet(path)
            markers = reading.markers(path)
            if markers and not as_text:
                table = table.with_columns(pl.when(~cs.string().is_in(markers)).then(cs.string()).name.keep())
        else:
            table = _read_csv(path, reading, as_text)
    if table.height == 0 and not may_be_empty:
        raise DataError(f"{path}: the table has no rows.")
    return table


def list_columns(columns: Sequence[str]) -> str:
    """Return a short list of column names for a message."""
    rest = len(columns) - SHOWN_COLUMNS
    return f"columns: {', '.join(columns[:SHOWN_COLUMNS])}" + (f" and {rest} more" if rest > 0 else "")


def _read_csv(path: Path, reading: ReadOptions, as_text: bool) -> pl.DataFrame:
    import polars as pl

    options: dict[str, Any] = {"separator": resolve_separator(path, reading.separator)}
    first = pl.read_csv(path, has_header=False, n_rows=1, infer_schema=False, **options)
    names = [name or "" for name in first.row(0)] if first.height else []
    if reading.header:
        _check_header(names, path)
        if any('"' in name for name in names):
            options["new_columns"] = names  # polars keeps doubled quotes in a header but not in cells
    else:
        options["new_columns"] = [f"x{k}" for k in range(first.width)]
    if as_text:
        return pl.read_csv(path, has_header=reading.header, infer_schema=False, **options)
    # Types are inferred from all rows, so that a column with any text is text.
    options |= {"infer_schema_length": None, "null_values": reading.markers(path)}
    table = pl.read_csv(path, has_header=reading.header, **options)
    return _keep_leading_zeros(table, path, reading)


def _keep_leading_zeros(table: pl.DataFrame, path: Path, reading: ReadOptions) -> pl.DataFrame:
    """Return a table in which columns with leading zeros, such as postal codes, are text instead of numbers."""
    import polars as pl

    places = [k for k, dtype in enumerate(table.dtypes) if dtype.is_numeric()]
    if not places:
        return table
    separator = resolve_separator(path, reading.separator)
    text = pl.read_csv(path, has_header=reading.header, infer_schema=False, separator=separator, columns=places)
    codes = []
    for place, column in zip(places, text.get_columns(), strict=True):
        if column.str.contains(r"^\s*[+-]?0\d").any():
            kept = column.set(column.is_in(reading.markers(path)), None)
            codes.append(kept.alias(table.columns[place]))
    return table.with_columns(codes)


def _check_header(names: list[str], path: Path) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        shown = ", ".join(repr(name) for name in twice[:5])
        raise DataError(
            f"{path}: several columns are named {shown}: make the names unique. (If the file has no header, use "
            "--no-header on the command line or header = false in a schema file.)"
        )
    other = next((mark for mark in (";", "\t", "|") if len(names) == 1 and mark in names[0]), None)
    if other:
        raise DataError(
            f"{path}: there is only one column, {names[0]!r}: if cells are separated by {other!r}, use "
            f"--separator {other!r} on the command line or separator = {other!r} in a schema file."
        )


@contextmanager
def polars_errors(path: Path) -> Iterator[None]:
    """Raise polars' errors as one-line `DataError` with the name of the file."""
    import polars as pl

    try:
        yield
    except pl.exceptions.PolarsError as error:
        line = str(error).strip().splitlines()[0].rstrip(".")
        if "more fields than defined" in line:
            line = "a row has more cells than the header has names"
        raise DataError(f"{path}: {line}.") from error


def is_parquet(path: Path) -> bool:
    """Return whether the suffix of a file is that of Parquet."""
    return path.suffix.lower() in PARQUET


def resolve_separator(path: Path, wanted: str | None) -> str:
    """Return the separator of a CSV: the requested one, otherwise the default for the suffix."""
    if wanted is None:
        return "\t" if path.suffix.lower() == ".tsv" else ","
    if wanted in ("\\t", "tab"):
        return "\t"
    if len(wanted) != 1:
        raise DataError(f"The separator must be one character, or 'tab'; got {wanted!r}.")
    return wanted
