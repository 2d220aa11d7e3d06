"""Rows for commands that compare them with a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparsefield.app.cli.input_data import is_linked, is_matrix, read_linked
from sparsefield.app.cli.linked_output import prepare_linked
from sparsefield.app.cli.model_input import OpenModel, read_for_model
from sparsefield.app.tables.read import list_columns
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.errors import DataError, ModelFileError


def read_rows(model: OpenModel, data: Path, reading: ReadOptions) -> Any:
    """Read the data with the columns and types of the model."""
    if is_linked(data) != model.linked:
        what = "linked tables" if is_linked(data) else "one table"
        raise ModelFileError(f"{model.path}: holds a {model.estimator}, but {data} is {what}.")
    if is_linked(data):
        return prepare_linked(model, read_linked(data, reading)).data
    if is_matrix(data):
        from sparsefield.app.tables.matrix_files import read_matrix

        return read_matrix(data)
    source, schema = read_for_model(data, reading, model), model.field_.schema
    table = source.cells
    absent = [name for name in schema.input_names if name not in table.columns]
    if absent:
        raise DataError(
            f"{data}: {len(absent):,} of {len(schema.input_names):,} columns of the model are not in the table, "
            f"which lacks {list_columns(absent)}."
        )
    others = [name for name in table.columns if name not in schema.index_of_name]
    from sparsefield.app.tables.fill import prepare_table

    return prepare_table(table, schema, source.format).table.with_columns(table.select(others))


def model_parts(field: Any, rows: Any) -> tuple[Any, Any]:
    """Return X and the labels of a classifier, both without columns that the model does not have."""
    from sparsefield import CRFClassifier, RelationalField

    if isinstance(field, RelationalField) or not hasattr(rows, "select"):
        return rows, None
    schema = field.field_.schema
    if not isinstance(field, CRFClassifier):
        return rows.select(schema.input_names), None
    labels = [variable.name for variable in schema.targets]
    return rows.select([name for name in schema.input_names if name not in labels]), rows.select(labels)
