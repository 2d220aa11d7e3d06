"""This module compares the memory of a cluster's workers with the memory that data need."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsefield.errors import DataError

__all__ = ["MEMORY_SHARE", "memory_limits", "refuse_beyond"]

MEMORY_SHARE = 0.6
"""Share of the workers' memory for rows and values computed from them: beyond it, Dask writes to disk."""


def memory_limits(client: Any) -> list[float]:
    """Return the memory limit of each worker in bytes, infinite if it has none."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if not workers:
        raise DataError("The cluster has no workers: start some, or wait for them with client.wait_for_workers(1).")
    return [worker["memory_limit"] or float("inf") for worker in workers]


def refuse_beyond(client: Any, needed: float, what: str) -> None:
    """Raise a DataError with the figures if ``needed`` bytes exceed the memory of the workers."""
    limits = memory_limits(client)
    if needed > MEMORY_SHARE * sum(limits):
        smallest = min(limits)
        raise DataError(
            f"{what} may take {needed / 2**30:.1f} GiB, and the {len(limits)} worker(s) have "
            f"{sum(limits) / 2**30:.1f} GiB, of which {MEMORY_SHARE:.0%} are for data: "
            f"{int(np.ceil(needed / (MEMORY_SHARE * smallest))):,} workers of {smallest / 2**30:.1f} GiB are enough."
        )
