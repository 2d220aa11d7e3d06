"""Log-likelihood of hidden cells: those that are known, and were hidden to test predictions."""

from __future__ import annotations

from typing import Any

from sparsefield.errors import DataError
from sparsefield.estimators import MarkovField, RelationalField
from sparsefield.estimators.answer_tables import log_belief
from sparsefield.estimators.compiled_rows import compile_densely, infer_missing


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
