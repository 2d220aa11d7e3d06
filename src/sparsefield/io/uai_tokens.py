"""The words of a UAI file, read one after another and checked before anything is made of them."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sparsefield.errors import ModelFileError

__all__ = ["TokenReader", "UAIModel", "parse_uai"]

KINDS = ("MARKOV", "BAYES")

MAX_LOOSE_STATES = 1_000_000
"""States of all variables together, unless the file has more numbers than that: a few words should not claim much
memory."""

COMMENT = re.compile(r"^[ \t]*c.*$|#.*$", re.MULTILINE)


@dataclass(frozen=True)
class UAIModel:
    """What a UAI file says."""

    states: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    tables: tuple[np.ndarray, ...]


class TokenReader:
    """The words of a text file, from the first to the last."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise ModelFileError(f"{self.path}: there is no such file.")
        try:
            text = self.path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise self.wrong("this is no text file") from None
        if "#" in text or "c" in text:
            text = COMMENT.sub("", text)
        if "_" in text or not text.isascii():  # Python would take 1_000 and digits of other scripts for numbers
            odd = next(word for word in text.split() if "_" in word or not word.isascii())
            raise self.wrong(f"{odd[:20]!r} is no number")
        self.lines = [line.split() for line in text.splitlines()]
        self.words = [word for line in self.lines for word in line]
        self.place = 0

    def wrong(self, what: str) -> ModelFileError:
        return ModelFileError(f"{self.path}: {what}.")

    @property
    def left(self) -> int:
        return len(self.words) - self.place

    def take(self, count: int, what: str) -> list[str]:
        """The next words."""
        if count > self.left:
            raise self.wrong(f"the file ends too early: {what}: {count:,} number(s) are wanted, {self.left:,} left")
        self.place += count
        return self.words[self.place - count : self.place]

    def whole(self, what: str) -> int:
        return self.wholes(1, what)[0]

    def wholes(self, count: int, what: str) -> list[int]:
        """The next words as whole numbers that are not negative."""
        words = self.take(count, what)
        for word in words:
            if not (word.isascii() and word.isdecimal() and len(word) < 19):
                raise self.wrong(f"{what}: {word!r} is no whole number from 0 up")
        return [int(word) for word in words]

    def numbers(self, count: int, what: str) -> np.ndarray:
        """The next words as finite numbers that are not negative."""
        words = self.take(count, what)
        try:
            found = np.fromiter(map(float, words), dtype=float, count=count)
        except ValueError:
            found = np.array([math.nan if _number(word) is None else 0.0 for word in words])
        odd = ~(np.isfinite(found) & (found >= 0.0))
        if odd.any():
            raise self.wrong(f"{what}: {words[int(odd.argmax())]!r} is no number from 0 up")
        return found


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def parse_uai(path: str | os.PathLike[str]) -> UAIModel:
    """Variables, scopes and tables of a UAI file; ModelFileError says what is wrong with one."""
    words = TokenReader(path)
    kind = words.take(1, "the kind of network")[0] if words.left else ""
    if kind.upper() not in KINDS:
        raise words.wrong(f"a UAI file starts with MARKOV or BAYES, not with {kind[:20]!r}")
    states = words.wholes(words.whole("the number of variables"), "numbers of states")
    if 0 in states:
        raise words.wrong(f"variable {states.index(0)} has 0 states; it needs one at least")
    if sum(states) > max(MAX_LOOSE_STATES, len(words.words)):
        raise words.wrong(f"{sum(states):,} states in all, more than the tables of this file could speak of")
    count = words.whole("the number of factors")
    if count > words.left:
        raise words.wrong(f"the file ends too early: {count:,} factors are promised")
    scopes = tuple(_scope(words, k, len(states)) for k in range(count))
    tables = tuple(_table(words, k, tuple(states[v] for v in scope), scope) for k, scope in enumerate(scopes))
    if words.left:
        raise words.wrong(f"{words.left:,} word(s) too many after the last table, from {words.words[words.place]!r} on")
    return UAIModel(tuple(states), scopes, tables)


def _scope(words: TokenReader, k: int, n_variables: int) -> tuple[int, ...]:
    what = f"variables of factor {k}"
    scope = tuple(words.wholes(words.whole(f"number of {what}"), what))
    if any(v >= n_variables for v in scope):
        raise words.wrong(f"factor {k} is of variable {max(scope)}; there are {n_variables}, counted from 0")
    if len(set(scope)) < len(scope):
        raise words.wrong(f"factor {k} names a variable twice")
    return scope


def _table(words: TokenReader, k: int, shape: tuple[int, ...], scope: tuple[int, ...]) -> np.ndarray:
    """The table of a factor; its size is known to fit before any of it is made."""
    count, size = words.whole(f"size of table {k}"), math.prod(shape)
    if count != size:
        sides = " x ".join(map(str, shape))
        raise words.wrong(f"table {k} has {count:,} numbers, but its variables {scope} have {sides} = {size:,} states")
    table = words.numbers(count, f"table {k}")
    if not table.any():
        raise words.wrong(f"table {k} holds nothing but 0, so that no assignment is possible")
    return table.reshape(shape)
