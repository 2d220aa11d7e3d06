"""Rows with the posterior of each cell under a fitted field, with which the field is compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from sparsefield.analysis import calibration
from sparsefield.analysis.calibration import ColumnScore
from sparsefield.data import (
    Dataset,
    JoinedColumns,
    Relational,
    Schema,
    Source,
    compile_table,
)
from sparsefield.data.labels import as_numbers
from sparsefield.errors import DataError
from sparsefield.estimators import FieldEstimator, RelationalField
from sparsefield.estimators.compiled_rows import compile_densely, infer_cells, learned_source
from sparsefield.inference import CellProbabilities

MOST_CELLS = 10_000_000
"""Largest number of cells that are scored; of a larger table there are evenly spaced rows."""


@dataclass(frozen=True)
class ScoredRows:
    """Rows that are compared with a field."""

    sample: Dataset
    """The compiled rows."""
    answers: CellProbabilities
    """The posterior of each cell given all others."""
    n_rows: int
    """Number of rows of the data, over all tables; of very large tables only a part is compiled."""
    has_value: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    """{table: {column: (rows,) bool}}, without the columns of a sparse matrix, which has no missing values."""
    unknown_columns: tuple[str, ...] = ()
    """Columns of the data that the field does not have."""
    numbers: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    """{table: {numeric column: (rows,) numbers, NaN where one is missing}} of the compiled rows."""
    known_shares: bool = True
    """Whether the field has frequencies of training, with which its predictions are compared."""

    @cached_property
    def scores(self) -> list[ColumnScore]:
        """Scores of the columns, compared with frequencies."""
        return calibration.score_columns(self.sample, self.answers, known_shares=self.known_shares)


def score_rows(estimator: FieldEstimator, data: Any) -> ScoredRows:
    """Return rows with their posterior under the field; evenly spaced rows of a large table.

    ``data`` is a table, or `Relational` for a field over linked tables; the table of a `CRFClassifier` has its labels
    as columns.
    """
    check_is_fitted(estimator)
    learned = estimator.field_.record.is_learned
    if isinstance(estimator, RelationalField):
        sample = compile_densely(estimator, data)
        sources = {name: data.select_variables(name) for name in sample.layout.tables}
        has_value = {name: _has_value(source, source.names) for name, source in sources.items()}
        pairs = zip(sample.layout.tables, sample.layout.schemas, strict=True)
        numbers = {name: _numbers(sources[name], schema) for name, schema in pairs}
        cells = infer_cells(estimator, sample)
        return ScoredRows(sample, cells, sample.n_rows, has_value, numbers=numbers, known_shares=learned)
    if isinstance(data, Relational):
        raise DataError(f"The data are linked tables, but a {type(estimator).__name__} is over one table.")
    schema = estimator.field_.schema
    if schema.has_sparse_covariates:
        raise DataError("The field was learned from a sparse matrix, which has no label columns: leave the table out.")
    source = learned_source(estimator, data, "data")
    most = max(1, MOST_CELLS // max(schema.n_columns, 1))
    n_rows = source.n_rows
    if n_rows > most:
        source = learned_source(estimator, _some_rows(data, source, most), "data")
    sample = Dataset.single(compile_table(source, schema))
    unknown = tuple(name for name in source.names if name not in schema.index_of_name)
    known = [] if source.kind == "sparse" else [name for name in source.names if name in schema.index_of_name]
    has_value, numbers = {"": _has_value(source, known)}, {"": _numbers(source, schema)}
    return ScoredRows(sample, infer_cells(estimator, sample), n_rows, has_value, unknown, numbers, learned)


def _has_value(source: Source | JoinedColumns, names: Iterable[str]) -> dict[str, np.ndarray]:
    return {name: np.asarray(source.column(name).present) for name in names}


def _numbers(source: Source | JoinedColumns, schema: Schema) -> dict[str, np.ndarray]:
    """Return {numeric target: (rows,) numbers, NaN where one is missing}."""
    found = {}
    for variable in schema.described:  # plain columns are no numeric targets
        if variable.numeric and variable.role == "target":
            column = source.column(variable.name)
            found[variable.name] = np.full(source.n_rows, np.nan)
            found[variable.name][column.present] = as_numbers(column)
    return found


def _some_rows(data: Any, source: Source, most: int) -> Any:
    rows = np.unique(np.linspace(0, source.n_rows - 1, most).astype(np.int64))
    if sp.issparse(data):
        return data.tocsr()[rows]
    if source.kind == "array":
        return np.asarray(data)[rows]
    return nw.to_native(nw.from_native(data, eager_only=True)[rows.tolist()])
