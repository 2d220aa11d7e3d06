"""This module computes precision, recall and F1 of each label, and of each type of entity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sparsefield.chain.entities import find_entities, has_entities

Labelings = Sequence[Sequence[Any]]


@dataclass(frozen=True)
class LabelScore:
    """How well one label, or one type of entity, was predicted."""

    name: Any
    n_true: int
    n_found: int
    n_right: int

    @property
    def precision(self) -> float:
        return self.n_right / self.n_found if self.n_found else 0.0

    @property
    def recall(self) -> float:
        return self.n_right / self.n_true if self.n_true else 0.0

    @property
    def f1(self) -> float:
        both = self.n_true + self.n_found
        return 2.0 * self.n_right / both if both else 0.0


def score_labels_apart(truth: Labelings, found: Labelings) -> list[LabelScore]:
    """Return the scores of each label, most frequent first; tokens whose true label is None do not count.

    Examples
    --------
    >>> score_labels_apart([["a", "b", "a"]], [["a", "a", "a"]])[0].precision
    0.6666666666666666
    """
    pairs = [pair for both in zip(truth, found, strict=True) for pair in zip(*both, strict=True) if pair[0] is not None]
    return _count((a for a, _ in pairs), (b for _, b in pairs), (a for a, b in pairs if a == b))


def score_entities_apart(truth: Labelings, found: Labelings) -> list[LabelScore]:
    """Return the scores of each type of entity, most frequent first; none where labels name no entities."""
    pairs = [[(a, b) for a, b in zip(*both, strict=True) if a is not None] for both in zip(truth, found, strict=True)]
    if not has_entities(a for one in pairs for a, _ in one):
        return []
    true, answers = (
        {(s, entity) for s, one in enumerate(pairs) for entity in find_entities([str(pair[side]) for pair in one])}
        for side in (0, 1)
    )
    return _count(*((entity.kind for _, entity in part) for part in (true, answers, true & answers)))


def _count(true: Iterable[Any], found: Iterable[Any], right: Iterable[Any]) -> list[LabelScore]:
    n_true, n_found, n_right = Counter(true), Counter(found), Counter(right)
    names = sorted(n_true | n_found, key=lambda name: (-n_true[name], -n_found[name], str(name)))
    return [LabelScore(name, n_true[name], n_found[name], n_right[name]) for name in names]
