"""Held-out pseudo-log-likelihood on public binary data sets with fixed splits, l1 chosen on the validation part."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from sparsefield.datasets import load_dataset
from sparsefield.estimators import MarkovField
from sparsefield.experiments.measure import climb

__all__ = ["run_heldout"]

GRIDS: dict[str, tuple[float, ...]] = {
    "nltcs": (0.25, 0.5, 1.0, 2.0, 4.0),
    "dna": (4.0, 6.0, 8.0, 10.0, 12.0),
    "plants": (2.0, 3.0, 5.0, 7.0, 10.0),
}
"""Values of l1 to choose from: what a data set calls for grows with its rows and falls with its signal."""


def run_heldout(
    data: Sequence[str] = ("nltcs", "dna", "plants"),
    report: Callable[[str], None] = print,
    *,
    l2: float = 0.0,
    penalize_unary: bool = False,
    n_jobs: int | None = None,
) -> list[dict[str, Any]]:
    """One row per data set: the chosen l1, test score per row, features, certificate and the time of the chosen fit."""
    rows = []
    for name in data:
        splits: Any = load_dataset(name)
        fits: dict[float, tuple[MarkovField, float]] = {}

        def validation_score(l1: float, splits: Any = splits, fits: Any = fits, name: str = name) -> float:
            started = time.perf_counter()
            field = MarkovField(l1=l1, l2=l2, penalize_unary=penalize_unary, n_jobs=n_jobs).fit(splits.train)
            fits[l1] = (field, time.perf_counter() - started)
            score = field.score(splits.valid)
            report(f"{name}: l1 {l1:g}, validation score per row {score:.4f}, {fits[l1][1]:.1f} s")
            return score

        best, _ = climb(GRIDS[name], validation_score)
        field, seconds = fits[best]
        rows.append(
            {
                "data": name,
                "l1": best,
                "test_score": field.score(splits.test),
                "features": len(field.field_.weights),
                "candidates": field.field_.about["n_candidates"],
                "kkt_violation": field.kkt_violation_,
                "seconds": seconds,
            }
        )
    return rows
