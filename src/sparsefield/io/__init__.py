"""This package reads and writes tables, databases, triples, ground atoms, model files and exchange formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparsefield.lazy_imports import lazy_names

if TYPE_CHECKING:
    from sparsefield.io.atoms import read_atoms
    from sparsefield.io.baskets import Baskets, read_baskets
    from sparsefield.io.conll import ConllSentences, read_conll
    from sparsefield.io.database import read_database
    from sparsefield.io.field_factors import Factor, FieldFactors, log_linear_weights, to_factors, to_pgmpy
    from sparsefield.io.file_format import FileFormat
    from sparsefield.io.files import SourceTable, read_source, read_table
    from sparsefield.io.graph_export import to_networkx, write_graphml
    from sparsefield.io.model_file import load_field, save_field
    from sparsefield.io.read_options import ReadOptions
    from sparsefield.io.row_blocks import read_blocks, save_rows
    from sparsefield.io.schema_file import parse_schema_file, read_schema
    from sparsefield.io.triples import read_triples
    from sparsefield.io.uai import LOG_ZERO, read_uai, write_uai
    from sparsefield.io.uai_evidence import read_evidence, write_evidence

__all__ = [
    "LOG_ZERO",
    "Baskets",
    "ConllSentences",
    "Factor",
    "FieldFactors",
    "FileFormat",
    "ReadOptions",
    "SourceTable",
    "load_field",
    "log_linear_weights",
    "parse_schema_file",
    "read_atoms",
    "read_baskets",
    "read_blocks",
    "read_conll",
    "read_database",
    "read_evidence",
    "read_schema",
    "read_source",
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

_NAMES_OF_MODULE = {
    "atoms": ["read_atoms"],
    "baskets": ["Baskets", "read_baskets"],
    "conll": ["ConllSentences", "read_conll"],
    "database": ["read_database"],
    "field_factors": ["Factor", "FieldFactors", "log_linear_weights", "to_factors", "to_pgmpy"],
    "file_format": ["FileFormat"],
    "files": ["SourceTable", "read_source", "read_table"],
    "graph_export": ["to_networkx", "write_graphml"],
    "model_file": ["load_field", "save_field"],
    "read_options": ["ReadOptions"],
    "row_blocks": ["read_blocks", "save_rows"],
    "schema_file": ["parse_schema_file", "read_schema"],
    "triples": ["read_triples"],
    "uai": ["LOG_ZERO", "read_uai", "write_uai"],
    "uai_evidence": ["read_evidence", "write_evidence"],
}

__getattr__ = lazy_names("sparsefield.io", _NAMES_OF_MODULE)
