"""This module is the command that measures fits on one thread, two, four and so on up to all cores."""

from __future__ import annotations

from typing import Annotated

import typer

from benchmarks.command_line import Seed
from benchmarks.core_scaling import SECONDS, find_core_cases, print_scaling, thread_counts


def command(
    case: Annotated[
        list[str] | None, typer.Option("--case", help="factors-1300, ising-20000, texts, sparse; by default all.")
    ] = None,
    threads: Annotated[
        list[int] | None,
        typer.Option("--threads", min=1, help="By default 1, 2, 4, ... and all cores."),
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", help="Seconds allowed for the fits of a case.")] = SECONDS,
    short: Annotated[bool, typer.Option("--short", help="Small cases.")] = False,
    seed: Seed = 0,
) -> None:
    """Fit with one thread, two, four and so on: speed-up, CPU seconds, and whether the bits stay the same."""
    if not print_scaling(find_core_cases(case, short=short), threads or thread_counts(), seconds=seconds, seed=seed):
        raise typer.Exit(1)
