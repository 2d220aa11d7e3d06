"""The estimators, with the interface of scikit-learn."""

from __future__ import annotations

import os
import warnings
from typing import Any

from sparsefield.chain.crf import ChainCRF, restore_chain
from sparsefield.errors import ModelFileError
from sparsefield.estimators.crf_classifier import CRFClassifier
from sparsefield.estimators.field_estimator import PARTS, FieldEstimator, option_objects
from sparsefield.estimators.markov_field import MarkovField
from sparsefield.estimators.relational_field import RelationalField
from sparsefield.estimators.training import check_parameters
from sparsefield.model import Field
from sparsefield.model.model_file import damaged, is_chain_file, load_field
from sparsefield.options import from_plain

ESTIMATORS: dict[str, type[FieldEstimator]] = {
    kind.__name__: kind for kind in (MarkovField, CRFClassifier, RelationalField)
}

__all__ = [
    "ESTIMATORS", "CRFClassifier", "ChainCRF", "FieldEstimator", "MarkovField", "RelationalField", "load",
    "restore_estimator",
]  # fmt: skip


def load(path: str | os.PathLike[str]) -> Any:
    """Return the fitted estimator that ``save`` wrote to a file. Loading runs no code of the file, unlike pickle."""
    if is_chain_file(path):
        return restore_chain(path)
    return restore_estimator(path, *load_field(path))


def restore_estimator(path: str | os.PathLike[str], field: Field, extra: dict[str, Any]) -> FieldEstimator:
    """Return the fitted estimator of a field and its extra values, which `load_field` read from a file."""
    kind = ESTIMATORS.get(str(extra.get("estimator")))
    if kind is None:
        raise ModelFileError(f"{path}: holds a {extra.get('estimator')!r}, which this sparsefield does not know.")
    try:
        objects, params = option_objects(), dict(extra["params"])
        for part in ("objective", "induction"):  # of which predictions need neither
            name = params[part]["object"] if isinstance(params.get(part), dict) else params.get(part)
            if isinstance(name, str) and name not in {*PARTS[part].names, *(kind.__name__ for kind in objects)}:
                warnings.warn(
                    f"{path}: the field was learned with the {part} {name!r}, which is not installed here: it predicts "
                    f"as before, but another fit would have the default. Install the package that has {name!r}.",
                    stacklevel=3,
                )
                del params[part]
        estimator = kind(**{name: from_plain(value, objects) for name, value in params.items()})
        check_parameters(estimator)
        estimator._restore(field, extra)
        return estimator
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise damaged(path, error) from error
