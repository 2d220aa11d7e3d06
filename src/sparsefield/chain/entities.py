"""This module scores labels of sequences: tokens, whole sequences, and entities as seqeval defines them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

PREFIXES = frozenset("BIOESLU")


@dataclass(frozen=True)
class Entity:
    """An entity: its type and its first and last token."""

    kind: str
    first: int
    last: int


@dataclass(frozen=True)
class SequenceScores:
    """How well labels of sequences were predicted.

    Attributes
    ----------
    token_accuracy, sequence_accuracy : float
        Shares of tokens, and of sequences without an error.
    precision, recall, f1 : float or None
        Of entities, over all sequences together; None where labels are not of the form B-X, I-X, O (or E-X, S-X).
    """

    token_accuracy: float
    sequence_accuracy: float
    precision: float | None = None
    recall: float | None = None
    f1: float | None = None


def find_entities(labels: Sequence[str]) -> Iterator[Entity]:
    """Yield the entities of a sequence of labels of the scheme BIO or IOBES, as seqeval does by default.

    An entity also begins where an I label follows O, or a label of another type.

    Examples
    --------
    >>> [(one.kind, one.first, one.last) for one in find_entities(["B-PER", "I-PER", "O", "I-LOC"])]
    [('PER', 0, 1), ('LOC', 3, 3)]
    """
    prefix_before, kind_before, begin = "O", "", 0
    for k, label in enumerate([*labels, "O"]):
        prefix, _, kind = label.partition("-")
        kind = kind or "_"
        prefix = {"L": "E", "U": "S"}.get(prefix, prefix)
        if _ends(prefix_before, prefix, kind_before, kind):
            yield Entity(kind_before, begin, k - 1)
        if _begins(prefix_before, prefix, kind_before, kind):
            begin = k
        prefix_before, kind_before = prefix, kind


def _ends(before: str, prefix: str, kind_before: str, kind: str) -> bool:
    if before == "O":
        return False
    return before in ("E", "S") or prefix in ("B", "S", "O") or kind_before != kind


def _begins(before: str, prefix: str, kind_before: str, kind: str) -> bool:
    if prefix == "O":
        return False
    return prefix in ("B", "S") or before in ("E", "S", "O") or kind_before != kind


def has_entities(labels: Iterable[Any]) -> bool:
    """Return whether all labels are O or have a prefix such as B- or I-, and some do."""
    found = {label for label in labels if label is not None}
    prefixed = [
        label for label in found if isinstance(label, str) and label[1:2] == "-" and label[0] in PREFIXES - {"O"}
    ]
    return bool(prefixed) and len(prefixed) + ("O" in found) == len(found)


def score_sequences(truth: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]]) -> SequenceScores:
    """Compare labels with the true ones; tokens whose true label is None do not count.

    Examples
    --------
    >>> score_sequences([["B-A", "I-A", "O"]], [["B-A", "O", "O"]]).f1
    0.0
    """
    pairs = [[(a, b) for a, b in zip(*both, strict=True) if a is not None] for both in zip(truth, found, strict=True)]
    right = [[a == b for a, b in one] for one in pairs]
    known = [one for one in right if one]
    tokens = sum(map(len, known))
    accuracy = sum(map(sum, known)) / tokens if tokens else float("nan")
    whole = sum(map(all, known)) / len(known) if known else float("nan")
    if not has_entities(a for one in pairs for a, _ in one):
        return SequenceScores(accuracy, whole)
    return SequenceScores(accuracy, whole, *_entity_scores(pairs))


def _entity_scores(pairs: list[list[tuple[Any, Any]]]) -> tuple[float, float, float]:
    right = n_true = n_found = 0
    for one in pairs:
        truth, found = (set(find_entities([str(pair[side]) for pair in one])) for side in (0, 1))
        right, n_true, n_found = right + len(truth & found), n_true + len(truth), n_found + len(found)
    precision, recall = right / n_found if n_found else 0.0, right / n_true if n_true else 0.0
    return precision, recall, 2.0 * right / (n_true + n_found) if n_true + n_found else 0.0
