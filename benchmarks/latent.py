"""This module scores held-out rows with and without a latent variable, on latent classes and on real tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command_line import Json, Seed, print_rows
from benchmarks.measure import climb
from reproduction.public_data import load_dataset
from sparsefield.app.cli.console import print_message
from sparsefield.estimators import MarkovField

__all__ = ["LATENT_DATA", "LatentClasses", "draw_latent_classes", "run_latent"]

Array = np.ndarray[Any, np.dtype[Any]]

LATENT_DATA = ("latent classes", "digits", "nltcs")
"""Data sets of a run by default; plants and dna take longer."""

GRIDS: dict[str, tuple[float, ...]] = {
    "latent classes": (5.0, 10.0, 20.0, 40.0),
    "digits": (1.0, 2.0, 4.0, 8.0),
    "nltcs": (1.0, 4.0, 16.0),
    "dna": (4.0, 8.0, 12.0, 16.0),
    "plants": (2.0, 3.0, 5.0, 7.0, 10.0),
}
STATES = {"latent classes": 4, "digits": 10, "nltcs": 4, "dna": 3, "plants": 8}


@dataclass(frozen=True)
class LatentClasses:
    """0/1 rows have columns that are independent of each other given a latent class."""

    rows: Array
    """(rows, columns) of 0 and 1"""
    classes: Array
    """(rows,)"""
    chances: Array
    """(classes, columns): of a 1; classes are equally frequent."""

    def score(self, rows: Array) -> float:
        """Return the mean over rows of the sum of ln p(cell | other cells) under the truth."""
        logs = np.where(rows[:, None, :] == 1, np.log(self.chances), np.log1p(-self.chances))
        joint = logs.sum(axis=2, keepdims=True) - logs  # without the cell
        weight = np.exp(joint - joint.max(axis=1, keepdims=True))
        found = (weight * np.exp(logs)).sum(axis=1) / weight.sum(axis=1)
        return float(np.log(found).sum(axis=1).mean())


def draw_latent_classes(rows: int, columns: int = 24, classes: int = 4, *, seed: int = 0) -> LatentClasses:
    """Draw rows of equally frequent classes.

    Examples
    --------
    >>> draw_latent_classes(100, 10, 3).rows.shape
    (100, 10)
    """
    rng = np.random.default_rng(seed)
    chances = np.clip(rng.beta(0.7, 0.7, (classes, columns)), 0.001, 0.999)
    of_row = rng.integers(0, classes, rows)
    return LatentClasses((rng.random((rows, columns)) < chances[of_row]).astype(np.int64), of_row, chances)


def run_latent(
    data: Sequence[str] = LATENT_DATA,
    report: Callable[[str], None] = print,
    *,
    states: int | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
) -> list[dict[str, Any]]:
    """Return rows for both fields and the truth per dataset, each with the l1 that is best on validation rows."""
    found = []
    for name in data:
        if name not in GRIDS:
            raise ValueError(f"data must be among {', '.join(GRIDS)}; got {name!r}.")
        splits, truth = _load(name, seed)
        count = STATES[name] if states is None else states
        for method, latent in (("columns alone", None), (f"latent, {count} states", {"latent": count})):
            found.append({"data": name, "method": method, **_choose(name, splits, latent, seed, n_jobs, report)})
        if truth is not None:
            found.append({"data": name, "method": "the truth", "test_score": truth.score(splits[2])})
    return found


def _choose(
    name: str,
    splits: tuple[Array, Array, Array],
    latent: dict[str, int] | None,
    seed: int,
    n_jobs: int | None,
    report: Callable[[str], None],
) -> dict[str, Any]:
    """Fit once per l1 until scores fall, and measure the best fit."""
    train, valid, test = splits
    fits: dict[float, tuple[MarkovField, float]] = {}

    def validation_score(l1: float) -> float:
        started = time.perf_counter()
        field = MarkovField(l1=l1, latent=latent, random_state=seed, n_jobs=n_jobs).fit(train)
        fits[l1] = field, time.perf_counter() - started
        score = field.score(valid)
        what = "latent variable" if latent else "columns alone"
        report(f"{name}, {what}: l1 {l1:g}, validation score per row {score:.4f}, {fits[l1][1]:.1f} s")
        return score

    best, score = climb(GRIDS[name], validation_score)
    field, seconds = fits[best]
    return {
        "l1": best,
        "validation_score": score,
        "test_score": field.score(test),
        "features": len(field.field_.weights),
        "kkt_violation": field.kkt_violation_,
        "certified": field.converged_,
        "seconds": seconds,
    }


def _load(name: str, seed: int) -> tuple[tuple[Array, Array, Array], LatentClasses | None]:
    """Return training, validation and test rows, and the truth, if it is known."""
    if name == "latent classes":
        drawn = draw_latent_classes(6000, seed=seed)
        train, valid, test = np.split(drawn.rows, 3)
        return (train, valid, test), drawn
    if name == "digits":
        from sklearn.datasets import load_digits

        levels, _ = load_digits(return_X_y=True)
        pixels = (np.asarray(levels) >= 8).astype(np.int64)
        train, valid, test = np.split(np.random.default_rng(seed).permutation(pixels), [1000, 1300])
        return (train, valid, test), None
    splits: Any = load_dataset(name)
    return (np.asarray(splits.train), np.asarray(splits.valid), np.asarray(splits.test)), None


def command(
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="'latent classes', digits, nltcs (the default), dna, plants."),
    ] = None,
    states: Annotated[int | None, typer.Option("--states", min=2, help="States of the latent variable.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Score held-out rows with a latent variable and without one, with l1 chosen on validation rows."""
    found = run_latent(tuple(data or LATENT_DATA), report=print_message, states=states, seed=seed)
    shown = ("data", "method", "l1", "test_score", "features", "kkt_violation", "certified", "seconds")
    print_rows(found, shown, as_json)
