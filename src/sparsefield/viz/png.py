"""Pictures as PNG, for places that show no SVG."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from sparsefield.errors import DataError
from sparsefield.viz.svg import FONT

__all__ = ["as_png"]

FAMILIES = (
    "Arial",
    "DejaVu Sans",
    "Liberation Sans",
    "Noto Sans",
    "Open Sans",
    "Roboto",
    "Ubuntu",
    "Cantarell",
    "FreeSans",
)
"""What to try for ``sans-serif`` where none of the report's own fonts is installed."""


def as_png(svg: str, scale: float = 2.0, *, family: str | None = None) -> bytes:
    """An SVG picture as the bytes of a PNG file.

    Needs resvg: ``pip install 'sparsefield[png]'``. It brings no fonts. Words are written in the first of the report's
    fonts that this machine has, or else in a common one such as DejaVu Sans; a machine with none of them is refused,
    since the picture would come without its words.

    Parameters
    ----------
    svg : str
        An SVG document, as the report's functions return it.
    scale : float
        Pixels per unit of the picture.
    family : str or None
        The font for ``sans-serif``, where the machine has one of another name only.

    Raises
    ------
    DataError
        If resvg or a font is missing, or the text is no SVG document.
    """
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale must be above 0, not {scale}.")
    painter = _load_painter()
    known = family or _find_family()
    if known is None or not _writes(known):
        raise DataError(
            "A PNG would come without its words, since no known font is installed: "
            "install one (such as DejaVu Sans), name one with family=, or use the SVG."
        )
    try:
        return bytes(painter.svg_to_bytes(svg_string=svg, zoom=scale, sans_serif_family=known))
    except ValueError as error:
        raise DataError(f"The picture cannot be drawn as PNG: {error}.") from None


@cache
def _find_family() -> str | None:
    return next((family for family in FAMILIES if _writes(family)), None)


@cache
def _writes(family: str) -> bool:
    """Whether a word leaves a trace: resvg leaves words out in silence where it finds no font."""
    painter = _load_painter()

    def paint(word: str) -> bytes:
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20" font-family="{FONT}">'
        text = f'{head}<text x="2" y="15" font-size="13">{word}</text></svg>'
        return bytes(painter.svg_to_bytes(svg_string=text, sans_serif_family=family))

    return paint("N") != paint("")


def _load_painter() -> Any:
    try:
        import resvg_py
    except ImportError:
        raise DataError(
            "PNG pictures are drawn by resvg, which is not installed: pip install 'sparsefield[png]'."
        ) from None
    return resvg_py
