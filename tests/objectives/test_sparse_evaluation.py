"""On a sparse table, loss, gradient and curvature are those of the dense one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import SlowField, candidate_pairs
from sparse_tables import sparse_of, sparse_sample

from sparsefield import config
from sparsefield.compute import Threads
from sparsefield.data import Dataset, Table
from sparsefield.objectives import OBJECTIVES, DenseEvaluator, PseudoLikelihood, SparseEvaluator

SHAPES = {
    "binary": {"states": (2,) * 6, "observed_states": ()},
    "many states": {"states": (2, 3, 5, 2), "observed_states": (), "n_rows": 20},
    "observed": {"states": (3, 2), "observed_states": (2, 4)},
    "a constant column": {"states": (2, 1, 3, 1), "observed_states": (1, 2)},
}


@pytest.fixture(autouse=True)
def blocks_for_small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "CELLS_OF_SPARSE_BLOCK", 7)


def problem_of(make_problem, seed: int, shape: str = "many states", **options):
    return make_problem(seed, **{"missing": 0.0, "numbers": 0, **SHAPES[shape], **options})


def evaluators(problem, engine, pairs=None, theta=None):
    """A sparse and a dense one that have both evaluated the problem's field, with what they found."""
    pairs = problem.pairs if pairs is None else pairs
    theta = problem.theta if theta is None else theta
    found = []
    for sample in (sparse_sample(problem), problem.sample):
        evaluator = PseudoLikelihood().make_problem(sample, engine)
        found.append((evaluator, *evaluator.evaluate(evaluator.compile(problem.layout.arcs(pairs)), theta)))
    assert isinstance(found[0][0], SparseEvaluator)
    assert isinstance(found[1][0], DenseEvaluator)
    return found


def assert_equal(problem, engine, pairs=None, theta=None) -> None:
    (sparse, loss, gradient), (dense, dense_loss, dense_gradient) = evaluators(problem, engine, pairs, theta)
    assert loss == pytest.approx(dense_loss, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(gradient, dense_gradient, rtol=0, atol=1e-9)
    np.testing.assert_allclose(sparse.bias_hessian(), dense.bias_hessian(), rtol=0, atol=1e-9)
    for mine, theirs in zip(sparse.moments(), dense.moments(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", ["binary", "a constant column"])
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.sampled_from([0.1, 1.0, 6.0]),
    share=st.sampled_from([0.0, 0.3, 1.0]),
    weighted=st.booleans(),
)
def test_loss_gradient_and_hessian_are_those_of_the_dense_evaluator(
    make_problem, shape, seed, size, share, weighted
) -> None:
    with Threads(1) as engine:
        assert_equal(problem_of(make_problem, seed, shape, size=size, share=share, weighted=weighted), engine)


@pytest.mark.parametrize("shape", SHAPES)
def test_loss_and_gradient_are_those_of_the_oracle(make_problem, engine, shape) -> None:
    problem = problem_of(make_problem, 3, shape)
    (_, loss, gradient), _ = evaluators(problem, engine)
    assert loss == pytest.approx(problem.slow.pl_loss(problem.rows), rel=1e-11)
    np.testing.assert_allclose(gradient, problem.slow.pl_gradient(problem.rows, problem.pairs), rtol=0, atol=1e-11)


@pytest.mark.parametrize(("states", "observed"), [(2, 1), (3, 0)])
def test_hubs(make_problem, engine, states, observed) -> None:
    """One column that everything hangs on: a row in which it is on touches every variable."""
    problem = make_problem(
        1, missing=0.0, numbers=0, n_rows=30, states=(states,) * 60, observed_states=(2,) * observed, share=0.0
    )
    pairs = np.array(candidate_pairs(problem.schema))
    hub = problem.schema.n_columns - 1 if observed else 0
    pairs = pairs[(pairs == hub).any(axis=1)]
    theta = np.random.default_rng(0).normal(size=problem.schema.n_target_columns + len(pairs))
    assert len(pairs) > 50
    assert_equal(problem, engine, pairs, theta)


@pytest.mark.parametrize(("shape", "size"), [("binary", 300.0), ("many states", 50.0)])
def test_extreme_weights_keep_their_digits(make_problem, engine, shape, size) -> None:
    problem = problem_of(make_problem, 11, shape, size=size)
    assert_equal(problem, engine)
    assert_equal(problem, engine, theta=size * np.sign(problem.theta))
    for theta in (np.full_like(problem.theta, size), np.full_like(problem.theta, -size)):
        (sparse, loss, gradient), _ = evaluators(problem, engine, theta=theta)
        shared = sparse.arc_hessian(sparse.compile(problem.layout.arcs(problem.pairs)))
        assert np.isfinite(loss)
        assert loss >= 0.0
        assert all(np.isfinite(part).all() for part in (gradient, sparse.bias_hessian(), shared))


@pytest.mark.parametrize("shape", ["many states", "observed"])
@given(seed=st.integers(0, 2**32 - 1), share=st.sampled_from([0.0, 0.2, 0.6]))
def test_gradients_of_pairs_outside_the_field_are_exact(make_problem, shape, seed, share) -> None:
    problem = problem_of(make_problem, seed, shape, share=share)
    others = np.array(candidate_pairs(problem.schema), dtype=np.int64).reshape(-1, 2)
    size = problem.schema.n_target_columns + len(others)
    with Threads(1) as engine:
        (sparse, _, gradient), (dense, _, _) = evaluators(problem, engine)
        arcs = problem.layout.arcs(others)
        watched = sparse.gradient(sparse.compile(arcs), size)
        np.testing.assert_allclose(watched, dense.gradient(dense.compile(arcs), size), rtol=0, atol=1e-9)
        again = sparse.gradient(sparse.compile(problem.layout.arcs(problem.pairs)), len(problem.theta))
        np.testing.assert_allclose(again, gradient, rtol=0, atol=1e-9)
        none = sparse.gradient(sparse.compile(problem.layout.arcs(others[:0])), problem.schema.n_target_columns)
        np.testing.assert_array_equal(none, gradient[: problem.schema.n_target_columns])


def slow_shared(problem, arcs) -> list[float]:
    """p (1 - p) of an arc's target, summed over the rows in which its source is on, by plain loops."""
    slow: SlowField = problem.slow
    owner = problem.schema.variable_of_column
    totals = []
    for target, source in zip(arcs.target.tolist(), arcs.source.tolist(), strict=True):
        total = 0.0
        for row in problem.rows:
            if row.q[source] == 1.0:
                v = int(owner[target])
                p = slow.update(v, row.q)[1 + target - slow.columns(v).start]
                total += row.weight * p * (1.0 - p)
        totals.append(total)
    return totals


@pytest.mark.parametrize("shape", SHAPES)
def test_arc_hessian_is_a_sum_over_rows_in_which_the_source_is_on(make_problem, engine, shape) -> None:
    problem = problem_of(make_problem, 6, shape)
    arcs = problem.layout.arcs(problem.pairs)
    evaluator = SparseEvaluator(sparse_sample(problem), engine)
    compiled = evaluator.compile(arcs)
    evaluator.evaluate(compiled, problem.theta)
    np.testing.assert_allclose(evaluator.arc_hessian(compiled), slow_shared(problem, arcs), rtol=0, atol=1e-11)


@pytest.mark.parametrize("shape", ["binary", "observed"])
def test_any_number_of_threads_gives_the_same_bits(make_problem, shape) -> None:
    problem = problem_of(make_problem, 8, shape, n_rows=80)
    others = problem.layout.arcs(np.array(candidate_pairs(problem.schema)))
    size = problem.schema.n_target_columns + int(others.feature.max()) + 1
    assert len(sparse_of(problem.table).sparse_blocks) > 10
    outcomes = []
    for n_jobs in (1, 2, 3):
        with Threads(n_jobs) as engine:
            evaluator = SparseEvaluator(sparse_sample(problem), engine)
            arcs = evaluator.compile(problem.layout.arcs(problem.pairs))
            loss, gradient = evaluator.evaluate(arcs, problem.theta)
            watched = evaluator.gradient(evaluator.compile(others), size)
            parts = gradient, watched, evaluator.bias_hessian(), evaluator.arc_hessian(arcs)
            outcomes.append((loss, *(part.tobytes() for part in parts)))
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_rows_with_nothing_on_have_baseline_beliefs(make_problem, engine) -> None:
    problem = problem_of(make_problem, 5, "many states")
    nothing = Table.of_cells(problem.schema, np.zeros(5, dtype=np.int64), np.empty(0, dtype=np.int32), np.full(4, 2.0))
    evaluator = SparseEvaluator(Dataset.single(nothing), engine)
    loss, gradient = evaluator.evaluate(evaluator.compile(problem.layout.arcs(problem.pairs)), problem.theta)
    n, q = problem.schema.n_target_columns, [0.0] * problem.schema.n_columns
    beliefs = [problem.slow.update(v, q) for v in range(len(problem.schema.targets))]
    assert loss == pytest.approx(-8.0 * sum(np.log(p[0]) for p in beliefs), rel=1e-12)
    np.testing.assert_allclose(gradient[:n], 8.0 * np.concatenate([p[1:] for p in beliefs]), rtol=1e-12)
    assert not gradient[n:].any()


def test_other_objectives_are_refused(make_problem, engine) -> None:
    problem = problem_of(make_problem, 1)
    with pytest.raises(ValueError, match="'cd'"):
        OBJECTIVES["cd"]().make_problem(sparse_sample(problem), engine)
