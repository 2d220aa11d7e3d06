"""One table in a file: CSV or Parquet."""

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

__all__ = ["PARQUET", "ReadOptions", "is_parquet", "list_columns", "polars_errors", "read_table", "resolve_separator"]

MISSING_MARKERS = ("", "NA", "NaN", "null", "?")
PARQUET = (".parquet", ".pq")
SHOWN_COLUMNS = 8


@dataclass(frozen=True)
class ReadOptions:
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
        if is_parquet(path):
            return list(self.missing)
        return ["", *self.missing] if self.missing else list(MISSING_MARKERS)


def read_table(
    path: Path | str, reading: ReadOptions | None = None, *, as_text: bool = False, may_be_empty: bool = False
) -> pl.DataFrame:
    """Read one table from a CSV or Parquet file, by its suffix.

    Parameters
    ----------
    path : file; all but ``.parquet`` and ``.pq`` is read as CSV
    reading : which words are gaps, and how a CSV is laid out; None takes the usual
    as_text : whether the cells of a CSV stay the text they are, markers of gaps included
    may_be_empty : whether a table without rows, such as a CSV with a header alone, is let through

    Returns
    -------
    polars.DataFrame

    Raises
    ------
    DataError
        When there is no such file, or no table in it.
    """
    import polars as pl

    path, reading = Path(path), reading or ReadOptions()
    if not path.is_file():
        raise DataError(f"{path}: there is no such file.")
    with polars_errors(path):
        if is_parquet(path):
            table = pl.read_parquet(path)
            table = table if as_text else _with_gaps(table, reading.markers(path))
        else:
            table = _read_csv(path, reading, as_text)
    if table.height == 0 and not may_be_empty:
        raise DataError(f"{path}: there are no rows.")
    return table


def list_columns(columns: Sequence[str]) -> str:
    """Some of the columns, for a message."""
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
            options["new_columns"] = names  # of a header polars keeps doubled quotes, of cells it does not
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
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        shown = ", ".join(repr(name) for name in twice[:5])
        raise DataError(
            f"{path}: several columns are named {shown}: rename them so that each name stands once. "
            "(Is there a header at all? Without one, on the command line: --no-header.)"
        )
    other = next((mark for mark in (";", "\t", "|") if len(names) == 1 and mark in names[0]), None)
    if other:
        raise DataError(
            f"{path}: there is only one column, {names[0]!r}: do the cells stand between {other!r}? Then say so: "
            f"--separator {other!r} on the command line, separator = {other!r} in a schema file."
        )


def _with_gaps(table: pl.DataFrame, markers: list[str]) -> pl.DataFrame:
    import polars as pl
    import polars.selectors as cs

    if not markers:
        return table
    return table.with_columns(pl.when(~cs.string().is_in(markers)).then(cs.string()).name.keep())


@contextmanager
def polars_errors(path: Path) -> Iterator[None]:
    """polars' errors, with the name of the file and without advice for programmers."""
    import polars as pl

    try:
        yield
    except pl.exceptions.PolarsError as error:
        line = str(error).strip().splitlines()[0].rstrip(".")
        if "more fields than defined" in line:
            line = "a row has more cells than the header has names"
        raise DataError(f"{path}: {line}.") from error


def is_parquet(path: Path) -> bool:
    """Whether a file is Parquet, by its suffix."""
    return path.suffix.lower() in PARQUET


def resolve_separator(path: Path, wanted: str | None) -> str:
    """The separator of a CSV: the one wanted, else the usual one for the suffix."""
    if wanted is None:
        return "\t" if path.suffix.lower() == ".tsv" else ","
    if wanted in ("\\t", "tab"):
        return "\t"
    if len(wanted) != 1:
        raise DataError(f"The separator must be one character, or 'tab'; got {wanted!r}.")
    return wanted
