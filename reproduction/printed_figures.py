"""This module draws and lists the fits as printed: over the size of the network, and over the tolerance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.charts import save_figure
from benchmarks.csv_text import as_csv
from reproduction.cited import CITED, LAO_ZHU
from reproduction.figures import COLORS, MEASURES, mean_and_error
from reproduction.plan import Plan
from reproduction.plots import Curve, Level, Panel, Point, draw_panels
from reproduction.runs import METHODS, Run
from reproduction.store import Results
from reproduction.table1 import DATA
from sparsefield.atomic_write import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SHOWN", "THREE", "printed_rows", "real_rows", "real_runs", "write_printed", "write_real"]

SHOWN = ("cpu_seconds", "error_rate", "cll", "ap", "induced", "active")
THREE = ("full", "grafting", "cfi-paper")
"""The methods of the paper's Table 1."""
COUNTED = (*SHOWN, "scoring_seconds", "iterations", "edge_ap", "met")


def printed_rows(plan: Plan, results: Results) -> list[dict[str, Any]]:
    """Return means and standard errors over networks, for each size, tolerance, objective and method.

    Networks of which a method is missing are left out, so that all methods have the same ones.
    """
    rows = []
    for nodes in plan.nodes:
        seeds = [seed for seed in range(plan.seeds) if all(run in results for run in _runs_of(plan, nodes, seed))]
        for tolerance in plan.tolerances_at(nodes):
            here = results.at(tolerance)
            for objective, (method, name) in product(plan.objectives, METHODS.items()):
                runs = [plan.over_sizes(method, objective, nodes, seed) for seed in seeds]
                row: dict[str, Any] = {"nodes": nodes, "tolerance": tolerance, "objective": objective}
                row |= {"method": name, "seeds": len(seeds)}
                for measure in COUNTED:
                    mean, error, count = mean_and_error(here.mean(run, measure) for run in runs)
                    row |= {measure: mean if count else None, f"{measure}_se": error}
                rows.append(row)
    return rows


def _runs_of(plan: Plan, nodes: int, seed: int) -> Iterator[Run]:
    for objective, method in product(plan.objectives, METHODS):
        yield plan.over_sizes(method, objective, nodes, seed)


def real_runs(plan: Plan) -> Iterator[Run]:
    """Return the runs on real data, ordered by split."""
    for seed, data, objective, method in product(range(plan.seeds), plan.real, plan.objectives, THREE):
        yield plan.run(method, objective, data=data, seed=seed)


def real_rows(plan: Plan, results: Results) -> list[dict[str, Any]]:
    """Return means and standard deviations over the folds of all splits, as in the paper's Table 1."""
    rows = []
    for data, tolerance in product(plan.real, plan.tolerances_at(0)):
        here = results.at(tolerance)
        for objective, method in product(plan.objectives, THREE):
            runs = [plan.run(method, objective, data=data, seed=seed) for seed in range(plan.seeds)]
            folds = [record for run in runs for record in here[run]]
            row: dict[str, Any] = {"data": data, "tolerance": tolerance, "objective": objective}
            row |= {"method": METHODS[method], "folds": len(folds)}
            for measure in ("ap", "cll", "error_rate", "cpu_seconds", "induced", "active", "iterations"):
                values = np.array([record[measure] for record in folds])
                row |= {measure: float(values.mean()), f"{measure}_sd": float(values.std(ddof=1))}
            rows.append(row)
    return rows


def write_real(plan: Plan, rows: Sequence[dict[str, Any]], folder: Path, *, png: bool = False) -> list[Path]:
    """Write a figure over tolerances for each data set, with the paper's values as lines; and printed-real.csv."""
    drawn = {}
    for data in plan.real:
        panels = []
        for measure in ("ap", "cll", "error_rate"):
            title, unit, powers = MEASURES[measure]
            own = [{**row, f"{measure}_se": None} for row in rows if row["data"] == data]
            curves = _curves(plan, own, "tolerance", measure, THREE)
            panels.append(Panel(title, "tolerance", unit, curves, _reported(data, measure), log_x=True, log_y=powers))
        drawn[f"printed-{data}"] = draw_panels(
            f"{DATA[data].title} over the tolerance of the end of a fit",
            panels,
            subtitle="as printed; mean over folds; horizontal lines are reported in the paper",
        )
    return _write(drawn, "printed-real.csv", rows, folder, png=png)


def _reported(data: str, measure: str) -> list[Level]:
    """Return the paper's values, a line for each method."""
    found = []
    for method in THREE:
        for cited in CITED:
            if (cited.data, cited.method, cited.source) == (data, METHODS[method], LAO_ZHU):
                value = getattr(cited, measure, None)
                found += [Level(f"{cited.method}, reported", value[0], COLORS[method])] if value else []
    return found


def write_printed(
    plan: Plan, rows: Sequence[dict[str, Any]], tolerance: float, folder: Path, *, png: bool = False
) -> list[Path]:
    """Write the figures over sizes, at a tolerance, and over tolerances, at the plan's size; and printed.csv."""
    own = plan.settings
    folds = f"{own.folds_run or own.folds} of {own.folds} folds"
    setting = f"as printed; l1 = {own.l1:g}, l2 = {own.l2:g}, {own.rows} rows, {folds}"
    over_sizes = [row for row in rows if row["tolerance"] == tolerance]
    over_tolerances = [row for row in rows if row["nodes"] == plan.size]
    drawn = {
        "printed-sizes": draw_panels(
            f"Methods over the size of the network, tolerance {tolerance:g}",
            _panels(plan, over_sizes, "nodes"),
            subtitle=f"{setting}, {_networks(over_sizes)}",
        ),
        "printed-tolerances": draw_panels(
            f"Methods over the tolerance of their end, N = {plan.size}",
            _panels(plan, over_tolerances, "tolerance"),
            subtitle=f"{setting}, {_networks(over_tolerances)}",
        ),
    }
    return _write(drawn, "printed.csv", rows, folder, png=png)


def _networks(rows: Sequence[dict[str, Any]]) -> str:
    """Return how many networks there are of each size.

    Examples
    --------
    >>> _networks([{"nodes": 25, "seeds": 5}, {"nodes": 1000, "seeds": 3}])
    '5 networks (3 of N = 1000)'
    """
    least = {nodes: min(row["seeds"] for row in rows if row["nodes"] == nodes) for nodes in {r["nodes"] for r in rows}}
    most = max(least.values(), default=0)
    fewer = [f"{count} of N = {nodes}" for nodes, count in sorted(least.items()) if count < most]
    return f"{most} networks" + (f" ({', '.join(fewer)})" if fewer else "")


def _write(
    drawn: dict[str, Figure], table: str, rows: Sequence[dict[str, Any]], folder: Path, *, png: bool
) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, figure in drawn.items():
        for kind in ("svg", "png") if png else ("svg",):
            files.append(folder / f"{name}.{kind}")
            save_figure(figure, files[-1])
    files.append(folder / table)
    plain = [{k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows]
    write_atomically(files[-1], as_csv(plain).encode("utf-8"))
    return files


def _panels(plan: Plan, rows: Sequence[dict[str, Any]], axis: str) -> list[Panel]:
    panels = []
    for measure in SHOWN:
        title, unit, powers = MEASURES[measure]
        curves = _curves(plan, rows, axis, measure, METHODS)
        panels.append(Panel(title, axis, unit, curves, log_x=True, log_y=powers))
    return panels


def _curves(plan: Plan, rows: Sequence[dict[str, Any]], axis: str, measure: str, methods: Iterable[str]) -> list[Curve]:
    """Return a curve for each objective and method; those of the second objective are dashed."""
    curves = []
    for objective, method in product(plan.objectives, methods):
        name = METHODS[method]
        own = [row for row in rows if (row["objective"], row["method"]) == (objective, name)]
        points = [Point(row[axis], row[measure], row[f"{measure}_se"]) for row in own if row[measure] is not None]
        curves.append(Curve(f"{name}, {objective}", points, COLORS[method], objective != plan.objectives[0]))
    return curves
