"""This module holds the colors of all pages and figures.

Blue and orange are those of Okabe and Ito: they differ for every kind of color vision, and in gray.
"""

from __future__ import annotations

from collections.abc import Sequence

FONT = "Inter, 'Segoe UI', 'Helvetica Neue', Helvetica, Arial, sans-serif"
INK, GREY, PALE, WHITE = "#1f2430", "#667085", "#e4e7ec", "#ffffff"
BLUE, ORANGE, MIXED = "#0072b2", "#d55e00", "#8a7fa8"
"""Positive weights, negative weights, and weights of both signs."""

GROUPS = (
    "#2f7f79", "#7a5195", "#b5598f", "#7d7f1f", "#7c5b3b", "#4d5f83", "#3d8c40", "#a04a4a", "#5aa3a0", "#a98bc4",
    "#d28cb4", "#a9ab55",
)  # fmt: skip
"""Colors of groups of nodes, the largest group first; none is close to the colors of edges. Further groups are gray."""


def blend(colors: Sequence[str], share: float) -> str:
    """Return a color between the given ones, which are spaced evenly: 0 is the first, 1 the last.

    Examples
    --------
    >>> blend(["#000000", "#ffffff"], 0.5)
    '#808080'
    """
    place = min(max(share, 0.0), 1.0) * (len(colors) - 1)
    left = min(int(place), len(colors) - 2)
    pairs = zip(_channels(colors[left]), _channels(colors[left + 1]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (place - left)):02x}" for a, b in pairs)


def diverging(value: float) -> str:
    """Return a color from orange (-1) over nearly white (0) to blue (1)."""
    return blend([ORANGE, "#f3b583", "#f7f7f5", "#8fc1e3", BLUE], 0.5 + value / 2)


def _channels(color: str) -> list[int]:
    return [int(color[k : k + 2], 16) for k in (1, 3, 5)]
