"""This package has the estimators, with the interface of scikit-learn."""

from __future__ import annotations

import os

from sparsefield.errors import ModelFileError
from sparsefield.estimators.crf_classifier import CRFClassifier
from sparsefield.estimators.field_estimator import FieldEstimator, rebuild
from sparsefield.estimators.markov_field import MarkovField
from sparsefield.estimators.relational_field import RelationalField
from sparsefield.io.model_file import load_field

ESTIMATORS: dict[str, type[FieldEstimator]] = {
    kind.__name__: kind for kind in (MarkovField, CRFClassifier, RelationalField)
}

__all__ = ["ESTIMATORS", "CRFClassifier", "FieldEstimator", "MarkovField", "RelationalField", "load"]


def load(path: str | os.PathLike[str]) -> FieldEstimator:
    """Return the estimator that ``save`` wrote to a file. No code in the file is ever run."""
    field, extra = load_field(path)
    kind = ESTIMATORS.get(str(extra.get("estimator")))
    if kind is None:
        raise ModelFileError(f"{path}: holds a {extra.get('estimator')!r}, which this sparsefield does not know.")
    try:
        return rebuild(kind, field, extra)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path}: a sparsefield model with damaged options ({error}).") from error
