"""This package runs functions on blocks of rows, on threads or on a cluster, and combines their results."""

from sparsefield.compute.block_collection import (
    BlockCollection,
    Engine,
    PiecewiseUpdate,
    ThresholdQuery,
    TopEntries,
    WorkerData,
)
from sparsefield.compute.threads import Threads
from sparsefield.compute.tree_sum import tree_sum

__all__ = [
    "BlockCollection",
    "Engine",
    "PiecewiseUpdate",
    "Threads",
    "ThresholdQuery",
    "TopEntries",
    "WorkerData",
    "tree_sum",
]
