"""Where blocks run, and how their results come together."""

from sparsefield.compute.block_collection import BlockCollection, Engine, ThresholdQuery, TopEntries, WorkerData
from sparsefield.compute.threads import Threads
from sparsefield.compute.tree_sum import plus, total

__all__ = ["BlockCollection", "Engine", "Threads", "ThresholdQuery", "TopEntries", "WorkerData", "plus", "total"]
