"""This module refuses text that is no valid Unicode."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sparsefield.errors import DataError


def is_valid_text(value: object) -> bool:
    """Return whether a value is text without half of a surrogate pair, which no file can hold."""
    if not isinstance(value, str):
        return False
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def refuse_half_characters(name: str, labels: Iterable[object], cells: np.ndarray, present: np.ndarray) -> None:
    """Raise a DataError about the first cell of a column whose label is text but no valid Unicode.

    Parameters
    ----------
    name : name of the column
    labels : distinct values of the cells
    cells : values that are not missing, (values,)
    present : which rows have a value, (rows,)
    """
    odd = {label for label in labels if isinstance(label, str) and not is_valid_text(label)}
    if odd:
        row, text = next((row, cell) for row, cell in zip(np.flatnonzero(present), cells, strict=True) if cell in odd)
        raise DataError(f"Column {name!r} holds {describe_half_character(text)} (row {row:,}): correct it.")


def describe_half_character(text: object) -> str:
    return f"text that is no valid Unicode, {str(text)[:40]!r}"
