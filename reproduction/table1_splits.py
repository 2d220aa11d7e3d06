"""This module measures rows of Table 1 for Animal in several splits into folds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from reproduction.table1 import FOLDS, Row, run_table1

__all__ = ["MEASURES", "SplitLine", "run_splits", "split_lines"]

MEASURES = {"ap": "AP", "cll": "CLL", "error_rate": "error"}
ALL = "all"


@dataclass(frozen=True)
class SplitLine:
    """A line has a mean and an error per measure: of one split over its folds, or of all splits between them."""

    setting: str
    split: str
    scores: tuple[tuple[float, float], ...]


def run_splits(
    settings: Sequence[str],
    folds: int | None,
    splits: int,
    report: Callable[[str], None] = print,
    progress: Callable[[str], None] | None = None,
) -> list[SplitLine]:
    """Run settings of `SETTINGS` by pseudo-likelihood on Animal, with seeds 0 to ``splits`` - 1."""
    runs = [
        run_table1(
            ["animals"], ["pl"], folds or FOLDS, settings=settings, seed=seed, report=report, progress=progress
        ).rows
        for seed in range(splits)
    ]
    return [line for rows in zip(*runs, strict=True) for line in split_lines(rows)]


def split_lines(rows: Sequence[Row]) -> list[SplitLine]:
    """Return a line per split of one setting and method, and a line of all splits."""
    name = f"{rows[0].method}, {rows[0].setting.label}"
    lines = []
    for seed, row in enumerate(rows):
        spreads = [row.evaluation.spread(measure) for measure in MEASURES]
        errors = tuple((spread.mean, spread.sd / math.sqrt(len(row.evaluation.folds))) for spread in spreads)
        lines.append(SplitLine(name, str(seed), errors))
    means = np.array([[mean for mean, _ in line.scores] for line in lines])
    between = zip(means.mean(axis=0).tolist(), means.std(axis=0, ddof=1).tolist(), strict=True)
    return [*lines, SplitLine(name, ALL, tuple(between))]
