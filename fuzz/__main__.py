"""This module runs campaigns: ``python -m fuzz run``, ``python -m fuzz replay NAME NUMBER``."""

from __future__ import annotations

import json
import sys
import time
from itertools import cycle
from pathlib import Path
from typing import Annotated, cast

import typer

from fuzz.campaign_state import Tally, markdown_table, read_tallies, write_tallies
from fuzz.campaigns import CAMPAIGNS
from fuzz.child_process import VARIANTS, Child, Variant
from fuzz.recipes import FAILURES, CaseResult, Recipe
from fuzz.shrinking import shrink
from sparsefield.cli import run_app
from sparsefield.errors import DataError

STATE = Path("build/fuzz/state.json")
TURN_SECONDS = 20.0
"""Time of a campaign before it is the next one's turn: a start of a child takes some seconds."""

ALIKE = 60
"""Number of characters of the message by which failures are told apart."""

app = typer.Typer(help="Feed sparsefield with odd and damaged input.", add_completion=False)
Seed = Annotated[int, typer.Option(envvar="FUZZ_SEED", help="Seed of all cases.")]
VariantOption = Annotated[str, typer.Option(help=f"Variant of the child process: {', '.join(VARIANTS)}.")]


@app.command()
def run(
    minutes: Annotated[float, typer.Option(envvar="FUZZ_MINUTES", help="Wall clock of the whole run.")] = 5.0,
    seed: Seed = 0,
    campaign: Annotated[list[str] | None, typer.Option(help="Campaigns to run; all by default.")] = None,
    variant: Annotated[list[str] | None, typer.Option(help="Variants to run; all by default.")] = None,
) -> int:
    """Run cases of all campaigns in turn, from where the last run with this seed ended, and print a table."""
    end, tallies = time.monotonic() + 60.0 * minutes, read_tallies(STATE, seed)
    turns = [(name, kind) for kind in (variant or VARIANTS) for name in (campaign or CAMPAIGNS)]
    for name, kind in cycle(turns):
        if time.monotonic() >= end:
            break
        with Child(_known_variant(kind)) as child:
            tally = tallies.setdefault(f"{name}/{kind}", Tally())
            _take_turn(child, name, seed, tally, min(end, time.monotonic() + TURN_SECONDS))
        write_tallies(STATE, seed, tallies)
    typer.echo(markdown_table(tallies))
    return 1 if any(tally.failed for tally in tallies.values()) else 0


@app.command()
def replay(name: str, number: int, seed: Seed = 0, variant: VariantOption = "plain") -> int:
    """Run one case again, and print its recipe and what it came to."""
    recipe = _recipe(name, seed, number)
    typer.echo(json.dumps(recipe.steps, indent=1))
    with Child(_known_variant(variant)) as child:
        result = child.run(recipe)
    typer.echo(f"{result.verdict} {result.detail}".strip())
    return 1 if result.verdict == "failure" else 0


@app.command()
def table(seed: Seed = 0) -> None:
    """Print the table of all runs with a seed."""
    typer.echo(markdown_table(read_tallies(STATE, seed)))


def _take_turn(child: Child, name: str, seed: int, tally: Tally, end: float) -> None:
    """Run cases until the time of the turn is over; at least one."""
    while True:
        number = tally.next_number
        recipe = _recipe(name, seed, number)
        result = child.run(recipe)
        tally.add(number, result.verdict)
        if result.verdict == "failure":
            typer.echo(f"{name} {number} --seed {seed} --variant {child.variant}: {result.detail}", err=True)
            _keep_failure(child, recipe, result, f"{name}-{seed}-{number}")
        if time.monotonic() >= end:
            return


def _keep_failure(child: Child, recipe: Recipe, result: CaseResult, stem: str) -> None:
    """Shrink a failing case and write it to the folder of failures, unless one that fails alike is there."""
    kind, known = result.detail.partition(":")[0], [json.loads(path.read_text()) for path in FAILURES.glob("*.json")]
    if any((one["campaign"], one["detail"][:ALIKE]) == (recipe.campaign, result.detail[:ALIKE]) for one in known):
        return

    def fails(steps: list) -> bool:
        found = child.run(Recipe(recipe.campaign, steps))
        return found.verdict == "failure" and found.detail.partition(":")[0] == kind

    smallest = Recipe(recipe.campaign, shrink(recipe.steps, fails) if kind != "hang" else recipe.steps)
    FAILURES.mkdir(exist_ok=True)
    content = {**json.loads(smallest.to_json()), "variant": child.variant, "detail": result.detail}
    (FAILURES / f"{stem}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _recipe(name: str, seed: int, number: int) -> Recipe:
    if name not in CAMPAIGNS:
        raise DataError(f"There is no campaign {name!r}; there are {', '.join(CAMPAIGNS)}.")
    return Recipe.of(CAMPAIGNS[name], seed, number)


def _known_variant(name: str) -> Variant:
    if name not in VARIANTS:
        raise DataError(f"There is no variant {name!r}; there are {', '.join(VARIANTS)}.")
    return cast(Variant, name)


if __name__ == "__main__":
    sys.exit(run_app(app, "python -m fuzz"))
