"""Seconds that the served page takes to be made and to answer, on a field of many columns."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from benchmarks.command_line import Json, Seed, print_rows
from sparsefield.app.cli.console import print_message
from sparsefield.app.datasets import make_markov_field

__all__ = ["run_pages"]

Row = dict[str, Any]

METHODS = ("bp", "mean-field", "auto")


def run_pages(*, columns: int = 10_000, seed: int = 0, report: Callable[[str], None] = lambda line: None) -> list[Row]:
    """Return a row per action: its seconds, without the transfer and the drawing."""
    from sparsefield.app.pages.session import Session

    made = make_markov_field(columns, 1, neighbors=4, weights=(-1, 1), burn_in=1, thin=1, seed=seed)
    found: list[Row] = []

    def measure(action: str, act: Callable[[], Any], method: str = "") -> Any:
        report(f"{action} {method}".strip())
        start = time.perf_counter()
        answer = act()
        found.append({"action": action, "inference": method, "seconds": time.perf_counter() - start})
        return answer

    session = Session("field", made.field)
    measure("make the page, communities included", lambda: session.page)
    for method in METHODS:
        session.beliefs({"method": method})
        question = {"set": {"x7": "1"}, "method": method}
        measure("set a column", lambda question=question: session.beliefs(question), method)
        measure("set it again", lambda question=question: session.beliefs(question), method)
    return found


def command(
    columns: Annotated[int, typer.Option("--columns", min=2, help="Number of 0/1 columns.")] = 10_000,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure the answers of the served page on a synthetic field of many columns."""
    print_rows(run_pages(columns=columns, seed=seed, report=print_message), ["action", "inference", "seconds"], as_json)
