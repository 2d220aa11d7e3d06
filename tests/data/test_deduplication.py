"""Equal rows as one weighted row."""

from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd
import pytest
from plain import learn_plain_schema

from sparsefield import MarkovField
from sparsefield.data import Dataset, as_source, compile_table, deduplicate_rows
from sparsefield.data import dataset as module


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
