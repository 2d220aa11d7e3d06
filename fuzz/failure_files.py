"""This module keeps cases that failed: shrunk, and one of each kind."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fuzz.campaigns import CAMPAIGNS
from fuzz.child_process import HANG, Child
from fuzz.recipes import FAILURES, Recipe, Step
from fuzz.scheduling import Failure
from fuzz.shrinking import shrink

ALIKE = 60
"""Number of characters of the message by which failures are told apart."""


def keep_failure(failure: Failure, child: Child, folder: Path) -> None:
    """Shrink a failing case and write it to a folder, unless one that fails alike is known."""
    recipe = Recipe.of(CAMPAIGNS[failure.turn.campaign], failure.seed, failure.number)
    known = [
        json.loads(path.read_text(encoding="utf-8")) for path in (*folder.glob("*.json"), *FAILURES.glob("*.json"))
    ]
    if any(_is_alike(failure, one) for one in known):
        return
    smallest = recipe if failure.result == HANG else Recipe(recipe.campaign, _shrunk_steps(failure, recipe, child))
    folder.mkdir(parents=True, exist_ok=True)
    content = {**asdict(smallest), "variant": failure.turn.variant, "detail": failure.result.detail}
    path = folder / f"{failure.turn.campaign}-{failure.seed}-{failure.number}.json"
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _is_alike(failure: Failure, known: dict[str, Any]) -> bool:
    return (known["campaign"], known["detail"][:ALIKE]) == (failure.turn.campaign, failure.result.detail[:ALIKE])


def _shrunk_steps(failure: Failure, recipe: Recipe, child: Child) -> list[Step]:
    kind = failure.result.detail.partition(":")[0]

    def fails(steps: list[Step]) -> bool:
        found = child.run(Recipe(recipe.campaign, steps))
        return found.verdict == "failure" and found.detail.partition(":")[0] == kind

    return shrink(recipe.steps, fails)
