"""Conditionals, losses and gradients over links, against plain loops and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relational_oracle import bias_names, by_column, ends_counted, names_of, problem_of
from villages import TEMPLATES, village

from sparsefield import MeanField, config
from sparsefield.compute import Threads
from sparsefield.induction import all_pairs
from sparsefield.inference import infer
from sparsefield.model import compile_adjacency
from sparsefield.objectives import OBJECTIVES, DenseEvaluator

SEEDS = st.integers(0, 2**32 - 1)
COUNTS = st.sampled_from(["differs", "any"])
SOME_TEMPLATES = st.lists(st.sampled_from(TEMPLATES), min_size=1, unique=True)


def evaluated(problem, objective: str) -> tuple[float, np.ndarray, list]:
    """Loss, gradient of all biases and candidates, and their names."""
    layout, candidates = problem.layout, all_pairs(problem.layout)
    with Threads(1) as engine:
        evaluator = DenseEvaluator(problem.sample, OBJECTIVES[objective](), engine)
        loss, own = evaluator.evaluate(problem.field.graphs, problem.field.theta)
        graphs = compile_adjacency(layout, layout.arcs(candidates))
        gradient = evaluator.gradient(graphs, layout.n_target_columns + len(candidates))
    names = bias_names(layout) + names_of(problem.slow, layout, candidates)
    by_name = dict(zip(names, gradient, strict=True))
    inside = bias_names(layout) + names_of(problem.slow, layout, problem.field.pairs)
    assert own == pytest.approx(np.array([by_name[name] for name in inside]), abs=1e-11)
    return loss, gradient, names


def conditionals(problem) -> dict:
    """{cell: {state: probability}} of the fast field, all cells seen."""
    with Threads(1) as engine:
        found = infer(problem.field, problem.sample, MeanField(), engine)
    answers = {}
    for name, schema, part in zip(problem.layout.tables, problem.layout.schemas, found.conditionals, strict=True):
        for variable, state, values in by_column(schema, part):
            for row, p in enumerate(values):
                answers.setdefault((name, row, variable), {})[state] = p
    return answers


@given(seed=SEEDS, templates=SOME_TEMPLATES, counts=COUNTS)
def test_a_conditional_is_a_ratio_of_potentials(seed, templates, counts) -> None:
    data, rows = village(seed, missing=0.0, templates=templates)
    problem = problem_of(data, rows, seed, counted=ends_counted(counts, data, rows, seed))
    found, loss = conditionals(problem), 0.0
    for cell in problem.slow.cells():
        ways = problem.slow.joint([cell])
        loss -= math.log(ways[(problem.slow.value(cell),)])
        for state in problem.slow.states(cell[0], cell[2]):
            assert found[cell][state] == pytest.approx(ways[(state,)], abs=1e-12)
    assert evaluated(problem, "pl")[0] == pytest.approx(loss, abs=1e-9)


@given(seed=SEEDS, missing=st.sampled_from([0.0, 0.3]))
@settings(max_examples=3)
def test_the_gradient_of_pl_is_the_slope_of_its_loss_for_every_candidate(seed, missing) -> None:
    data, rows = village(seed, missing=missing)
    problem = problem_of(data, rows, seed)
    slow = problem.slow
    loss, gradient, names = evaluated(problem, "pl")
    assert loss == pytest.approx(slow.pl_loss(slow.q), abs=1e-10)
    for name, slope in zip(names, gradient, strict=True):
        weights = slow.weights if isinstance(name[1], tuple) else slow.biases
        before, losses = weights.get(name, 0.0), []
        for step in (1e-5, -1e-5):
            weights[name] = before + step
            losses.append(slow.pl_loss(slow.q))
        weights[name] = before
        assert slope == pytest.approx((losses[0] - losses[1]) / 2e-5, abs=2e-8)


@pytest.mark.parametrize(("objective", "block_rows"), [("pl", 1), ("cd", 256)])
@given(
    seed=SEEDS, missing=st.sampled_from([0.0, 0.3]), templates=SOME_TEMPLATES, persons=st.integers(2, 7), counts=COUNTS
)
def test_losses_and_gradients_are_those_of_plain_loops(
    objective, block_rows, seed, missing, templates, persons, counts
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "MIN_BLOCK_ROWS", block_rows)
        data, rows = village(seed, missing=missing, templates=templates, persons=persons, letters=5)
        problem = problem_of(data, rows, seed, counted=ends_counted(counts, data, rows, seed))
    slow = problem.slow
    loss, gradient, names = evaluated(problem, objective)
    wanted = slow.pl_loss(slow.q) if objective == "pl" else slow.cd_loss()
    biases, pairs = slow.pl_gradient(slow.q) if objective == "pl" else slow.cd_gradient()
    assert loss == pytest.approx(wanted, abs=1e-10)
    exact = [pairs[name] if isinstance(name[1], tuple) else biases[name] for name in names]
    assert gradient == pytest.approx(np.array(exact), abs=1e-11)


def test_every_template_has_a_pair_of_rows_somewhere() -> None:
    """Else the tests of this folder would test nothing."""
    counts = dict.fromkeys((template.label for template in TEMPLATES), 0)
    for seed in range(10):
        data, rows = village(seed)
        for label, pairs in problem_of(data, rows, seed).slow.pairs.items():
            counts[label] += len(pairs) > 0
    assert min(counts.values()) >= 2, counts
