"""Figure of a network for print, with matplotlib: circles are columns, and wider lines are stronger edges."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsefield.analysis.network import Network, Subgraph
from sparsefield.app.pages.groups import Groups, find_groups, read_column_values
from sparsefield.app.pages.layout import MIN_GROUPED, arrange, fit_into_frame, layout_nodes
from sparsefield.app.pages.palette import GREY, GROUPS, INK, NEUTRAL, PALE, SIGN_COLORS, WHITE, group_color, text_on
from sparsefield.app.pages.short_names import list_some, shorten_all, visible, wrap_name
from sparsefield.atomic_write import write_atomically
from sparsefield.data.cell_values import is_missing
from sparsefield.errors import DataError
from sparsefield.model import Field

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.path import Path as Curve

WIDTH, HEIGHT = 900.0, 620.0
"""Size of a figure without a size in print, in pixels of 1/96 inch."""

PIXELS_PER_MM, PIXELS_PER_INCH, POINTS_PER_PIXEL = 96 / 25.4, 96.0, 0.75
SMALLEST_MM, LARGEST_MM = 20.0, 2000.0

MAX_NODES, MAX_WITH_ISOLATED, MAX_ADJACENCY = 300, 60, 5_000
"""Columns of a figure, of a wider field the backbone around its strongest edges; columns up to which a figure also
shows those without edges; and columns of an adjacency matrix."""

EDGES_PER_NODE, MIN_EDGES = 1.5, 60
"""Edges of a figure: so many per column, and at least so many, besides those that keep columns connected."""

PIXELS_PER_NODE, LOWEST, HIGHEST = 2200.0, 0.6, 1.2
"""Area that a column needs with its name; a figure of which only the width is given is as high as its columns need,
within these shares of the width."""

PIXELS_PER_EDGE, PIXELS_PER_WEIGHT, LABEL_ROOM = 1000.0, 2200.0, 14.0
"""Area that an edge needs in a legible figure, without and with its weight; and pixels that nodes are farther apart
where edges have weights."""

LETTER, RING = 0.58, 0.3
"""Width of a letter as a share of the size of the font, and of a ring as a share of the radius."""

LEGEND_LINE, LEGEND_COLUMN, TITLE_HEIGHT = 17.0, 122.0, 24.0


@dataclass(frozen=True, eq=False)
class NetworkPlot:
    """A drawn network, which notebooks display; `save` writes it to a file."""

    network: Network
    figure: Figure
    ax: Axes
    part: Subgraph
    """The columns and edges that are drawn."""
    places: np.ndarray = field(repr=False)
    """Centers of the circles in pixels of 1/96 inch, y downward; two for each column."""
    max_legible_edges: int = 0
    """Number of edges for which the figure has room, with their weights if these are drawn."""

    def __repr__(self) -> str:
        return f"<NetworkPlot of {len(self.part.nodes):,} columns and {len(self.part.edges):,} edges: save('net.pdf')>"

    @property
    def positions(self) -> pl.DataFrame:
        """Frame of the positions: column, x, y, where y increases downward.

        Another plot takes it as ``layout``, also from a CSV file in which positions were changed by hand.
        """
        import polars as pl

        columns = {"column": pl.Series(self.part.names, dtype=pl.String), "x": self.places[:, 0]}
        return pl.DataFrame({**columns, "y": self.places[:, 1]})

    def edges(self) -> pl.DataFrame:
        """Return the edge list of the whole network, strongest first: column_a, column_b, strength, sign, weight.

        The sign is 1, -1, or 0 where an edge has no sign. The weight is sign times strength, and null without a sign.
        Over links there is also the template.
        """
        import polars as pl

        network, labels = self.network, np.array(self.network.labels, dtype=object)
        columns = {
            "column_a": pl.Series(labels[network.ends[:, 0]].tolist(), dtype=pl.String),
            "column_b": pl.Series(labels[network.ends[:, 1]].tolist(), dtype=pl.String),
            "strength": network.strengths,
            "sign": network.signs,
            "weight": pl.Series(np.where(network.signs == 0, np.nan, network.signs * network.strengths)).fill_nan(None),
        }
        if network.linked:
            columns["template"] = [network.edge(k).template for k in range(len(network.strengths))]
        return pl.DataFrame(columns)

    def adjacency(self, *, signed: bool = False) -> pl.DataFrame:
        """Return the adjacency matrix: the name of a column, then the strength of its edge to each column, or 0.

        A matrix of ``signed`` weights has sign times strength, and null for an edge without a sign. Several edges over
        links between the same two columns are combined by the norm of their strengths, without a sign if signs differ.
        """
        import polars as pl

        network = self.network
        joined = np.unique(network.ends[network.ends >= network.n_variables]).tolist()
        nodes = [*range(network.n_variables), *joined]
        if len(nodes) > MAX_ADJACENCY:
            raise DataError(
                f"An adjacency matrix of {len(nodes):,} columns is too large (at most {MAX_ADJACENCY:,}): write the "
                "edge list instead."
            )
        place = {node: k for k, node in enumerate(nodes)}
        squares, low, high = np.zeros((3, len(nodes), len(nodes)))
        for (a, b), sign, strength in zip(network.ends.tolist(), network.signs, network.strengths, strict=True):
            for i, j in {(place[a], place[b]), (place[b], place[a])}:
                squares[i, j] += strength**2
                low[i, j], high[i, j] = min(low[i, j], sign or -1), max(high[i, j], sign or 1)
        values = np.sqrt(squares)
        if signed:  # both are not 0 where signs differ, or there is none
            values = np.where(low * high < 0, np.nan, (low + high) * values)
        names = [network.labels[node] for node in nodes]
        head = "column" if "column" not in names else "(column)"
        matrix = {name: pl.Series(values[:, k]).fill_nan(None) for k, name in enumerate(names)}
        return pl.DataFrame({head: pl.Series(names, dtype=pl.String), **matrix})

    def to_bytes(self, form: str, *, dpi: int = 300) -> bytes:
        """Return the figure as "svg", "pdf" or "png"; texts in SVG and PDF stay texts."""
        import matplotlib as mpl

        buffer = BytesIO()
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None, "ModDate": None}}.get(form)
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "sparsefield", "pdf.fonttype": 42}):
            self.figure.savefig(buffer, format=form, dpi=dpi, metadata=metadata)
        return buffer.getvalue()

    def save(self, path: str | os.PathLike[str], *, dpi: int = 300) -> None:
        """Write the figure: .svg, .pdf or .png; ``dpi`` is the resolution of a PNG file, in dots per inch."""
        suffix = Path(path).suffix.lower()
        if suffix not in (".svg", ".pdf", ".png"):
            raise DataError(f"{path}: the name must end in .svg, .pdf or .png; 'report' writes an interactive page.")
        write_atomically(Path(path), self.to_bytes(suffix[1:], dpi=dpi))

    def _repr_svg_(self) -> str:
        return self.to_bytes("svg").decode()


def plot_network(
    field: Any,
    ax: Axes | None = None,
    *,
    title: str | None = None,
    layout: Any = None,
    communities: Any = None,
    rings: Any = None,
    ring_title: str = "predictability",
    edge_labels: bool = False,
    names: Literal["auto", "inside", "beside"] = "auto",
    width_mm: float | None = None,
    height_mm: float | None = None,
    max_edges: int | None = None,
    legend: bool = True,
    seed: int = 0,
) -> NetworkPlot:
    """Draw the network of a field; ``.save("net.pdf")`` of the result writes it.

    Blue edges are positive, orange and dashed ones negative, and gray ones have no sign. Wider edges are stronger.

    Parameters
    ----------
    field : fitted estimator, or a `Field` such as the difference of two
    ax : axes of matplotlib to draw on; by default those of a new figure
    title : str
        Drawn above the network.
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
        Whether names are within the circles or below them.
    width_mm, height_mm : float
        Size of a new figure in print.
    max_edges : int
        The number of the strongest edges to draw; by default about as many as can be told apart, and the edges
        that keep columns connected.
    legend : whether to draw a legend
    seed : seed of the layout

    Returns
    -------
    NetworkPlot
        With ``figure`` and ``ax`` of matplotlib, ``positions``, ``edges()`` and ``adjacency()`` as frames.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsefield import MarkovField
    >>> rain = np.arange(100) % 2
    >>> wet = np.where(np.arange(100) % 10 < 8, rain, 1 - rain)
    >>> plot = plot_network(MarkovField(l1=1.0).fit(np.column_stack([rain, wet])), width_mm=90)
    >>> plot.positions["column"].to_list()
    ['x0', 'x1']
    """
    if not isinstance(field, Field):
        check_is_fitted(field)
    network = Network(field if isinstance(field, Field) else field.field_)
    named = None if isinstance(communities, str) and communities == "auto" else communities
    members = read_column_values(named, "communities", "community")
    shares, problems = _check_rings(read_column_values(rings, "rings", "value", ring_title) or {})
    for what, values in (("communities", members or {}), ("rings", shares)):
        unknown = [name for name in values if name not in set(network.labels)]
        if unknown:
            problems.append(f"{what} names {list_some(unknown)}, which {_are(unknown)} not in the field")
    for what, size in (("width_mm", width_mm), ("height_mm", height_mm)):
        if size is not None and not SMALLEST_MM <= size <= LARGEST_MM:
            problems.append(f"{what} must be from {SMALLEST_MM:g} to {LARGEST_MM:g}, not {size!r}")
    if names not in ("auto", "inside", "beside"):
        problems.append(f"names must be 'auto', 'inside' or 'beside', not {names!r}")
    if max_edges is not None and max_edges < 1:
        problems.append(f"max_edges must be at least 1, not {max_edges!r}")
    if problems:
        raise DataError(f"The figure cannot be drawn: {'; '.join(problems)}.")
    part, groups = _choose_part(network, max_edges), find_groups(network, members)
    items = _legend_items(part, groups, ring_title if shares else "") if legend and len(part.edges) else []
    above = 12.0 + (TITLE_HEIGHT if title else 0.0)

    def legend_height(width: float) -> float:
        return LEGEND_LINE * math.ceil(len(items) / _legend_columns(width)) + 6.0 if items else 0.0

    width, height = WIDTH, HEIGHT
    if height_mm is not None:
        width, height = height_mm * PIXELS_PER_MM * WIDTH / HEIGHT, height_mm * PIXELS_PER_MM
    if width_mm is not None:
        width = width_mm * PIXELS_PER_MM
        needed = min(max(PIXELS_PER_NODE * len(part.nodes) / width, LOWEST * width), HIGHEST * width)
        height = height if height_mm is not None else needed + above + 10.0 + legend_height(width)
    if ax is None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width / PIXELS_PER_INCH, height / PIXELS_PER_INCH))
        ax = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    else:
        figure = ax.get_figure(root=True)
        assert figure is not None
        box = ax.get_window_extent()
        width, height = (side / figure.dpi * PIXELS_PER_INCH for side in (box.width, box.height))
    ax.set_xlim(0.0, width)
    ax.set_ylim(height, 0.0)
    ax.set_axis_off()
    frame = (10.0, above, width - 10.0, height - 10.0 - legend_height(width))
    area = (frame[2] - frame[0]) * (frame[3] - frame[1])
    room = math.sqrt(area / max(len(part.nodes), 1))
    nodes = _Nodes(part, names, room, width, shares)
    boxes = nodes.boxes + LABEL_ROOM * edge_labels
    if layout is not None:
        places = _given_places(layout.positions if isinstance(layout, NetworkPlot) else layout, part, boxes, frame)
    else:
        group = np.array([groups.of(node) for node in part.nodes])
        together = group if len(part.nodes) > MIN_GROUPED else None
        raw = layout_nodes(len(part.nodes), part.ends, part.strengths, together, seed=seed)
        places = arrange(raw, boxes, frame) if len(raw) else raw
    if title:
        ax.text(14, 20, _plain(title), fontsize=11.5, fontweight="bold", color=INK, va="center")
    if not len(part.edges):
        ax.text(14, 44, "No two columns share a feature.", fontsize=9, color=GREY)
    _draw_edges(ax, part, places, nodes, min(max(0.11 * room, 1.8), 8.0), labeled=edge_labels)
    _draw_nodes(ax, part, places, nodes, groups, shares)
    if items:
        ax.legend(
            handles=items, loc="lower left", bbox_to_anchor=(0.0, 0.0), borderaxespad=0.4, frameon=False,
            ncols=_legend_columns(width), fontsize=0.7 * nodes.size, labelcolor=GREY, handlelength=2.2,
            columnspacing=1.2, labelspacing=0.3,
        )  # fmt: skip
    legible = max(int(area / (PIXELS_PER_WEIGHT if edge_labels else PIXELS_PER_EDGE)) // 5, 1) * 5
    return NetworkPlot(network, figure, ax, part, places, legible)


def _choose_part(network: Network, max_edges: int | None) -> Subgraph:
    """Return the columns and edges that are drawn: the strongest, and those that keep columns connected."""
    limit = min(network.n_variables + len(network.field.layout.tables), MAX_NODES)
    most = max(MIN_EDGES, round(EDGES_PER_NODE * limit)) if max_edges is None else max_edges
    overview = network.overview(limit, most)
    edges = overview.edges if max_edges is None else overview.edges[:max_edges]
    joined = set(network.ends[edges].ravel().tolist())
    with_isolated = network.n_variables <= MAX_WITH_ISOLATED
    return Subgraph(network, tuple(node for node in overview.nodes if with_isolated or node in joined), edges)


def _check_rings(rings: Mapping[str, Any]) -> tuple[dict[str, float], list[str]]:
    """Return {column: share} of the columns that have one, and a sentence on what is no share."""
    shares: dict[str, float] = {}
    for name, value in rings.items():
        try:
            share = math.nan if is_missing(value) or value == "" else float(value)
        except (TypeError, ValueError):
            share = math.inf
        if not math.isnan(share):
            shares[name] = share
    wrong = [name for name, share in shares.items() if not 0.0 <= share <= 1.0]
    return shares, [f"rings must be between 0 and 1, but {list_some(wrong)} {_are(wrong)} not"] if wrong else []


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _given_places(
    layout: Any, part: Subgraph, boxes: np.ndarray, frame: tuple[float, float, float, float]
) -> np.ndarray:
    """Return (nodes, 2) centers at positions that the user gives, scaled into the frame."""
    if not isinstance(layout, Mapping):
        x, y = (read_column_values(layout, "layout", axis) or {} for axis in ("x", "y"))
        layout = {name: (x[name], y[name]) for name in x}
    absent = [name for name in part.names if name not in layout]
    if absent:
        raise DataError(f"The layout has no position of {list_some(absent)}: add it, or leave the layout out.")
    try:
        positions = np.array([[float(place[0]), float(place[1])] for place in layout.values()])
    except (TypeError, ValueError, IndexError):
        raise DataError("The layout must have two numbers for each column, as in {'age': (0.2, 1.5)}.") from None
    if not np.isfinite(positions).all():
        lost = [str(name) for name, place in zip(layout, positions, strict=True) if not np.isfinite(place).all()]
        raise DataError(f"Positions must be finite numbers, but {list_some(lost)} has none.")
    scaled = dict(zip(layout, fit_into_frame(positions, boxes, frame, stretch=1.0), strict=True))
    return np.array([scaled[name] for name in part.names])


def _legend_columns(width: float) -> int:
    return max(1, int((width - 10) // LEGEND_COLUMN))


def _legend_items(part: Subgraph, groups: Groups, ring_title: str) -> list[Any]:
    from matplotlib.lines import Line2D

    network, n_colors = part.network, min(len(GROUPS), len(groups.names))
    items = [
        Line2D([], [], color=SIGN_COLORS[sign], lw=2.2, ls=(0, (2.2, 1.4)) if sign < 0 else "-", label=word)
        for sign, word in ((1, "positive"), (-1, "negative"), (0, "no sign"))
        if (network.signs[part.edges] == sign).any()
    ]
    present = sorted({groups.of(node) for node in part.nodes})
    if len({group_color(k) for k in present}) > 1:
        dots = [(group_color(k), groups.titles[k]) for k in present if k < n_colors]
        if present[-1] >= n_colors:
            dots.append((NEUTRAL, "others" if present[-1] < len(groups.names) else "none"))
        items += [Line2D([], [], marker="o", ls="", ms=6, mec=WHITE, color=c, label=_plain(name)) for c, name in dots]
    if ring_title:
        items.append(Line2D([], [], marker="o", ls="", ms=6, mfc=WHITE, mec=INK, mew=2, label=_plain(ring_title)))
    if len(part.edges) < len(network.strengths):
        items.append(Line2D([], [], ls="", label=f"{len(part.edges):,} of {len(network.strengths):,} edges"))
    return items


class _Nodes:
    """Sizes of circles and names for the room that a figure has."""

    def __init__(self, part: Subgraph, style: str, room: float, width: float, ringed: Mapping[str, float]) -> None:
        names, strengths = part.names, part.total_strengths
        self.size = min(max(8.5 + (width - 340.0) * 3.0 / 560.0, 8.0), 12.0)
        """Size of names below circles: 6 points in a column of print, more in a larger figure."""
        within = min(max(0.23 * room, 7.0), 18.0)
        fits = np.array([1.75 * within / (LETTER * max(len(name), 1)) >= 7.0 for name in names], dtype=bool)
        self.inside = np.full(len(names), style == "inside")
        if style == "auto" and len(names) and fits.mean() >= 0.5:
            self.inside = fits
        share = np.sqrt(strengths / strengths.max()) if strengths.any() else np.zeros(len(names))
        small = min(max(0.13 * room, 3.0), 10.0) * (0.55 + 0.45 * share)
        self.radii = np.full(len(names), within) if self.inside.any() else small
        self.around = self.radii * np.array([1 + RING if name in ringed else 1.0 for name in names])
        letters = max(8, min(18, int(1.3 * room / (LETTER * self.size))))
        short = shorten_all(names, max(4, int(1.8 * within / (LETTER * 5.0))))
        lines = [[short[k]] if self.inside[k] else wrap_name(name, letters) for k, name in enumerate(names)]
        self.lines = [list(map(_plain, part)) for part in lines]
        self.inside_size = [min(self.size + 2.0, 1.75 * within / (LETTER * len(lines[0]))) for lines in self.lines]
        wide = [0.5 * LETTER * self.size * max(map(len, lines)) for lines in self.lines]
        aside = np.where(self.inside, self.around, np.maximum(self.around, wide))
        down = np.where(self.inside, 0.0, [1.12 * self.size * len(lines) for lines in self.lines])
        self.boxes = np.column_stack([aside, self.around, aside, self.around + down]).reshape(-1, 4)
        """(nodes, 4): how far circle and name reach to the left, up, right and down."""


def _draw_edges(ax: Axes, part: Subgraph, places: np.ndarray, nodes: _Nodes, widest: float, *, labeled: bool) -> None:
    """Draw edges, weak ones first and faded, with their weights where these are wanted."""
    from matplotlib.patches import PathPatch

    network, seen = part.network, Counter[tuple[int, ...]]()
    pairs = Counter(tuple(sorted(pair)) for pair in part.ends.tolist())
    largest = float(part.strengths.max(initial=0.0)) or 1.0
    for order, (edge, (a, b)) in enumerate(zip(part.edges.tolist(), part.ends.tolist(), strict=True)):
        pair = tuple(sorted((a, b)))
        bend = 0.2 * ((pairs[pair] - 1) / 2 - seen[pair])  # several edges of two columns, over links, are side by side
        seen[pair] += 1
        curve, middle = _curve(places[a], places[b], float(nodes.around[a]), bend)
        strength, sign = float(network.strengths[edge]), int(network.signs[edge])
        share = strength / largest
        width = (0.5 + (widest - 0.5) * share) * POINTS_PER_PIXEL
        dashes = (0, (1.6 + 2.4 / width, 1 + 1.6 / width)) if sign < 0 else "-"
        look = {"linewidth": width, "linestyle": dashes, "alpha": 0.3 + 0.6 * share**0.7}
        depth = 1.9 - 0.8 * order / max(len(part.edges), 1)
        ax.add_patch(PathPatch(curve, fill=False, edgecolor=SIGN_COLORS[sign], zorder=depth, **look))
        if labeled:
            weight = -strength if sign < 0 else strength
            text = f"{weight:.2f}" if strength >= 0.005 or strength == 0 else f"{weight:.2g}"
            size = max(0.8 * nodes.size, 7.0)
            _text(ax, middle[0], middle[1], text.replace("-", "\u2212"), size, SIGN_COLORS[sign], zorder=4)


def _draw_nodes(
    ax: Axes, part: Subgraph, places: np.ndarray, nodes: _Nodes, groups: Groups, rings: Mapping[str, float]
) -> None:
    from matplotlib.patches import Circle, Wedge

    for k, (node, (x, y)) in enumerate(zip(part.nodes, places.tolist(), strict=True)):
        radius, outer, color = float(nodes.radii[k]), float(nodes.around[k]), group_color(groups.of(node))
        share = rings.get(part.names[k])
        if share is not None:
            ax.add_patch(Wedge((x, y), outer, 0, 360, width=outer - radius, fc=PALE, ec=WHITE, lw=0.6, zorder=2.4))
            ax.add_patch(Wedge((x, y), outer, -90, -90 + 360 * share, width=outer - radius, fc=INK, zorder=2.5))
        ax.add_patch(Circle((x, y), radius, fc=color, ec=WHITE, lw=0.9, zorder=2.6))
        if nodes.inside[k]:
            look = {"fontsize": nodes.inside_size[k] * POINTS_PER_PIXEL, "color": text_on(color)}
            ax.text(x, y, nodes.lines[k][0], ha="center", va="center", zorder=5, **look)
            continue
        for row, line in enumerate(nodes.lines[k]):
            _text(ax, x, y + outer + nodes.size * (0.75 + 1.12 * row), line, nodes.size, INK, zorder=5)


def _plain(text: str) -> str:
    """Return text without control characters, which no SVG file has, and with dollar signs that begin no formula."""
    return visible(text).replace("$", r"\$")


def _text(ax: Axes, x: float, y: float, words: str, size: float, color: str, *, zorder: float) -> None:
    """Draw centered text on a white ground; an outline of its letters would not be text in an SVG file."""
    ground = {"boxstyle": "round,pad=0.05", "facecolor": WHITE, "edgecolor": "none", "alpha": 0.7}
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
