"""What every objective must hold: the oracle's loss and gradient, in the form that induction relies on."""

from __future__ import annotations

import numpy as np
import pytest
from higher import evaluate as evaluate_higher
from higher import graphs_with, with_conjunctions
from hypothesis import given
from hypothesis import strategies as st
from oracle import SlowField, candidate_features, candidate_pairs
from plain import evaluated, graphs_of

from sparsefield import config
from sparsefield.compute import Threads
from sparsefield.model import pad_features
from sparsefield.objectives import OBJECTIVES, CellObjective, DenseEvaluator

SHAPES = {
    "binary": {"states": (2, 2, 2), "observed_states": (), "numbers": 0},
    "many states": {"states": (2, 3, 5, 2), "observed_states": (), "numbers": 0, "n_rows": 20},
    "observed": {"states": (3, 2), "observed_states": (2, 4), "numbers": 2},
    "one target": {"states": (4,), "observed_states": (3,), "numbers": 1},
    "a constant column": {"states": (2, 1, 3), "observed_states": (1,), "numbers": 1},
}

LOSS = {"pl": SlowField.pl_loss, "cd": SlowField.cd_loss}
GRADIENT = {"pl": SlowField.pl_gradient, "cd": SlowField.cd_gradient}


def test_every_registered_objective_over_cells_has_an_oracle() -> None:
    over_cells = {name for name, kind in OBJECTIVES.items() if issubclass(kind, CellObjective)}
    assert over_cells == set(LOSS) == set(GRADIENT)


def evaluate(problem, name: str):
    with Threads(1) as engine:
        evaluator = DenseEvaluator(problem.sample, OBJECTIVES[name](), engine)
        loss, gradient = evaluator.evaluate(problem.graphs, problem.theta)
        return evaluator, loss, gradient


@pytest.mark.parametrize("name", ["pl", "cd"])
@pytest.mark.parametrize(("shape", "missing"), [*zip(SHAPES, [0.3, 0.0, 0.3, 0.0, 0.3], strict=True)])
def test_loss_and_gradient_are_those_of_the_oracle(make_problem, name, shape, missing) -> None:
    problem = make_problem(3, missing=missing, **SHAPES[shape])
    _, loss, gradient = evaluate(problem, name)
    assert loss == pytest.approx(LOSS[name](problem.slow, problem.rows), rel=1e-11, abs=1e-11)
    np.testing.assert_allclose(gradient, GRADIENT[name](problem.slow, problem.rows, problem.pairs), rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", ["pl", "cd"])
@pytest.mark.parametrize("size", [1e-8, 400.0])
def test_extreme_weights_keep_their_digits(make_problem, name, size) -> None:
    problem = make_problem(11, size=size)
    _, loss, gradient = evaluate(problem, name)
    expected = _certain_loss(problem) if name == "pl" else LOSS[name](problem.slow, problem.rows)
    assert loss == pytest.approx(expected, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(gradient, GRADIENT[name](problem.slow, problem.rows, problem.pairs), rtol=0, atol=1e-9)


def _certain_loss(problem) -> float:
    """pl in logits, since a probability of 1e-400 has no logarithm in doubles."""
    total = 0.0
    for row in problem.rows:
        for v, code in enumerate(row.codes):
            if code >= 0:
                z = np.array([0.0] + [problem.slow.logit(s, row.q) for s in problem.slow.columns(v)])
                total += row.weight * (np.logaddexp.reduce(z) - z[code])
    return float(total)


@pytest.mark.parametrize("name", ["pl", "cd"])
@given(seed=st.integers(0, 2**32 - 1), missing=st.sampled_from([0.0, 0.1, 0.5]), size=st.sampled_from([0.1, 1.0, 6.0]))
def test_the_decomposition_of_the_gradient_holds_to_rounding(make_problem, name, seed, missing, size) -> None:
    """GDT (Eq. 13): g_AB = sum_i err_A sig_B + err_B sig_A + E[B] g_A + E[A] g_B, for every candidate."""
    problem = make_problem(seed, missing=missing, size=size)
    evaluator, _, _ = evaluate(problem, name)
    contrast = evaluator.gradient_factors()
    n, columns = problem.schema.n_target_columns, problem.schema.n_columns
    errors = np.zeros((columns, problem.table.n_rows))
    (means,) = contrast.means
    errors[:n], expectations = evaluated(contrast)
    signals = expectations - means[:, None]
    biases = np.concatenate([contrast.bias_gradient[0], np.zeros(columns - n)])
    product = errors @ signals.T
    whole = product + product.T + np.outer(means, biases) + np.outer(biases, means)
    pairs = candidate_pairs(problem.schema)
    exact = GRADIENT[name](problem.slow, problem.rows, pairs)
    np.testing.assert_allclose(whole[tuple(np.transpose(pairs))], exact[n:], rtol=0, atol=1e-11)
    np.testing.assert_allclose(contrast.bias_gradient[0], exact[:n], rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", ["pl", "cd"])
def test_a_gradient_for_more_pairs_comes_from_the_errors_at_hand(make_problem, name) -> None:
    problem = make_problem(8, share=0.3)
    evaluator, _, _ = evaluate(problem, name)
    pairs = np.array(candidate_pairs(problem.schema))
    found = evaluator.gradient(graphs_of(problem.schema, pairs), problem.schema.n_target_columns + len(pairs))
    np.testing.assert_allclose(found, GRADIENT[name](problem.slow, problem.rows, pairs), rtol=0, atol=1e-11)


# -- features of three columns and more (Eq. 3, 8 and 14) --------------------------------------------------------------

HIGHER = [("binary", (3,), 0.3), ("many states", (3, 4), 0.0), ("observed", (4,), 0.3)]


@pytest.mark.parametrize("name", ["pl", "cd"])
@pytest.mark.parametrize(("shape", "orders", "missing"), HIGHER)
def test_conjunctions_have_the_loss_and_the_gradient_of_the_oracle(
    make_problem, monkeypatch, name, shape, orders, missing
) -> None:
    monkeypatch.setattr(config, "MIN_BLOCK_ROWS", 4)
    plain = make_problem(3, missing=missing, **{**SHAPES[shape], "states": (2, 2, 3, 2)})
    problem = with_conjunctions(plain, 4, orders)
    assert len(problem.plain.table.blocks) > 1
    evaluator, loss, gradient = evaluate_higher(problem, name)
    assert loss == pytest.approx(LOSS[name](problem.slow, problem.rows), rel=1e-11, abs=1e-11)
    expected = GRADIENT[name](problem.slow, problem.rows, [*problem.field.pairs, *problem.field.conjunctions])
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-11)
    features = [pad_features(np.array(candidate_features(problem.schema, order)), 4) for order in (2, 3, 4)]
    more = np.concatenate(features)
    found = evaluator.gradient(graphs_with(problem.layout, more), problem.schema.n_target_columns + len(more))
    np.testing.assert_allclose(found, GRADIENT[name](problem.slow, problem.rows, more), rtol=0, atol=1e-11)
