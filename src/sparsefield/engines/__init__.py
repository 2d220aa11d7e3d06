"""Where blocks run, and how their results come together."""

from sparsefield.engines.adding import plus, total
from sparsefield.engines.base import Engine, Held, Large, Lots, Question
from sparsefield.engines.threads import Threads

__all__ = ["Engine", "Held", "Large", "Lots", "Question", "Threads", "plus", "total"]
