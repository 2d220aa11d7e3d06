"""Equal rows are merged, and rows and cells are held out, without a change of what is learned."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from plain import learn_plain_schema

from sparsefield import MarkovField, Relational, RelationalField
from sparsefield.compute import Threads
from sparsefield.data import Dataset, as_source, compile_table, deduplicate_rows, weigh_rows
from sparsefield.data import dataset as module
from sparsefield.estimators.compiled_rows import compile_densely
from sparsefield.estimators.training import make_path, training_options


def sample_of(frame: Any, observed: tuple[str, ...] = (), weight: np.ndarray | None = None) -> Dataset:
    source = as_source(frame)
    schema = learn_plain_schema(source, observed=observed)
    return Dataset.single(compile_table(source, schema, sample_weight=weight))


def rows_and_weights(sample: Dataset) -> dict[tuple, float]:
    total: dict[tuple, float] = defaultdict(float)
    for _, block in sample.blocks():
        for row, weight in zip(block.beliefs.T, block.weight, strict=True):
            total[tuple(row.tolist())] += weight
    return dict(total)


def survey(rows: int = 3000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": rng.choice(list("xyz"), rows),
            "b": rng.integers(0, 2, rows),
            "c": rng.integers(0, 4, rows),
            "height": rng.choice([-1.5, 0.0, 2.25], rows),
        }
    )


def test_every_distinct_row_remains_with_the_weight_of_its_duplicates() -> None:
    frame = survey()
    weight = np.random.default_rng(1).random(len(frame))
    sample = sample_of(frame, ("height",), weight)
    merged = deduplicate_rows(sample)
    before, after = rows_and_weights(sample), rows_and_weights(merged)
    assert merged.n_rows == len(before) == len(frame.drop_duplicates())
    assert before.keys() == after.keys()
    for row, total in before.items():
        assert after[row] == pytest.approx(total)
    first = frame.drop_duplicates().reset_index(drop=True)
    again = compile_table(as_source(first), sample.tables[0].schema)
    assert np.array_equal(again.codes(), merged.tables[0].codes())


def test_different_rows_with_the_same_hash_are_not_merged(monkeypatch) -> None:
    monkeypatch.setattr(module, "hash_rows", lambda codes, covariates: np.zeros(codes.shape[1], dtype=np.uint64))
    sample = sample_of(survey(), ("height",))
    assert deduplicate_rows(sample) is sample


@pytest.mark.parametrize("objective", ["pl", "cd"])
def test_repeating_rows_is_the_same_as_weighing_them(objective: str) -> None:
    frame = survey(400, 3).drop(columns="height")
    counts = np.random.default_rng(4).integers(1, 6, len(frame))
    often = frame.loc[np.repeat(frame.index, counts)]
    options: dict[str, Any] = {"l1": 1.0, "objective": objective, "solver__certify": objective == "pl"}
    repeated, weighed = (
        MarkovField(l1=2.0).set_params(**options).fit(often),
        MarkovField(l1=2.0).set_params(**options).fit(frame, sample_weight=counts),
    )
    np.testing.assert_array_equal(repeated.field_.pairs, weighed.field_.pairs)
    np.testing.assert_array_equal(repeated.field_.theta, weighed.field_.theta)
    assert repeated.field_.record.n_rows == len(often)


def learn(field, sample):
    """The field of a sample, by the options of an estimator."""
    with Threads(1) as engine:
        return make_path(field, sample, training_options(field), engine).run().field


def test_of_linked_tables_they_are_still_seen() -> None:
    rng = np.random.default_rng(1)
    mood = rng.integers(0, 2, 50)
    who = np.repeat(np.arange(50), 3)
    fun = np.where(rng.random(150) < 0.9, mood[who], 1 - mood[who])
    data = Relational(
        {"pupil": pl.DataFrame({"id": range(50), "mood": mood}), "visit": pl.DataFrame({"who": who, "fun": fun})},
        keys={"pupil": "id"},
        links={"who": ("visit", "who", "pupil")},
    )
    field = RelationalField(l1=1.0, templates="base").fit(data)
    sample = compile_densely(field, data)
    factors = np.concatenate([np.zeros(50), np.full(150, 2.0)])
    weighed = weigh_rows(sample, factors)
    assert [table.total_weight for table in weighed.tables] == [0.0, 300.0]
    for before, after in zip(sample.blocks(), weighed.blocks(), strict=True):
        assert np.array_equal(before[1].beliefs, after[1].beliefs)
    assert [table.total_weight for table in sample.tables] == [50.0, 150.0]
    learned = learn(field, weighed)
    (name,) = [learned.layout.feature_name(*pair) for pair in learned.pairs.tolist() if pair[1] != pair[0]][:1]
    assert (name.variable_a, name.variable_b) == ("fun", "mood")
