"""This module defines cases as recipes of plain values, which can be stored, replayed and shrunk."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

Step = tuple[Any, ...]
"""A name and values that JSON can express, such as ``("column", "huge", "x1")``."""

Verdict = Literal["fine", "refused", "not built", "failure"]

FAILURES = Path(__file__).parent / "failures"
"""Small cases that once failed; a test replays them."""


class NoCaseError(Exception):
    """Another library is missing, or refused to build what the recipe describes: there is nothing to judge."""


class WrongResultError(Exception):
    """A call ended without an error, but its result is wrong: not finite, lost or different."""


@dataclass(frozen=True)
class Campaign:
    """A kind of input, and what is done with it."""

    name: str
    draw: Callable[[random.Random], list[Step]]
    """Returns the steps of a case."""
    run: Callable[[list[Step], Path], None]
    """Runs steps in an empty folder; what it raises is judged."""
    refusals: tuple[type[Exception], ...] = ()
    """Exceptions that also count as a refusal, beside those of `sparsefield.errors`."""
    libraries: tuple[str, ...] = ()
    """Libraries without which some cases cannot be built."""
    has_kernels: bool = True
    """Whether its cases run kernels, whose bounds can be checked."""
    batch: int = 16
    """Cases that a child process gets at a time."""


@dataclass(frozen=True)
class Recipe:
    """The steps of a case of a campaign."""

    campaign: str
    steps: list[Step]

    @classmethod
    def of(cls, campaign: Campaign, seed: int, number: int) -> Recipe:
        """Return a case of a campaign, which depends on its name, the seed and the number alone."""
        return cls(campaign.name, campaign.draw(random.Random(f"{campaign.name}/{seed}/{number}")))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        found = json.loads(text)
        return cls(found["campaign"], [tuple(step) for step in found["steps"]])


@dataclass(frozen=True)
class Batch:
    """Numbers of cases of a campaign, which a child process draws and runs one after another."""

    campaign: str
    seed: int
    numbers: list[int]

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class CaseResult:
    """What a case came to."""

    verdict: Verdict
    detail: str = ""
    """The type and the first line of the exception, or "crash" or "hang"."""


def steps_named(steps: list[Step], name: str) -> list[Step]:
    """Return the values of the steps with a name."""
    return [step[1:] for step in steps if step[0] == name]


def first_step(steps: list[Step], name: str, default: Step) -> Step:
    """Return the values of the first step with a name, or the default, since shrinking removes steps."""
    return next(iter(steps_named(steps, name)), default)
