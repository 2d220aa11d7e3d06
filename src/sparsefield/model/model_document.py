"""This module reads the JSON of a model file without numpy, so that a file that is no model is refused at once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from sparsefield.errors import ModelFileError

FORMAT = "sparsefield"
CHAIN_FORMAT = "sparsefield-chain"
VERSION = 9
LENGTH_BYTES = 8
"""A safetensors file begins with the length of its header, a little-endian integer."""


def read_document(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the schema, fit record and options of a model, as `sparsefield.model.model_file.save_field` wrote them.

    Raises
    ------
    ModelFileError
        If there is no such file, or it is not a complete model of the format that this version reads.
    """
    path = Path(path)
    refuse_absent_model(path)
    metadata, content = _metadata_and_document(path)
    if metadata.get("format") == CHAIN_FORMAT:
        raise ModelFileError(f"{path}: holds a ChainCRF, which 'predict', 'evaluate --model' and 'info' use.")
    if metadata.get("format") != FORMAT:
        raise ModelFileError(f"{path}: this is a safetensors file, but not a sparsefield model.")
    version = str(metadata.get("version", ""))
    if not version.isdigit() or int(version) > VERSION:
        raise ModelFileError(
            f"{path}: the file has format {version}, but this version of sparsefield reads {VERSION}: upgrade it."
        )
    if int(version) < VERSION:
        raise ModelFileError(
            f"{path}: the file has format {version}, of an earlier version of sparsefield; this one reads format "
            f"{VERSION}: fit the model again."
        )
    try:
        document = json.loads(content)
    except RecursionError:
        raise ModelFileError(f"{path}: this sparsefield model has damaged contents (too many nested values).") from None
    except ValueError as error:
        raise ModelFileError(f"{path}: this sparsefield model has damaged contents ({error}).") from error
    if not isinstance(document, dict):
        raise ModelFileError(f"{path}: this sparsefield model has damaged contents (no document).")
    return document


def refuse_absent_model(path: Path) -> None:
    """Refuse a path where there is no file."""
    if path.is_dir():
        raise ModelFileError(f"{path}: this is a folder: give a model file.")
    if not path.is_file():
        raise ModelFileError(f"{path}: there is no such file.")


def is_chain_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a saved `ChainCRF`, of any version."""
    return read_metadata(path).get("format") == CHAIN_FORMAT


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the metadata of a safetensors file; nothing for another file, or a damaged one."""
    try:
        return _metadata_and_document(Path(path))[0]
    except (ModelFileError, OSError):
        return {}


def _metadata_and_document(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return the metadata of a safetensors file and the bytes of its array "document", if it has one.

    The file must have the size that its header tells.
    """
    try:
        with path.open("rb") as file:
            length, size = int.from_bytes(file.read(LENGTH_BYTES), "little"), path.stat().st_size
            if not 0 < length <= size - LENGTH_BYTES:
                raise ValueError("the header is incomplete")
            header = json.loads(file.read(length))
            metadata, start = header.pop("__metadata__", {}), LENGTH_BYTES + length
            ends = [tensor["data_offsets"][1] for tensor in header.values()]
            if start + max(ends, default=0) != size:
                raise ValueError("the arrays are incomplete")
            first, end = header["document"]["data_offsets"] if "document" in header else (0, 0)
            if not 0 <= first <= end:
                raise ValueError("the document has no size")
            file.seek(start + first)
            return dict(metadata), file.read(end - first)
    except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise ModelFileError(_describe_no_model(path)) from error


def _describe_no_model(path: Path) -> str:
    """Return what a file is that holds no model; a table may be there because two arguments are swapped."""
    with path.open("rb") as file:
        head = file.read(4096)
    if head.startswith(b"PAR1") or (b"\n" in head and b"\0" not in head):
        return (
            f"{path}: this is a table, not a model: give a model that 'fit' wrote. (If the command takes both, MODEL "
            "comes before DATA.)"
        )
    return f"{path}: not a complete sparsefield model (truncated, or another kind of file)."
