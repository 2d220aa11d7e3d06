"""This module is the child process: it reads a recipe or a batch per line and answers with a line per case."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from fuzz.recipes import Campaign, Recipe

MEMORY = 6 * 2**30
"""Bytes of address space of the child; numba and polars reserve about two GiB of it."""


def limit_memory() -> None:
    """Limit the memory of this process."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def poison_empty() -> None:
    """Fill what numpy.empty returns with NaN or large numbers, so that reading it before writing shows."""
    import numpy as np

    def poisoned(make: Callable[..., Any]) -> Callable[..., Any]:
        def filled(*args: Any, **options: Any) -> Any:
            array = make(*args, **options)
            if array.dtype.kind == "f":
                array.fill(np.nan)
            elif array.dtype.kind in "iu":
                array.fill(np.iinfo(array.dtype).max // 3)
            elif array.dtype.kind == "b":
                array.fill(True)
            return array

        return filled

    setattr(np, "empty", poisoned(np.empty))  # noqa: B010  # which type checkers know as a function
    setattr(np, "empty_like", poisoned(np.empty_like))  # noqa: B010


def read_recipes(line: str, campaigns: dict[str, Campaign]) -> Iterator[Recipe]:
    """Yield the recipe of a line, or those of a batch."""
    found = json.loads(line)
    if "numbers" not in found:
        yield Recipe.from_json(line)
        return
    for number in found["numbers"]:
        yield Recipe.of(campaigns[found["campaign"]], found["seed"], number)


def main() -> None:
    """Answer recipes and batches until the input ends."""
    limit_memory()
    if os.environ.get("FUZZ_POISON"):
        poison_empty()
    from fuzz.campaigns import CAMPAIGNS
    from fuzz.judging import judge

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a case prints must not mix with the answers
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        for recipe in read_recipes(line, CAMPAIGNS):
            answers.write(json.dumps(asdict(judge(CAMPAIGNS[recipe.campaign], recipe))) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
