"""Figures show every mean with its error, every histogram, and every dot."""

from __future__ import annotations

import math

import pytest

from reproduction.plots import (
    Curve,
    DotBoard,
    DotLine,
    Histogram,
    HistogramPanel,
    Level,
    Mark,
    Panel,
    Point,
    draw_dots,
    draw_histograms,
    draw_panels,
)

pytestmark = pytest.mark.usefixtures("matplotlib")


def legend_of(figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_curves_have_their_points_error_bars_and_one_legend() -> None:
    curve = Curve("CFI, pl", [Point(25, 1.0, 0.25), Point(50, 4.0), Point(100, math.nan)], "#0072b2")
    level = Level("Grafting, pl", 2.0, "#009e73", error=0.5)
    panels = [Panel(title, "nodes", "seconds", [curve], [level], log_x=True) for title in ("time", "error")]
    figure = draw_panels("Figure", panels)
    assert [axes.get_title() for axes in figure.axes] == ["time", "error"]
    assert legend_of(figure) == ["Grafting, pl", "CFI, pl"]
    axes = figure.axes[0]
    (container,) = axes.containers
    assert container.lines[0].get_xydata().tolist() == [[25, 1], [50, 4]]
    bars = container.lines[2][0].get_segments()
    assert bars[0][:, 1].tolist() == [0.75, 1.25]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["25", "50", "100"]


def test_a_level_or_point_that_has_no_logarithm_is_left_out() -> None:
    panel = Panel("t", "x", "y", [Curve("a", [Point(1, 0.0), Point(2, 3.0)], "k")], [Level("b", 0.0, "k")], log_y=True)
    (axes,) = draw_panels("t", [panel]).axes
    assert axes.containers[0].lines[0].get_xydata().tolist() == [[2, 3]]
    assert axes.get_legend_handles_labels()[1] == ["a"]


def test_histograms_have_their_counts() -> None:
    panels = [HistogramPanel("signals", "signal", [Histogram("pl", [-1, 0, 1], [3, 90])])]
    figure = draw_histograms("Figure", panels)
    assert figure.axes[0].patches[0].get_data().values.tolist() == [3, 90]
    assert legend_of(figure) == ["pl"]


def test_dots_stand_at_their_means_and_references_are_lines() -> None:
    lines = [DotLine("CFI", {"ap": (Mark(0.9, 0.1, "pl"), Mark(0.8, None, "cd"))}), DotLine("HIRM", {})]
    figure = draw_dots("Table", [DotBoard("Animal", lines, {"ap": 0.92})], {"ap": "AP", "cll": "CLL"})
    ap, cll = figure.axes
    assert [container.lines[0].get_xdata()[0] for container in ap.containers] == [0.9, 0.8]
    assert ap.lines[-1].get_xdata() == [0.92, 0.92]
    assert cll.containers == []
    assert [tick.get_text() for tick in ap.get_yticklabels()] == ["CFI", "HIRM"]
    assert legend_of(figure) == ["measured, pl", "measured, cd"]
