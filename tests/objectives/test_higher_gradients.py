"""Loss and gradient of features of three columns and more: those of plain loops (Eq. 3, 8 and 14)."""

from __future__ import annotations

import numpy as np
import pytest
from higher import evaluate, graphs_with, with_conjunctions
from oracle import SlowField, candidate_features

from sparsefield import config
from sparsefield.model import pad_features

SHAPES = {
    "binary": {"states": (2, 2, 2, 2), "observed_states": (), "numbers": 0},
    "many states": {"states": (2, 3, 4, 2), "observed_states": (), "numbers": 0, "n_rows": 20},
    "observed": {"states": (3, 2), "observed_states": (2, 3), "numbers": 2},
    "one target": {"states": (4,), "observed_states": (3, 2), "numbers": 2},
}
CASES = [("binary", (3,), 0.3), ("many states", (3, 4), 0.0), ("observed", (4,), 0.3), ("one target", (3, 4), 0.0)]
LOSS = {"pl": SlowField.pl_loss, "cd": SlowField.cd_loss}
GRADIENT = {"pl": SlowField.pl_gradient, "cd": SlowField.cd_gradient}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "MIN_BLOCK_ROWS", 4)


@pytest.mark.parametrize("name", ["pl", "cd"])
@pytest.mark.parametrize(("shape", "orders", "missing"), CASES)
def test_loss_and_gradient_are_those_of_the_oracle(make_problem, small_blocks, name, shape, orders, missing) -> None:
    problem = with_conjunctions(make_problem(3, missing=missing, **SHAPES[shape]), 4, orders)
    assert len(problem.plain.table.blocks) > 1
    _, loss, gradient = evaluate(problem, name)
    assert loss == pytest.approx(LOSS[name](problem.slow, problem.rows), rel=1e-11, abs=1e-11)
    expected = GRADIENT[name](problem.slow, problem.rows, [*problem.field.pairs, *problem.field.conjunctions])
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", ["pl", "cd"])
def test_a_gradient_for_more_features_comes_from_the_errors_at_hand(make_problem, name) -> None:
    problem = with_conjunctions(make_problem(8, share=0.3), 8)
    evaluator, _, _ = evaluate(problem, name)
    features = np.concatenate(
        [pad_features(np.array(candidate_features(problem.schema, order)), 4) for order in (2, 3, 4)]
    )
    graphs = graphs_with(problem.layout, features)
    found = evaluator.gradient(graphs, problem.schema.n_target_columns + len(features))
    expected = GRADIENT[name](problem.slow, problem.rows, features)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)
