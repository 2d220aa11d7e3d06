"""Tables to files: text in the format of the file that was read, Parquet, Arrow, JSON lines or Excel."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sparsefield.app.tables.file_format import PLAIN, FileFormat, encoding_title
from sparsefield.app.tables.read import PARQUET, STANDARD_INPUT, is_parquet
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
COMPRESSION_OF_SUFFIX = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz"}
NEEDED = {"sheet": "xlsxwriter"}
"""{kind: the package that writes it}"""

MOST_ROWS, MOST_COLUMNS = 1_048_575, 16_384
"""Size of an Excel sheet, without its header."""


class OutputFormat(NamedTuple):
    """The format of an output, by its name."""

    kind: str = "csv"
    suffix: str = ""
    """The suffix without that of the compression, in lower case."""
    compression: str | None = None


def find_output_format(path: Path) -> OutputFormat | None:
    """Return the format of an output by its name; None if the name does not tell one.

    Examples
    --------
    >>> find_output_format(Path("filled.tsv.gz"))
    OutputFormat(kind='csv', suffix='.tsv', compression='gzip')
    """
    suffixes = ["", *(suffix.lower() for suffix in path.suffixes)]
    compression = COMPRESSION_OF_SUFFIX.get(suffixes[-1])
    suffix = suffixes[-1] if compression is None else suffixes[-2]
    kind = KIND_OF_SUFFIX.get(suffix)
    if kind is None or (compression is not None and kind not in ("csv", "jsonl")):
        return None
    return OutputFormat(kind, suffix, compression)


def check_output_format(path: Path) -> None:
    """Refuse an output in a format that cannot be written, or for which a package is missing."""
    output = find_output_format(path)
    if output is None:
        raise DataError(
            f"{path}: the name of the output should end in .csv, .tsv, .parquet, .arrow, .jsonl or .xlsx; text may be "
            "compressed, as in .csv.gz."
        )
    for what in (output.kind, output.compression):
        if what in NEEDED and find_spec(NEEDED[what]) is None:
            raise DataError(
                f"{path}: {NEEDED[what]} is needed to write this file: pip install 'sparsefield[files]', or write "
                "another format, such as .csv."
            )


def is_text_output(path: Path) -> bool:
    """Return whether an output for a table is text with separated cells, as devices and pipes are."""
    return (find_output_format(path) or OutputFormat()).kind == "csv"


def refuse_overwriting_inputs(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Refuse outputs that are also inputs, by path, by a link, or by standard input, or that are named twice.

    Parameters
    ----------
    outputs : files to write; None and ``-`` are ignored
    inputs : files that are read; None is ignored, ``-`` is standard input, and a folder stands for its Parquet files

    Raises
    ------
    DataError
        With the name of the first such file.
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
    """Write a table in the format that the suffix asks for; an existing file is replaced atomically.

    Parameters
    ----------
    table : table; its cells are text if those of the file that was read are
    path : output; ``-`` is standard output
    like : format of the file that was read; text has the same encoding, separator and decimal mark if that was text
    """
    like = like or PLAIN
    output = find_output_format(path) or OutputFormat()
    if output.kind == "csv":
        style = like if like.is_text else replace(PLAIN, header=like.header)
        content = _format_text(table, replace(style, separator="\t") if output.suffix in TAB_FILES else style)
    else:
        content = _typed_content(table, output.kind, path, like)
    if path == STANDARD_OUTPUT:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        write_atomically(path, _compress(content, output.compression))


def _format_text(table: pl.DataFrame, style: FileFormat) -> bytes:
    """Return a table as text in a format; characters that its encoding lacks make it UTF-8."""
    import polars as pl
    import polars.selectors as cs

    table = table.with_columns(cs.duration().dt.to_string(), cs.time().dt.to_string("%H:%M:%S%.f"))
    for column in table.select(cs.datetime()).get_columns():
        zone = "%:z" if getattr(column.dtype, "time_zone", None) else ""
        is_date = not zone and (column == column.dt.truncate("1d")).all()
        table = table.with_columns(column.dt.to_string("%Y-%m-%d" if is_date else f"%Y-%m-%d %H:%M:%S%.f{zone}"))
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
            f"The output is in UTF-8, because {encoding_title(encoding)}, the encoding of the input, has no "
            f"{text[error.start]!r}.",
            UserWarning,
            stacklevel=3,
        )
        return text.encode()


def _typed_content(table: pl.DataFrame, kind: str, path: Path, like: FileFormat) -> bytes:
    """Return a table as a file whose columns have types; cells of text get those of their values."""
    from sparsefield.app.tables.read import polars_errors
    from sparsefield.app.tables.text import with_types

    if like.is_text:
        table = with_types(table, like)[0]
    if kind == "sheet" and (table.height > MOST_ROWS or table.width > MOST_COLUMNS):
        raise DataError(
            f"{path}: an Excel sheet has at most {MOST_ROWS:,} rows and {MOST_COLUMNS:,} columns, and the table has "
            f"{table.height:,} and {table.width:,}: write another format, such as .parquet."
        )
    buffer = io.BytesIO()
    with polars_errors(path):
        if kind == "sheet":
            table.write_excel(buffer, include_header=like.header is not False)
        else:
            {"parquet": table.write_parquet, "arrow": table.write_ipc, "jsonl": table.write_ndjson}[kind](buffer)
    return buffer.getvalue()


def _compress(content: bytes, compression: str | None) -> bytes:
    """Return compressed content, the same for the same content."""
    import bz2
    import gzip
    import lzma

    ways = {"gzip": lambda data: gzip.compress(data, mtime=0), "bzip2": bz2.compress, "xz": lzma.compress}
    return content if compression is None else ways[compression](content)
