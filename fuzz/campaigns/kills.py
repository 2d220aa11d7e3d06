"""A fit that was killed and continued ends at the certified optimum of one that was not."""

from __future__ import annotations

import os
import random
import signal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.campaigns.model_files import make_field
from fuzz.recipes import Campaign, Step, WrongResultError, steps_named
from sparsefield import FitCallbacks

TOLERANCE = 1e-4
"""Relative difference of objectives, each of which is certified to 1% of l1."""


def draw(rng: random.Random) -> list[Step]:
    """Return the numbers of optimizer steps after which the fit is killed, one after another."""
    return [("kill", rng.randint(1, 20)) for _ in range(rng.randint(1, 3))]


def run(steps: list[Step], folder: Path) -> None:
    """Kill fits in forked processes, continue, and compare the objectives."""
    for (after,) in steps_named(steps, "kill"):
        process = os.fork()
        if process == 0:
            _fit_until(after, folder)
        os.waitpid(process, 0)
    continued, expected = make_field(folder / "checkpoint").fit(_table()), _expected()
    if not continued.converged_ or abs(continued.objective_ - expected) > TOLERANCE * expected:
        raise WrongResultError(f"continued to the objective {continued.objective_:.6f}, without a kill {expected:.6f}")


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
def _expected() -> float:
    return make_field().fit(_table()).objective_


CAMPAIGN = Campaign("kills", draw, run, batch=4)
