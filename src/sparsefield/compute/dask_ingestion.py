"""From partitions of a table to the shards that a fit works on, all of it on the workers of a cluster.

Every step is a task without side effects, so that Dask can repeat whatever a worker took with it. Rows never come to
the client: summaries, counts and marks do.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.compute.dask_rows import OnWorkers
from sparsefield.compute.dask_worker import Shard
from sparsefield.compute.worker_memory import memory_limits, refuse_beyond
from sparsefield.data.column_summaries import MANY_LABELS, join, refuse_odd_weights
from sparsefield.data.deduplication import merge_in_rounds
from sparsefield.data.exact_sums import Weights
from sparsefield.data.labels import Label, label_order
from sparsefield.data.schema import Schema
from sparsefield.data.schema_learning import check_roles, learn_from_parts
from sparsefield.data.shards import (
    Piece,
    compile_piece,
    concatenate,
    cut_piece,
    digest_block,
    digest_of_all,
    has_missing,
    own_arrays,
    shard_rows,
)
from sparsefield.data.sparse_shards import (
    SparsePiece,
    compile_sparse_piece,
    concatenate_sparse,
    cut_sparse_piece,
    digest_sparse_block,
    ends_within,
)
from sparsefield.data.sparse_table import block_ends, seems_sparse
from sparsefield.data.table import Block, dense_bytes, warn_of_unseen
from sparsefield.errors import DataError
from sparsefield.io.partitioned_tables import PartitionedTable, is_dask_collection, open_partitions, read_partition

if TYPE_CHECKING:
    from distributed import Future

__all__ = ["Placed", "choose_blocks_per_shard", "place_rows"]

JOINED_AT_ONCE = 8
"""Summaries that a task joins: what comes to the client is one."""

SHARE_OF_SHARD = 1 / 16
"""Of a worker's memory, for what a fit makes of a shard: several are worked on at a time, beside all that are held."""

SHARDS_PER_THREAD = 2


@dataclass(frozen=True)
class Placed:
    """A table whose rows lie on the workers of a cluster."""

    schema: Schema
    names: tuple[str, ...]
    kind: str
    """What `read` says of a partition: ``"array"``, ``"pandas"``, ``"polars"``."""
    shards: list[Future]
    """Each of a `Shard` of `Block` or `SparseBlock`: together those that the table would have in memory."""
    counts: list[int]
    """(shards,): their blocks."""
    n_rows: int
    """Rows in the shards, of which each may stand for several."""
    total_weight: float
    has_missing: bool
    digest: str
    """A mark of all rows, however many shards they are in: `digest_of_all`."""
    rows_read: int
    """Rows of all partitions."""
    sparse: bool = False
    """Whether shards hold `SparseBlock`."""


def place_rows(
    client: Any,
    X: Any,
    *,
    observed: Sequence[str] = (),
    numeric: Sequence[str] | Literal["auto"] = "auto",
    states: Mapping[str, Sequence[Label]] | None = None,
    sample_weight: Any = None,
    schema: Schema | None = None,
    merge: bool = True,
    sparse: bool = False,
    blocks_per_shard: int | None = None,
) -> Placed:
    """Learn the schema of a table in partitions, and make its shards.

    Parameters
    ----------
    client : of a Dask cluster
    X : Dask array or frame, Parquet files (see `open_partitions`), or what `open_partitions` made of them
    observed, numeric, states : as for `learn_schema`
    sample_weight : None, one for all rows, (rows,) array, or Dask array of one dimension
    schema : of a field that is known; None learns it
    merge : whether equal rows become one, as `deduplicate_rows` would have it
    sparse : whether a table that `compile_sparse` would keep sparse is kept so; its equal rows stay apart
    blocks_per_shard : power of two; None chooses by what workers can hold, and takes one block of a sparse table
    """
    parts = X if isinstance(X, PartitionedTable) else open_partitions(client, X)
    source = parts.source
    weights = _weights(client, sample_weight, parts)
    if schema is None:
        check_roles(source.names, observed, numeric, states)
        schema = learn_from_parts(
            source.names,
            _asker(client, parts, weights),
            observed=observed,
            numeric=numeric,
            states=states,
            most=MANY_LABELS,
        )
    there = client.submit(_itself, schema, pure=False)
    table = _Table(client, parts, weights, schema, there)
    made = table.sparse_shards(blocks_per_shard or 1) if sparse else None
    n_rows, shards = made or table.dense_shards(merge, blocks_per_shard)
    facts: Any = client.gather(client.map(_tell, shards, pure=False))
    return Placed(
        schema,
        source.names,
        source.kind,
        shards,
        [len(fact.weights) for fact in facts],
        n_rows,
        # In the order of `Table.total_weight`.
        float(sum(weight for fact in facts for weight in fact.weights)),
        any(fact.missing for fact in facts),
        digest_of_all(digest for fact in facts for digest in fact.digests),
        source.n_rows,
        made is not None,
    )


@dataclass(frozen=True)
class _Table:
    """Partitions under a schema."""

    client: Any
    parts: PartitionedTable
    weights: list[Any]
    schema: Schema
    there: Future
    """The schema, where workers can take it from."""

    def dense_shards(self, merge: bool, blocks_per_shard: int | None) -> tuple[int, list[Future]]:
        """The number of rows, and shards of `Block`."""
        client, rows = self.client, self._compile(_compile)
        looks: Any = client.gather(client.map(_look, rows, schema=self.there, pure=False))
        _warn_of_unseen([look.unseen for look in looks])
        rows = OnWorkers(client, client.map(_first, rows, pure=False), self.parts.counts)
        if merge and not any(look.missing for look in looks):
            rows = merge_in_rounds(rows.chunked())
        if blocks_per_shard is None:
            blocks_per_shard = choose_blocks_per_shard(client, rows.n_rows, self.schema.n_columns)
        size, runs = config.block_rows(rows.n_rows), shard_rows(rows.n_rows, blocks_per_shard)
        return rows.n_rows, rows.regroup(runs, _make_shard, [(start, size, self.there) for start, _ in runs])

    def sparse_shards(self, blocks_per_shard: int) -> tuple[int, list[Future]] | None:
        """The number of rows, and shards of `SparseBlock`; None where the table is not sparse, or has gaps."""
        client, counts = self.client, self.parts.counts
        # By how much is on, and not by what this cluster can hold: the same rows are kept alike everywhere.
        if not seems_sparse(self.schema, sum(counts), float("inf")):
            return None
        pieces = self._compile(_compile_sparse)
        on: Any = client.gather(client.map(_count_on, pieces, pure=False))
        if None in on:
            return None
        refuse_beyond(client, config.BYTES_OF_CELL * float(sum(on)), f"{sum(on):,} cells that are on")
        cells, rows = np.cumsum([0, *on])[:-1].tolist(), np.cumsum([0, *counts])[:-1].tolist()
        ends: Any = client.gather(
            client.map(ends_within, pieces, [block_ends(sum(on))] * len(on), cells, rows, pure=False)
        )
        places = sorted({0, *(end for found in ends for end in found), sum(counts)})
        groups = [places[k : k + blocks_per_shard + 1] for k in range(0, len(places) - 1, blocks_per_shard)]
        runs = [(group[0], group[-1]) for group in groups]
        made = OnWorkers(client, pieces, counts).regroup(runs, _make_sparse_shard, [(group,) for group in groups])
        return sum(counts), made

    def _compile(self, how: Callable[..., Any]) -> list[Future]:
        parts = self.parts
        return self.client.map(how, parts.futures, self.weights, parts.numbers, schema=self.there, pure=False)


def choose_blocks_per_shard(client: Any, n_rows: int, width: int) -> int:
    """A power of two: shards of which workers can hold several, and enough of them for all threads.

    DataError with the figures where all rows are more than the workers can hold.
    """
    refuse_beyond(client, dense_bytes(float(n_rows) * width), f"{n_rows:,} rows x {width:,} states")
    size = config.block_rows(n_rows)
    threads: Any = client.nthreads()
    most = min(
        SHARE_OF_SHARD * min(memory_limits(client)) / dense_bytes(size * max(width, 1)),
        -(-n_rows // size) / (SHARDS_PER_THREAD * sum(threads.values())),
    )
    return 1 << (max(int(most), 1).bit_length() - 1)


# -- looking and weighing --------------------------------------------------------------------------------------------


def _asker(client: Any, parts: PartitionedTable, weights: list[Any]) -> Callable[..., list[Any]]:
    """For `learn_from_parts`: looks at all partitions, and joins what is found on the workers."""

    def ask(look: Callable[..., Any], *asked: Any) -> list[Any]:
        found: Any = client.map(
            _look_at_part, parts.futures, weights, parts.numbers, look=look, asked=asked, pure=False
        )
        while True:
            groups = [found[k : k + JOINED_AT_ONCE] for k in range(0, len(found), JOINED_AT_ONCE)]
            found = [client.submit(join, group, MANY_LABELS, pure=False) for group in groups]
            if len(found) == 1:
                return client.gather(found)[0]

    return ask


def _weights(client: Any, sample_weight: Any, parts: PartitionedTable) -> list[Any]:
    """What rows of each partition weigh: None, a number or an array, or the future of one."""
    n_rows = parts.source.n_rows
    if sample_weight is None or np.isscalar(sample_weight):
        if sample_weight is not None:
            refuse_odd_weights(np.array([sample_weight], dtype=config.FLOAT))
            _refuse_zeros([sample_weight])
        return [sample_weight] * len(parts.counts)
    ends = np.cumsum(parts.counts).tolist()
    runs = list(zip([0, *ends[:-1]], ends, strict=True))
    if not is_dask_collection(sample_weight):
        weight = np.array(sample_weight, dtype=config.FLOAT)
        _refuse_other_length(weight.shape, n_rows)
        refuse_odd_weights(weight)
        _refuse_zeros(weight)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # whoever has so many weights on the client knows
            return client.map(_itself, [weight[start:stop] for start, stop in runs], pure=False)
    if sample_weight.ndim != 1:
        raise DataError(f"sample_weight has {sample_weight.ndim} dimensions: it is to have one weight per row.")
    chunks: Any = client.compute(np.ravel(np.array(sample_weight.to_delayed(), dtype=object)).tolist())
    counts: Any = client.gather(client.map(len, chunks, pure=False))
    _refuse_other_length((sum(counts),), n_rows)
    told = [(start,) for start, _ in runs]
    weights = OnWorkers(client, chunks, counts).regroup(runs, _join_weights, told)
    _refuse_zeros(client.gather(client.map(_has_weight, weights, pure=False)))
    return weights


def _refuse_other_length(shape: tuple[int, ...], n_rows: int) -> None:
    if shape != (n_rows,):
        raise DataError(f"sample_weight.shape == {shape}, expected ({n_rows},): one weight per row.")


def _refuse_zeros(weights: Any) -> None:
    if not np.any(weights):
        raise DataError("All sample weights are zero: nothing to learn from.")


def _warn_of_unseen(found: Sequence[Mapping[str, tuple[int, Label]]]) -> None:
    """Of all partitions at once."""
    for name in dict.fromkeys(name for part in found for name in part):
        cells = [part[name] for part in found if name in part]
        warn_of_unseen(name, sum(count for count, _ in cells), min((label for _, label in cells), key=label_order))


# -- tasks ----------------------------------------------------------------------------------------------------------


class _Look(NamedTuple):
    unseen: Mapping[str, tuple[int, Label]]
    missing: bool


class _Told(NamedTuple):
    weights: list[float]
    missing: bool
    digests: list[bytes]


def _itself(value: Any) -> Any:
    return value


def _first(compiled: tuple[Piece, Any]) -> Piece:
    return compiled[0]


def _as_array(weight: Any, n_rows: int) -> np.ndarray | None:
    return np.full(n_rows, weight, dtype=config.FLOAT) if np.isscalar(weight) else weight


def _look_at_part(part: Any, weight: Any, number: int, look: Callable[..., Any], asked: tuple) -> Any:
    source = read_partition(part, number)
    return look(source, Weights(_as_array(weight, source.n_rows)), *asked)


def _compile(part: Any, weight: Any, number: int, schema: Schema) -> tuple[Piece, Any]:
    source = read_partition(part, number)
    return compile_piece(source, schema, _as_array(weight, source.n_rows))


def _look(compiled: tuple[Piece, Any], schema: Schema) -> _Look:
    piece, unseen = compiled
    return _Look(unseen, has_missing(piece, schema))


def _join_weights(pieces: list[Any], first: int) -> np.ndarray:
    weight = np.concatenate([np.asarray(piece, dtype=config.FLOAT) for piece in pieces])
    refuse_odd_weights(weight, first)
    return weight


def _compile_sparse(part: Any, weight: Any, number: int, schema: Schema) -> SparsePiece | None:
    source = read_partition(part, number)
    return compile_sparse_piece(source, schema, _as_array(weight, source.n_rows))


def _count_on(piece: SparsePiece | None) -> int | None:
    return None if piece is None else piece.n_on


def _has_weight(weight: np.ndarray) -> bool:
    return bool(weight.any())


def _make_shard(pieces: list[Piece], first: int, size: int, schema: Schema) -> Shard:
    return Shard(own_arrays(cut_piece(schema, concatenate(pieces), first, size)))


def _make_sparse_shard(pieces: list[SparsePiece], places: list[int]) -> Shard:
    return Shard(own_arrays(cut_sparse_piece(concatenate_sparse(pieces), places)))


def _tell(shard: Shard) -> _Told:
    blocks = shard.parts
    return _Told(
        [float(block.weight.sum()) for block in blocks],
        any(isinstance(block, Block) and len(block.missing_rows) for block in blocks),
        [digest_block(block) if isinstance(block, Block) else digest_sparse_block(block) for block in blocks],
    )
