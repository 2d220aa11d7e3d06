"""Checkpoint of a fit: features and weights, from which an interrupted fit goes on to the same certified optimum."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import asdict

from sparsefield.atomic_write import remove_with_leftovers, write_atomically
from sparsefield.data import Dataset
from sparsefield.errors import CheckpointWarning, DataError
from sparsefield.model import IterationRecord
from sparsefield.solver.state import State, WarmStart

VERSION, STEPS_BETWEEN_SAVES = "10", 5


@dataclass(frozen=True)
class CheckpointFile:
    """A file with arrays and plain values, which is replaced as a whole."""

    path: Path
    mark: str
    """`fingerprint` of the fit; the file of another fit is refused."""

    def save(self, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> bool:
        """Replace the file; where that fails, as on a full disk, warn and return False, so that the fit goes on."""
        from safetensors.numpy import save

        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        metadata = {"version": VERSION, "mark": self.mark, "facts": json.dumps(facts)}
        try:
            write_atomically(self.path, save(arrays, metadata))
        except OSError as error:
            warnings.warn(
                f"{self.path}: the state of the fit could not be saved ({error.strerror or error}). The fit goes on; "
                "if it is interrupted, it continues from the last state that was saved, if any.",
                CheckpointWarning,
                stacklevel=2,
            )
            return False
        return True

    def load(self) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """Return what was saved last, or None when nothing was.

        Raises
        ------
        DataError
            If the file is damaged, or belongs to another fit. It is left as it is: to start again without asking
            would discard a long fit.
        """
        from safetensors import SafetensorError, safe_open

        if not self.path.is_file():
            return None
        try:
            with safe_open(self.path, framework="np") as file:
                metadata = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            version, mark, facts = metadata["version"], metadata["mark"], json.loads(metadata["facts"])
        except (SafetensorError, OSError, KeyError, ValueError, RecursionError) as error:
            raise DataError(f"{self.path}: not a complete checkpoint: delete it to start again.") from error
        if version != VERSION or mark != self.mark:
            raise DataError(
                f"{self.path}: belongs to a fit of other data or options, or of another version of sparsefield: choose "
                "another folder, or delete the file."
            )
        return arrays, facts

    def clear(self) -> None:
        """Delete the file."""
        remove_with_leftovers(self.path.parent, self.path.name)


def save_state(file: CheckpointFile, state: State) -> None:
    """Save features, weights and the training log after every few steps: a warm start."""
    if len(state.records) % STEPS_BETWEEN_SAVES == 0:
        arrays = {"theta": state.working_set.theta, "features": state.working_set.features}
        file.save(arrays, {"iterations": [asdict(record) for record in state.records]})


def load_state(file: CheckpointFile) -> tuple[WarmStart, list[IterationRecord]] | None:
    """Return features and weights after the last step that was saved, and the log; None when nothing was."""
    saved = file.load()
    if saved is None:
        return None
    arrays, facts = saved
    biases, weights = np.split(arrays["theta"], [len(arrays["theta"]) - len(arrays["features"])])
    return WarmStart(biases, arrays["features"], weights), [IterationRecord(**row) for row in facts["iterations"]]


def make_folder(folder: str | os.PathLike[str]) -> Path:
    """Return the folder of checkpoints, which is created if necessary."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"checkpoint: the folder '{path}' cannot be created ({error.strerror}).") from None
    return path


def fingerprint(dataset: Dataset, *parts: Any) -> str:
    """Return a digest of the data and of everything else that determines a fit."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(part.tobytes())
        digest.update((repr(part) if is_dataclass(part) else type(part).__name__).encode())
    layout = dataset.layout
    digest.update(repr((layout.tables, layout.templates, layout.ends)).encode())
    for schema in layout.schemas:
        digest.update(repr(schema).encode())
    dataset.update_digest(digest)
    return digest.hexdigest()


class SelectionCheckpoint:
    """Files of a folder with the finished points of a choice of l1, one for each fold.

    Parameters
    ----------
    folder : folder of the files; it is created if necessary
    mark : `fingerprint` of the selection; files of another one are refused
    """

    def __init__(self, folder: str | os.PathLike[str], mark: str) -> None:
        self._folder, self._mark = make_folder(folder), mark

    def file(self, name: str) -> CheckpointFile:
        """Return the file of a fold."""
        return CheckpointFile(self._folder / f"selection-fold-{name}.checkpoint", self._mark)

    def clear(self) -> None:
        """Delete all files."""
        remove_with_leftovers(self._folder, "selection-fold-*.checkpoint")
