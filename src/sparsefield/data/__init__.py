"""Frames, arrays, sparse matrices and linked tables, turned into a schema and flat, read-only arrays."""

from sparsefield.data.coding import Coding, ColumnClass
from sparsefield.data.column_summaries import check_weights
from sparsefield.data.dataset import (
    Dataset,
    deduplicate_rows,
    hold_out_cells,
    row_folds,
    update_neighbor_sums,
    weigh_rows,
)
from sparsefield.data.frame_building import fill_cells, make_frame
from sparsefield.data.frames import JoinedColumns, Source, as_array, as_source, check_kind, read_covariates
from sparsefield.data.layout import NEIGHBOR_COUNT, Arcs, CandidateBlock, Layout
from sparsefield.data.links import AUTO, BASE, ForeignKey, OffsetLink, Template, as_templates
from sparsefield.data.relational import Relational, link_product, resolve_templates, row_pairs, template_ends
from sparsefield.data.schema import Label, Schema, Variable
from sparsefield.data.schema_learning import learn_schema, warn_incomplete_covariates
from sparsefield.data.sparse_matrix import CovariateWeights, SparseMatrix
from sparsefield.data.table import Block, SparseBlock, Table, compile_sparse, compile_table

__all__ = [
    "AUTO", "BASE", "NEIGHBOR_COUNT", "Arcs", "Block", "CandidateBlock", "Coding", "ColumnClass", "CovariateWeights",
    "Dataset", "ForeignKey", "JoinedColumns", "Label", "Layout", "OffsetLink", "Relational", "Schema", "Source",
    "SparseBlock", "SparseMatrix", "Table", "Template", "Variable", "as_array", "as_source", "as_templates",
    "check_kind", "check_weights", "compile_sparse", "compile_table", "deduplicate_rows", "fill_cells",
    "hold_out_cells", "learn_schema", "link_product", "make_frame", "read_covariates", "resolve_templates", "row_folds",
    "row_pairs", "template_ends", "update_neighbor_sums", "warn_incomplete_covariates", "weigh_rows",
]  # fmt: skip
