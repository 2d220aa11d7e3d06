"""Charts show every point that has a place, at its place."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from benchmarks.charts import Bar, Series, _Axis, _number, draw_bars, draw_lines

SVG = "{http://www.w3.org/2000/svg}"


def test_decades_are_ticks_and_stand_at_even_distances() -> None:
    axis = _Axis([1.0, 20.0, 1000.0], 0.0, 100.0, True)
    assert axis.ticks == [1.0, 10.0, 100.0, 1000.0]
    places = [axis.place(tick) for tick in axis.ticks]
    steps = [b - a for a, b in pairwise(places)]
    assert steps == pytest.approx([steps[0]] * 3)
    assert 0.0 < places[0] < places[-1] < 100.0


def test_a_narrow_range_has_ticks_between_decades() -> None:
    assert _Axis([3.0, 30.0], 0.0, 1.0, True).ticks == [5.0, 10.0, 20.0]


def test_a_linear_axis_starts_at_nothing() -> None:
    axis = _Axis([2.0, 9.0], 10.0, 110.0, False)
    assert axis.place(0.0) == 10.0
    assert axis.ticks == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_a_chart_has_a_mark_per_point_and_a_key_per_series() -> None:
    lines = [Series("ours <1>", [(100, 2.0), (10, 1.0)]), Series("theirs", [(10, 5.0)], hollow=[(100, 500.0)])]
    text = draw_lines("Time & size", lines, x_label="columns", y_label="seconds", words="on one core")
    picture = ElementTree.fromstring(text)
    hints = [title.text for title in picture.iter(f"{SVG}title")]
    assert hints == ["ours <1>: 10, 1", "ours <1>: 100, 2", "theirs: 10, 5", "theirs: 100, 500"]
    words = [node.text for node in picture.iter(f"{SVG}text")]
    for expected in ("Time & size", "columns", "seconds", "on one core", "ours <1>", "theirs", "projected, not run"):
        assert expected in words
    assert len(list(picture.iter(f"{SVG}path"))) == 2


def test_higher_values_stand_higher() -> None:
    text = draw_lines("t", [Series("a", [(1, 1.0), (10, 100.0)])], x_label="x", y_label="y")
    marks = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)".*?<title>', text)
    (x1, y1), (x2, y2) = [(float(x), float(y)) for x, y in marks]
    assert x2 > x1
    assert y2 < y1


def test_points_without_a_place_are_left_out() -> None:
    points = [(10, 1.0), (20, None), (30, 0.0), (40, float("nan"))]
    assert draw_lines("t", [Series("a", points)], x_label="x", y_label="y").count("<title>") == 1
    assert draw_lines("t", [Series("a", points)], x_label="x", y_label="y", logarithmic=False).count("<title>") == 2
    assert draw_lines("t", [], x_label="x", y_label="y").count("<title>") == 0


def test_bars_are_as_long_as_their_values() -> None:
    text = draw_bars("t", [Bar("a", 4.0, part=1.0), Bar("b", 2.0), Bar("c", 0.0, note="cut off")], label="seconds")
    assert "cut off" in text
    widths = [float(w) for w in re.findall(r'<rect x="270" y="[\d.]+" width="([\d.]+)"', text)]
    assert widths[0] == pytest.approx(2 * widths[2], abs=0.02)
    assert widths[0] == pytest.approx(4 * widths[1], abs=0.04)


@pytest.mark.parametrize(("value", "shown"), [(1e6, "1,000,000"), (1.0, "1"), (0.01, "0.01"), (2.5, "2.5")])
def test_numbers_are_plain(value: float, shown: str) -> None:
    assert _number(value) == shown
