"""Figures of networks, and positions of nodes with room for names."""

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
from sparsefield.app.pages.layout import arrange, layout_nodes
from sparsefield.errors import DataError


def texts_of(ax) -> set[str]:
    legend = ax.get_legend()
    return {text.get_text() for text in [*ax.texts, *(legend.get_texts() if legend else ())]}


def test_a_figure_has_its_width_names_and_legend(field: MarkovField) -> None:
    ax = plot_network(field, width_mm=90)
    assert ax.figure.get_size_inches()[0] * 25.4 == pytest.approx(90)
    assert {"smokes (yes)", "coughs (yes)", "positive"} <= texts_of(ax)


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


def test_a_figure_of_a_wide_field_has_the_columns_around_its_strongest_edges() -> None:
    wide = make_markov_field(700, 1, neighbors=4.0, burn_in=1, seed=1).field
    circles = [patch for patch in plot_network(wide).patches if isinstance(patch, Circle)]
    assert 250 < len(circles) <= 300


pytestmark = pytest.mark.grid(keep=2)


def random_network(n_nodes: int, n_edges: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, n_nodes, (n_edges, 2)), rng.uniform(0.1, 2.0, n_edges)


@pytest.mark.grid(keep=1)
@pytest.mark.parametrize(("n_nodes", "n_edges"), [(0, 0), (1, 0), (2, 1), (3, 3), (40, 60), (300, 500)])
def test_every_node_has_a_distinct_position_that_is_the_same_each_time(n_nodes, n_edges) -> None:
    ends, weights = random_network(n_nodes, n_edges) if n_nodes else (np.empty((0, 2), dtype=int), np.empty(0))
    positions = layout_nodes(n_nodes, ends, weights)
    assert positions.shape == (n_nodes, 2)
    assert np.isfinite(positions).all()
    assert len(np.unique(np.round(positions, 6), axis=0)) == n_nodes
    assert np.array_equal(positions, layout_nodes(n_nodes, ends, weights))


def test_neighbors_are_closer_than_others() -> None:
    side = 12
    number = np.arange(side * side).reshape(side, side)
    ends = np.concatenate(
        [
            np.column_stack([number[:, :-1].ravel(), number[:, 1:].ravel()]),
            np.column_stack([number[:-1].ravel(), number[1:].ravel()]),
        ]
    )
    positions = layout_nodes(side * side, ends, np.ones(len(ends)))
    joined = np.linalg.norm(positions[ends[:, 0]] - positions[ends[:, 1]], axis=1).mean()
    all_pairs = np.linalg.norm(positions[:, None] - positions[None], axis=2).mean()
    assert joined < 0.35 * all_pairs


def test_strong_edges_are_shorter() -> None:
    ends = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0]])
    weights = np.array([3.0, 0.3, 3.0, 0.3, 3.0, 0.3])
    positions = layout_nodes(6, ends, weights)
    length = np.linalg.norm(positions[ends[:, 0]] - positions[ends[:, 1]], axis=1)
    assert length[weights > 1].max() < length[weights < 1].min()


def test_groups_are_kept_together() -> None:
    ends, weights = random_network(80, 200, seed=3)
    ends[::2, 1] = ends[::2, 0] // 20 * 20 + ends[::2, 1] % 20  # half of the edges are within a group
    groups = np.arange(80) // 20

    def spread(positions: np.ndarray) -> float:
        inside = [positions[groups == k].std(axis=0).mean() for k in range(4)]
        return float(np.mean(inside) / positions.std(axis=0).mean())

    assert spread(layout_nodes(80, ends, weights, groups)) < 0.8 * spread(layout_nodes(80, ends, weights))


def test_connected_components_do_not_overlap() -> None:
    ends = np.array([[0, 1], [1, 2], [2, 0], [3, 4], [5, 6], [6, 7], [7, 8], [8, 5]])
    positions = layout_nodes(10, ends, np.ones(len(ends)))
    boxes = [
        (positions[part].min(axis=0), positions[part].max(axis=0)) for part in ([0, 1, 2], [3, 4], [5, 6, 7, 8], [9])
    ]
    for k, (low, high) in enumerate(boxes):
        for other_low, other_high in boxes[:k]:
            assert (low > other_high).any() or (other_low > high).any()


def test_boxes_are_moved_apart_until_none_overlap_and_stay_in_the_frame() -> None:
    rng = np.random.default_rng(0)
    positions = np.concatenate([rng.normal(scale=20.0, size=(30, 2)), np.zeros((3, 2))])
    boxes = rng.uniform(4, 25, (33, 4))
    moved = arrange(positions, boxes, (0.0, 0.0, 900.0, 600.0))
    low, high = moved - boxes[:, :2], moved + boxes[:, 2:]
    assert low.min() >= -1e-6
    assert (high <= (900.0 + 1e-6, 600.0 + 1e-6)).all()
    apart = (low[:, None] >= high[None] - 1e-6) | (high[:, None] <= low[None] + 1e-6)
    assert (apart.any(axis=2) | np.eye(33, dtype=bool)).all()


def test_clusters_that_a_weak_edge_joins_are_not_small_and_far_apart() -> None:
    ends = np.array([[0, 1], [1, 2], [0, 2], [2, 3], [3, 4], [4, 5], [3, 5]])
    places = layout_nodes(6, ends, np.array([1.0, 1.0, 1.0, 0.01, 1.0, 1.0, 1.0]))
    lengths = np.linalg.norm(places[ends[:, 0]] - places[ends[:, 1]], axis=1)
    assert lengths[3] < 3.0 * np.median(lengths)
