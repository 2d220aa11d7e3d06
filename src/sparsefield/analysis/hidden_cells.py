"""Log-likelihood of hidden cells: those that are known, and were hidden to test predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsefield.data import Table
from sparsefield.errors import DataError
from sparsefield.estimators import MarkovField, RelationalField
from sparsefield.estimators.compiled_rows import compile_densely, infer_missing
from sparsefield.inference import state_probabilities


def conditional_log_likelihood(field: MarkovField | RelationalField, X_true: Any, X_missing: Any) -> float:
    """Return the mean log-probability of the truth over cells missing in ``X_missing`` and known in ``X_true``.

    Parameters
    ----------
    field : fitted
    X_true, X_missing : two tables with the same rows, or two `Relational` with the same tables
    """
    hidden, truth = compile_densely(field, X_missing), compile_densely(field, X_true)
    for name, table, known in zip(hidden.layout.tables, hidden.tables, truth.tables, strict=True):
        if table.n_rows != known.n_rows:
            where = f"Table {name!r}: X_true" if name else "X_true"
            raise DataError(f"{where} has {known.n_rows} rows, X_missing {table.n_rows}.")
    total, count = 0.0, 0
    for table, known, belief in zip(hidden.tables, truth.tables, infer_missing(field, hidden).values, strict=True):
        part, cells = log_belief(table, known, belief)
        total, count = total + part, count + cells
    if count == 0:
        raise DataError("No cell is missing in X_missing and known in X_true: there is nothing to score.")
    return total / count


def log_belief(table: Table, truth: Table, missing: np.ndarray) -> tuple[float, int]:
    """Return the sum of the log-probabilities of the truth over cells that are missing in ``table`` and known in
    ``truth``, and the number of these cells."""
    hidden, known = table.codes() < 0, truth.codes()
    total, count = 0.0, 0
    for k, variable in enumerate(table.schema.targets):
        rows = np.flatnonzero(hidden[k] & (known[k] >= 0))
        states = state_probabilities(table.schema, k, missing[:, rows])
        right = states[np.arange(len(rows)), variable.position_of_code[known[k, rows]]]
        total += float(np.log(np.maximum(right, np.finfo(float).tiny)).sum())
        count += len(rows)
    return total, count
