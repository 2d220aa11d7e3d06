"""This module refuses text that is no valid Unicode."""

from __future__ import annotations

from sparsefield.errors import DataError


def refuse_half_characters(text: object, where: str) -> None:
    """Raise a DataError about a label that is text with half of a surrogate pair, which no file can hold."""
    if not isinstance(text, str) or text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError(f"{where} holds text that is no valid Unicode, {text[:40]!r}: correct it.") from None
