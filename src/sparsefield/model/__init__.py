"""This package holds the learned field, its features and weights, and tables of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparsefield.lazy_imports import lazy_names

if TYPE_CHECKING:
    from sparsefield.model.feature_tables import bias_table, edge_table, feature_table, path_table, selection_table
    from sparsefield.model.field import Adjacency, Field, compile_adjacency, pad_features
    from sparsefield.model.fit_record import FitRecord, IterationRecord, LeftOutFeature, PathRow, StabilityRecord
    from sparsefield.model.label_field import condition_on_covariates

__all__ = [
    "Adjacency",
    "Field",
    "FitRecord",
    "IterationRecord",
    "LeftOutFeature",
    "PathRow",
    "StabilityRecord",
    "bias_table",
    "compile_adjacency",
    "condition_on_covariates",
    "edge_table",
    "feature_table",
    "pad_features",
    "path_table",
    "selection_table",
]

__getattr__ = lazy_names(
    "sparsefield.model",
    {
        "feature_tables": ["bias_table", "edge_table", "feature_table", "path_table", "selection_table"],
        "field": ["Adjacency", "Field", "compile_adjacency", "pad_features"],
        "fit_record": ["FitRecord", "IterationRecord", "LeftOutFeature", "PathRow", "StabilityRecord"],
        "label_field": ["condition_on_covariates"],
    },
)
