"""Samples follow the distribution that enumeration gives; a field learned from samples recovers the weights."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import SlowField
from plain import learn_plain_schema

from sparsefield import MarkovField
from sparsefield.compute import Threads
from sparsefield.data import Dataset, Layout, Source, Table, as_source, compile_table
from sparsefield.errors import DataError
from sparsefield.inference import INFERENCE, ShortGibbs, draw, gibbs, infer_marginals
from sparsefield.model import Field


def small_field(seed: int = 0, size: float = 0.8, *, triple: bool = False) -> Field:
    """Return a field over four variables with 2, 3, 2 and 3 states and a number, with a feature for every pair."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.arange(60) % k for k in (2, 3, 2, 3)] + [rng.normal(size=60)])
    schema = learn_plain_schema(as_source(X), observed=["x4"])
    pairs = np.array(
        [
            (a, b)
            for a in range(schema.n_target_columns)
            for b in range(a + 1, schema.n_columns)
            if schema.variable_of_column[a] != schema.variable_of_column[b]
        ]
    )
    theta = rng.normal(scale=size, size=schema.n_target_columns + len(pairs))
    conjunctions = np.array([schema.target_offsets[:3]] if triple else [], dtype=np.int64).reshape(-1, 3)
    biases, weights = np.split(theta, [schema.n_target_columns])
    return Field(Layout.single(schema), biases, pairs, weights, conjunctions, np.full(len(conjunctions), 1.5))


def rows_like(field: Field, row: list, count: int) -> Table:
    source = Source(field.schema.order, count, "array", np.tile(np.array(row, dtype=float), (count, 1)))
    return compile_table(source, field.schema)


@pytest.mark.parametrize(
    ("row", "triple"),
    [
        ([np.nan, np.nan, np.nan, np.nan, 0.7], True),
        ([np.nan, 2, np.nan, np.nan, -1.0], False),
        ([1, np.nan, 0, np.nan, 0.0], False),
    ],
)
def test_samples_have_the_exact_marginals_and_pairs(row, triple) -> None:
    field = small_field(triple=triple)
    features = field.pairs, field.weights, field.conjunctions, field.conjunction_weights
    slow = SlowField(field.schema, field.biases, *features)
    count = 20000
    table = rows_like(field, row, count)
    with Threads(2) as engine:
        ((codes,),) = draw(field, Dataset.single(table), sweeps=40, seed=1, engine=engine)
    start = tuple(int(c) for c in table.blocks[0].codes[:, 0])
    joint = slow.joint(start, table.blocks[0].beliefs[field.schema.n_target_columns :, 0].tolist())
    counts = {}
    for assignment in map(tuple, codes.T.tolist()):
        counts[assignment] = counts.get(assignment, 0) + 1
    assert set(counts) <= set(joint)
    # Chi-squared over all assignments, each chain independent: mean d, deviation sqrt(2 d).
    expected = {assignment: p * count for assignment, p in joint.items()}
    common = [assignment for assignment, e in expected.items() if e >= 5]
    chi = sum((counts.get(assignment, 0) - expected[assignment]) ** 2 / expected[assignment] for assignment in common)
    degrees = len(common) - 1
    assert chi < degrees + 4.5 * np.sqrt(2 * degrees)
    assert degrees >= 2


@pytest.mark.parametrize("depend", [False, True])
def test_short_chains_are_exact_for_cells_that_depend_on_no_other_missing_one(depend) -> None:
    field = small_field()
    between = np.isin(np.asarray(field.schema.variable_of_column)[field.pairs], (0, 2)).all(axis=1)
    chosen = ~between | depend
    assert between.any()
    nothing = field.conjunctions, field.conjunction_weights
    field = Field(field.layout, field.biases, field.pairs[chosen], field.weights[chosen], *nothing)
    sample = Dataset.single(rows_like(field, [np.nan, 2, np.nan, 1, 0.7], 3))
    with Threads(1) as engine:
        methods = INFERENCE["exact"](), ShortGibbs()
        exact, short = (infer_marginals(field, sample, method, engine).values[0] for method in methods)
    assert short == pytest.approx(exact, abs=0.1 if depend else 1e-9)


def test_sampling_conditions_on_given_cells_and_returns_the_targets() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 200), rng.integers(0, 3, 200), rng.normal(size=200)])
    field = MarkovField(l1=2.0, n_jobs=1, random_state=0).fit(X, observed=[2])
    with pytest.raises(DataError, match="x2"):
        field.sample(3)
    given = np.array([[1.0, np.nan, 0.5], [np.nan, 2.0, -0.5]])
    drawn = field.sample(5, given=given)
    assert drawn.columns == ["x0", "x1"]
    assert drawn["x0"].to_list()[:5] == [1] * 5
    assert drawn["x1"].to_list()[5:] == [2] * 5
    with pytest.raises(ValueError, match="n must be"):
        field.sample(0, given=given)


def sample_of_chains(field: Field, count: int) -> Dataset:
    """Return rows without values, each an independent chain; more than 256 rows are several blocks."""
    return Dataset.single(rows_like(field, [np.nan] * 4 + [0.3], count))


def test_an_interrupt_stops_all_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains of 2 * 10^9 sweeps stop at their next kernel call, and those that wait never start."""
    field = small_field()
    sample = sample_of_chains(field, 700)
    monkeypatch.setattr(gibbs, "CELLS_PER_CALL", 20000)
    calls: list[int] = []

    def progress(done: int, total: int) -> None:
        calls.append(done)
        if len(calls) == 6:
            raise KeyboardInterrupt

    with Threads(2) as engine:
        with pytest.raises(KeyboardInterrupt):
            draw(field, sample, count=2, sweeps=10**9, thin=10**9, seed=0, engine=engine, progress=progress)
        assert len(calls) <= 6 + 2
        ((codes,),) = draw(field, sample, sweeps=2, seed=0, engine=engine)
    assert codes.min() >= 0, "the threads are available again"
