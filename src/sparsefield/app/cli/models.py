"""The model of a command, and data that are read as those of its fit; bad ones are refused before long imports."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.app.cli.console import note
from sparsefield.app.cli.inputs import InputData, form_of, note_format, read_linked, read_weights
from sparsefield.app.tables.file_format import PLAIN, FileFormat, Source, source_of
from sparsefield.app.tables.read import STANDARD_INPUT, SourceTable, list_columns, read_like
from sparsefield.app.tables.write import refuse_lost_cells, refuse_overwriting_inputs
from sparsefield.errors import DataError, ModelFileError

if TYPE_CHECKING:
    import polars as pl

    from sparsefield.app.tables.fill import TableToFill
    from sparsefield.app.tables.schema_file import SchemaFile
    from sparsefield.data import Relational
    from sparsefield.model import Field


@dataclass(frozen=True)
class OpenModel:
    """A model that was read from a file; its estimator is made when it is needed, since that imports much."""

    path: Path
    field_: Field
    extra: dict[str, Any]

    @property
    def estimator(self) -> str:
        """Name of the class of the estimator."""
        return str(self.extra.get("estimator"))

    @property
    def linked(self) -> bool:
        """Whether the model is over linked tables."""
        return self.estimator == "RelationalField"

    @cached_property
    def source(self) -> Source | None:
        """How the table of the fit was read; None unless the command line read it from one file."""
        return source_of(self.field_.record.source)

    @property
    def format(self) -> FileFormat:
        """The format of the file of the fit, or the usual one."""
        return PLAIN if self.source is None else self.source.format

    def load(self, jobs: int | None = None) -> Any:
        """Return the fitted estimator."""
        from sparsefield.estimators import restore_estimator

        field = restore_estimator(self.path, self.field_, self.extra)
        field.n_jobs = jobs
        return field

    def require(self, *names: str, what: str) -> None:
        """Refuse a model of another estimator; ``what`` says what the named ones can do: "can impute one table"."""
        if self.estimator not in names:
            raise ModelFileError(f"{self.path}: holds a {self.estimator}; only a {' or a '.join(names)} {what}.")


def open_model(model: Path, *data: Path | None) -> OpenModel:
    """Read a model, and refuse data that do not exist."""
    from sparsefield.model.model_file import load_field

    opened = OpenModel(model, *load_field(model))
    for path in data:
        if path is not None and str(path) != STANDARD_INPUT and not path.exists():
            raise DataError(f"{path}: there is no such file.")
    return opened


def read_for_model(data: Path, reading: FileFormat, model: OpenModel) -> SourceTable:
    """Read a table as that of the fit was read, and print a note about the format of its file."""
    source = read_like(data, reading, model.source, model.field_.schema.input_names)
    note_format(data, source.format)
    return source


def read_to_fill(
    data: Path,
    reading: FileFormat,
    model: OpenModel,
    output: Path | None = None,
    copies: int = 1,
    *,
    known_states: bool = False,
) -> TableToFill:
    """Read a table whose missing values a model fills; refuse other values than its states if ``known_states``.

    A table is refused if an output that copies its rows so many times cannot hold it.
    """
    source, schema = read_for_model(data, reading, model), model.field_.schema
    if output is not None:
        refuse_lost_cells(source.cells, output, copies)
    from sparsefield.app.tables.fill import prepare_table, refuse_unknown_states

    if known_states:
        refuse_unknown_states(source.cells, schema, source.format)
    return prepare_table(source.cells, schema, source.format)


def read_rows(model: OpenModel, data: Path, reading: FileFormat, outputs: Sequence[Path | None] = ()) -> Any:
    """Read data with the columns and types of the model, and all other columns; refuse outputs that are inputs."""
    form, names = form_of(data), model.field_.layout.schemas[0].input_names
    if (form == "linked") != model.linked:
        what = "linked tables" if form == "linked" else "one table"
        raise ModelFileError(f"{model.path}: holds a {model.estimator}, but {data} is {what}.")
    parsed = read_linked(data, reading) if form == "linked" else None
    refuse_overwriting_inputs(outputs, [model.path, data, *(() if parsed is None else parsed.inputs)])
    if parsed is not None:
        return prepare_linked(model.field_, parsed).data
    if form == "matrix" and (model.field_.schema.is_binary or not data.is_dir()):
        from sparsefield.app.tables.matrix_files import read_matrix, read_sparse

        return read_sparse(data, columns=names)[0] if data.is_dir() else read_matrix(data)
    source, schema = read_for_model(data, reading, model), model.field_.schema
    table = source.cells
    absent = [name for name in names if name not in table.columns]
    if absent:
        raise DataError(
            f"{data}: {len(absent):,} of {len(names):,} columns of the model are not in the table, "
            f"which lacks {list_columns(absent)}."
        )
    from sparsefield.app.tables.fill import prepare_table

    others = [name for name in table.columns if name not in schema.index_of_name]
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


@dataclass(frozen=True)
class LinkedTables:
    """Linked tables that a model is applied to."""

    raw: dict[str, pl.DataFrame]
    """All original tables, with the cells of files as text."""
    prepared: dict[str, TableToFill]
    """The tables of the model, with its types."""
    data: Relational
    """All tables, with the converted columns; keys and links are unchanged."""

    @property
    def n_missing(self) -> int:
        return sum(table.n_missing for table in self.prepared.values())

    def fill(self, answers: Relational) -> dict[str, pl.DataFrame]:
        """Return all original tables, with missing values replaced by those of ``answers``."""
        tables = answers.tables
        return self.raw | {name: prepared.fill(tables[name]) for name, prepared in self.prepared.items()}


def prepare_linked(field: Field, parsed: SchemaFile, *, known_states: bool = False) -> LinkedTables:
    """Convert each table of the model to its types, and refuse other values than its states if ``known_states``."""
    from sparsefield.app.tables.fill import prepare_table, refuse_unknown_states

    sources, tables = parsed.sources, parsed.data.tables
    raw = {name: sources[name].cells if name in sources else table for name, table in tables.items()}
    prepared = {}
    for name, schema in zip(field.layout.tables, field.layout.schemas, strict=True):
        if name not in raw:
            raise DataError(f"Table {name!r} of the model does not exist in the data.")
        file_format = sources[name].format if name in sources else PLAIN
        if known_states:
            refuse_unknown_states(raw[name], schema, file_format, name)
        prepared[name] = prepare_table(raw[name], schema, file_format, name)
    converted = {name: tables[name].with_columns(part.table.get_columns()) for name, part in prepared.items()}
    return LinkedTables(raw, prepared, parsed.data.with_tables(converted))


def read_weights_for_model(data: Path, reading: FileFormat, model: OpenModel, weight: str | None = None) -> Any:
    """Return the weights of the rows: of the given column, or of that of the fit where the data have it; or None."""
    of_fit = None if model.source is None else model.source.weight
    if weight is None and (of_fit is None or form_of(data) != "table"):
        return None
    if form_of(data) != "table":
        raise DataError("--weight names a column of one table: remove it for linked tables and sparse matrices.")
    if str(data) == STANDARD_INPUT:
        raise DataError("Weights of rows need a file: standard input cannot be read a second time.")
    with warnings.catch_warnings():  # the table was read before, with the same notes
        warnings.simplefilter("ignore")
        table = read_like(data, reading, model.source, model.field_.schema.input_names).table
    name = weight or of_fit
    if name in table.columns:
        return read_weights(table, name)
    if weight is not None:
        raise DataError(f"--weight names the column {weight!r}, which does not exist; {list_columns(table.columns)}.")
    note(f"Rows are not weighted: {data} lacks the column {of_fit!r}, which had the weights of the fit.")
    return None


def remember_reading(
    field: Any,
    data: Path,
    dataset: InputData,
    top_levels: int | None,
) -> None:
    """Record in a fitted field how its one table was read; schema files describe the reading of linked tables."""
    import msgspec

    roles = dataset.named
    if roles is None:
        return
    source = Source(
        str(data),
        dataset.format,
        identifiers=tuple(roles.identifiers),
        left_out=() if dataset.book is None else dataset.book.left_out,
        weight=roles.weight,
        group=roles.group,
        top_levels=top_levels,
    )
    record = msgspec.structs.replace(field.field_.record, source=source.as_text())
    field.field_ = replace(field.field_, record=record)
