"""Figures that a reader can question: one HTML page with its data and a small script, nothing from the network."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

from reproduction.panels import (
    Histogram,
    HistogramPanel,
    Look,
    Panel,
    choose_looks,
    draw_histograms,
    draw_look,
    draw_panels,
)
from sparsefield.viz.axes import has_place
from sparsefield.viz.html_page import STYLE

__all__ = ["InteractiveFigure", "make_figures_page"]

LIVE_STYLE = """
.live h2 { font-size: 19px; margin: 12px 0 2px; } .live .words { color: #667085; font-size: 14px; margin: 0 0 8px; }
.key, .scales { display: flex; flex-wrap: wrap; gap: 6px; margin: 8px 0; align-items: center; font-size: 13.5px; }
.scales { color: #667085; font-size: 13px; }
button { font: inherit; color: inherit; background: #fff; border: 1px solid #e4e7ec; border-radius: 7px;
         cursor: pointer; padding: 3px 10px; display: inline-flex; align-items: center; gap: 7px; }
button:hover { border-color: #98a2b3; }
button:focus-visible, .panel svg:focus-visible { outline: 2px solid #0072b2; outline-offset: 2px; }
.key button[aria-pressed="false"] { opacity: 0.45; text-decoration: line-through; }
.scales button[aria-pressed="true"], .enlarge[aria-pressed="true"] { background: #eaf3f9; border-color: #0072b2;
         color: #0b4f77; }
figure .key svg { width: 26px; height: 14px; flex: none; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(var(--least), 100%), 1fr)); gap: 22px 20px;
        grid-auto-flow: dense;
        margin: 14px 0 8px; }
.panel { position: relative; } .panel svg { cursor: zoom-in; border-radius: 4px; }
.panel.large { grid-column: 1 / -1; } .panel.large svg { cursor: zoom-out; }
.enlarge { position: absolute; top: 0; right: 0; padding: 0 6px; font-size: 13px; line-height: 20px; color: #667085; }
.tip { position: absolute; z-index: 9; pointer-events: none; background: #fff; border: 1px solid #d0d5dd;
       border-radius: 8px; box-shadow: 0 6px 20px #1f243026; padding: 8px 12px; font-size: 13px; line-height: 1.5;
       max-width: min(380px, 92vw); font-variant-numeric: tabular-nums; }
.tip ul { list-style: none; margin: 2px 0 0; padding: 0; }
.tip li { display: flex; gap: 8px; align-items: center; margin: 0; white-space: nowrap; }
.tip li::before { content: ""; width: 8px; height: 8px; border-radius: 50%; flex: none; box-sizing: border-box;
                  background: var(--color); border: 2px solid var(--color); }
.tip li.hollow::before { background: #fff; } .tip li.nearest { font-weight: 700; }
.tip span { margin-right: auto; padding-right: 14px; overflow: hidden; text-overflow: ellipsis; }
"""


@dataclass(frozen=True)
class InteractiveFigure:
    """Panels with a title and the words below them.

    Attributes
    ----------
    title, caption : str
    panels : sequence of Panel, or of HistogramPanel
    words : str
        A smaller line below the title.
    columns : int or None
        How many panels of the still picture stand side by side.
    """

    title: str
    caption: str
    panels: Sequence[Panel] | Sequence[HistogramPanel]
    words: str = ""
    columns: int | None = None


def make_figures_page(title: str, lead: Sequence[str], figures: Sequence[InteractiveFigure], note: str = "") -> str:
    """An HTML document in which curves can be hidden, axes changed, values read off and panels enlarged.

    Where no script runs, the page shows the figures as still pictures.

    Parameters
    ----------
    title : str
    lead : sequence of str
        Sentences that come first, as a list.
    figures : sequence of InteractiveFigure
    note : str
        Stands below the figures.

    Examples
    --------
    >>> from reproduction.panels import Curve, Spot
    >>> panel = Panel("Time", "nodes", "seconds", [Curve("CFI", [Spot(25, 1.2, 0.1), Spot(50, 4.0)])])
    >>> page = make_figures_page("Figures", ["One."], [InteractiveFigure("Time", "Means.", [panel])])
    >>> page.count("<figure"), page.count('data-look="0"')
    (1, 1)
    """
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in lead)
    shown = "\n".join(_write_figure(k, figure) for k, figure in enumerate(figures))
    data = json.dumps([_gather(figure) for figure in figures], allow_nan=False).replace("<", "\\u003c")
    script = (files("sparsefield.viz") / "interactive.js").read_text(encoding="utf-8")
    below = f'<p class="note">{escape(note)}</p>' if note else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{escape(title)}</title><style>{STYLE}{LIVE_STYLE}</style></head>\n"
        f"<body><main><h1>{escape(title)}</h1><ul>{items}</ul>\n{shown}\n{below}</main>\n"
        f'<script type="application/json" id="figures-data">{data}</script>\n<script>{script}</script></body></html>\n'
    )


def _write_figure(number: int, figure: InteractiveFigure) -> str:
    looks = list(choose_looks(figure.panels).values())
    key = "".join(_write_button(f'data-look="{k}"', draw_look(look), look.name) for k, look in enumerate(looks))
    scales = "".join(
        _write_button(f'data-scale="{scale}"', "", words, pressed=scale == "own")
        for scale, words in (("own", "as in the figure"), ("linear", "linear"), ("log", "logarithmic"))
    )
    words = f'<p class="words">{escape(figure.words)}</p>' if figure.words else ""
    least = 330 if any(isinstance(panel, HistogramPanel) for panel in figure.panels) else 240
    return (
        f'<figure data-figure="{number}"><div class="static">{_draw_still(figure)}</div>'
        f'<div class="live card" hidden="hidden"><h2>{escape(figure.title)}</h2>{words}'
        f'<div class="key" role="group" aria-label="Show or hide">{key}</div>'
        f'<div class="scales" role="group" aria-label="Vertical axes">Vertical axes: {scales}</div>'
        f'<div class="grid" style="--least: {least}px"></div></div>'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
    )


def _write_button(attribute: str, picture: str, words: str, *, pressed: bool = True) -> str:
    state = "true" if pressed else "false"
    sample = f'<span aria-hidden="true">{picture}</span>' if picture else ""
    return f'<button type="button" {attribute} aria-pressed="{state}">{sample}{escape(words)}</button>'


def _draw_still(figure: InteractiveFigure) -> str:
    curves = [panel for panel in figure.panels if isinstance(panel, Panel)]
    histograms = [panel for panel in figure.panels if isinstance(panel, HistogramPanel)]
    if histograms:
        return draw_histograms(figure.title, histograms, words=figure.words, columns=figure.columns or 2)
    return draw_panels(figure.title, curves, words=figure.words, columns=figure.columns or 3)


def _gather(figure: InteractiveFigure) -> dict[str, Any]:
    """What the script draws: looks in the order of the key, and panels that name them by number."""
    looks = choose_looks(figure.panels)
    numbers = {name: k for k, name in enumerate(looks)}
    return {
        "looks": [_gather_look(look) for look in looks.values()],
        "panels": [
            _gather_histograms(panel, numbers) if isinstance(panel, HistogramPanel) else _gather_curves(panel, numbers)
            for panel in figure.panels
        ],
    }


def _gather_look(look: Look) -> dict[str, Any]:
    return {"name": look.name, "color": look.color, "mark": look.mark, "dashed": look.dashed}


def _gather_curves(panel: Panel, numbers: dict[str, int]) -> dict[str, Any]:
    """The spots in the order of x; those that no axis has a place for are left out."""
    curves = [
        {
            "look": numbers[curve.name],
            "spots": [
                {"x": float(spot.x), "mean": float(spot.mean), "error": _known(spot.error)}
                for spot in sorted(
                    (spot for spot in curve.spots if has_place(spot.x, panel.log_x) and has_place(spot.mean)),
                    key=lambda spot: spot.x,
                )
            ],
        }
        for curve in panel.curves
    ]
    levels = [
        {"look": numbers[level.name], "mean": float(level.mean), "error": _known(level.error)}
        for level in panel.levels
        if has_place(level.mean)
    ]
    words = {"title": panel.title, "xLabel": panel.x_label, "yLabel": panel.y_label}
    return {**words, "logX": panel.log_x, "logY": panel.log_y, "curves": curves, "levels": levels, "histograms": []}


def _gather_histograms(panel: HistogramPanel, numbers: dict[str, int]) -> dict[str, Any]:
    words = {"title": panel.title, "xLabel": panel.x_label, "yLabel": "count"}
    shown = [_gather_histogram(one, numbers[one.name]) for one in panel.histograms]
    return {**words, "logX": False, "logY": True, "curves": [], "levels": [], "histograms": shown}


def _gather_histogram(one: Histogram, look: int) -> dict[str, Any]:
    counts = [_known(count) or 0.0 for count in one.counts]
    return {"look": look, "edges": [float(edge) for edge in one.edges], "counts": counts}


def _known(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
