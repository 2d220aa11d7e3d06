"""Frames and arrays with columns of odd types, labels and numbers are fitted and queried."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.judging import check_finite
from fuzz.recipes import Campaign, NoCaseError, Step, first_step, steps_named
from sparsefield import MarkovField

Cells = Callable[[random.Random, int], list[Any]]


def _of(*values: Any) -> Cells:
    return lambda rng, n: [rng.choice(values) for _ in range(n)]


KINDS: dict[str, Cells] = {
    "binary": _of(0, 1),
    "booleans": _of(True, False),
    "integers": lambda rng, n: [rng.randint(-20, 20) for _ in range(n)],
    "floats": lambda rng, n: [rng.gauss(0.0, 1.0) for _ in range(n)],
    "with missing": _of(0.0, 1.0, 2.5, None, float("nan")),
    "outlier": lambda rng, n: [rng.choice((1e300, 1e15, -1e120, 1e9)), *(rng.random() for _ in range(n - 1))],
    "tiny": lambda rng, n: [rng.choice((1e-320, 5e-324, 1e-300, 0.0)) for _ in range(n)],
    "huge": lambda rng, n: [rng.choice((1e300, -1e308, 1.7e308, 2.0**1000)) for _ in range(n)],
    "infinite": _of(float("inf"), float("-inf"), 1.0),
    "bytes": _of(b"a", b"\xff"),
    "large integers": _of(2**53 + 1, 2**63 - 1, -(2**63), 10**30, 10**400),
    "whole": lambda rng, n: [rng.randint(0, 2**40) for _ in range(n)],
    "mixed": _of(True, 1, 1.0, "1", 0, False, "True", None),
    "text": _of("a", "b", "ü", "", " ", "\x00", "nan", "None", "\ud83d", "🙂", "a" * 300),
    "identifiers": lambda rng, n: [f"id{rng.randrange(10**9)}" for _ in range(n)],
    "constant": _of("same"),
    "nothing": _of(None),
    "dates": lambda rng, n: [date(2020, 1, 1) + timedelta(days=rng.randint(-(10**5), 10**5)) for _ in range(n)],
    "durations": lambda rng, n: [timedelta(seconds=rng.randint(-(10**9), 10**9)) for _ in range(n)],
    "decimals": _of(Decimal("1.1"), Decimal("NaN"), Decimal("1e400"), Decimal(3)),
    "lists": _of([1], [2, 3], None),
    "complex": _of(1j, 2.0),
}

NAMES = ("a", "b", "c", "", " ", "x0", "a=1", "a & b", "(neighbor count)", "ü", "0", "\n", "a" * 200, "{}", "%s", "<b>")

CALLS = ("score", "predict_proba", "transform", "sample", "infer", "probability", "features", "save")


def draw(rng: random.Random) -> list[Step]:
    """Return columns, the kind of table, and calls."""
    steps: list[Step] = [("rows", rng.choice((1, 2, 5, 30, 60)), rng.randrange(10**6))]
    steps.append(("table", rng.choice(("pandas", "pandas objects", "polars", "array", "lists"))))
    for name in rng.sample(NAMES, rng.randint(1, 4)):
        steps.append(("column", rng.choice(list(KINDS)), name))
    if rng.random() < 0.3:
        steps.append(("observed", rng.randrange(4)))
    if rng.random() < 0.3:
        steps.append(("weight", rng.choice((0.0, 1.0, 1e-300, 1e300, 1e29, float("inf"), -1.0))))
    return [*steps, *(("call", name) for name in rng.sample(CALLS, 3))]


def run(steps: list[Step], folder: Path) -> None:
    """Fit a field to a table and call methods, whose results must be finite."""
    n_rows, seed = first_step(steps, "rows", (10, 0))
    columns = _columns(steps, n_rows, seed)
    table = _make_table(first_step(steps, "table", ("pandas",))[0], columns)
    options: dict[str, Any] = {}
    for (position,) in steps_named(steps, "observed"):
        options["observed"] = [position % len(columns)]
    for (weight,) in steps_named(steps, "weight"):
        options["sample_weight"] = np.where(np.arange(n_rows) % 3 == 0, weight, 1.0)
    field = MarkovField(l1=3.0, missing="mean-field", inference="mean-field", n_jobs=1, random_state=0)
    field.fit(table, **options)
    check_finite(field.objective_, "objective_")
    for (name,) in steps_named(steps, "call"):
        _call(field, name, table, folder)


def _columns(steps: list[Step], n_rows: int, seed: int) -> dict[str, list[Any]]:
    columns = {
        name: KINDS[kind](random.Random(f"{seed}/{name}"), n_rows) for kind, name in steps_named(steps, "column")
    }
    if not columns:
        raise NoCaseError
    return columns


def _make_table(kind: str, columns: dict[str, list[Any]]) -> Any:
    import polars as pl

    try:
        if kind.startswith("pandas"):
            return _make_pandas(columns, object if kind == "pandas objects" else None)
        if kind == "polars":
            return pl.DataFrame(columns, strict=False)
        rows = [list(row) for row in zip(*columns.values(), strict=True)]
        return rows if kind == "lists" else np.array(rows, dtype=object)
    except (Exception, pl.exceptions.PanicException) as error:  # of another library, which may be missing
        raise NoCaseError from error


def _make_pandas(columns: dict[str, list[Any]], dtype: type | None) -> Any:
    import pandas as pd

    return pd.DataFrame({name: pd.Series(cells, dtype=dtype) for name, cells in columns.items()})


def _call(field: MarkovField, name: str, table: Any, folder: Path) -> None:
    if name == "score":
        check_finite(float(field.score(table)), name)
    elif name == "predict_proba":
        check_finite(field.predict_proba(table), name)
    elif name == "transform":
        field.transform(table)
    elif name == "sample":
        field.sample(3, random_state=0)
    elif name == "infer":
        found = field.infer(table)
        for column in field.states_:
            check_finite(found.state_probabilities(column), f"infer[{column!r}]")
    elif name == "probability":
        column, states = next(iter(field.states_.items()))
        given = {one: None for one in field.field_.schema.order if one not in field.states_}
        check_finite(float(field.probability({column: states[0]}, given=given)), name)
    elif name == "features":
        check_finite(np.asarray(field.features_["weight"], dtype=float), name)
    elif name == "save":
        from sparsefield import load

        field.save(folder / "m.safetensors")
        load(folder / "m.safetensors")


CAMPAIGN = Campaign("frames", draw, run, libraries=("pandas",))
