"""This module checks what a fit to sparse covariates takes, and converts dense rows to sparse ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsefield.data import Source
from sparsefield.errors import DataError


def sparse_input_problems(estimator: Any, labels: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each parameter that a fit to a sparse ``X`` does not take."""
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
    strange = [name for name in estimator.kinds if name not in labels] if isinstance(estimator.kinds, Mapping) else []
    if strange:
        yield (
            f"kinds= has {strange[0]!r}, which is no label: columns of a sparse X are numbers, which are used as they "
            "are."
        )


def as_covariates(source: Source) -> Source:
    """Return the rows of an array of numbers as a sparse matrix, for a field that was learned from one."""
    if source.kind != "array":
        raise DataError(
            f"The field was learned from a sparse matrix, and X is a frame of {source.kind}: pass a sparse matrix or "
            "an array of numbers with the same columns."
        )
    try:
        values = source.native.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"The field was learned from a sparse matrix of numbers, and X has others: {error}.") from None
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise DataError(
            f"X has a missing or infinite value in row {row}, column {column}; the field was learned from a sparse "
            "matrix of numbers: replace it."
        )
    return replace(source, kind="sparse", native=sp.csr_matrix(values))
