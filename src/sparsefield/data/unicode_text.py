"""This module refuses text that is no valid Unicode."""

from __future__ import annotations

from sparsefield.errors import DataError


def refuse_half_characters(text: str, where: str) -> None:
    """Raise a DataError about text with half of a surrogate pair, which no file and no frame can hold."""
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError(f"{where} holds text that is no valid Unicode, {text[:40]!r}: correct it.") from None
