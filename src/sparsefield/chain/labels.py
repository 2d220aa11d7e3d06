"""Labels of sequences, None where one is not known: codes of labels, and scores of labelings and of their entities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from sparsefield.chain.reading import ReadSequences, is_frame
from sparsefield.data.cell_values import is_missing
from sparsefield.data.frames import as_source
from sparsefield.errors import DataError

Label = Any

PREFIXES = frozenset("BIESLU")


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


def find_entities(labels: Sequence[str]) -> set[tuple[str, int, int]]:
    """Return the entities of a sequence of labels of the scheme BIO or IOBES, as seqeval does by default.

    An entity has its type, and its first and last token. It also begins where an I label follows O, or a label of
    another type.

    Examples
    --------
    >>> sorted(find_entities(["B-PER", "I-PER", "O", "I-LOC"]))
    [('LOC', 3, 3), ('PER', 0, 1)]
    """
    entities = set()
    before, type_before, first = "O", "", 0
    for k, label in enumerate([*labels, "O"]):
        prefix, _, type_name = label.partition("-")
        prefix = {"L": "E", "U": "S"}.get(prefix, prefix)
        divided = before in ("E", "S", "O") or prefix in ("B", "S", "O") or type_name != type_before
        if divided and before != "O":
            entities.add((type_before, first, k - 1))
        if divided and prefix != "O":
            first = k
        before, type_before = prefix, type_name
    return entities


def has_entities(labels: Iterable[Any]) -> bool:
    """Return whether all labels are O or have a prefix such as B- or I-, and some do."""
    others = {label for label in labels if label is not None} - {"O"}
    return bool(others) and all(
        isinstance(label, str) and label[1:2] == "-" and label[0] in PREFIXES for label in others
    )


def score_sequences(
    truth: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]], weights: Sequence[float] | None = None
) -> SequenceScores:
    """Compare labels with the true ones; tokens whose true label is None do not count. Weights are of sequences.

    Examples
    --------
    >>> score_sequences([["B-A", "I-A", "O"]], [["B-A", "O", "O"]]).f1
    0.0
    """
    pairs = [
        [(a, b) for a, b in zip(*both, strict=True) if a is not None] for both in zip(truth, predicted, strict=True)
    ]
    sizes = np.array([len(part) for part in pairs], dtype=float)
    right = np.array([sum(a == b for a, b in part) for part in pairs], dtype=float)
    known = (sizes > 0) * (np.ones(len(pairs)) if weights is None else np.asarray(weights, dtype=float))
    if not known.any():
        return SequenceScores(float("nan"), float("nan"))
    shares = float(known @ right / (known @ sizes)), float(known @ (right == sizes) / known.sum())
    if not has_entities(a for part in pairs for a, _ in part):
        return SequenceScores(*shares)
    both = [[find_entities([str(pair[side]) for pair in part]) for part in pairs] for side in (0, 1)]
    n_true, n_predicted = (known @ np.array([len(entities) for entities in side]) for side in both)
    common = known @ np.array([len(a & b) for a, b in zip(*both, strict=True)])
    precision, recall = (float(common / n) if n else 0.0 for n in (n_predicted, n_true))
    return SequenceScores(*shares, precision, recall, float(2.0 * common / max(n_true + n_predicted, 1e-300)))
