"""This package holds the learned field, its features and weights, and tables of them."""

from sparsefield.model.feature_tables import bias_table, edge_table, feature_table, selection_table
from sparsefield.model.field import Adjacency, Field, compile_adjacency, pad_features
from sparsefield.model.fit_record import FitRecord, IterationRecord, LeftOutFeature, PathRow, StabilityRecord

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
    "edge_table",
    "feature_table",
    "pad_features",
    "selection_table",
]
