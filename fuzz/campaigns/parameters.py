"""Estimators get bad values of their parameters."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from fuzz.campaigns.model_files import table
from fuzz.judging import check_finite
from fuzz.recipes import Campaign, Step, steps_named
from sparsefield import MarkovField

VALUES: tuple[Any, ...] = (
    None, True, 0, 1, -1, 2, 10**30, 0.5, -0.5, 1e-320, 1e308, float("nan"), float("inf"), "", "auto", "exact", "pl",
    "1", [], [1], {}, {"size": "ordinal"}, {"none": "numeric"}, {"size": 3},
)  # fmt: skip

NAMES = (
    "induction", "objective", "l1", "penalty", "l2", "selection", "refit", "features", "missing",
    "inference", "kinds", "solver", "n_jobs", "random_state",
)  # fmt: skip

ARGUMENTS = ("observed", "sample_weight", "states")


def draw(rng: random.Random) -> list[Step]:
    """Return one to three parameters or arguments with values."""
    names = rng.sample((*NAMES, *ARGUMENTS), rng.randint(1, 3))
    return [("parameter" if name in NAMES else "argument", name, rng.choice(VALUES)) for name in names]


def run(steps: list[Step], folder: Path) -> None:
    """Fit with the values; a refusal names what is wrong."""
    options: dict[str, Any] = {"l1": 4.0, "n_jobs": 1} | dict(steps_named(steps, "parameter"))
    arguments: dict[str, Any] = dict(steps_named(steps, "argument"))
    field = MarkovField(**options).fit(table(), **arguments)
    check_finite(field.objective_, "objective_")


CAMPAIGN = Campaign("parameters", draw, run, refusals=(ValueError, TypeError))
