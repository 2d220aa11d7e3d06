"""This module replaces characters that terminals would obey and that XML does not allow."""

from __future__ import annotations

import re

REPLACEMENT = "\ufffd"
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def visible(text: str) -> str:
    """Return a text with a replacement for each control character, except tabs and line feeds.

    Examples
    --------
    >>> visible("a\\x1b[31mb") == "a\\ufffd[31mb"
    True
    """
    return _UNSEEN.sub(REPLACEMENT, text)
