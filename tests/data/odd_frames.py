"""Frames of all that a column may hold, and ways to part their rows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

OBSERVED = ["number", "few", "size", "sign"]

COLUMNS: dict[str, st.SearchStrategy] = {
    "word": st.sampled_from(["a", "b", "zz", None]),
    "truth": st.booleans(),
    "doubt": st.sampled_from([True, False, None]),
    "count": st.integers(0, 3),
    "incomplete": st.sampled_from([0.0, 1.0, 2.0, None]),
    "half": st.sampled_from([0.5, 1.0, 2.0, -0.0, 0.0, None]),
    "number": st.one_of(st.floats(-1e6, 1e6), st.none()),
    "few": st.integers(0, 12),
    "size": st.sampled_from([1, 2, 3]),
    "sign": st.sampled_from(["+", "-", None]),
}


@st.composite
def frames(draw, most: int = 40, missing: bool = True) -> pd.DataFrame:
    """Rows of `COLUMNS`, each of which holds something in the first."""
    n_rows = draw(st.integers(1, most))
    columns: dict[str, Any] = {}
    for name, cells in COLUMNS.items():
        seen = cells.filter(lambda cell: cell is not None)
        drawn = [draw(seen), *draw(st.lists(cells if missing else seen, min_size=n_rows - 1, max_size=n_rows - 1))]
        objects = name in ("word", "doubt", "sign")
        columns[name] = pd.Series(drawn, dtype=object) if objects else np.array(drawn, dtype=_dtype(name))
    return pd.DataFrame(columns)


def _dtype(name: str) -> type:
    return {"truth": bool, "count": np.int64, "few": np.int64, "size": np.int64}.get(name, float)


@st.composite
def weights(draw, n_rows: int) -> np.ndarray | None:
    """None, or weights of which the first is not 0."""
    kind = draw(st.sampled_from(["none", "whole", "fractions"]))
    if kind == "none":
        return None
    number = st.integers(0, 5).map(float) if kind == "whole" else st.floats(0, 1e3, allow_subnormal=False)
    return np.array([1.5, *draw(st.lists(number, min_size=n_rows - 1, max_size=n_rows - 1))])


@st.composite
def runs(draw, n_rows: int) -> list[slice]:
    """Consecutive rows, some of them none."""
    ends = sorted(draw(st.lists(st.integers(0, n_rows), max_size=5)))
    return [slice(start, stop) for start, stop in pairwise([0, *ends, n_rows])]
