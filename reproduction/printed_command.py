"""This module defines ``python -m reproduction printed | signals``: fits as printed, and signals of any size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reproduction.study_command import (
    Folds,
    FoldsRun,
    Jobs,
    Least,
    Objectives,
    Png,
    Rows,
    Seeds,
    Tolerances,
    gather_runs,
    make_plan,
    open_study,
)
from sparsefield.app.cli.console import StatusLine, new_table, print_message, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reproduction.plan import Plan

Nodes = Annotated[
    list[int] | None,
    typer.Option("--nodes", min=2, help="Size of a network; by default 25, 50, 100, 200, 400 and 1,000."),
]
Size = Annotated[int, typer.Option("--size", min=2, help="Size of the networks of the figure over tolerances.")]
Shown = Annotated[float, typer.Option("--show", help="Tolerance of the figure over sizes.")]
Data = Annotated[
    list[str] | None,
    typer.Option("--data", help="animals or nations: Table 1 as printed, instead of networks."),
]
SignalNodes = Annotated[
    list[int] | None, typer.Option("--nodes", min=2, help="Size of a network; by default 200, 400 and 1,000.")
]
End = Annotated[float, typer.Option("--tolerance", min=0, help="End of fits as printed; 0 fits to near convergence.")]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FOLDER", help="For results and finished runs, which are kept.")
]

Stored = Annotated[bool, typer.Option("--stored", help="Show the runs that are stored; perform none.")]

DEFAULT_NODES = (25, 50, 100, 200, 400, 1_000)
FORMS = {"cpu_seconds": ".2f", "error_rate": ".4f", "cll": ".4f", "ap": ".4f", "induced": ",.0f", "active": ",.0f"}


def printed(
    nodes: Nodes = None,
    size: Size = 200,
    tolerance: Tolerances = None,
    least: Least = None,
    show_at: Shown = 0.01,
    seeds: Seeds = None,
    folds: Folds = None,
    folds_run: FoldsRun = None,
    rows: Rows = None,
    objective: Objectives = None,
    data: Data = None,
    stored: Stored = False,
    jobs: Jobs = 1,
    png: Png = False,
    output: Output = Path("results/study"),
) -> None:
    """Fit as printed: all methods over the size of the network and over the tolerance at which fits end."""
    from benchmarks.charts import new_figure
    from reproduction.printed_figures import printed_rows, write_printed

    plan = make_plan(
        False, nodes=nodes or DEFAULT_NODES, size=size, seeds=seeds, folds=folds, rows=rows, objectives=objective,
        as_printed=True, tolerances=tolerance, least=least, folds_run=folds_run, real=tuple(data or ()),
    )  # fmt: skip
    new_figure(1, 1, "")  # without matplotlib this raises before the long work
    if data:
        _print_real(plan, jobs, output, png=png)
        return
    with open_study(output, "Fits as printed", []) as watch:
        found = printed_rows(plan, gather_runs(plan.figure_3(), plan, output, jobs, watch, stored=stored))
    _show_rows(found)
    files = write_printed(plan, found, show_at, output, png=png)
    print_message(f"Wrote {', '.join(str(file) for file in files)}.")


def _print_real(plan: Plan, jobs: int, output: Path, *, png: bool) -> None:
    """Perform the runs on real data and print their scores, a line for each tolerance and method."""
    from reproduction.printed_figures import real_rows, real_runs, write_real

    with open_study(output, "Table 1 as printed", plan.real) as watch:
        rows = real_rows(plan, gather_runs(real_runs(plan), plan, output, jobs, watch))
    heads = ("AP", "CLL", "error", "seconds", "induced", "active", "folds")
    table = new_table("data", "tolerance", "obj.", "method", *heads, left=4)
    forms = {"ap": ".3f", "cll": ".3f", "error_rate": ".3f", "cpu_seconds": ".2f"}
    for row in rows:
        cells = [f"{row[name]:{form}} ({row[f'{name}_sd']:{form}})" for name, form in forms.items()]
        counts = (f"{row['induced']:,.0f}", f"{row['active']:,.0f}", str(row["folds"]))
        table.add_row(row["data"], f"{row['tolerance']:g}", row["objective"], row["method"], *cells, *counts)
    show(table)
    show("Mean (standard deviation) over the folds of all splits; seconds are of a processor.")
    files = write_real(plan, rows, output, png=png)
    print_message(f"Wrote {', '.join(str(file) for file in files)}.")


def _show_rows(rows: Sequence[dict[str, Any]]) -> None:
    heads = ("seconds", "error", "CLL", "AP", "induced", "active", "steps", "nets")
    table = new_table("nodes", "tolerance", "obj.", "method", *heads, left=4)
    for row in rows:
        cells = ["" if row[name] is None else f"{row[name]:{form}}" for name, form in FORMS.items()]
        steps = "" if row["iterations"] is None else f"{row['iterations']:.0f}{'' if row['met'] == 1.0 else '*'}"
        named = (str(row["nodes"]), f"{row['tolerance']:g}", row["objective"], row["method"])
        table.add_row(*named, *cells, steps, str(row["seeds"]))
    show(table)
    show("Means over networks of the mean over folds; seconds are of a processor. *: some fits ran out of iterations.")


def signals(
    nodes: SignalNodes = None,
    tolerance: End = 0.01,
    rows: Rows = None,
    objective: Objectives = None,
    png: Png = False,
    output: Output = Path("results/study"),
) -> None:
    """Figure 1 for several sizes: signals and errors at the end of CFI, and the share of products beyond 0.2."""
    from benchmarks.charts import new_figure
    from reproduction.signals_of_sizes import rows_of_sizes, write_signals

    plan = make_plan(False, nodes=nodes or (200, 400, 1_000), rows=rows, objectives=objective, no_real=True)
    new_figure(1, 1, "")
    with StatusLine("Signals and errors") as watch:
        found = rows_of_sizes(plan, tolerance, watch.update)
    table = new_table("nodes", "obj.", "signals below 0.2", "errors below 0.2", "products beyond 0.2", left=2)
    for one in found:
        shares = (one.small_signals, one.small_errors, one.looked_at)
        table.add_row(str(one.nodes), one.objective, *(f"{share:.1%}" for share in shares))
    show(table)
    files = write_signals(found, tolerance, output, png=png)
    print_message(f"Wrote {', '.join(str(file) for file in files)}.")
