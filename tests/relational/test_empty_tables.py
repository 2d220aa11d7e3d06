"""A linked table may have no rows: nobody is linked, or nothing of a kind is asked about."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sparsefield import MarkovField, RelationalField
from sparsefield.data import OffsetLink, Relational

N = 60
OPTIONS = {"l1": 0.3, "n_jobs": 1}


def people() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    smokes = rng.integers(0, 2, N)
    coughs = np.where(rng.random(N) < 0.85, smokes, 1 - smokes)
    table = pl.DataFrame({"id": np.arange(N), "smokes": smokes, "coughs": coughs})
    missing = rng.random((2, N)) < 0.1
    return table.with_columns(
        pl.when(pl.Series(~cell)).then(name).alias(name)
        for name, cell in zip(("smokes", "coughs"), missing, strict=True)
    )


def letters(n_rows: int) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    kind = np.array(["note", "bill"])[rng.integers(0, 2, n_rows)]
    return pl.DataFrame(
        {
            "sender": rng.integers(0, N, n_rows),
            "kind": pl.Series([None if k % 7 == 0 else str(v) for k, v in enumerate(kind)], dtype=pl.String),
            "weight": rng.normal(size=n_rows),
            "stamp": pl.Series(np.array(["red", "blue", "green"])[rng.integers(0, 3, n_rows)], dtype=pl.String),
        }
    )


def befriended(friends, ends: tuple[str, str] = ("who", "whom")) -> Relational:
    return Relational(
        {"person": people(), "friend": friends},
        keys={"person": "id"},
        links={end: ("friend", end, "person") for end in ends},
    )


def posted(n_rows: int) -> Relational:
    return Relational(
        {"person": people(), "letter": letters(n_rows)},
        keys={"person": "id"},
        links={"sender": ("letter", "sender", "person"), "next": OffsetLink("letter")},
        observed={"letter": ["weight", "stamp"]},
    )


def check_answers(field: RelationalField, data: Relational) -> None:
    """Every question is answered for the people."""
    filled = field.transform(data).tables["person"]
    assert filled.null_count().sum_horizontal()[0] == 0
    assert np.isfinite(field.score(data))
    drawn = field.sample(data, sweeps=3, random_state=0).tables["person"]
    assert drawn.null_count().sum_horizontal()[0] == 0


@pytest.mark.parametrize("kind", ["polars", "array"])
def test_nobody_need_be_linked(kind) -> None:
    friends = {"polars": pl.DataFrame(schema={"who": pl.Int64, "whom": pl.Int64}), "array": np.empty((0, 2))}[kind]
    data = befriended(friends, ("x0", "x1") if kind == "array" else ("who", "whom"))
    assert "friend: 0 rows, 0 variables" in repr(data)
    # Cells of linked tables are drawn, those of a plain row with few completions are not.
    for missing, error in (("mean-field", 1e-3), ("em", 0.02)):
        field = RelationalField(l1=2.0).set_params(**OPTIONS, missing=missing).fit(data)
        plain = MarkovField(l1=2.0).set_params(**OPTIONS, missing=missing).fit(people().drop("id"))
        assert field.converged_
        assert field.objective_ == pytest.approx(plain.objective_, rel=error)
    assert set(field.features_["template"]) == {"within person"}
    check_answers(field, data)


def test_rows_to_predict_may_be_gone_at_prediction() -> None:
    field = RelationalField(l1=2.0, templates="base").set_params(**OPTIONS).fit(posted(80))
    data = posted(0)
    check_answers(field, data)
    found = field.predict_proba(data)
    assert found["letter"]["kind"].shape == (0, 2)
    assert found["person"]["smokes"].shape == (N, 2)
    assert field.transform(data).tables["letter"].equals(data.tables["letter"])
