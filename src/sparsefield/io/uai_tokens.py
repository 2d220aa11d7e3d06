"""This module tokenizes and parses UAI files, and validates every number before memory is allocated for it."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sparsefield.errors import ModelFileError

KINDS = ("MARKOV", "BAYES")

MAX_LOOSE_STATES = 1_000_000
"""The most states of all variables, unless the file has more numbers: a short file must not allocate much memory."""

COMMENT = re.compile(r"^[ \t]*c.*$|#.*$", re.MULTILINE)


@dataclass(frozen=True)
class UAIModel:
    """The content of a UAI file: numbers of states, and the scope and table of each factor."""

    states: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    tables: tuple[np.ndarray, ...]


class TokenReader:
    """A reader of the whitespace-separated tokens of a text file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise ModelFileError(f"{self.path}: there is no such file.")
        try:
            text = self.path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise self.error("this is not a text file") from None
        if "#" in text or "c" in text:
            text = COMMENT.sub("", text)
        if "_" in text or not text.isascii():  # Python would accept 1_000 and digits of other scripts as numbers
            odd = next(word for word in text.split() if "_" in word or not word.isascii())
            raise self.error(f"{odd[:20]!r} is not a number")
        self.lines = [line.split() for line in text.splitlines()]
        self.tokens = [word for line in self.lines for word in line]
        self.position = 0

    def error(self, what: str) -> ModelFileError:
        return ModelFileError(f"{self.path}: {what}.")

    @property
    def remaining(self) -> int:
        return len(self.tokens) - self.position

    def take(self, count: int, what: str) -> list[str]:
        """Return the next tokens."""
        if count > self.remaining:
            raise self.error(f"the file ends too early: {what}: {count:,} number(s) expected, {self.remaining:,} left")
        self.position += count
        return self.tokens[self.position - count : self.position]

    def integer(self, what: str) -> int:
        return self.integers(1, what)[0]

    def integers(self, count: int, what: str) -> list[int]:
        """Return the next tokens as nonnegative integers."""
        words = self.take(count, what)
        for word in words:
            if not (word.isascii() and word.isdecimal() and len(word) < 19):
                raise self.error(f"{what}: {word!r} is not a nonnegative integer")
        return [int(word) for word in words]

    def numbers(self, count: int, what: str) -> np.ndarray:
        """Return the next tokens as finite nonnegative numbers."""
        words = self.take(count, what)
        try:
            found = np.fromiter(map(float, words), dtype=float, count=count)
        except ValueError:
            found = np.array([math.nan if _number(word) is None else 0.0 for word in words])
        odd = ~(np.isfinite(found) & (found >= 0.0))
        if odd.any():
            raise self.error(f"{what}: {words[int(odd.argmax())]!r} is not a finite nonnegative number")
        return found


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def parse_uai(path: str | os.PathLike[str]) -> UAIModel:
    """Parse a UAI file into a `UAIModel`; raise ModelFileError if it is malformed."""
    tokens = TokenReader(path)
    kind = tokens.take(1, "the kind of network")[0] if tokens.remaining else ""
    if kind.upper() not in KINDS:
        raise tokens.error(f"a UAI file must start with MARKOV or BAYES, not with {kind[:20]!r}")
    states = tokens.integers(tokens.integer("the number of variables"), "numbers of states")
    if 0 in states:
        raise tokens.error(f"variable {states.index(0)} has 0 states; it needs at least one")
    if sum(states) > max(MAX_LOOSE_STATES, len(tokens.tokens)):
        raise tokens.error(f"{sum(states):,} states in total, more than the tables of this file can cover")
    count = tokens.integer("the number of factors")
    if count > tokens.remaining:
        raise tokens.error(f"the file ends too early: {count:,} factors are declared")
    scopes = tuple(_scope(tokens, k, len(states)) for k in range(count))
    tables = tuple(_table(tokens, k, tuple(states[v] for v in scope), scope) for k, scope in enumerate(scopes))
    if tokens.remaining:
        raise tokens.error(
            f"{tokens.remaining:,} unexpected token(s) after the last table, from {tokens.tokens[tokens.position]!r}"
        )
    return UAIModel(tuple(states), scopes, tables)


def _scope(tokens: TokenReader, k: int, n_variables: int) -> tuple[int, ...]:
    what = f"variables of factor {k}"
    scope = tuple(tokens.integers(tokens.integer(f"number of {what}"), what))
    if any(v >= n_variables for v in scope):
        raise tokens.error(f"factor {k} contains variable {max(scope)}, but there are {n_variables}, counted from 0")
    if len(set(scope)) < len(scope):
        raise tokens.error(f"factor {k} names a variable twice")
    return scope


def _table(tokens: TokenReader, k: int, shape: tuple[int, ...], scope: tuple[int, ...]) -> np.ndarray:
    """Read the table of a factor after checking its size."""
    count, size = tokens.integer(f"size of table {k}"), math.prod(shape)
    if count != size:
        sides = " x ".join(map(str, shape))
        raise tokens.error(f"table {k} has {count:,} numbers, but its variables {scope} have {sides} = {size:,} states")
    table = tokens.numbers(count, f"table {k}")
    if not table.any():
        raise tokens.error(f"all entries of table {k} are 0, so no assignment has positive probability")
    return table.reshape(shape)
