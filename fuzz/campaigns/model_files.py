"""Model files and checkpoints with altered bytes are loaded, used and continued."""

from __future__ import annotations

import random
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.byte_changes import apply_changes, draw_changes
from fuzz.judging import check_finite, unchanged
from fuzz.recipes import Campaign, Step, first_step
from sparsefield import FitCallbacks, MarkovField, Solver, load

NAME = "fit.checkpoint"


class Interruption(Exception):  # noqa: N818
    """Ends a fit on purpose."""


def draw(rng: random.Random) -> list[Step]:
    """Return which file is changed, and the changes."""
    return [("file", rng.choice(("model", "model", "checkpoint"))), *draw_changes(rng)]


def run(steps: list[Step], folder: Path) -> None:
    """Load a changed model and use it, or continue from a changed checkpoint."""
    if first_step(steps, "file", ("model",))[0] == "checkpoint":
        path = folder / NAME
        path.write_bytes(apply_changes(checkpoint_bytes(), steps))
        _check(make_field(folder).fit(table()))
        return
    path = folder / "m.safetensors"
    path.write_bytes(apply_changes(_model_bytes(), steps))
    with unchanged(path):
        _check(load(path))


def _check(field: Any) -> None:
    check_finite(np.asarray(field.features_["weight"], dtype=float), "weights")
    check_finite(float(field.score(table())), "score")


def table() -> Any:
    """Return a small frame of all kinds of columns."""
    import polars as pl

    rng = np.random.default_rng(0)
    size = rng.normal(size=60)
    word = np.where(size + rng.normal(size=60) > 0, "yes", "no")
    return pl.DataFrame({"size": size, "word": word, "level": rng.integers(0, 4, 60), "bit": rng.integers(0, 2, 60)})


def make_field(folder: Path | None = None, callbacks: FitCallbacks | None = None) -> MarkovField:
    """Return an estimator with a checkpoint in a folder."""
    return MarkovField(l1=2.0, n_jobs=1, random_state=0, solver=Solver(checkpoint=folder, callbacks=callbacks))


@cache
def _model_bytes() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        make_field().fit(table()).save(Path(folder) / "m.safetensors")
        return (Path(folder) / "m.safetensors").read_bytes()


@cache
def checkpoint_bytes() -> bytes:
    """Return the checkpoint of a fit that was interrupted."""
    steps = 0

    def interrupt(record: Any) -> None:
        nonlocal steps
        steps += 1
        if steps > 12:
            raise Interruption

    with tempfile.TemporaryDirectory() as folder:
        with suppress(Interruption):
            make_field(Path(folder), callbacks=FitCallbacks(on_iteration=interrupt)).fit(table())
        path = Path(folder) / NAME
        return path.read_bytes() if path.is_file() else b""


CAMPAIGN = Campaign("models", draw, run)
