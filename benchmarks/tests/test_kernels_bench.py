"""Work is counted right: what a kernel is said to do is what it does. How long that takes is nobody's assertion."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import kernels
from benchmarks.kernels import Demand, Sizes, Walk, Work
from sparsefield.compute import Threads
from sparsefield.induction.sparse_scores import ColumnBounds, KnownPairs, SomeRows, join_rows
from sparsefield.kernels.algorithm1 import score_pairs
from sparsefield.kernels.sparse_conditionals import loss_and_gradient
from sparsefield.objectives.sparse_evaluator import Entries

TINY = Sizes(((200, 120),), (12, 40), on=4.0, largest_copy=100_000, updates=1000, product_side=16, seconds=0.0)
MACHINE = {("copy", 1_000): 100.0, ("scatter", 1_000): 10.0, ("scatter", 100_000): 1.0, ("exp", 0): 5.0}


@pytest.fixture(scope="module")
def planted(engine):
    return kernels.make_planted(*TINY.planted[0], TINY.on, 0, engine)


def random_entries(rng, rows: int, columns: int) -> Entries:
    """Entries of 1, columns ascending within each row."""
    there = rng.random((rows, columns)) < 0.3
    numbers = np.ones(there.sum(), dtype=np.int64)
    rows = SomeRows.of(there.sum(axis=1), np.nonzero(there)[1].astype(np.int32), numbers, columns)
    return join_rows(Threads(1), [rows], numbers=True)


def test_a_walk_is_what_rows_visit(planted) -> None:
    table, arcs, watched = planted.table, planted.arcs, planted.watched
    cells = visits = touched = seen = met = 0
    for row in range(table.n_rows):
        on = table.cells.columns[table.cells.offsets[row] : table.cells.offsets[row + 1]].tolist()
        reached = set(on)
        for column in on:
            cells += 1
            for j in range(arcs.offsets[column], arcs.offsets[column + 1]):
                visits += 1
                reached.add(int(arcs.target[j]))
        touched += len(reached)
        for column in on:
            for j in range(watched.offsets[column], watched.offsets[column + 1]):
                seen += 1
                met += int(watched.target[j]) in reached
    assert kernels.count_walk(table, arcs, watched) == (cells, visits, touched, seen, met)
    assert min(cells, visits, seen - met, met) > 0
    assert touched > cells


def test_the_kernels_touch_and_keep_as_many_states(planted) -> None:
    walk = kernels.count_walk(planted.table, planted.arcs, planted.watched)
    sums = np.zeros((len(planted.arcs.target), 2)), np.zeros((len(planted.factors.baseline), 2))
    passed = [
        loss_and_gradient(block, planted.arcs, planted.factors.baseline, *sums) for block in planted.table.sparse_blocks
    ]
    assert sum(touched for _, touched in passed) == walk.touched == planted.factors.touched
    errors = next(case for case in kernels.row_cases(planted) if case.kernel == "residuals")
    assert errors.run() == walk.touched


@pytest.mark.parametrize("seed", range(3))
def test_updates_are_the_additions_into_scores(seed) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = 15, 9
    on, errors = random_entries(rng, rows, columns), random_entries(rng, rows, columns)
    sets = [[set(x.columns[x.offsets[r] : x.offsets[r + 1]].tolist()) for r in range(rows)] for x in (on, errors)]
    forth = sum(b > a for ours, theirs in zip(*sets, strict=True) for a in ours for b in theirs)
    back = sum(b > a for ours, theirs in zip(*sets, strict=True) for a in theirs for b in ours)
    assert kernels.count_updates(on, errors) == (forth, back)
    # Errors of 1 and nothing at rest: a score is how often something was added to it.
    nothing, everyone = np.zeros(columns), np.arange(columns)
    traits = ColumnBounds(nothing, nothing, nothing, nothing, everyone)
    known = KnownPairs(np.zeros(columns + 1, dtype=np.int64), np.empty(0, dtype=np.int64))
    _, _, added, count = score_pairs(0, columns, 0, on, errors, traits, known, 1.0, 0.0)
    assert added[:count].sum() == forth + back
    work = kernels.work_of_scores(on, errors)
    assert work.units == {"candidate updates": forth + back}
    assert work.demands[1] == ("scatter", forth + back, columns * 8)


def test_dense_work_is_an_update_for_each_arc_and_row(engine) -> None:
    nodes, rows = TINY.ising
    cases = {(case.kernel, case.data): case for case in kernels.dense_cases(nodes, rows, 0, engine)}
    work = cases["gradient", "12 x 40, all arcs"].work
    assert work.units == {"multiply-adds": nodes * (nodes - 1) * rows}
    assert cases["score_pairs_dense float32", "12 x 40"].work.units == {"candidate updates": nodes * (nodes - 1) * rows}
    true = kernels.draw_ising(nodes, rows, seed=0).pairs
    assert cases["sweep", "12 x 40, true arcs"].work.units == {
        "multiply-adds": 2 * len(true) * rows,
        "cells": nodes * rows,
    }


def test_bytes_are_those_that_the_docstrings_name() -> None:
    walk = Walk(cells=1, arcs=10, touched=100, watched=1000, met=10_000)
    assert kernels.work_of_pass(walk, 5, 7).n_bytes == 20 + 10 * (4 + 8 + 32 + 8) + 100 * (32 + 32)
    assert kernels.work_of_watch(walk, 5, 7, 3).n_bytes == 36 + 10 * 12 + 100 * 32 + 1000 * 8 + 10_000 * 16
    assert kernels.work_of_errors(walk, 5, 7, 3).n_bytes == 20 + 10 * 12 + 100 * 36 + 3 * 12
    assert kernels.work_of_transpose(6, 2).n_bytes == 6 * 24
    assert kernels.work_of_tiles(3, 10, "float32").n_bytes == 3 * 10 * 2 * 4
    demands = {demand.what: demand.amount for demand in kernels.work_of_watch(walk, 5, 7, 3).demands}
    assert demands["scatter"] == 1 + 10 + 100 + 1000
    assert demands["exp"] == 100


def test_the_limit_is_the_slowest_demand_at_the_nearest_size() -> None:
    def limit(*demands: Demand) -> tuple[str, float]:
        return kernels.limit_of(Work({"steps": 1}, 0, demands), MACHINE)

    assert limit(Demand("copy", 500, 80_000), Demand("scatter", 20, 3_000)) == ("copy 1 KB", 5.0)
    assert limit(Demand("copy", 500, 80_000), Demand("scatter", 20, 30_000)) == ("scatter 100 KB", 20.0)
    assert limit(Demand("exp", 50), Demand("scatter", 20, 3_000)) == ("exp", 10.0)


def test_every_kernel_has_a_row_and_a_bar() -> None:
    machine, found = kernels.run_kernels(TINY, report=lambda line: None)
    assert {row["figure"].split(" ")[0] for row in machine} == {"copy", "scatter", "exp", "multiply-add"}
    assert all(row["per_second"] > 0 for row in machine)
    names = {row["kernel"] for row in found}
    assert names >= {
        "loss_and_gradient",
        "pair_gradients",
        "residuals",
        "transpose",
        "score_pairs",
        "sweep",
        "gradient",
    }
    for row in found:
        assert row["times_from_limit"] == pytest.approx(row["limit_per_second"] / row["per_second"])
        assert row["limit"] in {figure["figure"] for figure in machine}
    cases = {(row["kernel"], row["data"]) for row in found}
    assert {("gradient", "12 x 40, all arcs"), ("loss_and_gradient", "200 x 120")} <= cases


def test_too_many_cells_for_a_sparse_table_are_refused(engine) -> None:
    with pytest.raises(ValueError, match="too many for a sparse table"):
        kernels.make_planted(40, 50, 8.0, 0, engine)


@pytest.mark.usefixtures("matplotlib")
def test_the_chart_has_one_bar_per_kernel_and_data() -> None:
    row = {"kernel": "transpose", "data": "2 x 3", "limit": "copy 200 MB", "times_from_limit": 2.5}
    (axes,) = kernels.draw_kernels([row, row | {"data": "4 x 3"}, row])["kernels.svg"].axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["transpose, 2 x 3", "transpose, 4 x 3"]
