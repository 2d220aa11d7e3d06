"""Charts place values, error bars and bins by their values, and texts in them are escaped."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsefield.app.pages.charts import (
    Curve,
    CurvePoint,
    HistogramPanel,
    LinePanel,
    VerticalLine,
    draw_panels,
)

SVG = "{http://www.w3.org/2000/svg}"


def draw(*panels: LinePanel, **more: str) -> ElementTree.Element:
    return ElementTree.fromstring(draw_panels("t", panels, **more))  # type: ignore[arg-type]


def panel(*curves: Curve, **more: object) -> LinePanel:
    return LinePanel("p", "x", "y", curves, **more)  # type: ignore[arg-type]


def of_class(picture: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [node for node in picture.iter() if node.get("class") == name]


def points(picture: ElementTree.Element) -> list[tuple[float, float]]:
    return [(float(node.attrib["cx"]), float(node.attrib["cy"])) for node in of_class(picture, "point")]


def hints(picture: ElementTree.Element) -> list[str | None]:
    return [node.text for node in picture.iter(f"{SVG}title")]


def texts(picture: ElementTree.Element) -> list[str]:
    return ["".join(node.itertext()) for node in picture.iter(f"{SVG}text")]


@pytest.mark.parametrize("log_x", [False, True])
def test_larger_values_are_further_right_and_higher(log_x: bool) -> None:
    values = [(100, 30.0), (25, 1.0), (50, 2.0), (1000, 31.0)]
    found = points(draw(panel(Curve("a", [CurvePoint(x, y) for x, y in values]), log_x=log_x)))
    assert len(found) == 4
    assert all(b[0] > a[0] and b[1] < a[1] for a, b in pairwise(found))


def test_positions_are_proportional_to_values() -> None:
    low, middle, high = (y for _, y in points(draw(panel(Curve("a", [CurvePoint(k, 2.0**k) for k in range(3)])))))
    assert (low - high) / (low - middle) == pytest.approx(3.0, abs=0.01)


def test_error_bars_end_one_error_from_the_mean() -> None:
    picture = draw(panel(Curve("a", [CurvePoint(1, 5.0, 2.0), CurvePoint(2, 3.0), CurvePoint(3, 7.0)])))
    found = dict(zip((5.0, 3.0, 7.0), points(picture), strict=True))
    (bar,) = of_class(picture, "bar")
    x, low, high = (float(value) for value in re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)", bar.attrib["d"])[0])
    assert x == pytest.approx(found[5.0][0])
    assert low == pytest.approx(found[3.0][1], abs=0.02)
    assert high == pytest.approx(found[7.0][1], abs=0.02)


def test_values_that_cannot_be_drawn_are_omitted() -> None:
    values = [CurvePoint(1, 1.0), CurvePoint(2, math.nan), CurvePoint(3, math.inf), CurvePoint(math.nan, 1.0)]
    assert hints(draw(panel(Curve("a", values)))) == ["a: 1, 1"]
    assert hints(draw(panel(Curve("a", [CurvePoint(0, 1.0), CurvePoint(2, 3.0)]), log_x=True))) == ["a: 2, 3"]
    odd = Curve("a", [CurvePoint(1, 1.0, error) for error in (math.nan, math.inf, -1.0, 0.0)])
    assert of_class(draw(panel(odd)), "bar") == []


def test_hints_have_name_x_mean_and_error() -> None:
    assert hints(draw(panel(Curve("CFI", [CurvePoint(25, 0.83124, 0.00412)])))) == ["CFI: 25, 0.8312 ± 0.0041"]


def test_vertical_lines_off_a_logarithmic_axis_are_omitted() -> None:
    curve = Curve("field", [CurvePoint(1.0, 2.0), CurvePoint(10.0, 3.0)])
    one = panel(curve, log_x=True, lines=[VerticalLine("selected", 0.0), VerticalLine("best", 3.0)])
    assert len(of_class(draw(one), "vertical-line")) == 1


@pytest.mark.parametrize(
    "empty", [panel(), panel(Curve("a", [])), panel(Curve("a", [CurvePoint(-1, 2.0)]), log_x=True)]
)
def test_a_panel_without_values_says_so(empty: LinePanel) -> None:
    assert "no values" in texts(draw(empty))
    assert "no values" not in texts(draw(panel(Curve("a", [CurvePoint(1, 2.0)]))))


def test_one_value_has_its_x_as_the_only_tick() -> None:
    assert texts(draw(panel(Curve("a", [CurvePoint(37, 4.0)])))).count("37") == 1


def test_a_few_values_on_a_logarithmic_axis_are_the_ticks() -> None:
    sizes = (25, 50, 100, 200, 500, 1000)
    curve = Curve("a", [CurvePoint(x, x) for x in sizes])
    assert {f"{x:,}" for x in sizes} <= set(texts(draw(panel(curve, log_x=True))))


def test_the_legend_has_every_name_once() -> None:
    picture = draw(panel(Curve("a", []), Curve("b", [])), panel(Curve("a", []), lines=[VerticalLine("l", 1.0)]))
    assert [texts(picture).count(name) for name in "abl"] == [1, 1, 1]


def test_any_text_is_escaped_and_long_texts_are_cut() -> None:
    odd = """<b>&"'</b></script>"""
    long = "a name that does not end " * 20
    strange = LinePanel(odd, odd, odd, [Curve(odd, [CurvePoint(1, 1.0)]), Curve(long, [CurvePoint(1, 2.0)])])
    picture = draw(strange, subtitle=odd)
    assert texts(picture).count(odd) == 5
    assert long in hints(picture)
    shown = [node for node in picture.iter(f"{SVG}text") if node.find(f"{SVG}title") is not None]
    assert [node.find(f"{SVG}title").tail.count("…") for node in shown] == [1]  # type: ignore[union-attr]


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(
    curves=st.lists(st.lists(st.tuples(finite, finite, st.none() | finite), max_size=5), max_size=4),
    log_x=st.booleans(),
)
def test_any_finite_values_are_within_the_panel(
    curves: list[list[tuple[float, float, float | None]]], log_x: bool
) -> None:
    drawn = [Curve(f"c{k}", [CurvePoint(*values) for values in curve]) for k, curve in enumerate(curves)]
    picture = draw(panel(*drawn, log_x=log_x))
    width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
    found = points(picture)
    assert len(found) == sum(point.x > 0 or not log_x for curve in drawn for point in curve.points)
    assert all(60 <= y <= height - 50 and 40 <= x <= width - 36 for x, y in found)
    for bar in of_class(picture, "bar"):
        _, low, high = re.findall(r"M(\S+) (\S+?)V([\d.-]+)", bar.attrib["d"])[0]
        assert 60 <= float(high) <= float(low) <= height - 50


def test_bins_are_as_high_as_the_logarithms_of_their_counts() -> None:
    one = HistogramPanel("Signals", "signal", [-1, -0.5, 0, 0.5, 1], [1, 10, 100, 0])
    picture = ElementTree.fromstring(draw_panels("t", [one]))
    (outline,) = of_class(picture, "outline")
    low, middle, high = (float(value) for value in re.findall(r"V([\d.]+)H", outline.attrib["d"]))
    assert (low - high) / (low - middle) == pytest.approx(2.0, rel=0.02)
    assert {"−1.0", "−0.5", "0", "0.5", "1.0"} <= set(texts(picture))  # noqa: RUF001
    assert hints(picture)[0] == "−1 to −0.5: 1"  # noqa: RUF001


def test_a_marked_value_is_a_line_among_the_bins() -> None:
    one = HistogramPanel("p", "x", [0, 1, 2], [3, 2], mark=VerticalLine("observed", 1.0))
    picture = ElementTree.fromstring(draw_panels("t", [one]))
    (line,) = of_class(picture, "vertical-line")
    edges = [float(rect.attrib["x"]) for rect in of_class(picture, "bin")]
    assert float(line.attrib["x1"]) == pytest.approx(edges[1], abs=0.02)
    assert hints(picture)[-1] == "observed: 1"


def test_an_empty_bin_divides_the_outline() -> None:
    one = HistogramPanel("p", "x", [0, 1, 2, 3, 4], [3, 0, 0, 2])
    (outline,) = of_class(ElementTree.fromstring(draw_panels("t", [one])), "outline")
    assert outline.attrib["d"].count("M") == 2


def test_histograms_without_counts_say_so() -> None:
    picture = draw_panels("t", [HistogramPanel("p", "x", [0, 1], [0])])
    assert "no values" in texts(ElementTree.fromstring(picture))
