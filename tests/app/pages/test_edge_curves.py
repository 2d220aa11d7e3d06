"""Edges bend around circles of other columns, and weights have room of their own."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField, plot_network
from sparsefield.app.pages.edge_curves import EdgeCurve, bend_around, bend_line, place_weights
from sparsefield.app.pages.network_plot import NetworkPlot
from sparsefield.app.pages.node_labels import overlap
from sparsefield.app.pages.svg import text_width

FRAME = (0.0, 0.0, 400.0, 300.0)


def distance(curve: EdgeCurve, center: list[float]) -> float:
    return float(np.linalg.norm(curve.points(np.linspace(0, 1, 500)) - np.array(center), axis=1).min())


def test_a_line_is_straight_unless_a_circle_hides_it() -> None:
    start, end = np.array([50.0, 150.0]), np.array([350.0, 150.0])
    free = bend_around(start, end, np.array([[200.0, 180.0]]), np.array([15.0]), FRAME)
    assert free.is_straight
    hidden = bend_around(start, end, np.array([[200.0, 155.0]]), np.array([15.0]), FRAME)
    assert not hidden.is_straight
    assert distance(hidden, [200.0, 155.0]) >= 16.0
    assert hidden.control[1] < 150.0  # on the nearer side
    assert (hidden.start, hidden.end) == ((50.0, 150.0), (350.0, 150.0))


def test_a_curve_stays_within_the_frame_and_off_other_circles() -> None:
    start, end = np.array([50.0, 20.0]), np.array([350.0, 20.0])
    curve = bend_around(start, end, np.array([[200.0, 25.0]]), np.array([15.0]), FRAME)
    points = curve.points()
    assert points[:, 1].min() >= 0.0  # above there is no room
    crowd = np.array([[200.0, 25.0], [200.0, 60.0]])
    curve = bend_around(start, end, crowd, np.array([15.0, 8.0]), FRAME)
    assert min(distance(curve, center) for center in crowd.tolist()) >= 7.0


def test_a_line_that_no_bend_frees_stays_straight() -> None:
    wall = np.array([[200.0, float(y)] for y in range(0, 301, 10)])
    assert bend_around(np.array([50.0, 150.0]), np.array([350.0, 150.0]), wall, np.full(31, 12.0), FRAME).is_straight


def test_columns_at_the_same_place_have_an_edge_of_no_length() -> None:
    spot, circle = np.array([200.0, 150.0]), np.array([[205.0, 150.0]])
    curve = bend_around(spot, spot, circle, np.array([15.0]), FRAME)
    assert curve.is_straight
    assert curve.start == curve.end == (200.0, 150.0)
    rain = np.random.default_rng(0).integers(0, 2, 100)
    field = MarkovField(l1=1.0).fit(np.column_stack([rain, rain, 1 - rain]))
    svg = plot_network(field, layout=dict.fromkeys(["x0", "x1", "x2"], (0.0, 0.0)), edge_labels=True).to_svg()
    assert "nan" not in svg


def test_weights_of_no_edges_need_no_room() -> None:
    assert place([], [], np.array([[100.0, 100.0], [130.0, 100.0]])) == []
    X = np.random.default_rng(0).integers(0, 2, (60, 3))
    assert "x2" in plot_network(MarkovField(l1=500.0).fit(X), edge_labels=True).to_svg()


def place(texts: list[str], curves: list[EdgeCurve], centers: np.ndarray) -> list:
    return place_weights(texts, curves, 8.0, centers, np.full(len(centers), 12.0), [], FRAME)


def test_a_weight_between_near_circles_is_beside_its_edge() -> None:
    centers = np.array([[100.0, 100.0], [130.0, 100.0]])
    ((x, y),) = place(["0.96"], [bend_line(*centers, 0.0)], centers)
    assert x == pytest.approx(115.0, abs=3.0)
    assert abs(y - 100.0) > 5.0


def test_a_weight_does_not_hide_its_edge() -> None:
    for apart, is_beside in ((44.0, True), (80.0, False)):
        centers = np.array([[100.0, 100.0], [100.0 + apart, 100.0]])
        ((_, y),) = place(["0.96"], [bend_line(*centers, 0.0)], centers)
        assert (abs(y - 100.0) > 4.0) == is_beside


def test_the_strongest_weights_are_kept_where_there_is_no_room_for_all() -> None:
    centers = np.array([[100.0, 100.0], [160.0, 100.0]])
    curves = [bend_line(*centers, 0.0)] * 40
    places = place([f"0.{99 - k}" for k in range(40)], curves, centers)
    assert places[0] is not None
    kept = [k for k, where in enumerate(places) if where is not None]
    assert len(kept) < 40
    boxes = [(x - 9.0, y - 4.4, x + 9.0, y + 4.4) for x, y in (places[k] for k in kept)]
    assert all(overlap(a, [b]) == 0.0 for a, b in itertools.combinations(boxes, 2))


def test_a_weight_avoids_a_crossing_edge() -> None:
    centers = np.array([[50.0, 150.0], [350.0, 150.0], [200.0, 20.0], [200.0, 280.0]])
    curves = [bend_line(centers[0], centers[1], 0.0), bend_line(centers[2], centers[3], 0.0)]
    (x, _), (_, y) = place(["0.50", "0.40"], curves, centers)
    assert abs(x - 200.0) > 8.0
    assert abs(y - 150.0) > 4.0


@pytest.fixture(scope="module")
def crowded() -> NetworkPlot:
    rng = np.random.default_rng(1)
    traits = rng.normal(size=(900, 3))
    table = (traits[:, np.arange(18) % 3] + 0.6 * traits[:, :1] + rng.normal(size=(900, 18)) > 0).astype(int)
    field = MarkovField(l1=8.0).fit(pl.DataFrame(table, schema=[f"q{k}" for k in range(18)]))
    return plot_network(field, width_mm=90, edge_labels=True, max_edges=40)


def test_no_two_weights_of_a_crowded_figure_overlap(crowded: NetworkPlot) -> None:
    figure = crowded.figure
    texts = [
        shape for shape in figure.draw().shapes if shape.tag == "text" and shape.attributes.get("stroke-width") == 2.5
    ]
    boxes = []
    for shape in texts:
        x, y, size = (float(str(shape.attributes[name])) for name in ("x", "y", "font-size"))
        half = 0.44 * text_width(shape.text or "", size)
        boxes.append((x - half, y - 0.85 * size, x + half, y + 0.15 * size))
    assert len(boxes) > 20
    assert all(overlap(a, [b]) <= 0.5 for a, b in itertools.combinations(boxes, 2))


def test_few_edges_are_behind_circles_that_they_do_not_belong_to(crowded: NetworkPlot) -> None:
    figure = crowded.figure

    def hidden(curves: list[EdgeCurve]) -> int:
        return sum(
            distance(curve, figure.places[k].tolist()) < figure.radii[k] - 1.0
            for curve, ends in zip(curves, figure.part.ends.tolist(), strict=True)
            for k in range(len(figure.places))
            if k not in ends
        )

    straight = [bend_line(figure.places[a], figure.places[b], 0.0) for a, b in figure.part.ends.tolist()]
    bent = [curve for curve in figure.curves if curve is not None]
    assert hidden(straight) >= 3
    assert hidden(bent) == 0


def test_a_figure_knows_how_many_edges_it_has_room_for(crowded: NetworkPlot) -> None:
    room = crowded.figure.max_legible_edges
    assert room % 5 == 0
    assert 20 <= room < 60
