"""A sparse table on the workers of a cluster: the same field as on threads, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from plain import learn_plain_schema
from sparse_tables import switches

from sparsefield import config
from sparsefield.compute import Engine, Threads
from sparsefield.compute.dask_engine import DaskEngine
from sparsefield.data import DenseDataset, SparseDataset, as_source, compile_sparse
from sparsefield.induction import CFI, Grafting
from sparsefield.objectives import EM, OBJECTIVES
from sparsefield.solver import Path, TrainingOptions

distributed = pytest.importorskip("distributed")


@pytest.fixture
def client(dask_client):
    return dask_client


def sample_of(seed: int, weighted: bool) -> SparseDataset:
    source = as_source(switches(seed, n_rows=1500, n_columns=60, density=0.02))
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, source.n_rows) if weighted else None
    table = compile_sparse(source, learn_plain_schema(source, sample_weight=weight), weight)
    assert table is not None
    return DenseDataset.single(table)


def learned(sample: SparseDataset, rule, engine: Engine):
    with engine:
        options = TrainingOptions(l1=12.0)
        parts = {"objective": OBJECTIVES["pl"](), "missing": EM(), "options": options}
        return Path(sample, rule=rule, engine=engine, **parts).run()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rule", [CFI(), Grafting()], ids=["cfi", "grafting"])
def test_a_sparse_fit_on_a_cluster_equals_the_one_on_threads(client, monkeypatch, rule, weighted) -> None:
    monkeypatch.setattr(config, "CELLS_OF_SPARSE_BLOCK", 200)
    sample, engine = sample_of(1, weighted), DaskEngine(client)
    assert len(sample.table.blocks) > 8
    there, here = learned(sample, rule, engine), learned(sample, rule, Threads(2))
    assert len(here.field.pairs) > 20
    assert there.field.theta.tobytes() == here.field.theta.tobytes()
    assert there.field.pairs.tobytes() == here.field.pairs.tobytes()
    assert there.objective == here.objective
    assert engine.traffic > 0
