"""Functions on blocks of rows, on threads or on a cluster, and the combination of their results."""

from sparsefield.compute.threads import (
    BlockCollection,
    Engine,
    PiecewiseUpdate,
    Threads,
    ThresholdQuery,
    TopEntries,
    identity,
    tree_sum,
)

__all__ = [
    "BlockCollection", "Engine", "PiecewiseUpdate", "Threads", "ThresholdQuery", "TopEntries", "identity", "tree_sum",
]  # fmt: skip
