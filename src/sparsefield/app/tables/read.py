"""One table from a file: text, spreadsheets, Parquet, Arrow, JSON lines, SPSS, Stata, SAS and SQLite."""

from __future__ import annotations

import codecs
import io
import os
import shlex
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.app.tables.file_format import OPTIONS, OPTIONS_OF_KIND, TITLES, FileFormat, Source
from sparsefield.app.tables.places import MAGIC
from sparsefield.errors import DataError, list_first

if TYPE_CHECKING:
    import polars as pl

STANDARD_INPUT = "-"
PARQUET = (".parquet", ".pq")
"""Suffixes of Parquet files."""

_SIGNATURES = {
    b"PAR1\x15": "parquet",
    b"ARROW1\x00": "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"PK\x03\x04": "sheet",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "sheet",
    b"$FL2@(#)": "spss",
    b"$FL3@(#)": "spss",
    b"<stata_dta>": "stata",
    b"HEADER RECORD*******L": "sas-transport",
}
"""{first bytes: kind of file}, whatever its name is."""

_SUFFIXES = {".dta": "stata", ".sas7bdat": "sas", **dict.fromkeys((".json", ".jsonl", ".ndjson"), "jsonl")}
"""{suffix: kind} of files without such bytes; all others are text."""

_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"BZh91AY&SY": "bzip2", b"\xfd7zXZ\x00": "xz"}
_NO_TABLES = (b"<!doctype", b"<html", b"<?xml", b"%pdf", b"(\xb5/\xfd", b"\x04\x22m\x18", b"7z\xbc\xaf", b"rar!\x1a")
"""First bytes, in lower case, of pages and of files packed by Zstandard, LZ4, 7-Zip and RAR."""
_STATISTICAL = {"spss": "read_sav", "stata": "read_dta", "sas": "read_sas7bdat", "sas-transport": "read_xport"}
"""{kind of file: the function of pyreadstat that reads it}"""

_EXTRA = "pip install 'sparsefield[files]'"

COPIES = 4.0
"""Memory that reading a text takes, in sizes of the text."""

READING_SECONDS = 60.0
"""Time for reading a statistical file, and as much again for every 10 MB: a damaged one may take forever."""


@dataclass(frozen=True)
class SourceTable:
    """A table, and the format of the file that it was read from."""

    table: pl.DataFrame
    """Values, null where they are missing."""
    cells: pl.DataFrame
    """The cells of a text file as their text, with words for missing values; of another file its values."""
    format: FileFormat


@dataclass(frozen=True)
class _Content:
    """The content of a file, or of standard input, decompressed."""

    name: str
    path: Path
    data: bytes
    kind: str
    compression: str

    @contextmanager
    def as_file(self) -> Iterator[Path]:
        """Yield the path of a file with the content."""
        with tempfile.TemporaryDirectory(prefix="sparsefield-") as folder:
            path = self.path
            if self.compression or not path.is_file():
                path = Path(folder) / "table"
                path.write_bytes(self.data)
            yield path


def read_table(path: Path | str, options: FileFormat | None = None) -> pl.DataFrame:
    """Read one table from a file, which may be compressed with gzip, bzip2 or xz; ``-`` is standard input.

    What ``options`` do not say is found out. A file that does not exist or holds no table is a `DataError`.
    """
    return read_source(path, options).table


def read_source(
    path: Path | str, options: FileFormat | None = None, *, may_be_empty: bool = False, strict: bool = True
) -> SourceTable:
    """Read one table from a file as `read_table` does, and say how the file is written.

    Unless ``strict``, options that the kind of file does not have are ignored, as where they are for several files.
    With ``may_be_empty``, a table may have no rows.
    """
    content, options = _read_content(path), options or FileFormat()
    if strict:
        _refuse_options(content, options)
    return _read(content, options, may_be_empty=may_be_empty)


def read_like(path: Path | str, options: FileFormat, source: Source | None, columns: Sequence[str]) -> SourceTable:
    """Read a table as that of a fit was read, and refuse one that has no column of the model.

    ``options`` are given now, ``source`` says how the fit was read, if that is known, and ``columns`` are of the model.
    Words for missing values are those of the fit, and more. The file of the fit is read with all its options again.
    Another file says itself how it is written; if no column of the model is found so, the options of the fit are tried.
    """
    content = _read_content(path)
    _refuse_options(content, options)
    attempts = [options]
    if source is not None:
        fit = source.format
        known = FileFormat(fit.missing, fit.missing_only, dates=fit.dates)
        attempts = [known.updated(options), fit.updated(options)]
        if not content.compression and Path(source.file).is_file() and Path(path).is_file():
            attempts = attempts[::-1] if Path(path).samefile(source.file) else attempts
    problem = DataError(f"No column of the model is in the table; the model has {list_columns(columns)}.")
    for attempt in attempts:
        try:
            table = _read(content, attempt)
        except DataError as error:
            problem = error if attempt is attempts[0] else problem
            continue
        if set(columns) & set(table.table.columns):
            return table
    raise problem


def _read_content(path: Path | str) -> _Content:
    """Read a file, or standard input for ``-``, decompress it, and find its kind."""
    import bz2
    import gzip
    import lzma
    import zlib

    path = Path(path)
    is_input = str(path) == STANDARD_INPUT
    name = "standard input" if is_input else str(path)
    if path.is_dir():
        return _Content(name, path, b"", "parquet", "")
    try:
        data = sys.stdin.buffer.read() if is_input else path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{name}: there is no such file.") from None
    except OSError as error:
        raise DataError(f"{name}: the file cannot be opened ({error.strerror}): give a file with a table.") from None
    compression = next((word for start, word in _COMPRESSIONS.items() if data.startswith(start)), "")
    if compression:
        from sparsefield.config import refuse_beyond_available

        parts, size = [], 0
        try:
            with {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}[compression](io.BytesIO(data)) as file:
                while part := file.read(2**20):
                    parts.append(part)
                    size += len(part)
                    refuse_beyond_available(COPIES * size, f"{name}: the decompressed file")
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise DataError(f"{name}: this {compression} file is damaged ({_one_line(error)}).") from None
        data = b"".join(parts)
    start = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:20].lower()
    if start.startswith(_NO_TABLES):
        raise DataError(f"{name}: this is no table that can be read: unpack it, or save it as CSV, Parquet or Excel.")
    databases = (system for system, (at, magic) in MAGIC.items() if data.startswith(magic, at))
    kind = next((kind for start, kind in _SIGNATURES.items() if data.startswith(start)), next(databases, ""))
    suffixes = (path.suffix.lower(), path.with_suffix("").suffix.lower() if compression else "")
    kind = kind or next((_SUFFIXES[suffix] for suffix in suffixes if suffix in _SUFFIXES), "csv")
    return _Content(name, path, data, kind, compression)


def _refuse_options(content: _Content, options: FileFormat) -> None:
    """Refuse options that a kind of file does not have, all at once."""
    known = OPTIONS_OF_KIND.get(content.kind, OPTIONS[:2] + (("sheet",) if content.kind in MAGIC else ()))
    others = [name for name in OPTIONS if getattr(options, name) not in (None, ()) and name not in known]
    if others:
        words = " and ".join(f"--set read.{option}" for option in others)
        these = "this option" if len(others) == 1 else "these options"
        title = TITLES[content.kind]
        raise DataError(f"{content.name}: remove {words}: a file of the kind {title} does not have {these}.")


def _read(content: _Content, options: FileFormat, *, may_be_empty: bool = False) -> SourceTable:
    from sparsefield.app.tables.text import read_text
    from sparsefield.app.tables.values import with_nulls

    name, kind = content.name, content.kind
    own = {option: getattr(options, option) for option in OPTIONS_OF_KIND.get(kind, (*OPTIONS[:2], "sheet"))}
    options = FileFormat(**own, kind=kind, compression=content.compression)
    with polars_errors(name):
        if kind == "csv":
            source = SourceTable(*read_text(content.data, name, options))
        elif kind == "sheet":
            source = _read_sheet(content.data, name, options)
        elif kind in MAGIC:
            from sparsefield.app.tables.database import open_database

            with content.as_file() as path, open_database(path, name) as database:
                options = replace(options, sheet=_choose(database.tables, options.sheet, name, "table"))
                cells = database.read(options.sheet or "")
            source = SourceTable(with_nulls(cells, options.missing_words), cells, options)
        else:
            cells = _read_typed(content)
            source = SourceTable(with_nulls(cells, options.missing_words), cells, options)
    if source.table.height == 0 and not may_be_empty:
        raise DataError(f"{name}: the table has no rows: give one with rows below its header.")
    return source


def _read_typed(content: _Content) -> pl.DataFrame:
    """Read a file whose columns have types."""
    import polars as pl
    import polars.selectors as cs

    if content.kind in _STATISTICAL:
        table = _read_statistical(content)
    elif content.path.is_dir():
        files = parquet_files(content.path)
        names = parquet_columns(files)
        table = pl.concat([pl.read_parquet(file).select(names) for file in files], how="vertical_relaxed")
    elif content.kind in ("parquet", "arrow"):
        read_arrow = pl.read_ipc if content.data.startswith(b"ARROW1") else pl.read_ipc_stream
        with _silent_panics():
            table = (pl.read_parquet if content.kind == "parquet" else read_arrow)(io.BytesIO(content.data))
    else:
        try:
            table = pl.read_ndjson(io.BytesIO(content.data.removeprefix(codecs.BOM_UTF8)), infer_schema_length=None)
        except pl.exceptions.PolarsError:
            raise DataError(f"{content.name}: the file cannot be read: write one JSON object per line.") from None
    refuse_nested(table, content.name)
    for column in table.select(cs.date(), cs.datetime()).get_columns():
        units = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
        days = column.to_physical() // units.get(getattr(column.dtype, "time_unit", ""), 1)
        if not days.is_between(date.min.toordinal() - 719_163, date.max.toordinal() - 719_163).all():
            what = f"column {column.name!r} has dates beyond the years 1 to 9999"
            raise DataError(f"{content.name}: {what}: correct or remove them.")
    return table


def _read_sheet(data: bytes, name: str, options: FileFormat) -> SourceTable:
    """Read a sheet of a spreadsheet; its cells are typed as those of text are."""
    import polars as pl

    from sparsefield.app.tables.text import unique_names, with_types

    try:
        import fastexcel
    except ImportError:
        raise DataError(f"{name}: this is an Excel or OpenDocument file: {_EXTRA} to read it.") from None
    try:
        if data.startswith(b"PK"):
            _refuse_archive(data, name)
        book = fastexcel.read_excel(data)
        sheet = _choose(book.sheet_names, options.sheet, name, "sheet")
        cells, numbers = (book.load_sheet(sheet, header_row=None, dtypes=d).to_polars() for d in ("string", "float"))
    except DataError:
        raise
    except (fastexcel.FastExcelError, zipfile.BadZipFile, ValueError, OSError) as error:
        raise DataError(f"{name}: this is no table that can be read ({_one_line(error)}): save it again.") from None
    for column, number in zip(cells.get_columns(), numbers.get_columns(), strict=True):
        rounded = column.cast(pl.Float64, strict=False) != number  # the text has nine decimals
        is_long = (column.str.len_bytes() > 24).fill_null(False)  # all digits of 1e300, or text
        if is_long.any():
            digits = pl.Series([None if cell is None else f"{cell:.0f}" for cell in number], dtype=pl.String)
            rounded |= (digits == column) & is_long
        cells = cells.with_columns(column.zip_with(~rounded.fill_null(False), number.cast(pl.String)))
    options = replace(options, sheet=sheet, header=options.header is not False, decimal=".")
    names = [f"x{k}" for k in range(cells.width)]
    if options.header and cells.height:
        names = unique_names([cell or f"column {k + 1}" for k, cell in enumerate(cells.row(0))], name)
        cells = cells.slice(1)
    cells.columns = names
    if cells.width > 1:  # a blank row of a single column is a missing value
        cells = cells.filter(~pl.all_horizontal(pl.all().is_null()))
    table, options = with_types(cells, options)
    for column in table.get_columns():  # spreadsheets store dates as times at midnight
        if column.dtype == pl.Datetime and column.is_not_null().any() and (column == column.dt.truncate("1d")).all():
            table = table.with_columns(column.cast(pl.Date))
    return SourceTable(table, table, options)


def _refuse_archive(data: bytes, name: str) -> None:
    """Refuse a ZIP file that is encrypted, is no spreadsheet, or would not fit into memory."""
    from sparsefield.config import refuse_beyond_available

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    if any(entry.flag_bits & 1 for entry in archive.filelist):
        raise DataError(f"{name}: the file is encrypted: save it without a password.")
    is_sheet = any(part.startswith("xl/") or part == "content.xml" for part in sizes)
    if not is_sheet or sizes.get("mimetype", 0) > 1000:
        raise DataError(f"{name}: this is no table that can be read: save the table as CSV, Parquet or Excel.")
    refuse_beyond_available(sum(sizes.values()), f"{name}: the spreadsheet")


def _choose(names: Sequence[str], wanted: str | None, file: str, what: str) -> str:
    """Return the sheet or table to read: the wanted one, or the only one."""
    listed = list_first([repr(name) for name in names], 20)
    if wanted is not None and wanted not in names:
        raise DataError(f"{file}: there is no {what} {wanted!r}; the file has {listed or 'none'}.")
    if not names:
        raise DataError(f"{file}: there is no {what} in the file: give another file.")
    if wanted is None and len(names) > 1:
        example = f"--set read.sheet={shlex.quote(names[0])}"
        raise DataError(f"{file}: there are {len(names)} {what}s, {listed}: choose one, such as with {example}.")
    return names[0] if wanted is None else wanted


def _read_statistical(content: _Content) -> pl.DataFrame:
    """Read a file of SPSS, Stata or SAS.

    Values that the file declares missing are null. A column whose values all have labels has the labels: as an Enum, in
    the order of the values, if its measure is ordinal, otherwise as text. Other labeled columns keep their numbers.
    """
    import polars as pl

    if find_spec("pyreadstat") is None:
        raise DataError(f"{content.name}: this is a file of SPSS, Stata or SAS: {_EXTRA} to read it.")
    # In a process of its own, since pyreadstat ends that in which it reads some damaged files.
    from sparsefield.config import available_memory

    words = [sys.executable, "-P", "-c", "import sparsefield.app.tables.read as r; r.send_statistical()"]
    memory = str(int(min(available_memory(), 2**40)))
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    seconds = READING_SECONDS * (1 + len(content.data) / 1e7)
    with content.as_file() as path:
        try:
            done = subprocess.run(
                [*words, str(path), _STATISTICAL[content.kind], memory], capture_output=True, timeout=seconds, env=paths
            )
        except subprocess.TimeoutExpired:
            done = subprocess.CompletedProcess(words, 1, b"", f"it took more than {seconds:.0f} s".encode())
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip() if done.returncode == 1 else ""
        reason = reason.rpartition("\n")[2] or "it is damaged"
        raise DataError(f"{content.name}: the file cannot be read ({reason}): export it again, or save it as CSV.")
    return pl.read_ipc(io.BytesIO(done.stdout))


def send_statistical() -> None:
    """Write the table of the file of SPSS, Stata or SAS that arguments of this process name to standard output."""
    path, function, memory = sys.argv[1:]
    import polars as pl
    import pyreadstat

    with suppress(ImportError, ValueError, OSError):  # Windows has no such limits
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    try:
        cells, about = getattr(pyreadstat, function)(path, output_format="dict")
        labels, measures = about.variable_value_labels, about.variable_measure
        table = pl.DataFrame(
            labeled_column(column, values, labels.get(column, {}), ordered=measures.get(column) == "ordinal")
            for column, values in cells.items()
        )
        table.write_ipc(sys.stdout.buffer)
    except Exception as error:  # of a dozen types where a file is damaged
        sys.exit(_one_line(error))


def labeled_column(name: str, values: Any, labels: dict[Any, str], *, ordered: bool) -> pl.Series:
    """Return a column with its labels if all its values have some; where values share one, all have their value."""
    import polars as pl

    from sparsefield.app.tables.values import as_whole

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
    spelled = dict(sorted(labels.items()))
    if len(set(spelled.values())) < len(spelled):  # every label gets its value, since "a (1)" may be one, too
        shown = {value: value if isinstance(value, str) else f"{value:.15g}" for value in spelled}
        spelled = {value: f"{text} ({shown[value]})" for value, text in spelled.items()}
    # Labels of values that are missing by declaration, such as "refused", are no levels.
    levels = [text for value, text in spelled.items() if min(used) <= value <= max(used)]
    cells = [None if value is None else spelled[value] for value in column]
    return pl.Series(name, cells, dtype=pl.Enum(levels) if ordered else pl.String)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")[:200] or type(error).__name__


@contextmanager
def polars_errors(path: Path | str, verb: str = "read") -> Iterator[None]:
    """Raise errors of polars, also those that are no `Exception`, as one-line `DataError` with the name of the file."""
    import polars as pl

    try:
        yield
    except BaseException as error:
        # A panic of Rust is no Exception, and each library has its own class for it.
        known = (pl.exceptions.PolarsError, OSError, UnicodeDecodeError)
        if not isinstance(error, known) and type(error).__name__ != "PanicException":
            raise
        line = (str(error).strip().splitlines() or ["it is damaged"])[0].rstrip(".")
        raise DataError(f"{path}: the file cannot be {verb} ({line}): is it complete?") from error


@contextmanager
def _silent_panics() -> Iterator[None]:
    """Discard what Rust prints about damaged files on the standard error of the process; exceptions say it, too."""
    try:
        before = os.dup(2)
    except OSError:  # there is no standard error
        yield
        return
    with open(before, "wb"), open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(before, 2)


def refuse_nested(table: pl.DataFrame, path: Path | str) -> None:
    """Refuse a table with lists, records, bytes or objects as cells."""
    import polars as pl

    others = [name for name, dtype in table.schema.items() if dtype.is_nested() or dtype in (pl.Binary, pl.Object)]
    if others:
        what = f"lists, records or bytes are no cells of a table; {list_columns(others)}"
        raise DataError(f"{path}: {what}: make a column of each part, or remove them.")


def list_columns(columns: Sequence[str]) -> str:
    """Return a short list of column names for a message."""
    return f"columns: {list_first(columns, 8)}"


def is_parquet(path: Path) -> bool:
    """Return whether the suffix of a file is that of Parquet."""
    return path.suffix.lower() in PARQUET


def parquet_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return a Parquet file, or those of a folder, sorted by name."""
    place = Path(path)
    if place.is_dir():
        files = sorted(file for file in place.iterdir() if is_parquet(file) and file.is_file())
        if not files:
            raise DataError(f"{place}: this folder has no Parquet files ({', '.join(PARQUET)}).")
        return files
    if not place.is_file():
        raise DataError(f"{place}: there is no such file.")
    if not is_parquet(place):
        raise DataError(f"{place}: only Parquet becomes a sparse matrix: use polars.scan_csv(...).sink_parquet(...).")
    return [place]


def parquet_columns(files: Sequence[Path]) -> list[str]:
    """Return the column names, which must be the same in all files; their order may differ."""
    import polars as pl

    first: list[str] = []
    for file in files:
        with polars_errors(file):
            names = pl.scan_parquet(file, glob=False).collect_schema().names()
        first = first or names
        if differing := sorted(set(names) ^ set(first)):
            raise DataError(f"{file}: the columns differ from those of {files[0]}, such as {differing[0]!r}.")
    return first
