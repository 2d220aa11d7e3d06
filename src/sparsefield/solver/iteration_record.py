"""What happened during a fit, iteration by iteration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

__all__ = ["IterationRecord", "Progress"]


@dataclass(frozen=True)
class IterationRecord:
    """One iteration."""

    iteration: int
    objective: float
    """Loss and penalties, a sum over rows."""
    loss: float
    l1_norm: float
    features: int
    """Pairs that have joined so far, with or without a weight."""
    active: int
    """Pairs with a weight."""
    phase: str
    """``"unary"``, ``"induce"``, ``"optimize"`` or ``"certify"``."""
    seconds: float
    scoring_seconds: float
    """Time spent on scoring candidates so far."""
    traffic: int = 0
    """Bytes that went to and from the workers of a cluster so far; those of the rows themselves do not count."""

    def as_row(self) -> dict[str, float | int | str]:
        return asdict(self)


Progress = Callable[[IterationRecord], None]
