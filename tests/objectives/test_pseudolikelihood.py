"""Pseudo-likelihood stays finite for more variables than one product of normalizers can hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from plain import graphs_of

from sparsefield.objectives import DenseEvaluator
from sparsefield.objectives.pseudo_likelihood import PseudoLikelihood


@pytest.mark.slow
def test_more_variables_than_one_product_can_hold_do_not_overflow(make_problem, engine) -> None:
    """Normalizers are multiplied along a row: 800 variables with three even states make about 3^800."""
    problem = make_problem(1, n_rows=6, states=(3,) * 800, observed_states=(), numbers=0, share=0.0, missing=0.1)
    theta = np.zeros(problem.schema.n_target_columns)
    loss, _ = DenseEvaluator(problem.sample, PseudoLikelihood(), engine).evaluate(
        graphs_of(problem.schema, np.empty((0, 2), dtype=np.int64)), theta
    )
    logs = [math.log(len(variable.states)) for variable in problem.schema.targets]
    expected = sum(
        row.weight * sum(log for code, log in zip(row.codes, logs, strict=True) if code >= 0) for row in problem.rows
    )
    assert sum(logs) > math.log(np.finfo(float).max)
    assert loss == pytest.approx(expected, rel=1e-12)
