"""Labels of sequences, None where one is not known: codes of labels, and scores of labelings and of their entities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from sparsefield.chain.reading import ReadSequences, is_frame
from sparsefield.data.cell_values import is_missing
from sparsefield.data.frames import as_source
from sparsefield.errors import DataError

Label = Any

PREFIXES = frozenset("BIOESLU")


def read_labels(y: Any, read: ReadSequences, X: Any = None) -> list[Label]:
    """Return the label of each token, None where it is not known, and check that they match the sequences.

    Parameters
    ----------
    y : one list or array of labels per sequence; for a frame, the name of a column of ``X``, or a label per row
    read : the sequences
    X : the frame, where ``y`` names a column
    """
    if read.rows is not None:
        return _frame_labels(y, read, X)
    if isinstance(y, (str, bytes, Mapping)) or not hasattr(y, "__len__"):
        raise DataError("y must have a list of labels for each sequence.")
    lengths = np.diff(read.table.offsets)
    if len(y) != len(lengths):
        raise DataError(f"y has {len(y)} sequences, and X has {len(lengths)}.")
    wrong = [s for s, labels in enumerate(y) if not hasattr(labels, "__len__") or len(labels) != lengths[s]]
    if wrong:
        s = wrong[0]
        more = f" ({len(wrong)} sequences do not match)" if len(wrong) > 1 else ""
        size = len(y[s]) if hasattr(y[s], "__len__") else "no"
        raise DataError(f"y[{s}] has {size} labels, and X[{s}] has {lengths[s]} tokens{more}.")
    return _plain(list(chain.from_iterable(np.asarray(one).tolist() if hasattr(one, "dtype") else one for one in y)))


def _frame_labels(y: Any, read: ReadSequences, X: Any) -> list[Label]:
    if isinstance(y, str):
        source = as_source(X)
        if y not in source.names:
            raise DataError(f"X has no column {y!r}: y names the column of labels.")
        column = source.column(y)
        labels: list[Label] = [None] * source.n_rows
        for row, value in zip(np.flatnonzero(column.present), column.values.tolist(), strict=True):
            labels[row] = value
    else:
        labels = y.to_list() if hasattr(y, "to_list") else list(np.asarray(y, dtype=object).ravel())
    assert read.rows is not None
    if len(labels) != len(read.rows):
        raise DataError(f"y has {len(labels)} labels, and X has {len(read.rows)} rows.")
    return _plain([labels[row] for row in read.rows])


def _plain(labels: list[Label]) -> list[Label]:
    """Return labels with None for missing ones."""
    if set(map(type, labels)) <= {str}:
        return labels
    return [None if is_missing(label) else label for label in labels]


def drop_column(X: Any, y: Any) -> Any:
    """Return a frame without the column of labels that ``y`` names; other inputs as they are."""
    if not isinstance(y, str) or not is_frame(X) or y not in X.columns:
        return X
    import narwhals.stable.v2 as nw

    return nw.from_native(X, eager_only=True).drop(y).to_native()


def learn_classes(labels: list[Label]) -> np.ndarray:
    """Return the different labels, sorted, as an array; of dtype object unless all are of one type."""
    known = set(labels) - {None}
    if not known:
        raise DataError("y has no known label: at least one token needs one.")
    if len(set(map(type, known))) > 1 and not all(isinstance(label, (int, float, np.number)) for label in known):
        raise DataError("y has labels of several types: make all of them strings, or all numbers.")
    return np.array(sorted(known))


def encode_labels(labels: list[Label], classes: np.ndarray) -> np.ndarray:
    """Return the number of each label, -1 where it is not known, (tokens,)."""
    number = {label: k for k, label in enumerate(classes.tolist())}
    number[None] = -1
    try:
        return np.fromiter((number[label] for label in labels), dtype=np.int64, count=len(labels))
    except KeyError:
        unknown = sorted({str(label) for label in labels if label not in number})
        raise DataError(
            f"y has the label(s) {', '.join(unknown[:5])}, which training did not have: use None for labels not known."
        ) from None


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
