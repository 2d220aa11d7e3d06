"""The exact likelihood of linked rows, against enumeration of all cells."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from relational_oracle import problem_of
from scipy.special import logsumexp
from villages import village

from sparsefield.compute import Threads
from sparsefield.data import Template
from sparsefield.inference import AIS
from sparsefield.objectives import LikelihoodEvaluator
from sparsefield.objectives.log_likelihood import log_likelihood_of_links

TEMPLATES = (
    Template("within", ("person",)),
    Template("across", ("sender",)),
    Template("across", ("elder",), symmetric=True),
    Template("shared", ("home",)),
    Template("swapped", ("sender", "receiver")),
)


def slow_log_likelihood(problem) -> float:
    slow, cells = problem.slow, problem.slow.cells()
    known = {cell: slow.value(cell) for cell in cells if not slow.is_missing(cell)}

    def log_sum(free: list) -> float:
        ways = itertools.product(*(slow.variables[table][variable].states for table, _, variable in free))
        chosen = (dict(zip(free, way, strict=True)) for way in ways)
        return float(logsumexp([slow.log_potential(slow.one_hot(known | states)) for states in chosen]))

    return log_sum([cell for cell in cells if cell not in known]) - log_sum(cells)


@pytest.mark.parametrize(("seed", "missing"), [(0, 0.0), (1, 0.3)])
def test_the_likelihood_of_linked_rows_is_that_of_enumeration(plain_coding, seed, missing) -> None:
    data, rows = village(seed, persons=2, letters=2, missing=missing, templates=TEMPLATES, moods=2, loose=0.05)
    problem = problem_of(data, rows, seed, share=1.0)
    layout, theta = problem.layout, problem.field.theta
    with Threads(1) as engine:
        evaluator = LikelihoodEvaluator(problem.sample, engine)
        graph = evaluator.compile(layout.arcs(problem.field.pairs))
        loss, gradient = evaluator.evaluate(graph, theta)
        changes = [1e-5 * np.eye(len(theta))[k] for k in range(0, len(theta), 7)]
        rises = [evaluator.evaluate(graph, theta + c)[0] - evaluator.evaluate(graph, theta - c)[0] for c in changes]
        found = log_likelihood_of_links(problem.field, problem.sample, engine, AIS())
    assert loss == pytest.approx(-slow_log_likelihood(problem), rel=1e-10)
    assert found.value == pytest.approx(-loss, rel=1e-12)
    assert gradient[::7] == pytest.approx(np.array(rises) / 2e-5, abs=1e-6)
