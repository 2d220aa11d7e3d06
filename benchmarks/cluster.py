"""What a fit costs on a cluster beside threads: time and bytes, and how well a model of both foretells them."""

from __future__ import annotations

import importlib.util
import logging
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sparsefield.experiments.cluster_diary import KeptCluster, KeptThreads, loopback_bytes
from sparsefield.experiments.cluster_model import (
    KINDS,
    Constants,
    Place,
    Plan,
    Work,
    assumptions,
    costs_of,
    forecast,
    foretell,
    work_of,
)
from sparsefield.experiments.local_lists import compare_lists

from benchmarks.ising import draw_ising
from sparsefield import config
from sparsefield.compute import Engine, ThresholdQuery
from sparsefield.compute.dask_worker import RoundedArray, round_sums
from sparsefield.compute.top_entries import TopEntriesSearch
from sparsefield.errors import ClusterError
from sparsefield.estimators import MarkovField

__all__ = ["NOTES", "default_l1", "run_cluster"]

Row = dict[str, Any]

THREADS = (1, 2)
WORKERS = (1, 2, 4)
BURN_IN, THIN = 100, 5
"""Sweeps: rows need not be independent to be learned from."""

WARM_UP_ROWS = 5_000
REPEATS = 25
"""Of an operation without work; the median counts."""

MEGABYTES = 32
"""Sent and fetched three times, for the bandwidth."""

ADDED_SHARDS = 16

NOTES = (
    "seconds: from the placed rows to the end of the fit. times threads: against a fit here on as many threads as the",
    "workers have cores. processor seconds: of the processes that have the rows, without client and scheduler; other",
    "programs change these little. A look is one at all candidates. out, back: as the engine counts arrays and what",
    "they are pickled to. loopback: what the interface of this machine with itself carried in that time, be it of",
    "this fit or not; every byte passes it twice, between client and scheduler and between scheduler and worker, and",
    "Dask's own messages (tasks with their code, news of their state, heartbeats) come on top; at rest: the same",
    "while nothing runs, in a second. In full: what a search would take if workers sent all sums in 64 bits.",
)


def default_l1(rows: int) -> float:
    """In line with the noise of a gradient, which grows with the square root of the rows."""
    return round(1.4 * rows**0.5, 1)


def run_cluster(
    columns: int = 100,
    rows: int = 200_000,
    *,
    l1: float | None = None,
    workers: Sequence[int] = WORKERS,
    repeats: int = 2,
    plan: Plan = Plan(),  # noqa: B008
    seed: int = 0,
    report: Callable[[str], None] = lambda line: None,
) -> Row:
    """Learn the same made rows on threads and on local clusters, and foretell from the former what the latter take.

    Of ``repeats`` fits the quickest counts.

    Returns
    -------
    dict
        cores, load (of the machine, before and after), data, fits, bytes, constants, foretold, plan, assumptions (in
        words), lists; most are lists of rows.
    """
    if importlib.util.find_spec("distributed") is None:
        raise ClusterError("A cluster needs Dask: pip install 'sparsefield[cluster]'.")
    l1 = default_l1(rows) if l1 is None else l1
    cores, load = os.cpu_count() or 1, [_load()]
    report(f"Drawing {rows:,} rows of {columns:,} columns ...")
    data = draw_ising(columns, rows, burn_in=BURN_IN, thin=THIN, seed=seed).samples
    here: dict[int, _Fit] = {}
    for n in THREADS:
        report(f"{n} thread(s) ...")
        _warm_up(KeptThreads(n), data)
        here[n] = _best(lambda n=n: KeptThreads(n), data, l1, repeats)
    placed = here[1].engine.diary.rows
    away: dict[int, _Fit] = {}
    probes: dict[int, _Probe] = {}
    bandwidth: dict[str, float] = {}
    for n in sorted(workers):
        report(f"{n} worker(s) ...")
        with _local_cluster(n) as client:
            _warm_up(KeptCluster(client, 1), data)
            probes[n] = _probe(client, -(-placed // config.block_rows(placed)))
            bandwidth = bandwidth or _bandwidth(client)
            away[n] = _best(lambda client=client: KeptCluster(client, 1), data, l1, repeats)
    report("What the model foretells ...")
    constants = Constants(
        costs={n: costs_of(fit.engine.diary, placed, columns, min(n, cores)) for n, fit in here.items()},
        latency={n: probe.operation for n, probe in probes.items()},
        broadcast={n: probe.broadcast for n, probe in probes.items()},
        adding=_adding(columns),
        **bandwidth,
    )
    n, fit = next(iter(away.items()))
    work = work_of(fit.engine.diary, Place(placed, n), fit.entries)
    planned = forecast(work, columns, constants, plan, fit.engine.scattered_bytes / placed)
    return {
        "cores": cores,
        "load": [*load, _load()],
        "data": {"columns": columns, "rows": rows, "distinct_rows": placed, "l1": l1, "seed": seed}
        | {"pairs": len(fit.field.field_.pairs)},
        "fits": [_fit_row(f"{n} thread(s)", n, fit, here, cores) for n, fit in here.items()]
        + [_fit_row(f"{n} worker(s)", n, fit, here, cores) for n, fit in away.items()],
        "bytes": [_bytes_row(Place(placed, n), fit, probes[n]) for n, fit in away.items()],
        "constants": constants.rows(),
        "foretold": [
            row
            for n, fit in away.items()
            for row in _compared(fit, work, columns, constants, Place(placed, n, cores=cores))
        ],
        "plan": planned,
        "assumptions": assumptions(columns, constants, plan, planned, work),
        "lists": compare_lists(data, fit.field.field_, l1),
    }


# -- fits -------------------------------------------------------------------------------------------------------------


class _Field(MarkovField):
    """Learns on an engine that is given."""

    place: Engine

    def _fit_engine(self, sample: Any) -> Engine:
        return self.place


@dataclass(frozen=True)
class _Fit:
    field: MarkovField
    engine: Any
    saved: bytes

    @property
    def entries(self) -> float:
        """Of all sums that a search on a cluster looks at, on average."""
        return sum(search.entries for search in self.engine.searches) / len(self.engine.searches)


def _fit(engine: Engine, data: np.ndarray, l1: float) -> _Fit:
    learner = _Field(l1=l1)
    learner.place = engine
    learner.fit(data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "field.safetensors"
        learner.save(path)
        return _Fit(learner, engine, path.read_bytes())


def _best(engine: Callable[[], Engine], data: np.ndarray, l1: float, repeats: int) -> _Fit:
    return min((_fit(engine(), data, l1) for _ in range(repeats)), key=lambda fit: fit.engine.diary.seconds)


def _load() -> float | None:
    """Processes that want to run, on average over the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def _warm_up(engine: Engine, data: np.ndarray) -> None:
    """So that nothing is compiled while the clock runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _fit(engine, data[:WARM_UP_ROWS], default_l1(min(len(data), WARM_UP_ROWS)))


@contextmanager
def _local_cluster(workers: int) -> Iterator[Any]:
    """Processes of one thread each, on this machine."""
    from distributed import Client, LocalCluster

    # Without a port of its own the scheduler takes 8787, and warns where another one has it.
    options: Row = {"threads_per_worker": 1, "processes": True, "silence_logs": logging.ERROR}
    options |= {"dashboard_address": "127.0.0.1:0", "scheduler_kwargs": {"dashboard": False}}
    with LocalCluster(n_workers=workers, **options) as cluster, Client(cluster) as client:
        client.wait_for_workers(workers)
        yield client


def _fit_row(method: str, n: int, fit: _Fit, here: Mapping[int, _Fit], cores: int) -> Row:
    diary = fit.engine.diary
    peer = here[max(k for k in here if k <= max(min(n, cores), min(here)))].engine.diary
    return {
        "method": method,
        "placing_seconds": diary.placing if isinstance(fit.engine, KeptCluster) else None,
        "seconds": diary.seconds,
        "times_threads": diary.seconds / peer.seconds,
        "processor_seconds": diary.processor,
        "iterations": fit.field.n_iter_,
        "evaluations": diary.count("evaluation"),
        "per_evaluation": diary.total("evaluation") / diary.count("evaluation"),
        "looks": diary.count("look"),
        "per_look": diary.total("look") / max(diary.count("look"), 1),
        "same_bytes": fit.saved == here[min(here)].saved,
    }


def _bytes_row(place: Place, fit: _Fit, probe: _Probe) -> Row:
    engine, diary, iterations = fit.engine, fit.engine.diary, fit.field.n_iter_
    found = [operation for operation in diary.operations if operation.name == "large"]
    exact = sum(search.exact for search in engine.searches) / len(found)
    return {
        "workers": place.workers,
        "shards": place.n_shards,
        "placed_mb": engine.scattered_bytes / 1e6,
        "out_kb": sum(operation.out for operation in diary.operations) / iterations / 1e3,
        "back_kb": sum(operation.back for operation in diary.operations) / iterations / 1e3,
        "loopback_kb": None if diary.loopback is None else diary.loopback / iterations / 1e3,
        "at_rest_kb": probe.at_rest,
        "entries": fit.entries,
        "exact": exact,
        "search_kb": sum(operation.out + operation.back for operation in found) / len(found) / 1e3,
        "in_full_kb": 8.0 * fit.entries * probe.nodes / 1e3,
    }


def _compared(fit: _Fit, work: Mapping[str, Work], columns: int, constants: Constants, place: Place) -> list[Row]:
    """What was foretold for a fit, and what was seen."""
    diary, found = fit.engine.diary, foretell(work, columns, constants, place)
    between = constants.costs_at(1).between
    pairs = {
        "seconds of an evaluation": (found["evaluation"].seconds, diary.total("evaluation"), work["evaluation"].count),
        "seconds of a look": (found["look"].seconds, diary.total("look"), work["look"].count),
        "seconds of the fit": (sum(found[kind].seconds for kind in KINDS) + between, diary.seconds, 1),
        "kilobytes of an iteration": (
            sum(parts.sent for parts in found.values()) / 1e3,
            sum(operation.out + operation.back for operation in diary.operations) / 1e3,
            fit.field.n_iter_,
        ),
    }
    return [
        {"workers": place.workers, "what": what, "foretold": foretold / n, "seen": seen / n}
        | {"seen_by_foretold": seen / foretold}
        for what, (foretold, seen, n) in pairs.items()
    ]


# -- constants --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Probe:
    """Of a cluster without work."""

    operation: float
    """Seconds."""
    broadcast: float
    """What sending something to all workers beforehand adds."""
    nodes: int
    """Pieces in which sums come back."""
    at_rest: float | None
    """Kilobytes that the machine sends to itself in a second."""


def _nothing(part: Any, *shared: Any) -> float:
    return 0.0


def _probe(client: Any, n_parts: int) -> _Probe:
    """With as many parts as the rows have."""
    before, start = loopback_bytes(), time.perf_counter()
    time.sleep(1.0)
    after, slept = loopback_bytes(), time.perf_counter() - start
    engine = KeptCluster(client, 1)
    with engine:
        held = engine.distribute(list(range(n_parts)))
        held.add(_nothing)
        for _ in range(REPEATS):
            held.add(_nothing)
        for _ in range(REPEATS):
            held.add(_nothing, os.urandom(2_000))
    plain, sent = engine.diary.operations[1 : REPEATS + 1], engine.diary.operations[REPEATS + 1 :]
    operation = float(np.median([done.seconds for done in plain]))
    return _Probe(
        operation=operation,
        broadcast=max(float(np.median([done.seconds for done in sent])) - operation, 0.0),
        nodes=plain[0].back // 8,
        at_rest=None if before is None or after is None else (after - before) / slept / 1e3,
    )


def _bandwidth(client: Any) -> dict[str, float]:
    """Bytes a second that an array takes to a worker, and back."""
    worker = next(iter(client.scheduler_info(n_workers=-1)["workers"]))
    array = np.random.default_rng(0).random(MEGABYTES * 125_000)
    out, back = [], []
    for _ in range(3):
        start = time.perf_counter()
        future = client.scatter(array, workers=[worker], hash=False)
        sent = time.perf_counter()
        client.gather(future)
        out.append(sent - start)
        back.append(time.perf_counter() - sent)
    return {"out": array.nbytes / float(np.median(out)), "back": array.nbytes / float(np.median(back))}


def _take(part: np.ndarray, item: int) -> np.ndarray:
    return part


def _adding(columns: int) -> float:
    """Seconds that the client takes for an entry of what a worker tells in the first round of a search."""
    rng = np.random.default_rng(0)
    shards: list[list[RoundedArray | None]] = [
        round_sums((rng.standard_normal((1, columns, columns)),)) for _ in range(ADDED_SHARDS)
    ]
    question = ThresholdQuery(_take, (), lambda item, sums, a, b: np.abs(sums[0]) - 1e9, lambda item, a, b: a >= 0)
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        TopEntriesSearch(question).select_positions([0], shards)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds)) / (ADDED_SHARDS * columns**2)
