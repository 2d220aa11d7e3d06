"""Threads sum along a fixed tree, and find the entries that plain sums have."""

from __future__ import annotations

import os
import threading
import time
from functools import partial

import numpy as np
import pytest
from dask_processes import LIMIT
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from sparsefield.compute import BlockCollection, Threads, threads
from sparsefield.compute.threads import (
    ThresholdQuery,
    TopEntries,
    find_large_entries,
    report_progress,
    select_top_entries,
)


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(n_jobs) -> None:
    def slow_first(k: int) -> int:
        time.sleep(0.02 / (k + 1))
        return k * k

    with Threads(n_jobs) as engine:
        assert engine.map(slow_first, range(12)) == [k * k for k in range(12)]
        assert engine.map(slow_first, iter([3])) == [9]
        assert engine.map(slow_first, []) == []


def test_work_is_shared_out_among_threads() -> None:
    meet = threading.Barrier(3, timeout=LIMIT)
    with Threads(3) as engine:
        names = engine.map(lambda _: (meet.wait(), threading.current_thread().name)[1], range(3))
    assert len(set(names)) == 3


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_error_in_an_item_comes_out_and_the_threads_end(n_jobs) -> None:
    before = threading.active_count()

    def fail(k: int) -> int:
        if k == 4:
            raise KeyError("the fourth")
        return k

    with pytest.raises(KeyError, match="the fourth"), Threads(n_jobs) as engine:
        engine.map(fail, range(9))
    assert threading.active_count() == before


def test_matrix_products_run_on_one_thread_meanwhile_and_as_before_afterwards() -> None:
    def blas() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = blas()
    with Threads(2):
        assert set(blas()) <= {1}
    assert blas() == before


def test_numbers_of_threads_count_as_in_joblib() -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert Threads(None).n_threads == cores
    assert Threads(-1).n_threads == cores
    assert Threads(-2).n_threads == max(1, cores - 1)
    assert Threads(-99).n_threads == 1
    assert Threads(7).n_threads == 7
    with pytest.raises(ValueError, match="n_jobs"):
        Threads(0)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_items_that_are_done_are_reported(n_jobs: int) -> None:
    told: list[tuple[int, int]] = []
    with Threads(n_jobs) as engine, report_progress(lambda done, total: told.append((done, total))):
        assert engine.map(lambda k: k * k, range(3)) == [0, 1, 4]
    with Threads(n_jobs) as engine:
        engine.map(str, range(3))
    assert told == [(1, 3), (2, 3), (3, 3)]


def summand(block: dict, item: str) -> np.ndarray | None:
    return block.get(item)


def beyond(cut: float, item: str, sums: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    size = np.abs(sums.sum(axis=0)) - cut
    return np.where(rows + 0 * columns == 1, -np.inf, size) if item == "b" else size


def every_entry(item: str, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return np.ones(len(rows), dtype=bool)


def off_diagonal(item: str, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return rows != columns


def entries(found: list[TopEntries]) -> dict[tuple[str, int, int], bytes]:
    return {
        (large.item, row, column): large.sums[:, k].tobytes()
        for large in found
        for k, (row, column) in enumerate(zip(*(positions.tolist() for positions in large.positions), strict=True))
    }


SIZES = st.sampled_from([1.0, 1e-300, 1e-30, 1e30, 1e300])


@st.composite
def problems(draw):
    """A query, and blocks of summands that cancel, tie and differ in size by much."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    layers, n_parts = draw(st.integers(1, 2)), draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(SIZES) if dtype == np.float64 else draw(st.sampled_from([1.0, 1e-38, 1e-20, 1e20, 1e37]))
    shapes = {"a": (5, 4), "b": (3, 6), "c": (1, 1), "d": (4, 4)}
    kinds = {item: draw(st.sampled_from(["normal", "few", "zero", "wide"])) for item in shapes}
    parts = []
    for _ in range(n_parts):
        part = {}
        for item, shape in shapes.items():
            if rng.random() < 0.2:
                continue  # a block without this item
            values = rng.normal(size=(layers, *shape))
            if kinds[item] == "few":
                values = rng.integers(-2, 3, (layers, *shape)).astype(float)  # ties
            elif kinds[item] == "zero":
                values = np.zeros((layers, *shape))
            elif kinds[item] == "wide":
                values *= 10.0 ** rng.integers(-12, 1, values.shape)
            with np.errstate(over="ignore", under="ignore"):
                values = (values * scale).astype(dtype)
            part[item] = values
        parts.append(part)
    cut = draw(st.sampled_from([0.0, 0.5, 1.0, 2.0, 2.5])) * scale
    limit = draw(st.sampled_from([None, 1, 3, 10, 1000]))
    eligible = draw(st.sampled_from([every_entry, off_diagonal]))
    return ThresholdQuery(summand, (), partial(beyond, cut), eligible, limit), parts


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of sums that overflow
@given(problem=problems())
def test_threads_and_plain_sums_select_the_same_entries(problem) -> None:
    query, parts = problem
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "ITEMS_AT_A_TIME", 3)
        for n_jobs in (1, 3):
            with Threads(n_jobs) as engine:
                blocks = engine.distribute(parts)
                found.append(blocks.top_entries(query, list("abcd")))
                found.append(BlockCollection.top_entries(blocks, query, list("abcd")))
    assert all(entries(other) == entries(found[0]) for other in found)


@pytest.mark.parametrize("first_checked", [1, 100])
@pytest.mark.parametrize("limit", [1, 7, 300, 5000])
def test_of_very_many_entries_the_largest_eligible_ones_are_kept(monkeypatch, limit, first_checked) -> None:
    monkeypatch.setattr(threads, "FIRST_CHECKED", first_checked)
    sums = np.random.default_rng(3).integers(-40, 90, (1, 60, 60)).astype(float)
    sums[0] += 1000.0 * np.eye(60)
    query = ThresholdQuery(summand, (), partial(beyond, 2.0), off_diagonal, limit)
    found = entries(select_top_entries(query, [find_large_entries(query, "a", sums)]))
    excess = np.where(np.eye(60) == 1.0, -1.0, np.abs(sums[0]) - 2.0)
    wanted = np.sort(excess[excess > 0.0])[-limit:]
    places = np.array([(row, column) for _, row, column in found])
    assert (excess[places[:, 0], places[:, 1]] > 0.0).all()
    assert {tuple(place) for place in np.argwhere(excess >= wanted[0]).tolist()} <= {tuple(p) for p in places.tolist()}
