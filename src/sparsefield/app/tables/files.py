"""This module reads one table from a file of any kind that it knows; the content tells the kind."""

from __future__ import annotations

import codecs
import io
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.file_kinds import HEAD_BYTES, KINDS, compression_of, kind_of, refuse_kind
from sparsefield.app.tables.missing_words import with_nulls
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.app.tables.statistical_files import READERS, read_statistical
from sparsefield.app.tables.text_files import check_header, read_text, with_dates
from sparsefield.app.tables.typed_text import type_columns
from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl

STANDARD_INPUT = "-"
SHOWN_COLUMNS = 8


@dataclass(frozen=True)
class SourceTable:
    """A table, and the format of the file that it was read from."""

    table: pl.DataFrame
    format: FileFormat


@dataclass(frozen=True)
class FileContent:
    """A file, or bytes that were read from standard input or decompressed."""

    name: str
    path: Path
    data: bytes | None = None

    def head(self) -> bytes:
        if self.data is not None:
            return self.data[:HEAD_BYTES]
        with self.path.open("rb") as file:
            return file.read(HEAD_BYTES)

    def bytes(self) -> bytes:
        return self.path.read_bytes() if self.data is None else self.data

    @contextmanager
    def as_file(self) -> Iterator[Path]:
        """Yield the path of a file with the content."""
        if self.data is None:
            yield self.path
            return
        with tempfile.TemporaryDirectory(prefix="sparsefield-") as folder:
            path = Path(folder) / "table"
            path.write_bytes(self.data)
            yield path


def read_source(
    path: Path | str,
    reading: ReadOptions | None = None,
    *,
    as_text: bool = False,
    may_be_empty: bool = False,
    given: ReadOptions | None = None,
) -> SourceTable:
    """Read one table from a file, and say how the file is written.

    The content of the file decides its kind: text with separated cells, JSON lines, Parquet, Arrow, Excel,
    OpenDocument, SPSS, Stata, SAS, SQLite or DuckDB, also compressed with gzip, zstd, bzip2 or xz.

    Parameters
    ----------
    path : file; ``-`` is standard input
    reading : options; None finds out everything
    as_text : whether the cells of a text file are returned as their text, and words for missing values as they are
    may_be_empty : whether a table without rows, such as a CSV with only a header, is accepted
    given : options that are refused if this kind of file does not have them; None refuses those of ``reading``

    Returns
    -------
    SourceTable

    Raises
    ------
    DataError
        If the file does not exist, holds no table, or is of another kind.
    """
    reading = reading or ReadOptions()
    content, compression = _decompress(_open(path))
    kind = kind_of(content.head(), content.path if content.data is None else content.data)
    refuse_kind(content.name, kind)
    _refuse_options(content.name, kind, reading if given is None else given)
    with polars_errors(content.name):
        table, found = _read(content, kind, reading, as_text)
    if table.height == 0 and not may_be_empty:
        raise DataError(f"{content.name}: the table has no rows: give one with rows below its header.")
    return SourceTable(table, replace(found, compression=compression))


def read_table(
    path: Path | str, reading: ReadOptions | None = None, *, as_text: bool = False, may_be_empty: bool = False
) -> pl.DataFrame:
    """Read one table from a file, as `read_source` does, and return it alone.

    Parameters
    ----------
    path : file; ``-`` is standard input
    reading : options; None finds out everything
    as_text : whether the cells of a text file are returned as their text, and words for missing values as they are
    may_be_empty : whether a table without rows, such as a CSV with only a header, is accepted

    Returns
    -------
    polars.DataFrame

    Raises
    ------
    DataError
        If the file does not exist, holds no table, or is of another kind.
    """
    return read_source(path, reading, as_text=as_text, may_be_empty=may_be_empty).table


def read_content(path: Path | str) -> FileContent:
    """Open a file, or standard input for ``-``, decompressed if it is compressed."""
    return _decompress(_open(path))[0]


def _refuse_options(name: str, kind: str, reading: ReadOptions) -> None:
    """Refuse options that a kind of file does not have, all at once."""
    of_text, of_sheets, of_databases = kind == "csv", kind in ("excel", "ods"), kind in ("sqlite", "duckdb")
    given = {
        "--no-header": reading.header is not None and not (of_text or of_sheets),
        "--separator": reading.separator is not None and not of_text,
        "--encoding": reading.encoding is not None and not of_text,
        "--decimal": reading.decimal is not None and not of_text,
        "--dates": reading.dates is not None and not (of_text or of_sheets),
        "--sheet": reading.sheet is not None and not (of_sheets or of_databases),
        "--table": reading.table is not None and not (of_sheets or of_databases),
    }
    odd = [option for option, is_odd in given.items() if is_odd]
    if odd:
        what = f"{KINDS[kind].title} does not have {'this option' if len(odd) == 1 else 'these options'}"
        raise DataError(f"{name}: remove {' and '.join(odd)}: a file of the kind {what}.")


def _open(path: Path | str) -> FileContent:
    path = Path(path)
    if str(path) == STANDARD_INPUT:
        return FileContent("standard input", path, sys.stdin.buffer.read())
    if path.is_dir():
        raise DataError(f"{path}: this is a folder: give one of its files.")
    if not path.exists():
        raise DataError(f"{path}: there is no such file.")
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise DataError(f"{path}: the file cannot be opened ({error.strerror}).") from None
    # A pipe can be read only once.
    return FileContent(str(path), path, None if path.is_file() else path.read_bytes())


def _decompress(content: FileContent) -> tuple[FileContent, str | None]:
    name = compression_of(content.head())
    if name is None:
        return content, None
    try:
        data = _decompressed(content.bytes(), name)
    except ImportError:
        raise DataError(
            f"{content.name}: this file is compressed with zstd: pip install 'sparsefield[files]'."
        ) from None
    except Exception as error:  # each library has its own errors
        line = " ".join(str(error).split()).rstrip(".")
        raise DataError(f"{content.name}: this {name} file is damaged ({line}): copy or download it again.") from None
    return replace(content, data=data), name


def _decompressed(data: bytes, compression: str) -> bytes:
    import bz2
    import gzip
    import lzma

    if compression == "zstd":
        import zstandard

        return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True).read()
    return {"gzip": gzip.decompress, "bzip2": bz2.decompress, "xz": lzma.decompress}[compression](data)


def _read(content: FileContent, kind: str, reading: ReadOptions, as_text: bool) -> tuple[pl.DataFrame, FileFormat]:
    if kind == "csv":
        return read_text(content.bytes(), content.name, reading, as_text=as_text)
    words = reading.missing_words(has_nulls=kind not in ("excel", "ods"))
    found = FileFormat(kind=kind, title=KINDS[kind].title, missing=words)
    if kind in ("excel", "ods"):
        table, sheet, header = _read_sheet(content, reading)
        found = replace(found, table=sheet, header=header, date_order=reading.dates)
        return (table, found) if as_text else with_dates(type_columns(with_nulls(table, words), words), found)
    if kind in ("sqlite", "duckdb"):
        table, name = _read_database(content, kind, reading)
        found = replace(found, table=name)
    else:
        table = _read_typed(content, kind)
    _refuse_nested(table, content.name)
    return (table if as_text else with_nulls(table, words)), found


def _read_typed(content: FileContent, kind: str) -> pl.DataFrame:
    """Read a file whose columns have types."""
    import polars as pl

    if kind in READERS:
        with content.as_file() as path:
            return read_statistical(path, kind, content.name)
    if kind == "parquet":
        return pl.read_parquet(content.path if content.data is None else io.BytesIO(content.data), glob=False)
    if kind == "jsonl":
        return pl.read_ndjson(io.BytesIO(content.bytes().removeprefix(codecs.BOM_UTF8)), infer_schema_length=None)
    reader = pl.read_ipc if kind == "arrow" else pl.read_ipc_stream
    return reader(io.BytesIO(content.bytes()))


def _read_sheet(content: FileContent, reading: ReadOptions) -> tuple[pl.DataFrame, str, bool]:
    """Return a sheet, its name, and whether its first row has names."""
    import polars as pl

    try:
        import fastexcel
    except ImportError:
        raise DataError(
            f"{content.name}: this is an Excel or OpenDocument file: pip install 'sparsefield[files]' to read it."
        ) from None
    header = reading.header is not False
    try:
        workbook = fastexcel.read_excel(content.bytes())
        sheet = _choose(workbook.sheet_names, reading.sheet or reading.table, content.name, "sheet")
        first = workbook.load_sheet(sheet, header_row=None, n_rows=1, dtypes="string").to_polars()
        row = 0 if header else None
        table = workbook.load_sheet(sheet, header_row=row, schema_sample_rows=None).to_polars()
        texts = workbook.load_sheet(sheet, header_row=row, dtypes="string").to_polars()
    except fastexcel.FastExcelError as error:
        line = " ".join(str(error).split()).rstrip(".")[:200]
        raise DataError(f"{content.name}: the workbook cannot be read ({line}): save it again, or as CSV.") from None
    names = [name or "" for name in first.row(0)] if first.height else []
    if header:
        check_header([name for name in names if name], content.name)
    else:
        table.columns = [f"x{k}" for k in range(table.width)]
    if table.width and texts.height == table.height:
        table = _with_dates(_with_whole_numbers(_with_lost_text(table, texts)))
        table = table.filter(texts.select(pl.any_horizontal(pl.all().is_not_null())).to_series())
    return table, sheet, header


def _with_lost_text(table: pl.DataFrame, texts: pl.DataFrame) -> pl.DataFrame:
    """Return a sheet with the text of columns that would lose cells, because not all are of the type of most."""
    columns = zip(table.get_columns(), texts.get_columns(), strict=True)
    return table.with_columns(
        text.alias(typed.name) for typed, text in columns if typed.null_count() > text.null_count()
    )


def _with_whole_numbers(table: pl.DataFrame) -> pl.DataFrame:
    """Return a sheet whose columns of whole numbers are so; spreadsheets store all numbers as floats."""
    import polars as pl
    import polars.selectors as cs

    floats = table.select(cs.float())
    whole = [
        column.name
        for column in floats.get_columns()
        if column.is_not_null().any() and ((column == column.round()) & (column.abs() < 2**53)).fill_null(True).all()
    ]
    return table.with_columns(pl.col(whole).cast(pl.Int64)) if whole else table


def _with_dates(table: pl.DataFrame) -> pl.DataFrame:
    """Return a sheet whose columns of times at midnight are dates; spreadsheets store both as one type."""
    import polars as pl
    import polars.selectors as cs

    times = table.select(cs.datetime(time_zone=None))
    dates = [
        column.name
        for column in times.get_columns()
        if column.is_not_null().any() and (column == column.dt.truncate("1d")).fill_null(True).all()
    ]
    return table.with_columns(pl.col(dates).cast(pl.Date)) if dates else table


def _read_database(content: FileContent, kind: str, reading: ReadOptions) -> tuple[pl.DataFrame, str]:
    """Return a table of a database file, and its name."""
    from sparsefield.app.tables.connections import SQLiteConnection, connect
    from sparsefield.app.tables.database import with_plain_types
    from sparsefield.app.tables.declared_keys import TableName
    from sparsefield.app.tables.sqlite_files import open_sqlite

    with content.as_file() as path:
        if kind == "sqlite":
            import sqlite3

            try:
                with closing(open_sqlite(path)) as opened:
                    opened.execute("SELECT count(*) FROM sqlite_master")
                    database: Any = SQLiteConnection(content.name, opened)
                    name = _choose(
                        [one.name for one in database.tables], reading.table or reading.sheet, content.name, "table"
                    )
                    table = database.table(TableName("main", name))
            except sqlite3.Error as error:
                raise DataError(f"{content.name}: this SQLite file cannot be read ({error}).") from None
        else:
            with connect(path, other_files=False) as database:
                tables = {one.name: one for one in database.tables}
                name = _choose(list(tables), reading.table or reading.sheet, content.name, "table")
                table = database.table(tables[name])
    return with_plain_types(table, content.name, name), name


def _choose(names: Sequence[str], wanted: str | None, file: str, what: str) -> str:
    """Return the sheet or table to read: the wanted one, or the only one."""
    listed = ", ".join(repr(name) for name in names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    if wanted is not None and wanted not in names:
        raise DataError(f"{file}: there is no {what} {wanted!r}; the file has {listed or 'none'}.")
    if wanted is None and len(names) != 1:
        raise DataError(
            f"{file}: there are {len(names)} {what}s, {listed}: choose one, such as with --{what} {names[0]!r}."
            if names
            else f"{file}: there is no {what} in the file: give another file."
        )
    return names[0] if wanted is None else wanted


def _refuse_nested(table: pl.DataFrame, name: str) -> None:
    nested = [column for column, dtype in table.schema.items() if dtype.is_nested()]
    if nested:
        raise DataError(
            f"{name}: columns have lists or records as cells, which a table of values does not have; "
            f"{list_columns(nested)}: make a column of each part, or remove them."
        )


def list_columns(columns: Sequence[str]) -> str:
    """Return a short list of column names for a message."""
    rest = len(columns) - SHOWN_COLUMNS
    return f"columns: {', '.join(columns[:SHOWN_COLUMNS])}" + (f" and {rest} more" if rest > 0 else "")


@contextmanager
def polars_errors(path: Path | str) -> Iterator[None]:
    """Raise polars' errors as one-line `DataError` with the name of the file."""
    import polars as pl

    try:
        yield
    except pl.exceptions.PolarsError as error:
        line = (str(error).strip().splitlines() or ["it is damaged"])[0].rstrip(".")
        raise DataError(f"{path}: the file cannot be read ({line}): is it complete?") from error
