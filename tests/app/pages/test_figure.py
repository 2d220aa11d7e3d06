"""Figures have the columns, edges, sizes and positions that were asked for."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from surveys import make_linked

from sparsefield import MarkovField
from sparsefield.app.datasets import make_markov_field
from sparsefield.app.pages.figure import plot_network
from sparsefield.errors import DataError


def test_a_figure_has_its_size_in_millimeters_and_texts_as_texts(field: MarkovField) -> None:
    plot = plot_network(field, width_mm=90, height_mm=60, title="Habits")
    np.testing.assert_allclose(plot.figure.get_size_inches() * 25.4, [90, 60])
    svg = plot.to_bytes("svg").decode()
    assert re.search(r'width="255\.1\d*pt"', svg)
    for word in ("Habits", "smokes", "coughs", "positive"):
        assert f">{word}</text>" in svg
    assert svg == plot_network(field, width_mm=90, height_mm=60, title="Habits").to_bytes("svg").decode()


@pytest.mark.parametrize(("suffix", "head"), [(".svg", b"<?xml"), (".pdf", b"%PDF"), (".png", b"\x89PNG")])
def test_figures_are_written_by_their_suffix(field: MarkovField, tmp_path: Path, suffix: str, head: bytes) -> None:
    plot_network(field).save(tmp_path / f"net{suffix}", dpi=50)
    assert (tmp_path / f"net{suffix}").read_bytes().startswith(head)
    with pytest.raises(DataError, match=r"\.svg, \.pdf or \.png"):
        plot_network(field).save(tmp_path / "net.html")


def test_axes_of_another_figure_are_drawn_on(field: MarkovField) -> None:
    left, right = Figure(figsize=(8, 3)).subplots(1, 2)
    plot = plot_network(field, ax=right)
    assert plot.ax is right
    assert len(right.patches) >= len(field.edges_)
    assert not left.patches


def test_figures_share_positions(field: MarkovField, tmp_path: Path) -> None:
    first = plot_network(field, width_mm=90)
    names = first.positions["column"].to_list()
    assert set(names) == {"age", "smokes", "coughs", "sport", "tea"}
    first.positions.write_csv(tmp_path / "places.csv")

    def shape(plot) -> np.ndarray:
        places = plot.positions.sort("column").select("x", "y").to_numpy()
        centered = places - places.mean(axis=0)
        return centered / centered.std()

    for layout in (first, first.positions, tmp_path / "places.csv", dict(zip(names, first.places, strict=True))):
        np.testing.assert_allclose(shape(plot_network(field, layout=layout, width_mm=150)), shape(first), atol=1e-6)
    with pytest.raises(DataError, match="no position of 'tea'"):
        plot_network(field, layout={name: (0, k) for k, name in enumerate(names) if name != "tea"})


def test_circles_and_names_do_not_overlap() -> None:
    field = make_markov_field(40, 1, neighbors=3.0, burn_in=1, seed=2).field
    places = plot_network(field).places
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2) + 1e9 * np.eye(len(places))
    assert gaps.min() > 20.0


def test_the_strongest_edges_are_drawn(field: MarkovField) -> None:
    plot = plot_network(field, max_edges=2, edge_labels=True)
    assert len(plot.part.edges) == 2
    strongest = field.edges_.sort("strength", descending=True)
    texts = {text.get_text() for text in plot.ax.texts}
    assert {f"{value:.2f}" for value in strongest["strength"][:2]} <= {text.lstrip("\u2212") for text in texts}
    legend = plot.ax.get_legend()
    assert legend is not None
    assert f"2 of {len(field.edges_)} edges" in {text.get_text() for text in legend.get_texts()}
    assert plot_network(field, legend=False).ax.get_legend() is None


def test_rings_and_communities_are_drawn_or_refused(field: MarkovField) -> None:
    plot = plot_network(field, rings={"age": 0.5, "tea": None}, communities={"age": "people", "tea": "drinks"})
    legend = plot.ax.get_legend()
    assert legend is not None
    assert {"people", "drinks", "none", "predictability"} <= {text.get_text() for text in legend.get_texts()}
    with pytest.raises(DataError, match=r"rings must be between 0 and 1, .*'height', which is not in the field"):
        plot_network(field, rings={"height": 0.1, "age": 1.5})
    with pytest.raises(DataError, match="communities names 'height'"):
        plot_network(field, communities={"height": 1})
    with pytest.raises(DataError, match=r"width_mm must be from 20 to 2000, not 5; .*max_edges must be at least 1"):
        plot_network(field, width_mm=5, names="around", max_edges=0)  # pyright: ignore[reportArgumentType]


def test_edges_and_adjacency_are_frames(field: MarkovField) -> None:
    plot = plot_network(field)
    edges = {frozenset(row[:2]): row[2] for row in plot.edges().iter_rows()}
    assert edges == {frozenset((a, b)): strength for a, b, strength in field.edges_.iter_rows()}
    matrix = plot.adjacency()
    values = matrix.drop("column").to_numpy()
    np.testing.assert_array_equal(values, values.T)
    assert np.count_nonzero(values) == 2 * len(edges)


def test_fields_without_edges_and_over_linked_tables_are_drawn() -> None:
    empty = MarkovField(l1=1e6).fit(pl.DataFrame({"a": [0, 1] * 20, "b": [0, 0, 1, 1] * 10}))
    assert "No two columns share a feature." in {text.get_text() for text in plot_network(empty).ax.texts}
    assert plot_network(make_linked()[0]).to_bytes("svg").count(b"<path") > 5
