"""Scores of a sparse table: every candidate of the dense pass, whether or not the two ever meet, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import candidate_pairs
from plain import learn_plain_schema
from sparse_tables import sparse_sample

from sparsefield import config
from sparsefield.compute import Threads
from sparsefield.data import Dataset, Table, as_source, compile_sparse, compile_table
from sparsefield.induction import CFI, Grafting, sparse_scores
from sparsefield.induction.sparse_scores import score_sparse_pairs, unit_for
from sparsefield.objectives import PseudoLikelihood
from sparsefield.objectives.objective import PairQuery

NOTHING = np.empty(0, dtype=np.int64)
SHAPES = {
    "binary": {"states": (2,) * 7, "observed_states": ()},
    "many states": {"states": (2, 3, 5, 2), "observed_states": (), "n_rows": 20},
    "observed": {"states": (3, 2, 2), "observed_states": (2, 4)},
    "a constant column": {"states": (2, 1, 3), "observed_states": (1, 2)},
}
CUTS = [0.0, 0.3, 1.0, 2.5, 6.0]


@pytest.fixture(autouse=True)
def blocks_for_small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "CELLS_OF_SPARSE_BLOCK", 9)


def problem_of(make_problem, seed: int, shape: str, **options):
    return make_problem(seed, **{"missing": 0.0, "numbers": 0, **SHAPES[shape], **options})


def factors_at(sample, engine, pairs, theta):
    evaluator = PseudoLikelihood().make_problem(sample, engine)
    evaluator.evaluate(evaluator.compile(sample.layout.arcs(pairs)), theta)
    return evaluator.gradient_factors()


def as_dict(found) -> dict[tuple[int, int], float]:
    assert len(set(map(tuple, found.features.tolist()))) == len(found)
    assert np.array_equal(found.score, np.abs(found.gradient))
    return dict(zip(map(tuple, found.features.tolist()), found.gradient.tolist(), strict=True))


def exact(sparse, dense, pairs, theta, cut, known, engine) -> tuple[dict, dict]:
    """What the sparse pass finds, and what the dense one finds."""
    found = score_sparse_pairs(factors_at(sparse, engine, pairs, theta), sparse.layout, 0.0, cut, known)
    expected = Grafting().score(factors_at(dense, engine, pairs, theta), PairQuery(cut, known))
    return as_dict(found), as_dict(expected)


def assert_same_scores(found: dict, expected: dict, cut: float, digits: float = 1e-8) -> None:
    for pair in set(found) | set(expected):
        h = found.get(pair, expected.get(pair))
        if abs(abs(h) - cut) > digits:  # at the cut itself rounding decides
            assert pair in found, (pair, h)
            assert pair in expected, (pair, h)
            assert found[pair] == pytest.approx(expected[pair], abs=digits)


@pytest.mark.parametrize("shape", SHAPES)
@given(
    seed=st.integers(0, 2**32 - 1),
    cut=st.sampled_from(CUTS),
    share=st.sampled_from([0.0, 0.3, 1.0]),
    size=st.sampled_from([0.1, 1.0, 5.0]),
    weighted=st.booleans(),
)
def test_without_a_threshold_scores_are_those_of_grafting(
    make_problem, shape, seed, cut, share, size, weighted
) -> None:
    problem = problem_of(make_problem, seed, shape, share=share, size=size, weighted=weighted)
    with Threads(1) as engine:
        parts = sparse_sample(problem), problem.sample, problem.pairs, problem.theta
        assert_same_scores(*exact(*parts, cut, NOTHING, engine), cut)


def matrix_samples(on: np.ndarray, weight=None, observed=()) -> tuple[Dataset, Dataset]:
    import scipy.sparse as sp

    source = as_source(sp.csr_matrix(on))
    schema = learn_plain_schema(source, observed=list(observed), sample_weight=weight)
    table = compile_sparse(source, schema, weight)
    assert table is not None
    return Dataset.single(table), Dataset.single(compile_table(source, schema, sample_weight=weight))


def memory_for(entries: int):
    """A machine in which that many errors fit into memory at a time."""
    return lambda: entries * sparse_scores.ENTRY_BYTES / config.ERRORS_SHARE


def test_pairs_that_never_meet_are_found(engine, monkeypatch) -> None:
    """Two columns that are often on, and never together, repel each other."""
    monkeypatch.setattr(config, "SPARSE_DENSITY", 1.0)
    on = np.zeros((40, 12), dtype=np.int8)
    on[np.arange(40), np.arange(40) % 2] = 1
    on[np.arange(10), 2 + np.arange(10)] = 1
    sparse, dense = matrix_samples(on)
    none = np.empty((0, 2), dtype=np.int64)
    for theta in (np.zeros(12), np.log(on.mean(axis=0) / (1 - on.mean(axis=0)))):
        found, expected = exact(sparse, dense, none, theta, 5.0, NOTHING, engine)
        assert_same_scores(found, expected, 5.0)
        assert found[0, 1] >= 20.0


@given(
    seed=st.integers(0, 2**32 - 1),
    cut=st.sampled_from([0.0, 0.05, 0.5, 1.5, 3.0]),
    n_columns=st.sampled_from([2, 5, 40]),
    spread=st.sampled_from([0.0, 1.0, 4.0]),
    weighted=st.booleans(),
    observed=st.integers(0, 2),
    entries=st.sampled_from([3, 40, 10**6]),
)
def test_no_pair_is_lost_among_rare_columns(seed, cut, n_columns, spread, weighted, observed, entries) -> None:
    """Columns that are on once or twice, in rows of any weight; biases far from their optimum, so that baseline
    beliefs are anything from 0 to 1; in one round or in many."""
    rng = np.random.default_rng(seed)
    n_rows = 30
    often = rng.choice([1, 1, 2, 3, 12], n_columns)
    on = np.zeros((n_rows, n_columns), dtype=np.int8)
    for column, count in enumerate(often):
        # Rare ones in the same few rows, so that they do meet.
        on[rng.choice(6 if count < 4 else n_rows, count, replace=False), column] = 1
    weight = rng.choice([0.0, 0.01, 1.0, 7.0], n_rows) if weighted else None
    if weight is not None:
        weight[-1] = 1.0
    with pytest.MonkeyPatch.context() as patch, Threads(1) as engine:
        patch.setattr(config, "SPARSE_DENSITY", 1.0)
        sparse, dense = matrix_samples(on, weight, [f"x{k}" for k in range(min(observed, n_columns - 1))])
        patch.setattr(config, "machine_memory", memory_for(entries))
        schema = sparse.layout.schemas[0]
        pairs = np.array(candidate_pairs(schema), dtype=np.int64).reshape(-1, 2)
        pairs = pairs[rng.random(len(pairs)) < 0.2]
        theta = rng.normal(scale=spread, size=schema.n_target_columns + len(pairs)) - 2.0
        found, expected = exact(sparse, dense, pairs, theta, cut, np.sort(sparse.layout.keys(pairs)), engine)
    assert_same_scores(found, expected, cut)


def slow_scores(problem, threshold: float) -> dict[tuple[int, int], float]:
    """By plain loops: an error that is not beyond the threshold is replaced by the baseline error."""
    slow, n, columns = problem.slow, problem.schema.n_target_columns, problem.schema.n_columns
    errors = np.zeros((len(problem.rows), columns))
    for i, row in enumerate(problem.rows):
        for v in range(slow.n_targets):
            beliefs, at_rest = slow.update(v, row.q)[1:], slow.update(v, [0.0] * columns)[1:]
            for s, p, p0 in zip(slow.columns(v), beliefs, at_rest, strict=True):
                error = p - row.q[s]
                errors[i, s] = row.weight * (error if abs(error) > threshold else p0)
    assert not errors[:, n:].any()
    q = np.array([row.q for row in problem.rows])
    return {(a, b): errors[:, a] @ q[:, b] + errors[:, b] @ q[:, a] for a, b in candidate_pairs(problem.schema)}


def bounds(problem) -> np.ndarray:
    """(columns,): by how much the exact gradient of a pair with each can differ from 0; see `_order_columns`."""
    n, q = problem.schema.n_target_columns, np.array([row.q for row in problem.rows])
    on_weight = np.array([row.weight for row in problem.rows]) @ q
    bound = on_weight.copy()
    bound[:n] += on_weight[:n] + np.maximum(problem.slow.pl_gradient(problem.rows, [])[:n], 0.0)
    return bound


@pytest.mark.parametrize("shape", SHAPES)
@given(
    seed=st.integers(0, 2**32 - 1),
    threshold=st.sampled_from([0.02, 0.2, 0.5, 0.95]),
    cut=st.sampled_from(CUTS),
    share=st.sampled_from([0.3, 1.0]),
)
def test_errors_within_the_threshold_are_replaced_by_the_baseline(
    make_problem, shape, seed, threshold, cut, share
) -> None:
    problem = problem_of(make_problem, seed, shape, share=share)
    with Threads(1) as engine:
        factors = factors_at(sparse_sample(problem), engine, problem.pairs, problem.theta)
        found = as_dict(score_sparse_pairs(factors, problem.layout, threshold, cut, NOTHING))
        rule = CFI((threshold, 0.2))
        assert as_dict(rule.score_sparse(factors, PairQuery(cut, NOTHING))) == found
    expected = slow_scores(problem, threshold)
    # An estimate may exceed what the exact gradient cannot: such a column is not looked at.
    bound = bounds(problem)
    looked_at = {pair for pair in expected if min(bound[list(pair)]) > cut + 1e-9}
    near = {pair for pair in expected if min(bound[list(pair)]) > cut - 1e-9}
    for pair, h in expected.items():
        if abs(abs(h) - cut) < 1e-8:
            continue
        if pair in looked_at:
            assert (pair in found) == (abs(h) > cut)
        if pair in found:
            assert pair in near
            assert found[pair] == pytest.approx(h, abs=1e-8)


@pytest.mark.parametrize("weight", [100.0])
def test_without_a_threshold_an_error_of_exactly_0_is_0(engine, monkeypatch, weight) -> None:
    monkeypatch.setattr(config, "SPARSE_DENSITY", 1.0)
    on = np.zeros((20, 3), dtype=np.int8)
    on[:10, :2] = 1
    on[:15:2, 2] = 1
    sparse, dense = matrix_samples(on)
    pairs, theta = np.array([[0, 1]]), np.array([-1.0, -1.0, 0.0, weight])
    found, expected = exact(sparse, dense, pairs, theta, 0.0, NOTHING, engine)
    assert_same_scores(found, expected, 0.0)


BIT_SHAPES = {
    "binary": {"states": (2,) * 9, "observed_states": ()},
    "many states": {"states": (2, 3, 5, 2), "observed_states": ()},
    "observed": {"states": (3, 2, 2), "observed_states": (2, 4)},
}


def bits(found) -> list[bytes]:
    return [part.tobytes() for part in (found.features, found.gradient, found.score)]


@pytest.mark.grid(keep=1)
@pytest.mark.parametrize("shape", BIT_SHAPES)
@given(
    seed=st.integers(0, 2**32 - 1),
    cut=st.sampled_from([0.0, 0.3, 1.0, 2.5, 6.0]),
    threshold=st.sampled_from([0.0, 0.2]),
    share=st.sampled_from([0.0, 0.3]),
    limit=st.sampled_from([None, 1, 5, 20]),
    weighted=st.booleans(),
)
def test_threads_and_rounds_give_the_same_bits(
    make_problem, shape, seed, cut, threshold, share, limit, weighted
) -> None:
    problem = make_problem(seed, missing=0.0, numbers=0, n_rows=40, share=share, weighted=weighted, **BIT_SHAPES[shape])
    sample, known = sparse_sample(problem), np.sort(problem.layout.keys(problem.pairs))
    assert len(sample.tables[0].sparse_blocks) > 2
    outcomes = []
    for engine, entries in ((Threads(1), 10**9), (Threads(3), 10**9), (Threads(2), 40)):
        with engine, pytest.MonkeyPatch.context() as patch:
            memory = entries * sparse_scores.ENTRY_BYTES / config.ERRORS_SHARE
            patch.setattr(config, "machine_memory", lambda memory=memory: memory)
            factors = factors_at(sample, engine, problem.pairs, problem.theta)
            outcomes.append(bits(score_sparse_pairs(factors, problem.layout, threshold, cut, known, limit)))
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_at_the_cut_the_last_bit_decides(make_problem) -> None:
    """Bounds that leave columns out are rounded in ways of their own, and must not decide."""
    problem = make_problem(1, missing=0.0, numbers=0, n_rows=60, weighted=True, **BIT_SHAPES["binary"])
    with Threads(1) as engine:
        factors = factors_at(sparse_sample(problem), engine, problem.pairs, problem.theta)
        everyone = score_sparse_pairs(factors, problem.layout, 0.0, 0.0, NOTHING)
        assert len(everyone) == 36
        for size in everyone.score.tolist():
            for cut in (np.nextafter(size, 0.0), size):
                found = score_sparse_pairs(factors, problem.layout, 0.0, cut, NOTHING)
                np.testing.assert_array_equal(found.features, everyone.features[everyone.score > cut])


@pytest.mark.grid(keep=1)
@pytest.mark.parametrize("power", [-900, -40, 40, 900])
def test_weights_of_any_size_give_the_same_scores(make_problem, power) -> None:
    """Errors are multiples of a unit that goes with the total weight: sums neither overflow nor lose digits."""
    problem = make_problem(3, missing=0.0, numbers=0, n_rows=40, **BIT_SHAPES["observed"])
    table, outcomes = sparse_sample(problem).tables[0], []
    for scale in (1.0, 2.0**power):
        weighed = Table.of_cells(table.schema, table.cells.offsets, table.cells.columns, table.weight() * scale)
        with Threads(1) as engine:
            factors = factors_at(Dataset.single(weighed), engine, problem.pairs, problem.theta)
            found = score_sparse_pairs(factors, problem.layout, 0.0, 0.5 * scale, NOTHING)
            outcomes.append((found.features.tolist(), (found.gradient / scale).tolist()))
    assert outcomes[0][0]
    assert outcomes[0] == outcomes[1]


@given(total=st.floats(1e-280, 1e300))
def test_no_sum_of_errors_overflows(total) -> None:
    """An error beyond rest is no larger than 2, and a pair adds up errors both ways."""
    unit = unit_for(total)
    assert np.log2(unit) == int(np.log2(unit))
    assert 2**61 <= 4 * int(total / unit) < 2**62
