"""This module saves the state of a fit, so that an interrupted fit can be continued and ends with the same bits."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparsefield.data import Dataset
from sparsefield.errors import DataError
from sparsefield.io.atomic_write import write_atomically

NAME = "fit.checkpoint"
VERSION = "3"


class Checkpoint:
    """One file in a folder, which is replaced as a whole.

    Parameters
    ----------
    folder : folder of the file; it is created if necessary
    mark : `fingerprint` of the fit; the file of another fit is refused
    every : number of stages of the training loop between two saves
    """

    def __init__(self, folder: str | os.PathLike[str], mark: str, every: int = 5) -> None:
        self.path = Path(folder) / NAME
        self.mark, self.every = mark, every
        self._stages = 0
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                f"checkpoint: the folder '{self.path.parent}' cannot be created ({error.strerror})."
            ) from None

    def due(self) -> bool:
        """Count a stage, and return whether to save now."""
        self._stages += 1
        return self._stages % self.every == 0

    def save(self, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> None:
        """Replace the file."""
        from safetensors.numpy import save

        metadata = {"version": VERSION, "mark": self.mark, "facts": json.dumps(facts)}
        write_atomically(self.path, save({k: np.ascontiguousarray(v) for k, v in arrays.items()}, metadata))

    def load(self) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """Return what was saved last, or None when nothing was."""
        from safetensors import SafetensorError, safe_open

        if not self.path.is_file():
            return None
        try:
            with safe_open(self.path, framework="np") as file:
                metadata = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            facts = json.loads(metadata["facts"])
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise DataError(f"{self.path}: not a complete checkpoint: delete it to start again.") from error
        if metadata.get("version") != VERSION or metadata.get("mark") != self.mark:
            raise DataError(
                f"{self.path}: belongs to a fit of other data or options: choose another folder, or delete the file."
            )
        return arrays, facts

    def clear(self) -> None:
        """Delete the file, and partial files that an interrupted process left behind."""
        self.path.unlink(missing_ok=True)
        for partial in self.path.parent.glob(f".{NAME}.*.partial"):
            partial.unlink(missing_ok=True)


def fingerprint(sample: Dataset, *parts: Any) -> str:
    """Return a digest of the data and of everything else that determines the bits of a fit."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update((repr(part) if is_dataclass(part) else type(part).__name__).encode())
    layout = sample.layout
    digest.update(repr((layout.tables, layout.templates, layout.ends)).encode())
    for schema in layout.schemas:
        digest.update(repr(schema).encode())
    sample.update_digest(digest)
    return digest.hexdigest()
