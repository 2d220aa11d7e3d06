"""One run of the study: what it measures, and that it is the same each time."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from small import SMALL, TIMES, but_times

from reproduction import runs
from reproduction.recovery import compare_edges, strengths_of
from reproduction.runs import METHODS, NODEWISE, Record, Run, Settings, estimator_of, made, perform
from sparsefield import RelationalField
from sparsefield.data import Relational

MEASURES = {"cells", "ap", "cll", "error_rate", "seconds", "cpu_seconds", "induced", "active", "iterations"}
EDGES = {"edges", "edge_precision", "edge_recall", "edge_ap", "edge_roc"}


@pytest.fixture(scope="module")
def found() -> dict[str, list[Record]]:
    return {method: perform(Run(method, "pl", nodes=8), SMALL) for method in METHODS}


# -- what a run is ---------------------------------------------------------------------------------------------------


def test_options_without_use_make_no_difference() -> None:
    assert Run("full", "pl", nodes=8, threshold=0.7, batch=3) == Run("full", "pl", nodes=8)
    assert Run("graph", "cd", nodes=8, batch=100) == Run("graph", "cd", nodes=8)
    assert Run("grafting", "pl", nodes=8, threshold=0.7) == Run("grafting", "pl", nodes=8)
    assert Run("nodewise-or", "", nodes=8, threshold=0.7) == Run("nodewise-or", "", nodes=8)
    assert len({Run("cfi", "pl", nodes=8, threshold=t) for t in (0, 0.0, 0.2)}) == 2
    assert Run("grafting", "pl", nodes=8, batch=30) != Run("grafting", "pl", nodes=8)


def test_words_tell_runs_apart() -> None:
    several = [
        Run("cfi-paper", "pl", nodes=8),
        Run("cfi-paper", "cd", nodes=8),
        Run("cfi-paper", "pl", nodes=8, threshold=0.0),
        Run("cfi-paper", "pl", nodes=8, batch=30),
        Run("cfi-paper", "pl", nodes=8, stages=2),
        Run("cfi-paper", "pl", nodes=8, complete=True),
        Run("cfi-paper", "pl", nodes=8, seed=1),
        Run("cfi-paper", "pl", data="nations"),
        Run("nodewise-and", "", nodes=8),
    ]
    assert len({run.words for run in several}) == len(several)
    assert several[2].words == "N = 8, seed 0, CFI pl, threshold 0"


def test_a_run_is_the_papers_unless_told() -> None:
    known = {"l1": 2.0, "l2": 1.0, "features__penalize_biases": True, "solver__certify": False}
    known |= {"induction__threshold": 0.2, "induction__batch_size": 50}
    estimator = estimator_of(Run("cfi", "cd", nodes=8), Settings())
    assert known.items() <= estimator.get_params().items()
    assert (estimator.objective, estimator.induction.name) == ("cd", "cfi")
    assert (Settings().rows, Settings().neighbors, Settings().weights, Settings().folds) == (200, 5.0, (-5.0, 5.0), 10)
    other = estimator_of(
        Run("cfi", "pl", threshold=0.6, batch=30, stages=2), replace(SMALL, l1=3.0, penalize_biases=False)
    )
    known = {"l1": 3.0, "features__penalize_biases": False, "solver__stages": 2}
    known |= {"induction__threshold": 0.6, "induction__batch_size": 30}
    assert known.items() <= other.get_params().items()


def test_real_data_have_the_papers_own_penalties() -> None:
    assert estimator_of(Run("grafting", "pl", data="animals"), SMALL).l1 == 0.5
    nations = estimator_of(Run("full", "cd", data="nations"), SMALL)
    assert isinstance(nations, RelationalField)
    assert (nations.l1, nations.induction, nations.objective) == (2.0, "full", "cd")


# -- what it measures ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_there_is_a_record_for_each_fold_with_all_measures(found, method) -> None:
    records = found[method]
    looked = {"looked_at"} if method in ("cfi", "cfi-paper", "grafting") else set()
    assert len(records) == SMALL.folds
    assert all(set(record) == MEASURES | EDGES | looked | {"scoring_seconds"} for record in records)
    for record in records:
        assert record["cpu_seconds"] > 0
        assert record["induced"] >= record["active"] >= record["edges"] >= 0
        assert 0 <= record["error_rate"] < 0.5
        assert record["scoring_seconds"] <= record["seconds"]


def test_nodes_that_never_change_are_predicted_and_scored(found) -> None:
    samples = made(8, 0, SMALL).samples
    assert (samples == samples[0]).all(axis=0).sum() > 1
    assert sum(record["cells"] for record in found["cfi"]) == samples.size


def test_only_a_threshold_spares_products(found) -> None:
    assert {record["looked_at"] for record in found["grafting"]} == {1.0}
    assert all(0.0 < record["looked_at"] < 0.5 for record in found["cfi"])


def test_the_true_graph_lets_in_nothing_but_true_edges(found) -> None:
    network = made(8, 0, SMALL)
    assert {record["induced"] for record in found["graph"]} == {len(network.edges)}
    assert {record["edge_precision"] for record in found["graph"]} == {1.0}
    states = {f"x{k}": (0, 1) for k in range(8)}
    field = estimator_of(Run("graph", "pl", nodes=8), SMALL, network).fit(network.samples, states=states).field_
    assert {(f"x{a}", f"x{b}") for a, b in field.schema.variable_of_column[field.pairs]} <= set(network.edges)


def test_with_thresholds_of_0_contrastive_induction_is_grafting(found) -> None:
    zero = but_times(perform(Run("cfi", "pl", nodes=8, threshold=0.0), SMALL))
    for one, other in zip(zero, but_times(found["grafting"]), strict=True):
        for name in ("induced", "active", "iterations", *EDGES, "error_rate"):
            assert one[name] == other[name]
        assert one["cll"] == pytest.approx(other["cll"], abs=1e-9)


def test_nodes_of_three_states_are_scored() -> None:
    for record in perform(Run("full", "cd", nodes=5), replace(SMALL, states=3)):
        assert record["cells"] == 100
        assert record["induced"] == 10 * 2 * 2


def test_a_fit_to_a_complete_table_is_compared_with_the_true_network() -> None:
    network = made(8, 0, SMALL)
    (record,) = perform(Run("cfi", "pl", nodes=8, complete=True), SMALL)
    assert set(record) == {"cpu_seconds"} | EDGES
    states = {f"x{k}": (0, 1) for k in range(8)}
    field = estimator_of(Run("cfi", "pl", nodes=8), SMALL).fit(network.samples, states=states).field_
    assert but_times([record]) == [compare_edges(strengths_of(field), network.edge_mask())]


def test_regressions_of_each_node_are_a_record() -> None:
    both, either = (perform(Run(method, "", nodes=8, seed=5, complete=True), SMALL)[0] for method in NODEWISE)
    assert set(both) == set(either) == {"cpu_seconds"} | EDGES
    assert 0 < both["edges"] < either["edges"]
    assert both["edge_recall"] <= either["edge_recall"]


@pytest.mark.parametrize("data", ["animals", "nations"])
def test_folds_of_real_data_have_no_true_network(monkeypatch: pytest.MonkeyPatch, data) -> None:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 12)
    frame = pl.DataFrame({f"b{k}": np.where(rng.random(12) < 0.1, 1 - kind, kind) for k in range(4)})
    pairs = pl.DataFrame({"who": np.repeat(range(12), 2), "whom": np.tile([0, 1], 12), "near": np.tile([0, 1, 1], 8)})
    links = {end: ("pair", end, "nation") for end in ("who", "whom")}
    named = frame.with_columns(name=pl.int_range(12))
    tables = Relational({"nation": named, "pair": pairs}, keys={"nation": "name"}, links=links)
    monkeypatch.setattr(runs, "load_real", {"animals": frame, "nations": tables}.__getitem__)
    records = perform(Run("cfi", "pl", data=data), SMALL)
    assert sum(record["cells"] for record in records) == {"animals": 48, "nations": 48 + 24}[data]
    assert all(set(record) == MEASURES | {"scoring_seconds", "looked_at"} for record in records)


# -- again -----------------------------------------------------------------------------------------------------------


def test_a_seed_fixes_everything_but_times(found) -> None:
    made.cache_clear()
    again = perform(Run("cfi", "pl", nodes=8), SMALL)
    assert but_times(again) == but_times(found["cfi"])
    assert set(TIMES) <= set(again[0])
    assert but_times(perform(Run("cfi", "pl", nodes=8, seed=1), SMALL)) != but_times(again)


def test_networks_are_those_of_their_seed_and_settings() -> None:
    first: Any = made(8, 3, SMALL)
    made.cache_clear()
    assert np.array_equal(first.samples, made(8, 3, SMALL).samples)
    assert first.edges != made(8, 4, SMALL).edges
    assert made(3, 0, SMALL).edges == [("x0", "x1"), ("x0", "x2"), ("x1", "x2")]  # fewer nodes than neighbors
    assert made(8, 3, replace(SMALL, rows=41)).samples.shape == (41, 8)


def test_a_run_has_no_warnings_for_its_user() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        perform(Run("grafting", "cd", nodes=3), replace(SMALL, rows=10))
