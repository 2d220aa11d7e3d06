"""Frames, arrays, sparse matrices and linked tables become a schema and flat, read-only arrays."""

from sparsefield.data.binary_variables import Switches, SwitchSchema
from sparsefield.data.dataset import (
    AnySample,
    MegaSample,
    Neighbors,
    PlacedSample,
    SparseSample,
    Trainable,
    look_around,
)
from sparsefield.data.deduplication import merge_equal_rows
from sparsefield.data.frames import Joined, Source, as_array, check_kind, fill, make_frame, read
from sparsefield.data.layout import HOW_MANY, Arcs, Layout, Meeting, View
from sparsefield.data.links import ForeignKey, Step, Template, as_template
from sparsefield.data.relational import Relational
from sparsefield.data.schema import Label, Role, Schema, Variable
from sparsefield.data.schema_learning import learn_schema
from sparsefield.data.sparse_table import SparseBlock, SparseTable, compile_sparse
from sparsefield.data.splits import draw_rows, hide_cells, take_rows, weigh_rows
from sparsefield.data.table import Block, Table, compile_table
from sparsefield.data.templates import resolve_templates, row_pairs, template_ends

__all__ = [
    "HOW_MANY",
    "AnySample",
    "Arcs",
    "Block",
    "ForeignKey",
    "Joined",
    "Label",
    "Layout",
    "Meeting",
    "MegaSample",
    "Neighbors",
    "PlacedSample",
    "Relational",
    "Role",
    "Schema",
    "Source",
    "SparseBlock",
    "SparseSample",
    "SparseTable",
    "Step",
    "SwitchSchema",
    "Switches",
    "Table",
    "Template",
    "Trainable",
    "Variable",
    "View",
    "as_array",
    "as_template",
    "check_kind",
    "compile_sparse",
    "compile_table",
    "draw_rows",
    "fill",
    "hide_cells",
    "learn_schema",
    "look_around",
    "make_frame",
    "merge_equal_rows",
    "read",
    "resolve_templates",
    "row_pairs",
    "take_rows",
    "template_ends",
    "weigh_rows",
]
