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
    COMPLETE,
    INCOMPLETE,
    LIMIT,
    Processes,
    fail_at_block_3,
    in_time,
    kill,
    processes,
    saved,
    silence,
    until,
)
from threadpoolctl import threadpool_info

from sparsefield import FitCallbacks, MarkovField, Solver
from sparsefield.errors import ClusterError

pytest.importorskip("distributed")

from sparsefield.compute import dask_engine
from sparsefield.compute.dask_engine import DaskBlocks, DaskEngine

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("many_small_blocks")]

OPTIONS = {"l1": 6.0, "solver__kkt_tol": 0.3}


@pytest.fixture(autouse=True)
def patience(monkeypatch) -> None:
    """Wait long for workers, which start slowly on a busy machine; only a test that expects an error is impatient."""
    monkeypatch.setattr(dask_engine, "WORKER_TIMEOUT", LIMIT / 2)
    monkeypatch.setattr(dask_engine, "CONNECT_TIMEOUT", LIMIT / 2)


@cache
def bytes_on_threads(folder: Path, missing: bool) -> bytes:
    return saved(MarkovField(l1=2.0).set_params(**OPTIONS).fit(INCOMPLETE if missing else COMPLETE), folder)


def fit_on(
    engine, X: np.ndarray, at: dict[int, Callable[[], None]] | None = None, **more
) -> tuple[MarkovField, list[int]]:
    """A fit in the middle of which things happen ({iteration: what}), and the iterations that were heard of."""
    model = MarkovField().set_params(**{**OPTIONS, "solver__engine": engine, **more})
    left, heard = dict(at or {}), []

    def hear(step) -> None:
        heard.append(step.iteration)
        left.pop(step.iteration, lambda: None)()

    model.set_params(solver__callbacks=FitCallbacks(on_iteration=hear))
    in_time(lambda: model.fit(X))
    assert not left, "the fit was too short for what should have happened"
    return model, heard


def assert_same(X: np.ndarray, folder: Path, engine, at: dict[int, Callable[[], None]] | None = None) -> None:
    model, _ = fit_on(engine, X, at)
    assert saved(model, folder) == bytes_on_threads(folder, X is INCOMPLETE)


def kill_one(here: Processes) -> None:
    os.kill(next(iter(here.pids().values())), signal.SIGKILL)


def test_results_do_not_change_when_workers_die_or_join(tmp_path) -> None:
    with processes(2) as here:

        def join() -> None:
            here.start_worker()
            here.wait_for(2)

        assert_same(INCOMPLETE, tmp_path, here.client, {3: lambda: kill_one(here), 5: join, 7: lambda: kill_one(here)})
        here.wait_for(1)
        assert_same(COMPLETE, tmp_path, here.client)


def test_results_do_not_change_when_the_only_worker_is_restarted(tmp_path) -> None:
    with processes(1, nanny=True) as here:
        before = here.pids()
        assert_same(INCOMPLETE, tmp_path, here.client, {5: lambda: kill_one(here)})
        assert set(here.pids().values()) != set(before.values())


def test_a_fit_continues_from_its_checkpoint_after_the_scheduler_was_killed(tmp_path, monkeypatch) -> None:
    options = {"solver__checkpoint": tmp_path, "solver__kkt_tol": 1e-4}
    with processes(1) as here:

        def die() -> None:
            kill(here.scheduler)
            monkeypatch.setattr(dask_engine, "WORKER_TIMEOUT", 1.5)

        with pytest.raises(ClusterError, match=rf"{here.address} .*checkpoint=folder"):
            fit_on(here.client, COMPLETE, {6: die}, **options)
    monkeypatch.setattr(dask_engine, "WORKER_TIMEOUT", LIMIT / 2)
    assert (tmp_path / "fit.checkpoint").is_file()
    with processes(1) as here:
        continued, heard = fit_on(here.client, COMPLETE, **options)
    assert 5 <= heard[0] <= 9
    whole = MarkovField().set_params(**OPTIONS | {"solver__kkt_tol": 1e-4}).fit(COMPLETE)
    assert continued.objective_ == pytest.approx(whole.objective_, rel=1e-6)
    assert not (tmp_path / "fit.checkpoint").exists()


def test_rows_without_a_source_that_are_lost_are_one_error() -> None:
    """Dask computes again what it can; what was scattered, and not sent by this library, it cannot."""
    with processes(2) as here, DaskEngine(here.client) as engine:
        (scattered,) = here.client.scatter([(list(range(10)), None)], hash=False)
        blocks = DaskBlocks(engine, [scattered], [10])
        assert blocks.sum(abs) == 45
        (holder,) = here.client.who_has([scattered])[scattered.key]
        os.kill(here.pids()[holder], signal.SIGKILL)
        here.wait_for(1)
        with pytest.raises(ClusterError, match="were lost"):
            in_time(lambda: blocks.sum(abs))


def test_clusters_without_workers_with_other_versions_or_out_of_reach_are_refused(monkeypatch) -> None:
    threads = [pool["num_threads"] for pool in threadpool_info()]

    def refused(engine, how: str) -> None:
        with pytest.raises(ClusterError, match=how):
            in_time(lambda: MarkovField(l1=2.0).set_params(**OPTIONS, solver__engine=engine).fit(COMPLETE))
        assert [pool["num_threads"] for pool in threadpool_info()] == threads

    with silence(), monkeypatch.context() as patch:
        patch.setattr(dask_engine, "CONNECT_TIMEOUT", 1.0)
        refused("dask://127.0.0.1:1", r"No Dask scheduler answers at dask://127\.0\.0\.1:1 ")
        refused("carrier-pigeon://host:1", "No Dask scheduler answers at carrier-pigeon://host:1 ")
    with processes(0) as here:
        with monkeypatch.context() as patch:
            patch.setattr(dask_engine, "WORKER_TIMEOUT", 1.0)
            refused(here.client, rf"no workers: start some, for instance with 'dask worker {here.address}'")
        here.start_worker()
        here.wait_for(1)
        with monkeypatch.context() as patch:
            patch.setattr(dask_engine.sparsefield, "__version__", "99.1")
            refused(here.client, r"sparsefield [\d.]+ there and 99\.1 here")
            refused(here.address, r"sparsefield [\d.]+ there and 99\.1 here")
        with DaskEngine(here.client) as engine:
            blocks = engine.distribute(list(range(10)))
            assert blocks.sum(abs) == 45
            kill(here.workers[0])
            monkeypatch.setattr(dask_engine, "WORKER_TIMEOUT", 1.0)
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
            with pytest.raises(ClusterError, match=rf"(?i){who}.*cannot import sparsefield.*install"):
                in_time(lambda: MarkovField(l1=2.0, solver=Solver(engine=here.client)).fit(COMPLETE))
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
        assert_same(INCOMPLETE, tmp_path, here.client)
