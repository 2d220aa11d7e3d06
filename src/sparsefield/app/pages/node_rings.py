"""This module draws rings around nodes, filled by a share, such as how well a column is predicted."""

from __future__ import annotations

import math
from itertools import pairwise

from sparsefield.app.pages.palette import INK, PALE
from sparsefield.app.pages.svg import Drawing

RING_WIDTH = 0.3
"""Width of a ring, relative to the radius of its circle."""


def draw_ring(drawing: Drawing, x: float, y: float, radius: float, share: float, hint: str | None = None) -> None:
    """Draw a ring around a circle, filled clockwise from the top by a share from 0 to 1."""
    width = RING_WIDTH * radius
    middle = radius + width / 2
    drawing.circle(x, y, middle, fill="none", stroke=PALE, stroke_width=width, hint=hint)
    if share > 0:
        drawing.path(arc_path(x, y, middle, min(share, 1.0)), fill="none", stroke=INK, stroke_width=width, hint=hint)


def arc_path(x: float, y: float, radius: float, share: float) -> str:
    """Return an arc of a circle, clockwise from the top, as cubic curves of at most a quarter each.

    Examples
    --------
    >>> arc_path(0.0, 0.0, 1.0, 0.25)
    'M0.00 -1.00C0.55 -1.00 1.00 -0.55 1.00 0.00'
    """
    n_curves = max(1, math.ceil(4 * share - 1e-9))
    step = 2 * math.pi * share / n_curves
    pull = 4 / 3 * math.tan(step / 4)
    angles = [k * step - math.pi / 2 for k in range(n_curves + 1)]
    points = [(math.cos(angle), math.sin(angle)) for angle in angles]
    d = f"M{x + radius * points[0][0]:.2f} {y + radius * points[0][1]:.2f}"
    for (c1, s1), (c2, s2) in pairwise(points):
        controls = ((c1 - pull * s1, s1 + pull * c1), (c2 + pull * s2, s2 - pull * c2), (c2, s2))
        d += "C" + " ".join(f"{x + radius * a:.2f} {y + radius * b:.2f}" for a, b in controls)
    return d.replace("-0.00", "0.00")
