"""The cost model of a cluster: where shards lie, what comes back of them, and what times it adds up."""

from __future__ import annotations

import numpy as np
import pytest

from sparsefield.data import Layout, Schema
from sparsefield.engines.adding import plus
from sparsefield.engines.shards import root
from sparsefield.experiments import cluster_model
from sparsefield.experiments.cluster_diary import Diary, Operation
from sparsefield.experiments.cluster_model import Constants, Costs, Place, Plan, Work, foretell, nodes_of
from sparsefield.experiments.local_lists import PIECES, compare_lists
from sparsefield.field import Field

COSTS = Costs(per_cell=1e-9, per_arc=1e-10, per_product=1e-11, per_other=1e-9, between=0.25)
CONSTANTS = Constants(
    costs={1: COSTS, 2: COSTS}, latency={1: 0.012, 2: 0.014, 4: 0.018}, broadcast={1: 0.01, 2: 0.01, 4: 0.01},
    adding=1e-8, out=1e8, back=2e8,
)  # fmt: skip
WORK = {
    "evaluation": Work(count=10, rounds=10, broadcasts=2, arcs=4000, out=50_000.0, back=40_000.0, searched=0.0),
    "look": Work(
        count=3, rounds=12, broadcasts=6, arcs=0, out=3_000.0, back=63_000.0, searched=60_000.0, entries=10_000.0
    ),
    "other": Work(count=2, rounds=2, broadcasts=1, arcs=0, out=500.0, back=500.0, searched=0.0),
}


@pytest.mark.parametrize("n_shards", [1, 2, 5, 8, 13])
def test_nodes_are_those_that_a_tree_of_additions_leaves(n_shards: int) -> None:
    from sparsefield.engines import shards

    for first in range(n_shards):
        for last in range(first + 1, n_shards + 1):
            left = shards._climb({(0, k): 1 for k in range(first, last)}, plus, n_shards)
            assert nodes_of(first, last, n_shards) == len(left), (first, last)
    assert root({(0, k): 1 for k in range(n_shards)}, plus, n_shards) == n_shards


def test_shards_are_shared_out_in_runs() -> None:
    place = Place(200_000, 4)
    assert (place.n_shards, place.runs()) == (25, [(0, 7), (7, 13), (13, 19), (19, 25)])
    assert place.n_nodes == sum(nodes_of(first, last, 25) for first, last in place.runs())
    assert place.busiest == 7 / 25
    assert Place(200_000, 4, cores=2).busiest == 0.5
    assert Place(300, 4).runs() == [(0, 1), (1, 2)]
    assert Place(10**9, 100, 4).n_threads == 400


def test_work_is_counted_for_each_worker_and_node() -> None:
    diary = Diary([
        Operation("sums_of_beliefs", 1.0, out=40, back=60),
        Operation("evaluate", 2.0, arcs=6, broadcasts=1, out=80, back=90),
        Operation("evaluate", 2.0, arcs=8, out=80, back=90),
        Operation("sums_of_middles", 1.0, out=8, back=30),
        Operation("large", 3.0, rounds=2, broadcasts=2, out=400, back=500),
    ], seconds=10.0)  # fmt: skip
    place = Place(200_000, 2)
    assert (place.n_shards, place.n_nodes) == (13, 5)
    work = cluster_model.work_of(diary, place, entries=99.0)
    assert work["evaluation"] == Work(2, 2, 1, 14, 80.0, 36.0, 0.0)
    assert work["look"] == Work(1, 3, 2, 0, 204.0, 106.0, 100.0, 99.0)
    assert (work["other"].count, work["other"].out, work["other"].back) == (1, 20.0, 12.0)
    assert diary.between == 1.0


def test_costs_come_out_of_a_fit_that_has_them() -> None:
    rows, columns = 1000, 20
    evaluations = [
        Operation("evaluate", rows * (columns * 3e-9 + arcs * 2e-10) / 2, arcs=arcs) for arcs in (0, 40, 100, 90)
    ]
    looks = [Operation("count_meetings", 0.1), Operation("large", 0.3), Operation("large", 0.4)]
    diary = Diary([*evaluations, *looks, Operation("sums_of_beliefs", 0.02)], seconds=2.0)
    costs = cluster_model.costs_of(diary, rows, columns, threads=2)
    assert (costs.per_cell, costs.per_arc) == (pytest.approx(3e-9), pytest.approx(2e-10))
    assert costs.per_product == pytest.approx(2 * 0.8 / (2 * rows * columns**2))
    assert costs.per_other == pytest.approx(2 * 0.02 / (rows * columns))
    assert costs.between == pytest.approx(2.0 - 0.82 - sum(done.seconds for done in evaluations))


def test_times_are_those_of_rows_scheduler_link_and_client() -> None:
    place = Place(200_000, 4, cores=2)
    found = foretell(WORK, 100, CONSTANTS, place)
    evaluation, look = found["evaluation"], found["look"]
    assert evaluation.rows == pytest.approx(200_000 * (1e-9 * 100 * 10 + 1e-10 * 4000) / 2)
    assert evaluation.scheduler == pytest.approx(10 * 0.018 + 2 * 0.01)
    assert evaluation.link == pytest.approx(4 * 50_000 / 1e8 + place.n_nodes * 40_000 / 2e8)
    assert evaluation.client == 0.0
    assert look.rows == pytest.approx(200_000 * 1e-11 * 100**2 * 3 / 2)
    assert look.scheduler == pytest.approx(12 * 0.018 + 6 * 0.01)
    assert look.client == pytest.approx(3 * 1e-8 * 10_000 * place.n_nodes)
    assert look.sent == pytest.approx(4 * 3_000 + place.n_nodes * 63_000)
    assert look.seconds == pytest.approx(look.rows + look.scheduler + look.link + look.client)
    slow = foretell(WORK, 100, CONSTANTS, Place(200_000, 4, cores=2, bandwidth=1e6))
    assert slow["look"].link == pytest.approx(look.sent / 1e6)


def test_weights_that_do_not_go_with_the_tasks_are_sent_beforehand() -> None:
    few, many = (foretell(WORK, 100, CONSTANTS, Place(10**8, n))["evaluation"].scheduler for n in (400, 500))
    assert few == pytest.approx(10 * (0.01 + 400 * 0.002) + 2 * 0.01, rel=1e-3)
    assert many == pytest.approx(10 * (0.01 + 500 * 0.002) + 12 * 0.01, rel=1e-3)


def test_a_plan_adds_up_and_says_what_gives_way() -> None:
    plan = Plan(10**9, 100, 4, gigabits=10.0, gigabytes=64.0)
    found = cluster_model.forecast(WORK, 100, CONSTANTS, plan, placed_per_row=1208.0)
    *rows, fit = found["table"]
    assert fit["seconds"] == pytest.approx(sum(row["seconds"] for row in rows)) == found["seconds"]
    assert fit["seconds"] == pytest.approx(sum(fit[name] for name in cluster_model.PARTS))
    assert found["gigabytes_per_worker"] == pytest.approx(4 * 8 * 100 * 1e9 / 100 / 1e9)
    assert (found["fits_in_memory"], found["fits_without_disk"]) == (True, True)
    assert found["placing_from_client"] == pytest.approx(1208e9 / 1e8)
    assert found["placing_by_workers"] == pytest.approx(1208e9 / 100 / 1.25e9)
    words = " ".join(cluster_model.assumptions(100, CONSTANTS, plan, found, WORK))
    assert f"First to give way: {found['first']}" in words
    assert "10 ms and 2 ms for each worker" in words
    for gigabytes, word in ((40.0, "Dask writes to disk"), (20.0, "does not fit")):
        small = Plan(10**9, 100, 4, gigabytes=gigabytes)
        told = cluster_model.forecast(WORK, 100, CONSTANTS, small, placed_per_row=1208.0)
        assert word in " ".join(cluster_model.assumptions(100, CONSTANTS, small, told, WORK))
    assert told["first"] == "memory"


def test_the_number_of_workers_named_is_where_an_evaluation_is_quickest() -> None:
    best = round(cluster_model.forecast(WORK, 100, CONSTANTS, Plan(), 1208.0)["most_workers"])

    def seconds(workers: int) -> float:
        """But for bytes, which are few, and for rows that do not share out evenly."""
        rows = 1e9 * (1e-9 * 100 * 10 + 1e-10 * 4000) / (4 * workers)
        return rows + 10 * (0.01 + 0.002 * workers)

    assert seconds(best) < min(seconds(best // 2), seconds(best * 2))


def test_lists_name_all_that_is_large_and_two_rounds_find_it() -> None:
    rng = np.random.default_rng(0)
    data = (rng.random((8 * PIECES, 12)) < 0.4).astype(np.int8)
    data[:, 1] = np.where(rng.random(len(data)) < 0.7, data[:, 0], data[:, 1])
    field = Field(Layout.single(Schema((), ())), np.zeros(12), np.array([[0, 1]]), np.array([0.5]))
    found = compare_lists(data, field, l1=40.0)
    share = data.mean(axis=0)
    errors = share - data
    gradient = np.abs(errors.T @ data + data.T @ errors)[np.triu_indices(12, k=1)]
    for row in found[:3]:
        assert (row["candidates"], row["beyond"]) == (66, int((gradient > 40.0).sum()))
        assert row["beyond"] >= 1
        assert row["listed_anywhere"] * 66 >= row["beyond"]
        assert row["kb_of_two_rounds"] * 1e3 >= row["shards"] * (2 * 144 + 8 * row["beyond"])
        assert row["kb_of_two_rounds"] < row["kb_in_full"]
    assert [row["candidates"] for row in found[3:]] == [65] * 3
    by_shards = [row["listed_anywhere"] for row in found[:3]]
    assert by_shards == sorted(by_shards)
