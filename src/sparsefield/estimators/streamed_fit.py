"""This module learns from blocks of rows of which only a few are in memory at a time, and scores such blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsefield.data import BinarySchema, DenseDataset, Label, SparseTable
from sparsefield.data.disk_arrays import BinaryCSR, temporary_folder
from sparsefield.data.sparse_table import make_sparse_table
from sparsefield.errors import DataError
from sparsefield.estimators.field_estimator import FieldEstimator
from sparsefield.estimators.training import TrainingData
from sparsefield.estimators.validation import check_weights, check_y, column_names
from sparsefield.io.out_of_core import ColumnRoles, check_blocks, open_table_writer, table_from_rows
from sparsefield.io.row_blocks import open_stream
from sparsefield.solver import HeldOut

__all__ = ["open_streamed_data", "score_stream"]


@contextmanager
def open_streamed_data(
    estimator: FieldEstimator,
    X: Any,
    y: Any,
    observed: Any,
    sample_weight: Any,
    states: Mapping[str, Sequence[Label]] | None,
) -> Iterator[TrainingData]:
    """Write the rows of a stream to a temporary folder and yield them as a table on disk."""
    if not estimator._accepts_sparse():
        order, rule = estimator._resolve("max_order").max_order, estimator._resolve("induction")
        option = f"objective={estimator.objective!r}" if estimator.objective != "pl" else f"induction={rule.name!r}"
        option = f"max_order={order}" if order > 2 else option
        raise DataError(
            f"{option} needs all rows in memory. Blocks of rows are learned with objective='pl', max_order=2 and "
            "induction='cfi', 'grafting', 'full' or a FixedGraph."
        )
    if estimator.l1 == "auto" and isinstance(estimator._resolve("selection"), HeldOut):
        raise DataError(
            "l1='auto' with selection='heldout' holds rows back, for which all rows must be in memory. For blocks "
            "of rows use selection='ebic', or give l1 a number."
        )
    with temporary_folder() as folder:
        table, kind = _write_table(estimator, folder, X, observed, sample_weight, states)
        check_y(y, table.n_rows)
        yield TrainingData(DenseDataset.single(table), kind)


def _write_table(
    estimator: FieldEstimator, folder: Path, X: Any, observed: Any, sample_weight: Any, states: Any
) -> tuple[SparseTable, str]:
    """Return all rows of a stream as a table on disk, and the kind of its blocks."""
    weight: Any = None
    if sample_weight is not None:
        weight = check_weights(sample_weight, np.size(sample_weight))
        weight = float(weight[0]) if np.ndim(sample_weight) == 0 else weight
    stream = open_stream(X)
    blocks = check_blocks(_blocks(stream))
    block, first = next(blocks)
    validate_data(estimator, first.native if first.kind == "array" else block, reset=True, skip_check_array=True)
    roles = ColumnRoles(column_names(first, observed), estimator._numeric(first), states or {}, weight)
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


def score_stream(estimator: FieldEstimator, X: Any, score_block: Callable[[Any], float]) -> float:
    """Return the mean over the rows of a stream of what ``score_block`` returns for its blocks."""
    check_is_fitted(estimator)
    field = estimator.field_
    stream, schema = open_stream(X), field.schema
    binary = schema if isinstance(schema, BinarySchema) and not len(field.conjunctions) else None
    if isinstance(stream, BinaryCSR) and binary and stream.names == binary.order:
        table = make_sparse_table(binary, stream.offsets, stream.columns, np.ones(stream.n_rows))
        return estimator._log_likelihood(DenseDataset.single(table)) / table.n_rows
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
