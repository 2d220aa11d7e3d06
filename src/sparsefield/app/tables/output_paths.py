"""Refusal of outputs that would replace a file that is read, or another output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from sparsefield.app.tables.read import is_parquet
from sparsefield.errors import DataError

STANDARD_STREAM = "-"
"""The name of standard input among inputs, and of standard output among outputs."""


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
    written = [path for path in outputs if path is not None and str(path) != STANDARD_STREAM]
    read = {key: path for path in inputs if path is not None for key in _identities(path)}
    seen: set[object] = set()
    for path in written:
        own = _identity(path)
        if own in read or _is_parquet_of(path, read.values()):
            named = "standard input" if str(read.get(own)) == STANDARD_STREAM else "one of the files that are read"
            raise DataError(f"{path}: this is {named}: write to another file.")
        if own in seen:
            raise DataError(f"{path}: two outputs have this name: give each its own.")
        seen.add(own)


def _identity(path: Path) -> object:
    """Return what two names of one file have in common: device and inode, or the path of a file that is not there."""
    try:
        found = path.stat()
    except OSError:
        return path.resolve()
    return found.st_dev, found.st_ino


def _identities(path: Path) -> list[object]:
    if str(path) != STANDARD_STREAM:
        return [_identity(path)]
    try:
        found = os.fstat(sys.stdin.fileno())
    except (OSError, ValueError):  # no file, as in tests
        return [STANDARD_STREAM]
    return [(found.st_dev, found.st_ino)]


def _is_parquet_of(path: Path, inputs: Iterable[Path]) -> bool:
    """Return whether a path names an existing Parquet file in a folder that is read."""
    if not (is_parquet(path) and path.is_file()):
        return False
    folders = {folder.resolve() for folder in inputs if folder.is_dir()}
    return bool(folders & set(path.resolve().parents))
