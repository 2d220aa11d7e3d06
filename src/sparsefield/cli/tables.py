"""Tables in files: reading CSV and Parquet, writing them whole or not at all."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Reading",
    "check_output",
    "find_columns",
    "listed",
    "read_table",
    "with_found_types",
    "write_table",
]

MISSING = ("", "NA", "NaN", "null", "?")
PARQUET = (".parquet", ".pq")
TABLES = (".csv", ".tsv", *PARQUET)
SHOWN_COLUMNS = 8


@dataclass(frozen=True)
class Reading:
    """How a file is to be read.

    Attributes
    ----------
    missing : tuple of str
        Words that stand for a gap; none given means the usual ones. An empty cell is always a gap. In
        Parquet, which has gaps of its own, only words that were given count.
    header : bool
        Whether a CSV's first line has the names; else the columns are x0, x1, ...
    separator : str or None
        None is a comma, or a tab for .tsv.
    """

    missing: tuple[str, ...] = ()
    header: bool = True
    separator: str | None = None

    def markers(self, path: Path) -> list[str]:
        """Words that stand for a gap in the file at ``path``."""
        if _is_parquet(path):
            return list(self.missing)
        return ["", *self.missing] if self.missing else list(MISSING)


def read_table(path: Path, reading: Reading, *, as_text: bool = False) -> pl.DataFrame:
    """Read a table. With ``as_text`` the cells of a CSV stay the text they are, markers of gaps included."""
    import polars as pl

    if not path.is_file():
        raise DataError(f"{path}: there is no such file.")
    with _polars_errors(path):
        if _is_parquet(path):
            table = pl.read_parquet(path)
            table = table if as_text else _with_gaps(table, reading.markers(path))
        else:
            table = _read_csv(path, reading, as_text)
    if table.height == 0:
        raise DataError(f"{path}: there are no rows.")
    return table


def find_columns(asked: Sequence[str] | None, columns: Sequence[str], option: str) -> list[str]:
    """Names given by an option, each one name or several with commas between them."""
    names: list[str] = []
    for word in asked or ():
        names += [word] if word in columns else [part.strip() for part in word.split(",")]
    for name in names:
        if name not in columns:
            raise DataError(f"{option} names the column {name!r}, which is not there; {listed(columns)}.")
    return list(dict.fromkeys(names))


def listed(columns: Sequence[str]) -> str:
    """Some of the columns, for a message."""
    rest = len(columns) - SHOWN_COLUMNS
    return f"columns: {', '.join(columns[:SHOWN_COLUMNS])}" + (f" and {rest} more" if rest > 0 else "")


def check_output(path: Path, suffixes: Sequence[str] = ()) -> None:
    """Refuse a place that cannot be written to before the long work starts."""
    if suffixes and path.suffix.lower() not in suffixes:
        raise DataError(f"{path}: the name of the output should end in {', '.join(suffixes)}.")
    if not path.parent.is_dir():
        raise DataError(f"{path}: the folder '{path.parent}' does not exist; make it first.")
    if path.is_dir():
        raise DataError(f"{path}: this is a folder; name a file.")
    if not os.access(path.parent, os.W_OK):
        raise DataError(f"{path}: the folder '{path.parent}' cannot be written to.")


def write_table(table: pl.DataFrame, path: Path, separator: str | None = None) -> None:
    """Write a table as CSV or Parquet, by the suffix; an old file is replaced only by a complete new one."""
    from sparsefield.field.storage import write_atomically

    buffer = io.BytesIO()
    with _polars_errors(path):
        if _is_parquet(path):
            table.write_parquet(buffer)
        else:
            table.write_csv(buffer, separator=_separator(path, separator))
    write_atomically(path, buffer.getvalue())


def with_found_types(table: pl.DataFrame) -> pl.DataFrame:
    """A table of text with the types that its cells have."""
    import polars as pl

    return pl.read_csv(io.BytesIO(table.write_csv().encode()), infer_schema_length=None)


def _read_csv(path: Path, reading: Reading, as_text: bool) -> pl.DataFrame:
    import polars as pl

    options: dict[str, Any] = {"separator": _separator(path, reading.separator)}
    first = pl.read_csv(path, has_header=False, n_rows=1, infer_schema=False, **options)
    names = [name or "" for name in first.row(0)] if first.height else []
    if reading.header:
        _check_header(names, path)
    else:
        options["new_columns"] = [f"x{k}" for k in range(first.width)]
    if as_text:
        return pl.read_csv(path, has_header=reading.header, infer_schema=False, **options)
    # Types are found from all rows, so that a late word in a column of numbers makes it a column of words.
    return pl.read_csv(
        path,
        has_header=reading.header,
        infer_schema_length=None,
        null_values=reading.markers(path),
        **options,
    )


def _check_header(names: list[str], path: Path) -> None:
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        shown = ", ".join(repr(name) for name in twice[:5])
        raise DataError(
            f"{path}: several columns are named {shown}: rename them so that each name stands once. "
            "(Is there a header at all? If not: --no-header.)"
        )
    other = next((mark for mark in (";", "\t", "|") if len(names) == 1 and mark in names[0]), None)
    if other:
        raise DataError(f"{path}: there is only one column, {names[0]!r}: is this --separator {other!r}?")


def _with_gaps(table: pl.DataFrame, markers: list[str]) -> pl.DataFrame:
    import polars as pl
    import polars.selectors as cs

    if not markers:
        return table
    return table.with_columns(pl.when(~cs.string().is_in(markers)).then(cs.string()).name.keep())


@contextmanager
def _polars_errors(path: Path) -> Iterator[None]:
    """polars' errors, with the name of the file and without advice for programmers."""
    import polars as pl

    try:
        yield
    except pl.exceptions.PolarsError as error:
        line = str(error).strip().splitlines()[0].rstrip(".")
        if "more fields than defined" in line:
            line = "a row has more cells than the header has names"
        raise DataError(f"{path}: {line}.") from error


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in PARQUET


def _separator(path: Path, wanted: str | None) -> str:
    if wanted is None:
        return "\t" if path.suffix.lower() == ".tsv" else ","
    if wanted in ("\\t", "tab"):
        return "\t"
    if len(wanted) != 1:
        raise DataError(f"--separator must be one character, or 'tab'; got {wanted!r}.")
    return wanted
