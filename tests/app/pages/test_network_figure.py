"""Figures of networks: layouts can be shared, names can be told apart, and nothing is drawn twice."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField, centrality, plot_network
from sparsefield.app.datasets import make_markov_field
from sparsefield.app.pages.network_figure import format_weight
from sparsefield.app.pages.network_plot import NetworkPlot
from sparsefield.app.pages.node_rings import arc_path
from sparsefield.app.pages.palette import BLUE, GROUPS, INK, NEUTRAL, ORANGE
from sparsefield.errors import DataError

SVG = "{http://www.w3.org/2000/svg}"


def parse(plot: NetworkPlot) -> ElementTree.Element:
    return ElementTree.fromstring(plot.to_svg())


def texts(plot: NetworkPlot) -> list[str]:
    return ["".join(node.itertext()) for node in parse(plot).iter(f"{SVG}text")]


def lines(plot: NetworkPlot) -> list[ElementTree.Element]:
    """Return the lines of edges, which have tooltips."""
    return [node for node in parse(plot).iter(f"{SVG}line") if node.find(f"{SVG}title") is not None]


def test_all_columns_and_edges_of_a_small_field_are_drawn(field: MarkovField) -> None:
    plot = plot_network(field)
    names = [node.findtext(f"{SVG}title") for node in parse(plot).iter(f"{SVG}circle")]
    assert set(names) >= {"age", "smokes", "coughs", "sport", "tea"}
    assert len(lines(plot)) == len(field.edges_)


def test_strong_edges_are_wide_and_negative_ones_dashed(field: MarkovField) -> None:
    plot = plot_network(field)
    drawn = lines(plot)
    widths = [float(node.attrib["stroke-width"]) for node in drawn]
    assert widths == sorted(widths)
    signs = {node.attrib["stroke"]: "stroke-dasharray" in node.attrib for node in drawn}
    assert signs.items() <= {BLUE: False, ORANGE: True, NEUTRAL: False}.items()
    assert plot.edges()["sign"].to_list()[::-1] == [
        {BLUE: 1, ORANGE: -1, NEUTRAL: 0}[node.attrib["stroke"]] for node in drawn
    ]


def test_a_layout_is_shared_by_plot_mapping_frame_and_file(field: MarkovField, tmp_path) -> None:
    first = plot_network(field, seed=3)
    first.positions.write_csv(tmp_path / "positions.csv")
    mapping = {name: (x, y) for name, x, y in first.positions.iter_rows()}
    for layout in (first, mapping, first.positions, tmp_path / "positions.csv"):
        other = plot_network(field, layout=layout)
        assert np.allclose(other.figure.places, first.figure.places, atol=0.5)


def test_a_shared_layout_keeps_columns_in_place_although_edges_differ(field: MarkovField, survey: pl.DataFrame) -> None:
    first = plot_network(field)
    second = plot_network(MarkovField(l1=15.0).fit(survey.drop("person")), layout=first)
    assert len(second.edges()) < len(first.edges())
    where = {name: (x, y) for name, x, y in first.positions.iter_rows()}
    for name, x, y in second.positions.iter_rows():
        assert (x, y) == pytest.approx(where[name], abs=0.5)


def test_the_seed_fixes_the_picture(field: MarkovField) -> None:
    assert plot_network(field).to_svg() == plot_network(field).to_svg()
    assert plot_network(field, seed=1).to_svg() == plot_network(field, seed=1).to_svg() != plot_network(field).to_svg()


def test_given_communities_color_the_columns(field: MarkovField) -> None:
    communities = {"age": "person", "smokes": "habit", "sport": "habit"}
    plot = plot_network(field, communities=communities)
    fills = {node.findtext(f"{SVG}title"): node.attrib["fill"] for node in parse(plot).iter(f"{SVG}circle")}
    assert fills["age"] == GROUPS[0]
    assert fills["smokes"] == fills["sport"] == GROUPS[1]
    assert fills["coughs"] == NEUTRAL
    assert {"person", "habit", "no community"} <= set(texts(plot))
    assert "no community" not in texts(plot_network(field, communities=dict.fromkeys(filter(None, fills), "all")))
    assert plot_network(field, communities="auto").to_svg() == plot_network(field).to_svg()
    assert '"groups":["person","habit"]' in plot.to_html()


def test_rings_are_filled_by_their_shares(field: MarkovField) -> None:
    plot = plot_network(field, rings={"smokes": 0.25, "tea": 0.0}, ring_title="explained", legend=False)
    arcs = [node for node in parse(plot).iter(f"{SVG}path") if node.attrib["stroke"] == INK]
    assert [node.findtext(f"{SVG}title") for node in arcs] == ["smokes: 25%"]
    assert arcs[0].attrib["d"].count("C") == 1
    assert "explained" in texts(plot_network(field, rings={"smokes": 0.25}, ring_title="explained"))


def test_an_arc_ends_where_its_share_ends() -> None:
    numbers = [float(text) for text in re.findall(r"-?\d+\.\d+", arc_path(10.0, 20.0, 5.0, 0.75))]
    assert numbers[:2] == pytest.approx([10.0, 15.0])
    assert numbers[-2:] == pytest.approx([5.0, 20.0])


def test_edge_labels_are_signed_weights(field: MarkovField) -> None:
    plot = plot_network(field, edge_labels=True)
    strongest = plot.edges().row(0, named=True)
    value = strongest["strength"] if strongest["weight"] is None else strongest["weight"]
    assert f"{value:.2f}".replace("-", "\u2212") in texts(plot)


def test_a_figure_for_print_has_its_size_in_millimeters(field: MarkovField) -> None:
    root = parse(plot_network(field, width_mm=90, height_mm=60))
    assert (root.attrib["width"], root.attrib["height"]) == ("90mm", "60mm")
    sizes = [float(node.attrib["font-size"]) for node in root.iter(f"{SVG}text")]
    assert min(sizes) >= 7.0  # pixels of 0.26 mm: 5 points
    box = [float(text) for text in root.attrib["viewBox"].split()]
    for node in root.iter(f"{SVG}circle"):
        assert 0 < float(node.attrib["cx"]) < box[2]
        assert 0 < float(node.attrib["cy"]) < box[3]


@pytest.fixture(scope="module")
def answers() -> MarkovField:
    """A field of 24 items in four groups: most names are short, some are long, and two items are alone."""
    rng = np.random.default_rng(3)
    traits = rng.normal(size=(800, 4))
    names = [f"{'ABCD'[k % 4]}{k // 4}" for k in range(20)] + ["education_in_years", "region_of_birth", "lone", "alone"]
    loads = np.column_stack([traits[:, k % 4] for k in range(22)] + [rng.normal(size=800) for _ in range(2)])
    table = (loads + rng.normal(size=loads.shape) > 0).astype(int)
    return MarkovField(l1=30.0).fit(pl.DataFrame(table, schema=names))


def test_names_cover_no_circles_in_a_column_of_print(answers: MarkovField) -> None:
    for style in ("auto", "beside"):
        figure = plot_network(answers, width_mm=90, names=style).figure
        assert len(figure.labels) == (~figure.inside).sum()
        for label in figure.labels:
            for place, radius in zip(figure.places, figure.radii, strict=True):
                nearest = np.clip(place, label.box[:2], label.box[2:])
                assert np.linalg.norm(nearest - place) > radius - 1.0, label.name
    assert 0 < len(plot_network(answers, width_mm=90).figure.labels) < 24  # short names are inside, long ones beside


def test_found_communities_look_as_if_they_were_given(answers: MarkovField) -> None:
    found = centrality(answers, communities="auto")
    given = dict(zip(found["column"], found["community"], strict=True))
    backward = {name: given[name] for name in reversed(given)}
    assert (
        plot_network(answers, width_mm=90).to_svg() == plot_network(answers, width_mm=90, communities=backward).to_svg()
    )
    assert {"community 1", "2"} <= set(texts(plot_network(answers)))
    pages = [plot.to_html() for plot in (plot_network(answers), plot_network(answers, communities=backward))]
    shown = [re.findall(r'"(?:groups|colors)":\[[^]]*', page) for page in pages]
    assert shown[0] == shown[1]
    assert "community 1" in shown[0][0]


def test_columns_without_edges_are_named(answers: MarkovField, monkeypatch) -> None:
    assert "No edges: lone, alone." in plot_network(answers).to_html()
    assert not any("no edges" in text for text in texts(plot_network(answers)))  # they are drawn
    monkeypatch.setattr("sparsefield.app.pages.network_figure.MAX_WITH_ISOLATED", 20)
    assert "no edges: lone, alone" in texts(plot_network(answers))


def test_small_weights_are_not_zero() -> None:
    assert [format_weight(value) for value in (1.234, 0.005, 0.0049, -0.00012)] == [
        "1.23", "0.01", "0.0049", "\u22120.00012",
    ]  # fmt: skip


def test_weights_without_room_are_left_out(answers: MarkovField) -> None:
    small, large = (plot_network(answers, width_mm=width, edge_labels=True) for width in (40, 400))
    weights = re.compile(r"\u2212?\d\.\d+")
    n_small, n_large = (len([text for text in texts(plot) if weights.fullmatch(text)]) for plot in (small, large))
    assert n_small < n_large
    assert "weights where there is room" in texts(small)


def test_a_wide_field_is_one_connected_figure() -> None:
    field = make_markov_field(300, 1, neighbors=4, burn_in=1, thin=1, seed=1).field
    part = plot_network(field).figure.part
    assert len(part.nodes) > 290
    import scipy.sparse as sp

    graph = sp.coo_array((np.ones(len(part.ends)), part.ends.T), shape=(len(part.nodes),) * 2)
    whole = sp.csgraph.connected_components(graph, directed=False)[0]
    assert whole <= 2


def test_only_the_strongest_edges_on_request(field: MarkovField) -> None:
    plot = plot_network(field, max_edges=2)
    assert len(lines(plot)) == 2
    assert any("2 of " in text for text in texts(plot))


def test_titles_are_drawn_only_if_given(field: MarkovField) -> None:
    assert "My title" in texts(plot_network(field, title="My title"))
    assert not any("Network" in text for text in texts(plot_network(field)))
    assert 'aria-label="Network of a MarkovField"' in plot_network(field).to_svg()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rings": {"smoke": 0.5}}, "rings names 'smoke', which is not in the field"),
        ({"rings": {"smokes": 1.5}, "width_mm": 5}, "width_mm must be from 20 to 2000, not 5; rings must be between"),
        ({"names": "above"}, "names must be 'auto', 'inside' or 'beside'"),
        ({"communities": {"nobody": "a"}}, "communities names 'nobody'"),
        ({"layout": {"age": (0, 1)}, "title": "x"}, "The layout has no position of"),
        ({"layout": {"age": 3}}, "two numbers for each column"),
        ({"layout": pl.DataFrame({"name": ["age"], "x": [1], "y": [2]})}, "layout: .* has no column"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(field: MarkovField, options: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        plot_network(field, **options).to_svg()


def test_the_adjacency_matrix_is_symmetric_and_has_the_strengths(field: MarkovField) -> None:
    plot = plot_network(field)
    matrix = plot.adjacency()
    values = matrix.drop("column").to_numpy()
    assert matrix["column"].to_list() == matrix.columns[1:]
    assert np.array_equal(values, values.T)
    assert values.sum() / 2 == pytest.approx(plot.edges()["strength"].sum())
    signed = plot.adjacency(signed=True).drop("column").to_numpy()
    known = ~np.isnan(signed)
    assert np.allclose(np.abs(signed[known]), values[known])
    assert np.isnan(signed).sum() / 2 == (plot.edges()["sign"] == 0).sum()
