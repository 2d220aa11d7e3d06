"""Several threads save, load, fit and score at the same time."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from fuzz.campaigns.model_files import make_field, table
from fuzz.recipes import Campaign, Step, WrongResultError, steps_named
from sparsefield import MarkovField, load


def draw(rng: random.Random) -> list[Step]:
    """Return what each of some threads does."""
    return [("thread", rng.choice(("save", "save", "load", "score", "transform"))) for _ in range(rng.randint(2, 6))]


def run(steps: list[Step], folder: Path) -> None:
    """Run all threads on one file; readers see a whole file, and it is the same in the end."""
    path = folder / "m.safetensors"
    _field().save(path)
    before = path.read_bytes()
    with ThreadPoolExecutor(max(len(steps), 1)) as pool:
        for future in [pool.submit(_act, name, path) for (name,) in steps_named(steps, "thread")]:
            future.result()
    if path.read_bytes() != before or [one.name for one in folder.iterdir()] != [path.name]:
        raise WrongResultError("threads left another file, or more files, behind")


@cache
def _field() -> MarkovField:
    return make_field().fit(table())


def _act(name: str, path: Path) -> None:
    if name == "save":
        _field().save(path)
    elif name == "load":
        if load(path).features_.shape != _field().features_.shape:
            raise WrongResultError("a loaded field differs")
    elif name == "score":
        loaded: Any = load(path)
        if loaded.score(table()) != _field().score(table()):
            raise WrongResultError("a score differs between threads")
    else:
        _field().transform(table())


CAMPAIGN = Campaign("threads", draw, run)
