"""Threads: results in the order of the items, whoever is ready first."""

from __future__ import annotations

import os
import threading
import time

import pytest
from dask_processes import LIMIT
from threadpoolctl import threadpool_info

from sparsefield.compute import Threads
from sparsefield.compute.threads import report_progress


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
