"""Colors of pages and figures.

Blue means positive, orange negative, and gray that there is no sign. Blue and orange are those of Okabe and Ito: they
differ for every kind of color vision, and in gray. The colors of groups follow the muted scheme of Paul Tol. The style
sheet ``static/page.css`` has the same colors, and those of dark pages.
"""

from __future__ import annotations

INK, GREY, PALE, WHITE = "#1f2430", "#5b6472", "#e4e7ec", "#ffffff"
BLUE, ORANGE, NEUTRAL = "#0072b2", "#d55e00", "#868e99"
"""Positive weights, negative weights, and weights without a sign: of both signs, or of states that have no order."""

SIGN_COLORS = {1: BLUE, -1: ORANGE, 0: NEUTRAL}
"""Colors by the sign of an edge."""

GROUPS = (
    "#44aa99", "#ddcc77", "#aa4499", "#88ccee", "#999933", "#d9788a", "#1f7d3d", "#a23b6f", "#7568b8",
)  # fmt: skip
"""Colors of groups of nodes, the largest group first; none is close to the colors of edges. Further groups are gray."""


def group_color(group: int) -> str:
    """Return the color of a group by its number; gray beyond the known ones."""
    return GROUPS[group] if 0 <= group < len(GROUPS) else NEUTRAL


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colors as WCAG 2 defines it, from 1 to 21.

    Examples
    --------
    >>> round(contrast("#000000", "#ffffff"), 1)
    21.0
    """
    dark, light = sorted(_luminance(color) for color in (one, other))
    return (light + 0.05) / (dark + 0.05)


def text_on(color: str) -> str:
    """Return the color of text on an area: dark or white, whichever has more contrast."""
    return max((INK, WHITE), key=lambda text: contrast(text, color))


def _luminance(color: str) -> float:
    shares = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [(value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4) for value in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
