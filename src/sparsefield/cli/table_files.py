"""This module validates output paths and writes tables as CSV or Parquet files atomically."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.cli.console import note, send_results_to_stderr
from sparsefield.errors import DataError
from sparsefield.io.atomic_write import is_standard_output, is_stream, write_atomically
from sparsefield.io.date_text import read_dates
from sparsefield.io.file_format import FileFormat, encoding_title
from sparsefield.io.file_kinds import PARQUET, is_parquet
from sparsefield.io.files import STANDARD_INPUT, list_columns, polars_errors
from sparsefield.io.typed_text import type_columns

if TYPE_CHECKING:
    import polars as pl


TABLES = (".csv", ".tsv", *PARQUET)
TAB_FILES = (".tsv", ".tab")
STANDARD_OUTPUT = Path(STANDARD_INPUT)
NUMBER_CELL = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


def find_columns(given: Sequence[str], columns: Sequence[str], option: str) -> list[str]:
    """Return the column names of an option, each of which is one name or several separated by commas."""
    names: list[str] = []
    for word in given:
        names += [word] if word in columns else [part.strip() for part in word.split(",")]
    for name in names:
        if name not in columns:
            raise DataError(f"{option} names the column {name!r}, which does not exist; {list_columns(columns)}.")
    return list(dict.fromkeys(names))


def check_output(path: Path, suffixes: Sequence[str] = ()) -> None:
    """Refuse an output file that cannot be written, before any long computation.

    Where the output is standard output, everything else is printed on stderr. Devices and pipes need no suffix.
    """
    if is_printed(path, suffixes):
        send_results_to_stderr()
        return
    if is_stream(path):
        if not os.access(path, os.W_OK):
            raise DataError(f"{path}: this device or pipe is not writable.")
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise DataError(f"{path}: the name of the output should end in {', '.join(suffixes)}.")
    if path.is_dir():
        raise DataError(f"{path}: this is a folder: give a file.")
    target = Path(os.path.realpath(path))
    _check_writable(target.parent, path)
    if target.is_file() and not os.access(target, os.W_OK):
        raise DataError(f"{path}: the file is write-protected: choose another name, or change its mode.")


def is_printed(path: Path, suffixes: Sequence[str] = ()) -> bool:
    """Return whether an output is standard output: ``/dev/stdout`` and, for tables, ``-``."""
    return is_standard_output(path) or (path == STANDARD_OUTPUT and suffixes == TABLES)


def refuse_overwriting_inputs(outputs: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Refuse outputs that are also inputs."""
    existing = [path for path in inputs if path.is_file()]
    for path in outputs:
        if path.is_file() and any(path.samefile(read) for read in existing):
            raise DataError(f"{path}: this is one of the files that are read: write to another file.")


def check_folder(path: Path) -> None:
    """Refuse an output folder that cannot be created or written, before any long computation."""
    if path.exists() and not path.is_dir():
        raise DataError(f"{path}: this is a file: give a folder.")
    _check_writable(path if path.is_dir() else path.parent, path)


def _check_writable(folder: Path, path: Path) -> None:
    if not folder.is_dir():
        raise DataError(f"{path}: the folder '{folder}' does not exist; create it first.")
    if not os.access(folder, os.W_OK):
        raise DataError(f"{path}: the folder '{folder}' is not writable.")


def write_table(table: pl.DataFrame, path: Path, found: FileFormat | None = None, read: Path | None = None) -> None:
    """Write a table as CSV or Parquet, by the suffix; an existing file is replaced atomically.

    Parameters
    ----------
    table : table; its cells are text if those of the file that was read are
    path : output; ``-`` is standard output
    found : format of the file that was read; a CSV is written in the same format if that was one
    read : the file that was read
    """
    found = found if found is not None else FileFormat()
    with polars_errors(path):
        if is_parquet(path):
            buffer = io.BytesIO()
            table = read_dates(type_columns(table, (), found.decimal), found.date_order)[0] if found.is_text else table
            table.write_parquet(buffer)
            content = buffer.getvalue()
        else:
            content = format_text(table, _text_format(path, found, read))
    if path == STANDARD_OUTPUT:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        write_atomically(path, content)


def _text_format(path: Path, found: FileFormat, read: Path | None) -> FileFormat:
    """Return the format of an output: that of the input, except that the suffix may ask for tabs or commas."""
    found = found if found.is_text else FileFormat(header=found.header)
    if path.suffix.lower() in TAB_FILES:
        return replace(found, separator="\t")
    if found.separator == "\t" and path.suffix and read is not None and read.suffix.lower() in TAB_FILES:
        return replace(found, separator="," if found.decimal == "." else ";")
    return found


def format_text(table: pl.DataFrame, found: FileFormat) -> bytes:
    """Return a table as text in a format."""
    import polars as pl
    import polars.selectors as cs

    numbers = [name for name, dtype in table.schema.items() if dtype.is_float()]
    table = table.with_columns(cs.duration().dt.to_string())
    if found.decimal == ",":
        table = table.with_columns(pl.col(numbers).cast(pl.String).str.replace(".", ",", literal=True))
    style: Any = "always" if found.quoting == "always" else "necessary"
    header = found.header
    lines = ""
    if found.quoting == "text":
        lines = _quoted_names(table.columns, found) if header else ""
        table, style, header = _with_quoted_text(table, found), "never", False
    lines += table.write_csv(
        separator=found.separator,
        quote_char=found.quote,
        quote_style=style,
        line_terminator=found.line_ending if found.line_ending != "\r" else "\n",
        include_header=header,
    )
    if found.line_ending == "\r":
        lines = lines.replace("\n", "\r")
    return _encode(("\ufeff" if found.bom else "") + lines, found.encoding)


def _quoted_names(names: Sequence[str], found: FileFormat) -> str:
    mark = found.quote
    return found.separator.join(f"{mark}{name.replace(mark, mark * 2)}{mark}" for name in names) + found.line_ending


def _with_quoted_text(table: pl.DataFrame, found: FileFormat) -> pl.DataFrame:
    """Return a table with all cells in quotes except numbers, as R and others write it."""
    import polars as pl

    number = NUMBER_CELL.replace("\\.", "[.,]") if found.separator != "," else NUMBER_CELL
    cells, mark = pl.col(pl.String), found.quote
    quoted = pl.lit(mark) + cells.str.replace_all(mark, mark * 2, literal=True) + pl.lit(mark)
    return table.with_columns(pl.when(cells.str.contains(number)).then(cells).otherwise(quoted).name.keep())


def _encode(text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        sign = text[error.start]
        note(f"The output is in UTF-8, because {encoding_title(encoding)}, the encoding of the input, has no {sign!r}.")
        return text.encode()
