"""A fit on a cluster writes the bytes of a fit on threads, however rows are cut and wherever they lie."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from dask_processes import COMPLETE, INCOMPLETE, in_time, processes, saved
from sklearn.base import clone

from sparsefield import MarkovField, RelationalField, Solver
from sparsefield.compute import Threads
from sparsefield.data import Relational

pytest.importorskip("distributed")

from sparsefield.compute import dask_engine

pytestmark = pytest.mark.usefixtures("many_small_blocks")


@pytest.fixture(scope="module")
def here():
    with processes(1, threads=2) as cluster_here:
        yield cluster_here


def village() -> Relational:
    """Two linked tables with missing cells."""
    rng = np.random.default_rng(2)
    mood = rng.integers(0, 2, 60)
    town = [None if rng.random() < 0.1 else "ab"[int(m ^ (rng.random() < 0.2))] for m in mood]
    owner = rng.integers(0, 60, 150)
    kind = [None if rng.random() < 0.1 else int(mood[o] ^ (rng.random() < 0.15)) for o in owner]
    person = pl.DataFrame({"id": np.arange(60), "mood": mood, "town": town})
    letter = pl.DataFrame({"owner": owner, "kind": kind, "thick": rng.integers(0, 3, 150)})
    links = {"owner": ("letter", "owner", "person")}
    return Relational({"person": person, "letter": letter}, keys={"person": "id"}, links=links)


WAYS = {
    "missing": ({}, INCOMPLETE),
    "cd": ({"objective": "cd"}, INCOMPLETE),
    "order 3": ({"features__max_order": 3}, COMPLETE),
    "latent": ({"latent": {"topic": 2}}, INCOMPLETE),
    "ideal parent": ({"induction": "ideal-parent"}, COMPLETE),
    "chosen l1": ({"l1": "auto", "selection": "ebic", "refit": True}, COMPLETE[:100, :3]),
}
FEW_STEPS = {"l1": 6.0, "solver__certify": False, "solver__max_iter": 8}


def assert_same_bytes(model, X, engine, folder: Path) -> None:
    alone = clone(model).fit(X)
    away = clone(model).set_params(solver__engine=engine)
    in_time(lambda: away.fit(X))
    assert saved(alone, folder) == saved(away, folder)


@pytest.mark.cluster
def test_bytes_are_those_of_threads_with_every_way_to_fit(here, tmp_path) -> None:
    for options, X in WAYS.values():
        assert_same_bytes(MarkovField(l1=2.0).set_params(**FEW_STEPS | options), X, here.client, tmp_path)
    assert_same_bytes(RelationalField(l1=2.0).set_params(**FEW_STEPS | {"l1": 2.0}), village(), here.client, tmp_path)


@pytest.mark.cluster
def test_bytes_are_those_of_threads_on_any_workers_and_with_any_shards(here, tmp_path, monkeypatch) -> None:
    for count in (2, 3):
        here.start_worker()
        here.wait_for(count)
        monkeypatch.setattr(dask_engine, "SHARDS_PER_THREAD", 2 * count - 3)
        assert_same_bytes(MarkovField(l1=6.0, solver=Solver(kkt_tol=0.3)), INCOMPLETE, here.client, tmp_path)
    assert_same_bytes(RelationalField(l1=2.0).set_params(**FEW_STEPS | {"l1": 2.0}), village(), here.client, tmp_path)
    monkeypatch.setattr(dask_engine, "INLINE_BYTES", 0)  # all shared arrays are values of their own
    monkeypatch.setattr(dask_engine, "CACHED_VALUES", 2)
    assert_same_bytes(
        MarkovField(l1=2.0).set_params(**FEW_STEPS), INCOMPLETE, here.address.replace("tcp", "dask"), tmp_path
    )


@pytest.mark.slow
def test_the_engine_stays_with_a_clone_and_is_neither_pickled_nor_saved(here, tmp_path) -> None:
    model = MarkovField(l1=3.0, solver=Solver(engine=here.client))
    assert clone(model).solver.engine is here.client
    assert clone(clone(model)).get_params()["solver__engine"] is here.client
    assert pickle.loads(pickle.dumps(model)).solver.engine is None
    address = MarkovField(l1=2.0, solver=Solver(engine=here.address))
    assert pickle.loads(pickle.dumps(address)).solver.engine == here.address
    in_time(lambda: model.fit(COMPLETE))
    assert model.solver.engine is here.client
    again = pickle.loads(pickle.dumps(model))
    assert again.solver.engine is None
    assert again.score(COMPLETE) == model.score(COMPLETE)
    data = saved(model, tmp_path)
    assert b"engine" not in data
    assert here.address.encode() not in data


@pytest.mark.parametrize("engine", [3, object(), ["dask://host"], Threads])
def test_an_engine_of_another_kind_is_refused(engine) -> None:
    with pytest.raises(ValueError, match=r"engine must be None, .* a distributed\.Client, or the address"):
        MarkovField(l1=2.0, solver=Solver(engine=engine)).fit(COMPLETE)
