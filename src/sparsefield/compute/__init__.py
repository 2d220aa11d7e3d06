"""Where blocks run, and how their results come together."""

from sparsefield.compute.block_collection import Engine, Held, Large, Lots, Question
from sparsefield.compute.threads import Threads
from sparsefield.compute.tree_sum import plus, total

__all__ = ["Engine", "Held", "Large", "Lots", "Question", "Threads", "plus", "total"]
