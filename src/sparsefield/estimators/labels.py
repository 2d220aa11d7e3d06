"""Labels of a classifier: how they are read and weighted, what a sparse ``X`` allows, and the score of predictions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import r2_score
from sklearn.utils.multiclass import check_classification_targets

from sparsefield.data import Label, Schema, Source, as_array, as_source
from sparsefield.data.labels import RawColumn, factorize
from sparsefield.data.schema_learning import given_kinds
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
    stems = chain(("y", "label"), (f"label_{k}_" for k in count()))
    candidates = ((stem,) if single else tuple(f"{stem}{k}" for k in range(len(labels.names))) for stem in stems)
    return replace(labels, names=next(names for names in candidates if not set(names) & set(taken))), single


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
        unknown = [name for name in labels.names if name not in names]
        if unknown:
            raise DataError(
                f"known= has the column {unknown[0]!r}, which is no label of the fit; labels: {', '.join(names)}."
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
    if hasattr(y, "columns") and set(labels.names) != set(names):
        absent, unknown = sorted(set(names) - set(labels.names)), sorted(set(labels.names) - set(names))
        parts = [
            f"{words} {', '.join(map(repr, columns[:8]))}{', ...' if len(columns) > 8 else ''}"
            for words, columns in (("lacks the label(s)", absent), ("has the unknown column(s)", unknown))
            if columns
        ]
        raise DataError(
            f"y {' and '.join(parts)}: a frame has the label columns of the fit by name. Rename or drop columns, or "
            "pass an array, whose columns go by position."
        )
    if len(labels.names) != len(names) or labels.n_rows != n_rows:
        raise DataError(
            f"y has {labels.n_rows} rows and {len(labels.names)} label column(s); {n_rows} and {len(names)} are needed."
        )
    return labels if set(labels.names) == set(names) else replace(labels, names=tuple(names))


def check_classes(labels: RawColumn) -> None:
    """Refuse continuous labels, with scikit-learn's message."""
    values = labels.values
    if values.dtype.kind != "f":
        return
    if np.isinf(values).any():
        raise DataError("Input y contains infinity or a value too large for dtype('float64').")
    if labels.present.all():
        check_classification_targets(values)


def as_classes(states: Sequence[Label]) -> np.ndarray:
    """Return the classes as an array, of dtype object where NumPy would turn numbers into text."""
    mixed = len({isinstance(state, str) for state in states}) > 1
    return np.array(states, dtype=object if mixed else None)


def weigh_classes(
    class_weight: Any, labels: Source, sample_weight: np.ndarray | None, kinds: Any = "auto"
) -> np.ndarray | None:
    """Return the weights of rows, (rows,), times those of the class of each row; rows without a label count once.

    Parameters
    ----------
    class_weight : "balanced", {class: weight}, or None
        Classes that a dict leaves out have the weight 1. "balanced" gives all classes the same total weight,
        that of rows included.
    labels : one label column
    sample_weight : (rows,) or None
    kinds : the kinds of columns that are given
    """
    if class_weight is None:
        return sample_weight
    name = labels.names[0]
    if len(labels.names) > 1:
        raise DataError(
            f"class_weight is for one label, and y has {len(labels.names):,}: the weight of a row counts for all of "
            "its labels. Leave it out, or fit one classifier per label."
        )
    named = isinstance(kinds, Mapping) and name in kinds
    if named and given_kinds({name: kinds[name]}, [name])[name].kind == "numeric":
        raise DataError(
            f"class_weight is for classes, and label {name!r} is a number: leave class_weight out, or weigh rows by "
            "sample_weight."
        )
    classes, places = factorize(labels.column(name))
    if isinstance(class_weight, str):
        known = places >= 0
        totals = np.bincount(places[known], None if sample_weight is None else sample_weight[known], len(classes))
        factors = totals.sum() / (len(classes) * np.where(totals > 0.0, totals, 1.0))
    else:
        unknown = [key for key in class_weight if key not in {*classes, *map(str, classes)}]
        if unknown:
            raise DataError(
                f"class_weight has the class {unknown[0]!r}, which y does not have; classes: "
                f"{', '.join(map(str, list(classes)[:20]))}."
            )
        # In a model that was loaded, classes are text.
        factors = np.array([class_weight.get(c, class_weight.get(str(c), 1.0)) for c in classes], dtype=np.float64)
    of_row = np.append(factors, 1.0)[places]
    return of_row if sample_weight is None else of_row * sample_weight


def sparse_input_problems(estimator: Any, labels: Source) -> Iterator[str]:
    """Yield a sentence for each parameter, and for labels, that a fit to a sparse ``X`` does not take."""
    rule = estimator.resolve("induction")
    if (objective := estimator.resolve("objective").name) != "pl":
        yield f"With a sparse X the objective is 'pl', not {objective!r}."
    if estimator.refit == "ml":
        yield "With a sparse X refit is False or True, not 'ml'."
    if estimator.penalty != "l1":
        yield f"With a sparse X the penalty is 'l1', not {estimator.penalty!r}."
    if estimator.resolve("features").max_order > 2:
        yield "With a sparse X features have two columns: max_order must be 2."
    if rule.fixed_candidates:
        yield f"With a sparse X features are found by a search: induction={rule.name!r} is for dense tables."
    if estimator.resolve("solver").engine is not None:
        yield "A sparse X is learned from on this machine: leave engine out."
    for name in estimator.kinds if isinstance(estimator.kinds, Mapping) else ():
        if name not in labels.names:
            yield f"kinds= has {name!r}, which is no label: columns of a sparse X are numbers, used as they are."


def refuse_missing_labels(labels: Source) -> None:
    """Raise a DataError if labels are missing, which a fit to sparse covariates does not allow."""
    absent = {name: ~labels.column(name).present for name in labels.names}
    incomplete = [name for name, missing in absent.items() if missing.any()]
    if incomplete:
        more = f" (and {len(incomplete) - 1} other label columns)" if len(incomplete) > 1 else ""
        raise DataError(
            f"Label column {incomplete[0]!r}{more} has missing values, first in row "
            f"{int(np.argmax(absent[incomplete[0]]))}: with a sparse X every label must be known. Leave these rows "
            "out, or pass X as a dense array or a frame."
        )


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
    for variable, answers in zip(schema.targets, predicted.T, strict=True):
        column = labels.column(variable.name)
        if not column.present.all():
            raise DataError(f"Label column {variable.name!r} has missing values: score needs the label of every row.")
        truth = np.asarray(column.values)
        if variable.numeric:
            numbers = truth.astype(np.float64), answers.astype(np.float64)
            scores.append(r2_score(*numbers, sample_weight=sample_weight))
        else:
            right.append(truth == answers)
    if right:
        scores.append(np.average(np.all(right, axis=0), weights=sample_weight))
    return float(np.mean(scores))
