"""Made-up references, such as stand at the end of an article, with the field that each word belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

__all__ = ["FEATURES", "LABELS", "Reference", "as_frame", "common_words", "draw_references"]

Array = np.ndarray[Any, np.dtype[Any]]

LABELS = ("author", "title", "journal", "volume", "pages", "year", "publisher", "place")
FEATURES = ("word", "suffix", "shape")

START, END = "", "end"
NEXT: dict[str, dict[str, float]] = {
    START: {"author": 0.85, "title": 0.15},
    "author": {"title": 0.75, "year": 0.25},
    "title": {"journal": 0.5, "publisher": 0.25, "place": 0.15, "author": 0.1},
    "journal": {"volume": 0.6, "year": 0.25, "pages": 0.15},
    "volume": {"pages": 0.7, "year": 0.3},
    "pages": {"year": 0.6, END: 0.4},
    "year": {"title": 0.35, "pages": 0.2, END: 0.45},
    "publisher": {"place": 0.5, "year": 0.5},
    "place": {"publisher": 0.4, "year": 0.6},
}
"""Which field follows which."""
LENGTH = {"author": 4, "title": 7, "journal": 4, "volume": 1, "pages": 1, "year": 1, "publisher": 2, "place": 2}
"""Words of a field, on average."""
SOURCES: dict[str, dict[str, float]] = {
    "author": {"name": 0.75, "initial": 0.2, "link": 0.05},
    "title": {"topic": 0.55, "Topic": 0.1, "link": 0.25, "name": 0.08, "number": 0.02},
    "journal": {"Topic": 0.5, "topic": 0.15, "link": 0.25, "name": 0.1},
    "volume": {"number": 1.0},
    "pages": {"number": 0.5, "range": 0.5},
    "year": {"century": 0.9, "number": 0.1},
    "publisher": {"name": 0.7, "Topic": 0.2, "link": 0.1},
    "place": {"name": 0.95, "initial": 0.05},
}
"""Where the words of a field come from. Fields share their words, in different proportions."""
SIZES = {"topic": 400, "name": 400, "link": 12}
ENDINGS = {"topic": ("ing", "tion", "ics", "al", "s", "ed", "ory"), "name": ("son", "er", "man", "ini", "ton", "ia", "s")}
OWN_TASTE = 1.0
"""How far the fields that share a list of words differ in which they use: scale of the logarithm."""


@dataclass(frozen=True)
class Reference:
    words: tuple[str, ...]
    labels: tuple[str, ...]


def draw_references(count: int, *, seed: int = 0) -> list[Reference]:
    """References from one grammar, drawn at random.

    Examples
    --------
    >>> first = draw_references(1, seed=4)[0]
    >>> len(first.words) == len(first.labels)
    True
    """
    rng = np.random.default_rng([seed, 0])
    lists = {kind: _make_words(kind, size, rng) for kind, size in SIZES.items()}
    tastes = {(label, kind): _taste(size, rng) for label in LABELS for kind, size in SIZES.items()}
    return [_draw(lists, tastes, np.random.default_rng([seed, 1, k])) for k in range(count)]


def common_words(references: list[Reference], at_least: int = 2) -> set[str]:
    """Words that occur ``at_least`` so often: about the others a word's own weight could say little."""
    words, counts = np.unique([word for one in references for word in one.words], return_counts=True)
    return set(words[counts >= at_least].tolist())


def as_frame(references: list[Reference], known: set[str], *, labelled: bool = True) -> pl.DataFrame:
    """A row per word: sentence, label (null unless ``labelled``), word ("?" unless ``known``), suffix and shape."""
    words = [word for one in references for word in one.words]
    labels = [label if labelled else None for one in references for label in one.labels]
    return pl.DataFrame(
        {
            "sentence": [k for k, one in enumerate(references) for _ in one.words],
            "label": pl.Series(labels, dtype=pl.String),
            "word": [word if word in known else "?" for word in words],
            "suffix": [word[-2:] if word[-1].isalpha() else "" for word in words],
            "shape": [_shape(word) for word in words],
        }
    )


def _draw(lists: dict[str, list[str]], tastes: dict[tuple[str, str], Array], rng: np.random.Generator) -> Reference:
    words: list[str] = []
    labels: list[str] = []
    label = START
    while (label := _choose(NEXT[label], rng)) != END:
        for _ in range(rng.geometric(1 / LENGTH[label])):
            words.append(_word(label, _choose(SOURCES[label], rng), lists, tastes, rng))
            labels.append(label)
    return Reference(tuple(words), tuple(labels))


def _word(
    label: str,
    source: str,
    lists: dict[str, list[str]],
    tastes: dict[tuple[str, str], Array],
    rng: np.random.Generator,
) -> str:
    if source in ("number", "range", "century", "initial"):
        return _token(source, rng)
    kind = source.lower()
    word = lists[kind][rng.choice(SIZES[kind], p=tastes[label, kind])]
    return word.capitalize() if source in ("Topic", "name") else word


def _token(source: str, rng: np.random.Generator) -> str:
    if source == "initial":
        return chr(ord("A") + rng.integers(26)) + "."
    if source == "century":
        return str(rng.integers(1950, 2026))
    first = int(10 ** rng.uniform(0, 3.5))
    return str(first) if source == "number" else f"{first}-{first + rng.integers(1, 40)}"


def _make_words(kind: str, size: int, rng: np.random.Generator) -> list[str]:
    """Different words of one to three syllables, and an ending."""
    words: dict[str, None] = {}
    while len(words) < size:
        syllables = "".join(rng.choice(list("bdfgklmnprstvz")) + rng.choice(list("aeiou")) for _ in range(rng.integers(1, 4)))
        words[syllables[:3] if kind == "link" else syllables + rng.choice(ENDINGS[kind])] = None
    return list(words)


def _taste(size: int, rng: np.random.Generator) -> Array:
    """Zipf's law, bent at random for one field."""
    weight = np.exp(OWN_TASTE * rng.normal(size=size)) / np.arange(1, size + 1)
    return weight / weight.sum()


def _choose(chances: dict[str, float], rng: np.random.Generator) -> str:
    return str(rng.choice(list(chances), p=list(chances.values())))


def _shape(word: str) -> str:
    """Kinds of characters in order, runs cut to one, and digits counted: "Xx", "9999", "9-9"."""
    kinds = ["9" if c.isdigit() else "X" if c.isupper() else "x" if c.islower() else c for c in word]
    if all(kind == "9" for kind in kinds):
        return "".join(kinds)
    return "".join(kind for k, kind in enumerate(kinds) if k == 0 or kind != kinds[k - 1])
