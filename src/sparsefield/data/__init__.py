"""This package turns frames, arrays, sparse matrices and linked tables into a schema and flat, read-only arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparsefield import lazy_names

if TYPE_CHECKING:
    from sparsefield.data.candidate_pairs import NEIGHBOR_COUNT, CandidateBlock
    from sparsefield.data.coding import Coding, ColumnClass
    from sparsefield.data.covariate_matrix import CovariateMatrix, CovariateWeights, read_covariates
    from sparsefield.data.dataset import Dataset, update_neighbor_sums
    from sparsefield.data.deduplication import deduplicate_rows
    from sparsefield.data.frame_building import fill_cells, make_frame
    from sparsefield.data.frames import JoinedColumns, Source, as_array, as_source, check_kind
    from sparsefield.data.layout import Arcs, Layout
    from sparsefield.data.links import ForeignKey, OffsetLink, Template
    from sparsefield.data.relational import Relational
    from sparsefield.data.schema import Label, Schema, Variable
    from sparsefield.data.schema_learning import learn_schema, warn_incomplete_covariates
    from sparsefield.data.sparse_table import compile_sparse
    from sparsefield.data.splits import hold_out_cells, row_folds, weigh_rows
    from sparsefield.data.table import Block, SparseBlock, Table, compile_table
    from sparsefield.data.templates import resolve_templates, row_pairs, template_ends

__all__ = [
    "NEIGHBOR_COUNT",
    "Arcs",
    "Block",
    "CandidateBlock",
    "Coding",
    "ColumnClass",
    "CovariateMatrix",
    "CovariateWeights",
    "Dataset",
    "ForeignKey",
    "JoinedColumns",
    "Label",
    "Layout",
    "OffsetLink",
    "Relational",
    "Schema",
    "Source",
    "SparseBlock",
    "Table",
    "Template",
    "Variable",
    "as_array",
    "as_source",
    "check_kind",
    "compile_sparse",
    "compile_table",
    "deduplicate_rows",
    "fill_cells",
    "hold_out_cells",
    "learn_schema",
    "make_frame",
    "read_covariates",
    "resolve_templates",
    "row_folds",
    "row_pairs",
    "template_ends",
    "update_neighbor_sums",
    "warn_incomplete_covariates",
    "weigh_rows",
]

__getattr__ = lazy_names(
    "sparsefield.data",
    {
        "coding": ["Coding", "ColumnClass"],
        "covariate_matrix": ["CovariateMatrix", "CovariateWeights", "read_covariates"],
        "dataset": [
            "Dataset",
            "update_neighbor_sums",
        ],
        "deduplication": ["deduplicate_rows"],
        "candidate_pairs": ["NEIGHBOR_COUNT", "CandidateBlock"],
        "frame_building": ["fill_cells", "make_frame"],
        "frames": ["JoinedColumns", "Source", "as_array", "as_source", "check_kind"],
        "layout": ["Arcs", "Layout"],
        "links": ["ForeignKey", "OffsetLink", "Template"],
        "relational": ["Relational"],
        "schema": ["Label", "Schema", "Variable"],
        "schema_learning": ["learn_schema", "warn_incomplete_covariates"],
        "sparse_table": ["compile_sparse"],
        "splits": ["hold_out_cells", "row_folds", "weigh_rows"],
        "table": ["Block", "SparseBlock", "Table", "compile_table"],
        "templates": ["resolve_templates", "row_pairs", "template_ends"],
    },
)
