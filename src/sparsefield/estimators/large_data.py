"""This module learns from rows that are not in memory as one table: blocks of a stream, or rows on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsefield.app.tables.out_of_core import ColumnRoles, check_blocks, open_table_writer, table_from_rows
from sparsefield.app.tables.partitioned_tables import is_parquet_source, open_partitions
from sparsefield.app.tables.row_blocks import is_stream, open_stream
from sparsefield.data import BinarySchema, DenseDataset, DistributedDataset, Label, Layout, SparseTable, Table
from sparsefield.data.disk_arrays import BinaryCSR, temporary_folder
from sparsefield.data.frames import is_dask_collection
from sparsefield.data.sparse_table import make_sparse_table
from sparsefield.errors import ClusterError, DataError
from sparsefield.estimators.compiled_rows import pseudo_log_likelihood
from sparsefield.estimators.field_estimator import FieldEstimator, TrainingData
from sparsefield.estimators.validation import check_weights, check_y, column_names
from sparsefield.solver import HeldOut
from sparsefield.solver.selection_folds import held_out_refusal

States = Mapping[str, Sequence[Label]] | None


def open_large_data(
    estimator: FieldEstimator, X: Any, y: Any, observed: Any, sample_weight: Any, states: States
) -> AbstractContextManager[TrainingData] | None:
    """Return the context in which a stream, or rows on a cluster, can be learned from; None if ``X`` is one table."""
    if is_dask_collection(X) and estimator.engine is None:
        raise DataError(f"X is a {type(X).__name__} of Dask: name its cluster with engine=client, or pass X.compute().")
    distributed = is_dask_collection(X) or (estimator.engine is not None and is_parquet_source(X))
    if not distributed and not is_stream(X):
        return None
    if getattr(estimator, "latent", None):
        raise DataError("latent= needs all rows in memory, as one table; X comes in parts.")
    open_data = _open_distributed if distributed else _open_stream
    return open_data(estimator, X, y, observed, sample_weight, states)


def _refuse_held_out(estimator: FieldEstimator) -> None:
    if estimator.l1 == "auto" and isinstance(estimator.resolve("selection"), HeldOut):
        raise held_out_refusal()


@contextmanager
def _open_stream(
    estimator: FieldEstimator, X: Any, y: Any, observed: Any, sample_weight: Any, states: States
) -> Iterator[TrainingData]:
    """Write the rows of a stream to a temporary folder and yield them as a table, on disk where possible."""
    if not estimator._accepts_sparse():
        order, rule = estimator.resolve("max_order").max_order, estimator.resolve("induction")
        option = f"objective={estimator.objective!r}" if estimator.objective != "pl" else f"induction={rule.name!r}"
        option = "refit='ml'" if estimator.refit == "ml" else option
        option = f"max_order={order}" if order > 2 else option
        raise DataError(
            f"{option} needs all rows in memory. Blocks of rows are learned with objective='pl', max_order=2 and "
            "induction='cfi', 'grafting', 'full' or a FixedGraph."
        )
    _refuse_held_out(estimator)
    with temporary_folder() as folder:
        table, kind = _write_table(estimator, folder, X, observed, sample_weight, states)
        check_y(y, table.n_rows)
        yield TrainingData(DenseDataset.single(table), kind)


def _write_table(
    estimator: FieldEstimator, folder: Path, X: Any, observed: Any, sample_weight: Any, states: States
) -> tuple[Table | SparseTable, str]:
    """Return all rows of a stream as a table, and the kind of its blocks."""
    weight: Any = None
    if sample_weight is not None:
        weight = check_weights(sample_weight, np.size(sample_weight))
        weight = float(weight[0]) if np.ndim(sample_weight) == 0 else weight
    stream = open_stream(X)
    blocks = check_blocks(_blocks(stream))
    block, first = next(blocks)
    validate_data(estimator, first.native if first.kind == "array" else block, reset=True, skip_check_array=True)
    symmetric = estimator.coding == "symmetric"
    roles = ColumnRoles(column_names(first, observed), estimator._kinds(first), states or {}, weight, symmetric)
    if isinstance(stream, BinaryCSR) and not states:
        return table_from_rows(folder, stream, roles), first.kind
    on_rows_read = estimator._callbacks().on_rows_read
    spool = open_table_writer(folder, first, roles)
    try:
        for _, source in chain([(block, first)], blocks):
            spool.add(source)
            if on_rows_read is not None:
                on_rows_read(spool.n_rows)
        return spool.finish(), first.kind
    finally:
        spool.close()


@contextmanager
def _open_distributed(
    estimator: FieldEstimator, X: Any, y: Any, observed: Any, sample_weight: Any, states: States
) -> Iterator[TrainingData]:
    """Compile rows on the workers that have them, and yield them with the engine that knows where they are."""
    from sparsefield.compute.dask_cluster import RetryingClient
    from sparsefield.compute.dask_engine import DaskEngine, ShardFutures
    from sparsefield.compute.dask_ingestion import distribute_rows

    _refuse_held_out(estimator)
    with DaskEngine(estimator.engine, estimator.n_jobs) as engine:
        client = RetryingClient(engine)
        parts = open_partitions(client, X)
        check_y(y, parts.source.n_rows)
        estimator.n_features_in_ = len(parts.source.names)
        if parts.source.kind != "array":
            estimator.feature_names_in_ = np.array(parts.source.names, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        options = {
            "observed": column_names(parts.source, observed),
            "kinds": estimator._kinds(parts.source),
            "states": states,
            "symmetric": estimator.coding == "symmetric",
            "sample_weight": sample_weight,
            "sparse": estimator._accepts_sparse(),
        }
        placed = distribute_rows(client, parts, **options)
        del parts  # otherwise the rows as they came stay in memory beside the blocks made from them
        per_shard = placed.counts[0]

        def restore_shards() -> list[Any]:
            """Compile the rows again after a worker was lost."""
            known = options | {"sparse": placed.sparse, "schema": placed.schema, "blocks_per_shard": per_shard}
            restored = distribute_rows(client, X, **known)
            if (restored.counts, restored.digest) != (placed.counts, placed.digest):
                raise ClusterError("Rows were lost with a worker, and X has changed since: start the fit again.")
            return restored.shards

        dataset = DistributedDataset(
            Layout.single(placed.schema),
            ShardFutures(placed.shards, placed.counts, restore_shards),
            placed.rows_read,
            [placed.total_weight],
            placed.has_missing,
            placed.digest,
            "sparse" if placed.sparse else "dense",
        )
        yield TrainingData(dataset, placed.kind, engine)


def score_stream(estimator: FieldEstimator, X: Any, score_block: Callable[[Any], float]) -> float:
    """Return the mean over the rows of a stream of what ``score_block`` returns for its blocks."""
    check_is_fitted(estimator)
    field = estimator.field_
    stream, schema = open_stream(X), field.schema
    binary = schema if isinstance(schema, BinarySchema) and not len(field.conjunctions) else None
    if isinstance(stream, BinaryCSR) and binary and stream.names == binary.order:
        table = make_sparse_table(binary, stream.offsets, stream.columns, np.ones(stream.n_rows))
        return pseudo_log_likelihood(estimator, DenseDataset.single(table)) / table.n_rows
    total, n_rows = 0.0, 0
    for block, source in check_blocks(_blocks(stream)):
        if source.n_rows:
            total += source.n_rows * score_block(block)
            n_rows += source.n_rows
    if n_rows == 0:
        raise DataError("X has no rows: 0 sample(s) in all blocks while a minimum of 1 is required.")
    return total / n_rows


def _blocks(stream: Any) -> Any:
    return stream.blocks() if isinstance(stream, BinaryCSR) else stream
