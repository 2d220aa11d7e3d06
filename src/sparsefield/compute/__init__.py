"""Functions on blocks of rows, on threads or on a cluster, and the combination of their results."""

from sparsefield.compute.block_collection import (
    BlockCollection,
    Engine,
    PiecewiseUpdate,
    ThresholdQuery,
    TopEntries,
    identity,
    tree_sum,
)
from sparsefield.compute.threads import Threads

__all__ = [
    "BlockCollection", "Engine", "PiecewiseUpdate", "Threads", "ThresholdQuery", "TopEntries", "identity", "tree_sum",
]  # fmt: skip
