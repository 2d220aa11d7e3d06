"""Frames, arrays and sparse matrices become a schema and flat, read-only arrays."""

from sparsefield.data.frames import Joined, Source, as_array, check_kind, fill, make_frame, read
from sparsefield.data.schema import Label, Role, Schema, Variable, learn_schema
from sparsefield.data.table import Block, Table, compile_table

__all__ = [
    "Block",
    "Joined",
    "Label",
    "Role",
    "Schema",
    "Source",
    "Table",
    "Variable",
    "as_array",
    "check_kind",
    "compile_table",
    "fill",
    "learn_schema",
    "make_frame",
    "read",
]
