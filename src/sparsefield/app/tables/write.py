"""Tables to files: text in the format of the file that was read, Parquet, Arrow, JSON lines or Excel."""

from __future__ import annotations

import gzip
import io
import os
import sys
import warnings
from collections.abc import Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.app.tables.file_format import PLAIN, FileFormat
from sparsefield.app.tables.read import PARQUET, STANDARD_INPUT, is_parquet, list_columns, refuse_nested
from sparsefield.atomic_write import write_atomically
from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl

STANDARD_OUTPUT = Path(STANDARD_INPUT)
TAB_FILES = (".tsv", ".tab")
KIND_OF_SUFFIX = {
    **dict.fromkeys((".csv", ".txt", *TAB_FILES), "csv"),
    **dict.fromkeys(PARQUET, "parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    ".xlsx": "sheet",
}
GZIP = ".gz"

MOST_ROWS, MOST_COLUMNS, LONGEST_TEXT, LARGEST_WHOLE = 1_048_575, 16_384, 32_767, 2**53
"""Size of an Excel sheet without its header, and bounds of its cells."""

NO_CHARACTERS = {"csv": "\0", "sheet": "[\ufffe\uffff]"}
"""{kind of file: pattern of the characters that its cells cannot have}"""


def find_output_kind(path: Path) -> str | None:
    """Return the kind of an output by its name; None if the name does not tell one.

    Examples
    --------
    >>> find_output_kind(Path("filled.tsv.gz")), find_output_kind(Path("filled.parquet"))
    ('csv', 'parquet')
    """
    kind = KIND_OF_SUFFIX.get(_suffix(path))
    return None if path.suffix.lower() == GZIP and kind not in ("csv", "jsonl") else kind


def _suffix(path: Path) -> str:
    """Return the suffix in lower case, without that of the compression."""
    return (path.with_suffix("") if path.suffix.lower() == GZIP else path).suffix.lower()


def check_output_format(path: Path) -> None:
    """Refuse an output in a format that cannot be written, or for which a package is missing."""
    kind = find_output_kind(path)
    if kind is None:
        known = ".csv, .tsv, .csv.gz, .parquet, .arrow, .jsonl or .xlsx"
        raise DataError(f"{path}: the name of the output should end in {known}.")
    if kind == "sheet" and find_spec("xlsxwriter") is None:
        raise DataError(f"{path}: xlsxwriter is needed to write this file: pip install 'sparsefield[files]'.")


def refuse_lost_cells(table: pl.DataFrame, path: Path, copies: int = 1) -> None:
    """Refuse a table with cells that its file cannot hold, or one of many copies that does not fit into Excel."""
    import polars as pl

    refuse_nested(table, path)
    kind = find_output_kind(path) or "csv"
    if kind not in NO_CHARACTERS:
        return
    if kind == "sheet" and (table.height * copies > MOST_ROWS or table.width > MOST_COLUMNS):
        limits = f"at most {MOST_ROWS:,} rows and {MOST_COLUMNS:,} columns"
        size = f"{table.height * copies:,} and {table.width:,}"
        raise DataError(f"{path}: an Excel sheet has {limits}, and the table {size}: write .parquet or .csv.")
    text = table.select(pl.col(pl.String, pl.Categorical, pl.Enum).cast(pl.String)).get_columns()
    for column in [pl.Series("(names)", table.columns), *text]:
        lengths = column.str.len_chars()
        row = column.str.contains(NO_CHARACTERS[kind]).index_of(True)
        if row is not None:
            what = f"column {column.name!r} has a character in row {row + 1:,} that such files cannot hold"
            raise DataError(f"{path}: {what}, {NO_CHARACTERS[kind]!a}: remove it, or write .parquet.")
        row = lengths.arg_max()
        if kind == "sheet" and row is not None and lengths[row] > LONGEST_TEXT:
            what = f"column {column.name!r} has {lengths[row]:,} characters in row {row + 1:,}"
            raise DataError(f"{path}: {what}, and a cell at most {LONGEST_TEXT:,} in Excel: write .parquet or .csv.")


def refuse_overwriting_inputs(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Refuse outputs that are also inputs, by path, by a link, or by standard input, or that are named twice.

    Of outputs, None and ``-`` are ignored. Of inputs, ``-`` is standard input, and a folder has Parquet files.
    """
    read = {_identity(path): path for path in inputs if path is not None}
    folders = {path.resolve() for path in read.values() if path.is_dir()}
    written: set[object] = set()
    for path in outputs:
        if path is None or path == STANDARD_OUTPUT:
            continue
        own = _identity(path)
        if own in read or (is_parquet(path) and path.is_file() and folders & set(path.resolve().parents)):
            what = "standard input" if str(read.get(own)) == STANDARD_INPUT else "one of the files that are read"
            raise DataError(f"{path}: this is {what}: write to another file.")
        if own in written:
            raise DataError(f"{path}: two outputs have this name: give each its own.")
        written.add(own)


def _identity(path: Path) -> object:
    """Return what two names of one file have in common: device and inode, or the path of a file that is not there."""
    try:
        status = os.fstat(sys.stdin.fileno()) if str(path) == STANDARD_INPUT else path.stat()
    except (OSError, ValueError):  # standard input may be no file, as in tests
        return path if str(path) == STANDARD_INPUT else path.resolve()
    return status.st_dev, status.st_ino


def write_table(table: pl.DataFrame, path: Path, like: FileFormat | None = None) -> None:
    """Write a table in the format that the suffix asks for; an existing file is replaced, and ``-`` is standard output.

    Cells are text if those of the file that was read are. Text has the encoding, separator and decimal mark of that
    file, whose format is ``like``, if that was text.
    """
    like = like or PLAIN
    kind = find_output_kind(path) or "csv"
    refuse_lost_cells(table, path)
    if kind == "csv":
        style = like if like.is_text else replace(PLAIN, header=like.header)
        content = _format_text(table, replace(style, separator="\t") if _suffix(path) in TAB_FILES else style)
    else:
        content = _typed_content(table, kind, path, like)
    if path == STANDARD_OUTPUT:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        write_atomically(path, gzip.compress(content, mtime=0) if path.suffix.lower() == GZIP else content)


def _format_text(table: pl.DataFrame, style: FileFormat) -> bytes:
    """Return a table as text in a format; characters that its encoding lacks make it UTF-8."""
    import polars as pl
    import polars.selectors as cs

    table = _times_as_text(table)
    if style.decimal == ",":
        table = table.with_columns(cs.float().cast(pl.String).str.replace(".", ",", literal=True))
    text = table.write_csv(
        separator=style.separator or (";" if style.decimal == "," else ","),
        line_terminator=style.line_ending,
        include_header=style.header is not False,
    )
    encoding = style.encoding or "utf-8"
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        warnings.warn(
            f"The output is in UTF-8, because {encoding}, the encoding of the input, has no {text[error.start]!r}.",
            UserWarning,
            stacklevel=3,
        )
        return text.encode()


def _times_as_text(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table with times and durations as text; datetimes at midnight are dates."""
    import polars.selectors as cs

    table = table.with_columns(cs.duration().dt.to_string(), cs.time().dt.to_string("%H:%M:%S%.f"))
    for column in table.select(cs.datetime()).get_columns():
        zone = "%:z" if getattr(column.dtype, "time_zone", None) else ""
        is_date = not zone and (column == column.dt.truncate("1d")).all()
        table = table.with_columns(column.dt.to_string("%Y-%m-%d" if is_date else f"%Y-%m-%d %H:%M:%S%.f{zone}"))
    return table


def _typed_content(table: pl.DataFrame, kind: str, path: Path, like: FileFormat) -> bytes:
    """Return a table as a file whose columns have types; cells of text get those of their values."""
    import polars as pl
    import polars.selectors as cs

    from sparsefield.app.tables.read import polars_errors
    from sparsefield.app.tables.text import with_types

    if like.is_text:
        table = with_types(table, like)[0]
    if kind in ("jsonl", "sheet"):
        table = table.with_columns(pl.col(pl.Categorical, pl.Enum, pl.Null).cast(pl.String))
        changed = [column.name for column in table.select(~cs.string()).get_columns() if _changes(column, kind)]
        table = table.with_columns(_times_as_text(table.select(changed)).cast(pl.String))
        if changed:
            what = f"{path}: written as text, since the file would change their values; {list_columns(changed)}."
            warnings.warn(what, UserWarning, stacklevel=3)
    if kind == "sheet":
        return _sheet_content(table, has_header=like.header is not False)
    buffer = io.BytesIO()
    with polars_errors(path, "written"):
        {"parquet": table.write_parquet, "arrow": table.write_ipc, "jsonl": table.write_ndjson}[kind](buffer)
    return buffer.getvalue()


def _changes(column: pl.Series, kind: str) -> bool:
    """Return whether cells would become other values: infinite numbers; in Excel those that it has no type for."""
    import polars as pl

    dtype = column.dtype
    if dtype.is_float():
        return bool(column.is_infinite().any())
    if kind != "sheet" or dtype == pl.Boolean:
        return False
    if dtype.is_decimal():
        return not (column.cast(pl.Float64).cast(dtype) == column).all()
    if dtype.is_integer():
        ends: Any = column.min(), column.max()
        return any(abs(end) > LARGEST_WHOLE for end in ends if end is not None)
    if dtype not in (pl.Date, pl.Datetime) or getattr(dtype, "time_zone", None):
        return True
    milliseconds = column.cast(pl.Datetime("ns" if getattr(dtype, "time_unit", "") == "ns" else "us"))
    return not (column.dt.year().is_between(1901, 9999) & (milliseconds == milliseconds.dt.truncate("1ms"))).all()


def _sheet_content(table: pl.DataFrame, *, has_header: bool) -> bytes:
    """Return a table as an Excel workbook, cell by cell, since guesses would make links and formulas of text."""
    import polars as pl
    import xlsxwriter

    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True}) as book:
        sheet, bold = book.add_worksheet(), book.add_format({"bold": True})
        day, time = (book.add_format({"num_format": form}) for form in ("yyyy-mm-dd", "yyyy-mm-dd hh:mm:ss"))
        writers = {pl.Boolean: (sheet.write_boolean, None), pl.String: (sheet.write_string, None)}
        writers |= {pl.Date: (sheet.write_datetime, day), pl.Datetime: (sheet.write_datetime, time)}
        for k, column in enumerate(table.get_columns()):
            if has_header:
                sheet.write_string(0, k, column.name, bold)
            write, form = writers.get(column.dtype.base_type(), (sheet.write_number, None))
            for row, cell in enumerate(column, start=has_header):
                if cell is not None:
                    write(row, k, cell, form)
    return buffer.getvalue()
