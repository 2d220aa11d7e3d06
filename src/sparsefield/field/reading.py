"""A field in words: the tables of features and of edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsefield.data.frames import make_frame
from sparsefield.field.field import Field

__all__ = ["edge_table", "feature_table"]


def feature_table(field: Field, kind: str = "polars") -> Any:
    """All features with a weight: variable_a, state_a, variable_b, state_b, weight; strongest first.

    A unary feature has no b. A numeric observed column has no state: its weight is per standard deviation.
    """
    names = field.schema.column_names
    rows: list[tuple[Any, ...]] = []
    rows += [(*names[s], None, None, float(w)) for s, w in enumerate(field.unary) if w != 0]
    rows += [(*names[a], *names[b], float(w)) for (a, b), w in zip(field.pairs, field.weights, strict=True) if w != 0]
    rows.sort(key=lambda row: -abs(row[4]))
    columns = list(zip(*rows, strict=True)) or [()] * 5
    return make_frame(
        {
            "variable_a": _column(columns[0], kind, text=True),
            "state_a": _column(columns[1], kind),
            "variable_b": _column(columns[2], kind, text=True),
            "state_b": _column(columns[3], kind),
            "weight": np.array(columns[4], dtype=float),
        },
        kind,
    )


def edge_table(field: Field, kind: str = "polars") -> Any:
    """Pairs of variables that share a feature: variable_a, variable_b, strength (the norm of their weights)."""
    schema = field.schema
    owner = schema.variable_of_column[field.pairs]
    key = owner[:, 0] * len(schema.variables) + owner[:, 1]
    distinct, inverse = np.unique(key, return_inverse=True)
    strength = np.sqrt(np.bincount(inverse, weights=field.weights**2, minlength=len(distinct)))
    kept = np.flatnonzero(strength)
    kept = kept[np.argsort(-strength[kept], kind="stable")]
    a, b = np.divmod(distinct[kept], len(schema.variables))
    return make_frame(
        {
            "variable_a": _column([schema.variables[k].name for k in a], kind, text=True),
            "variable_b": _column([schema.variables[k].name for k in b], kind, text=True),
            "strength": strength[kept],
        },
        kind,
    )


def _column(values: Any, kind: str, *, text: bool = False) -> Any:
    """A column of labels: of one type when all labels are of one type, else text, so that any frame can hold it."""
    types = {type(v) for v in values if v is not None}
    if len(types) > 1:
        values = [None if v is None else str(v) for v in values]
    if kind == "pandas":
        import pandas as pd

        return pd.Series(list(values), dtype=object)
    import polars as pl

    if kind in ("polars", "array", "sparse"):
        return pl.Series(list(values), dtype=pl.String if text or not types else None, strict=False)
    return list(values)
