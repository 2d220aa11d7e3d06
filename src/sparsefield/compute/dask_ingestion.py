"""This module turns the partitions of a table into shards for a fit, on the workers of a cluster.

Every step is a task without side effects, so that Dask can repeat it if a worker dies. The client receives summaries,
counts and digests, but never rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.app.tables.partitioned_tables import (
    PartitionedTable,
    open_partitions,
    read_partition,
)
from sparsefield.compute.dask_chunks import DaskChunks
from sparsefield.compute.dask_cluster import memory_limits, refuse_beyond
from sparsefield.compute.dask_worker import Shard, identity
from sparsefield.data.column_summaries import MANY_LABELS, join_summaries, refuse_odd_weights, refuse_small_weights
from sparsefield.data.deduplication import deduplicate_chunks
from sparsefield.data.exact_sums import Weights
from sparsefield.data.frames import is_dask_collection
from sparsefield.data.kinds import Kinds
from sparsefield.data.labels import Label, label_sort_key
from sparsefield.data.schema import Schema
from sparsefield.data.schema_learning import check_roles, learn_from_parts
from sparsefield.data.shards import (
    Piece,
    combine_digests,
    compile_piece,
    concatenate,
    cut_piece,
    has_missing,
    shard_rows,
    writable_blocks,
)
from sparsefield.data.sparse_table import (
    SparseBlock,
    block_ends,
    block_ends_within,
    compile_sparse_piece,
    concatenate_sparse,
    prefers_sparse,
)
from sparsefield.data.table import Block, dense_bytes, warn_unknown_values
from sparsefield.errors import DataError

if TYPE_CHECKING:
    from distributed import Future

JOINED_AT_ONCE = 8
"""Summaries that one task joins; the client receives a single one."""

SHARE_OF_SHARD = 1 / 16
"""Share of a worker's memory for the derived values of a shard: several shards are processed at a time."""

SHARDS_PER_THREAD = 2


@dataclass(frozen=True)
class DistributedRows:
    """A table whose rows are on the workers of a cluster."""

    schema: Schema
    names: tuple[str, ...]
    kind: str
    """Kind of a partition, as in `Source`: ``"array"``, ``"pandas"``, ``"polars"``."""
    shards: list[Future]
    """Futures of `Shard`, with the blocks that the table would have in memory."""
    counts: list[int]
    """Number of blocks of each shard."""
    n_rows: int
    """Number of rows in the shards, after deduplication."""
    total_weight: float
    has_missing: bool
    digest: str
    """Digest of all rows, independent of the number of shards: `combine_digests`."""
    rows_read: int
    """Number of rows of all partitions."""
    sparse: bool = False
    """Whether the blocks are `SparseBlock`."""


def distribute_rows(
    client: Any,
    X: Any,
    *,
    observed: Sequence[str] = (),
    kinds: Kinds = "auto",
    states: Mapping[str, Sequence[Label]] | None = None,
    symmetric: bool = True,
    sample_weight: Any = None,
    schema: Schema | None = None,
    merge: bool = True,
    sparse: bool = False,
    blocks_per_shard: int | None = None,
) -> DistributedRows:
    """Learn the schema of a partitioned table, and turn its partitions into shards.

    Parameters
    ----------
    client : of a Dask cluster
    X : Dask array or frame, Parquet files (see `open_partitions`), or the result of `open_partitions`
    observed, kinds, states, symmetric : as for `learn_schema`
    sample_weight : None, one number for all rows, (rows,) array, or one-dimensional Dask array
    schema : a known schema; None learns it
    merge : whether equal rows are merged, as by `deduplicate_rows`
    sparse : whether a table that `compile_sparse` accepts is kept sparse; its equal rows are not merged
    blocks_per_shard : power of two; None chooses it by the memory of the workers, and takes 1 for a sparse table
    """
    parts = X if isinstance(X, PartitionedTable) else open_partitions(client, X)
    source = parts.source
    weights = _weights(client, sample_weight, parts)
    if schema is None:
        check_roles(source.names, observed, kinds, states)
        roles = {"observed": observed, "kinds": kinds, "states": states, "symmetric": symmetric}
        schema = learn_from_parts(source.names, _summarizer(client, parts, weights), **roles, most=MANY_LABELS)
    made = None
    if sparse:  # only states other than a reference state are stored in a sparse table
        plain = schema.with_reference()
        made = _CompiledParts.of(client, parts, weights, plain).sparse_shards(blocks_per_shard or 1)
        schema = plain if made else schema
    n_rows, shards = made or _CompiledParts.of(client, parts, weights, schema).dense_shards(merge, blocks_per_shard)
    facts: Any = client.gather(client.map(_summarize_shard, shards, pure=False))
    return DistributedRows(
        schema,
        source.names,
        source.kind,
        shards,
        [len(fact.weights) for fact in facts],
        n_rows,
        # In the order of `Table.total_weight`.
        float(sum(weight for fact in facts for weight in fact.weights)),
        any(fact.missing for fact in facts),
        combine_digests(digest for fact in facts for digest in fact.digests),
        source.n_rows,
        made is not None,
    )


@dataclass(frozen=True)
class _CompiledParts:
    """The partitions of a table with its schema."""

    client: Any
    parts: PartitionedTable
    weights: list[Any]
    schema: Schema
    schema_future: Future
    """The schema on a worker, from which others fetch it."""

    @classmethod
    def of(cls, client: Any, parts: PartitionedTable, weights: list[Any], schema: Schema) -> _CompiledParts:
        return cls(client, parts, weights, schema, client.submit(identity, schema, pure=False))

    def dense_shards(self, merge: bool, blocks_per_shard: int | None) -> tuple[int, list[Future]]:
        """Return the number of rows, and shards of `Block`."""
        client, rows = self.client, self._compile(_compile)
        checks: Any = client.gather(client.map(_check_piece, rows, schema=self.schema_future, pure=False))
        _warn_unknown_values([check.unseen for check in checks])
        rows = DaskChunks(client, client.map(itemgetter(0), rows, pure=False), self.parts.counts)
        if merge and not any(check.missing for check in checks):
            rows = deduplicate_chunks(rows.chunked())
        if blocks_per_shard is None:
            blocks_per_shard = choose_blocks_per_shard(client, rows.n_rows, self.schema.n_columns)
        size, runs = config.block_rows(rows.n_rows), shard_rows(rows.n_rows, blocks_per_shard)
        return rows.n_rows, rows.regroup(runs, _make_shard, [(start, size, self.schema_future) for start, _ in runs])

    def sparse_shards(self, blocks_per_shard: int) -> tuple[int, list[Future]] | None:
        """Return the number of rows and shards of `SparseBlock`; None for dense tables and those with missing cells."""
        client, counts = self.client, self.parts.counts
        # Decided by the density alone, not by memory: the same rows are stored in the same way on every cluster.
        if not prefers_sparse(self.schema, sum(counts), float("inf")):
            return None
        pieces = self._compile(_compile_sparse)
        active: Any = client.gather(client.map(_count_active, pieces, pure=False))
        if None in active:
            return None
        refuse_beyond(client, config.BYTES_OF_CELL * float(sum(active)), f"{sum(active):,} nonzero cells")
        cells, rows = np.cumsum([0, *active])[:-1].tolist(), np.cumsum([0, *counts])[:-1].tolist()
        ends: Any = client.gather(
            client.map(block_ends_within, pieces, [block_ends(sum(active))] * len(active), cells, rows, pure=False)
        )
        bounds = sorted({0, *(end for found in ends for end in found), sum(counts)})
        groups = [bounds[k : k + blocks_per_shard + 1] for k in range(0, len(bounds) - 1, blocks_per_shard)]
        runs = [(group[0], group[-1]) for group in groups]
        made = DaskChunks(client, pieces, counts).regroup(runs, _make_sparse_shard, [(group,) for group in groups])
        return sum(counts), made

    def _compile(self, compile_part: Callable[..., Any]) -> list[Future]:
        parts = self.parts
        return self.client.map(
            compile_part, parts.futures, self.weights, parts.numbers, schema=self.schema_future, pure=False
        )


def choose_blocks_per_shard(client: Any, n_rows: int, width: int) -> int:
    """Return a power of two such that workers can hold several shards, and all threads have enough of them.

    Raises
    ------
    DataError
        With the figures, if the rows exceed the memory of the workers.
    """
    refuse_beyond(client, dense_bytes(float(n_rows) * width), f"{n_rows:,} rows x {width:,} states")
    size = config.block_rows(n_rows)
    threads: Any = client.nthreads()
    most = min(
        SHARE_OF_SHARD * min(memory_limits(client)) / dense_bytes(size * max(width, 1)),
        -(-n_rows // size) / (SHARDS_PER_THREAD * sum(threads.values())),
    )
    return 1 << (max(int(most), 1).bit_length() - 1)


# -- summaries and weights -------------------------------------------------------------------------------------------


def _summarizer(client: Any, parts: PartitionedTable, weights: list[Any]) -> Callable[..., list[Any]]:
    """Return a function for `learn_from_parts` that joins the summaries of partitions on the workers."""

    def summarize(function: Callable[..., Any], *arguments: Any) -> list[Any]:
        options = {"function": function, "arguments": arguments}
        found: Any = client.map(_summarize_part, parts.futures, weights, parts.numbers, **options, pure=False)
        while True:
            groups = [found[k : k + JOINED_AT_ONCE] for k in range(0, len(found), JOINED_AT_ONCE)]
            found = [client.submit(join_summaries, group, MANY_LABELS, pure=False) for group in groups]
            if len(found) == 1:
                return client.gather(found)[0]

    return summarize


def _weights(client: Any, sample_weight: Any, parts: PartitionedTable) -> list[Any]:
    """Return the row weights of each partition: None, a number, or the future of an array."""
    n_rows = parts.source.n_rows
    if sample_weight is None or np.isscalar(sample_weight):
        if sample_weight is not None:
            one = np.array([sample_weight], dtype=config.FLOAT)
            refuse_odd_weights(one)
            refuse_small_weights(float(one[0]))
        return [sample_weight] * len(parts.counts)
    ends = np.cumsum(parts.counts).tolist()
    runs = list(zip([0, *ends[:-1]], ends, strict=True))
    if not is_dask_collection(sample_weight):
        weight = np.array(sample_weight, dtype=config.FLOAT)
        _refuse_other_length(weight.shape, n_rows)
        refuse_odd_weights(weight)
        refuse_small_weights(float(weight.max(initial=0.0)))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # it is as large as sample_weight
            return client.map(identity, [weight[start:stop] for start, stop in runs], pure=False)
    if sample_weight.ndim != 1:
        raise DataError(f"sample_weight has {sample_weight.ndim} dimensions: it must have one weight per row.")
    chunks: Any = client.compute(np.ravel(np.array(sample_weight.to_delayed(), dtype=object)).tolist())
    counts: Any = client.gather(client.map(len, chunks, pure=False))
    _refuse_other_length((sum(counts),), n_rows)
    first_rows = [(start,) for start, _ in runs]
    weights = DaskChunks(client, chunks, counts).regroup(runs, _join_weights, first_rows)
    largest: Any = client.gather(client.map(np.max, weights, pure=False))
    refuse_small_weights(float(max(largest)))
    return weights


def _refuse_other_length(shape: tuple[int, ...], n_rows: int) -> None:
    if shape != (n_rows,):
        raise DataError(f"sample_weight.shape == {shape}, expected ({n_rows},): one weight per row.")


def _warn_unknown_values(found: Sequence[Mapping[str, tuple[int, Label]]]) -> None:
    """Warn once per column about unknown values of all partitions."""
    for name in dict.fromkeys(name for part in found for name in part):
        cells = [part[name] for part in found if name in part]
        warn_unknown_values(
            name, sum(count for count, _ in cells), min((label for _, label in cells), key=label_sort_key)
        )


# -- tasks ----------------------------------------------------------------------------------------------------------


class _PieceCheck(NamedTuple):
    unseen: Mapping[str, tuple[int, Label]]
    missing: bool


class _ShardSummary(NamedTuple):
    weights: list[float]
    missing: bool
    digests: list[bytes]


def _as_array(weight: Any, n_rows: int) -> np.ndarray | None:
    return np.full(n_rows, weight, dtype=config.FLOAT) if np.isscalar(weight) else weight


def _summarize_part(part: Any, weight: Any, number: int, function: Callable[..., Any], arguments: tuple) -> Any:
    source = read_partition(part, number)
    return function(source, Weights(_as_array(weight, source.n_rows)), *arguments)


def _compile(part: Any, weight: Any, number: int, schema: Schema) -> tuple[Piece, Any]:
    source = read_partition(part, number)
    return compile_piece(source, schema, _as_array(weight, source.n_rows))


def _check_piece(compiled: tuple[Piece, Any], schema: Schema) -> _PieceCheck:
    piece, unseen = compiled
    return _PieceCheck(unseen, has_missing(piece, schema))


def _join_weights(pieces: list[Any], first: int) -> np.ndarray:
    weight = np.concatenate([np.asarray(piece, dtype=config.FLOAT) for piece in pieces])
    refuse_odd_weights(weight, first)
    return weight


def _compile_sparse(part: Any, weight: Any, number: int, schema: Schema) -> SparseBlock | None:
    source = read_partition(part, number)
    return compile_sparse_piece(source, schema, _as_array(weight, source.n_rows))


def _count_active(piece: SparseBlock | None) -> int | None:
    return None if piece is None else piece.n_nonzero


def _make_shard(pieces: list[Piece], first: int, size: int, schema: Schema) -> Shard:
    return Shard(writable_blocks(cut_piece(schema, concatenate(pieces), first, size)))


def _make_sparse_shard(pieces: list[SparseBlock], bounds: list[int]) -> Shard:
    return Shard(writable_blocks(concatenate_sparse(pieces, bounds[0]).cut(bounds)))


def _summarize_shard(shard: Shard) -> _ShardSummary:
    blocks = shard.blocks
    return _ShardSummary(
        [float(block.weight.sum()) for block in blocks],
        any(isinstance(block, Block) and len(block.missing_rows) for block in blocks),
        [block.digest() for block in blocks],
    )
