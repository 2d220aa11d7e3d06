"""What happened during a fit, iteration by iteration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

__all__ = ["Progress", "Step"]


@dataclass(frozen=True)
class Step:
    """One iteration."""

    iteration: int
    objective: float
    """Loss and penalties, a sum over rows."""
    loss: float
    l1_norm: float
    features: int
    """Pairs in the working set."""
    active: int
    """Pairs with a weight."""
    induced: int
    """Pairs that have ever been in the working set."""
    phase: str
    """``"unary"``, ``"induce"``, ``"optimise"`` or ``"certify"``."""
    seconds: float
    scoring_seconds: float
    """Time spent on scoring candidates so far."""

    def as_row(self) -> dict[str, float | int | str]:
        return asdict(self)


Progress = Callable[[Step], None]
