"""Charts show every value that can be drawn."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.charts import Bar, ChartsUnavailableError, Series, draw_bars, draw_lines, save_figure


def words_of(figure) -> set[str]:
    """Return all text of a figure."""
    out = io.StringIO()
    figure.savefig(out, format="svg")
    return {text.strip() for text in ElementTree.fromstring(out.getvalue()).itertext() if text.strip()}


def points_of(axes) -> list[tuple[float, float]]:
    """Return the points that have a marker."""
    return [(x, y) for line in axes.lines if line.get_marker() == "o" for x, y in zip(*line.get_data(), strict=True)]


@pytest.mark.usefixtures("matplotlib")
def test_a_chart_has_a_marker_per_point_and_a_legend_entry_per_series() -> None:
    lines = [Series("ours <1>", [(100, 2.0), (10, 1.0)]), Series("theirs", [(10, 5.0)], projected=[(100, 500.0)])]
    figure = draw_lines("Time & size", lines, x_label="columns", y_label="seconds", subtitle="on one core")
    assert points_of(figure.axes[0]) == [(10, 1), (100, 2), (10, 5), (100, 500)]
    expected = {"Time & size", "columns", "seconds", "on one core", "ours <1>", "theirs", "projected, not run"}
    assert expected <= words_of(figure)


@pytest.mark.usefixtures("matplotlib")
@pytest.mark.parametrize(("logarithmic", "drawn"), [(True, [(10, 1)]), (False, [(10, 1), (30, 0)])])
def test_points_that_cannot_be_drawn_are_left_out(logarithmic: bool, drawn: list[tuple[float, float]]) -> None:
    points = [(10, 1.0), (20, None), (30, 0.0), (40, float("nan"))]
    figure = draw_lines("t", [Series("a", points)], x_label="x", y_label="y", logarithmic=logarithmic)
    assert points_of(figure.axes[0]) == drawn
    assert points_of(draw_lines("t", [], x_label="x", y_label="y").axes[0]) == []


@pytest.mark.usefixtures("matplotlib")
def test_bars_are_as_long_as_their_values() -> None:
    bars = [Bar("a", 4.0, part=1.0), Bar("b", 2.0), Bar("c", 0.0, note="cut off")]
    figure = draw_bars("t", bars, label="seconds", part_label="scoring")
    assert [patch.get_width() for patch in figure.axes[0].patches] == [4.0, 1.0, 2.0, 0.0, 0.0]
    assert {"a", "b", "c", "4", "2", "cut off", "seconds", "scoring"} <= words_of(figure)


@pytest.mark.usefixtures("matplotlib")
def test_the_same_chart_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_figure(draw_bars("t", [Bar("x", 1.0)], label="seconds"), tmp_path / "new" / f"{name}.svg")
    assert (tmp_path / "new" / "a.svg").read_bytes() == (tmp_path / "new" / "b.svg").read_bytes()


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ChartsUnavailableError, match=r"sparsefield\[bench\]"):
        draw_bars("t", [], label="seconds")
