"""This module turns weights of classes into weights of rows, in scikit-learn's meaning."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from sparsefield.data import Source
from sparsefield.data.kinds import given_kinds
from sparsefield.data.labels import factorize
from sparsefield.errors import DataError


def class_weight_problems(class_weight: Any) -> list[str]:
    """Return a sentence if the parameter ``class_weight`` is none that `weigh_classes` takes."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return []
    if isinstance(class_weight, Mapping) and class_weight:
        values = class_weight.values()
        if all(isinstance(v, Real) and not isinstance(v, bool) and 0.0 <= float(v) < np.inf for v in values):
            return []
    return [
        "class_weight must be None, 'balanced', or a dict of classes with weights that are not negative, got "
        f"{class_weight!r}."
    ]


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
    name, *others = labels.names
    if others:
        raise DataError(
            f"class_weight is for one label, and y has {len(labels.names):,}: the weight of a row counts for all of "
            "its labels. Leave it out, or fit one classifier per label."
        )
    _refuse_numbers(name, kinds)
    classes, places = factorize(labels.column(name))
    if isinstance(class_weight, str):
        factors = _balanced(places, len(classes), sample_weight)
    else:
        factors = np.array([_weight_of(label, class_weight) for label in classes], dtype=np.float64)
        _refuse_unknown(class_weight, classes)
    of_row = np.append(factors, 1.0)[places]
    return of_row if sample_weight is None else of_row * sample_weight


def _refuse_numbers(name: str, kinds: Any) -> None:
    given = {name: kinds[name]} if isinstance(kinds, Mapping) and name in kinds else {}
    if any(kind.kind == "numeric" for kind in given_kinds(given, [name]).values()):
        raise DataError(
            f"class_weight is for classes, and label {name!r} is a number: leave class_weight out, or weigh rows by "
            "sample_weight."
        )


def _balanced(places: np.ndarray, n_classes: int, sample_weight: np.ndarray | None) -> np.ndarray:
    """Return weights with which all classes have the same total weight; a class whose rows have none keeps none."""
    known = places >= 0
    totals = np.bincount(places[known], None if sample_weight is None else sample_weight[known], n_classes)
    return totals.sum() / (n_classes * np.where(totals > 0.0, totals, 1.0))


def _weight_of(label: Any, class_weight: Mapping[Any, float]) -> float:
    """Return the weight of a class; keys are texts in a model that was loaded."""
    return float(class_weight.get(label, class_weight.get(str(label), 1.0)))


def _refuse_unknown(class_weight: Mapping[Any, float], classes: Any) -> None:
    known = {*classes, *map(str, classes)}
    strange = [key for key in class_weight if key not in known]
    if strange:
        raise DataError(
            f"class_weight has the class {strange[0]!r}, which y does not have; classes: "
            f"{', '.join(map(str, list(classes)[:20]))}."
        )
