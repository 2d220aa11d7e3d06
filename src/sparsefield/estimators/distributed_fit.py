"""Learning from rows that lie on the workers of a cluster, and never come here."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsefield.data import DistributedDataset, Layout
from sparsefield.errors import ClusterError, DataError
from sparsefield.estimators.streamed_fit import StreamedEstimator
from sparsefield.estimators.validation import check_y, column_names
from sparsefield.io.partitioned_tables import is_collection, is_parquet_source, open_parts

__all__ = ["PlacedEstimator"]


class PlacedEstimator(StreamedEstimator):
    """An estimator whose rows may be those of a Dask array or frame, or of Parquet files that workers read."""

    def _is_placed(self, X: Any) -> bool:
        if is_collection(X) and self.engine is None:
            raise DataError(
                f"X is a {type(X).__name__} of Dask: say where its workers are with engine=client, or pass X.compute()."
            )
        return is_collection(X) or (self.engine is not None and is_parquet_source(X))

    def _fit_placed(self, X: Any, y: Any, observed: Any, sample_weight: Any, states: Any) -> Any:
        from sparsefield.compute.dask_engine import DaskEngine, RetryingClient, Shards
        from sparsefield.compute.dask_ingestion import place_rows

        if self.l1 == "auto" and self.selection == "heldout":
            raise DataError(
                "l1='auto' with selection='heldout' holds rows back, for which all rows must be here. For rows on a "
                "cluster take selection='ebic', or give l1 a number."
            )
        with DaskEngine(self.engine, self.n_jobs) as cluster:
            patient = RetryingClient(cluster)
            parts = open_parts(patient, X)
            check_y(y, parts.source.n_rows)
            self.n_features_in_ = len(parts.source.names)
            if parts.source.kind != "array":
                self.feature_names_in_ = np.array(parts.source.names, dtype=object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            asked = {
                "observed": column_names(parts.source, observed),
                "numeric": self._numeric(parts.source),
                "states": states,
                "sample_weight": sample_weight,
                "sparse": self._takes_sparse(),
            }
            placed = place_rows(patient, parts, **asked)
            del parts  # which would keep the rows as they came beside the blocks made of them
            per_shard = placed.counts[0]

            def again() -> list[Any]:
                told = asked | {"sparse": placed.sparse, "schema": placed.schema, "blocks_per_shard": per_shard}
                made = place_rows(patient, X, **told)
                if (made.counts, made.digest) != (placed.counts, placed.digest):
                    raise ClusterError("Rows were lost with a worker, and X has others by now: start the fit again.")
                return made.shards

            sample = DistributedDataset(
                Layout.single(placed.schema),
                Shards(placed.shards, placed.counts, again),
                placed.rows_read,
                [placed.total_weight],
                placed.has_missing,
                placed.digest,
                "sparse" if placed.sparse else "dense",
            )
            self._learn(sample, placed.kind, place=cluster)
        return self
