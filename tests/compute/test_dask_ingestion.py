"""Rows in partitions on a cluster become the very blocks of the same rows in memory."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from dask_processes import LIMIT

from sparsefield.app.tables import partitioned_tables
from sparsefield.app.tables.partitioned_tables import open_partitions
from sparsefield.compute import dask_chunks
from sparsefield.compute.dask_ingestion import DistributedRows, choose_blocks_per_shard, distribute_rows
from sparsefield.data import (
    Block,
    DenseDataset,
    as_source,
    compile_sparse,
    compile_table,
    deduplicate_rows,
    learn_schema,
)
from sparsefield.data import deduplication as merging
from sparsefield.data.shards import combine_digests
from sparsefield.errors import DataError, UnknownStateWarning

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

N = 3000
rng = np.random.default_rng(0)
WEIGHT = rng.uniform(0.1, 3.0, N)
X = rng.integers(0, 3, (N, 5))
FRAME = pd.DataFrame(
    {
        "word": rng.choice(["b", "a", "c"], N),
        "yes": rng.integers(0, 2, N),
        "truth": rng.random(N) < 0.3,
        "height": rng.normal(size=N),
        "size": rng.integers(0, 5, N),
    }
)
INCOMPLETE = FRAME.assign(
    yes=FRAME["yes"].where(rng.random(N) < 0.8), height=FRAME["height"].where(rng.random(N) < 0.9)
)
OBSERVED = ["height", "size"]


@pytest.fixture
def client(dask_client):
    return dask_client


def in_memory(X: Any, weight: np.ndarray | None = None, merge: bool = True, **roles) -> DenseDataset:
    source = as_source(X)
    schema = learn_schema(source, sample_weight=weight, **roles)
    sample = DenseDataset.single(compile_table(source, schema, sample_weight=weight))
    return deduplicate_rows(sample) if merge else sample


def assert_same_bits(client: Any, result: DistributedRows, sample: DenseDataset) -> None:
    (table,) = sample.tables
    assert repr(result.schema) == repr(table.schema)
    blocks = [block for shard in client.gather(result.shards) for block in shard.blocks]
    assert len(blocks) == len(table.blocks)
    for one, other in zip(blocks, table.blocks, strict=True):
        for name in Block._fields:
            a, b = getattr(one, name), getattr(other, name)
            if isinstance(b, np.ndarray):
                assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), name
            else:
                assert a == b, name
    assert (result.n_rows, result.has_missing) == (table.n_rows, table.has_missing)
    assert result.total_weight == table.total_weight
    assert result.digest == combine_digests(block.digest() for block in table.blocks)


def cut(frame: Any, *ends: int) -> list[Any]:
    return [frame[start:stop] for start, stop in zip([0, *ends], [*ends, len(frame)], strict=True)]


def parted_frame(parts: list[pd.DataFrame]) -> Any:
    return dd.from_map(lambda part: part, parts, meta=parts[0].iloc[:0])


@pytest.mark.parametrize("chunks", [(700, 2), (1, 5), (N, 5), ((0, 5, 0, N - 5), 5)], ids=str)
def test_an_array_in_any_chunks(client, chunks) -> None:
    rows = X if chunks != (1, 5) else X[:40]
    result = distribute_rows(client, da.from_array(rows, chunks=chunks), blocks_per_shard=2)
    assert_same_bits(client, result, in_memory(rows))
    assert (result.kind, result.names, result.rows_read) == (
        "array",
        ("x0", "x1", "x2", "x3", "x4"),
        len(rows),
    )
    assert result.n_rows < len(rows) or len(rows) == 40


@pytest.mark.parametrize("frame", [FRAME, INCOMPLETE], ids=["whole", "incomplete"])
@pytest.mark.parametrize("blocks", [1, 4])
def test_a_frame_with_words_numbers_missing_cells_and_weights(client, frame, blocks) -> None:
    parts = parted_frame(cut(frame, 0, 10, 1100, 1100, 2999))
    result = distribute_rows(client, parts, observed=OBSERVED, sample_weight=WEIGHT, blocks_per_shard=blocks)
    assert_same_bits(client, result, in_memory(frame, WEIGHT, observed=OBSERVED))
    assert result.kind == "pandas"
    assert len(result.shards) == -(-len(range(0, N, 375)) // blocks)


@pytest.mark.parametrize("weight", [None, 0.3, "array", "dask", "odd chunks"])
def test_weights_of_any_kind(client, weight) -> None:
    made = {
        "array": WEIGHT,
        "dask": da.from_array(WEIGHT, chunks=700),
        "odd chunks": da.from_array(WEIGHT, chunks=((1, 0, 1998, 1001),)),
    }
    given = made.get(weight, weight)
    expected = None if weight is None else np.full(N, 0.3) if weight == 0.3 else WEIGHT
    result = distribute_rows(client, da.from_array(X, chunks=(700, 5)), observed=["x4"], sample_weight=given)
    assert_same_bits(client, result, in_memory(X, expected, observed=["x4"]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    frame = pl.from_pandas(INCOMPLETE)
    for k, part in enumerate(cut(frame, 900, 900, 2000)):
        columns = list(reversed(part.columns)) if k == 2 else part.columns
        part.select(columns).write_parquet(tmp_path / f"{k}.parquet", row_group_size=300)
    return tmp_path


@pytest.mark.parametrize("cells", [2**24, 5 * 1024])
@pytest.mark.parametrize("name", ["folder", "pattern", "list"])
def test_parquet_files_in_parts(client, folder, name, cells, monkeypatch) -> None:
    monkeypatch.setattr(partitioned_tables, "CELLS_PER_TASK", cells)
    names = {"folder": folder, "pattern": str(folder / "*.parquet"), "list": sorted(folder.iterdir())}
    result = distribute_rows(client, names[name], observed=OBSERVED, sample_weight=WEIGHT)
    assert_same_bits(client, result, in_memory(pl.from_pandas(INCOMPLETE), WEIGHT, observed=OBSERVED))
    assert result.kind == "polars"
    assert len(open_partitions(client, names[name]).futures) == (3 if cells == 2**24 else 4)


@pytest.mark.parametrize("chunk", [128, 1000])
def test_chunks_are_merged_where_they_lie(client, chunk, monkeypatch) -> None:
    monkeypatch.setattr(merging, "CHUNK", chunk)
    monkeypatch.setattr(dask_chunks, "CHUNK", chunk)
    parts = da.from_array(X, chunks=(700, 5))
    result = distribute_rows(client, parts, sample_weight=WEIGHT)
    assert_same_bits(client, result, in_memory(X, WEIGHT))
    assert result.n_rows < N
    assert_same_bits(client, distribute_rows(client, parts, merge=False), in_memory(X, merge=False))


def test_a_known_schema_is_kept_and_what_it_does_not_know_is_reported_once(client) -> None:
    schema = learn_schema(as_source(X % 2))
    with pytest.warns(UnknownStateWarning) as told:
        result = distribute_rows(client, da.from_array(X, chunks=(700, 5)), schema=schema, sample_weight=WEIGHT)
    assert [str(w.message).split(" cell")[0] for w in told] == [
        f"Column 'x{k}' has {(X[:, k] == 2).sum()}" for k in range(5)
    ]
    with pytest.warns(UnknownStateWarning):
        table = compile_table(as_source(X), schema, sample_weight=WEIGHT)
    assert_same_bits(client, result, DenseDataset.single(table))


ON = rng.random((4000, 600)) < 0.03
"""Large enough for the sparse way."""


@pytest.mark.parametrize("blocks", [None, 4])
def test_sparse_rows_have_the_blocks_of_the_sparse_table(client, blocks) -> None:
    weight = rng.random(len(ON))
    schema = learn_schema(as_source(ON), observed=["x7"], sample_weight=weight)
    table = compile_sparse(as_source(ON), schema, weight)
    assert table is not None
    assert len(table.blocks) > 8
    asked: dict[str, Any] = {"observed": ["x7"], "sample_weight": weight, "blocks_per_shard": blocks}
    result = distribute_rows(client, da.from_array(ON, chunks=(1300, 200)), sparse=True, **asked)
    assert result.sparse
    assert repr(result.schema) == repr(schema)
    shards = [shard.blocks for shard in client.gather(result.shards)]
    assert max(map(len, shards)) == (blocks or 1)
    made = [block for shard in shards for block in shard]
    for one, other in zip(made, table.blocks, strict=True):
        assert (one.start, *(a.tobytes() for a in one[1:])) == (other.start, *(a.tobytes() for a in other[1:]))
    assert (result.n_rows, result.has_missing, result.total_weight) == (4000, False, table.total_weight)
    assert result.digest == combine_digests(block.digest() for block in table.blocks)


def test_what_is_not_sparse_is_dense(client) -> None:
    incomplete = ON[:3500].astype(np.float32)
    incomplete[8, 200] = np.nan
    for rows in (X, incomplete):
        assert compile_sparse(as_source(rows), learn_schema(as_source(rows))) is None
        result = distribute_rows(client, da.from_array(rows, chunks=(1300, rows.shape[1])), sparse=True)
        assert not result.sparse
        assert_same_bits(client, result, in_memory(rows))


def test_shards_are_shared_out_and_survive_their_worker(client) -> None:
    """One partition lies on one worker, and its rows on both."""
    result = distribute_rows(client, da.from_array(X, chunks=(N, 5)), merge=False, blocks_per_shard=1)
    holders = client.who_has(result.shards)
    workers = {worker for held in holders.values() for worker in held}
    assert workers == set(client.nthreads())
    sample = in_memory(X, merge=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client.restart_workers(list(workers)[:1], timeout=LIMIT)
    assert_same_bits(client, result, sample)


def test_other_columns_are_refused_with_the_partition(client) -> None:
    for odd, words in [
        (FRAME.rename(columns={"yes": "no"}), "Partition 1 of X .* has the column 'no' where the first partition has"),
        (FRAME.drop(columns="yes"), "Partition 1 of X .* has 4 columns, the first partition 5: all partitions"),
    ]:
        parts = dd.from_map(lambda part: part, [FRAME, odd], meta=FRAME.iloc[:0], enforce_metadata=False)
        with pytest.raises(DataError, match=words):
            distribute_rows(client, parts)


def test_other_columns_of_a_file_are_refused(client, folder) -> None:
    pl.DataFrame({"word": ["a"]}).write_parquet(folder / "9.parquet")
    with pytest.raises(DataError, match=r"9\.parquet: the columns differ from those of .*0\.parquet: only"):
        distribute_rows(client, folder)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda path: da.from_array(X[:0], chunks=(1, 5)), "no rows"),
        (lambda path: da.from_array(X[:, 0], chunks=100), "Expected 2D array, got 1D"),
        (lambda path: [], "empty list of files"),
        (lambda path: path, "neither Parquet files"),
        (lambda path: path / "*.parquet", "no file on the workers matches"),
        (lambda path: path / "none.parquet", "no such file"),
    ],
)
def test_what_has_no_rows_is_refused(client, tmp_path, made, words) -> None:
    with pytest.raises(DataError, match=words):
        distribute_rows(client, made(tmp_path))


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (np.ones(N + 1), r"sample_weight.shape == \(3001,\), expected \(3000,\)"),
        (da.ones(N - 1, chunks=500), r"sample_weight.shape == \(2999,\), expected \(3000,\)"),
        (da.ones((N, 1), chunks=500), "2 dimensions"),
        (np.where(np.arange(N) == 1234, -1.0, 1.0), "of row 1234 is -1.0"),
        (da.from_array(np.where(np.arange(N) == 1234, np.nan, 1.0), chunks=100), "of row 1234 is nan"),
        (da.zeros(N, chunks=500), "All sample weights are zero"),
        (np.zeros(N), "All sample weights are zero"),
        (-0.5, "of row 0 is -0.5"),
    ],
)
def test_weights_that_do_not_fit_are_refused(client, weight, words) -> None:
    with pytest.raises(DataError, match=words):
        distribute_rows(client, da.from_array(X, chunks=(700, 5)), sample_weight=weight)


def test_columns_are_refused_as_in_memory(client) -> None:
    parts = da.from_array(np.column_stack([np.arange(N), X]), chunks=(700, 6))
    with pytest.raises(DataError, match="'x0' has 3,000 different values in 3,000 cells"):
        distribute_rows(client, parts, kinds={"x0": "nominal"})
    wanted = r"'x1' holds 2 \(row \d+\), which its given order .*'x2' holds 0 \(row \d+\)"
    with pytest.raises(DataError, match=wanted):
        distribute_rows(client, parts, kinds={"x1": [0, 1], "x2": "1<2"})
    with pytest.raises(DataError, match="'y'"):
        distribute_rows(client, parts, observed=["y"])
    mixed = dd.from_map(lambda part: part, [FRAME, FRAME.assign(yes="1")], meta=FRAME.iloc[:0], enforce_metadata=False)
    with pytest.raises(DataError, match="'yes' holds numbers in some partitions and text in others"):
        distribute_rows(client, mixed, observed=OBSERVED)


class Workers:
    """A cluster, as far as memory goes."""

    def __init__(self, count: int, threads: int, gib: float) -> None:
        worker = {"memory_limit": int(gib * 2**30), "nthreads": threads}
        self.workers = {str(k): worker for k in range(count)}

    def scheduler_info(self, **_: Any) -> dict[str, Any]:
        return {"workers": self.workers}

    def nthreads(self) -> dict[str, int]:
        return {name: worker["nthreads"] for name, worker in self.workers.items()}


@pytest.mark.parametrize(
    ("workers", "n_rows", "width", "expected"),
    [
        (Workers(2, 1, 0), 2048 * 64, 10, 16),  # four shards for two threads
        (Workers(2, 1, 1), 2048 * 64, 10, 16),
        (Workers(2, 4, 1), 2048 * 64, 10, 4),
        (Workers(2, 1, 0.01), 2048 * 64, 2, 4),  # a sixteenth of 10 MiB holds five blocks of 2048 x 2 x 32 bytes
        (Workers(2, 1, 1), 300, 2, 1),
        (Workers(2, 1, 1), 2048 * 64, 0, 16),  # constants
    ],
)
def test_the_size_of_shards_follows_memory_and_threads(workers, n_rows, width, expected) -> None:
    assert choose_blocks_per_shard(workers, n_rows, width) == expected


def test_rows_beyond_all_workers_are_refused_with_the_figures() -> None:
    words = (
        r"may take 29\.8 GiB, and the 2 worker\(s\) have 8\.0 GiB, of which 60% are for data: 13 workers of 4\.0 GiB"
    )
    with pytest.raises(DataError, match=words):
        choose_blocks_per_shard(Workers(2, 1, 4), 10**7, 100)  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match="no workers"):
        choose_blocks_per_shard(Workers(0, 1, 4), 10, 10)  # pyright: ignore[reportArgumentType]
