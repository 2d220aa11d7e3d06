"""This module reads files of NumPy arrays, whose headers and sizes it checks before it trusts them.

NumPy and zipfile raise exceptions of a dozen types for damaged files, and allocate what a header asks for.
"""

from __future__ import annotations

import ast
import lzma
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

import numpy as np

from sparsefield.data.memory import refuse_beyond_available
from sparsefield.errors import DataError

MAGIC = b"\x93NUMPY"

MAX_HEADER = 10_000
"""Bytes of a header; NumPy writes 118 for an array of one or two dimensions."""

PLAIN_TYPE = re.compile(r"[<>|=][biufSU]\d{1,4}")
"""Types of arrays that are read: numbers, booleans and text, never Python objects."""

PIECE = 2**20
"""Bytes that are read from an archive at a time."""

MAX_EXPANSION = 200
"""Ratio of the contents of an archive to its size beyond which it is refused, if the contents exceed `LARGE`."""

LARGE = 2**28

DAMAGE = (
    ValueError,
    TypeError,
    SyntaxError,
    RecursionError,
    OverflowError,
    OSError,
    EOFError,
    RuntimeError,  # also NotImplementedError, of an unknown compression
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
"""What reading a damaged file may raise."""


@dataclass(frozen=True)
class ArrayHeader:
    """What the header of an array says about its data."""

    dtype: np.dtype
    shape: tuple[int, ...]
    order: str
    """``"C"`` or ``"F"``."""
    offset: int
    """Number of bytes before the data."""

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def load_array(path: Path) -> np.ndarray:
    """Read an ``.npy`` file; DataError if it is damaged, or larger than the memory that is available."""
    with damage_of(path), path.open("rb") as file:
        header = read_header(file, path.stat().st_size)
        refuse_beyond_available(header.n_bytes, f"{path}: the array")
        return _read_data(file, header)


def map_array(path: Path) -> np.ndarray:
    """Map an ``.npy`` file copy-on-write: changes of the array never reach the disk.

    Kernels are compiled for writable arrays, and would be compiled once more for read-only ones.
    """
    with damage_of(path):
        with path.open("rb") as file:
            header = read_header(file, path.stat().st_size)
        if not header.n_bytes:
            return np.empty(header.shape, header.dtype)
        order = "F" if header.order == "F" else "C"
        mapped = np.memmap(path, header.dtype, "c", header.offset, header.shape, order)
        return mapped.view(np.ndarray)


def read_archive(path: Path, names: Collection[str]) -> dict[str, np.ndarray]:
    """Read those arrays of an ``.npz`` file that are among ``names``.

    Sizes are checked before anything is read: a small file may claim, or expand to, any number of bytes.
    """
    with damage_of(path), zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if entry.filename.removesuffix(".npy") in names]
        if len({entry.filename for entry in entries}) < len(entries):
            _refuse("two of its arrays have the same name")
        _refuse_expansion(entries, path)
        return {entry.filename.removesuffix(".npy"): _read_entry(archive, entry) for entry in entries}


def read_header(file: IO[bytes], size: int) -> ArrayHeader:
    """Read the header of an array whose file has ``size`` bytes; ValueError if the two do not agree."""
    start = file.read(len(MAGIC) + 2)
    if start[: len(MAGIC)] != MAGIC or start[-2] not in (1, 2, 3):
        _refuse("it is not a NumPy array")
    length_format = "<H" if start[-2] == 1 else "<I"
    length_bytes = file.read(struct.calcsize(length_format))
    (length,) = struct.unpack(length_format, length_bytes)
    if length > MAX_HEADER:
        _refuse("the header of an array is damaged")
    text = file.read(length).decode("utf-8" if start[-2] == 3 else "latin-1")
    header = _parse_header(text, len(start) + len(length_bytes) + length)
    if header.offset + header.n_bytes != size:
        _refuse(f"an array has {size:,} bytes where its header says {header.offset + header.n_bytes:,}")
    return header


@contextmanager
def damage_of(path: Path) -> Iterator[None]:
    """Raise what a damaged file leads to as a DataError with its name."""
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except DAMAGE as error:
        reason = str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__
        raise DataError(f"{path}: the file is damaged ({reason}): write it again.") from None


def _parse_header(text: str, offset: int) -> ArrayHeader:
    found = ast.literal_eval(text.strip())
    if not isinstance(found, dict) or set(found) != {"descr", "fortran_order", "shape"}:
        _refuse("the header of an array is damaged")
    descr, shape = found["descr"], found["shape"]
    if not isinstance(descr, str) or not PLAIN_TYPE.fullmatch(descr):
        _refuse(f"an array has the type {str(descr)[:40]!r}, where numbers are expected")
    if not isinstance(shape, tuple) or any(type(n) is not int or n < 0 for n in shape) or len(shape) > 3:
        _refuse("the header of an array is damaged")
    return ArrayHeader(np.dtype(descr), shape, "F" if found["fortran_order"] else "C", offset)


def _read_data(file: IO[bytes], header: ArrayHeader) -> np.ndarray:
    data = bytearray(header.n_bytes)
    view, done = memoryview(data), 0
    while done < len(data):
        part = file.read(min(PIECE, len(data) - done))
        if not part:
            _refuse("it ends too early")
        view[done : done + len(part)] = part
        done += len(part)
    if file.read(1):  # this also compares the checksum of an archive
        _refuse("it has more data than its header says")
    return np.frombuffer(data, header.dtype).reshape(header.shape, order="F" if header.order == "F" else "C")


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(entry) as file:
        return _read_data(file, read_header(file, entry.file_size))


def _refuse_expansion(entries: list[zipfile.ZipInfo], path: Path) -> None:
    size, contents = path.stat().st_size, sum(entry.file_size for entry in entries)
    if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
        _refuse("it is compressed in a way that NumPy does not use")
    if any(entry.flag_bits & 1 for entry in entries):
        _refuse("it is encrypted")
    if contents > LARGE and contents > MAX_EXPANSION * size:
        raise DataError(
            f"{path}: the file has {size / 1e6:,.1f} MB and would expand to {contents / 1e9:,.1f} GB, which no matrix "
            "of data does: if it is genuine, save it with compressed=False."
        )
    refuse_beyond_available(2.0 * contents, f"{path}: the matrix")


def _refuse(reason: str) -> NoReturn:
    raise ValueError(reason)
