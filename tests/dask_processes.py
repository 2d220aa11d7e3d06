"""A Dask scheduler and workers in separate processes that tests may kill."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

LIMIT = 600.0
"""Seconds after which something hangs, on machines where other tests compile and compute at the same time."""


class Processes:
    """A scheduler at a free port, workers, and a client."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        self.scheduler: subprocess.Popen | None = None
        self.workers: list[subprocess.Popen] = []
        self.client: Any = None

    def start_scheduler(self, *path: str) -> None:
        """Start the scheduler with ``path`` at the front of its import path."""
        port = self.address.rsplit(":", 1)[1]
        options = ("--host", "127.0.0.1", "--port", port, "--no-dashboard")
        self.scheduler = _python("dask_scheduler", *options, first=path)

    def start_worker(
        self, *path: str, threads: int = 1, nanny: bool = False, memory_limit: str = "0"
    ) -> subprocess.Popen:
        """Start a worker, which joins when it is ready; a nanny restarts it when it dies."""
        kind = "--nanny" if nanny else "--no-nanny"
        options = ("--nthreads", str(threads), "--no-dashboard", "--memory-limit", memory_limit)
        worker = _python("dask_worker", self.address, kind, *options, "--death-timeout", str(LIMIT), first=path)
        self.workers.append(worker)
        return worker

    def connect(self) -> Any:
        from distributed import Client

        deadline = time.monotonic() + LIMIT
        while True:
            try:
                self.client = Client(self.address, timeout=30, set_as_default=False)
                return self.client
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def wait_for(self, count: int) -> None:
        """Wait until there are exactly ``count`` workers."""
        until(lambda: len(self.pids()) == count)

    def pids(self) -> dict[str, int]:
        """Return {address: process id} of the workers."""
        return self.client.run(os.getpid, on_error="ignore")

    def end(self) -> None:
        if self.client is not None:
            self.client.close()
        for process in [*self.workers, self.scheduler]:
            if process is not None:
                kill(process)


@contextmanager
def processes(workers: int = 2, *, threads: int = 1, nanny: bool = False) -> Iterator[Processes]:
    with silence():
        here = Processes()
        try:
            here.start_scheduler()
            for _ in range(workers):
                here.start_worker(threads=threads, nanny=nanny)
            here.connect()
            here.wait_for(workers)
            yield here
        finally:
            here.end()


@contextmanager
def silence() -> Iterator[None]:
    """Disable logging, since Dask logs every death of a worker."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def kill(process: subprocess.Popen) -> None:
    """Kill a process with its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=LIMIT)


def until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < deadline, "the condition never became true"
        time.sleep(0.1)


def in_time(function: Callable[[], Any], limit: float = LIMIT) -> Any:
    """Return the result of a function or raise its error; fail if it takes too long."""
    outcome: list[tuple[bool, Any]] = []

    def run() -> None:
        try:
            outcome.append((True, function()))
        except BaseException as error:
            outcome.append((False, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit)
    assert outcome, f"no result within {limit:.0f} seconds"
    good, value = outcome[0]
    if good:
        return value
    raise value


def _python(command: str, *arguments: str, first: tuple[str, ...] = ()) -> subprocess.Popen:
    nowhere: Any = subprocess.DEVNULL
    line = [sys.executable, "-m", f"distributed.cli.{command}", *arguments]
    path = os.pathsep.join(filter(None, [*first, *sys.path]))  # functions of tests are found there too
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.Popen(
        line, start_new_session=True, stdin=nowhere, stdout=nowhere, stderr=nowhere, env=environment
    )


# -- functions for workers, in a module with few imports --------------------------------------------------------------


def fail_at_block_3(block: int, kind: type[Exception], log: str) -> int:
    if block != 3:
        return block
    with Path(log).open("a", encoding="utf-8") as file:
        file.write("failed\n")
    raise kind("the third")


def saved(model, folder: Path) -> bytes:
    """The bytes of a model file; without the tests of edges, which a cluster does not make."""
    model.field_ = replace(model.field_, record=structs.replace(model.field_.record, evidence=None))
    model.save(folder / "model")
    return (folder / "model").read_bytes()


def _table(missing: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(5)
    X = rng.integers(0, 3, (200, 5)).astype(float)
    for k in range(1, 5):
        X[:, k] = np.where(rng.random(200) < 0.6, X[:, k - 1], X[:, k])
    X[rng.random(X.shape) < missing] = np.nan
    return X


COMPLETE, INCOMPLETE = _table(), _table(missing=0.1)
