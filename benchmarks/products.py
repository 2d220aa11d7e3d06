"""This module compares the sparse product of large signals and errors with a dense product and with a plain loop."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numba import njit
from threadpoolctl import threadpool_limits

from benchmarks.charts import Bar, draw_bars
from benchmarks.command_line import RESULTS, Json, Output, Seed, print_rows, write_charts
from benchmarks.measure import Report
from benchmarks.paper import PAPER, draw_network, new_estimator
from sparsefield.app.cli.console import print_message
from sparsefield.induction import CFI
from sparsefield.induction.dense_scores import (
    Thresholds,
    count_products,
    gather_large_values,
    keep_large_values,
    score_pairs_dense,
    tile_summand,
    tiles_of_block,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_products", "run_products"]

Row = dict[str, Any]
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)


class LastScoring(CFI):
    """CFI without the rank-one term that keeps the arguments of its last call."""

    keeps_rank_one_term = False
    arguments: tuple[Any, ...] = ()

    def score(self, *arguments: Any) -> Any:
        LastScoring.arguments = arguments
        return super().score(*arguments)


@njit(nogil=True)
def add_plain(offsets, columns, entries, other_offsets, other_columns, other_entries, out):
    """Add the product of two sparse matrices by a loop over rows and their pairs of entries."""
    for row in range(len(offsets) - 1):
        for m in range(offsets[row], offsets[row + 1]):
            for n in range(other_offsets[row], other_offsets[row + 1]):
                out[columns[m], other_columns[n]] += entries[m] * other_entries[n]


def run_products(
    nodes: int = 1000,
    rows: int = 200,
    *,
    thresholds: Sequence[float] = THRESHOLDS,
    iterations: int = 100,
    repeats: int = 20,
    seed: int = 0,
    report: Report = print,
) -> list[Row]:
    """Return a row per threshold, from a fit of one of the paper's networks after some iterations.

    Returns
    -------
    list of dict
        threshold, share of the products of a dense computation, plain, sparse and dense (milliseconds of processor time
        of the products alone, dense in 32 bits), sparse_score and dense_score (with thresholding and the selection of
        candidates), nanoseconds of a sparse product, and rate: how many dense products take as long as a sparse one.
    """
    report(f"Drawing {rows} rows of a network with {nodes} nodes, and fitting {iterations} iterations ...")
    samples, states = draw_network(nodes, rows, seed)
    rule = LastScoring(threshold=0.2, batch_size=50)
    options = PAPER | {"solver__certify": False, "solver__max_iter": iterations, "induction": rule}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        new_estimator(states, options).fit(samples, states=states)
    with threadpool_limits(limits=1):
        return [_one_threshold(threshold, repeats) for threshold in thresholds]


def _one_threshold(threshold: float, repeats: int) -> Row:
    factors, query = LastScoring.arguments
    layout = factors.layout
    thresholds = Thresholds(threshold, threshold, factors.means)
    products, dense_products = factors.parts.sum(count_products, thresholds)
    large, _ = factors.parts.map_update(gather_large_values, thresholds)
    kept, _ = factors.parts.map_update(keep_large_values, thresholds, np.float32)
    width = len(factors.means[0])
    out = np.zeros((width, width))
    bands, squares = (
        [tile for k in range(len(layout.candidate_blocks)) for tile in tiles_of_block(layout, k, bands=bands)]
        for bands in (True, False)
    )

    def add_all_plain() -> None:
        out[:] = 0.0
        for errors, signals in large.map(_entries):
            add_plain(errors[0], errors[1], errors[2], signals[0], signals[1], signals[2], out)

    def score(how: Callable[..., Any], *dtype: Any, sparse: bool) -> None:
        parts, _ = factors.parts.map_update(how, thresholds, *dtype)
        score_pairs_dense(parts, layout, query, sparse=sparse)

    times = {
        "plain": _least(add_all_plain, repeats),
        "sparse": _least(lambda: large.map(_all_tiles, bands, layout), repeats),
        "dense": _least(lambda: kept.map(_all_tiles, squares, layout), repeats),
        "sparse_score": _least(lambda: score(gather_large_values, sparse=True), repeats),
        "dense_score": _least(lambda: score(keep_large_values, np.float32, sparse=False), repeats),
    }
    rate = (times["sparse"] / products) / (times["dense"] / dense_products)
    return {
        "threshold": threshold,
        "share": products / dense_products,
        **{name: 1e3 * seconds for name, seconds in times.items()},
        "nanoseconds": 1e9 * times["sparse"] / products,
        "times_plain": times["sparse"] / times["plain"],
        "rate": rate,
    }


def _entries(part: Any) -> tuple[Any, Any]:
    """Return offsets, columns and entries of errors, and of signals."""
    return part.errors[:3], part.expectations[:3]


def _all_tiles(part: Any, tiles: Sequence[Any], layout: Any) -> None:
    for tile in tiles:
        tile_summand(part, tile, layout)


def _least(function: Callable[[], Any], repeats: int) -> float:
    """Return the least processor time of some calls after a first one."""
    function()
    found = []
    for _ in range(repeats):
        started = time.process_time()
        function()
        found.append(time.process_time() - started)
    return min(found)


def draw_products(table: Sequence[Row]) -> dict[str, Figure]:
    """Draw the milliseconds of the sparse product at each share of the products, and those of a plain loop."""
    bars = [Bar(f"threshold {row['threshold']:g}, {row['share']:.2%}", row["sparse"]) for row in table]
    bars += [Bar("dense, 32 bits", min(row["dense"] for row in table))] if table else []
    return {"products.svg": draw_bars("Products of signals and errors", bars, label="milliseconds")}


def command(
    nodes: Annotated[int, typer.Option("--nodes", min=8, help="Nodes of the network.")] = 1000,
    rows: Annotated[int, typer.Option("--rows", min=10, help="Rows.")] = 200,
    threshold: Annotated[list[float] | None, typer.Option("--threshold", help="Thresholds; by default eight.")] = None,
    iterations: Annotated[int, typer.Option("--iterations", min=1, help="Iterations of the fit.")] = 100,
    seed: Seed = 0,
    as_json: Json = False,
    output: Output = RESULTS,
) -> None:
    """Compare sparse and dense products of signals and errors, and a plain loop, on one of the paper's networks."""
    options = {"thresholds": tuple(threshold or THRESHOLDS), "iterations": iterations, "seed": seed}
    found = run_products(nodes, rows, report=print_message, **options)
    write_charts(draw_products, found, output)
    shown = ("threshold", "share", "plain", "sparse", "times_plain", "dense", "rate", "sparse_score", "dense_score")
    print_rows(found, shown, as_json)
