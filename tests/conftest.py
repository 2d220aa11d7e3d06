"""Fixtures that the tests of the package share."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest
from oracle import Row, SlowField, candidate_pairs, rows_of
from plain import graphs_of

from sparsefield.data import Dataset, Layout, Schema, Table, as_source, compile_table, learn_schema
from sparsefield.model import Adjacency


@pytest.fixture(scope="session")
def dask_client():
    """Return the client of a cluster of two processes, shared by all tests that leave it intact."""
    distributed = pytest.importorskip("distributed")
    import dask

    # Work stays where it was placed, however slow a worker is.
    with warnings.catch_warnings(), dask.config.set({"distributed.scheduler.work-stealing": False}):
        warnings.simplefilter("ignore")  # about ports in use, for example
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False}, silence_logs=logging.CRITICAL,
        )  # fmt: skip
        with cluster, distributed.Client(cluster, set_as_default=False) as client:
            yield client


@dataclass(frozen=True)
class Problem:
    """A random table, and a random field over it."""

    schema: Schema
    table: Table
    rows: list[Row]
    slow: SlowField
    pairs: np.ndarray
    theta: np.ndarray

    @property
    def layout(self) -> Layout:
        return Layout.single(self.schema)

    @property
    def sample(self) -> Dataset:
        return Dataset.single(self.table)

    @property
    def graphs(self) -> tuple[Adjacency, ...]:
        return graphs_of(self.schema, self.pairs)


@pytest.fixture(scope="session")
def make_problem():
    return random_problem


def random_problem(
    seed: int,
    *,
    n_rows: int = 12,
    states: tuple[int, ...] = (2, 3, 2, 4),
    observed_states: tuple[int, ...] = (3,),
    numbers: int = 1,
    missing: float = 0.2,
    weighted: bool = True,
    share: float = 0.6,
    size: float = 1.0,
    kinds: Mapping[str, str] | None = None,
    symmetric: bool = False,
) -> Problem:
    """Make a random table with missing cells, observed columns and weights, and a random field over it.

    Columns are nominal, unless ``kinds`` says otherwise, and numbers have no bins, so that they have one column.
    The beliefs of missing cells are random, so that no test depends on the result of inference.
    """
    rng = np.random.default_rng(seed)
    sizes = (*states, *observed_states)
    X = np.empty((n_rows, len(sizes) + numbers), dtype=object)
    for k, count in enumerate(sizes):
        # Every state occurs, so that the schema is the same for every seed.
        column = np.concatenate([np.arange(count), rng.integers(0, count, n_rows)])[:n_rows]
        X[:, k] = rng.permutation(column).tolist()
        X[rng.random(n_rows) < missing, k] = None
        if X[:, k].tolist() == [None] * n_rows:
            X[0, k] = 0
    for k in range(numbers):
        X[:, len(sizes) + k] = rng.normal(size=n_rows).tolist()
    weight = rng.uniform(0.2, 3.0, n_rows) if weighted else np.ones(n_rows)
    source = as_source(X)
    observed = source.names[len(states) :]
    given = dict.fromkeys(source.names[: len(sizes)], "nominal") | dict(kinds or {})
    schema = learn_schema(source, observed=observed, kinds=given, symmetric=symmetric, sample_weight=weight)
    plain = [replace(v, bins=()) if v.role == "observed" and v.numeric else v for v in schema.variables]
    schema = Schema(tuple(plain), schema.order)
    table = compile_table(source, schema, sample_weight=weight)
    table = replace(table, blocks=tuple(_with_random_beliefs(schema, block, rng) for block in table.blocks))
    candidates = np.array(candidate_pairs(schema), dtype=np.int64).reshape(-1, 2)
    pairs = candidates[rng.random(len(candidates)) < share]
    theta = rng.normal(scale=size, size=schema.n_target_columns + len(pairs))
    slow = SlowField(schema, theta[: schema.n_target_columns], pairs, theta[schema.n_target_columns :])
    return Problem(schema, table, rows_of(table), slow, pairs, theta)


def _with_random_beliefs(schema: Schema, block, rng: np.random.Generator):
    beliefs = block.beliefs.copy()
    for v in range(len(schema.targets)):
        first, last = schema.target_offsets[v], schema.target_offsets[v + 1]
        for row in np.flatnonzero(block.codes[v] < 0):
            coded = schema.targets[v].coded
            beliefs[first:last, row] = rng.dirichlet(np.ones(len(coded))) @ coded
    return block._replace(beliefs=beliefs)
