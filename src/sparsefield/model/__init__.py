"""Features and weights: the learned field; reading it; saving and loading it."""

from sparsefield.model.feature_tables import edge_table, feature_table, selection_table
from sparsefield.model.field import Field, Graph, compile_graphs, widen
from sparsefield.model.fit_record import FitRecord, IterationRecord, LeftOutFeature, PathRow, StabilityRecord

__all__ = [
    "Field",
    "FitRecord",
    "Graph",
    "IterationRecord",
    "LeftOutFeature",
    "PathRow",
    "StabilityRecord",
    "compile_graphs",
    "edge_table",
    "feature_table",
    "selection_table",
    "widen",
]
