"""This module writes rows as the text of a CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["as_csv"]


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a line per row, below the column names of the first one; None becomes an empty cell.

    Examples
    --------
    >>> as_csv([{"a": 1, "b": None}])
    'a,b\\n1,\\n'
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
