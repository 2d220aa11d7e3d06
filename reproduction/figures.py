"""This module draws figures 1 to 4 of the paper from finished runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.charts import save_figure
from benchmarks.csv_text import as_csv
from reproduction.plan import Plan
from reproduction.plots import Curve, Histogram, HistogramPanel, Level, Panel, Point, draw_histograms, draw_panels
from reproduction.runs import METHODS, NODEWISE, Run, estimator_of, load_real, made
from reproduction.signals import Spread, spread_of
from reproduction.store import Results
from sparsefield.atomic_write import write_atomically

__all__ = [
    "MEASURES", "Row", "draw_spreads", "mean_and_error", "size_rows", "structure_table", "threshold_rows",
    "write_figures",
]  # fmt: skip

Row = dict[str, Any]

MEASURES = {
    "cpu_seconds": ("training time", "seconds of processor", True),
    "error_rate": ("prediction error", "share of held-out cells", False),
    "cll": ("CLL", "per held-out cell", False),
    "ap": ("AP", "", False),
    "induced": ("induced features", "", True),
    "active": ("active features", "weight is not 0", True),
    "scoring_seconds": ("time for scoring candidates", "seconds by the wall clock", True),
    "looked_at": ("products looked at", "share of signal x error", True),
    "edge_ap": ("true edges, AP", "", False),
}
"""What a panel shows: its title, its unit, and whether it goes by powers of ten."""

STRUCTURE = ("edges", "edge_precision", "edge_recall", "edge_ap", "edge_roc", "cpu_seconds")

COLORS = {
    "full": "#d55e00", "grafting": "#009e73", "cfi-paper": "#0072b2", "cfi": "#cc79a7", "graph": "#667085",
}  # fmt: skip


def mean_and_error(values: Iterable[float]) -> tuple[float, float | None, int]:
    """Return the mean over seeds, its standard error (None for a single value), and the number of values.

    Examples
    --------
    >>> mean_and_error([1.0, 3.0, math.nan])
    (2.0, 1.0, 2)
    """
    kept = np.array([value for value in values if not math.isnan(value)])
    if not len(kept):
        return math.nan, None, 0
    error = float(kept.std(ddof=1) / np.sqrt(len(kept))) if len(kept) > 1 else None
    return float(kept.mean()), error, len(kept)


def draw_spreads(plan: Plan, progress: Callable[[str], None] | None = None) -> dict[str, dict[str, Spread]]:
    """Draw figures 1 and 4: signals and errors at the end of CFI, per figure and objective."""
    found: dict[str, dict[str, Spread]] = {"figure1": {}}
    for objective in plan.objectives:
        if progress is not None:
            progress(f"signals and errors, {objective}")
        run = Run("cfi-paper", objective, nodes=plan.size)
        network = made(run.nodes, run.seed, plan.settings)
        found["figure1"][objective] = _spread(run, plan, network.samples, network.field.states_)
        if "nations" in plan.real:
            run = Run("cfi-paper", objective, data="nations")
            found.setdefault("figure4", {})[objective] = _spread(run, plan, load_real("nations"), None)
    return found


def write_figures(
    plan: Plan, results: Results, spreads: dict[str, dict[str, Spread]], folder: Path, *, png: bool = False
) -> list[Path]:
    """Write figure1 to figure4 as SVG (and PNG) and CSV, and structure.csv; return the files."""
    subtitles = _subtitles(plan)
    drawn = {
        name: draw_histograms(TITLES[name], _histograms(part), subtitle=subtitles[name])
        for name, part in spreads.items()
    }
    for name, panels in (("figure2", _over_thresholds(plan, results)), ("figure3", _over_sizes(plan, results))):
        drawn[name] = draw_panels(TITLES[name], panels, subtitle=subtitles[name])
    tables = {name: _spread_rows(part) for name, part in spreads.items()}
    tables |= {"figure2": threshold_rows(plan, results), "figure3": size_rows(plan, results)}
    tables["structure"] = structure_table(plan, results)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, rows in sorted(tables.items()):
        for kind in ("svg", "png") if png else ("svg",):
            if name in drawn:
                files.append(folder / f"{name}.{kind}")
                save_figure(drawn[name], files[-1])
        files.append(folder / f"{name}.csv")
        write_atomically(files[-1], _as_csv(rows).encode("utf-8"))
    return files


def structure_table(plan: Plan, results: Results) -> list[Row]:
    """Return a row per size, method and objective of the fits to complete tables, with means and standard errors."""
    rows = []
    for nodes in plan.nodes:
        for method, objective in plan.structure_methods():
            runs = [Run(method, objective, nodes=nodes, seed=s, complete=True) for s in range(plan.seeds)]
            row: Row = {"nodes": nodes, "method": (METHODS | NODEWISE)[method], "objective": objective}
            rows.append(row | _means(results, runs, STRUCTURE))
    return rows


TITLES = {
    "figure1": "Figure 1: signals and errors",
    "figure2": "Figure 2: CFI over its thresholds",
    "figure3": "Figure 3: methods over the size of the network",
    "figure4": "Figure 4: signals and errors, Nation",
}


def _subtitles(plan: Plan) -> dict[str, str]:
    own = plan.settings
    setting = f"l1 = {own.l1:g}, l2 = {own.l2:g}, {own.rows} rows, {own.folds} folds, {plan.seeds} networks"
    return {
        "figure1": f"N = {plan.size}, one network, CFI at its end; states of all rows",
        "figure2": f"N = {plan.size}, {setting}; lines across: Grafting; 0 has no place on a logarithmic axis",
        "figure3": setting,
        "figure4": "CFI at its end; states of all nations and pairs",
    }


def _spread(run: Run, plan: Plan, table: Any, states: Any) -> Spread:
    estimator = estimator_of(run, plan.settings)
    estimator.fit(table, **({} if states is None else {"states": states}))
    return spread_of(estimator, table)


def _over_thresholds(plan: Plan, results: Results) -> list[Panel]:
    panels = []
    for measure, (title, unit, powers) in MEASURES.items():
        curves, levels = [], []
        for objective in plan.objectives:
            dashed = objective != plan.objectives[0]
            points = []
            for threshold in plan.thresholds:
                runs = [plan.over_thresholds(objective, threshold, seed) for seed in range(plan.seeds)]
                points.append(_point(threshold, results, runs, measure))
            curves.append(Curve(f"CFI, {objective}", points, COLORS["cfi-paper"], dashed))
            beside = [plan.run("grafting", objective, seed=seed) for seed in range(plan.seeds)]
            mean, error, _ = mean_and_error(results.mean(run, measure) for run in beside)
            levels.append(Level(f"Grafting, {objective}", mean, COLORS["grafting"], error, dashed))
        panels.append(Panel(title, "threshold", unit, curves, levels, log_y=powers))
    return panels


def _over_sizes(plan: Plan, results: Results) -> list[Panel]:
    panels = []
    for measure, (title, unit, powers) in MEASURES.items():
        curves = []
        for objective in plan.objectives:
            for method, name in METHODS.items():
                points = []
                for nodes in plan.nodes:
                    runs = [plan.over_sizes(method, objective, nodes, seed) for seed in range(plan.seeds)]
                    points.append(_point(nodes, results, runs, measure))
                dashed = objective != plan.objectives[0]
                curves.append(Curve(f"{name}, {objective}", points, COLORS[method], dashed))
        panels.append(Panel(title, "nodes", unit, curves, log_x=True, log_y=powers))
    return panels


def _histograms(spreads: dict[str, Spread]) -> list[HistogramPanel]:
    return [
        HistogramPanel(
            what,
            what.removesuffix("s"),
            [Histogram(o, s.edges.tolist(), getattr(s, what).tolist()) for o, s in spreads.items()],
        )
        for what in ("signals", "errors")
    ]


def _point(x: float, results: Results, runs: Sequence[Run], measure: str) -> Point:
    mean, error, _ = mean_and_error(results.mean(run, measure) for run in runs)
    return Point(x, mean, error)


def threshold_rows(plan: Plan, results: Results) -> list[Row]:
    """Return figure 2 in numbers: means and standard errors over seeds, Grafting last."""
    rows = []
    for objective in plan.objectives:
        for threshold in plan.thresholds:
            runs = [plan.over_thresholds(objective, threshold, seed) for seed in range(plan.seeds)]
            row: Row = {"method": "CFI", "objective": objective, "threshold": threshold}
            rows.append(row | _means(results, runs, MEASURES))
        runs = [plan.run("grafting", objective, seed=seed) for seed in range(plan.seeds)]
        rows.append({"method": "Grafting", "objective": objective, "threshold": ""} | _means(results, runs, MEASURES))
    return rows


def size_rows(plan: Plan, results: Results) -> list[Row]:
    """Return figure 3 in numbers."""
    rows = []
    for objective in plan.objectives:
        for method, name in METHODS.items():
            for nodes in plan.nodes:
                runs = [plan.over_sizes(method, objective, nodes, seed) for seed in range(plan.seeds)]
                row: Row = {"method": name, "objective": objective, "nodes": nodes}
                rows.append(row | _means(results, runs, MEASURES))
    return rows


def _spread_rows(spreads: dict[str, Spread]) -> list[Row]:
    return [
        {"objective": o, "from": s.edges[k], "to": s.edges[k + 1], "signals": int(s.signals[k]), "errors": int(e)}
        for o, s in spreads.items()
        for k, e in enumerate(s.errors)
    ]


def _means(results: Results, runs: Sequence[Run], measures: Iterable[str]) -> Row:
    row: Row = {"seeds": len(runs)}
    for measure in measures:
        mean, error, count = mean_and_error(results.mean(run, measure) for run in runs)
        row |= {measure: mean if count else None, f"{measure}_se": error}
    return row


def _as_csv(rows: Sequence[Row]) -> str:
    """Return rows as CSV, with six digits of measured numbers."""
    return as_csv([{k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows])
