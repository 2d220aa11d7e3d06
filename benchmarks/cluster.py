"""This module compares a fit on threads and on local Dask workers: seconds, bytes sent, equality of saved files."""

from __future__ import annotations

import importlib.util
import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command_line import Json, Row, Seed, print_rows
from benchmarks.ising import draw_ising
from sparsefield.app.cli.console import print_message
from sparsefield.errors import ClusterError
from sparsefield.estimators import MarkovField
from sparsefield.solver import Solver

__all__ = ["default_l1", "run_cluster"]

THREADS, WORKERS = (1, 2), (1, 2, 4)
BURN_IN, THIN = 100, 5
"""Gibbs sweeps: rows need not be independent to be learned from."""

WARM_UP_ROWS = 5_000


def default_l1(rows: int) -> float:
    """Return a penalty that grows with the square root of the rows, as the noise of a gradient does."""
    return round(1.4 * rows**0.5, 1)


def run_cluster(
    columns: int = 100,
    rows: int = 200_000,
    *,
    l1: float | None = None,
    workers: Sequence[int] = WORKERS,
    repeats: int = 2,
    seed: int = 0,
    report: Callable[[str], None] = print,
) -> list[Row]:
    """Fit the same synthetic rows on 1 and 2 threads and on local clusters of one-threaded worker processes.

    Returns
    -------
    list of dict
        method, seconds (of ``fit``, the shortest of ``repeats``), times_threads (the ratio to one thread), iterations,
        pairs, and same_bytes (whether the saved model equals that of one thread, byte for byte).
    """
    if importlib.util.find_spec("distributed") is None:
        raise ClusterError("A cluster needs Dask: pip install 'sparsefield[cluster]'.")
    l1 = default_l1(rows) if l1 is None else l1
    report(f"Drawing {rows:,} rows of {columns:,} columns ...")
    data = draw_ising(columns, rows, burn_in=BURN_IN, thin=THIN, seed=seed).samples
    found: list[tuple[Row, bytes]] = []
    for count in THREADS:
        report(f"{count} thread(s) ...")
        found.append(_measure(f"{count} thread(s)", data, l1, repeats, n_jobs=count))
    for count in sorted(workers):
        report(f"{count} worker(s) ...")
        with _local_cluster(count) as client:
            found.append(_measure(f"{count} worker(s)", data, l1, repeats, solver=Solver(engine=client), n_jobs=1))
    base, saved = found[0]
    return [row | {"times_threads": row["seconds"] / base["seconds"], "same_bytes": one == saved} for row, one in found]


def _measure(method: str, data: np.ndarray, l1: float, repeats: int, **options: Any) -> tuple[Row, bytes]:
    """Return the row of the fastest of several fits, and the bytes of its saved model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # compiles the kernels; whether the small fit converges does not matter
        warm_up = data[:WARM_UP_ROWS]
        MarkovField(l1=default_l1(len(warm_up)), **options).fit(warm_up)
    seconds = []
    for _ in range(repeats):
        field = MarkovField(l1=l1, **options)
        started = time.perf_counter()
        field.fit(data)
        seconds.append(time.perf_counter() - started)
    row = {
        "method": method,
        "seconds": min(seconds),
        "iterations": field.n_iter_,
        "pairs": len(field.field_.pairs),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "field.safetensors"
        field.save(path)
        return row, path.read_bytes()


@contextmanager
def _local_cluster(workers: int) -> Iterator[Any]:
    """Start worker processes of one thread each on this machine, and yield their client."""
    from distributed import Client, LocalCluster

    # Without a port of its own the scheduler takes 8787, and warns if another process has it.
    options: dict[str, Any] = {"threads_per_worker": 1, "processes": True, "silence_logs": logging.ERROR}
    options |= {"dashboard_address": "127.0.0.1:0", "scheduler_kwargs": {"dashboard": False}}
    with LocalCluster(n_workers=workers, **options) as cluster, Client(cluster) as client:
        client.wait_for_workers(workers)
        yield client


def command(
    columns: Annotated[int, typer.Option("--columns", min=4, help="Number of 0/1 columns.")] = 100,
    rows: Annotated[int, typer.Option("--rows", min=400, help="Rows to learn from.")] = 200_000,
    l1: Annotated[float | None, typer.Option("--l1", help="By default 1.4 sqrt(rows).")] = None,
    workers: Annotated[
        list[int] | None, typer.Option("--workers", min=1, help="Local worker processes; by default 1, 2 and 4.")
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Fits of each kind; the quickest counts.")] = 2,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Fit on local Dask workers and on threads: time, bytes sent, equality of the saved models."""
    found = run_cluster(
        columns, rows, l1=l1, workers=workers or WORKERS, repeats=repeats, seed=seed, report=print_message
    )
    shown = ("method", "seconds", "times_threads", "iterations", "pairs", "same_bytes")
    print_rows(found, shown, as_json)
