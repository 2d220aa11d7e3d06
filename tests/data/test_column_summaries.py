"""A schema does not depend on how the rows were parted, but for the last digits of sums."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odd_frames import COLUMNS, OBSERVED, frames, runs, weights

from sparsefield.data import Schema, as_source, column_summaries, learn_schema
from sparsefield.data.column_summaries import ColumnSummary
from sparsefield.data.schema_learning import check_roles, learn_from_summaries, summarize_columns
from sparsefield.errors import DataError

pytestmark = pytest.mark.grid(keep=2)

KINDS = {
    "pandas": lambda frame: frame,
    "polars": lambda frame: pl.from_pandas(frame),
    "objects": lambda frame: frame.astype(object).where(frame.notna(), None).to_numpy(),
}


def learn_parted(parts, weight=None, observed=(), kinds="auto", states=None) -> Schema:
    """As `learn_schema`, with two joins on the way to one."""
    sources = [as_source(part, may_be_empty=True) for part in parts]
    weighed = weight or [None] * len(parts)
    given, known = check_roles(sources[0], observed, kinds, states)
    parted = [summarize_columns(source, w, given, known) for source, w in zip(sources, weighed, strict=True)]
    half = len(parted) // 2

    def join(parts):
        return [ColumnSummary.join(column) for column in zip(*parts, strict=True)]

    joined = join([join(some) for some in (parted[:half], parted[half:]) if some])
    return learn_from_summaries(joined, given, known, observed=observed)


def rounded(schema: Schema) -> str:
    """Return all that a schema says, which is more than equality compares (types of labels, signs of zeros), without
    the last digits of its numbers: sums over partitions are rounded in another order."""
    return re.sub(r"-?\d+\.\d+(e[+-]?\d+)?", lambda number: f"{float(number[0]):.8g}", repr(schema))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_partitions_have_the_schema_of_all_rows(kind, data) -> None:
    frame = data.draw(frames())
    weight, parted = data.draw(weights(len(frame))), data.draw(runs(len(frame)))
    X = KINDS[kind](frame)
    names = as_source(X).names
    observed = [names[list(COLUMNS).index(name)] for name in OBSERVED]
    word, number, few, size = names[0], names[6], names[7], names[8]
    some = {number: "numeric", few: "ordinal", size: "nominal", word: ["zz", "b", "a", "q"]}
    kinds = data.draw(st.sampled_from(["auto", {number: "nominal", few: "nominal"}, {few: "numeric"}, some]))
    roles = {"observed": observed, "kinds": kinds, "states": {word: ["q"], size: [7]}}
    together = learn_schema(as_source(X), sample_weight=weight, **roles)
    parts = [X.iloc[run] if kind == "pandas" else X[run] for run in parted]
    weighed = None if weight is None else [weight[run] for run in parted]
    assert rounded(learn_parted(parts, weighed, **roles)) == rounded(together)


def test_one_partition_may_have_integers_and_another_fractions() -> None:
    parts = [pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [0.5, np.nan]}), pd.DataFrame({"a": [None]})]
    assert learn_parted(parts).variables[0].states == (0.5, 1.0, 2.0)
    assert [type(state) for state in learn_parted(parts).variables[0].states] == [float] * 3
    schema = learn_parted(parts, observed=["a"])
    assert schema.variables[0].numeric
    assert schema.variables[0].center == 3.5 / 3


def test_large_integers_merge_into_one_float_among_fractions() -> None:
    parts = [pd.DataFrame({"a": [2**53, 2**53 + 1]}), pd.DataFrame({"a": [0.5]})]
    (variable,) = learn_parted(parts, kinds={"a": "nominal"}).variables
    assert (variable.states, variable.frequencies) == ((0.5, 2.0**53), (1 / 3, 2 / 3))
    with pytest.raises(DataError, match=r"'a' is numeric and holds integers beyond 2\^53 such as 9007199254740993"):
        learn_parted(parts)


def test_booleans_with_and_without_missing_cells_have_one_type() -> None:
    parts = [pd.DataFrame({"a": [True, False]}), pd.DataFrame({"a": pd.Series([True, None], dtype=object)})]
    (variable,) = learn_parted(parts).variables
    assert variable.states == (False, True)
    assert variable.states[1] is True
    assert variable.frequencies == (1 / 3, 2 / 3)


def test_a_column_of_numbers_is_categorical_if_another_partition_has_text() -> None:
    cells = [*range(30), "many"]
    parts = [pd.DataFrame({"a": pd.Series(run, dtype=object)}) for run in (cells[:25], cells[25:])]
    (variable,) = learn_parted(parts, observed=["a"]).variables
    assert not variable.numeric
    assert variable.states == tuple(cells)


def test_repeated_labels_are_no_identifiers() -> None:
    parts = [np.arange(150).reshape(-1, 1)] * 2
    kinds = {"x0": "nominal"}
    assert learn_parted(parts, kinds=kinds) == learn_schema(as_source(np.concatenate(parts)), kinds=kinds)
    with pytest.raises(DataError, match="300 different values in 300 cells"):
        learn_parted([parts[0], parts[0] + 150], kinds=kinds)


def test_a_numeric_column_without_weight_has_no_values() -> None:
    frame = pd.DataFrame({"a": [1, 0, 1], "b": [0.5, np.nan, np.nan]})
    with pytest.raises(DataError, match="'b' has no values at all"):
        learn_schema(as_source(frame), observed=["b"], sample_weight=np.array([0.0, 1.0, 1.0]))


def test_numbers_of_any_partition_make_the_same_levels(monkeypatch) -> None:
    monkeypatch.setattr(column_summaries, "SAMPLED_VALUES", 500)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "even": rng.normal(size=2000),
            "skewed": rng.lognormal(sigma=2.0, size=2000),
            "whole": rng.integers(0, 300, 2000),
            "zeros": np.where(rng.random(2000) < 0.5, -0.0, 0.0) + (rng.random(2000) < 0.3) * 0.5,
        }
    )
    frame.loc[rng.random(2000) < 0.1, "even"] = np.nan
    weight = rng.uniform(0.0, 2.0, 2000)
    together = learn_schema(as_source(frame), observed=["whole"], sample_weight=weight)
    assert [v.kind for v in together.variables] == ["numeric"] * 4
    assert [v.transform for v in together.variables[:2]] == ["linear-scores", "normal-scores"]
    for ends in ([], [7], [1000], [1, 2, 3], [0, 400, 400, 1999]):
        runs_of = np.split(np.arange(2000), ends)
        parts, weighed = [frame.iloc[run] for run in runs_of], [weight[run] for run in runs_of]
        assert rounded(learn_parted(parts, weighed, observed=["whole"])) == rounded(together)


def test_a_sample_of_numbers_has_the_quantiles_of_all() -> None:
    rng = np.random.default_rng(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_summaries, "SAMPLED_VALUES", 4000)
        (variable,) = learn_schema(as_source(rng.normal(size=(50_000, 1)))).variables
    states, frequencies = np.array(variable.states), np.array(variable.frequencies)
    assert frequencies @ states == pytest.approx(0.0, abs=0.05)
    assert frequencies @ states**2 == pytest.approx(1.0, abs=0.07)


def test_kinds_are_found_from_all_partitions() -> None:
    """A partition of few integers decides nothing about a column with fractions, or many integers, in another."""
    parts = [
        pd.DataFrame({"a": [0, 1, 2], "b": [0, 1, 2], "c": [1, 2, 1], "d": [1, 1, 1]}),
        pd.DataFrame({"a": [0.5, 1.0, 2.0], "b": range(3, 6), "c": [1, 1, 2], "d": [2, 2, 2]}),
        pd.DataFrame({"a": [0.0, 1.0, 2.0], "b": range(8, 11), "c": [3, 1, 2], "d": [1, 2, 1]}),
        pd.DataFrame({"a": [0.0, 1.0, 2.0], "b": range(10, 13), "c": [3, 1, 2], "d": [1, 2, 1]}),
    ]
    for order in ([0, 1, 2, 3], [3, 2, 1, 0]):
        schema = learn_parted([parts[k] for k in order])
        assert [v.kind for v in schema.variables] == ["numeric", "numeric", "ordinal", "nominal"]
