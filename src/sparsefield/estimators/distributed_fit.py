"""This module learns from rows that are on the workers of a cluster, and stay there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from sparsefield.data import DistributedDataset, Label, Layout
from sparsefield.errors import ClusterError, DataError
from sparsefield.estimators.field_estimator import FieldEstimator
from sparsefield.estimators.training import TrainingData
from sparsefield.estimators.validation import check_y, column_names
from sparsefield.io.partitioned_tables import is_dask_collection, is_parquet_source, open_partitions
from sparsefield.solver import HeldOut

__all__ = ["is_distributed", "open_distributed_data"]


def is_distributed(estimator: FieldEstimator, X: Any) -> bool:
    """Return whether ``X`` is a Dask array or frame, or Parquet files that workers read."""
    if is_dask_collection(X) and estimator.engine is None:
        raise DataError(f"X is a {type(X).__name__} of Dask: name its cluster with engine=client, or pass X.compute().")
    return is_dask_collection(X) or (estimator.engine is not None and is_parquet_source(X))


@contextmanager
def open_distributed_data(
    estimator: FieldEstimator,
    X: Any,
    y: Any,
    observed: Any,
    sample_weight: Any,
    states: Mapping[str, Sequence[Label]] | None,
) -> Iterator[TrainingData]:
    """Compile rows on the workers that have them, and yield them with the engine that knows where they are."""
    from sparsefield.compute.dask_cluster import RetryingClient
    from sparsefield.compute.dask_engine import DaskEngine, ShardFutures
    from sparsefield.compute.dask_ingestion import distribute_rows

    if estimator.l1 == "auto" and isinstance(estimator._resolve("selection"), HeldOut):
        raise DataError(
            "l1='auto' with selection='heldout' holds rows back, for which all rows must be here. For rows on a "
            "cluster use selection='ebic', or give l1 a number."
        )
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
            "numeric": estimator._numeric(parts.source),
            "states": states,
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
