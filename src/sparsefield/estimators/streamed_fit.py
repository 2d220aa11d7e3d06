"""Learning from, and scoring, blocks of rows of which only a few are in memory at a time."""

from __future__ import annotations

import sys
from abc import abstractmethod
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsefield.data import BinarySchema, DenseDataset, SparseTable
from sparsefield.data.disk_arrays import BinaryCSR, temporary_folder
from sparsefield.data.sparse_table import make_sparse_table
from sparsefield.errors import DataError
from sparsefield.estimators.field_estimator import FieldEstimator
from sparsefield.estimators.validation import check_weights, check_y, column_names
from sparsefield.io.out_of_core import ColumnRoles, check_blocks, open_table_writer, table_from_rows
from sparsefield.io.row_blocks import open_stream

__all__ = ["StreamedEstimator"]


class StreamedEstimator(FieldEstimator):
    """An estimator whose rows may come as a stream."""

    @abstractmethod
    def score(self, X: Any, y: Any = None) -> float: ...

    def _fit_stream(self, X: Any, y: Any, observed: Any, sample_weight: Any, states: Any) -> Any:
        """Learn from blocks of rows, of which only a few are in memory at a time."""
        if not self._takes_sparse():
            what = f"objective={self.objective!r}" if self.objective != "pl" else f"induction={self.induction!r}"
            what = f"max_order={self.max_order}" if self.max_order > 2 else what
            raise DataError(
                f"{what} needs all rows in memory. Blocks of rows are learned with objective='pl', max_order=2 and "
                "induction='cfi', 'grafting', 'full' or 'graph'."
            )
        if self.l1 == "auto" and self.selection == "heldout":
            raise DataError(
                "l1='auto' with selection='heldout' holds rows back, for which all rows must be in memory. For blocks "
                "of rows take selection='ebic', or give l1 a number."
            )
        with temporary_folder() as folder:
            table, kind = self._spool(folder, X, observed, sample_weight, states)
            check_y(y, table.n_rows)
            self._learn(DenseDataset.single(table), kind)
        return self

    def _spool(self, folder: Path, X: Any, observed: Any, sample_weight: Any, states: Any) -> tuple[SparseTable, str]:
        """All rows of a stream as a table on disk, and the kind of its blocks."""
        weight: Any = None
        if sample_weight is not None:
            weight = check_weights(sample_weight, np.size(sample_weight))
            weight = float(weight[0]) if np.ndim(sample_weight) == 0 else weight
        stream = open_stream(X)
        blocks = check_blocks(_blocks(stream))
        block, first = next(blocks)
        validate_data(self, first.native if first.kind == "array" else block, reset=True, skip_check_array=True)
        roles = ColumnRoles(column_names(first, observed), self._numeric(first), states or {}, weight)
        if isinstance(stream, BinaryCSR) and not states:
            return table_from_rows(folder, stream, roles), first.kind
        spool = open_table_writer(folder, first, roles)
        try:
            for _, source in chain([(block, first)], blocks):
                spool.add(source)
                self._tell_of_reading(spool.n_rows)
            return spool.finish(), first.kind
        finally:
            spool.close()

    def _tell_of_reading(self, n_rows: int) -> None:
        """Say how many rows of a stream are read, to whoever listens."""
        hearer = getattr(self, "_reading", None)
        if hearer is not None:
            hearer(n_rows)
        elif self.verbose:
            print(f"{n_rows:,} rows read", file=sys.stderr)

    def _score_stream(self, X: Any) -> float:
        check_is_fitted(self)
        total, n_rows, schema = 0.0, 0, self.field_.schema
        stream, pairs_alone = open_stream(X), not len(self.field_.conjunctions)
        switches = schema if isinstance(schema, BinarySchema) and pairs_alone else None
        if isinstance(stream, BinaryCSR) and switches and stream.names == switches.order:
            table = make_sparse_table(switches, stream.offsets, stream.columns, np.ones(stream.n_rows))
            return self._log_likelihood(DenseDataset.single(table)) / table.n_rows
        for block, source in check_blocks(_blocks(stream)):
            if source.n_rows:
                total += source.n_rows * self.score(block)
                n_rows += source.n_rows
        if n_rows == 0:
            raise DataError("X has no rows: 0 sample(s) in all blocks while a minimum of 1 is required.")
        return total / n_rows


def _blocks(stream: Any) -> Any:
    return stream.blocks() if isinstance(stream, BinaryCSR) else stream
