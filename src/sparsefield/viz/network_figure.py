"""This module draws a network as a static figure: circles are columns, and wider lines are stronger edges.

The figure is laid out for its size in print, so that names can be read at that size.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparsefield.errors import DataError
from sparsefield.viz.feature_sentences import name_features
from sparsefield.viz.figure_legend import Legend, LegendItem
from sparsefield.viz.figure_options import FigureOptions, Position
from sparsefield.viz.network import Subgraph
from sparsefield.viz.network_view import NetworkView
from sparsefield.viz.node_labels import (
    ALL_NAMED,
    LINES,
    SMALLEST,
    NodeLabel,
    beside_labels,
    box_area,
    label_boxes,
    names_inside,
    overlap,
    size_inside,
    wrap_names,
)
from sparsefield.viz.node_positions import MIN_GROUPED, layout_nodes, separate_labels
from sparsefield.viz.node_rings import RING_WIDTH, draw_ring
from sparsefield.viz.palette import GREY, GROUPS, LIGHT, NEUTRAL, SIGN_COLORS, WHITE, group_color, text_on
from sparsefield.viz.short_names import shorten_all
from sparsefield.viz.svg import Drawing, text_width

Array = np.ndarray

MAX_NODES = 300
"""Columns of a figure; of a wider field, the backbone around its strongest edges."""

MAX_WITH_ISOLATED = 60
"""Columns up to which a figure also shows those without edges."""

MIN_EDGES, EDGES_PER_NODE = 200, 1.5
"""Edges of a figure: at least so many, and so many per column."""

MAX_SEPARATED = 150
"""Columns up to which a layout makes room for the names."""

MAX_STRETCH = 1.35
"""Largest ratio of the two scales that fit a layout into its frame."""

PIXELS_PER_NODE = 2200.0
"""Area that a column needs with its name; a figure of which only the width is given is as high as its columns need."""

LOWEST, HIGHEST = 0.6, 1.2
"""Bounds of the height of the network in such a figure, as shares of the width."""

MAX_HIDDEN = 0.2
"""Share of the weight of an edge that may be hidden by circles, names and other weights; else it is not drawn."""

ROUNDS = 8
"""Largest number of times that labels are moved apart and fitted into the frame."""

HIDDEN_NAMES = 0.03
"""Share of the area of names that may be hidden; else they are shortened."""

MAX_LABELED = 15
"""Edges beyond which some weights may not be drawn, which the legend says."""

SIGN_WORDS = {1: "positive", -1: "negative", 0: "no sign"}


@dataclass(frozen=True)
class NetworkFigure:
    """A figure of a network: what is drawn, and where."""

    view: NetworkView
    options: FigureOptions
    title: str = ""
    """Drawn above the network; nothing if empty."""
    label: str = "Network"
    """What screen readers read."""

    @cached_property
    def part(self) -> Subgraph:
        """The columns and edges that are drawn: the strongest, and those that keep columns connected."""
        network = self.view.whole.network
        limit = min(network.n_variables + len(network.field.layout.tables), MAX_NODES)
        most = self.options.max_edges
        found = network.overview(limit, max(MIN_EDGES, round(EDGES_PER_NODE * limit)) if most is None else most)
        edges = found.edges if most is None else found.edges[:most]
        joined = set(network.ends[edges].ravel().tolist())
        with_isolated = network.n_variables <= MAX_WITH_ISOLATED
        return Subgraph(network, tuple(node for node in found.nodes if with_isolated or node in joined), edges)

    @cached_property
    def size(self) -> tuple[float, float]:
        """Width and height in pixels."""
        width, height = self.options.size
        if self.options.width_mm is None or self.options.height_mm is not None:
            return width, height
        needed = PIXELS_PER_NODE * len(self.part.nodes) / width
        return width, min(max(needed, LOWEST * width), HIGHEST * width) + self._above + 10.0 + self.legend.height

    @property
    def _above(self) -> float:
        """Height of the title."""
        return 12.0 + (24.0 if self.title else 0.0)

    @cached_property
    def legend(self) -> Legend:
        """What colors, lines and rings mean."""
        part, options = self.part, self.options
        if not options.legend or not len(part.edges):
            return Legend((), options.size[0])
        signs = [sign for sign in (1, -1, 0) if (part.network.signs[part.edges] == sign).any()]
        items = [LegendItem("line", SIGN_WORDS[sign], SIGN_COLORS[sign], dashed=sign < 0) for sign in signs]
        items.append(LegendItem("text", self._describe_edges()))
        if options.edge_labels and len(part.edges) > MAX_LABELED:
            items.append(LegendItem("text", "weights where there is room"))
        items += self._group_items()
        if options.rings:
            items.append(LegendItem("ring", options.ring_title))
        drawn = set(part.names)
        absent = [name for name in self.view.without_edges if name not in drawn]
        if absent:
            items.append(LegendItem("text", f"no edges: {list_some(absent, 4)}"))
        return Legend(tuple(items), options.size[0])

    def _group_items(self) -> list[LegendItem]:
        """Return what the colors mean; nothing where all columns have one color."""
        if len(set(self.colors)) < 2:
            return []
        present = set(self.groups.tolist())
        groups = [(k, name) for k, name in enumerate(self.view.groups) if k in present and k < len(GROUPS)]
        numbered = all(name.isdecimal() for _, name in groups)
        words = [f"community {name}" if numbered and not j else name for j, (_, name) in enumerate(groups)]
        items = [LegendItem("dot", word, group_color(k)) for word, (k, _) in zip(words, groups, strict=True)]
        others = NEUTRAL in self.colors and any(k >= len(GROUPS) for k in present if k < len(self.view.groups))
        return [*items, LegendItem("dot", "others", NEUTRAL)] if others else items

    def _describe_edges(self) -> str:
        drawn, total = len(self.part.edges), len(self.view.whole.edges)
        which = "" if drawn == total else f"{drawn:,} of {total:,} edges; "
        return f"{which}width: strength, up to {format_weight(float(self.part.strengths.max()))}"

    @cached_property
    def groups(self) -> Array:
        """(nodes,): the number of the group of each node."""
        return self.view.group_of(self.part)

    @cached_property
    def colors(self) -> list[str]:
        """Colors of the nodes: gray for those in no group of the legend."""
        return [group_color(group) if group < len(self.view.groups) else NEUTRAL for group in self.groups.tolist()]

    @cached_property
    def frame(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of the area of the network."""
        width, height = self.size
        return 10.0, self._above, width - 10.0, height - 10.0 - self.legend.height

    @property
    def room(self) -> float:
        """The side of the square that each node has on average."""
        left, top, right, bottom = self.frame
        return math.sqrt(max(right - left, 1.0) * max(bottom - top, 1.0) / max(len(self.part.nodes), 1))

    @property
    def name_size(self) -> float:
        """Size of names beside circles: 6 points in a column of print, more in a larger figure."""
        return min(max(8.5 + (self.options.size[0] - 340.0) * 3.0 / 560.0, 8.0), 12.0)

    @cached_property
    def inside(self) -> Array:
        """(nodes,): whether the name of a column is within its circle; else it is beside."""
        return names_inside(self.part.names, self._inside_radius, self.options.names)

    @property
    def _inside_radius(self) -> float:
        return min(max(0.23 * self.room, 7.0), 18.0)

    @cached_property
    def radii(self) -> Array:
        """(nodes,): radii of the circles; without names within, they grow with the total strength of the edges."""
        if self.inside.any():
            return np.full(len(self.part.nodes), self._inside_radius)
        total = self.part.total_strengths
        share = np.sqrt(total / total.max()) if total.any() else np.zeros(len(total))
        return min(max(0.13 * self.room, 3.0), 10.0) * (0.55 + 0.45 * share)

    @property
    def places(self) -> Array:
        """(nodes, 2): centers of the circles in pixels."""
        return self._arranged[0]

    @property
    def labels(self) -> list[NodeLabel]:
        """Names beside circles."""
        return self._arranged[1]

    @cached_property
    def _arranged(self) -> tuple[Array, list[NodeLabel]]:
        """The centers of the circles, and the names beside them, as long as there is room for them."""
        part, outside = self.part, ~self.inside
        rings = self.options.rings or {}
        around = self.radii * np.array([1 + RING_WIDTH if name in rings else 1.0 for name in part.names])
        ranked = np.lexsort((np.arange(len(part.nodes)), -part.total_strengths))
        order = ranked[outside[ranked]].tolist()
        letters = self.room / text_width("n", self.name_size)
        widths = [width for width in LINES if 0.8 * letters <= width <= 1.6 * letters] or [
            LINES[-1 if letters < 9 else 0]
        ]
        best: tuple[Array, list[NodeLabel]] | None = None
        least = math.inf
        for width in widths[:1] if len(part.nodes) > ALL_NAMED else widths:
            lines = wrap_names(part.names, width)
            places = self._place(lines)
            labels, hidden = beside_labels(part.names, lines, places, around, self.name_size, self.frame, order)
            if best is None or hidden < 0.6 * least:  # shorter names must be worth it
                best, least = (places, labels), hidden
            if least <= HIDDEN_NAMES * sum(box_area(label.box) for label in labels):
                break
        assert best is not None
        return best

    @cached_property
    def _unseparated(self) -> Array:
        part, seed = self.part, self.options.seed
        groups = self.groups if len(part.nodes) > MIN_GROUPED else None
        return self._fit(layout_nodes(len(part.nodes), part.ends, part.strengths, groups, seed=seed))

    def _place(self, lines: Sequence[Sequence[str]]) -> Array:
        """Return (nodes, 2) the centers of the circles, where names of the given lines have room."""
        if self.options.layout is not None:
            return self._given_places(self.options.layout)
        if len(self.part.nodes) > MAX_SEPARATED:
            return self._unseparated
        boxes = label_boxes(lines, self.inside, self.radii, self.name_size)
        places = self._unseparated
        for _ in range(ROUNDS):  # to fit into the frame brings labels together again, but less each time
            moved = separate_labels(places, *boxes, steps=max(6000 // max(len(places), 1), 40))
            if np.array_equal(moved, places):
                break
            places = self._fit(moved)
        return places

    def _given_places(self, layout: Mapping[str, Position]) -> Array:
        absent = [name for name in self.part.names if name not in layout]
        if absent:
            listed = ", ".join(map(repr, absent[:5])) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
            raise DataError(f"The layout has no position of {listed}: add it, or leave the layout out.")
        scaled = dict(zip(layout, self._fit(np.array(list(layout.values()), dtype=float), stretch=1.0), strict=True))
        return np.array([scaled[name] for name in self.part.names]).reshape(-1, 2)

    def _fit(self, positions: Array, stretch: float = MAX_STRETCH) -> Array:
        """Return positions that fill the frame; ``stretch`` bounds the ratio of the scales of the two directions."""
        left, top, right, bottom = self.frame
        radius = float(self.radii.max(initial=0.0)) + 4.0
        aside = radius if self.inside.all() else max(radius, 30.0)
        low, high = positions.min(axis=0), positions.max(axis=0)
        room = np.array([right - left - 2 * aside, bottom - top - radius - max(radius, self.name_size + 8.0)])
        scales = np.where(high > low, room / np.maximum(high - low, 1e-9), np.inf)
        least = float(scales.min())
        scales = np.minimum(scales, stretch * least) if math.isfinite(least) else np.ones(2)
        middle = np.array([(left + right) / 2, (top + bottom + radius - max(radius, self.name_size + 8.0)) / 2])
        return (positions - (low + high) / 2) * np.where(np.isfinite(scales), scales, 1.0) + middle

    # -- drawing -----------------------------------------------------------------------------------------------------

    def draw(self) -> Drawing:
        """Return the figure as a drawing."""
        drawing = Drawing(*self.size, self.label, card=False, in_mm=self.options.in_mm)
        if self.title:
            drawing.text(14, 24, self.title, size=15, room=self.options.size[0] - 28, font_weight=600)
        if not len(self.part.edges):
            drawing.text(14, 48, "No two columns share a feature.", fill=GREY)
        if self.part.nodes:
            self._draw_edges(drawing)
            self._draw_nodes(drawing)
            self._draw_names(drawing)
        self.legend.draw(drawing, self.size[1] - 8.0 - self.legend.height)
        return drawing

    def _draw_edges(self, drawing: Drawing) -> None:
        """Draw edges, weak ones first and faded, then their labels."""
        part, network = self.part, self.part.network
        largest = float(part.strengths.max(initial=0.0)) or 1.0
        widest = min(max(0.11 * self.room, 1.8), 8.0)
        pairs = Counter(tuple(sorted(ends)) for ends in part.ends.tolist())
        seen: Counter[tuple[int, ...]] = Counter()
        labels: list[EdgeLabel] = []
        for edge, (a, b) in reversed(list(zip(part.edges.tolist(), part.ends.tolist(), strict=True))):
            share, sign, key = float(network.strengths[edge]) / largest, int(network.signs[edge]), tuple(sorted((a, b)))
            bend = 0.0 if pairs[key] == 1 else 0.18 * (seen[key] - (pairs[key] - 1) / 2)
            seen[key] += 1
            width = 0.5 + (widest - 0.5) * share
            style: dict[str, object] = {"stroke": SIGN_COLORS[sign], "stroke_width": width, "fill": "none"}
            style |= {"stroke_opacity": 0.3 + 0.6 * share**0.7, "hint": self._hint(edge)}
            style |= {"stroke_dasharray": f"{1.6 * width + 2.4:.1f} {width + 1.6:.1f}"} if sign < 0 else {}
            curve = _draw_edge(drawing, self.places[a], self.places[b], float(self.radii[a]), bend, style)
            labels.append(EdgeLabel(float(network.strengths[edge]), sign, curve))
        if self.options.edge_labels:
            self._draw_edge_labels(drawing, labels[::-1])

    def _hint(self, edge: int) -> str:
        features = name_features(self.part.network.field, self.part.network.feature_numbers(edge)[:6])
        return "; ".join(f"{feature.name}: {feature.weight:+.2f}" for feature in features)

    def _draw_edge_labels(self, drawing: Drawing, labels: Sequence[EdgeLabel]) -> None:
        """Draw the weights of edges, the strongest first, each where it hides no circle, name or other weight."""
        size = max(0.8 * self.name_size, 7.0)
        style: dict[str, Any] = {
            "text_anchor": "middle", "stroke": WHITE, "stroke_width": 2.5, "paint_order": "stroke",
        }  # fmt: skip
        for label, place in zip(labels, self._weight_places(labels, size), strict=True):
            if place is not None:
                fill = {1: LIGHT.positive_text, -1: LIGHT.negative_text, 0: GREY}[label.sign]
                drawing.text(place[0], place[1] + 0.35 * size, label.text, size=size, fill=fill, **style)

    def _weight_places(self, labels: Sequence[EdgeLabel], size: float) -> list[Position | None]:
        """Return the centers of the weights of edges; None where there is no room."""
        taken = np.column_stack([self.places - self.radii[:, None], self.places + self.radii[:, None]]).tolist()
        taken += [label.box for label in self.labels]
        found: list[Position | None] = []
        for label in labels:
            half = 0.44 * text_width(label.text, size)
            spots = [label.point(share) for share in (0.5, 0.42, 0.58, 0.34, 0.66, 0.28, 0.72)]
            boxes = [(x - half, y - 0.55 * size, x + half, y + 0.55 * size) for x, y in spots]
            hidden = [overlap(box, taken) for box in boxes]
            best = int(np.argmin(hidden))
            has_room = hidden[best] <= MAX_HIDDEN * 2.2 * half * size
            taken += [boxes[best]] if has_room else []
            found.append(spots[best] if has_room else None)
        return found

    def _draw_nodes(self, drawing: Drawing) -> None:
        """Draw circles, and the rings of those columns that have one."""
        rings = self.options.rings or {}
        for k, name in enumerate(self.part.names):
            (x, y), radius = self.places[k].tolist(), float(self.radii[k])
            drawing.circle(x, y, radius, fill=self.colors[k], stroke=WHITE, stroke_width=1.2, hint=name)
            share = rings.get(name)
            if share is not None:
                draw_ring(drawing, x, y, radius, share, f"{name}: {share:.0%}")

    def _draw_names(self, drawing: Drawing) -> None:
        style: dict[str, Any] = {"stroke": WHITE, "stroke_width": 3, "paint_order": "stroke"}
        for label in self.labels:
            hint: dict[str, Any] = {} if label.is_whole else {"hint": label.name}
            for line, y in label.lines:
                drawing.text(label.x, y, line, size=self.name_size, text_anchor=label.anchor, **style, **hint)
        self._draw_names_inside(drawing)

    def _draw_names_inside(self, drawing: Drawing) -> None:
        """Draw each name as large as its circle allows."""
        longest = max(4, int(1.8 * self._inside_radius / (0.58 * SMALLEST)))
        inside = np.flatnonzero(self.inside).tolist()
        for k, label in zip(inside, shorten_all([self.part.names[k] for k in inside], longest), strict=True):
            size = size_inside(label, self._inside_radius, self.name_size + 2.0) or 5.0
            x, y = self.places[k].tolist()
            style: dict[str, Any] = {"text_anchor": "middle", "fill": text_on(self.colors[k]), "class": "on"}
            style |= {} if label == self.part.names[k] else {"hint": self.part.names[k]}
            drawing.text(x, y + 0.35 * size, label, size=size, **style)


def list_some(names: Sequence[str], most: int) -> str:
    """Return the first names, shortened, and the number of the others.

    Examples
    --------
    >>> list_some(["age", "sex", "town"], 2)
    'age, sex and 1 more'
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(shorten_all(names[:most], LINES[0])) + more


def format_weight(value: float) -> str:
    """Return a weight with two decimals; with two significant digits where it would be 0.00.

    Examples
    --------
    >>> format_weight(-0.254), format_weight(0.00321)
    ('−0.25', '0.0032')
    """
    text = f"{value:.2f}" if abs(value) >= 0.005 or value == 0 else f"{value:.2g}"
    return text.replace("-", "\u2212")


@dataclass(frozen=True)
class EdgeLabel:
    """The weight of an edge and the curve along which it may be drawn: start, control point and end."""

    strength: float
    sign: int
    curve: tuple[Position, Position, Position]

    @property
    def text(self) -> str:
        """The signed weight; the strength where there is no sign."""
        return format_weight(self.sign * self.strength if self.sign else self.strength)

    def point(self, share: float) -> Position:
        """Return a point of the curve: 0 is its start, 1 its end."""
        parts = ((1 - share) ** 2, 2 * share * (1 - share), share**2)
        x, y = (sum(part * place[axis] for part, place in zip(parts, self.curve, strict=True)) for axis in (0, 1))
        return x, y


def _draw_edge(
    drawing: Drawing, start: Array, end: Array, radius: float, bend: float, style: dict[str, object]
) -> tuple[Position, Position, Position]:
    """Draw an edge, a loop or one of several curves between two nodes, and return its start, control point and end."""
    (x1, y1), (x2, y2) = start.tolist(), end.tolist()
    if (x1, y1) == (x2, y2):
        size = max(0.9 * radius, 6.0)
        drawing.circle(x1, y1 - radius - 0.5 * size, size, **style)
        top = x1, y1 - radius - 1.5 * size
        return top, top, top
    x, y = (x1 + x2) / 2 + bend * (y2 - y1), (y1 + y2) / 2 - bend * (x2 - x1)
    if bend:
        drawing.path(f"M{x1:.2f} {y1:.2f}Q{x:.2f} {y:.2f} {x2:.2f} {y2:.2f}", **style)
    else:
        drawing.line(x1, y1, x2, y2, **style)
    return (x1, y1), (x, y), (x2, y2)
