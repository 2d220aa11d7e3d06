"""Loss, errors and gradient are sums over rows, however these are split into blocks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain import evaluated

from sparsefield.compute import Threads
from sparsefield.data import Dataset, Table
from sparsefield.kernels.mean_field_sweep import bias_hessian
from sparsefield.objectives import OBJECTIVES, DenseEvaluator


def part(block, rows: slice):
    codes = np.ascontiguousarray(block.codes[:, rows])
    cell_variable, missing_rows = np.nonzero(codes < 0)
    return block._replace(
        start=rows.start,
        codes=codes,
        beliefs=np.ascontiguousarray(block.beliefs[:, rows]),
        weight=np.ascontiguousarray(block.weight[rows]),
        cell_offsets=np.searchsorted(cell_variable, np.arange(len(codes) + 1)),
        missing_rows=np.ascontiguousarray(missing_rows),  # as tables have it: others would be compiled for once more
    )


@pytest.mark.parametrize("name", ["pl", "cd"])
@given(seed=st.integers(0, 2**32 - 1), cuts=st.lists(st.integers(1, 19), max_size=5, unique=True))
def test_splitting_into_blocks_changes_nothing_but_rounding(make_problem, name, seed, cuts) -> None:
    problem = make_problem(seed, n_rows=20)
    edges = [0, *sorted(cuts), 20]
    blocks = [part(problem.table.blocks[0], slice(i, j)) for i, j in pairwise(edges)]
    table = Table(problem.schema, tuple(blocks), 20)
    graphs = problem.graphs
    with Threads(1) as engine:
        whole = DenseEvaluator(problem.sample, OBJECTIVES[name](), engine)
        split = DenseEvaluator(Dataset.single(table), OBJECTIVES[name](), engine)
        one, other = whole.evaluate(graphs, problem.theta), split.evaluate(graphs, problem.theta)
        assert one[0] == pytest.approx(other[0], rel=1e-12)
        np.testing.assert_allclose(one[1], other[1], rtol=0, atol=1e-11)
        np.testing.assert_allclose(
            whole.gradient_factors().means[0], split.gradient_factors().means[0], rtol=0, atol=1e-13
        )
        np.testing.assert_allclose(whole.moments(), split.moments(), rtol=0, atol=1e-13)
    errors, expected = evaluated(split.gradient_factors())[0], evaluated(whole.gradient_factors())[0]
    np.testing.assert_allclose(errors, expected, rtol=0, atol=1e-13)


def test_the_hessian_of_biases_is_p_times_1_minus_p_over_observed_cells(make_problem, engine) -> None:
    problem = make_problem(3, missing=0.2)
    evaluator = DenseEvaluator(problem.sample, OBJECTIVES["pl"](), engine)
    evaluator.evaluate(problem.graphs, problem.theta)
    expected = np.zeros(problem.schema.n_target_columns)
    for row in problem.rows:
        for v, code in enumerate(row.codes):
            if code >= 0:
                for s, p in zip(problem.slow.columns(v), problem.slow.update(v, row.q)[1:], strict=True):
                    expected[s] += row.weight * p * (1 - p)
    np.testing.assert_allclose(evaluator.bias_hessian(), expected, rtol=0, atol=1e-11)
    out = np.empty(2)
    bias_hessian(np.array([[0.0, 0.5], [0.0, 0.0]]), np.array([0.0, 2.0]), np.zeros(2, dtype=bool), out)
    assert out.tolist() == [0.375, 0.0]
