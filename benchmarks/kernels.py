"""This module measures how far each kernel is from what the machine can do, on one thread.

First the machine is measured: bytes per second of a copy, scattered updates, exponentials and multiply-adds. Then each
kernel runs on data of a fixed seed. What it must at least do is counted from the data: bytes, scattered places,
exponentials, multiply-adds. Each count at the machine's rate is a time, and the longest of them is the limit, as if all
else were done meanwhile. What is left out (loops, branches, lookups within a row, room that is cleared) makes the limit
harder to reach, never easier. But it is no strict bound: scatter and copy are taken at the measured size nearest to the
kernel's tables, and in uniform places, while those of real columns are skewed and better cached.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import typer
from numba import njit

from benchmarks.charts import Bar, draw_bars
from benchmarks.command_line import RESULTS, Json, Output, Seed, print_rows, write_charts
from benchmarks.ising import draw_ising
from benchmarks.measure import Report
from benchmarks.planted import draw_planted
from benchmarks.scale import default_l1
from sparsefield.app.cli.console import print_message, show, show_json
from sparsefield.compute import Threads
from sparsefield.data import (
    Dataset,
    Table,
    as_source,
    compile_sparse,
    compile_table,
    learn_schema,
)
from sparsefield.induction import sparse_scores
from sparsefield.induction.dense_scores import score_pairs_dense
from sparsefield.induction.sparse_scores import gather_rows, unit_for
from sparsefield.kernels.algorithm1 import score_pairs, transpose
from sparsefield.kernels.elementary import exp_minus_abs
from sparsefield.kernels.mean_field_sweep import slopes, sweep
from sparsefield.kernels.sparse_conditionals import loss_and_gradient, pair_gradients, residuals
from sparsefield.objectives import DenseEvaluator, PseudoLikelihood, SparseEvaluator, SparseGradientFactors
from sparsefield.objectives.block_evaluation import EvaluatedBlock
from sparsefield.objectives.objective import PairQuery
from sparsefield.objectives.sparse_evaluator import ArcsBySource, Entries

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LONG", "NOTES", "SHORT", "Sizes", "draw_kernels", "measure_machine", "run_kernels"]

Array = np.ndarray
Row = dict[str, Any]
Machine = dict[tuple[str, int], float]
"""Rates per second by (what, bytes of the memory it goes to, or 0)."""

NOTES = (
    "Limit: the slowest of what the kernel must at least do (bytes, scattered places, exponentials, multiply-adds), "
    "each at the machine's rate, as if the others were done meanwhile; loops and branches are not counted.",
    "Scatter and copy rates are those of the measured size nearest to the kernel's tables. Places are uniform there "
    "and skewed in the data, so that a kernel may come out somewhat nearer to the limit than it is.",
    "Sweep and gradient are held against BLAS, which uses each number it loads many times; a graph of few arcs cannot.",
)


@dataclass(frozen=True)
class Sizes:
    """Sizes say what to run: (columns, rows) of planted and of Ising data, and how long to measure."""

    planted: tuple[tuple[int, int], ...]
    ising: tuple[int, int]
    on: float = 50.0
    largest_copy: int = 200_000_000
    updates: int = 2**20
    product_side: int = 1024
    seconds: float = 0.5
    """Spent on each figure at least, in three runs or more; the best one counts."""


LONG = Sizes(((10_000, 20_000), (100_000, 20_000)), (400, 2_000))
SHORT = Sizes(((4_000, 4_000),), (100, 1_000), on=40.0, largest_copy=40_000_000, product_side=512, seconds=0.1)
TABLE_BYTES = (80_000, 800_000, 8_000_000)
"""Tables of one float64 for each of 10,000, 100,000 and 1,000,000 columns."""


class Demand(NamedTuple):
    """A demand is an amount of one kind of operation; ``size`` is the memory, in bytes, that it accesses."""

    what: str
    amount: float
    size: int = 0


@dataclass(frozen=True)
class Work:
    """Work is what a kernel does in one run: units of work, bytes read and written, and demands on the machine."""

    units: dict[str, int]
    n_bytes: int
    demands: tuple[Demand, ...]


@dataclass(frozen=True)
class Case:
    """A case is a kernel on some data; ``prepare`` runs before each run and is not timed."""

    kernel: str
    data: str
    work: Work
    run: Callable[[], Any]
    prepare: Callable[[], Any] = lambda: None


# -- the machine -------------------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _scatter(table, index, value):
    for k in range(index.shape[0]):
        table[index[k]] += value[k]


def measure_machine(sizes: Sizes, seed: int = 0) -> Machine:
    """Measure rates per second on one thread: copy (bytes read and written), scatter, exp and multiply-add."""
    rng = np.random.default_rng(seed)
    found: Machine = {}
    for size in (*TABLE_BYTES[1:], sizes.largest_copy):  # the smallest takes less time than the call
        source = np.ones(size // 16)
        target, times = np.empty_like(source), max(1, 2_000_000 // size)
        found["copy", size] = times * 2 * source.nbytes / _best(_copies(target, source, times), sizes.seconds)
    for size in TABLE_BYTES:
        table, index = np.zeros(size // 8), rng.integers(0, size // 8, sizes.updates, dtype=np.int32)
        value = rng.random(sizes.updates)
        found["scatter", size] = sizes.updates / _best(_call(_scatter, table, index, value), sizes.seconds)
    z = rng.normal(size=16_384)
    found["exp", 0] = z.size / _best(_call(exp_minus_abs, z, np.empty_like(z)), sizes.seconds)
    side = sizes.product_side
    for dtype in (np.float32, np.float64):
        a, b, out = (rng.random((side, side)).astype(dtype) for _ in range(3))
        seconds = _best(_call(np.matmul, a, b, out), sizes.seconds)
        found[f"multiply-add {np.dtype(dtype).name}", 0] = side**3 / seconds
    return found


def _copies(target: Array, source: Array, times: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(times):
            np.copyto(target, source)

    return run


def _call(function: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    return lambda: function(*args)


def _best(run: Callable[[], Any], seconds: float, prepare: Callable[[], Any] = lambda: None) -> float:
    """Return the shortest time of a run, without the first one, which may compile."""
    prepare()
    run()
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        prepare()
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)


def limit_of(work: Work, machine: Machine) -> tuple[str, float]:
    """Return the rate of the machine that limits the work, and the seconds that it needs."""
    times = {}
    for demand in work.demands:
        near = [size for what, size in machine if what == demand.what]
        size = min(near, key=lambda size: abs(math.log(max(size, 1) / max(demand.size, 1))))
        times[figure_name(demand.what, size)] = demand.amount / machine[demand.what, size]
    return max(times.items(), key=lambda item: item[1])


def figure_name(what: str, size: int) -> str:
    """Return a rate of the machine in words.

    Examples
    --------
    >>> figure_name("scatter", 80_000), figure_name("exp", 0)
    ('scatter 80 KB', 'exp')
    """
    return what if not size else f"{what} {size / 1e6:g} MB" if size >= 1e6 else f"{what} {size / 1e3:g} KB"


# -- what is counted ---------------------------------------------------------------------------------------------------

INDEX, OFFSETS, NUMBER = 4, 16, 8
"""Bytes of a column, row, target or slot; of the two offsets where a run begins and ends; of a float64."""

RESTING, SUMS = 4 * NUMBER, 2 * NUMBER
"""Bytes of a state's baseline row, and of the two sums of a state or of an arc."""

LINE = 64
"""Bytes of a cache line."""


class Walk(NamedTuple):
    """A walk counts what a pass over all rows of a table visits."""

    cells: int
    arcs: int
    """Visits: an arc counts once for each row in which its source is on."""
    touched: int
    watched: int
    """Visits of arcs that are only watched."""
    met: int
    """Those of them that lead to a state that the row touches."""


def count_walk(table: Table, arcs: ArcsBySource, watched: ArcsBySource) -> Walk:
    """Count what a pass over 0/1 columns visits: a row touches its nonzero cells and the targets of their arcs."""
    columns, cells = table.schema.n_columns, table.cells
    assert cells is not None
    on = _ones(cells.columns, cells.offsets, columns)
    touched = on + on @ _ones(arcs.target, arcs.offsets, columns)
    touched.data[:] = 1
    walked, seen = np.diff(arcs.offsets)[cells.columns].sum(), np.diff(watched.offsets)[cells.columns].sum()
    met = (on @ _ones(watched.target, watched.offsets, columns)).multiply(touched).sum()
    return Walk(len(cells.columns), int(walked), int(touched.nnz), int(seen), int(met))


def _ones(columns: Array, offsets: Array, width: int) -> Any:
    return sp.csr_matrix((np.ones(len(columns), np.int32), columns, offsets), shape=(len(offsets) - 1, width))


def work_of_pass(walk: Walk, states: int, arcs: int) -> Work:
    """A cell: column and offsets. An arc: target, weight, its sums read and written, its place in the trail written and
    read. A touched state: its baseline row, its sums read and written, one exponential.

    Scattered places: the arcs of a cell, which lie together; the target of an arc; the rows of a touched state.
    """
    n_bytes = walk.cells * (INDEX + OFFSETS) + walk.arcs * (INDEX + NUMBER + 2 * SUMS + 2 * INDEX)
    n_bytes += walk.touched * (RESTING + 2 * SUMS)
    tables = states * (NUMBER + RESTING + SUMS + INDEX) + arcs * (INDEX + NUMBER + SUMS)
    return _walked({"arc visits": walk.arcs, "touched states": walk.touched}, walk, n_bytes, tables)


def work_of_watch(walk: Walk, states: int, arcs: int, watched: int) -> Work:
    """As a pass, without sums and trail; a watched arc: its target and that one's slot, a scattered place, and where
    the row touches it, its sum read and written."""
    n_bytes = walk.cells * (INDEX + 2 * OFFSETS) + walk.arcs * (INDEX + NUMBER) + walk.touched * RESTING
    n_bytes += walk.watched * 2 * INDEX + walk.met * 2 * NUMBER
    tables = states * (2 * NUMBER + RESTING + INDEX) + (arcs + watched) * (INDEX + NUMBER)
    return _walked({"arc visits": walk.arcs + walk.watched}, walk, n_bytes, tables, walk.watched)


def work_of_errors(walk: Walk, states: int, arcs: int, kept: int) -> Work:
    """As a pass, without sums and trail; a touched state has a new number, and an error that is kept is written."""
    n_bytes = walk.cells * (INDEX + OFFSETS) + walk.arcs * (INDEX + NUMBER)
    n_bytes += walk.touched * (RESTING + INDEX) + kept * (INDEX + NUMBER)
    tables = states * (NUMBER + RESTING + 2 * INDEX) + arcs * (INDEX + NUMBER)
    return _walked({"touched states": walk.touched}, walk, n_bytes, tables)


def _walked(units: dict[str, int], walk: Walk, n_bytes: int, tables: int, more: int = 0) -> Work:
    places = walk.cells + walk.arcs + walk.touched + more
    demands = Demand("copy", n_bytes, tables), Demand("scatter", places, tables), Demand("exp", walk.touched)
    return Work(units, n_bytes, demands)


def work_of_transpose(entries: int, columns: int) -> Work:
    """An entry: column and number read, row and number written; it goes to one scattered place, where the table is the
    counter of each column and the two cache lines that its end lies in. Counters are not among the bytes."""
    n_bytes = entries * 2 * (INDEX + NUMBER)
    place = Demand("scatter", entries, columns * (NUMBER + 2 * LINE))
    return Work({"entries": entries}, n_bytes, (Demand("copy", n_bytes, n_bytes), place))


def count_updates(on: Entries, errors: Entries) -> tuple[int, int]:
    """Count additions to scores, over all a: errors of later columns where a is 1, and later columns where a errs."""
    return _later(on, errors), _later(errors, on)


def _later(first: Entries, second: Entries) -> int:
    """Count the entries of ``second`` beyond each entry of ``first`` in the same row."""
    width = np.int64(len(first.column_offsets))
    one, other = (np.repeat(np.arange(len(x.offsets) - 1), np.diff(x.offsets)) * width + x.columns
                  for x in (first, second))  # fmt: skip
    ends = np.repeat(second.offsets[1:], np.diff(first.offsets))
    return int((ends - np.searchsorted(other, one, side="right")).sum())


def work_of_scores(on: Entries, errors: Entries) -> Work:
    """An update: a column, the error where a is on, and a score read and written, which is the scattered place. A row
    that is visited: its number and offsets, and the error where a errs. Looking through the scores is not counted.

    Scores lie in a table of their own; the copy that this is held against is of all else.
    """
    forth, back = count_updates(on, errors)
    read_bytes = (forth + back) * INDEX + forth * NUMBER
    read_bytes += (len(on.columns) + len(errors.columns)) * (INDEX + OFFSETS) + len(errors.columns) * NUMBER
    lie = on.columns.nbytes + errors.columns.nbytes + errors.entries.nbytes
    scores = Demand("scatter", forth + back, (len(on.column_offsets) - 1) * NUMBER)
    n_bytes = read_bytes + (forth + back) * 2 * NUMBER
    return Work({"candidate updates": forth + back}, n_bytes, (Demand("copy", read_bytes, lie), scores))


def work_of_sweep(arcs: int, states: int, rows: int) -> Work:
    """A multiply-add for each arc and row, an exponential for each cell of 0/1 columns; a cell's belief is read and its
    error written, once."""
    demands = Demand("multiply-add float64", arcs * rows), Demand("exp", states * rows)
    n_bytes = states * rows * 2 * NUMBER
    units = {"multiply-adds": arcs * rows, "cells": states * rows}
    return Work(units, n_bytes, (*demands, Demand("copy", n_bytes, n_bytes)))


def work_of_gradient(arcs: int, states: int, rows: int) -> Work:
    """A multiply-add for each arc and row; errors and expectations are read once."""
    n_bytes = states * rows * 2 * NUMBER
    demands = Demand("multiply-add float64", arcs * rows), Demand("copy", n_bytes, n_bytes)
    return Work({"multiply-adds": arcs * rows}, n_bytes, demands)


def work_of_tiles(states: int, rows: int, dtype: str) -> Work:
    """Two updates (multiply-adds) of each pair of columns in each row, one a direction; all is read once."""
    updates, n_bytes = states * (states - 1) * rows, states * rows * 2 * np.dtype(dtype).itemsize
    demands = Demand(f"multiply-add {dtype}", updates), Demand("copy", n_bytes, n_bytes)
    return Work({"candidate updates": updates}, n_bytes, demands)


# -- the kernels -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Planted:
    """Planted data are sparse rows with their true field, and arcs to watch: pairs that are both 1 in some row."""

    name: str
    table: Table
    pairs: Array
    arcs: ArcsBySource
    watched: ArcsBySource
    factors: SparseGradientFactors
    cut: float


def make_planted(columns: int, rows: int, on: float, seed: int, engine: Threads) -> Planted:
    """Make planted data; columns that are never 1 are no part of the field."""
    data = draw_planted(columns, rows, on=on, seed=seed)
    source = as_source(data.matrix)
    schema = learn_schema(source)
    table = compile_sparse(source, schema)
    if table is None or table.cells is None:
        raise ValueError(f"{on:g} cells on in a row of {columns:,} columns are too many for a sparse table.")
    place = schema.column_of_input
    kept = (place[data.pairs] >= 0).all(axis=1)
    pairs = place[data.pairs[kept]]
    theta = np.concatenate([data.biases[place >= 0], data.weights[kept]])
    evaluator = SparseEvaluator(Dataset.single(table), engine)
    evaluator.evaluate(evaluator.compile(evaluator.layout.arcs(pairs)), theta)
    factors = evaluator.gradient_factors()
    beside = np.column_stack([table.cells.columns[:-1], table.cells.columns[1:]]).astype(np.int64)
    beside = np.unique(beside[beside[:, 0] < beside[:, 1]], axis=0)
    some = np.random.default_rng(seed).permutation(len(beside))[: len(pairs)]
    watched = evaluator.compile(evaluator.layout.arcs(beside[np.sort(some)]))
    cut = default_l1(data.matrix)
    arcs = factors.arcs._replace(weight=factors.weights)
    return Planted(f"{columns:,} x {rows:,}", table, pairs, arcs, watched, factors, cut)


def row_cases(data: Planted) -> Iterator[Case]:
    """Yield the kernels over sparse rows, block by block as the evaluator calls them."""
    arcs, baseline, blocks, watched = data.arcs, data.factors.baseline, data.table.sparse_blocks, data.watched
    walk = count_walk(data.table, arcs, watched)
    states, n_arcs = len(baseline), len(arcs.target)
    per_arc, per_state, out = np.zeros((n_arcs, 2)), np.zeros((states, 2)), np.zeros(len(watched.target))
    number, room = np.arange(states, dtype=np.int32), 2 * max(len(block.columns) for block in blocks) + 1024
    counts, columns, entries = np.empty(data.table.n_rows, np.int64), np.empty(room, np.int32), np.empty(room, np.int64)
    scale = 1.0 / unit_for(data.table.total_weight)

    def errors() -> int:
        parts = (residuals(b, arcs, baseline, 0.0, number, scale, counts, columns, entries) for b in blocks)
        return sum(filled for _, _, filled in parts)

    def watch() -> None:
        for block in blocks:
            pair_gradients(block, arcs, baseline, watched.offsets, watched.target, out)

    yield Case("loss_and_gradient", data.name, work_of_pass(walk, states, n_arcs),
               lambda: [loss_and_gradient(b, arcs, baseline, per_arc, per_state) for b in blocks])  # fmt: skip
    yield Case("pair_gradients", data.name, work_of_watch(walk, states, n_arcs, len(out)), watch)
    yield Case("residuals", data.name, work_of_errors(walk, states, n_arcs, errors()), errors)


def pair_score_cases(data: Planted, engine: Threads) -> Iterator[Case]:
    """Yield the kernels of induction: errors by column, and scores of all pairs with threshold 0."""
    layout = Dataset.single(data.table).layout
    column, traits = sparse_scores._order_columns(data.factors, layout, data.cut)
    number = np.full(len(data.factors.on_weight), -1, dtype=np.int32)
    number[column] = np.arange(len(column))
    inside = sparse_scores._known(np.sort(layout.keys(data.pairs)), layout.n_columns, column)
    known = sparse_scores._by_first(number[inside], len(column))
    unit = unit_for(data.table.total_weight)
    on, errors = gather_rows(data.factors, 0.0, number, unit)
    places, rows, entries = errors.column_offsets[:-1].copy(), np.empty_like(errors.rows), np.empty_like(errors.entries)
    yield Case("transpose", data.name, work_of_transpose(len(rows), len(column)),
               lambda: transpose(errors.offsets, errors.columns, errors.entries, places, rows, entries),
               lambda: np.copyto(places, errors.column_offsets[:-1]))  # fmt: skip
    yield Case("score_pairs", data.name, work_of_scores(on, errors),
               lambda: score_pairs(0, len(column), 0, on, errors, traits, known, unit, data.cut))  # fmt: skip


def dense_cases(nodes: int, rows: int, seed: int, engine: Threads) -> Iterator[Case]:
    """Yield the kernels over dense blocks: at the true field, with all pairs in the field, and scores of all pairs."""
    data = draw_ising(nodes, rows, seed=seed)
    source = as_source(data.samples)
    table = compile_table(source, learn_schema(source))
    sample, objective, blocks = Dataset.single(table), PseudoLikelihood(), table.blocks
    layout, errors = sample.layout, [np.empty((block.n_target_columns, block.n_rows)) for block in blocks]
    states, name = layout.n_target_columns, f"{nodes:,} x {rows:,}"
    everyone = np.column_stack(np.triu_indices(states, k=1))
    evaluator = DenseEvaluator(sample, objective, engine)
    for pairs, words in ((data.pairs, f"{name}, true arcs"), (everyone, f"{name}, all arcs")):
        theta = np.concatenate([data.biases, np.full(len(pairs), 0.5 / nodes)])
        (graph,) = evaluator.compile(layout.arcs(pairs))
        counted, nothing = (len(graph.arc_source), states, rows), np.empty((0, 0))
        both, out = list(zip(blocks, errors, strict=True)), (np.empty(states), np.empty(len(graph.arc_source)))
        sweeps = [(b, graph, theta, 0, len(b.codes), False, b.beliefs, e, nothing) for b, e in both]
        _calls(sweep, sweeps)()  # the errors that gradients and scores read
        yield Case("sweep", words, work_of_sweep(*counted), _calls(sweep, sweeps))
        gradients = [(graph, e, b.beliefs, 0, states, *out) for b, e in both]
        yield Case("gradient", words, work_of_gradient(*counted), _calls(slopes, gradients))
    for dtype in ("float32", "float64"):
        sides = zip(blocks, errors, strict=True)
        parts = engine.distribute([EvaluatedBlock(0, b, e.astype(dtype), b.beliefs.astype(dtype)) for b, e in sides])
        run = _call(score_pairs_dense, parts, layout, PairQuery(rows / 10, np.empty(0, dtype=np.int64)))
        yield Case(f"score_pairs_dense {dtype}", name, work_of_tiles(states, rows, dtype), run)


def _calls(kernel: Callable[..., Any], all_args: Sequence[tuple[Any, ...]]) -> Callable[[], Any]:
    return lambda: [kernel(*args) for args in all_args]


def _cases(sizes: Sizes, seed: int, engine: Threads, report: Report) -> Iterator[Case]:
    for columns, rows in sizes.planted:
        report(f"Planted data, {columns:,} columns, {rows:,} rows ...")
        data = make_planted(columns, rows, sizes.on, seed, engine)
        yield from row_cases(data)
        yield from pair_score_cases(data, engine)
    report(f"Ising data, {sizes.ising[0]:,} columns, {sizes.ising[1]:,} rows ...")
    yield from dense_cases(*sizes.ising, seed, engine)


def run_kernels(sizes: Sizes = LONG, *, seed: int = 0, report: Report = print) -> tuple[list[Row], list[Row]]:
    """Return the rates of the machine, and a row for each kernel, its data and a unit of its work.

    Returns
    -------
    machine : list of dict
        figure, per_second.
    kernels : list of dict
        kernel, data, what (unit of work), amount (units in one run), seconds, per_second, bytes_per_second, limit (the
        figure of the machine that bounds it), limit_per_second, times_from_limit. Where work has two units there are
        two rows of the same run.
    """
    with Threads(1) as engine:
        report("The machine ...")
        machine = measure_machine(sizes, seed)
        kernels = [row for case in _cases(sizes, seed, engine, report) for row in _rows(case, machine, sizes.seconds)]
    return [{"figure": figure_name(*key), "per_second": rate} for key, rate in machine.items()], kernels


def _rows(case: Case, machine: Machine, allowed: float) -> list[Row]:
    seconds = _best(case.run, allowed, case.prepare)
    figure, least = limit_of(case.work, machine)
    head = {"kernel": case.kernel, "data": case.data}
    tail = {"bytes_per_second": case.work.n_bytes / seconds, "limit": figure, "times_from_limit": seconds / least}
    return [
        head | {"what": what, "amount": amount, "seconds": seconds, "per_second": amount / seconds}
        | {"limit_per_second": amount / least} | tail
        for what, amount in case.work.units.items()
    ]  # fmt: skip


def draw_kernels(table: Sequence[Row]) -> dict[str, Figure]:
    """Draw the times from the limit as bars, one for each kernel and its data."""
    bars = {
        (row["kernel"], row["data"]): Bar(f"{row['kernel']}, {row['data']}", row["times_from_limit"],
                                          note=f"{row['times_from_limit']:.2g}  ({row['limit']})")
        for row in table
    }  # fmt: skip
    subtitle = "1 is the best that the machine could do, given what must be read, written and computed"
    chart = draw_bars("Kernels on one thread", list(bars.values()), label="times from the limit", subtitle=subtitle)
    return {"kernels.svg": chart}


def command(
    short: Annotated[bool, typer.Option("--short", help="Small data, and 0.1 s for each measurement.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
    output: Output = RESULTS,
) -> None:
    """Measure how far each kernel is, on one thread, from what this machine can do."""
    machine, found = run_kernels(SHORT if short else LONG, seed=seed, report=print_message)
    write_charts(draw_kernels, found, output)
    if as_json:
        show_json({"machine": machine, "kernels": found})
        return
    print_rows(machine, ("figure", "per_second"), as_json)
    show()
    shown = ("kernel", "data", "what", "per_second", "bytes_per_second", "limit", "times_from_limit")
    print_rows(found, shown, as_json, left=3)
    show()
    for line in NOTES:
        show(line)
