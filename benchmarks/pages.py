"""This module measures how long the explorer takes to answer on a field of many columns."""

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

METHODS = ("auto", "bp", "mean-field")


def run_pages(*, columns: int = 10_000, seed: int = 0, report: Callable[[str], None] = lambda line: None) -> list[Row]:
    """Return a row per action: the seconds of its callback, without the transfer and the drawing."""
    from sparsefield.app.pages.explorer.explorer_page import make_app
    from sparsefield.app.pages.explorer.network_callbacks import draw_part
    from sparsefield.app.pages.explorer.session import open_session

    made = make_markov_field(columns, 1, neighbors=4, weights=(-1, 1), burn_in=1, thin=1, seed=seed)
    found: list[Row] = []

    def measure(action: str, act: Callable[[], Any], method: str = "") -> Any:
        report(f"{action} {method}".strip())
        start = time.perf_counter()
        answer = act()
        found.append({"action": action, "inference": method, "seconds": time.perf_counter() - start})
        return answer

    session = measure("open the model", lambda: open_session("field", made.field))
    measure("build the page, communities included", lambda: make_app(session, "t"))
    measure("find a column by its name", lambda: session.network.find("77", 30))
    measure("draw the communities", lambda: draw_part(session, None, None, 40, {}))
    measure("open a community", lambda: draw_part(session, None, 0, 40, {}))
    measure("draw a neighborhood", lambda: draw_part(session, 7, None, 40, {}))
    for method in METHODS:
        session.compare({}, method)
        measure("set a column", lambda method=method: session.compare({"7": 1}, method), method)
        measure("set it again", lambda method=method: session.compare({"7": 1}, method), method)
    return found


def command(
    columns: Annotated[int, typer.Option("--columns", min=2, help="Number of 0/1 columns.")] = 10_000,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure the answers of the explorer's page on a synthetic field of many columns."""
    print_rows(run_pages(columns=columns, seed=seed, report=print_message), ["action", "inference", "seconds"], as_json)
