"""Kernels over sparse rows agree with plain NumPy, whether a row touches many, few or no variables."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from oracle import candidate_pairs
from sparse_tables import sparse_of

from sparsefield.data import DenseDataset
from sparsefield.kernels.sparse_conditionals import (
    BELIEF,
    BIAS,
    LOG_NORMALIZER,
    VARIANCE,
    loss_and_gradient,
    pair_gradients,
    residuals,
)
from sparsefield.objectives import DenseEvaluator, PseudoLikelihood, SparseEvaluator
from sparsefield.objectives.sparse_evaluator import baseline_beliefs

pytestmark = pytest.mark.grid(keep=3)


class Case:
    """The block of a problem, arcs with weights, the baseline, and the errors of the dense evaluator."""

    def __init__(self, problem, engine, pairs=None, theta=None) -> None:
        self.schema, self.layout = problem.schema, problem.layout
        self.pairs = problem.pairs if pairs is None else pairs
        self.theta = problem.theta if theta is None else theta
        table = sparse_of(problem.table)
        self.block = table.blocks[0].read_only()
        self.evaluator = SparseEvaluator(DenseDataset.single(table), engine)
        arcs = self.evaluator.compile(self.layout.arcs(self.pairs))
        self.arcs = arcs._replace(weight=self.theta[arcs.feature])
        self.baseline = baseline_beliefs(self.schema, self.theta[: self.schema.n_target_columns])
        dense = DenseEvaluator(problem.sample, PseudoLikelihood(), engine)
        self.loss, self.gradient = dense.evaluate(dense.compile(self.layout.arcs(self.pairs)), self.theta)
        factors = dense.gradient_factors()
        self.on = factors.expectations[0][0]
        self.errors = factors.errors[0][0] / self.block.weight
        self.beliefs = self.errors + self.on[: self.schema.n_target_columns]

    def evaluate(self):
        per_arc, per_state = np.zeros((len(self.arcs.target), 2)), np.zeros((self.schema.n_target_columns, 2))
        loss, touched = loss_and_gradient(self.block, self.arcs, self.baseline, per_arc, per_state)
        assert touched == self.touched()
        return loss, per_arc, per_state

    def touched(self) -> int:
        """Count the states of variables outside their reference state or with a feature to a column that is on."""
        n, owner = self.schema.n_target_columns, self.schema.variable_of_column
        reached = np.zeros((self.schema.n_variables, self.block.n_rows), dtype=bool)
        np.logical_or.at(reached, owner[:n], self.on[:n] > 0)
        np.logical_or.at(reached, owner[self.arcs.target], self.on[self.sources()] > 0)
        return int(reached[owner[:n]].sum())

    def sources(self):
        return np.repeat(np.arange(self.schema.n_columns), np.diff(self.arcs.offsets))


@pytest.fixture(params=["binary", "many states"])
def case(request, make_problem, engine) -> Case:
    states = (2,) * 7 if request.param == "binary" else (2, 4, 3, 2)
    return Case(make_problem(5, missing=0.0, numbers=0, states=states, observed_states=(2,), n_rows=25), engine)


def test_loss_and_gradient_are_relative_to_the_baseline(case) -> None:
    loss, per_arc, per_state = case.evaluate()
    weight, p = case.block.weight, case.baseline[:, BELIEF]
    spread = case.beliefs * (1 - case.beliefs)
    assert loss + weight.sum() * case.baseline[:, LOG_NORMALIZER].sum() == pytest.approx(case.loss, rel=1e-11)
    np.testing.assert_allclose(per_state[:, 0], (case.beliefs - p[:, None]) @ weight, atol=1e-11)
    np.testing.assert_allclose(per_state[:, 1], (spread - case.baseline[:, VARIANCE, None]) @ weight, atol=1e-11)
    target, source = case.arcs.target, case.sources()
    np.testing.assert_allclose(per_arc[:, 0], (case.errors[target] * case.on[source]) @ weight, atol=1e-11)
    np.testing.assert_allclose(per_arc[:, 1], (spread[target] * case.on[source]) @ weight, atol=1e-11)


def test_sums_are_added_to_the_output(case) -> None:
    _, per_arc, per_state = case.evaluate()
    twice_arc, twice_state = per_arc.copy(), per_state.copy()
    loss_and_gradient(case.block, case.arcs, case.baseline, twice_arc, twice_state)
    np.testing.assert_allclose(twice_arc, 2 * per_arc, atol=1e-11)
    np.testing.assert_allclose(twice_state, 2 * per_state, atol=1e-11)


def test_the_baseline_is_the_softmax_of_the_biases(case) -> None:
    offsets = case.schema.target_offsets
    for first, last in pairwise(offsets):
        z = case.theta[first:last]
        p = np.exp(z) / (1 + np.exp(z).sum())
        np.testing.assert_allclose(case.baseline[first:last, BIAS], z)
        np.testing.assert_allclose(case.baseline[first:last, BELIEF], p)
        np.testing.assert_allclose(case.baseline[first:last, VARIANCE], p * (1 - p))
        logs = case.baseline[first:last, LOG_NORMALIZER]
        assert logs[0] == pytest.approx(np.log1p(np.exp(z).sum()))
        assert not logs[1:].any()


@pytest.mark.parametrize("size", [40.0, 300.0, 1000.0])
def test_the_baseline_is_finite_for_any_weights(case, size) -> None:
    n = case.schema.n_target_columns
    for biases in (np.full(n, size), np.full(n, -size), size * (-1.0) ** np.arange(n)):
        baseline = baseline_beliefs(case.schema, biases)
        assert np.isfinite(baseline).all()
        assert ((baseline[:, BELIEF] >= 0) & (baseline[:, BELIEF] <= 1)).all()


def test_pair_gradients_of_candidates_are_errors_minus_baseline(case) -> None:
    pairs = np.array(candidate_pairs(case.schema))
    candidates = case.evaluator.compile(case.layout.arcs(pairs))
    out = np.zeros(len(candidates.target))
    pair_gradients(case.block, case.arcs, case.baseline, candidates.offsets, candidates.target, out)
    source = np.repeat(np.arange(case.schema.n_columns), np.diff(candidates.offsets))
    minus_baseline = case.errors[candidates.target] - case.baseline[candidates.target, BELIEF, None]
    np.testing.assert_allclose(out, (minus_baseline * case.on[source]) @ case.block.weight, atol=1e-11)


@pytest.mark.parametrize("threshold", [0.0, 0.05, 0.3, 0.9])
@pytest.mark.parametrize("room", [0, 10_000])
def test_residuals_are_stored_under_new_column_numbers(case, threshold, room) -> None:
    n, rows = case.schema.n_target_columns, case.block.n_rows
    number = np.random.default_rng(0).permutation(n).astype(np.int32)
    number[1] = -1
    counts = np.empty(rows, dtype=np.int64)
    columns, whole, filled = residuals(
        case.block, case.arcs, case.baseline, threshold, number, 2.0**44, counts,
        np.empty(room, np.int32), np.empty(room, np.int64),
    )  # fmt: skip
    assert counts.sum() == filled
    assert whole.dtype == np.int64
    entries = whole * 2.0**-44
    found = np.zeros((rows, n))
    np.add.at(found, (np.repeat(np.arange(rows), counts), columns[:filled]), entries[:filled])
    minus_baseline = (
        np.where(np.abs(case.errors) > threshold, case.errors - case.baseline[:, BELIEF, None], 0.0) * case.block.weight
    )
    for state in range(n):
        expected = minus_baseline[state] if number[state] >= 0 else np.zeros(rows)
        np.testing.assert_allclose(found[:, number[state]] if number[state] >= 0 else 0.0, expected, atol=1e-11)
    assert entries[:filled].all()


def test_buffers_grow_for_a_row_that_touches_many_states(make_problem, engine) -> None:
    """Buffers hold 1024 states and 4096 arcs at first; the product of the normalizers, 2^1200, overflows a double."""
    problem = make_problem(
        2, missing=0.0, numbers=0, n_rows=4, states=(2,) * 1200, observed_states=(2,) * 5, share=0.0, weighted=False
    )
    schema = problem.schema
    rng = np.random.default_rng(0)
    covariates = np.arange(schema.n_target_columns, schema.n_columns)
    pairs = np.array([(state, given) for state in range(schema.n_target_columns) for given in covariates])
    theta = np.concatenate([np.zeros(schema.n_target_columns), 1e-3 * rng.normal(size=len(pairs))])
    case = Case(problem, engine, pairs, theta)
    loss, per_arc, per_state = case.evaluate()
    assert case.loss > 4 * 700
    assert loss + 4 * case.baseline[:, LOG_NORMALIZER].sum() == pytest.approx(case.loss, rel=1e-11)
    np.testing.assert_allclose(
        per_state[:, 0] + 4 * case.baseline[:, BELIEF] - case.on[: schema.n_target_columns].sum(axis=1),
        case.gradient[: schema.n_target_columns],
        atol=1e-10,
    )
    out = np.zeros(len(case.arcs.target))
    pair_gradients(case.block, case.arcs, case.baseline, case.arcs.offsets, case.arcs.target, out)
    baseline_part = case.baseline[case.arcs.target, BELIEF] * case.on[case.sources()].sum(axis=1)
    np.testing.assert_allclose(out + baseline_part, per_arc[:, 0], atol=1e-10)
    counts, number = np.empty(4, dtype=np.int64), np.arange(schema.n_target_columns, dtype=np.int32)
    _, entries, filled = residuals(
        case.block, case.arcs, case.baseline, 0.0, number, 2.0**44, counts, np.empty(0, np.int32), np.empty(0, np.int64)
    )
    minus_baseline = case.errors - case.baseline[:, BELIEF, None]
    assert entries[:filled].sum() * 2.0**-44 == pytest.approx(minus_baseline.sum(), abs=1e-8)
