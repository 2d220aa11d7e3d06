"""What the comparisons with other tools rest on: choosing, measuring, reading and filling."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from benchmarks import fill, nodewise, peers
from benchmarks.ising import draw_ising, pseudo_log_likelihood
from benchmarks.measure import CutOffError, climb, in_child, last_line, measure


def fail() -> None:
    raise ValueError("the words of the child")


def test_climbing_finds_the_peak_wherever_it_stands() -> None:
    grid = [1.0, 2.0, 4.0, 8.0, 16.0]
    for peak in grid:
        assert climb(grid, lambda value, peak=peak: -abs(np.log(value / peak)))[0] == peak


def test_a_child_that_takes_too_long_is_cut_off() -> None:
    with pytest.raises(CutOffError, match="cut off after 1 s"):
        in_child(time.sleep, 60.0, time_limit=1.0)


def test_a_child_that_fails_is_quoted() -> None:
    with pytest.raises(RuntimeError) as caught:
        in_child(fail)
    assert last_line(caught.value) == "ValueError: the words of the child"


def test_memory_counts_what_the_fit_takes() -> None:
    taken = measure(lambda: np.ones(40 * 2**20 // 8).sum(), repeats=2)
    assert len(taken.seconds) == 2
    assert taken.peak_bytes / 2**20 == pytest.approx(40, rel=0.2)


def test_nodewise_regressions_find_the_edges() -> None:
    data = draw_ising(12, 1500, mean_degree=3.0, seed=0)
    found = nodewise.fit_nodewise(data.samples, 10.0, nodewise.SOLVERS["liblinear"])
    bias, weights = nodewise.symmetrize(found)
    assert np.abs(weights - data.weight_matrix()).max() < 0.6
    assert pseudo_log_likelihood(data.samples, bias, weights) > data.pseudo_log_likelihood() - 0.01


def test_a_node_that_never_changes_gets_a_bias_alone() -> None:
    samples = np.random.default_rng(0).integers(0, 2, (80, 4)).astype(np.int8)
    samples[:, 2] = 0
    found = nodewise.fit_nodewise(samples, 1.0, nodewise.SOLVERS["liblinear"])
    assert found.bias[2] == pytest.approx(np.log(0.5 / 80.5))
    assert not found.weights[2].any()


def test_features_on_either_state_give_the_same_conditionals() -> None:
    """[x0 = 0][x1 = 1] and the like are multiplied out into weights on x and x x'."""
    features = pl.DataFrame(
        {
            "variable_a": ["x0", "x1"],
            "state_a": [0, 1],
            "variable_b": ["x1", "x2"],
            "state_b": [1, 0],
            "weight": [-1.2, 0.7],
        }
    )
    biases = pl.DataFrame({"variable": ["x0"], "state": [0], "weight": [0.3]})
    read = peers.read_field(SimpleNamespace(features_=features, biases_=biases, n_features_in_=3))
    for x in np.ndindex(2, 2, 2):
        stated = 0.3 * (x[0] == 0) - 1.2 * (x[0] == 0) * x[1] + 0.7 * x[1] * (x[2] == 0)
        origin = 0.3
        written = read.bias @ x + 0.5 * np.array(x) @ read.weights @ x
        assert written + origin == pytest.approx(stated)


def test_an_unknown_peer_is_refused() -> None:
    with pytest.raises(ValueError, match="no peer called 'plmc'; there are skglm, celer, liblinear"):
        peers.run_peers((8,), peers=["plmc"])


def test_better_knowledge_fills_gaps_better() -> None:
    table = fill.run_fill(
        ("ising",), 400, 200, methods=["frequencies", "chained", "oracle"], report=lambda line: None, nodes=20
    )
    losses = [row["log_loss"] for row in table]
    assert [row["status"] for row in table] == ["done"] * 3
    assert losses[0] > losses[1] > losses[2]
    assert losses[0] == pytest.approx(np.log(2), abs=0.01)


def test_a_column_without_a_change_does_not_stop_the_fillers() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2, (60, 4))
    values[:, 1] = 1
    train = fill.make_missing(values, 0.2, rng)
    for method, more in (
        (fill.fill_with_frequencies, ()),
        (fill.fill_with_iterative_imputer, ()),
        (fill.fill_with_boosting, ()),
        (fill.fill_with_boosting, (4,)),
        (fill.fill_with_chained_logistic, (1.0,)),
    ):
        beliefs = method(train, train, *more)
        assert np.all((beliefs >= 0.0) & (beliefs <= 1.0))
        assert beliefs[np.isnan(train[:, 1]), 1].min() > 0.9
