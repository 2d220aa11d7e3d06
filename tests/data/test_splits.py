"""Rows with weight 0 teach nothing, but their neighbors see them."""

from __future__ import annotations

import numpy as np
import polars as pl

from sparsefield import Relational, RelationalField
from sparsefield.compute import Threads
from sparsefield.data import weigh_rows
from sparsefield.estimators.compiled_rows import compile_densely
from sparsefield.estimators.training import make_path, training_options


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
    field = RelationalField(l1=1.0).fit(data)
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
