"""This module tells the kind of a file by its first bytes, whatever its name is."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

from sparsefield.errors import DataError

PARQUET = (".parquet", ".pq")
"""Suffixes of Parquet files, for outputs and for files that are not opened here."""

HEAD_BYTES = 1 << 16
"""How many bytes of a file decide its kind."""


@dataclass(frozen=True)
class FileKind:
    """A kind of file."""

    title: str
    """Its name; with an article if it cannot be read."""
    remedy: str = ""
    """What to do with a file that cannot be read; empty for kinds that can."""


_CSV = "save the table as CSV or Parquet"
_UNPACK = "unpack it first, and give one of its files"

KINDS = {
    "csv": FileKind("CSV"),
    "jsonl": FileKind("JSON lines"),
    "parquet": FileKind("Parquet"),
    "arrow": FileKind("Arrow file"),
    "arrow-stream": FileKind("Arrow stream"),
    "excel": FileKind("Excel sheet"),
    "ods": FileKind("OpenDocument sheet"),
    "spss": FileKind("SPSS file"),
    "stata": FileKind("Stata file"),
    "sas": FileKind("SAS file"),
    "sas-transport": FileKind("SAS transport file"),
    "sqlite": FileKind("SQLite table"),
    "duckdb": FileKind("DuckDB table"),
    "npz": FileKind(
        "a file of numpy arrays", "give a sparse matrix that scipy.sparse.save_npz wrote a name that ends in .npz"
    ),
    "npy": FileKind("a numpy array", "load it with numpy.load, and fit the array"),
    "ole": FileKind("a Microsoft Office file other than a workbook", _CSV),
    "zip": FileKind("a zip archive", _UNPACK),
    "tar": FileKind("a tar archive", _UNPACK),
    "7z": FileKind("a 7-Zip archive", _UNPACK),
    "rar": FileKind("a RAR archive", _UNPACK),
    "spss-portable": FileKind("an SPSS portable file", "save it as .sav"),
    "rdata": FileKind("a file of R objects", "write the table with write.csv or arrow::write_parquet in R"),
    "hdf5": FileKind("an HDF5 file", _CSV),
    "pickle": FileKind("a Python pickle, which could run code", _CSV),
    "orc": FileKind("an ORC file", _CSV),
    "avro": FileKind("an Avro file", _CSV),
    "safetensors": FileKind("a model file", "give the table first, or in the place of DATA"),
    "html": FileKind("an HTML page", "open it in a browser or a spreadsheet, and save its table as CSV"),
    "xml": FileKind("an XML file", _CSV),
    "json": FileKind("a JSON document", "write one JSON object per line (JSON lines), or CSV"),
    "pdf": FileKind("a PDF document", "export its table as CSV from the program that made it"),
    "rtf": FileKind("a rich text document", _CSV),
    "image": FileKind("a picture", "give the file of the table itself"),
    "binary": FileKind("a binary file of an unknown kind", _CSV),
}
"""{kind: its description}"""

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
    (8, b"DUCK", "duckdb"),
    (0, b"\x93NUMPY", "npy"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"),
    (257, b"ustar", "tar"),
    (0, b"7z\xbc\xaf\x27\x1c", "7z"),
    (0, b"Rar!\x1a\x07", "rar"),
    (40, b"ASCII SPSS PORT FILE", "spss-portable"),
    (0, b"RDX2\n", "rdata"),
    (0, b"RDX3\n", "rdata"),
    (0, b"X\n\x00\x00\x00", "rdata"),
    (0, b"\x89HDF\r\n", "hdf5"),
    (0, b"ORC", "orc"),
    (0, b"Obj\x01", "avro"),
    (0, b"%PDF-", "pdf"),
    (0, b"{\\rtf", "rtf"),
    (0, b"\x89PNG\r\n", "image"),
    (0, b"\xff\xd8\xff", "image"),
    (0, b"GIF8", "image"),
    (0, b"II*\x00", "image"),
    (0, b"MM\x00*", "image"),
)

_PRINTABLE = ("parquet", "arrow", "duckdb", "orc", "image")
"""Kinds with signatures that a header of text can begin with as well, such as ORCID."""

_COMPRESSIONS = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh91AY&SY", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
)


def compression_of(head: bytes) -> str | None:
    """Return the compression of a file that begins with these bytes, or None."""
    return next((name for start, name in _COMPRESSIONS if head.startswith(start)), None)


def kind_of(head: bytes, whole: Path | bytes) -> str:
    """Return the kind of a file, a key of `KINDS`.

    Parameters
    ----------
    head : the first `HEAD_BYTES` bytes of the file
    whole : the file or all its bytes, which are needed to list the members of a zip archive
    """
    for place, mark, kind in _SIGNATURES:
        if head.startswith(mark, place) and (kind not in _PRINTABLE or _has_control_bytes(head)):
            return _kind_of_ole(head, whole) if kind == "ole" else kind
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _kind_of_zip(whole)
    return _kind_of_old_stata(head) or _kind_of_text(head)


def _has_control_bytes(head: bytes) -> bool:
    """Return whether there are bytes that text in UTF-8 or a code page does not have."""
    return any(byte < 9 for byte in head)


def _kind_of_zip(whole: Path | bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(whole) if isinstance(whole, bytes) else whole) as archive:
            names = archive.namelist()
            kind = archive.read("mimetype") if "mimetype" in names else b""
    except (zipfile.BadZipFile, OSError):
        return "zip"
    if b"opendocument.spreadsheet" in kind:
        return "ods"
    if any(name.startswith("xl/") for name in names):
        return "excel"
    return "npz" if names and all(name.endswith(".npy") for name in names) else "zip"


def _kind_of_ole(head: bytes, whole: Path | bytes) -> str:
    """Tell a workbook of old Excel, which has a stream of that name, from other files in its container."""
    content = whole if isinstance(whole, bytes) else whole.read_bytes()
    return "excel" if any(name.encode("utf-16-le") in content for name in ("Workbook", "Book")) else "ole"


def _kind_of_old_stata(head: bytes) -> str | None:
    """Recognize Stata's formats 105 to 115: a version, the order of bytes, the type 1, and a zero."""
    old = (
        len(head) > 10 and head[0] in range(105, 116) and head[1] in (1, 2) and head[2:4] in (b"\x01\x00", b"\x01\x01")
    )
    return "stata" if old else None


def _kind_of_text(head: bytes) -> str:
    start = head[:2000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<table", b"<body")):
        return "html"
    if start.startswith((b"<?xml", b"<workbook")):
        return "html" if b"<html" in start else "xml"
    if start.startswith(b"{"):
        return "jsonl" if _is_json_object(head) else "json"
    if start.startswith(b"[") and start[1:].lstrip().startswith((b"{", b"[")):
        return "json"
    if len(head) > 8 and int.from_bytes(head[:8], "little") < 1 << 32 and head[8:10] == b'{"':
        return "safetensors"
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "pickle"
    return "binary" if _is_binary(head) else "csv"


def _is_json_object(head: bytes) -> bool:
    """Return whether the first line is a JSON object, or the begin of one that is too long to see."""
    import json

    line, newline, _ = head.lstrip(b"\xef\xbb\xbf \t\r\n").partition(b"\n")
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return not newline and len(head) >= HEAD_BYTES
    except RecursionError:
        return line.startswith(b"{")


def _is_binary(head: bytes) -> bool:
    """Return whether many bytes are control characters; text of 16 or 32 bits, and a few NUL bytes, are not binary."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or _is_wide(head):
        return False
    odd = sum(head.count(bytes([byte])) for byte in (*range(9), *range(14, 27), *range(28, 32)))
    return odd > 0.02 * len(head) + 2


def _is_wide(head: bytes) -> bool:
    """Return whether nearly every second byte is NUL, as in UTF-16 of a western language."""
    even, odd = head[:4096:2], head[1:4096:2]
    few, many = sorted((even.count(0), odd.count(0)))
    return bool(odd) and many > 0.7 * len(odd) and few < 0.1 * len(odd)


def refuse_kind(name: str, kind: str) -> None:
    """Refuse a kind of file that cannot be read."""
    found = KINDS[kind]
    if found.remedy:
        raise DataError(f"{name}: this is {found.title}: {found.remedy}.")


def is_parquet(path: Path) -> bool:
    """Return whether the suffix of a file is that of Parquet."""
    return path.suffix.lower() in PARQUET
