"""This module draws small charts for the cells of tables: distributions, shares, and weights with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from sparsefield.app.pages.palette import BLUE, GREY, INK, LIGHT, NEUTRAL, SIGN_COLORS
from sparsefield.data.schema import Variable

MAX_BARS = 12
"""Bars of a distribution: the values of a number are grouped into so many ranges of equal width."""

WHISKER_WIDTH, WHISKER_HEIGHT = 150.0, 16.0


def draw_bars(
    heights: Sequence[float], hints: Sequence[str], label: str, *, width: float = 150.0, height: float = 34.0
) -> str:
    """Return an SVG with a bar for each height and its tooltip; screen readers read the label.

    Examples
    --------
    >>> draw_bars([0.2, 0.8], ["no: 20%", "yes: 80%"], "distribution").count("<rect")
    2
    """
    step, most = width / max(len(heights), 1), max([*heights, 1e-12])
    bars = []
    for k, (size, hint) in enumerate(zip(heights, hints, strict=True)):
        tall = height * size / most
        place = f'x="{k * step:.1f}" y="{height - tall:.1f}" width="{max(step - 1, 0.5):.1f}" height="{tall:.1f}"'
        bars.append(f'<rect {place} fill="{BLUE}"><title>{escape(hint)}</title></rect>')
    base = f'<line x1="0" y1="{height:g}" x2="{width:g}" y2="{height:g}" stroke="{GREY}"/>'
    head = f'<svg width="{width:g}" height="{height + 1:g}" role="img" aria-label="{escape(label, quote=True)}">'
    return f"{head}{''.join(bars)}{base}</svg>"


def draw_distribution(variable: Variable, *, width: float = 92.0, height: float = 24.0) -> str:
    """Return a small chart of a column in training: bars of its states, or a histogram of its numbers."""
    label = f"distribution of {variable.name}"
    if variable.numeric and len(variable.states) > 2:
        return draw_bars(*_histogram(variable), label, width=width, height=height)
    pairs = list(zip(variable.states, variable.frequencies, strict=True))
    if not variable.ordered and len(pairs) > MAX_BARS:
        pairs = sorted(pairs, key=lambda pair: -pair[1])
    rest = sum(share for _, share in pairs[MAX_BARS - 1 :]) if len(pairs) > MAX_BARS else 0.0
    pairs = [*pairs[: MAX_BARS - 1], (f"{len(pairs) - MAX_BARS + 1:,} others", rest)] if rest else pairs
    hints = [f"{state}: {share:.1%}" for state, share in pairs]
    return draw_bars([share for _, share in pairs], hints, label, width=width, height=height)


def _histogram(variable: Variable) -> tuple[list[float], list[str]]:
    """Return shares and tooltips of ranges of equal width; a level counts where its middle is."""
    values = np.asarray(variable.states, dtype=float)
    edges = np.linspace(values.min(), values.max(), MAX_BARS + 1)
    shares, _ = np.histogram(values, edges, weights=np.asarray(variable.frequencies))
    hints = [f"{a:.4g} to {b:.4g}: {s:.1%}" for a, b, s in zip(edges[:-1], edges[1:], shares, strict=True)]
    return shares.tolist(), hints


def draw_share(share: float, hint: str, *, width: float = 92.0) -> str:
    """Return a bar that is filled by a share from 0 to 1."""
    filled = width * min(max(share, 0.0), 1.0)
    return (
        f'<svg width="{width:g}" height="9" role="img" aria-label="{escape(hint, quote=True)}">'
        f'<rect x="0" y="0" width="{width:g}" height="9" rx="3" fill="{LIGHT.sunken}"/>'
        f'<rect x="0" y="0" width="{filled:.1f}" height="9" rx="3" fill="{BLUE}"/></svg>'
    )


def draw_weight(value: float, interval: tuple[float, float] | None, largest: float) -> str:
    """Return a bar from 0 to a weight, with a whisker over its interval where there is one.

    ``largest`` is the magnitude at the ends of the axis.
    """

    def place(number: float) -> float:
        return WHISKER_WIDTH / 2 * (1 + min(max(number / max(largest, 1e-12), -1.0), 1.0))

    zero, end, middle = place(0.0), place(value), WHISKER_HEIGHT / 2
    color = SIGN_COLORS[1 if value > 0 else -1]
    words = f"weight {value:+.2f}" + (f", interval {interval[0]:+.2f} to {interval[1]:+.2f}" if interval else "")
    box = f'x="{min(zero, end):.1f}" y="{middle - 4:g}" width="{max(abs(end - zero), 0.8):.1f}" height="8" rx="1.5"'
    parts = [
        f'<line x1="{zero:.1f}" y1="0" x2="{zero:.1f}" y2="{WHISKER_HEIGHT:g}" stroke="{NEUTRAL}"/>',
        f'<rect {box} fill="{color}" fill-opacity="{0.55 if interval else 1.0:g}"/>',
    ]
    if interval:
        low, high = place(interval[0]), place(interval[1])
        d = f"M{low:.1f} {middle:g}H{high:.1f}M{low:.1f} {middle - 3.5:g}v7M{high:.1f} {middle - 3.5:g}v7"
        parts.append(f'<path d="{d}" fill="none" stroke="{INK}" stroke-width="1.4"/>')
    head = f'<svg width="{WHISKER_WIDTH:g}" height="{WHISKER_HEIGHT:g}" role="img" aria-label="{words}">'
    return f"{head}<title>{words}</title>{''.join(parts)}</svg>"
