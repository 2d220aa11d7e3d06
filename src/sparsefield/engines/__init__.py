"""Where blocks run, and how their results come together."""

from sparsefield.engines.threads import Threads

__all__ = ["Threads"]
