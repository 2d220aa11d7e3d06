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
from sparsefield.viz.node_labels import beside_labels, fit_inside, label_boxes, overlap
from sparsefield.viz.node_positions import MIN_GROUPED, layout_nodes, separate_labels
from sparsefield.viz.node_rings import RING_WIDTH, draw_ring
from sparsefield.viz.palette import GREY, LIGHT, NEUTRAL, SIGN_COLORS, WHITE, group_color, text_on
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
    def legend(self) -> Legend:
        """What colors, lines and rings mean."""
        part, options = self.part, self.options
        if not options.legend or not len(part.edges):
            return Legend((), options.size[0])
        signs = [sign for sign in (1, -1, 0) if (part.network.signs[part.edges] == sign).any()]
        items = [LegendItem("line", SIGN_WORDS[sign], SIGN_COLORS[sign], dashed=sign < 0) for sign in signs]
        items.append(LegendItem("text", self._describe_edges()))
        present = set(self.groups.tolist())
        groups = [(k, name) for k, name in enumerate(self.view.groups) if k in present]
        if len(groups) > 1 or self.view.given_communities is not None:
            items += [LegendItem("dot", name, group_color(k)) for k, name in groups]
        if options.rings:
            items.append(LegendItem("ring", options.ring_title))
        return Legend(tuple(items), options.size[0])

    def _describe_edges(self) -> str:
        drawn, total = len(self.part.edges), len(self.view.whole.edges)
        which = "" if drawn == total else f"{drawn:,} of {total:,} edges; "
        return f"{which}width: strength, up to {float(self.part.strengths.max()):.2f}"

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
        width, height = self.options.size
        top = 12.0 + (24.0 if self.title else 0.0)
        return 10.0, top, width - 10.0, height - 10.0 - self.legend.height

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
    def inside_size(self) -> float | None:
        """Size of names within circles; None where they are beside."""
        if self.options.names == "beside":
            return None
        found = fit_inside(self.part.names, self._inside_radius, self.name_size + 1.0)
        return found if found is not None or self.options.names == "auto" else 5.0

    @property
    def _inside_radius(self) -> float:
        return min(max(0.23 * self.room, 7.0), 22.0)

    @cached_property
    def radii(self) -> Array:
        """(nodes,): radii of the circles; those with names beside them grow with the total strength of their edges."""
        if self.inside_size is not None:
            return np.full(len(self.part.nodes), self._inside_radius)
        total = self.part.total_strengths
        share = np.sqrt(total / total.max()) if total.any() else np.zeros(len(total))
        return min(max(0.13 * self.room, 3.0), 10.0) * (0.55 + 0.45 * share)

    @cached_property
    def places(self) -> Array:
        """(nodes, 2): centers of the circles in pixels."""
        if self.options.layout is not None:
            return self._given_places(self.options.layout)
        part, seed = self.part, self.options.seed
        groups = self.groups if len(part.nodes) > MIN_GROUPED else None
        places = self._fit(layout_nodes(len(part.nodes), part.ends, part.strengths, groups, seed=seed))
        if len(part.nodes) > MAX_SEPARATED:
            return places
        widths, height = label_boxes(part.names, self.radii, self.inside_size, self.name_size)
        return self._fit(separate_labels(places, widths, height))

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
        aside = radius if self.inside_size is not None else max(radius, 34.0)
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
        drawing = Drawing(*self.options.size, self.label, card=False, in_mm=self.options.in_mm)
        if self.title:
            drawing.text(14, 24, self.title, size=15, room=self.options.size[0] - 28, font_weight=600)
        if not len(self.part.edges):
            drawing.text(14, 48, "No two columns share a feature.", fill=GREY)
        if self.part.nodes:
            self._draw_edges(drawing)
            self._draw_nodes(drawing)
            self._draw_names(drawing)
        self.legend.draw(drawing, self.options.size[1] - 8.0 - self.legend.height)
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
        """Draw the weights of edges, the strongest first, each where it hides no circle and no other weight."""
        size = max(0.8 * self.name_size, 7.0)
        style: dict[str, Any] = {
            "text_anchor": "middle", "stroke": WHITE, "stroke_width": 2.5, "paint_order": "stroke",
        }  # fmt: skip
        taken = np.column_stack([self.places - self.radii[:, None], self.places + self.radii[:, None]]).tolist()
        for label in labels:
            half = text_width(label.text, size) / 2
            spots = [label.point(share) for share in (0.5, 0.42, 0.58, 0.34, 0.66, 0.28, 0.72)]
            boxes = [(x - half, y - 0.6 * size, x + half, y + 0.6 * size) for x, y in spots]
            best = int(np.argmin([overlap(box, taken) for box in boxes]))
            taken.append(boxes[best])
            (x, y), fill = spots[best], {1: LIGHT.positive_text, -1: LIGHT.negative_text, 0: GREY}[label.sign]
            drawing.text(x, y + 0.35 * size, label.text, size=size, fill=fill, **style)

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
        if self.inside_size is not None:
            self._draw_names_inside(drawing, self.inside_size)
            return
        rings = self.options.rings or {}
        radii = self.radii * np.array([1 + RING_WIDTH if name in rings else 1.0 for name in self.part.names])
        ranks = self.part.total_strengths
        labels = beside_labels(self.part.names, self.places, radii, self.name_size, self.frame, ranks)
        style: dict[str, Any] = {"stroke": WHITE, "stroke_width": 3, "paint_order": "stroke"}
        for label in labels:
            hint: dict[str, Any] = {} if label.is_whole else {"hint": label.name}
            for line, y in label.lines:
                drawing.text(label.x, y, line, size=self.name_size, text_anchor=label.anchor, **style, **hint)

    def _draw_names_inside(self, drawing: Drawing, smallest: float) -> None:
        """Draw each name as large as its circle allows."""
        longest = max(4, int(1.8 * self._inside_radius / (0.58 * smallest)))
        for k, label in enumerate(shorten_all(self.part.names, longest)):
            size = fit_inside([label], self._inside_radius, self.name_size + 2.0) or smallest
            x, y = self.places[k].tolist()
            style: dict[str, Any] = {"text_anchor": "middle", "fill": text_on(self.colors[k]), "class": "on"}
            style |= {} if label == self.part.names[k] else {"hint": self.part.names[k]}
            drawing.text(x, y + 0.35 * size, label, size=size, **style)


@dataclass(frozen=True)
class EdgeLabel:
    """The weight of an edge and the curve along which it may be drawn: start, control point and end."""

    strength: float
    sign: int
    curve: tuple[Position, Position, Position]

    @property
    def text(self) -> str:
        """The signed weight; the strength where there is no sign."""
        value = self.sign * self.strength if self.sign else self.strength
        return f"{value:.2f}".replace("-", "\u2212")

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
