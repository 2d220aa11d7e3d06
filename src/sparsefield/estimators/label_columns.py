"""Label columns: those of a fit, those that are known when others are predicted, and the score of predictions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import r2_score
from sklearn.utils.multiclass import check_classification_targets

from sparsefield.data import Label, Schema, Source, as_array, as_source
from sparsefield.data.frames import RawColumn
from sparsefield.errors import DataError


def read_labels(y: Any, taken: Collection[str] = (), what: str = "y") -> tuple[Source, bool]:
    """Return the label columns, and whether ``y`` is 1-D. Unnamed columns get names that are not ``taken``."""
    if hasattr(y, "columns"):
        return as_source(y, what=what), False
    single = hasattr(y, "to_frame")
    if single and y.name not in (None, ""):
        return as_source(y, what=what), True
    if not single and not sp.issparse(y):
        y = as_array(y, what)
        single = y.ndim == 1
        y = y.reshape(-1, 1) if single else y
    labels = as_source(y, what=what)
    return replace(labels, names=_free_names(len(labels.names), single, taken)), single


def read_known_labels(known: Any, names: Sequence[str], n_rows: int) -> Source:
    """Return the labels that are known when others are predicted, with the names of the labels of the fit.

    Parameters
    ----------
    known : frame with some of the label columns, by name; or an array, series or sparse matrix with all of them
    names : the label columns of the fit
    n_rows : number of rows that are predicted
    """
    labels, _ = read_labels(known, what="known")
    if labels.n_rows != n_rows:
        raise DataError(f"known= has {labels.n_rows:,} rows, and X has {n_rows:,}: pass a row of labels for each of X.")
    if hasattr(known, "columns") or (hasattr(known, "to_frame") and known.name in names):
        strange = [name for name in labels.names if name not in names]
        if strange:
            raise DataError(
                f"known= has the column {strange[0]!r}, which is no label of the fit; labels: {', '.join(names)}."
            )
        return labels
    if len(labels.names) != len(names):
        raise DataError(
            f"known= has {len(labels.names):,} columns, and the fit had {len(names):,} labels: pass a column for each, "
            "with None or NaN where it is not known, or a frame with the names of some labels."
        )
    return replace(labels, names=tuple(names))


def read_all_labels(y: Any, names: Sequence[str], n_rows: int) -> Source:
    """Return a column for each label of the fit, of a frame by name, otherwise by position.

    Parameters
    ----------
    y : frame, array, series or sparse matrix with all labels
    names : the label columns of the fit
    n_rows : number of rows of ``X``
    """
    labels, _ = read_labels(y)
    if hasattr(y, "columns"):
        _refuse_other_names(labels.names, names)
    if len(labels.names) != len(names) or labels.n_rows != n_rows:
        raise DataError(
            f"y has {labels.n_rows} rows and {len(labels.names)} label column(s); {n_rows} and {len(names)} are needed."
        )
    return labels if set(labels.names) == set(names) else replace(labels, names=tuple(names))


def _refuse_other_names(found: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise a DataError if a frame of labels has other columns than those of the fit."""
    both = set(found) & set(wanted)
    missing, strange = ([name for name in names if name not in both] for names in (wanted, found))
    parts = [
        f"{words} {', '.join(map(repr, odd[:8]))}{', ...' if len(odd) > 8 else ''}"
        for words, odd in (("lacks the label(s)", missing), ("has the unknown column(s)", strange))
        if odd
    ]
    if parts:
        raise DataError(
            f"y {' and '.join(parts)}: a frame has the label columns of the fit by name. Rename or drop columns, or "
            "pass an array, whose columns go by position."
        )


def check_classes(labels: RawColumn) -> None:
    """Refuse continuous labels, with scikit-learn's message."""
    values = labels.values
    if values.dtype.kind != "f":
        return
    if np.isinf(values).any():
        raise DataError("Input y contains infinity or a value too large for dtype('float64').")
    if labels.present.all():
        check_classification_targets(values)


def refuse_missing_labels(labels: Source) -> None:
    """Raise a DataError if labels are missing, which a fit to sparse covariates does not allow."""
    odd = {name: ~labels.column(name).present for name in labels.names}
    found = [name for name, missing in odd.items() if missing.any()]
    if found:
        more = f" (and {len(found) - 1} other label columns)" if len(found) > 1 else ""
        raise DataError(
            f"Label column {found[0]!r}{more} has missing values, first in row {int(np.argmax(odd[found[0]]))}: with a "
            "sparse X every label must be known. Leave these rows out, or pass X as a dense array or a frame."
        )


def as_classes(states: Sequence[Label]) -> np.ndarray:
    """Return the classes as an array, of dtype object where NumPy would turn numbers into text."""
    mixed = len({isinstance(state, str) for state in states}) > 1
    return np.array(states, dtype=object if mixed else None)


def _free_names(n_labels: int, single: bool, taken: Collection[str]) -> tuple[str, ...]:
    """Return y, or y0, y1, ...; with another stem if X has a column of that name."""
    stems = chain(("y", "label"), (f"label_{k}_" for k in count()))
    candidates = ((stem,) if single else tuple(f"{stem}{k}" for k in range(n_labels)) for stem in stems)
    return next(names for names in candidates if not set(names) & set(taken))


def mean_label_score(
    schema: Schema, labels: Source, predicted: np.ndarray, sample_weight: np.ndarray | None = None
) -> float:
    """Return the mean of the R^2 of numeric labels, and of the share of rows in which all other labels are right.

    Parameters
    ----------
    schema : of the fitted field, whose targets are the labels
    labels : the true labels, each of which is known
    predicted : (rows, labels) classes, or numbers
    sample_weight : (rows,) weights of the rows; None weights all alike
    """
    scores, right = [], []
    for variable, found in zip(schema.targets, predicted.T, strict=True):
        column = labels.column(variable.name)
        if not column.present.all():
            raise DataError(f"Label column {variable.name!r} has missing values: score needs the label of every row.")
        truth = np.asarray(column.values)
        if variable.numeric:
            numbers = truth.astype(np.float64), found.astype(np.float64)
            scores.append(r2_score(*numbers, sample_weight=sample_weight))
        else:
            right.append(truth == found)
    if right:
        scores.append(np.average(np.all(right, axis=0), weights=sample_weight))
    return float(np.mean(scores))
