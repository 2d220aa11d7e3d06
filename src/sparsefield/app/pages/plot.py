"""The plot of the network of a fitted field."""

from __future__ import annotations

from typing import Any

from sparsefield.app.pages.figure_options import FigureOptions, NameStyle, read_column_values, read_positions
from sparsefield.app.pages.network_plot import NetworkPlot
from sparsefield.app.pages.network_view import ExtraColumns, build_view, check_communities
from sparsefield.estimators.field_estimator import FieldEstimator, fitted_field
from sparsefield.model import Field


def plot_network(
    field: FieldEstimator | Field,
    *,
    title: str | None = None,
    layout: Any = None,
    communities: Any = None,
    rings: Any = None,
    ring_title: str = "predictability",
    edge_labels: bool = False,
    names: NameStyle = "auto",
    width_mm: float | None = None,
    height_mm: float | None = None,
    max_edges: int | None = None,
    legend: bool = True,
    seed: int = 0,
    extra: ExtraColumns | None = None,
) -> NetworkPlot:
    """Return a plot of the network: interactive in a notebook; ``.save("net.pdf")`` writes a figure for print.

    Blue edges are positive, orange and dashed ones negative, and gray ones have no sign. Wider edges are stronger.

    Parameters
    ----------
    field : fitted estimator, or its field
    title : str
        Drawn above the network; a figure without one has its legend only.
    layout : another plot, {column: (x, y)}, a frame or a CSV file with column, x and y
        Positions of the columns, so that several figures can share them; ``.positions`` of a plot has its own.
    communities : {column: community}, a frame or a CSV file with column and community, or "auto"
        Communities that color the columns, instead of those that are found; over linked tables, instead of tables.
        Columns that they leave out are gray. "auto" is the same as None.
    rings : {column: share}, a frame or a CSV file with column and value, or with a column named ``ring_title``
        Shares from 0 to 1 that fill a ring around each column; the result of `predictability` is such a frame.
    ring_title : what the rings show, for the legend
    edge_labels : whether edges have their weights as labels
    names : "auto", "inside" or "beside"
        Whether names are within the circles or beside them.
    width_mm, height_mm : float
        Size of the figure in print.
    max_edges : int
        The number of the strongest edges to draw; by default about as many as can be told apart, and the edges
        that keep columns connected.
    legend : whether to draw a legend
    seed : seed of the layout
    extra : {title: {name of a feature: value}}
        Further values that the interactive page shows beside the weights.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsefield import MarkovField, plot_network
    >>> rain = np.arange(100) % 2
    >>> wet = np.where(np.arange(100) % 10 < 8, rain, 1 - rain)
    >>> plot = plot_network(MarkovField(l1=1.0).fit(np.column_stack([rain, wet])), width_mm=90)
    >>> plot.positions["column"].to_list()
    ['x0', 'x1']
    """
    shown = fitted_field(field)
    places = read_positions(layout.positions if isinstance(layout, NetworkPlot) else layout)
    own = None if isinstance(communities, str) and communities == "auto" else communities
    checked = check_communities(shown, read_column_values(own, "communities", "community"))
    view = build_view(shown, extra, given_communities=checked)
    shares = read_column_values(rings, "rings", "value", ring_title)
    options = FigureOptions(
        places, shares, ring_title, edge_labels, names, width_mm, height_mm,
        max_edges, legend, seed,
    ).checked(view.whole.network.labels)  # fmt: skip
    return NetworkPlot(view, title or "", options, f"Network of a {type(field).__name__}")
