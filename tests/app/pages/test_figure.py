"""Figures have the columns, edges, sizes and colors that were asked for."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from surveys import make_linked

from sparsefield import MarkovField
from sparsefield.app.datasets import make_markov_field
from sparsefield.app.pages.figure import plot_network
from sparsefield.errors import DataError


def texts_of(ax) -> set[str]:
    legend = ax.get_legend()
    return {text.get_text() for text in [*ax.texts, *(legend.get_texts() if legend else ())]}


def test_a_figure_has_its_width_names_and_legend(field: MarkovField) -> None:
    ax = plot_network(field, width_mm=90)
    assert ax.figure.get_size_inches()[0] * 25.4 == pytest.approx(90)
    assert {"smokes", "coughs", "positive"} <= texts_of(ax)


def test_axes_of_another_figure_are_drawn_on(field: MarkovField) -> None:
    left, right = Figure(figsize=(8, 3)).subplots(1, 2)
    assert plot_network(field, ax=right) is right
    assert len(right.patches) == (field.edges_["q_value"] <= 0.05).sum() + 5  # edges that hold, and columns
    assert not left.patches


def test_circles_do_not_overlap_and_are_at_the_same_places_each_time() -> None:
    field = make_markov_field(40, 1, neighbors=3.0, burn_in=1, seed=2).field
    first, second = (
        np.array([patch.center for patch in plot_network(field).patches if isinstance(patch, Circle)]) for _ in range(2)
    )
    gaps = np.linalg.norm(first[:, None] - first[None], axis=2) + 1e9 * np.eye(len(first))
    assert gaps.min() > 20.0
    np.testing.assert_array_equal(first, second)


def test_edges_of_at_least_a_weight_are_drawn(field: MarkovField) -> None:
    strongest = field.edges_.sort("strength", descending=True)["strength"]
    texts = texts_of(plot_network(field, min_weight=strongest[1], edge_labels=True))
    assert {f"{value:.2g}" for value in strongest[:2]} <= {text.lstrip("\u2212") for text in texts}
    assert any(text.startswith(f"2 of {len(field.edges_)} edges; ") for text in texts)


def test_communities_are_drawn_or_refused(field: MarkovField) -> None:
    assert {"people", "drinks", "none"} <= texts_of(plot_network(field, communities={"age": "people", "tea": "drinks"}))
    with pytest.raises(DataError, match=r"communities names 'height', .*; width_mm must be from 20 to 2000, not 5"):
        plot_network(field, communities={"height": 1}, width_mm=5)


def test_fields_without_edges_and_over_linked_tables_are_drawn() -> None:
    empty = MarkovField(l1=1e6).fit(pl.DataFrame({"a": [0, 1] * 20, "b": [0, 0, 1, 1] * 10}))
    assert "No two columns share a feature." in texts_of(plot_network(empty))
    assert len(plot_network(make_linked()[0]).patches) == 3  # two columns and the edge between them


def test_a_figure_without_edges_that_hold_has_the_strongest() -> None:
    table = np.random.default_rng(0).integers(0, 2, (60, 4))
    field = MarkovField(l1=0.5).fit(table)
    assert not (field.edges_["q_value"] <= 0.05).any()
    assert len(plot_network(field).patches) == 4 + len(field.edges_)
