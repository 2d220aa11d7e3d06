"""This module prints the progress of a fit, for ``verbose=1``."""

from __future__ import annotations

import sys

from sparsefield.model import IterationRecord
from sparsefield.solver import FitCallbacks, PathPoint

__all__ = ["printing_callbacks"]


def printing_callbacks(callbacks: FitCallbacks) -> FitCallbacks:
    """Return callbacks that print the events for which ``callbacks`` has no listener."""
    return FitCallbacks(
        on_iteration=callbacks.on_iteration or _print_iteration,
        on_path_point=callbacks.on_path_point or _print_path_point,
        on_rows_read=callbacks.on_rows_read or _print_rows_read,
    )


def _print_iteration(record: IterationRecord) -> None:
    _print(
        f"{record.iteration:5d}  {record.phase:<8}  objective {record.objective:14.4f}  "
        f"features {record.active:7,d} of {record.features:7,d}  {record.seconds:7.1f} s"
    )


def _print_path_point(point: PathPoint) -> None:
    count = len(point.fit.field.features)
    _print(f"l1 {point.l1:10.4g}  features {count:7,d}  score {point.score:14.4f}")


def _print_rows_read(n_rows: int) -> None:
    _print(f"{n_rows:,} rows read")


def _print(line: str) -> None:
    print(line, file=sys.stderr)
