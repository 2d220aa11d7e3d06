"""This module reads the groups of rows that belong together, such as the visits of one patient."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from sparsefield.data import as_array, as_source
from sparsefield.errors import DataError


def split_groups(X: Any, groups: Any) -> tuple[Any, Any]:
    """Return a table without the column that ``groups`` names, and its values; groups of another form are unchanged."""
    if not isinstance(groups, str):
        return X, groups
    source = as_source(X)
    if source.kind in ("array", "sparse") or groups not in source.names:
        raise DataError(
            f"groups= names the column {groups!r}, which X does not have: name one of its columns, or pass an array "
            "with the group of each row."
        )
    frame: nw.DataFrame = source.native
    return nw.to_native(frame.drop(groups)), nw.to_native(frame[groups])


def number_groups(groups: Any, n_rows: int) -> np.ndarray:
    """Return the numbers of the groups of rows, (rows,): equal values are one group."""
    values = as_array(groups, "groups")
    if values.shape != (n_rows,):
        raise DataError(f"groups.shape == {values.shape}, expected ({n_rows},): one group per row.")
    column = as_source(values.reshape(-1, 1), what="groups").column("x0")
    if not column.present.all():
        raise DataError(
            f"groups= has {np.count_nonzero(~column.present):,} missing value(s), the first in row "
            f"{int(np.argmin(column.present))}: give every row a group, or leave these rows out."
        )
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in column.values.tolist()], dtype=np.int64)


def groups_refusal() -> DataError:
    """Return the error for groups of rows that are not in memory as one table."""
    return DataError(
        "groups= (--group) needs all rows in the memory of this process, as one table: X comes in parts. Leave groups "
        "out, or pass X as one table."
    )
