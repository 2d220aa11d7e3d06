"""This module defines the callbacks of a fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sparsefield.model import IterationRecord
from sparsefield.solver.fit_state import PathPoint

__all__ = ["FitCallbacks"]


@dataclass(frozen=True)
class FitCallbacks:
    """Functions that are called during a fit; None for those that are not wanted."""

    on_iteration: Callable[[IterationRecord], None] | None = None
    """Called after each step of the optimizer."""
    on_path_point: Callable[[PathPoint], None] | None = None
    """Called after each value of l1 that was tried."""
    on_rows_read: Callable[[int], None] | None = None
    """Called with the number of rows read so far, where rows come from files or a database."""

    def iteration(self, record: IterationRecord) -> None:
        """Pass on a step of the optimizer."""
        if self.on_iteration is not None:
            self.on_iteration(record)

    def path_point(self, point: PathPoint) -> None:
        """Pass on a value of l1 that was tried."""
        if self.on_path_point is not None:
            self.on_path_point(point)
