"""This module defines the options and the output that all benchmark commands share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmarks.charts import ChartsUnavailableError, save_figure
from sparsefield.app.cli.console import new_table, print_message, show, show_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Json", "Output", "Row", "Seed", "print_rows", "write_charts"]

Row = dict[str, Any]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the data and of the missing cells.")]
Output = Annotated[Path, typer.Option("--output", help="Folder for charts.")]
RESULTS = Path("results/benchmarks")


def print_rows(rows: Sequence[Row], shown: Sequence[str], as_json: bool = False, *, left: int = 1) -> None:
    """Print the columns ``shown`` of all rows as a table, or whole rows as JSON; a failed row gets a line of its own.

    Columns up to ``method``, or the first ``left``, are aligned to the left.
    """
    if as_json:
        show_json(list(rows))
        return
    left = shown.index("method") + 1 if "method" in shown else left
    table = new_table(*(name.replace("_", " ") for name in shown), left=left)
    for row in rows:
        table.add_row(*(_format_cell(row.get(name)) for name in shown))
    show(table)
    for row in rows:
        if row.get("status", "done") != "done":
            show(f"{row['data']}, {row['method']}: {row['status']}")


def write_charts(draw: Callable[[list[Row]], Mapping[str, Figure]], rows: list[Row], folder: Path) -> None:
    """Draw rows as charts, each in a file of its own; if matplotlib is not installed, print that."""
    try:
        charts = draw(rows)
    except ChartsUnavailableError as error:
        print_message(f"No charts: {error}")
        return
    for name, figure in charts.items():
        save_figure(figure, folder / name)
        print_message(f"Wrote {folder / name}")


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def choose_parts(wanted: Sequence[str] | None, known: Collection[str]) -> list[str]:
    """Return the parts of a benchmark that ``--part`` names, or all; an unknown one is a ValueError."""
    for name in wanted or ():
        if name not in known:
            raise ValueError(f"part must be one of {', '.join(known)}; got {name!r}.")
    return list(wanted or known)
