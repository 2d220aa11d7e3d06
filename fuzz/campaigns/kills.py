"""A fit that was killed and continued ends with the same bits as one that was not."""

from __future__ import annotations

import os
import random
import signal
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.campaigns.model_files import make_field
from fuzz.recipes import Campaign, Step, WrongResultError, steps_named
from sparsefield import FitCallbacks


def draw(rng: random.Random) -> list[Step]:
    """Return the numbers of optimizer steps after which the fit is killed, one after another."""
    return [("kill", rng.randint(1, 20)) for _ in range(rng.randint(1, 3))]


def run(steps: list[Step], folder: Path) -> None:
    """Kill fits in forked processes, continue, and compare the saved files."""
    for (after,) in steps_named(steps, "kill"):
        process = os.fork()
        if process == 0:
            _fit_until(after, folder)
        os.waitpid(process, 0)
    found = _saved(make_field(folder / "checkpoint").fit(_table()), folder)
    if found != _expected():
        raise WrongResultError("a fit that was killed and continued has other bits")


def _table() -> np.ndarray:
    """Return an array, since polars must not be used in a forked process."""
    rng = np.random.default_rng(0)
    size = rng.normal(size=60)
    bits = size[:, None] + rng.normal(size=(60, 3)) > 0
    return np.column_stack([size, bits, rng.integers(0, 4, 60)])


def _fit_until(after: int, folder: Path) -> None:
    """Fit, and kill this process after some optimizer steps."""
    steps = 0

    def kill(record: Any) -> None:
        nonlocal steps
        steps += 1
        if steps >= after:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        make_field(folder / "checkpoint", callbacks=FitCallbacks(on_iteration=kill)).fit(_table())
    finally:
        os._exit(0)


@cache
def _expected() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return _saved(make_field().fit(_table()), Path(folder))


def _saved(field: Any, folder: Path) -> bytes:
    path = folder / "m.safetensors"
    field.save(path)
    return path.read_bytes()


CAMPAIGN = Campaign("kills", draw, run)
