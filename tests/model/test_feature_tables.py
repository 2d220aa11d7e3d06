"""Tables of features can be read and filtered by either end."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sparsefield import MarkovField, RelationalField
from sparsefield.data import Relational

COLUMNS = {"a": ["u", "v"] * 20, "b": [0, 1] * 20}


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table], ids=["polars", "arrow"])
def test_states_of_both_ends_are_of_one_type(make) -> None:
    features = MarkovField(n_jobs=1, l1=0.1).fit(make(COLUMNS)).features_
    frame = pl.DataFrame(features)
    assert frame.schema["state_a"] == frame.schema["state_b"] == pl.String
    ends = pl.col("state_a") == "v", pl.col("state_b") == "1"
    assert len(frame.filter(*ends)) == 1


def test_states_of_both_ends_are_of_one_type_in_pandas() -> None:
    features = MarkovField(n_jobs=1, l1=0.1).fit(pd.DataFrame(COLUMNS)).features_
    assert ((features["state_a"] == "v") & (features["state_b"] == "1")).sum() == 1


def test_states_that_are_all_numbers_stay_numbers_even_where_one_end_has_none() -> None:
    table = pl.DataFrame({"a": [0, 1, 1] * 20, "b": [0, 0, 1] * 20})
    for l1 in (0.1, 1e3):
        schema = MarkovField(n_jobs=1, l1=l1).fit(table).features_.schema
        assert schema["state_a"] == schema["state_b"] == pl.Int64
        assert schema["variable_b"] == pl.String


def test_states_of_linked_tables_are_of_one_type() -> None:
    people = pl.DataFrame({"id": range(40), "smokes": [k % 20 < 10 for k in range(40)]})
    pets = pl.DataFrame({"owner": range(40), "kind": ["cat" if k % 20 < 10 else "dog" for k in range(40)]})
    data = Relational(
        {"person": people, "pet": pets}, keys={"person": "id"}, links={"owner": ("pet", "owner", "person")}
    )
    features = RelationalField(n_jobs=1, l1=0.1).fit(data).features_
    assert features.schema["state_a"] == features.schema["state_b"] == pl.String
    assert set(features.drop_nulls("state_b")["template"]) == {"across owner"}
