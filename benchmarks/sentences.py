"""This module draws synthetic sentences with a label for each word from small grammars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

__all__ = ["FEATURES", "GRAMMARS", "Grammar", "Sentence", "common_words", "draw_sentences", "make_frame"]

Array = np.ndarray[Any, np.dtype[Any]]
Chances = Mapping[str, Mapping[str, float]]

FEATURES = ("word", "suffix", "shape", "before", "after")
"""What is known of a word: itself, its last two letters, its shape, and the shapes of the words beside it."""

START, END = "", "end"
SIZES = {"topic": 400, "name": 400, "link": 20}
ENDINGS = {
    "topic": ("ing", "tion", "ics", "al", "s", "ed", "ory"),
    "name": ("son", "er", "man", "ini", "ton", "ia", "s"),
}
CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"


@dataclass(frozen=True)
class Grammar:
    """A grammar is a hidden Markov model: a Markov chain of labels, and words drawn given their labels.

    Attributes
    ----------
    follows : {label: {label: chance}}
        "" begins a sentence, "end" ends it.
    sources : {label: {kind of word: chance}}
        Labels share lists of words, and use them with different frequencies.
    lengths : {label: words}
        How many words in a row have the label, on average; one where nothing is said.
    """

    follows: Chances
    sources: Chances
    lengths: Mapping[str, int]

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(sorted(self.sources))


GRAMMARS = {
    "tags": Grammar(
        follows={
            START: {"determiner": 0.45, "pronoun": 0.35, "adverb": 0.1, "noun": 0.1},
            "determiner": {"noun": 0.65, "adjective": 0.35},
            "adjective": {"noun": 0.75, "adjective": 0.15, "conjunction": 0.1},
            "noun": {"verb": 0.4, "preposition": 0.2, "noun": 0.1, "conjunction": 0.1, END: 0.2},
            "verb": {"determiner": 0.4, "preposition": 0.2, "adverb": 0.15, "pronoun": 0.15, END: 0.1},
            "adverb": {"verb": 0.35, "adjective": 0.35, "preposition": 0.15, END: 0.15},
            "preposition": {"determiner": 0.6, "noun": 0.2, "pronoun": 0.1, "adjective": 0.1},
            "pronoun": {"verb": 0.75, "adverb": 0.15, END: 0.1},
            "conjunction": {"determiner": 0.4, "pronoun": 0.2, "adjective": 0.2, "noun": 0.2},
        },
        sources={
            "determiner": {"link": 1.0},
            "adjective": {"topic": 1.0},
            "noun": {"topic": 0.8, "name": 0.2},
            "verb": {"topic": 0.95, "link": 0.05},
            "adverb": {"topic": 0.8, "link": 0.2},
            "preposition": {"link": 1.0},
            "pronoun": {"link": 0.9, "name": 0.1},
            "conjunction": {"link": 1.0},
        },
        lengths={},
    ),
    "references": Grammar(
        follows={
            START: {"author": 0.85, "title": 0.15},
            "author": {"title": 0.75, "year": 0.25},
            "title": {"journal": 0.55, "publisher": 0.3, "place": 0.15},
            "journal": {"volume": 0.6, "year": 0.25, "pages": 0.15},
            "volume": {"pages": 0.7, "year": 0.3},
            "pages": {"year": 0.5, END: 0.5},
            "year": {"title": 0.2, "pages": 0.2, END: 0.6},
            "publisher": {"place": 0.4, "year": 0.4, END: 0.2},
            "place": {"publisher": 0.3, "year": 0.5, END: 0.2},
        },
        sources={
            "author": {"name": 0.75, "initial": 0.2, "link": 0.05},
            "title": {"topic": 0.55, "Topic": 0.1, "link": 0.25, "name": 0.08, "number": 0.02},
            "journal": {"Topic": 0.5, "topic": 0.15, "link": 0.25, "name": 0.1},
            "volume": {"number": 1.0},
            "pages": {"number": 0.5, "range": 0.5},
            "year": {"date": 0.9, "number": 0.1},
            "publisher": {"name": 0.7, "Topic": 0.2, "link": 0.1},
            "place": {"name": 0.95, "initial": 0.05},
        },
        lengths={"author": 4, "title": 7, "journal": 4, "publisher": 2, "place": 2},
    ),
}
"""Parts of speech, which change from word to word, and fields of a reference, which are several words long."""


@dataclass(frozen=True)
class Sentence:
    words: tuple[str, ...]
    labels: tuple[str, ...]


def draw_sentences(grammar: Grammar, count: int, *, seed: int = 0) -> list[Sentence]:
    """Draw sentences at random; a longer draw begins with the same ones.

    Examples
    --------
    >>> " ".join(draw_sentences(GRAMMARS["references"], 2, seed=4)[1].words)
    'Gudetiia Veteseman Veteseman 1 kuz nopomeing bozus tegevual Miory zi mimual rag kuz 58 3-34'
    """
    rng = np.random.default_rng([seed, 0])
    lists = {kind: _make_words(kind, size, rng) for kind, size in SIZES.items()}
    tastes = {(label, kind): _word_probabilities(size, rng) for label in grammar.labels for kind, size in SIZES.items()}
    return [_draw(grammar, lists, tastes, np.random.default_rng([seed, 1, k])) for k in range(count)]


def common_words(sentences: Sequence[Sentence], at_least: int = 2) -> set[str]:
    """Return the words that occur often enough to learn about them."""
    words, counts = np.unique([word for one in sentences for word in one.words], return_counts=True)
    return set(words[counts >= at_least].tolist())


def make_frame(sentences: Sequence[Sentence], known: set[str]) -> pl.DataFrame:
    """Return a row per word: its sentence, its label, and `FEATURES`, with "?" for words that are not ``known``."""
    words = [word for one in sentences for word in one.words]
    shapes = [[START, *map(_shape, one.words), END] for one in sentences]
    return pl.DataFrame(
        {
            "sentence": [k for k, one in enumerate(sentences) for _ in one.words],
            "label": [label for one in sentences for label in one.labels],
            "word": [word if word in known else "?" for word in words],
            "suffix": [word[-2:] if word[-1].isalpha() else "-" for word in words],
            "shape": [shape for one in shapes for shape in one[1:-1]],
            "before": [shape or "start" for one in shapes for shape in one[:-2]],
            "after": [shape for one in shapes for shape in one[2:]],
        }
    )


def _draw(
    grammar: Grammar, lists: dict[str, list[str]], tastes: dict[tuple[str, str], Array], rng: np.random.Generator
) -> Sentence:
    words: list[str] = []
    labels: list[str] = []
    label = START
    while (label := _choose(grammar.follows[label], rng)) != END:
        for _ in range(rng.geometric(1 / grammar.lengths.get(label, 1))):
            source = _choose(grammar.sources[label], rng)
            kind = source.lower()
            if kind in lists:
                word = lists[kind][rng.choice(len(lists[kind]), p=tastes[label, kind])]
                words.append(word.capitalize() if source in ("Topic", "name") else word)
            else:
                words.append(_make_token(source, rng))
            labels.append(label)
    return Sentence(tuple(words), tuple(labels))


def _make_token(source: str, rng: np.random.Generator) -> str:
    if source == "initial":
        return chr(ord("A") + int(rng.integers(26))) + "."
    if source == "date":
        return str(rng.integers(1950, 2026))
    first = int(10 ** rng.uniform(0, 3.5))
    return str(first) if source == "number" else f"{first}-{first + rng.integers(1, 40)}"


def _make_words(kind: str, size: int, rng: np.random.Generator) -> list[str]:
    """Make different words of one to three syllables with an ending; words of the kind "link" are short."""
    words: dict[str, None] = {}
    while len(words) < size:
        count = int(rng.integers(1, 4))
        syllables = "".join(rng.choice(list(CONSONANTS)) + rng.choice(list(VOWELS)) for _ in range(count))
        words[syllables[:3] if kind == "link" else syllables + rng.choice(ENDINGS[kind])] = None
    return list(words)


def _word_probabilities(size: int, rng: np.random.Generator) -> Array:
    """Return the probabilities of a list of words: Zipf's law, perturbed at random for one label."""
    weight = np.exp(rng.normal(size=size)) / np.arange(1, size + 1)
    return weight / weight.sum()


def _choose(chances: Mapping[str, float], rng: np.random.Generator) -> str:
    return str(rng.choice(list(chances), p=list(chances.values())))


def _shape(word: str) -> str:
    """Return the kinds of characters, each run as one, but every digit of a number: "Xx", "9999", "9-9"."""
    kinds = ["9" if c.isdigit() else "X" if c.isupper() else "x" if c.islower() else c for c in word]
    if word.isdigit():
        return "".join(kinds)
    return "".join(kind for k, kind in enumerate(kinds) if k == 0 or kind != kinds[k - 1])
