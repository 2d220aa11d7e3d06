"""Errors and middles of a small problem, for the tests of this folder."""

from __future__ import annotations

from sparsefield.engines import Threads
from sparsefield.field import compile_graph
from sparsefield.objectives import OBJECTIVES, Evaluator


def contrast_of(problem, objective: str = "pl"):
    with Threads(1) as engine:
        evaluator = Evaluator(problem.table, OBJECTIVES[objective](), engine)
        evaluator.evaluate(compile_graph(problem.schema, problem.pairs), problem.theta)
        return evaluator.contrast()
