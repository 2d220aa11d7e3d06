"""A sparse table on the workers of a cluster: the same field as on threads, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from sparse_tables import switches

from sparsefield import config
from sparsefield.compute import Engine, Threads
from sparsefield.compute import dask_worker as on_worker
from sparsefield.compute.dask_engine import DaskEngine
from sparsefield.data import DenseDataset, SparseDataset, compile_sparse, learn_schema, read
from sparsefield.induction import CFI, Grafting
from sparsefield.inference import INFERENCE
from sparsefield.objectives import OBJECTIVES
from sparsefield.solver.fit_state import TrainingOptions
from sparsefield.solver.path_trainer import Trainer

distributed = pytest.importorskip("distributed")


@pytest.fixture
def client(dask_client):
    return dask_client


def sample_of(seed: int, weighted: bool) -> SparseDataset:
    source = read(switches(seed, n_rows=1500, n_columns=60, density=0.02))
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, source.n_rows) if weighted else None
    table = compile_sparse(source, learn_schema(source, sample_weight=weight), weight)
    assert table is not None
    return DenseDataset.single(table)


def learned(sample: SparseDataset, rule, engine: Engine):
    with engine:
        options = TrainingOptions(l1=12.0)
        parts = {"objective": OBJECTIVES["pl"](), "inference": INFERENCE["mean-field"](), "options": options}
        return Trainer(sample, rule=rule, engine=engine, **parts).run()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rule", [CFI(), Grafting()], ids=["cfi", "grafting"])
def test_a_fit_on_a_cluster_is_the_one_on_threads(client, monkeypatch, rule, weighted) -> None:
    monkeypatch.setattr(config, "CELLS_OF_SPARSE_BLOCK", 200)
    sample, engine = sample_of(1, weighted), DaskEngine(client)
    assert len(sample.table.blocks) > 8
    there, here = learned(sample, rule, engine), learned(sample, rule, Threads(2))
    assert len(here.field.pairs) > 20
    assert there.field.theta.tobytes() == here.field.theta.tobytes()
    assert there.field.pairs.tobytes() == here.field.pairs.tobytes()
    assert there.objective == here.objective
    assert engine.traffic > 0


def joined(engine: Engine, parts: list[int], more: int) -> list[int]:
    return [part + more for part in parts]


def count_and_total(engine: Engine, lot: list[int]) -> tuple[int, int]:
    return len(lot), sum(lot)


def times(lot: list[int], item: int) -> int:
    return item * sum(lot)


def test_a_lot_is_all_that_a_worker_has(client) -> None:
    with DaskEngine(client) as engine:
        lots = engine.hold(list(range(32))).per_worker(joined, 1)
        assert len(lots) == 2
        assert [sum(told) for told in zip(*lots.map(count_and_total), strict=True)] == [32, 32 * 33 // 2]
        for item, told in enumerate(lots.stream(times, range(30))):
            assert sum(told) == item * 32 * 33 // 2


def test_a_lot_that_was_lost_is_made_again(client) -> None:
    with DaskEngine(client) as engine:
        lots = engine.hold(list(range(32))).per_worker(joined, 1)
        before = lots.map(count_and_total)
        client.run(on_worker.forget_fit, engine.fit)
        assert lots.map(count_and_total) == before


def test_lots_are_given_back(client) -> None:
    with DaskEngine(client) as engine:
        held = engine.hold(list(range(32)))
        lots = held.per_worker(joined, 1)
        lots.map(count_and_total)
        assert sum(client.run(made_there, engine.fit).values()) == 2
        del lots
        held.per_worker(joined, 2).map(count_and_total)
        assert sum(client.run(made_there, engine.fit).values()) == 2


def made_there(fit: str) -> int:
    return sum(key[0] == fit for made in on_worker._MADE.values() for key in made)
