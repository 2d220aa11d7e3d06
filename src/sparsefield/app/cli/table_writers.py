"""This module writes tables in the format that the name of the output asks for: text, Parquet, Arrow, JSON, Excel."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.app.tables.file_kinds import PARQUET
from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl

TEXT = "text"
TAB_FILES = (".tsv", ".tab")
KIND_OF_SUFFIX = {
    **dict.fromkeys((".csv", ".txt", *TAB_FILES), TEXT),
    **dict.fromkeys(PARQUET, "parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    ".xlsx": "excel",
}
COMPRESSION_OF_SUFFIX = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
COMPRESSED = (TEXT, "jsonl")
"""Kinds of files that may be compressed; the others compress themselves."""

NEEDED = {"excel": "xlsxwriter", "zstd": "zstandard"}
"""{kind or compression: the package that writes it}"""

MOST_ROWS, MOST_COLUMNS = 1_048_575, 16_384
"""Size of an Excel sheet, without its header."""


@dataclass(frozen=True)
class OutputFormat:
    """The format of an output, by its name."""

    kind: str
    """"text", "parquet", "arrow", "jsonl" or "excel"."""
    suffix: str
    """The suffix without that of the compression, in lower case."""
    compression: str | None = None

    @property
    def is_text(self) -> bool:
        return self.kind == TEXT


def find_output_format(path: Path) -> OutputFormat | None:
    """Return the format of an output by its name; None if the name does not tell one.

    Examples
    --------
    >>> find_output_format(Path("filled.tsv.gz"))
    OutputFormat(kind='text', suffix='.tsv', compression='gzip')
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = COMPRESSION_OF_SUFFIX.get(suffixes[-1]) if suffixes else None
    if compression is not None:
        suffixes.pop()
    kind = KIND_OF_SUFFIX.get(suffixes[-1]) if suffixes else None
    if kind is None or (compression is not None and kind not in COMPRESSED):
        return None
    return OutputFormat(kind, suffixes[-1], compression)


def check_output_format(path: Path) -> None:
    """Refuse an output in a format that cannot be written, or for which a package is missing."""
    found = find_output_format(path)
    if found is None:
        raise DataError(
            f"{path}: the name of the output should end in .csv, .tsv, .parquet, .arrow, .jsonl or .xlsx; text may be "
            "compressed, as in .csv.gz."
        )
    for what in (found.kind, found.compression):
        if what in NEEDED and find_spec(NEEDED[what]) is None:
            raise DataError(
                f"{path}: {NEEDED[what]} is needed to write this file: pip install 'sparsefield[files]', or write "
                "another format, such as .csv."
            )


def write_typed(table: pl.DataFrame, kind: str, name: str, *, header: bool = True) -> bytes:
    """Return a table whose columns have types as a file of a kind other than text."""
    buffer = io.BytesIO()
    writers: dict[str, Callable[..., Any]] = {
        "parquet": table.write_parquet,
        "arrow": table.write_ipc,
        "jsonl": table.write_ndjson,
    }
    if kind == "excel":
        _write_sheet(table, buffer, name, header)
    else:
        writers[kind](buffer)
    return buffer.getvalue()


def _write_sheet(table: pl.DataFrame, buffer: io.BytesIO, name: str, header: bool) -> None:
    if table.height > MOST_ROWS or table.width > MOST_COLUMNS:
        raise DataError(
            f"{name}: an Excel sheet has at most {MOST_ROWS:,} rows and {MOST_COLUMNS:,} columns, and the table has "
            f"{table.height:,} and {table.width:,}: write another format, such as .parquet."
        )
    table.write_excel(buffer, include_header=header)


def compress(content: bytes, compression: str | None) -> bytes:
    """Return compressed content, the same for the same content."""
    import bz2
    import gzip
    import lzma

    if compression == "zstd":
        import zstandard

        return zstandard.ZstdCompressor().compress(content)
    ways = {"gzip": lambda data: gzip.compress(data, mtime=0), "bzip2": bz2.compress, "xz": lzma.compress}
    return content if compression is None else ways[compression](content)
