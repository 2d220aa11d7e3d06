"""Errors and expectations of a small problem, for the tests of this folder."""

from __future__ import annotations

from sparsefield.compute import Threads
from sparsefield.objectives import OBJECTIVES, DenseEvaluator


def factors_of(problem, objective: str = "pl"):
    with Threads(1) as engine:
        evaluator = DenseEvaluator(problem.sample, OBJECTIVES[objective](), engine)
        evaluator.evaluate(problem.graphs, problem.theta)
        return evaluator.gradient_factors()
