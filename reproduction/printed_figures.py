"""This module draws and lists the fits as printed: over the size of the network, and over the tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.charts import save_figure
from benchmarks.csv_text import as_csv
from reproduction.figures import COLORS, MEASURES, mean_and_error
from reproduction.plan import Plan
from reproduction.plots import Curve, Panel, Point, draw_panels
from reproduction.runs import METHODS
from reproduction.store import Results
from sparsefield.io.atomic_write import write_atomically

__all__ = ["SHOWN", "printed_rows", "write_printed"]

SHOWN = ("cpu_seconds", "error_rate", "cll", "ap", "induced", "active")
COUNTED = (*SHOWN, "scoring_seconds", "iterations", "edge_ap", "met")


def printed_rows(plan: Plan, results: Results) -> list[dict[str, Any]]:
    """Return means and standard errors over networks, for each size, tolerance, objective and method."""
    rows = []
    for nodes in plan.nodes:
        for tolerance in plan.tolerances_at(nodes):
            here = results.at(tolerance)
            for objective in plan.objectives:
                for method, name in METHODS.items():
                    runs = [plan.over_sizes(method, objective, nodes, seed) for seed in range(plan.seeds)]
                    done = [run for run in runs if run in here]
                    row: dict[str, Any] = {"nodes": nodes, "tolerance": tolerance, "objective": objective}
                    row |= {"method": name, "seeds": len(done)}
                    for measure in COUNTED:
                        mean, error, count = mean_and_error(here.mean(run, measure) for run in done)
                        row |= {measure: mean if count else None, f"{measure}_se": error}
                    rows.append(row)
    return rows


def write_printed(
    plan: Plan, rows: Sequence[dict[str, Any]], tolerance: float, folder: Path, *, png: bool = False
) -> list[Path]:
    """Write the figures over sizes, at a tolerance, and over tolerances, at the plan's size; and printed.csv."""
    own = plan.settings
    folds = f"{own.folds_run or own.folds} of {own.folds} folds"
    setting = f"as printed; l1 = {own.l1:g}, l2 = {own.l2:g}, {own.rows} rows, {plan.seeds} networks, {folds}"
    drawn = {
        "printed-sizes": draw_panels(
            f"Methods over the size of the network, tolerance {tolerance:g}",
            _panels(plan, [row for row in rows if row["tolerance"] == tolerance], "nodes"),
            subtitle=setting,
        ),
        "printed-tolerances": draw_panels(
            f"Methods over the tolerance of their end, N = {plan.size}",
            _panels(plan, [row for row in rows if row["nodes"] == plan.size], "tolerance"),
            subtitle=setting,
        ),
    }
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, figure in drawn.items():
        for kind in ("svg", "png") if png else ("svg",):
            files.append(folder / f"{name}.{kind}")
            save_figure(figure, files[-1])
    files.append(folder / "printed.csv")
    plain = [{k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows]
    write_atomically(files[-1], as_csv(plain).encode("utf-8"))
    return files


def _panels(plan: Plan, rows: Sequence[dict[str, Any]], axis: str) -> list[Panel]:
    panels = []
    for measure in SHOWN:
        title, unit, powers = MEASURES[measure]
        curves = []
        for objective in plan.objectives:
            for method, name in METHODS.items():
                own = [row for row in rows if (row["objective"], row["method"]) == (objective, name)]
                points = [
                    Point(row[axis], row[measure], row[f"{measure}_se"]) for row in own if row[measure] is not None
                ]
                dashed = objective != plan.objectives[0]
                curves.append(Curve(f"{name}, {objective}", points, COLORS[method], dashed))
        panels.append(Panel(title, axis, unit, curves, log_x=True, log_y=powers))
    return panels
