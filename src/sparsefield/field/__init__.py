"""Features and weights: the learned field; reading it; saving and loading it."""

from sparsefield.field.field import Field, Graph, compile_graphs, widen
from sparsefield.field.reading import edge_table, feature_table, selection_table
from sparsefield.field.storage import load_field, save_field

__all__ = [
    "Field",
    "Graph",
    "compile_graphs",
    "edge_table",
    "feature_table",
    "load_field",
    "save_field",
    "selection_table",
    "widen",
]
