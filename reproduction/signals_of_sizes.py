"""This module draws figure 1, signals and errors, for networks of several sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.charts import save_figure
from benchmarks.csv_text import as_csv
from reproduction.plan import Plan
from reproduction.plots import Histogram, HistogramPanel, draw_histograms
from reproduction.printed import PrintedOptions, as_printed
from reproduction.runs import THRESHOLD, Run, estimator_of, made
from reproduction.signals import Spread, share_looked_at, spread_of
from sparsefield.atomic_write import write_atomically

__all__ = ["SizeSpread", "rows_of_sizes", "write_signals"]


@dataclass(frozen=True)
class SizeSpread:
    """Signals and errors at the end of CFI on one network; shares are of those below the paper's threshold of 0.2."""

    nodes: int
    objective: str
    spread: Spread
    looked_at: float
    """Share of the products of a signal and an error of which both are beyond the threshold."""

    @property
    def small_signals(self) -> float:
        return _share_below(self.spread, self.spread.signals)

    @property
    def small_errors(self) -> float:
        return _share_below(self.spread, self.spread.errors)


def rows_of_sizes(plan: Plan, tolerance: float, progress: Callable[[str], None]) -> list[SizeSpread]:
    """Fit CFI to the complete table of one network of each size: as printed, or with tolerance 0 to convergence."""
    found = []
    for nodes in plan.nodes:
        for objective in plan.objectives:
            progress(f"N = {nodes}, {objective}")
            network = made(nodes, 0, plan.settings)
            estimator = estimator_of(Run("cfi-paper", objective, nodes=nodes), plan.settings, network)
            if tolerance:
                estimator = as_printed(estimator, PrintedOptions((tolerance,)))
            estimator.fit(network.samples, states=network.field.states_)
            spread = spread_of(estimator, network.samples)
            looked_at = share_looked_at(estimator, network.samples, THRESHOLD)
            found.append(SizeSpread(nodes, objective, spread, looked_at))
    return found


def write_signals(found: Sequence[SizeSpread], tolerance: float, folder: Path, *, png: bool = False) -> list[Path]:
    """Write figure1-sizes as SVG (and PNG) and CSV: shares of all states, so that sizes can be compared."""
    panels = []
    for objective in dict.fromkeys(one.objective for one in found):
        for what in ("signals", "errors"):
            own = [one for one in found if one.objective == objective]
            drawn = [Histogram(f"N = {one.nodes}", one.spread.edges.tolist(), _shares(one, what)) for one in own]
            panels.append(HistogramPanel(f"{what}, {objective}", what.removesuffix("s"), drawn, "share"))
    how = f"as printed, tolerance {tolerance:g}" if tolerance else "to near convergence"
    figure = draw_histograms("Figure 1 over the size of the network", panels, subtitle=f"one network each, CFI {how}")
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for kind in ("svg", "png") if png else ("svg",):
        files.append(folder / f"figure1-sizes.{kind}")
        save_figure(figure, files[-1])
    rows = [
        {"nodes": one.nodes, "objective": one.objective, "from": f"{low:.3g}", "to": f"{high:.3g}", "signals": int(s),
         "errors": int(e)}
        for one in found
        for low, high, s, e in zip(
            one.spread.edges, one.spread.edges[1:], one.spread.signals, one.spread.errors, strict=False
        )
    ]  # fmt: skip
    files.append(folder / "figure1-sizes.csv")
    write_atomically(files[-1], as_csv(rows).encode("utf-8"))
    return files


def _shares(one: SizeSpread, what: str) -> list[float]:
    counts = getattr(one.spread, what)
    return (counts / counts.sum()).tolist()


def _share_below(spread: Spread, counts: np.ndarray) -> float:
    middle = 0.5 * (spread.edges[1:] + spread.edges[:-1])
    return float(counts[np.abs(middle) < THRESHOLD].sum() / counts.sum())
