"""Panels show every value that has a place, at its place, and say so where there is none."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.charts import COLORS
from reproduction.panels import (
    Curve,
    Histogram,
    HistogramPanel,
    Level,
    Panel,
    Spot,
    choose_looks,
    draw_histograms,
    draw_panels,
)
from sparsefield.viz.axes import fit_scale, tell, tell_mean

SVG = "{http://www.w3.org/2000/svg}"


def draw(*panels: Panel, **more: str) -> ElementTree.Element:
    return ElementTree.fromstring(draw_panels("t", panels, **more))  # type: ignore[arg-type]


def panel(*curves: Curve, **more: object) -> Panel:
    return Panel("p", "x", "y", curves, **more)  # type: ignore[arg-type]


def of_class(picture: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [node for node in picture.iter() if node.get("class") == name]


def spots(picture: ElementTree.Element) -> list[tuple[float, float]]:
    found = [re.findall(r"-?[\d.]+", node.attrib["transform"]) for node in of_class(picture, "spot")]
    return [(float(x), float(y)) for x, y in found]


def hints(picture: ElementTree.Element) -> list[str | None]:
    return [node.text for node in picture.iter(f"{SVG}title")]


def words(picture: ElementTree.Element) -> list[str]:
    return ["".join(node.itertext()) for node in picture.iter(f"{SVG}text")]


@pytest.mark.parametrize("log_x", [False, True])
@pytest.mark.parametrize("log_y", [False, True])
def test_larger_values_stand_further_right_and_higher(log_x: bool, log_y: bool) -> None:
    values = [(100, 30.0), (25, 1.0), (50, 2.0), (1000, 31.0)]
    places = spots(draw(panel(Curve("a", [Spot(x, y) for x, y in values]), log_x=log_x, log_y=log_y)))
    assert len(places) == 4
    assert all(b[0] > a[0] and b[1] < a[1] for a, b in pairwise(places))


def test_places_are_proportional_to_values_or_to_their_logarithms() -> None:
    for log_y, values in ((False, [1.0, 2.0, 4.0]), (True, [1.0, 10.0, 1000.0])):
        heights = [
            y for _, y in spots(draw(panel(Curve("a", [Spot(x, y) for x, y in enumerate(values)]), log_y=log_y)))
        ]
        assert (heights[0] - heights[2]) / (heights[0] - heights[1]) == pytest.approx(3.0, abs=0.01)


def test_error_bars_end_one_error_from_the_mean() -> None:
    picture = draw(panel(Curve("a", [Spot(1, 5.0, 2.0), Spot(2, 3.0), Spot(3, 7.0)])))
    places = dict(zip((5.0, 3.0, 7.0), spots(picture), strict=True))
    (bar,) = of_class(picture, "bar")
    x, low, high = (float(value) for value in re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)", bar.attrib["d"])[0])
    assert x == pytest.approx(places[5.0][0])
    assert low == pytest.approx(places[3.0][1], abs=0.02)
    assert high == pytest.approx(places[7.0][1], abs=0.02)
    assert bar.attrib["d"].count("h5.2") == 2


def test_an_error_bar_that_leaves_a_logarithmic_axis_ends_at_the_floor_without_a_cap() -> None:
    picture = draw(panel(Curve("a", [Spot(1, 2.0, 3.0), Spot(2, 1.0)]), log_y=True))
    (bar,) = of_class(picture, "bar")
    floor = max(float(node.attrib["y1"]) for node in picture.iter(f"{SVG}line") if node.get("y1") == node.get("y2"))
    assert float(re.findall(r" ([\d.]+)V", bar.attrib["d"])[0]) == pytest.approx(floor)
    assert bar.attrib["d"].count("h5.2") == 1


def test_values_without_a_place_are_left_out() -> None:
    values = [Spot(1, 1.0), Spot(2, math.nan), Spot(3, math.inf), Spot(4, None), Spot(math.nan, 1.0), Spot(5, -1.0)]  # type: ignore[arg-type]
    assert hints(draw(panel(Curve("a", values)))) == ["a: 1, 1", "a: 5, −1"]  # noqa: RUF001
    assert hints(draw(panel(Curve("a", values), log_y=True))) == ["a: 1, 1"]
    assert hints(draw(panel(Curve("a", [Spot(0, 1.0), Spot(2, 3.0)]), log_x=True))) == ["a: 2, 3"]
    assert (
        of_class(draw(panel(Curve("a", [Spot(1, 1.0, error) for error in (math.nan, math.inf, -1.0, 0.0)]))), "bar")
        == []
    )


def test_hints_tell_name_place_mean_and_error() -> None:
    assert hints(draw(panel(Curve("CFI", [Spot(25, 0.83124, 0.00412)])))) == ["CFI: 25, 0.8312 ± 0.0041"]


@pytest.mark.parametrize("empty", [panel(), panel(Curve("a", [])), panel(Curve("a", [Spot(1, -2.0)]), log_y=True)])
def test_a_panel_without_values_says_so(empty: Panel) -> None:
    assert "no values" in words(draw(empty))
    assert "no values" not in words(draw(panel(Curve("a", [Spot(1, 2.0)]))))


def test_no_panels_make_an_empty_card() -> None:
    assert spots(draw()) == []


def test_one_value_has_its_x_as_the_only_tick() -> None:
    picture = draw(panel(Curve("a", [Spot(37, 4.0)])))
    assert len(spots(picture)) == 1
    assert words(picture).count("37") == 1


def test_a_few_values_on_a_logarithmic_axis_are_ticks_themselves() -> None:
    sizes = (25, 50, 100, 200, 500, 1000)
    assert {f"{x:,}" for x in sizes} <= set(words(draw(panel(Curve("a", [Spot(x, x) for x in sizes]), log_x=True))))


def test_curves_at_the_same_x_stand_beside_each_other_and_keep_the_order_of_x() -> None:
    curves = [Curve(f"c{k}", [Spot(x, 1.0, 0.5) for x in range(9)]) for k in range(8)]
    places = [x for x, _ in spots(draw(panel(*curves)))]
    assert len(set(places)) == len(places)
    by_curve = [places[9 * k : 9 * k + 9] for k in range(8)]
    assert all(max(xs) < min(after) for xs, after in pairwise(zip(*by_curve, strict=True)))


def test_a_level_is_a_line_with_a_band_of_its_error() -> None:
    curve = Curve("a", [Spot(1, 1.0), Spot(2, 3.0), Spot(3, 2.0)])
    picture = draw(panel(curve, levels=[Level("base", 2.0, 1.0), Level("bare", 2.5, dashed=True)]))
    one, three, two = (y for _, y in spots(picture))
    line, dashed = of_class(picture, "level")
    (band,) = of_class(picture, "band")
    assert float(line.attrib["y1"]) == float(line.attrib["y2"]) == pytest.approx(two, abs=0.02)
    assert float(band.attrib["y"]) == pytest.approx(three, abs=0.02)
    assert float(band.attrib["y"]) + float(band.attrib["height"]) == pytest.approx(one, abs=0.03)
    assert "stroke-dasharray" in dashed.attrib
    assert "base: 2 ± 1" in hints(picture)


def test_names_share_color_and_form_up_to_the_first_comma_or_bracket() -> None:
    curves = [Curve(name, []) for name in ("CFI, pl", "Full-L1 (pl)", "CFI, cd", "Full-L1 (cd)")]
    looks = choose_looks([panel(*curves, levels=[Level("CFI: before", 1.0)])])
    assert [look.color for look in looks.values()] == [COLORS[k] for k in (0, 1, 0, 1, 0)]
    assert looks["CFI, pl"].mark == looks["CFI, cd"].mark != looks["Full-L1 (pl)"].mark


def test_a_name_looks_the_same_in_every_panel() -> None:
    looks = choose_looks(
        [panel(Curve("a", []), Curve("b", [])), panel(Curve("b", []), Curve("c", [], color="#123456"))]
    )
    assert [look.color for look in looks.values()] == [COLORS[0], COLORS[1], "#123456"]


def test_more_names_than_colors_differ_in_form() -> None:
    looks = choose_looks([panel(*(Curve(f"c{k}", []) for k in range(30)))])
    assert len({(look.color, look.mark) for look in looks.values()}) == 30


def test_the_key_has_every_name_once() -> None:
    picture = draw(panel(Curve("a", []), Curve("b", [], dashed=True)), panel(Curve("a", []), levels=[Level("l", 1.0)]))
    assert [words(picture).count(name) for name in "abl"] == [1, 1, 1]


def test_any_words_are_safe_and_long_ones_are_cut() -> None:
    odd = """<b>&"'</b></script>"""
    long = "a name that does not end " * 20
    strange = Panel(odd, odd, odd, [Curve(odd, [Spot(1, 1.0)]), Curve(long, [Spot(1, 2.0)])])
    picture = draw(strange, words=odd)
    assert words(picture).count(odd) == 5
    assert long in hints(picture)
    shown = [node for node in picture.iter(f"{SVG}text") if node.find(f"{SVG}title") is not None]
    assert [node.find(f"{SVG}title").tail.endswith("…") for node in shown] == [True]  # type: ignore[union-attr]


def test_axes_are_tight_where_zero_is_far_and_start_at_zero_where_it_is_near() -> None:
    assert fit_scale([-0.42, -0.36], 0, 1).labels() == ["−0.42", "−0.40", "−0.38", "−0.36"]  # noqa: RUF001
    near = fit_scale([0.02, 0.2], 0, 1)
    assert near.low == 0.0
    assert near.labels() == ["0", "0.05", "0.10", "0.15", "0.20"]
    assert fit_scale([-5.0, -1.0], 0, 1).high == 0.0


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0.002, 40.0], ["0.01", "0.1", "1", "10"]),
        ([1.0, 130_000.0], ["10⁰", "10¹", "10²", "10³", "10⁴", "10⁵"]),
        ([250.0, 300.0], ["260", "280", "300"]),
        ([1.0], ["0.5", "1", "2"]),
        ([1.0e6, 1.5e6], ["10⁶", "1.2×10⁶", "1.4×10⁶"]),  # noqa: RUF001
        ([], ["1", "10"]),
    ],
)
def test_ticks_of_logarithmic_axes(values: list[float], labels: list[str]) -> None:
    assert fit_scale(values, 0, 1, logarithmic=True).labels() == labels


@pytest.mark.parametrize(
    ("value", "shown"),
    [(-0.123456, "−0.1235"), (499500.0, "499,500"), (2.0, "2"), (1e12, "1e+12")],  # noqa: RUF001
)
def test_values_are_told_in_few_digits(value: float, shown: str) -> None:
    assert tell(value) == shown
    assert tell_mean(value, 0.0123) == f"{shown} ± 0.012"


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(
    curves=st.lists(st.lists(st.tuples(finite, finite, st.none() | finite), max_size=5), max_size=4),
    level=finite,
    logs=st.tuples(st.booleans(), st.booleans()),
)
def test_any_finite_values_stand_within_the_panel(
    curves: list[list[tuple[float, float, float | None]]], level: float, logs: tuple[bool, bool]
) -> None:
    drawn = [Curve(f"c{k}", [Spot(*values) for values in curve]) for k, curve in enumerate(curves)]
    picture = draw(panel(*drawn, levels=[Level("l", level, 1.0)], log_x=logs[0], log_y=logs[1]))
    width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
    known = [s for c in drawn for s in c.spots if (s.x > 0 or not logs[0]) and (s.mean > 0 or not logs[1])]
    places = spots(picture)
    assert len(places) == len(known)
    assert all(60 <= y <= height - 50 and 40 <= x <= width - 36 for x, y in places)
    for bar in of_class(picture, "bar"):
        _, low, high = re.findall(r"M(\S+) (\S+?)V([\d.-]+)", bar.attrib["d"])[0]
        assert 60 <= float(high) <= float(low) <= height - 50
    for node in picture.iter(f"{SVG}line"):
        assert all(0 <= float(node.attrib[key]) <= max(width, height) for key in ("x1", "x2", "y1", "y2"))


@given(values=st.lists(finite, min_size=1, max_size=6), logarithmic=st.booleans())
def test_any_axis_has_ticks_in_order_between_its_ends(values: list[float], logarithmic: bool) -> None:
    scale = fit_scale([v for v in values if v > 0 or not logarithmic], 10.0, 110.0, logarithmic=logarithmic)
    assert 1 <= len(scale.ticks) <= 12
    assert len(scale.labels()) == len(scale.ticks)
    assert list(scale.ticks) == sorted(scale.ticks)
    assert all(10.0 <= scale.place(tick) <= 110.0 for tick in [*scale.ticks, *scale.minor])


def heights(outline: ElementTree.Element) -> list[float]:
    return [float(value) for value in re.findall(r"V([\d.]+)H", outline.attrib["d"])]


@pytest.mark.parametrize(("logarithmic", "ratio"), [(True, 2.0), (False, 11.0)])
def test_bins_are_as_high_as_their_counts(logarithmic: bool, ratio: float) -> None:
    one = HistogramPanel("Signals", "signal", [Histogram("pl", [-1, -0.5, 0, 0.5, 1], [1, 10, 100, 0])])
    picture = ElementTree.fromstring(draw_histograms("t", [one], logarithmic=logarithmic))
    (outline,) = of_class(picture, "outline")
    low, middle, high = heights(outline)
    assert (low - high) / (low - middle) == pytest.approx(ratio, rel=0.02)
    assert {"−1.0", "−0.5", "0", "0.5", "1.0"} <= set(words(picture))  # noqa: RUF001


def test_an_empty_bin_parts_the_outline() -> None:
    one = HistogramPanel("p", "x", [Histogram("pl", [0, 1, 2, 3, 4], [3, 0, math.nan, 2])])
    (outline,) = of_class(ElementTree.fromstring(draw_histograms("t", [one])), "outline")
    assert outline.attrib["d"].count("M") == 2
    assert len(heights(outline)) == 2


def test_bins_tell_the_counts_of_all_histograms() -> None:
    pair = [Histogram("pl", [-1, 0, 1], [3, 4]), Histogram("c<d", [-1, 0, 1], [5, 0])]
    text = draw_histograms("t", [HistogramPanel("p", "x", pair)])
    assert hints(ElementTree.fromstring(text)) == ["−1 to 0: pl: 3, c<d: 5", "0 to 1: pl: 4"]  # noqa: RUF001


def test_histograms_without_counts_say_so() -> None:
    empty = HistogramPanel("p", "x", [Histogram("pl", [0, 1], [math.nan])])
    assert "no values" in words(ElementTree.fromstring(draw_histograms("t", [empty, HistogramPanel("p", "x", [])])))


def test_edges_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="'pl': 2 counts need 3 edges, not 2"):
        Histogram("pl", [0, 1], [1, 2])
    with pytest.raises(ValueError, match="'pl': its edges must be finite and increase"):
        Histogram("pl", [0, 0], [1])
    with pytest.raises(ValueError, match="must be finite"):
        Histogram("pl", [0, math.inf], [1])
