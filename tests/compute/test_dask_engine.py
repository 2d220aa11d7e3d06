"""A fit on a cluster writes the bytes of a fit on threads, however rows are cut and wherever they lie."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from dask_processes import in_time, processes
from plain import learn_plain_schema
from sklearn.base import clone

from sparsefield import MarkovField, RelationalField, Solver, config
from sparsefield.compute import Threads
from sparsefield.data import DenseDataset, Relational, as_source, compile_table
from sparsefield.induction import RULES
from sparsefield.objectives import OBJECTIVES, DenseEvaluator

pytest.importorskip("distributed")

from sparsefield.compute import dask_engine
from sparsefield.compute.dask_engine import DaskEngine


@pytest.fixture(autouse=True)
def many_small_blocks(monkeypatch) -> None:
    monkeypatch.setattr(config, "MIN_BLOCK_ROWS", 16)
    monkeypatch.setattr(config, "TARGET_BLOCKS", 30)


@pytest.fixture(scope="module")
def here():
    with processes(1, threads=2) as cluster_here:
        yield cluster_here


def table(missing: float = 0.0, n_rows: int = 200, columns: int = 5) -> np.ndarray:
    rng = np.random.default_rng(5)
    X = rng.integers(0, 3, (n_rows, columns)).astype(float)
    for k in range(1, columns):
        X[:, k] = np.where(rng.random(n_rows) < 0.6, X[:, k - 1], X[:, k])
    X[rng.random(X.shape) < missing] = np.nan
    return X


FULL, MISSING = table(), table(missing=0.1)


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
    "missing": ({}, MISSING),
    "cd": ({"objective": "cd"}, MISSING),
    "order 3": ({"features__max_order": 3}, FULL),
    "latent": ({"latent": {"topic": 2}}, MISSING),
    "ideal parent": ({"induction": "ideal-parent"}, FULL),
    "chosen l1": ({"l1": "auto", "selection": "ebic", "refit": True}, FULL[:100, :3]),
}
FEW_STEPS = {"l1": 6.0, "solver__certify": False, "solver__max_iter": 8}


def saved(model, folder: Path) -> bytes:
    model.save(folder / "model")
    return (folder / "model").read_bytes()


def assert_same_bytes(model, X, engine, folder: Path) -> None:
    alone = clone(model).fit(X)
    away = clone(model).set_params(solver__engine=engine)
    in_time(lambda: away.fit(X))
    assert saved(alone, folder) == saved(away, folder)
    assert set(alone.history_["traffic"]) == {0}
    traffic = np.array(away.history_["traffic"])
    assert traffic[0] > 0
    assert (np.diff(traffic) > 0).all()


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
        assert_same_bytes(MarkovField(l1=6.0, solver=Solver(kkt_tol=0.3)), MISSING, here.client, tmp_path)
    assert_same_bytes(RelationalField(l1=2.0).set_params(**FEW_STEPS | {"l1": 2.0}), village(), here.client, tmp_path)
    monkeypatch.setattr(dask_engine, "INLINE_BYTES", 0)  # all shared arrays are values of their own
    monkeypatch.setattr(dask_engine, "CACHED_VALUES", 2)
    assert_same_bytes(
        MarkovField(l1=2.0).set_params(**FEW_STEPS), MISSING, here.address.replace("tcp", "dask"), tmp_path
    )


@pytest.mark.cluster
def test_no_worker_ranks_the_pairs_that_all_rank_highest(here, monkeypatch) -> None:
    """Two columns go together a little in every block; others go together much in one block, and against each other in
    the next."""
    n_blocks, n_rows, columns = 8, 64, 18
    rng = np.random.default_rng(0)
    blocks = []
    for k in range(n_blocks):
        X = rng.integers(0, 2, (n_rows, columns))
        X[:, 1] = np.where(np.arange(n_rows) % 4 < 3, X[:, 0], 1 - X[:, 0])
        for pair in range(1, columns // 2):
            if (k - pair) % n_blocks in (0, 1):
                X[:, 2 * pair + 1] = X[:, 2 * pair] ^ ((k - pair) % n_blocks)
        blocks.append(X)
    monkeypatch.setattr(config, "MIN_BLOCK_ROWS", n_rows)
    source = as_source(np.concatenate(blocks).astype(float))
    schema = learn_plain_schema(source)
    sample = DenseDataset.single(compile_table(source, schema))
    assert len(sample.tables[0].blocks) == n_blocks
    nobody = np.empty(0, dtype=np.int64)

    def scores(engine, part: DenseDataset, name: str, limit: int | None):
        evaluator = DenseEvaluator(part, OBJECTIVES["pl"](), engine)
        graphs = evaluator.compile(part.layout.arcs(np.empty((0, 2), dtype=np.int64)))
        evaluator.evaluate(graphs, schema.initial_biases(0.0))
        return RULES[name]().score(evaluator.gradient_factors(), part.layout, 5.0, nobody, limit)

    with Threads(1) as threads, DaskEngine(here.client) as away:
        for block in blocks:
            alone = DenseDataset.single(compile_table(as_source(block.astype(float)), schema))
            assert scores(threads, alone, "grafting", 1).features.tolist() != [[0, 1]]
        for name in ("grafting", "cfi", "ideal-parent"):
            for limit in (1, 5, None):
                one, other = (in_time(lambda e=e: scores(e, sample, name, limit)) for e in (threads, away))  # noqa: B023
                assert len(one)
                for part in ("features", "gradient", "score"):
                    assert getattr(one, part).tobytes() == getattr(other, part).tobytes()
        assert scores(away, sample, "grafting", 1).features.tolist() == [[0, 1]]


@pytest.mark.slow
def test_the_engine_stays_with_a_clone_and_is_neither_pickled_nor_saved(here, tmp_path) -> None:
    model = MarkovField(l1=3.0, solver=Solver(engine=here.client))
    assert clone(model).engine is here.client
    assert clone(clone(model)).get_params()["solver__engine"] is here.client
    assert pickle.loads(pickle.dumps(model)).engine is None
    address = MarkovField(l1=2.0, solver=Solver(engine=here.address))
    assert pickle.loads(pickle.dumps(address)).solver.engine == here.address
    in_time(lambda: model.fit(FULL))
    assert model.engine is here.client
    again = pickle.loads(pickle.dumps(model))
    assert again.engine is None
    assert again.score(FULL) == model.score(FULL)
    data = saved(model, tmp_path)
    assert b"engine" not in data
    assert here.address.encode() not in data


@pytest.mark.parametrize("engine", [3, object(), ["dask://host"], Threads])
def test_an_engine_of_another_kind_is_refused(engine) -> None:
    with pytest.raises(ValueError, match=r"engine must be None, a distributed\.Client, or the address"):
        MarkovField(l1=2.0, solver=Solver(engine=engine)).fit(FULL)
