"""One table from a file of any kind: the content of the file decides how it is read, whatever its name is."""

from __future__ import annotations

import io
import json
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sparsefield.app.tables.read_options import TITLES, FileFormat, ReadOptions, Source
from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl

STANDARD_INPUT = "-"
SHOWN_COLUMNS = 8
HEAD_BYTES = 1 << 16
"""How many bytes of a file decide its kind."""

PARQUET = (".parquet", ".pq")
"""Suffixes of Parquet files, for outputs and for files that are not opened here."""

_SIGNATURES = (
    (0, b"PAR1", "parquet"),
    (0, b"ARROW1", "arrow"),
    (0, b"\xff\xff\xff\xff", "arrow-stream"),
    (0, b"$FL2", "spss"),
    (0, b"$FL3", "spss"),
    (0, b"<stata_dta>", "stata"),
    (0, b"HEADER RECORD*******L", "sas-transport"),
    (12, b"\xc2\xea\x81\x60\xb3\x14\x11\xcf\xbd\x92\x08\x00\x09\xc7\x31\x8c\x18\x1f\x10\x11", "sas"),
    (0, b"SQLite format 3\x00", "sqlite"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "sheet"),
)
"""(place, bytes, kind); a header of text may begin with the printable ones, but has no control characters."""

_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh91AY&SY": "bzip2", b"\xfd7zXZ\x00": "xz"}

_OPTIONS_OF_KIND = {
    "csv": ("header", "separator", "encoding", "decimal", "dates"),
    "sheet": ("header", "dates", "sheet", "table"),
    "sqlite": ("sheet", "table"),
}
_NO_TABLE = "this is no table that can be read: save the table as CSV, Parquet or Excel"


@dataclass(frozen=True)
class SourceTable:
    """A table, and the format of the file that it was read from."""

    table: pl.DataFrame
    """Values, null where they are missing."""
    cells: pl.DataFrame
    """The cells of a text file as their text, with words for missing values; of another file its values."""
    format: FileFormat


@dataclass(frozen=True)
class FileContent:
    """The content of a file, or of standard input, decompressed."""

    name: str
    path: Path
    data: bytes
    compression: str | None = None
    is_file: bool = True
    """Whether the file at the path has this content."""

    @contextmanager
    def as_file(self) -> Iterator[Path]:
        """Yield the path of a file with the content."""
        if self.is_file:
            yield self.path
            return
        with tempfile.TemporaryDirectory(prefix="sparsefield-") as folder:
            path = Path(folder) / "table"
            path.write_bytes(self.data)
            yield path


def read_table(path: Path | str, reading: ReadOptions | None = None, *, may_be_empty: bool = False) -> pl.DataFrame:
    """Read one table from a file.

    The content of the file decides its kind: text with separated cells, JSON lines, Parquet, Arrow, Excel,
    OpenDocument, SPSS, Stata, SAS or SQLite, also compressed with gzip, zstd, bzip2 or xz.

    Parameters
    ----------
    path : file; ``-`` is standard input
    reading : options; None finds out everything
    may_be_empty : whether a table without rows, such as a CSV with only a header, is accepted

    Returns
    -------
    polars.DataFrame

    Raises
    ------
    DataError
        If the file does not exist, holds no table, or is of another kind.
    """
    return read_source(path, reading, may_be_empty=may_be_empty).table


def read_source(
    path: Path | str, reading: ReadOptions | None = None, *, may_be_empty: bool = False, strict: bool = True
) -> SourceTable:
    """Read one table from a file as `read_table` does, and say how the file is written.

    Unless ``strict``, options that the kind of file does not have are ignored, as where they are for several files.
    """
    content, reading = read_content(path), reading or ReadOptions()
    kind = kind_of(content.data, content.name)
    if strict:
        _refuse_options(content.name, kind, reading)
    return _read(content, kind, reading, may_be_empty=may_be_empty)


def read_like(path: Path | str, reading: ReadOptions, source: Source | None, columns: Sequence[str]) -> SourceTable:
    """Read a table as that of a fit was read, and refuse one that has no column of the model.

    Words for missing values are those of the fit, and more. The file of the fit is read with all its options again.
    Another file says itself how it is written; if no column of the model is found so, the options of the fit are tried.

    Parameters
    ----------
    path : file; ``-`` is standard input
    reading : options that are given now
    source : how the table of the fit was read, if that is known
    columns : columns of the model
    """
    content = read_content(path)
    kind = kind_of(content.data, content.name)
    _refuse_options(content.name, kind, reading)
    ways = [reading]
    if source is not None:
        fit = source.options_for(reading)
        ways = [replace(reading, missing=fit.missing, missing_only=fit.missing_only, dates=fit.dates), fit]
        if content.is_file and Path(source.file).exists() and Path(path).samefile(source.file):
            ways.reverse()
    problem = DataError(f"No column of the model is in the table; the model has {list_columns(columns)}.")
    for way in ways:
        try:
            table = _read(content, kind, way)
        except DataError as error:
            problem = error if way is ways[0] else problem
            continue
        if set(columns) & set(table.table.columns):
            return table
    raise problem


def read_content(path: Path | str) -> FileContent:
    """Read a file, or standard input for ``-``, and decompress it if it is compressed."""
    path = Path(path)
    name = "standard input" if str(path) == STANDARD_INPUT else str(path)
    if path.is_dir():
        raise DataError(f"{name}: this is a folder: give one of its files.")
    try:
        data = sys.stdin.buffer.read() if str(path) == STANDARD_INPUT else path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{name}: there is no such file.") from None
    except OSError as error:
        raise DataError(f"{name}: the file cannot be opened ({error.strerror}).") from None
    compression = next((word for start, word in _COMPRESSIONS.items() if data.startswith(start)), None)
    if compression is None:
        return FileContent(name, path, data, is_file=path.is_file())
    import bz2
    import gzip
    import lzma

    try:
        if compression == "zstd":
            import zstandard

            data = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True).read()
        else:
            data = {"gzip": gzip.decompress, "bzip2": bz2.decompress, "xz": lzma.decompress}[compression](data)
    except ImportError:
        raise DataError(f"{name}: this file is compressed with zstd: pip install 'sparsefield[files]'.") from None
    except Exception as error:  # each library has its own errors
        line = " ".join(str(error).split()).rstrip(".")
        raise DataError(f"{name}: this {compression} file is damaged ({line}): copy or download it again.") from None
    return FileContent(name, path, data, compression, is_file=False)


def kind_of(data: bytes, name: str) -> str:
    """Return the kind of a file with a table, a key of `TITLES`; refuse files that hold none."""
    from sparsefield.app.tables.text import wide_encoding

    head = data[:HEAD_BYTES]
    is_wide = head.startswith((b"\xff\xfe", b"\xfe\xff")) or bool(wide_encoding(head))
    control = 0 if is_wide else sum(head.count(bytes([byte])) for byte in (*range(9), *range(14, 27), *range(28, 32)))
    for place, mark, kind in _SIGNATURES:
        if head.startswith(mark, place) and (control or kind in ("spss", "stata", "sas-transport")):
            return kind
    if head.startswith(b"PK\x03\x04"):
        try:
            names = zipfile.ZipFile(io.BytesIO(data)).namelist()
        except zipfile.BadZipFile:
            names = []
        if any(name.startswith("xl/") for name in names) or "content.xml" in names:
            return "sheet"
    if len(head) > 10 and head[0] in range(105, 116) and head[1] in (1, 2) and head[2:4] in (b"\x01\x00", b"\x01\x01"):
        return "stata"  # formats 105 to 115: a version, the order of bytes, the type 1, and a zero
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"{"):
        line, newline, _ = start.partition(b"\n")
        try:
            is_object = isinstance(json.loads(line), dict)
        except (ValueError, RecursionError):  # a first line that is too long to see may be an object
            is_object = not newline and len(start) > HEAD_BYTES // 2
        if is_object:
            return "jsonl"
    if start.startswith((b"{", b"[{", b"[\n")):
        raise DataError(f"{name}: {_NO_TABLE}, or one JSON object per line.")
    if head[8:10] == b'{"' and control:
        raise DataError(f"{name}: this is a model file, where a table is expected, or in the place of DATA.")
    if start.startswith((b"<", b"%PDF", b"PK\x03\x04")) or control > 0.02 * len(head) + 2:
        raise DataError(f"{name}: {_NO_TABLE}.")
    return "csv"


def _refuse_options(name: str, kind: str, reading: ReadOptions) -> None:
    """Refuse options that a kind of file does not have, all at once."""
    options = ("header", "separator", "encoding", "decimal", "dates", "sheet", "table")
    other = [option for option in options if getattr(reading, option) is not None]
    other = [option for option in other if option not in _OPTIONS_OF_KIND.get(kind, ())]
    if other:
        words = " and ".join(f"--set read.{option}" for option in other)
        these = "this option" if len(other) == 1 else "these options"
        raise DataError(f"{name}: remove {words}: a file of the kind {TITLES[kind]} does not have {these}.")


def _read(content: FileContent, kind: str, reading: ReadOptions, *, may_be_empty: bool = False) -> SourceTable:
    from sparsefield.app.tables.formats import choose, polars_errors, read_sheet, read_typed
    from sparsefield.app.tables.values import with_nulls

    name, sheet = content.name, reading.table or reading.sheet
    words = reading.missing_words(has_nulls=kind != "sheet")
    with polars_errors(name):
        if kind == "csv":
            from sparsefield.app.tables.text import read_text

            cells, table, found = read_text(content.data, name, reading)
        elif kind == "sheet":
            found = FileFormat(kind, missing=words, header=reading.header is not False, date_order=reading.dates)
            table, found = read_sheet(content.data, name, sheet, found)
            cells = table
        else:
            with content.as_file() as path:
                if kind == "sqlite":
                    from sparsefield.app.tables.linked import open_database

                    with open_database(path, name) as database:
                        sheet = choose(database.tables, sheet, name, "table")
                        cells = database.read(sheet)
                else:
                    cells, sheet = read_typed(content.data, path, kind, name), None
            table, found = with_nulls(cells, words), FileFormat(kind, table=sheet, missing=words)
    if table.height == 0 and not may_be_empty:
        raise DataError(f"{name}: the table has no rows: give one with rows below its header.")
    return SourceTable(table, cells, replace(found, compression=content.compression))


def list_columns(columns: Sequence[str]) -> str:
    """Return a short list of column names for a message."""
    rest = len(columns) - SHOWN_COLUMNS
    return f"columns: {', '.join(columns[:SHOWN_COLUMNS])}" + (f" and {rest} more" if rest > 0 else "")


def is_parquet(path: Path) -> bool:
    """Return whether the suffix of a file is that of Parquet."""
    return path.suffix.lower() in PARQUET
