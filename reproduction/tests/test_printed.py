"""Fits as printed: a batch is the top of |h|, a loose end is a prefix of a tight one, the limit is the optimum."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from small import SMALL, TIMES

from reproduction.printed import SEVERAL, Changes, PrintedOptions, as_printed, at_end
from reproduction.runs import METHODS, Record, Run, estimator_of, made, perform
from reproduction.store import Results, Store, gather
from sparsefield.analysis.hold_out import evaluate
from sparsefield.induction import all_pairs

NODES = 8
PRINTED_TIMES = (*TIMES, "predicting_seconds")


def but_times(records: list[Record]) -> list[Record]:
    return [{name: value for name, value in one.items() if name not in PRINTED_TIMES} for one in records]


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def fitted(run: Run, how: PrintedOptions, *, hidden: bool = False, nodes: int = NODES, l1: float = 2.0) -> Any:
    network = made(nodes, 0, SMALL)
    rows = network.samples.astype(float)
    if hidden:
        rows[np.random.default_rng(0).random(rows.shape) < 0.1] = np.nan
    estimator = as_printed(estimator_of(run, replace(SMALL, l1=l1), network), how)
    return estimator.fit(rows, states=network.field.states_)


def at_start(run: Run, nodes: int, l1: float = 2.0) -> Any:
    """A path before its first iteration."""
    return fitted(run, PrintedOptions(()), nodes=nodes, l1=l1).path


def slow_scores(path: Any, threshold: float, *, exact: bool) -> dict[tuple[int, int], float]:
    """h of all pairs, row by row as Algorithm 1 has it; ``exact`` multiplies errors with expectations, for Grafting."""
    factors = path.state.problem.gradient_factors()
    means, found = factors.means[0], {}
    for pair in all_pairs(path.layout).tolist():
        total = 0.0
        for part in factors.parts.map(lambda block: block):
            for row in range(part.errors.shape[1]):
                error, value = part.errors[:, row], part.expectations[:, row]
                weight = part.block.weight[row]
                for a, b in (pair, pair[::-1]):
                    signal = value[a] if exact else value[a] - means[a]
                    kept = exact or (abs(signal) > threshold and abs(error[b]) > threshold * weight)
                    total += signal * error[b] if kept else 0.0
        found[tuple(pair)] = abs(total)
    return found


# -- the end ---------------------------------------------------------------------------------------------------------


def test_both_objective_and_norm_have_to_change_little_several_times_in_a_row() -> None:
    changes = Changes(0.01, 1000.0, 10.0)
    points = [
        (995.0, 10.05),
        (994.0, 10.06),
        (900.0, 10.06),
        (899.0, 11.0),
        (898.0, 11.0),
        (897.0, 11.0),
        (896.0, 11.0),
    ]
    assert [changes.small_for(*point) for point in points] == [1, 2, 0, 0, 1, 2, 3]
    absolute = Changes(0.5, 0.2, 0.0)  # small values count as 1
    assert [absolute.small_for(*point) for point in ((0.6, 0.4), (0.0, 0.4))] == [1, 0]


def test_ends_are_where_the_log_says() -> None:
    for tolerance in (0.1, 0.003):
        path = fitted(Run("grafting", "pl", nodes=NODES), PrintedOptions((tolerance,))).path
        steps = [(one.objective, one.l1_norm) for one in path.state.records]
        small = [
            all(abs(new - old) < tolerance * max(abs(new), 1.0) for old, new in zip(*pair, strict=True))
            for pair in pairwise(steps)
        ]
        assert small[-SEVERAL:] == [True] * SEVERAL
        assert not any(all(small[k : k + SEVERAL]) for k in range(len(small) - SEVERAL))
        assert path.ends[0].iterations == len(steps)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("objective", ["pl", "cd"])
def test_a_loose_end_is_a_prefix_of_a_tight_one(method, objective) -> None:
    run = Run(method, objective, nodes=NODES)
    whole = fitted(run, PrintedOptions((1e-1, 1e-2, 1e-3)), hidden=True).path
    assert [end.tolerance for end in whole.ends] == [1e-1, 1e-2, 1e-3]
    assert all(end.met for end in whole.ends)
    for end in whole.ends:
        (alone,) = fitted(run, PrintedOptions((end.tolerance,)), hidden=True).path.ends
        assert (alone.iterations, alone.induced, alone.objective) == (end.iterations, end.induced, end.objective)
        assert np.array_equal(alone.field.weights, end.field.weights)
        assert np.array_equal(alone.field.biases, end.field.biases)


def test_a_fit_that_runs_out_of_iterations_says_so() -> None:
    estimator = estimator_of(Run("full", "pl", nodes=NODES), SMALL, made(NODES, 0, SMALL))
    field = as_printed(estimator.set_params(solver__max_iter=4), PrintedOptions((10.0, 1e-9)))
    ends = field.fit(made(NODES, 0, SMALL).samples, states=made(NODES, 0, SMALL).field.states_).path.ends
    assert [(end.met, end.iterations) for end in ends] == [(True, 3), (False, 4)]


# -- a batch ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["pl", "cd"])
@pytest.mark.parametrize(("method", "threshold"), [("grafting", 0.0), ("cfi-paper", 0.0), ("cfi-paper", 0.2)])
def test_a_batch_is_the_top_of_the_scores_without_a_cut_at_l1(method, threshold, objective) -> None:
    run = Run(method, objective, nodes=14, threshold=threshold)  # 91 pairs
    path = at_start(run, 14, l1=1000.0)  # no gradient is as large
    known = slow_scores(path, threshold, exact=method == "grafting")
    positive = {pair: score for pair, score in known.items() if score > 1e-6}
    path.iterate()
    admitted = {tuple(pair) for pair in path.state.working_set.features[:, :2].tolist()}
    assert len(admitted) == min(50, len(positive)) > 10
    left_out = [score for pair, score in known.items() if pair not in admitted]
    assert max(left_out, default=0.0) <= min(known[pair] for pair in admitted) + 1e-4


def test_each_iteration_adds_a_batch_and_takes_a_step() -> None:
    run = Run("grafting", "pl", nodes=NODES, batch=3)
    records = fitted(run, PrintedOptions((1e-3,)), hidden=True).path.state.records
    assert [one.features for one in records] == [min(3 * k, 28) for k in range(1, len(records) + 1)]


def test_biases_start_at_zero_unless_told() -> None:
    zero = at_start(Run("grafting", "pl", nodes=NODES), NODES)
    assert not zero.state.working_set.theta.any()
    how = PrintedOptions((0.1,), start="log-odds")
    assert fitted(
        Run("grafting", "pl", nodes=NODES), replace(how, tolerances=(1e9,))
    ).path.state.working_set.theta.any()


# -- the limit -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["full", "grafting", "cfi"])
@pytest.mark.parametrize("variant", [{}, {"stages": 2}, {"start": "log-odds"}, {"converge": True, "inner": 1e-7}])
def test_with_a_tight_tolerance_the_objective_is_that_of_the_optimum(method, variant) -> None:
    network = made(NODES, 0, SMALL)
    exact = estimator_of(Run(method, "pl", nodes=NODES), SMALL, network).set_params(
        solver__certify=True, solver__tol=1e-9, solver__kkt_tol=1e-7
    )
    exact.fit(network.samples, states=network.field.states_)
    (end,) = fitted(Run(method, "pl", nodes=NODES), PrintedOptions((1e-8,), **variant)).path.ends
    assert end.met
    assert end.objective == pytest.approx(exact.field_.record.objective, rel=1e-5)
    assert end.objective >= exact.field_.record.objective - 1e-6


def test_two_stages_add_pairs_only_after_the_biases() -> None:
    path = fitted(Run("cfi", "pl", nodes=NODES), PrintedOptions((1e-2,), stages=2)).path
    phases = [(one.phase, one.features > 0) for one in path.state.records]
    assert path.waited > SEVERAL
    assert phases[: path.waited] == [("biases", False)] * path.waited
    assert set(phases[path.waited :]) == {("induce", True)}


def test_convergence_after_each_batch_takes_several_steps_for_each() -> None:
    run = Run("grafting", "pl", nodes=NODES, batch=5)
    path = fitted(run, PrintedOptions((1e-2,), converge=True)).path
    sizes = [one.features for one in path.state.records]
    assert all(sizes.count(size) >= SEVERAL for size in set(sizes))


# -- runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["pl", "cd"])
def test_cells_are_held_out_and_scored_as_the_library_does(objective) -> None:
    run, network = Run("cfi-paper", objective, nodes=NODES, tolerance=1e-2), made(NODES, 0, SMALL)
    records = perform(run, SMALL)
    assert [(one["fold"], one["tolerance"]) for one in records] == [(0, 0.1), (0, 0.01), (1, 0.1), (1, 0.01)]
    fields, states = [], network.field.states_
    plain = estimator_of(run, SMALL, network)
    evaluate(network.samples, plain, 2, states=states, on_fit=lambda _, incomplete: fields.append(incomplete))
    for fold, incomplete in enumerate(fields):
        field = as_printed(plain, PrintedOptions((1e-1, 1e-2))).fit(incomplete, states=states)
        for end, record in zip(field.path.ends, records[2 * fold :], strict=False):
            at_end(field, end)
            hidden = np.isnan(incomplete)
            chances = np.column_stack(
                [field.infer(incomplete).state_probabilities(f"x{v}")[:, 1] for v in range(NODES)]
            )
            truth, found = network.samples[hidden], chances[hidden]
            assert record["cells"] == hidden.sum()
            assert record["cll"] == pytest.approx(np.log(np.where(truth == 1, found, 1.0 - found)).mean())
            assert record["active"] == len(end.field.weights)


def test_some_folds_are_the_first_of_all() -> None:
    run = Run("grafting", "pl", nodes=NODES, tolerance=1e-1)
    assert but_times(perform(run, replace(SMALL, folds_run=1))) == but_times(perform(run, SMALL))[:1]


def test_resumed_runs_have_equal_records(tmp_path) -> None:
    settings = replace(SMALL, folds_run=1, tolerances=(1e-1, 1e-2))
    runs = [Run(method, "pl", nodes=NODES, tolerance=1e-2) for method in ("grafting", "cfi-paper")]
    whole = gather(runs, settings, Store(tmp_path / "whole"))
    gather(runs[:1], settings, Store(tmp_path / "cut"))
    said: list[str] = []
    again = gather(runs, settings, Store(tmp_path / "cut"), report=said.append)
    assert said == ["1 of 2 runs were done before"]
    assert [but_times(again[run]) for run in runs] == [but_times(whole[run]) for run in runs]


def test_results_at_a_tolerance_are_those_of_its_records() -> None:
    run, other = Run("full", "pl", nodes=NODES, tolerance=1e-2), Run("full", "pl", nodes=NODES)
    results = Results(
        {
            run: [{"tolerance": 0.1, "cll": 1.0}, {"tolerance": 0.01, "cll": 2.0}, {"tolerance": 0.01, "cll": 4.0}],
            other: [{"cll": 9.0}],
        }
    )
    assert results.at(0.01).mean(run, "cll") == 3.0
    assert list(results.at(0.01)) == [run]
    assert not results.at(0.5)


def test_earlier_runs_keep_their_place_in_a_store(tmp_path) -> None:
    store, run = Store(tmp_path), Run("grafting", "pl", nodes=NODES)
    store.put(run, SMALL, [{"cll": 1.0}])
    assert store.get(run, replace(SMALL, folds_run=3, tolerances=(0.1,))) == [{"cll": 1.0}]
    for later in (replace(run, tolerance=0.1), replace(run, converge=True), replace(run, tolerance=0.1, log_odds=True)):
        assert store.get(later, SMALL) is None
    printed = replace(run, tolerance=0.1)
    store.put(printed, SMALL, [{"cll": 2.0}])
    assert store.get(printed, replace(SMALL, folds_run=1)) is None
