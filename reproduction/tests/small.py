"""Studies that are over in a moment."""

from __future__ import annotations

from reproduction.plan import Plan
from reproduction.runs import Record, Settings

SMALL = Settings(rows=40, burn_in=100, thin=10, folds=2)

SMALL_PLAN = Plan(
    nodes=(7, 8),
    size=8,
    thresholds=(0.0, 0.2, 0.6),
    batches=(5, 50),
    seeds=2,
    objectives=("pl",),
    real=(),
    settings=SMALL,
)

TIMES = ("seconds", "cpu_seconds", "scoring_seconds")


def but_times(records: list[Record]) -> list[Record]:
    """Records without what differs from one time to the next."""
    return [{name: value for name, value in record.items() if name not in TIMES} for record in records]
