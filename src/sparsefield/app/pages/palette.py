"""This module holds the colors of all pages and figures, for light and dark pages, and writes them as a style sheet.

Blue means positive, orange negative, and gray that there is no sign. Blue and orange are those of Okabe and Ito: they
differ for every kind of color vision, and in gray. The colors of groups follow the muted scheme of Paul Tol.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

FONT = "Inter, 'Segoe UI', 'Helvetica Neue', Helvetica, Arial, sans-serif"
INK, GREY, PALE, WHITE = "#1f2430", "#5b6472", "#e4e7ec", "#ffffff"
BLUE, ORANGE, NEUTRAL = "#0072b2", "#d55e00", "#868e99"
"""Positive weights, negative weights, and weights without a sign: of both signs, or of states that have no order."""

SIGN_COLORS = {1: BLUE, -1: ORANGE, 0: NEUTRAL}
"""Colors by the sign of an edge."""

GROUPS = (
    "#44aa99", "#ddcc77", "#aa4499", "#88ccee", "#999933", "#d9788a", "#1f7d3d", "#a23b6f", "#7568b8",
)  # fmt: skip
"""Colors of groups of nodes, the largest group first; none is close to the colors of edges. Further groups are gray."""

CURVES = (
    BLUE, ORANGE, "#2f7f79", "#7a5195", "#b5598f", "#7d7f1f", "#7c5b3b", "#4d5f83", "#3d8c40", "#a04a4a", "#5aa3a0",
    "#a98bc4", "#d28cb4", "#a9ab55",
)  # fmt: skip
"""Colors of curves, which must be darker than areas to be seen."""


@dataclass(frozen=True)
class Theme:
    """The colors of a page; each is a custom property of the style sheet, such as ``--positive-text``."""

    ink: str
    """Text."""
    soft: str
    """Text of less importance."""
    back: str
    """The page."""
    card: str
    """Cards and figures on the page."""
    sunken: str
    """Areas within a card: heads of tables, tracks of bars."""
    line: str
    """Lines between parts."""
    edge: str
    """Borders of controls."""
    accent: str
    """Links and chosen controls."""
    positive: str
    negative: str
    neutral: str
    positive_text: str
    """Text in the color of positive weights, darker or lighter than areas so that it can be read."""
    negative_text: str
    positive_tint: str
    """A pale area behind something chosen."""
    warn_back: str
    warn_text: str
    warn_line: str
    code_back: str
    code_text: str
    faint: str
    """Nodes and edges that are not in focus."""
    group_line: str
    """Outlines of nodes."""


LIGHT = Theme(
    ink=INK, soft=GREY, back="#f5f6f8", card=WHITE, sunken="#eef0f4", line=PALE, edge="#c8ced8", accent="#0b5c8f",
    positive=BLUE, negative=ORANGE, neutral=NEUTRAL, positive_text="#0b5c8f", negative_text="#a94800",
    positive_tint="#e6f1f8", warn_back="#fdf4e3", warn_text="#6b4310", warn_line="#e69f00", code_back="#1f2430",
    code_text="#f3f4f7", faint="#cdd2db", group_line=WHITE,
)  # fmt: skip

DARK = Theme(
    ink="#e8eaf0", soft="#a3acbb", back="#12151b", card="#1a1e26", sunken="#252a34", line="#2d333f", edge="#454d5c",
    accent="#7cc4f2", positive="#4ba6dd", negative="#ee8136", neutral="#8d96a4", positive_text="#7cc4f2",
    negative_text="#f7a468", positive_tint="#17303f", warn_back="#33270f", warn_text="#f4d9a6", warn_line="#e69f00",
    code_back="#0c0e12", code_text="#e8eaf0", faint="#3d4451", group_line="#1a1e26",
)  # fmt: skip


def style_variables() -> str:
    """Return a style sheet with the colors as custom properties: light, dark where the reader prefers it, or as chosen.

    An attribute ``data-theme`` of the root element, "light" or "dark", overrides the preference of the reader's system.
    Paper is light.

    Examples
    --------
    >>> "--positive: #0072b2;" in style_variables()
    True
    """
    light = f"color-scheme: light; --font: {FONT}; {_declare(LIGHT)}"
    dark = f"color-scheme: dark; {_declare(DARK)}"
    return (
        f":root {{ {light} }}\n"
        f'@media screen and (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {{ {dark} }} }}\n'
        f'@media screen {{ :root[data-theme="dark"] {{ {dark} }} }}\n'
    )


def figure_style() -> str:
    """Return a style sheet that gives figures within a page the colors of its theme.

    Figures have light colors as attributes of their shapes, which a style sheet overrides. Text on a colored area has
    the class "on" and keeps its color.
    """
    parts = []
    for name in ("ink", "soft", "card", "line", "sunken", "positive", "negative", "neutral"):
        color, use = getattr(LIGHT, name), f"var(--{name})"
        parts.append(f'svg [fill="{color}"]:not(.on) {{ fill: {use}; }} svg [stroke="{color}"] {{ stroke: {use}; }}')
    return "\n".join(parts) + "\n"


def _declare(theme: Theme) -> str:
    return " ".join(f"--{name.replace('_', '-')}: {color};" for name, color in asdict(theme).items())


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
    linear = [(value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4) for value in _shares(color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _shares(color: str) -> list[float]:
    return [channel / 255 for channel in _channels(color)]


def _channels(color: str) -> list[int]:
    return [int(color[k : k + 2], 16) for k in (1, 3, 5)]
