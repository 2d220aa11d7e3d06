"""cd is F0 - F1 of a sequential sweep, which is never negative."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain import graphs_of, learn_plain_schema

from sparsefield.compute import Threads
from sparsefield.data import Dataset, Table, as_source, compile_table
from sparsefield.inference import MeanField
from sparsefield.objectives import DenseEvaluator
from sparsefield.objectives.contrastive_divergence import ContrastiveDivergence


def evaluate(problem):
    with Threads(1) as engine:
        evaluator = DenseEvaluator(problem.sample, ContrastiveDivergence(), engine)
        loss, gradient = evaluator.evaluate(problem.graphs, problem.theta)
        return loss, gradient, evaluator.gradient_factors()


@given(
    seed=st.integers(0, 2**32 - 1),
    missing=st.sampled_from([0.0, 0.2, 0.7]),
    size=st.sampled_from([0.01, 1.0, 10.0, 200.0]),
    n_rows=st.sampled_from([1, 4, 12]),
)
def test_loss_is_never_negative(make_problem, seed, missing, size, n_rows) -> None:
    problem = make_problem(seed, n_rows=n_rows, missing=missing, size=size)
    loss, _, _ = evaluate(problem)
    total = sum(row.weight for row in problem.rows) * max(size, 1.0)
    assert loss >= -1e-12 * total


def test_two_states_that_are_off_and_repel_each_other_keep_the_loss_bounded() -> None:
    """Updated at once, both would jump to 1, and the loss would fall without end with their weight."""
    X = np.array([[0, 0]] * 8 + [[1, 0], [0, 1]])
    source = as_source(X)
    schema = learn_plain_schema(source)
    pairs = np.array([[0, 1]])
    with Threads(1) as engine:
        evaluator = DenseEvaluator(Dataset.single(compile_table(source, schema)), ContrastiveDivergence(), engine)
        losses = [evaluator.evaluate(graphs_of(schema, pairs), np.array([2.0, 2.0, -w]))[0] for w in (1e2, 1e4, 1e6)]
    assert min(losses) >= 0.0
    assert np.isfinite(losses).all()


def test_at_a_fixed_point_of_mean_field_there_is_nothing_left_to_gain(make_problem) -> None:
    problem = make_problem(2, missing=0.2, observed_states=(), states=(2, 3, 2))
    hidden = problem.table.blocks[0]
    hidden = hidden._replace(codes=np.full_like(hidden.codes, -1))
    cell_variable, missing_rows = np.nonzero(hidden.codes < 0)
    hidden = hidden._replace(cell_offsets=np.searchsorted(cell_variable, np.arange(4)), missing_rows=missing_rows)
    table = Table(problem.schema, (hidden,), problem.table.n_rows)
    graphs = problem.graphs
    with Threads(1) as engine:
        evaluator = DenseEvaluator(Dataset.single(table), ContrastiveDivergence(), engine, MeanField(tolerance=1e-12))
        before, _ = evaluator.evaluate(graphs, problem.theta)
        evaluator.source.impute(evaluator.weights_of_field(graphs, problem.theta))
        after, gradient = evaluator.evaluate(graphs, problem.theta)
    assert before > 1e-3
    assert after == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-9)
