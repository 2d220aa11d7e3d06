"""When workers die, join late or disappear, a fit ends with the same bytes or with an error that names the remedy."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from dask_processes import (
    LIMIT,
    Processes,
    add_and_return,
    count_cached,
    fail_at_block_3,
    in_time,
    kill,
    processes,
    silence,
    until,
)
from threadpoolctl import threadpool_info

from sparsefield import FitCallbacks, MarkovField, config
from sparsefield.errors import ClusterError, DataError

pytest.importorskip("distributed")

from sparsefield.compute import dask_cluster
from sparsefield.compute.dask_engine import DaskEngine
from sparsefield.compute.top_entries import TopEntriesSearch

pytestmark = pytest.mark.cluster

OPTIONS = {"l1": 6.0, "solver__kkt_tol": 0.3}


@pytest.fixture(autouse=True)
def many_small_blocks(monkeypatch) -> None:
    monkeypatch.setattr(config, "MIN_BLOCK_ROWS", 16)
    monkeypatch.setattr(config, "TARGET_BLOCKS", 30)


@pytest.fixture(autouse=True)
def patience(monkeypatch) -> None:
    """Wait long for workers, which start slowly on a busy machine; only a test that expects an error is impatient."""
    monkeypatch.setattr(dask_cluster, "WORKER_TIMEOUT", LIMIT / 2)
    monkeypatch.setattr(dask_cluster, "CONNECT_TIMEOUT", LIMIT / 2)


@pytest.fixture
def engines(monkeypatch) -> list[DaskEngine]:
    """Those that fits entered."""
    entered: list[DaskEngine] = []
    enter = DaskEngine.__enter__
    monkeypatch.setattr(DaskEngine, "__enter__", lambda self: (entered.append(self), enter(self))[1])
    return entered


def table(missing: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(5)
    X = rng.integers(0, 3, (200, 5)).astype(float)
    for k in range(1, 5):
        X[:, k] = np.where(rng.random(200) < 0.6, X[:, k - 1], X[:, k])
    X[rng.random(X.shape) < missing] = np.nan
    return X


COMPLETE, INCOMPLETE = table(), table(missing=0.1)


def saved(model: MarkovField, folder: Path) -> bytes:
    model.save(folder / "model")
    return (folder / "model").read_bytes()


@cache
def bytes_on_threads(folder: Path, missing: bool) -> bytes:
    return saved(MarkovField(l1=2.0).set_params(**OPTIONS).fit(INCOMPLETE if missing else COMPLETE), folder)


def assert_same(
    X: np.ndarray, folder: Path, engine, at: dict[int, Callable[[], None]] | None = None, **more
) -> list[int]:
    """A fit, in the middle of which things happen ({iteration: what}), ends with the bytes of one on threads; tells the
    iterations that were heard of."""
    model, left, heard = MarkovField(l1=2.0).set_params(**OPTIONS, engine=engine, **more), dict(at or {}), []

    def hear(step) -> None:
        heard.append(step.iteration)
        left.pop(step.iteration, lambda: None)()

    model.callbacks = FitCallbacks(on_iteration=hear)
    in_time(lambda: model.fit(X))
    assert not left, "the fit was too short for what should have happened"
    assert saved(model, folder) == bytes_on_threads(folder, X is INCOMPLETE)
    return heard


def kill_one(here: Processes) -> None:
    os.kill(next(iter(here.pids().values())), signal.SIGKILL)


def after_calls(monkeypatch, owner: type, name: str, count: int, happen: Callable[[], None]) -> list:
    """Lets something happen when a method has returned so many times; what it returned."""
    work, returned = getattr(owner, name), []

    def work_and_more(*arguments):
        returned.append(work(*arguments))
        if len(returned) == count:
            happen()
        return returned[-1]

    monkeypatch.setattr(owner, name, work_and_more)
    return returned


def test_results_do_not_change_when_workers_die_or_join(tmp_path, monkeypatch, engines) -> None:
    with processes(2) as here:
        assert_same(INCOMPLETE, tmp_path, here.client)
        assert engines[-1].recomputed == 0

        with monkeypatch.context() as patch:  # between the two rounds of a search
            after_calls(patch, TopEntriesSearch, "select_positions", 2, lambda: kill_one(here))
            assert_same(INCOMPLETE, tmp_path, here.client)
        assert engines[-1].recomputed > 0
        here.wait_for(1)
        (first,), keys = here.pids(), {}

        def join() -> None:
            here.start_worker()
            here.wait_for(2)

        def look_and_die() -> None:
            keys.update(here.client.has_what())
            # When its results are there, but not fetched.
            after_calls(monkeypatch, DaskEngine, "wait", 4, lambda: kill(here.workers[-1]))

        assert_same(INCOMPLETE, tmp_path, here.client, {2: join, 6: look_and_die})
        (late,) = set(keys) - {first}
        assert len([key for key in keys[late] if str(key).startswith("identity-")]) >= 2
        assert engines[-1].recomputed > 0
        here.wait_for(1)


def test_results_do_not_change_when_the_only_worker_is_restarted(tmp_path, engines) -> None:
    with processes(1, nanny=True) as here:
        before = here.pids()
        assert_same(INCOMPLETE, tmp_path, here.client, {5: lambda: kill_one(here)})
        assert engines[-1].recomputed > 0
        assert set(here.pids().values()) != set(before.values())


def test_a_fit_continues_from_its_checkpoint_after_the_scheduler_was_killed(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "saved"
    with processes(1) as here:

        def die() -> None:
            kill(here.scheduler)
            monkeypatch.setattr(dask_cluster, "WORKER_TIMEOUT", 1.5)

        with pytest.raises(ClusterError, match=rf"{here.address} is gone.*checkpoint=folder"):
            assert_same(INCOMPLETE, tmp_path, here.client, {8: die}, solver__checkpoint=folder)
    monkeypatch.setattr(dask_cluster, "WORKER_TIMEOUT", LIMIT / 2)
    assert (folder / "fit.checkpoint").is_file()
    with processes(1) as here:
        heard = assert_same(INCOMPLETE, tmp_path, here.client, solver__checkpoint=folder)
    assert 5 <= heard[0] <= 9
    assert not (folder / "fit.checkpoint").exists()


def test_work_continues_when_the_scheduler_is_restarted_in_time() -> None:
    with processes(2) as here, DaskEngine(here.client) as engine:
        blocks, changed = engine.distribute(list(range(10))).map_update(add_and_return, 5)
        assert changed == 45
        for process in (here.scheduler, *here.workers):
            kill(process)
        here.start_scheduler()
        here.start_worker()
        assert in_time(lambda: blocks.sum(abs)) == 95
        assert engine.recomputed > 0


def test_rows_beyond_the_workers_memory_are_refused_before_they_are_sent() -> None:
    X = np.random.default_rng(0).integers(0, 2, (200_000, 20)).astype(float)
    with processes(0) as here:
        here.start_worker(memory_limit="100MiB")
        here.wait_for(1)
        with pytest.raises(DataError, match=r"take 0\.\d GiB, and the 1 worker\(s\) have 0\.1 GiB.*: \d+ workers"):
            in_time(lambda: MarkovField(l1=2.0, engine=here.client).fit(X))
        assert not any(here.client.has_what().values())


def test_clusters_without_workers_with_other_versions_or_out_of_reach_are_refused(monkeypatch) -> None:
    threads = [pool["num_threads"] for pool in threadpool_info()]

    def refused(engine, how: str) -> None:
        with pytest.raises(ClusterError, match=how):
            in_time(lambda: MarkovField(l1=2.0).set_params(**OPTIONS, engine=engine).fit(COMPLETE))
        assert [pool["num_threads"] for pool in threadpool_info()] == threads

    with silence(), monkeypatch.context() as patch:
        patch.setattr(dask_cluster, "CONNECT_TIMEOUT", 1.0)
        refused("dask://127.0.0.1:1", r"No Dask scheduler answers at dask://127\.0\.0\.1:1 ")
        refused("carrier-pigeon://host:1", "No Dask scheduler answers at carrier-pigeon://host:1 ")
    with processes(0) as here:
        with monkeypatch.context() as patch:
            patch.setattr(dask_cluster, "WORKER_TIMEOUT", 1.0)
            refused(here.client, rf"no workers: start some, for instance with 'dask worker {here.address}'")
        here.start_worker()
        here.wait_for(1)
        with monkeypatch.context() as patch:
            patch.setattr(dask_cluster.sparsefield, "__version__", "99.1")
            refused(here.client, r"sparsefield [\d.]+ there and 99\.1 here")
            refused(here.address, r"sparsefield [\d.]+ there and 99\.1 here")
        with DaskEngine(here.client) as engine:
            blocks = engine.distribute(list(range(10)))
            assert blocks.sum(abs) == 45
            kill(here.workers[0])
            monkeypatch.setattr(dask_cluster, "WORKER_TIMEOUT", 1.0)
            with pytest.raises(ClusterError, match="is gone"):
                in_time(lambda: blocks.sum(abs))
        here.client.close()
        refused(here.client, "closed")


@pytest.mark.parametrize("who", ["scheduler", "worker"])
def test_schedulers_and_workers_without_the_library_are_named(tmp_path, who) -> None:
    (tmp_path / "sparsefield").mkdir()
    (tmp_path / "sparsefield" / "__init__.py").write_text("raise ImportError('not here')")
    with silence():
        here = Processes()
        try:
            here.start_scheduler(*([str(tmp_path)] if who == "scheduler" else []))
            here.start_worker(*([str(tmp_path)] if who == "worker" else []))
            here.connect()
            here.wait_for(1)
            with pytest.raises(ClusterError, match=rf"(?i){who}.*cannot import sparsefield.*install version"):
                in_time(lambda: MarkovField(l1=2.0, engine=here.client).fit(COMPLETE))
        finally:
            here.end()


def test_an_error_on_a_worker_is_raised_once_and_an_interrupt_leaves_the_cluster_usable(tmp_path) -> None:
    with processes(1, threads=2) as here:
        # OSError and TimeoutError are also what a loss looks like.
        for kind in (KeyError, OSError, TimeoutError):
            log = tmp_path / kind.__name__
            with DaskEngine(here.client) as engine:
                blocks = engine.distribute(list(range(10)))
                with pytest.raises(kind, match="the third"):
                    in_time(lambda blocks=blocks, kind=kind, log=log: blocks.sum(fail_at_block_3, kind, str(log)))
                assert blocks.sum(abs) == 45
                assert blocks.map(abs) == list(range(10))
                assert engine.distribute([]).sum(abs) is None
            assert log.read_text() == "failed\n"

        def interrupt() -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            assert_same(INCOMPLETE, tmp_path, here.client, {4: interrupt})
        del blocks
        until(lambda: not any(here.client.has_what().values()))
        assert set(here.client.run(count_cached).values()) == {0}
        assert_same(INCOMPLETE, tmp_path, here.client)
