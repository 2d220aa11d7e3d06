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

from sparsefield.analysis.feature_sentences import name_features
from sparsefield.analysis.network import Subgraph
from sparsefield.app.pages.edge_curves import EdgeCurve, bend_around, bend_line, draw_curve, draw_loop, place_weights
from sparsefield.app.pages.figure_legend import Legend, LegendItem
from sparsefield.app.pages.figure_options import FigureOptions, Position
from sparsefield.app.pages.network_view import NetworkView
from sparsefield.app.pages.node_labels import (
    ALL_NAMED,
    LINES,
    SMALLEST,
    NodeLabel,
    beside_labels,
    box_area,
    label_boxes,
    names_inside,
    size_inside,
    wrap_names,
)
from sparsefield.app.pages.node_positions import MIN_GROUPED, layout_nodes, separate_labels
from sparsefield.app.pages.node_rings import RING_WIDTH, draw_ring
from sparsefield.app.pages.palette import GREY, GROUPS, LIGHT, NEUTRAL, SIGN_COLORS, WHITE, group_color, text_on
from sparsefield.app.pages.short_names import shorten_all
from sparsefield.app.pages.svg import Drawing, text_width
from sparsefield.errors import DataError

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

PIXELS_PER_EDGE, PIXELS_PER_WEIGHT = 1000.0, 2200.0
"""Area that an edge needs in a legible figure, without and with its weight."""

LOWEST, HIGHEST = 0.6, 1.2
"""Bounds of the height of the network in such a figure, as shares of the width."""

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
        others = any(k >= len(GROUPS) for k in present if k < len(self.view.groups))
        none = any(k >= len(self.view.groups) for k in present)
        word = " or ".join(["others"] * others + ["no community"] * none)
        return [*items, LegendItem("dot", word, NEUTRAL)] if word else items

    @property
    def max_legible_edges(self) -> int:
        """Number of edges for which the figure has room, with their weights if these are drawn; a multiple of 5."""
        left, top, right, bottom = self.frame
        area = PIXELS_PER_WEIGHT if self.options.edge_labels else PIXELS_PER_EDGE
        return max(int((right - left) * (bottom - top) / area) // 5, 1) * 5

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
    def _around(self) -> Array:
        """(nodes,): radii of the circles with their rings."""
        rings = self.options.rings or {}
        return self.radii * np.array([1 + RING_WIDTH if name in rings else 1.0 for name in self.part.names])

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
        part, outside, around = self.part, ~self.inside, self._around
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
            curves = self._draw_edges(drawing)
            self._draw_nodes(drawing)
            if self.options.edge_labels:
                self._draw_weights(drawing, curves)
            self._draw_names(drawing)
        self.legend.draw(drawing, self.size[1] - 8.0 - self.legend.height)
        return drawing

    @cached_property
    def curves(self) -> list[EdgeCurve | None]:
        """The curves of the edges, bent where a straight line would be behind the circle of a third column.

        Several edges between the same columns are bent apart; an edge of a column with itself is None.
        """
        ends = self.part.ends.tolist()
        pairs = Counter(tuple(sorted(pair)) for pair in ends)
        seen: Counter[tuple[int, ...]] = Counter()
        found: list[EdgeCurve | None] = []
        for a, b in ends:
            key = tuple(sorted((a, b)))
            if pairs[key] == 1 and a != b:
                others = np.delete(np.arange(len(self.places)), [a, b])
                circles = self.places[others], self._around[others]
                found.append(bend_around(self.places[a], self.places[b], *circles, self.frame))
                continue
            bend = 0.18 * ((pairs[key] - 1) / 2 - seen[key])
            seen[key] += 1
            found.append(None if a == b else bend_line(self.places[a], self.places[b], bend))
        return found

    def _draw_edges(self, drawing: Drawing) -> list[EdgeCurve]:
        """Draw edges, weak ones first and faded, and return their curves, the strongest first."""
        part, network, drawn = self.part, self.part.network, []
        largest = float(part.strengths.max(initial=0.0)) or 1.0
        widest = min(max(0.11 * self.room, 1.8), 8.0)
        edges = zip(part.edges.tolist(), part.ends[:, 0].tolist(), self.curves, strict=True)
        for edge, node, curve in reversed(list(edges)):
            share, sign = float(network.strengths[edge]) / largest, int(network.signs[edge])
            width = 0.5 + (widest - 0.5) * share
            style: dict[str, object] = {"stroke": SIGN_COLORS[sign], "stroke_width": width, "fill": "none"}
            style |= {"stroke_opacity": 0.3 + 0.6 * share**0.7, "hint": self._hint(edge)}
            style |= {"stroke_dasharray": f"{1.6 * width + 2.4:.1f} {width + 1.6:.1f}"} if sign < 0 else {}
            if curve is None:
                curve = draw_loop(drawing, self.places[node], float(self.radii[node]), style)
            else:
                draw_curve(drawing, curve, style)
            drawn.append(curve)
        return drawn[::-1]

    def _hint(self, edge: int) -> str:
        features = name_features(self.part.network.field, self.part.network.feature_numbers(edge)[:6])
        return "; ".join(f"{feature.name}: {feature.weight:+.2f}" for feature in features)

    def _draw_weights(self, drawing: Drawing, curves: Sequence[EdgeCurve]) -> None:
        """Draw the signed weights of edges, or strengths without a sign, the strongest first, where there is room."""
        size, network = max(0.8 * self.name_size, 7.0), self.part.network
        style: dict[str, Any] = {
            "text_anchor": "middle", "stroke": WHITE, "stroke_width": 2.5, "paint_order": "stroke",
        }  # fmt: skip
        signs = network.signs[self.part.edges].tolist()
        weights = network.strengths[self.part.edges] * np.where(np.array(signs) < 0, -1.0, 1.0)
        texts, names = [format_weight(weight) for weight in weights.tolist()], [label.box for label in self.labels]
        places = place_weights(texts, curves, size, self.places, self._around, names, self.frame)
        for text, sign, place in zip(texts, signs, places, strict=True):
            if place is not None:
                fill = {1: LIGHT.positive_text, -1: LIGHT.negative_text, 0: GREY}[sign]
                drawing.text(place[0], place[1] + 0.35 * size, text, size=size, fill=fill, **style)

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
