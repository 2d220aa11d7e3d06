"""A fit on disk, so that one that was killed goes on where it stood and ends with the same bits."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparsefield.data import BinarySchema, Dataset, DistributedDataset, SparseDataset, SparseTable
from sparsefield.data.shards import combine_digests, digest_block
from sparsefield.data.sparse_shards import digest_sparse_block
from sparsefield.errors import DataError
from sparsefield.io.atomic_write import write_atomically

__all__ = ["Checkpoint", "fingerprint"]

NAME = "fit.checkpoint"
VERSION = "4"


class Checkpoint:
    """One file in a folder, replaced as a whole.

    Parameters
    ----------
    folder : where the file lies; made when it is not there
    mark : `fingerprint` of the fit: a file of another fit is refused
    every : how many turns of the training loop pass between two savings
    """

    def __init__(self, folder: str | os.PathLike[str], mark: str, every: int = 5) -> None:
        self.path = Path(folder) / NAME
        self.mark, self.every = mark, every
        self._turns = 0
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"checkpoint: the folder '{self.path.parent}' cannot be made ({error.strerror}).") from None

    def due(self) -> bool:
        """Whether enough turns have passed since the last saving; counts this one."""
        self._turns += 1
        return self._turns % self.every == 0

    def save(self, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> None:
        from safetensors.numpy import save

        metadata = {"version": VERSION, "mark": self.mark, "facts": json.dumps(facts)}
        write_atomically(self.path, save({k: np.ascontiguousarray(v) for k, v in arrays.items()}, metadata))

    def load(self) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """What was saved last, or None when nothing was."""
        from safetensors import SafetensorError, safe_open

        if not self.path.is_file():
            return None
        try:
            with safe_open(self.path, framework="np") as file:
                metadata = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            facts = json.loads(metadata["facts"])
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise DataError(f"{self.path}: not a complete checkpoint: delete it to start anew.") from error
        if metadata.get("version") != VERSION or metadata.get("mark") != self.mark:
            raise DataError(
                f"{self.path}: belongs to a fit of other data or options: take another folder, or delete it."
            )
        return arrays, facts

    def clear(self) -> None:
        """The fit has ended: leave nothing behind, also not what a killed process was just writing."""
        self.path.unlink(missing_ok=True)
        for partial in self.path.parent.glob(f".{NAME}.*.partial"):
            partial.unlink(missing_ok=True)


def fingerprint(sample: Dataset, *parts: Any) -> str:
    """One word for the data and everything else that decides a fit's bits."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        told = repr(part) if is_dataclass(part) else type(part).__name__
        digest.update(told.encode())
    layout = sample.layout
    digest.update(repr((layout.tables, layout.templates, layout.ends)).encode())
    for schema in layout.schemas:
        digest.update(repr(schema).encode())
    if isinstance(sample, SparseDataset):
        _digest_sparse(digest, sample.table)
        return digest.hexdigest()
    if isinstance(sample, DistributedDataset):
        digest.update(sample.mark.encode())
        return digest.hexdigest()
    # The same mark as of rows on a cluster: a fit may go on elsewhere.
    digest.update(combine_digests(digest_block(block) for _, block in sample.blocks()).encode())
    for neighbors in sample.neighbors:
        digest.update(neighbors.offsets.tobytes())
        digest.update(neighbors.rows.tobytes())
    return digest.hexdigest()


def _digest_sparse(digest: hashlib.blake2b, table: SparseTable) -> None:
    """Block by block, since the table may lie on disk; a schema of many switches tells little of itself."""
    if isinstance(table.schema, BinarySchema):
        digest.update("\n".join(table.schema.order).encode())
        for part in table.schema.variable_groups:
            digest.update("\n".join(part.names).encode())
    digest.update(combine_digests(digest_sparse_block(block) for block in table.blocks).encode())
