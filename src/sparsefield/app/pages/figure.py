"""Figure of a network for print, with matplotlib: circles are columns, and wider lines are stronger edges."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsefield.analysis.network import Network, Subgraph, edges_that_hold
from sparsefield.app.pages import layout
from sparsefield.app.pages.names import shorten_all, visible, wrap_name
from sparsefield.errors import DataError, list_first
from sparsefield.model import Field

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.path import Path as Curve

WIDTH, HEIGHT = 900.0, 620.0
"""Size of a figure without a size in print, in pixels of 1/96 inch."""

PIXELS_PER_MM, PIXELS_PER_INCH, POINTS_PER_PIXEL = 96 / 25.4, 96.0, 0.75
MIN_MM, MAX_MM = 20.0, 2000.0

MAX_NODES, MAX_WITH_ISOLATED = 300, 60
"""Columns of a figure, of a wider field the backbone around its strongest edges; and columns up to which a figure also
shows those without edges."""

EDGES_PER_NODE, MIN_EDGES = 1.5, 60
"""Edges of a figure: so many per column, and at least so many, besides those that keep columns connected."""

PIXELS_PER_NODE, MIN_ASPECT, MAX_ASPECT = 2200.0, 0.6, 1.2
"""Area that a column needs with its name; a figure of which the width is set is as high as its columns need, within
these shares of the width."""

LETTER, LABEL_ROOM = 0.58, 14.0
"""Width of a letter as a share of the size of the font, and pixels by which labels of edges move nodes apart."""

LEGEND_LINE, LEGEND_COLUMN = 17.0, 122.0


def plot_network(
    field: Any,
    ax: Axes | None = None,
    *,
    communities: Mapping[str, Any] | None = None,
    edge_labels: bool = False,
    min_weight: float | None = None,
    width_mm: float | None = None,
) -> Axes:
    """Draw the network of a field for print.

    Blue edges are positive, orange and dashed ones negative, and gray ones have no sign. Wider edges are stronger.

    Parameters
    ----------
    field : fitted estimator, or a `Field` such as the difference of two
    ax : axes of matplotlib to draw on; by default those of a new figure
    communities : {column: community}
        Communities that color the columns, instead of those that are found; over linked tables, instead of tables.
        Columns that they leave out are gray.
    edge_labels : whether edges have their weights as labels
    min_weight : float
        Smallest strength of an edge that is drawn; by default the strongest of the edges that hold are drawn, about as
        many as can be told apart.
    width_mm : float
        Width of a new figure in print, in millimeters; names are sized for it.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax.figure.savefig("network.pdf")`` writes the figure.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsefield import MarkovField
    >>> rain = np.arange(100) % 2
    >>> wet = np.where(np.arange(100) % 10 < 8, rain, 1 - rain)
    >>> ax = plot_network(MarkovField(l1=1.0).fit(np.column_stack([rain, wet])), width_mm=90)
    >>> sorted(text.get_text() for text in ax.texts)
    ['x0', 'x1']
    """
    if not isinstance(field, Field):
        check_is_fitted(field)
    network = Network(field if isinstance(field, Field) else field.field_)
    unknown = [name for name in communities or () if name not in set(network.labels)]
    problems = [f"communities names {list_first(unknown, form=repr)}, unknown to the field"] if unknown else []
    if width_mm is not None and not MIN_MM <= width_mm <= MAX_MM:
        problems.append(f"width_mm must be from {MIN_MM:g} to {MAX_MM:g}, not {width_mm!r}")
    if problems:
        raise DataError(f"The figure cannot be drawn: {'; '.join(problems)}.")
    part, groups = _choose_part(network, min_weight), layout.find_groups(network, communities)
    legend = _legend(part, groups) if len(part.edges) else []

    def legend_height(width: float) -> float:
        return LEGEND_LINE * math.ceil(len(legend) / _legend_columns(width)) + 6.0 if legend else 0.0

    if ax is None:
        width, height = WIDTH, HEIGHT
        if width_mm is not None:
            width = width_mm * PIXELS_PER_MM
            needed = PIXELS_PER_NODE * len(part.nodes) / width
            height = min(max(needed, MIN_ASPECT * width), MAX_ASPECT * width) + 22.0 + legend_height(width)
        import matplotlib.pyplot as plt

        size = width / PIXELS_PER_INCH, height / PIXELS_PER_INCH
        ax = plt.figure(figsize=size).add_axes((0.0, 0.0, 1.0, 1.0))  # of pyplot, which notebooks display
    else:
        box, dpi = ax.get_window_extent(), ax.figure.dpi
        width, height = box.width / dpi * PIXELS_PER_INCH, box.height / dpi * PIXELS_PER_INCH
    ax.set_xlim(0.0, width)
    ax.set_ylim(height, 0.0)
    ax.set_axis_off()
    frame = (10.0, 12.0, width - 10.0, height - 10.0 - legend_height(width))
    room = math.sqrt((frame[2] - frame[0]) * (frame[3] - frame[1]) / max(len(part.nodes), 1))
    circles = _Circles(part, room, width)
    group = np.array([groups.of(node) for node in part.nodes]) if len(part.nodes) > layout.MIN_GROUPED else None
    places = layout.layout_nodes(len(part.nodes), part.ends, part.strengths, group)
    places = layout.arrange(places, circles.boxes + LABEL_ROOM * edge_labels, frame) if len(places) else places
    if not len(part.edges):
        ax.text(14, 24, "No two columns share a feature.", fontsize=9, color=layout.GREY)
    _draw_edges(ax, part, places, circles, min(max(0.11 * room, 1.8), 8.0), labeled=edge_labels)
    _draw_nodes(ax, part, places, circles, groups)
    if legend:
        ax.legend(
            handles=legend, loc="lower left", bbox_to_anchor=(0.0, 0.0), borderaxespad=0.4, frameon=False,
            ncols=_legend_columns(width), fontsize=0.7 * circles.font_size, labelcolor=layout.GREY, handlelength=2.2,
            columnspacing=1.2, labelspacing=0.3,
        )  # fmt: skip
    return ax


def _choose_part(network: Network, min_weight: float | None) -> Subgraph:
    """Return the columns and edges that are drawn: the strongest that hold, and those that keep columns connected."""
    tree_nodes, tree = network.backbone(MAX_NODES)
    nodes, holding = dict.fromkeys(tree_nodes), edges_that_hold(network)
    edges = np.flatnonzero(np.isin(network.ends, tree_nodes).all(axis=1))
    most = max(MIN_EDGES, round(EDGES_PER_NODE * min(network.n_variables, MAX_NODES)))
    if min_weight is not None:
        edges = edges[network.strengths[edges] >= min_weight]
    elif holding is not None and len(holding):
        edges = np.intersect1d(edges, holding)[:most]
    else:
        edges = np.union1d(tree, edges[:most])
    if network.n_variables <= MAX_WITH_ISOLATED:
        nodes |= dict.fromkeys(range(network.n_variables))
    else:
        nodes = dict.fromkeys(network.ends[edges].ravel().tolist())
    return Subgraph(network, tuple(nodes), edges)


def _legend_columns(width: float) -> int:
    return max(1, int((width - 10) // LEGEND_COLUMN))


def _legend(part: Subgraph, groups: layout.Groups) -> list[Any]:
    from matplotlib.lines import Line2D

    network, n_colors = part.network, min(len(layout.GROUP_COLORS), len(groups.names))
    items = [
        Line2D([], [], color=layout.SIGN_COLORS[sign], lw=2.2, ls=(0, (2.2, 1.4)) if sign < 0 else "-", label=word)
        for sign, word in ((1, "positive"), (-1, "negative"), (0, "no sign"))
        if (network.signs[part.edges] == sign).any()
    ]
    present = sorted({groups.of(node) for node in part.nodes})
    if len({groups.color(k) for k in present}) > 1:
        dots = [(groups.color(k), groups.titles[k]) for k in present if k < n_colors]
        if present[-1] >= n_colors:
            dots.append((layout.NEUTRAL, "others" if present[-1] < len(groups.names) else "none"))
        items += [
            Line2D([], [], marker="o", ls="", ms=6, mec=layout.WHITE, color=c, label=_plain(name)) for c, name in dots
        ]
    if len(part.edges) < len(network.strengths):
        holding = edges_that_hold(network)
        hold = "" if holding is None else f"; {len(holding):,} {'holds' if len(holding) == 1 else 'hold'}"
        items.append(Line2D([], [], ls="", label=f"{len(part.edges):,} of {len(network.strengths):,} edges{hold}"))
    return items


class _Circles:
    """Sizes of circles and names for the room that a figure has: names are within circles where most of them fit."""

    def __init__(self, part: Subgraph, room: float, width: float) -> None:
        names, strengths = part.titles, part.total_strengths
        self.font_size = min(max(8.5 + (width - 340.0) * 3.0 / 560.0, 8.0), 12.0)
        """Size of names below circles: 6 points in a column of print, more in a larger figure."""
        radius = min(max(0.23 * room, 7.0), 18.0)
        fits = np.array([1.75 * radius / (LETTER * max(len(name), 1)) >= 7.0 for name in names], dtype=bool)
        self.inside = fits if len(names) and fits.mean() >= 0.5 else np.zeros(len(names), dtype=bool)
        share = np.sqrt(strengths / strengths.max()) if strengths.any() else np.zeros(len(names))
        small = min(max(0.13 * room, 3.0), 10.0) * (0.55 + 0.45 * share)
        self.radii = np.full(len(names), radius) if self.inside.any() else small
        letters = max(8, min(18, int(1.3 * room / (LETTER * self.font_size))))
        short = shorten_all(names, max(4, int(1.8 * radius / (LETTER * 5.0))))
        wrapped = [[short[k]] if self.inside[k] else wrap_name(name, letters) for k, name in enumerate(names)]
        self.lines = [list(map(_plain, lines)) for lines in wrapped]
        self.inside_size = [min(self.font_size + 2.0, 1.75 * radius / (LETTER * len(own[0]))) for own in self.lines]
        wide = [0.5 * LETTER * self.font_size * max(map(len, lines)) for lines in self.lines]
        aside = np.where(self.inside, self.radii, np.maximum(self.radii, wide))
        down = np.where(self.inside, 0.0, [1.12 * self.font_size * len(lines) for lines in self.lines])
        self.boxes = np.column_stack([aside, self.radii, aside, self.radii + down]).reshape(-1, 4)
        """(nodes, 4): how far circle and name reach to the left, up, right and down."""


def _draw_edges(
    ax: Axes, part: Subgraph, places: np.ndarray, circles: _Circles, widest: float, *, labeled: bool
) -> None:
    """Draw edges, weak ones below others and faded, with their weights where these are wanted."""
    from matplotlib.patches import PathPatch

    network, seen = part.network, Counter[tuple[int, ...]]()
    pairs = Counter(tuple(sorted(pair)) for pair in part.ends.tolist())
    largest = float(part.strengths.max(initial=0.0)) or 1.0
    for order, (edge, (a, b)) in enumerate(zip(part.edges.tolist(), part.ends.tolist(), strict=True)):
        pair = tuple(sorted((a, b)))
        bend = 0.2 * ((pairs[pair] - 1) / 2 - seen[pair])  # several edges of two columns, over links, are side by side
        seen[pair] += 1
        curve, middle = _curve(places[a], places[b], float(circles.radii[a]), bend)
        strength, sign = float(network.strengths[edge]), int(network.signs[edge])
        share = strength / largest
        width = (0.5 + (widest - 0.5) * share) * POINTS_PER_PIXEL
        dashes = (0, (1.6 + 2.4 / width, 1 + 1.6 / width)) if sign < 0 else "-"
        look = {"linewidth": width, "linestyle": dashes, "alpha": 0.3 + 0.6 * share**0.7}
        depth = 1.9 - 0.8 * order / max(len(part.edges), 1)
        ax.add_patch(PathPatch(curve, fill=False, edgecolor=layout.SIGN_COLORS[sign], zorder=depth, **look))
        if labeled:
            text = f"{-strength if sign < 0 else strength:.2g}".replace("-", "\u2212")
            _text(ax, middle[0], middle[1], text, max(0.8 * circles.font_size, 7.0), layout.SIGN_COLORS[sign], zorder=4)


def _draw_nodes(ax: Axes, part: Subgraph, places: np.ndarray, circles: _Circles, groups: layout.Groups) -> None:
    from matplotlib.patches import Circle

    for k, (node, (x, y)) in enumerate(zip(part.nodes, places.tolist(), strict=True)):
        radius, color = float(circles.radii[k]), groups.color(groups.of(node))
        ax.add_patch(Circle((x, y), radius, fc=color, ec=layout.WHITE, lw=0.9, zorder=2.6))
        if circles.inside[k]:
            look = {
                "fontsize": circles.inside_size[k] * POINTS_PER_PIXEL,
                "color": layout.WHITE if color in layout.DARK_COLORS else layout.INK,
            }
            ax.text(x, y, circles.lines[k][0], ha="center", va="center", zorder=5, **look)
            continue
        for row, line in enumerate(circles.lines[k]):
            below = radius + circles.font_size * (0.75 + 1.12 * row)
            _text(ax, x, y + below, line, circles.font_size, layout.INK, zorder=5)


def _plain(text: str) -> str:
    """Return text without control characters, which no SVG file has, and with dollar signs that begin no formula."""
    return visible(text).replace("$", r"\$")


def _text(ax: Axes, x: float, y: float, words: str, size: float, color: str, *, zorder: float) -> None:
    """Draw centered text on a white ground; an outline of its letters would not be text in an SVG file."""
    ground = {"boxstyle": "round,pad=0.05", "facecolor": layout.WHITE, "edgecolor": "none", "alpha": 0.7}
    points = size * POINTS_PER_PIXEL
    ax.text(x, y, words, fontsize=points, color=color, ha="center", va="center", zorder=zorder, bbox=ground)


def _curve(start: np.ndarray, end: np.ndarray, radius: float, bend: float) -> tuple[Curve, np.ndarray]:
    """Return a curve between two circles and its middle; a loop where both circles are the same."""
    from matplotlib.path import Path as Curve

    along = end - start
    if not along.any():
        corners = np.array([[-0.4, -0.8], [-2.0, -3.4], [2.0, -3.4], [0.4, -0.8]])
        return Curve(start + radius * corners, [1, 4, 4, 4]), start - np.array([0.0, 2.7 * radius])
    control = (start + end) / 2 + bend * np.array([along[1], -along[0]])
    return Curve([start, control, end], [1, 3, 3]), (start + 2 * control + end) / 4
