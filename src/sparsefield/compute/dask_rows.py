"""Rows of Dask arrays and frames as a dataset: partitions are encoded on the workers that have them.

The client receives summaries and counts, and never rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.compute.dask_engine import SHARDS_PER_THREAD, DaskBlocks, DaskEngine
from sparsefield.compute.threads import identity
from sparsefield.data.column_summaries import ColumnSummary
from sparsefield.data.dataset import Dataset, Piece, merge_equal_rows
from sparsefield.data.frames import Source, as_source
from sparsefield.data.labels import Label, label_sort_key
from sparsefield.data.layout import Layout
from sparsefield.data.schema import Schema
from sparsefield.data.schema_learning import check_roles, learn_from_summaries, summarize_columns
from sparsefield.data.table import Block, combine_digests, cut_into_blocks, encode_rows, warn_unknown_values
from sparsefield.errors import DataError

JOINED_AT_ONCE = 8
"""Summaries that one task joins; the client receives a single one."""


class RowFacts(NamedTuple):
    """What the client knows of rows on a cluster."""

    n_rows: int
    total_weight: float
    has_missing: bool
    digest: str


@dataclass(frozen=True)
class DaskDataset(Dataset):
    """A single dense table whose rows are on the workers of a cluster; it has no tables in this process."""

    shards: Sequence[Any] = field(kw_only=True)
    """Futures of `Shard`, in the order of their rows."""
    counts: Sequence[int] = field(kw_only=True)
    """Number of blocks of each shard."""
    facts: RowFacts = field(kw_only=True)

    @property
    def n_rows(self) -> int:
        return self.facts.n_rows

    @property
    def n_cells(self) -> int:
        return self.n_rows * int(self.layout.widths[0])

    @property
    def total_weights(self) -> list[float]:
        return [self.facts.total_weight]

    @property
    def has_missing(self) -> bool:
        return self.facts.has_missing

    def hold_blocks(self, engine: Any, convert: Callable[..., tuple[Any, None]] | None = None) -> DaskBlocks:
        blocks = DaskBlocks(engine, self.shards, self.counts)
        return blocks if convert is None else blocks.map_update(convert)[0]

    def update_digest(self, digest: Any) -> None:
        digest.update(self.facts.digest.encode())


class Partitions(NamedTuple):
    """The partitions of a Dask array or frame that have rows."""

    source: Source
    """Column names, kind and total number of rows, without the rows."""
    futures: list[Any]
    """Arrays or frames, in the order of their rows."""
    numbers: list[int]
    """Numbers for error messages, which also count empty partitions."""
    counts: list[int]
    """Numbers of rows."""


def open_partitions(engine: DaskEngine, X: Any) -> Partitions:
    """Compute the partitions of a Dask array or frame, which stay on the workers, and check their columns."""
    if not hasattr(X, "to_delayed"):
        raise DataError(f"X is a Dask {type(X).__name__}: pass a Dask array or a Dask frame.")
    if hasattr(X, "rechunk"):
        if X.ndim != 2:
            raise DataError(f"Expected 2D array, got {X.ndim}D array instead for X.")
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    futures = engine.client.compute(np.ravel(np.array(X.to_delayed(), dtype=object)).tolist())
    sources = engine.gather([engine.submit(_read_metadata, part, k) for k, part in enumerate(futures)])
    for number, source in enumerate(sources):
        _check_same_columns(source, sources[0], number)
    numbers = [number for number, source in enumerate(sources) if source.n_rows]
    if not numbers:
        raise DataError("X has no rows: 0 sample(s) in all partitions while a minimum of 1 is required.")
    if sources[0].kind == "sparse":
        raise DataError("The partitions of X are sparse matrices, which cannot be fitted on a cluster: fit in memory.")
    counts = [sources[number].n_rows for number in numbers]
    source = replace(sources[0], n_rows=sum(counts))
    return Partitions(source, [futures[number] for number in numbers], numbers, counts)


def _check_same_columns(source: Source, first: Source, number: int) -> None:
    name = f"Partition {number} of X (counted from 0)"
    if source.kind != first.kind:
        raise DataError(f"{name} is of another kind ({source.kind}) than the first ({first.kind}): use one kind.")
    if source.names != first.names:
        differing = sorted(set(source.names) ^ set(first.names))
        detail = f", such as {differing[0]!r}" if differing else " in another order"
        raise DataError(f"{name} has other columns than the first{detail}: all partitions must have the same columns.")


def learn_from_partitions(
    engine: DaskEngine,
    parts: Partitions,
    *,
    observed: Sequence[str],
    kinds: Any,
    states: Mapping[str, Sequence[Label]] | None,
    symmetric: bool,
    weight: np.ndarray | None,
) -> Dataset:
    """Learn the schema of a partitioned table, and encode its rows.

    Parameters
    ----------
    observed, kinds, states, symmetric : as for `learn_schema`
    weight : (rows,) weights of all rows, or None
    """
    source = parts.source
    given, known = check_roles(source, observed, kinds, states)
    ends = np.cumsum(parts.counts).tolist()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph")  # it is as large as the weights
        weights = [
            None if weight is None else engine.submit(identity, weight[end - count : end])
            for count, end in zip(parts.counts, ends, strict=True)
        ]
    rows = list(zip(parts.futures, parts.numbers, weights, strict=True))

    summaries = [engine.submit(_summarize, *part, given, known) for part in rows]
    while len(summaries) > 1:
        groups = [summaries[k : k + JOINED_AT_ONCE] for k in range(0, len(summaries), JOINED_AT_ONCE)]
        summaries = [engine.submit(_join_summaries, group) for group in groups]
    (summary,) = engine.gather(summaries)
    schema = learn_from_summaries(summary, given, known, observed=observed, symmetric=symmetric)
    size, schema_there = config.block_rows(source.n_rows), engine.send(schema)
    starts = zip(rows, [0, *ends[:-1]], strict=True)
    encoded = [engine.submit(_encode, *part, schema_there, start, size) for part, start in starts]
    groups = np.array_split(np.arange(len(encoded)), min(len(encoded), SHARDS_PER_THREAD * engine.n_threads))
    encoded = [engine.submit(_join, [encoded[k] for k in group]) for group in groups]
    facts = [fact for some in engine.gather([engine.submit(_facts, part) for part in encoded]) for fact in some]
    _warn_unknown_values([fact.unknown for fact in facts])
    counts = [sum(facts[k].blocks for k in group) for group in groups]
    total, digest = float(sum(fact.weight for fact in facts)), combine_digests(fact.digest for fact in facts)
    known = RowFacts(source.n_rows, total, any(fact.missing for fact in facts), digest)
    return DaskDataset(Layout.single(schema), (), shards=encoded, counts=counts, facts=known)


def _warn_unknown_values(unknown: Sequence[Mapping[str, tuple[int, Label]]]) -> None:
    """Warn once per column about unknown values of all partitions."""
    for name in dict.fromkeys(name for part in unknown for name in part):
        cells = [part[name] for part in unknown if name in part]
        example = min((label for _, label in cells), key=label_sort_key)
        warn_unknown_values(name, sum(count for count, _ in cells), example)


# -- functions that run on workers -----------------------------------------------------------------------------------


class PartitionFacts(NamedTuple):
    """What the client has to know about an encoded partition."""

    blocks: int
    weight: float
    missing: bool
    unknown: Mapping[str, tuple[int, Label]]
    """{column: number of values that do not occur in training, and an example}"""
    digest: bytes


Encoded = tuple[tuple[Block, ...], list[PartitionFacts]]


def _read(part: Any, number: int) -> Source:
    return as_source(part, what=f"partition {number} of X (counted from 0)", may_be_empty=True)


def _read_metadata(part: Any, number: int) -> Source:
    return replace(_read(part, number), native=None)


def _summarize(part: Any, number: int, weight: np.ndarray | None, given: Any, known: Any) -> list[ColumnSummary]:
    return summarize_columns(_read(part, number), weight, given, known)


def _join_summaries(parts: Sequence[list[ColumnSummary]]) -> list[ColumnSummary]:
    return [ColumnSummary.join(column) for column in zip(*parts, strict=True)]


def _encode(part: Any, number: int, weight: np.ndarray | None, schema: Schema, first: int, size: int) -> Encoded:
    """Return the blocks of a partition whose first row has the number ``first``; equal rows are merged."""
    source = _read(part, number)
    codes, covariates, unknown = encode_rows(source, schema)
    rows = Piece(codes, covariates, np.ones(source.n_rows, dtype=config.FLOAT) if weight is None else weight)
    missing = bool((codes < 0).any())
    rows = rows if missing else merge_equal_rows(rows)
    blocks = tuple(cut_into_blocks(schema, *rows, schema.n_columns, size=size, first=first))
    examples = {name: (len(values.rows), values.example) for name, values in unknown.items()}
    digest = combine_digests(block.digest() for block in blocks).encode()
    return blocks, [PartitionFacts(len(blocks), float(rows.weight.sum()), missing, examples, digest)]


def _join(parts: Sequence[Encoded]) -> Encoded:
    return tuple(block for blocks, _ in parts for block in blocks), [fact for _, facts in parts for fact in facts]


def _facts(part: Encoded) -> list[PartitionFacts]:
    return part[1]
