"""The learned field: its features and weights, tables of them, the record of its fit, and the model file."""

from sparsefield.model.field import Adjacency, Field, compile_adjacency, pad_features
from sparsefield.model.fit_record import FitRecord, IterationRecord, PathRow, StabilityRecord

__all__ = [
    "Adjacency", "Field", "FitRecord", "IterationRecord", "PathRow", "StabilityRecord",
    "compile_adjacency", "pad_features",
]  # fmt: skip
