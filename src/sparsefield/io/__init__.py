"""This package reads and writes tables, databases, triples, ground atoms, model files and exchange formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparsefield.io.atoms import read_atoms
    from sparsefield.io.database import read_database
    from sparsefield.io.field_factors import Factor, FieldFactors, log_linear_weights, to_factors, to_pgmpy
    from sparsefield.io.files import ReadOptions, read_table
    from sparsefield.io.graph_export import to_networkx, write_graphml
    from sparsefield.io.model_file import load_field, save_field
    from sparsefield.io.row_blocks import read_blocks, save_rows
    from sparsefield.io.schema_file import parse_schema_file, read_schema
    from sparsefield.io.triples import read_triples
    from sparsefield.io.uai import LOG_ZERO, read_uai, write_uai
    from sparsefield.io.uai_evidence import read_evidence, write_evidence

__all__ = [
    "LOG_ZERO",
    "Factor",
    "FieldFactors",
    "ReadOptions",
    "load_field",
    "log_linear_weights",
    "parse_schema_file",
    "read_atoms",
    "read_blocks",
    "read_database",
    "read_evidence",
    "read_schema",
    "read_table",
    "read_triples",
    "read_uai",
    "save_field",
    "save_rows",
    "to_factors",
    "to_networkx",
    "to_pgmpy",
    "write_evidence",
    "write_graphml",
    "write_uai",
]

_MODULE_OF_NAME = {
    "Factor": "field_factors",
    "FieldFactors": "field_factors",
    "LOG_ZERO": "uai",
    "ReadOptions": "files",
    "parse_schema_file": "schema_file",
    "log_linear_weights": "field_factors",
    "to_factors": "field_factors",
    "load_field": "model_file",
    "read_atoms": "atoms",
    "read_blocks": "row_blocks",
    "read_database": "database",
    "read_evidence": "uai_evidence",
    "read_schema": "schema_file",
    "read_table": "files",
    "read_triples": "triples",
    "read_uai": "uai",
    "save_field": "model_file",
    "save_rows": "row_blocks",
    "to_networkx": "graph_export",
    "to_pgmpy": "field_factors",
    "write_evidence": "uai_evidence",
    "write_graphml": "graph_export",
    "write_uai": "uai",
}


def __getattr__(name: str) -> Any:
    """Import a reader when it is first used, so that the command line starts quickly."""
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module 'sparsefield.io' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"sparsefield.io.{_MODULE_OF_NAME[name]}"), name)
