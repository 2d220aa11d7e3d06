"""This module runs campaigns: ``python -m fuzz run``, ``replay NAME NUMBER`` and ``table``."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from fuzz.campaign_state import markdown_table, merge_folders
from fuzz.campaigns import CAMPAIGNS
from fuzz.child_process import OUTPUT, PATIENCE, VARIANTS, Child
from fuzz.failure_files import keep_failure
from fuzz.recipes import Recipe
from fuzz.scheduling import Failure, Schedule, Turn, run_schedule
from sparsefield.app.cli import run_app
from sparsefield.errors import DataError

CORES = os.cpu_count() or 1

app = typer.Typer(help="Feed sparsefield with odd and damaged input.", add_completion=False)
Seed = Annotated[int, typer.Option(envvar="FUZZ_SEED", help="Seed of all cases.")]
VariantOption = Annotated[str, typer.Option(help=f"Variant of the child process: {', '.join(VARIANTS)}.")]
Output = Annotated[Path, typer.Option(help="Folder of the counts, of failures and of compiled kernels.")]


@app.command()
def run(
    minutes: Annotated[float, typer.Option(envvar="FUZZ_MINUTES", help="Wall clock of the whole run.")] = 5.0,
    seed: Seed = 0,
    campaign: Annotated[list[str] | None, typer.Option(help="Campaigns to run; all by default.")] = None,
    variant: Annotated[list[str] | None, typer.Option(help="Variants to run; all by default.")] = None,
    processes: Annotated[int, typer.Option(min=1, help="Child processes; no result depends on them.")] = CORES,
    cases: Annotated[int | None, typer.Option(min=1, help="Cases of each campaign and variant at most.")] = None,
    output: Output = OUTPUT,
) -> int:
    """Run cases of all campaigns in turn, from where the last run with this seed ended, and print a table."""
    turns = _turns(campaign or list(CAMPAIGNS), variant or list(VARIANTS))
    _tell_missing_libraries(turns)
    schedule = Schedule(turns, seed, output, time.monotonic() + 60.0 * minutes, cases)

    def report(failure: Failure, child: Child) -> None:
        case = f"{failure.turn.campaign} {failure.number} --seed {seed} --variant {failure.turn.variant}"
        typer.echo(f"{case}: {failure.result.detail}", err=True)
        keep_failure(failure, child, output / "failures")

    run_schedule(schedule, processes, report)
    typer.echo(markdown_table([schedule.tallies]))
    return 1 if any(tally.failed for tally in schedule.tallies.values()) else 0


@app.command()
def replay(name: str, number: int, seed: Seed = 0, variant: VariantOption = "plain") -> int:
    """Run one case again, and print its recipe and what it came to."""
    recipe = Recipe.of(CAMPAIGNS[_known(name, "campaign", CAMPAIGNS)], seed, number)
    typer.echo(json.dumps(recipe.steps, indent=1))
    with Child(_known(variant, "variant", VARIANTS)) as child:
        result = child.run(recipe, PATIENCE)
    typer.echo(f"{result.verdict} {result.detail}".strip())
    return 1 if result.verdict == "failure" else 0


@app.command()
def table(
    folders: Annotated[list[Path] | None, typer.Argument(help="Folders of runs; build/fuzz by default.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the cases; all by default.")] = None,
) -> None:
    """Print the table of all runs in some folders."""
    typer.echo(markdown_table(merge_folders(folders or [OUTPUT], seed)))


def _turns(campaigns: list[str], variants: list[str]) -> list[Turn]:
    """Return the turns of each variant; bounds are checked only where there are kernels."""
    return [
        Turn(name, kind)
        for kind in (_known(name, "variant", VARIANTS) for name in variants)
        for name in (_known(name, "campaign", CAMPAIGNS) for name in campaigns)
        if kind != "boundscheck" or CAMPAIGNS[name].has_kernels
    ]


def _tell_missing_libraries(turns: list[Turn]) -> None:
    for name in dict.fromkeys(turn.campaign for turn in turns):
        for library in CAMPAIGNS[name].libraries:
            if find_spec(library) is None:
                typer.echo(f"{library} is not installed: cases of {name!r} that need it are not built.", err=True)


def _known(name: str, what: str, names: Collection[str]) -> Any:
    if name not in names:
        raise DataError(f"There is no {what} {name!r}; there are {', '.join(names)}.")
    return name


if __name__ == "__main__":
    sys.exit(run_app(app, "python -m fuzz"))
