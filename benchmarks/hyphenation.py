"""This module makes sentences of the letters of words, each labeled with whether a hyphen may precede it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.measure import installed

__all__ = ["WORD_LISTS", "hyphenated_parts", "letter_frame", "why_not"]

WORD_LISTS = (Path("/usr/share/dict/american-english"), Path("/usr/share/dict/words"))
VOWELS = "aeiouy"
SHORTEST, LONGEST = 5, 20


def why_not() -> str:
    """Return what is missing for this data, or an empty text."""
    if not installed("pyphen"):
        return "not installed: pyphen"
    return "" if any(path.exists() for path in WORD_LISTS) else "there is no word list in /usr/share/dict"


def hyphenated_parts(counts: Sequence[int], seed: int) -> list[pl.DataFrame]:
    """Return frames of letters, of different words, with the labels of pyphen."""
    import pyphen  # pyright: ignore[reportMissingImports]

    path = next(path for path in WORD_LISTS if path.exists())
    words = sorted({word for word in path.read_text("utf-8").split() if _is_plain(word)})
    chosen = np.random.default_rng(seed).permutation(len(words))[: sum(counts)]
    dictionary: Any = pyphen.Pyphen(lang="en_US")
    ends = np.cumsum(counts)
    return [
        letter_frame([words[k] for k in chosen[end - count : end]], dictionary.positions)
        for end, count in zip(ends, counts, strict=True)
    ]


def letter_frame(words: Sequence[str], positions: Callable[[str], Sequence[int]]) -> pl.DataFrame:
    """Return a row per letter, with the columns of `benchmarks.sentences.make_frame`.

    ``positions`` gives the letters of a word that a hyphen may precede.
    """
    rows = []
    for number, word in enumerate(words):
        hyphens, padded = set(positions(word)), f"__{word}__"
        for k, letter in enumerate(word):
            rows.append(
                {
                    "sentence": number,
                    "word": letter,
                    "suffix": padded[k + 1 : k + 3],
                    "shape": "vowel" if letter in VOWELS else "consonant",
                    "before": padded[k : k + 2],
                    "after": padded[k + 3 : k + 5],
                    "label": "hyphen" if k in hyphens else "none",
                }
            )
    return pl.DataFrame(rows)


def _is_plain(word: str) -> bool:
    return word.isascii() and word.isalpha() and word.islower() and SHORTEST <= len(word) <= LONGEST
