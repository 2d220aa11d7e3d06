"""This module holds out cells, fits as printed, and scores the held-out cells at the end for each tolerance."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from reproduction.printed import End, PrintedOptions, as_printed, at_end
from reproduction.recovery import compare_edges, strengths_of
from sparsefield.analysis.hold_out import TargetCells, split_cells
from sparsefield.analysis.metrics import score

__all__ = ["records_as_printed"]

Record = dict[str, float]
KEPT = ("ap", "cll", "error_rate")


def records_as_printed(
    table: Any,
    make: Callable[[], Any],
    how: PrintedOptions,
    *,
    folds: int,
    folds_run: int,
    seed: int,
    states: Mapping[str, Sequence[Any]] | None = None,
    true_edges: np.ndarray | None = None,
) -> list[Record]:
    """Return a record for each fold and tolerance.

    Parameters
    ----------
    table : a table or linked tables
    make : returns the estimator, whose fits as printed follow
    how : options of the fits
    folds, seed : of the split into parts of the cells, which is that of `sparsefield.analysis.hold_out.evaluate`
    folds_run : how many of the parts are held out, each in turn; 0 for all
    states : of the columns, whether or not a row shows them
    true_edges : (nodes, nodes), to compare edges with
    """
    cells = TargetCells.of(table, make(), None, states)
    records: list[Record] = []
    for number, held_out in enumerate(islice(split_cells(cells, folds, seed), folds_run or folds)):
        incomplete = cells.with_missing(held_out)
        if not number:  # compile the kernels of a fit and of a prediction
            first = as_printed(make().set_params(solver__max_iter=1), how)
            cells.fit(first, incomplete)
            cells.infer(first, incomplete)
        estimator = as_printed(make(), how)
        cells.fit(estimator, incomplete)
        for end in estimator.path.ends:
            scores = _score(cells, at_end(estimator, end), incomplete, held_out)
            edges = {} if true_edges is None else compare_edges(strengths_of(end.field), true_edges)
            facts = {"fold": number, "cells": sum(int(mask.sum()) for mask in held_out)}
            records.append({**facts, **_facts(end), "waited": estimator.path.waited, **scores, **edges})
    return records


def _facts(end: End) -> Record:
    names = ("tolerance", "met", "objective", "cpu_seconds", "scoring_seconds", "iterations", "induced")
    return {name: float(getattr(end, name)) for name in names} | {"active": float(len(end.field.weights))}


def _score(cells: TargetCells, estimator: Any, incomplete: Any, held_out: list[np.ndarray]) -> Record:
    """Return the scores of the held-out cells."""
    started = time.process_time()
    parts = zip(cells.tables, cells.infer(estimator, incomplete), held_out, strict=True)
    found = [ours for table, posterior, mask in parts for _, ours, _ in table.predictions(posterior, mask)]
    scores = score(found)
    return {**{name: getattr(scores, name) for name in KEPT}, "predicting_seconds": time.process_time() - started}
