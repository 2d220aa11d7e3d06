"""Tables from where they lie: files, also ones larger than memory, triples, ground atoms, databases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparsefield.readers.atoms import read_atoms
    from sparsefield.readers.blocks import read_blocks, save_rows
    from sparsefield.readers.database import read_database
    from sparsefield.readers.files import Reading, read_table
    from sparsefield.readers.schema_file import describe, read_schema
    from sparsefield.readers.triples import read_triples

__all__ = [
    "Reading",
    "describe",
    "read_atoms",
    "read_blocks",
    "read_database",
    "read_schema",
    "read_table",
    "read_triples",
    "save_rows",
]

_HOMES = {
    "Reading": "files",
    "describe": "schema_file",
    "read_atoms": "atoms",
    "read_blocks": "blocks",
    "read_database": "database",
    "read_schema": "schema_file",
    "read_table": "files",
    "read_triples": "triples",
    "save_rows": "blocks",
}


def __getattr__(name: str) -> Any:
    """Readers are imported when they are first used, so that the command line starts quickly."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sparsefield.readers' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"sparsefield.readers.{_HOMES[name]}"), name)
