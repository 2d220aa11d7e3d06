"""Texts for people: names that are shortened so that different ones stay different, visible letters, and warnings.

Names of questions and states often begin alike ("agree strongly", "agree somewhat"), so a long name is cut in the
middle: its end tells it apart as often as its beginning does.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

DOTS = "\u2026"
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def visible(text: str) -> str:
    """Return a text with a replacement for each character that terminals would obey or that XML does not allow.

    Examples
    --------
    >>> visible("a\\x1b[31mb") == "a\\ufffd[31mb"
    True
    """
    return _UNSEEN.sub("\ufffd", text)


def shorten(text: str, longest: int) -> str:
    """Return a text of at most ``longest`` characters; a longer one has three dots in the middle."""
    if len(text) <= longest:
        return text
    room = max(longest - 1, 1)
    tail = room * 2 // 5
    return text[: room - tail].rstrip() + DOTS + (text[-tail:].lstrip() if tail else "")


def shorten_all(texts: Sequence[str], longest: int) -> list[str]:
    """Return shortened texts, of which two are equal only if the given ones are; others that would be are numbered."""
    shown = {text: shorten(text, longest) for text in dict.fromkeys(texts)}
    number = Counter[str]()
    for short, times in Counter(shown.values()).items():
        for text in [text for text in shown if shown[text] == short] if times > 1 else ():
            number[short] += 1
            mark = f" ({number[short]})"
            shown[text] = shorten(text, max(longest - len(mark), 2)) + mark
    return [shown[text] for text in texts]


def wrap_name(text: str, width: int) -> list[str]:
    """Return a name in two lines of at most ``width`` characters, broken at spaces, underscores, dots and hyphens.

    What does not fit into them is cut in the middle, first of all.
    """
    words = re.findall(r"[^\s_.\-]+[\s_.\-]*|[\s_.\-]+", shorten(text, 2 * width))
    rows = [""]
    for piece in (word[k : k + width] for word in words for k in range(0, len(word), width)):
        if rows[-1] and len((rows[-1] + piece).rstrip()) > width and len(rows) < 2:
            rows.append("")
        rows[-1] += piece
    return [shorten(row.strip(), width) for row in rows if row.strip()] or [text]


@contextmanager
def told_warnings(tell: Callable[[str], None], *ignored: type[Warning]) -> Iterator[None]:
    """Call ``tell`` once with the text of each UserWarning, and ignore other warnings."""
    lines: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        line = " ".join(str(message).split())
        if line not in lines:
            lines.add(line)
            tell(line)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        # A model that was learned from an array names its columns x0, x1, ..., so names are expected here.
        warnings.filterwarnings("ignore", message="X (has|does not have valid) feature names")
        for category in ignored:
            warnings.simplefilter("ignore", category)
        warnings.showwarning = show
        yield
