"""A block that is evaluated in pieces has the results of the whole block, on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from higher import evaluate, with_conjunctions

from sparsefield import config
from sparsefield.compute import PiecewiseUpdate, Threads
from sparsefield.objectives import OBJECTIVES, DenseEvaluator, regressions

SHAPES = {
    "binary": {"states": (2, 2, 2, 2), "observed_states": (), "numbers": 0},
    "many states": {"states": (2, 3, 4, 2), "observed_states": (3,), "numbers": 1, "n_rows": 20},
    "ordinal": {"states": (2, 4, 3), "numbers": 1, "kinds": {"x1": "ordinal", "x2": "ordinal"}, "n_rows": 20},
}


@pytest.fixture
def many_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "MIN_BLOCK_ROWS", 4)
    monkeypatch.setattr(regressions, "MIN_OPERATIONS", 1.0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_pieces_have_the_results_of_the_whole(make_problem, monkeypatch, shape, share) -> None:
    problem = with_conjunctions(make_problem(5, **SHAPES[shape]), 8)
    monkeypatch.setattr(regressions, "MATRIX_SHARE", share)
    whole, loss, gradient = evaluate(problem, "pl")
    hessian, factors = whole.bias_hessian(), whole.gradient_factors()
    monkeypatch.setattr(regressions, "MIN_OPERATIONS", 1.0)
    parts, loss_of_parts, gradient_of_parts = evaluate(problem, "pl")
    graph = problem.field.graphs[0]
    pieces = regressions.divide(graph, problem.layout.widths[0], 20, 1).pieces
    assert len(pieces) == len(graph.target_offsets) - 1
    assert loss_of_parts == pytest.approx(loss, rel=1e-13)
    np.testing.assert_allclose(gradient_of_parts, gradient, rtol=0, atol=1e-12)
    np.testing.assert_allclose(parts.gradient(problem.field.graphs, len(gradient)), gradient, rtol=0, atol=1e-12)
    np.testing.assert_allclose(parts.bias_hessian(), hessian, rtol=1e-13)
    for one, other in zip(parts.gradient_factors().errors[0], factors.errors[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-14)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_single_precision_is_close_to_double_precision(make_problem, monkeypatch, shape, share) -> None:
    problem = with_conjunctions(make_problem(5, **SHAPES[shape]), 8)
    monkeypatch.setattr(regressions, "MATRIX_SHARE", share)
    with Threads(1) as engine:
        evaluator, graphs = DenseEvaluator(problem.sample, OBJECTIVES["pl"](), engine), problem.field.graphs
        loss, gradient = evaluator.evaluate(graphs, problem.field.theta)
        evaluator.single_precision = True
        single_loss, single_gradient = evaluator.evaluate(graphs, problem.field.theta)
        assert single_loss == pytest.approx(loss, rel=1e-6)
        np.testing.assert_allclose(single_gradient, gradient, rtol=0, atol=1e-4)
        assert not np.array_equal(single_gradient, gradient)
        np.testing.assert_allclose(evaluator.gradient(graphs, len(gradient)), gradient, rtol=0, atol=1e-4)
        evaluator.single_precision = False
        again, gradient_again = evaluator.evaluate(graphs, problem.field.theta)
    assert again == loss
    np.testing.assert_array_equal(gradient_again, gradient)


@pytest.mark.usefixtures("many_pieces")
@pytest.mark.parametrize("single_precision", [False, True])
def test_threads_change_no_bit(make_problem, single_precision) -> None:
    problem, found = with_conjunctions(make_problem(5, **SHAPES["many states"]), 8), []
    for n_jobs in (1, 2, 3):
        with Threads(n_jobs) as engine:
            evaluator = DenseEvaluator(problem.sample, OBJECTIVES["pl"](), engine)
            evaluator.single_precision = single_precision
            loss, gradient = evaluator.evaluate(problem.field.graphs, problem.field.theta)
            found.append((loss, gradient.tobytes(), evaluator.bias_hessian().tobytes()))
    assert found[0] == found[1] == found[2]


def test_large_blocks_have_few_pieces_of_about_as_many_arcs(make_problem) -> None:
    graph = make_problem(5, states=(2,) * 12, observed_states=(), numbers=0, share=1.0).graphs[0]
    assert len(regressions.divide(graph, 12, 1, 1).pieces) == 1
    pieces = regressions.divide(graph, 12, 10**6, 16).pieces
    assert len(pieces) == 4
    assert [len(piece.parameters) for piece in pieces] == [36, 36, 36, 36]
    assert len(regressions.divide(graph, 12, 10**6, 100).pieces) == 1


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_updates_in_pieces_are_put_together_block_by_block(n_jobs) -> None:
    update = PiecewiseUpdate(
        lambda block, factor: ([0] * block, range(block)),
        lambda block, memory, piece, factor: (memory.__setitem__(piece, piece), factor * piece)[1],
        lambda block, memory, found, factor: ((block, memory), sum(found)),
    )
    with Threads(n_jobs) as engine:
        blocks, total = engine.distribute([2, 0, 3]).map_update(update, 10)
        assert blocks.map(lambda block: block) == [(2, [0, 1]), (0, []), (3, [0, 1, 2])]
    assert total == 10 + 0 + 30
    assert update(3, 10) == ((3, [0, 1, 2]), 30)
