"""This module reads the labels of sequences; a label that is not known is None."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np

from sparsefield.chain.reading import ReadSequences, is_frame
from sparsefield.data.cell_values import is_missing
from sparsefield.data.frames import as_source
from sparsefield.errors import DataError

Label = Any


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
