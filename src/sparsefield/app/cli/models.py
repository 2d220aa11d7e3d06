"""The model of a command, and data that are read as those of its fit; bad ones are refused before long imports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.app.cli.console import note
from sparsefield.app.cli.inputs import (
    form_of,
    has_linked_tables,
    note_format,
    read_linked,
    read_weights,
)
from sparsefield.app.tables.file_format import PLAIN, FileFormat, Source, source_of
from sparsefield.app.tables.places import system_of
from sparsefield.app.tables.read import PARQUET, STANDARD_INPUT, list_columns, read_like
from sparsefield.app.tables.write import refuse_overwriting_inputs, write_table
from sparsefield.errors import DataError, ModelFileError, count

if TYPE_CHECKING:
    import polars as pl

    from sparsefield.app.tables.fill import TableToFill
    from sparsefield.app.tables.schema_file import SchemaFile
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

    def form_of(self, data: Path) -> str:
        """Return what a path names for this model: a SQLite file has one table, or linked ones."""
        form = form_of(data)
        return "linked" if form == "table" and self.linked and has_linked_tables(data) else form

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
        if path is not None and str(path) != STANDARD_INPUT and not path.exists() and system_of(path) is None:
            raise DataError(f"{path}: there is no such file.")
    return opened


@dataclass(frozen=True)
class ModelTables:
    """Tables that a model is applied to: linked ones, or one, whose name is empty."""

    model: OpenModel
    path: Path
    prepared: dict[str, TableToFill]
    """The tables of the model, with its types."""
    data: Any
    """The columns of the model as a frame; or all linked tables, with converted columns, keys and links unchanged."""
    parsed: SchemaFile | None = None
    """The schema file of linked tables."""
    read: pl.DataFrame | None = None
    """One table with all its columns, as it was read."""

    @property
    def n_missing(self) -> int:
        return sum(table.n_missing for table in self.prepared.values())

    @property
    def inputs(self) -> tuple[Path, ...]:
        return (self.path,) if self.parsed is None else self.parsed.inputs

    def describe(self) -> str:
        """Return the number of missing values, and where they are."""
        columns = count(sum(len(table.missing) for table in self.prepared.values()), "column")
        if self.parsed is None:
            where = f"{columns} and {count(self.prepared[''].cells.height, 'row')}"
        else:
            where = f"{columns} of {count(len(self.parsed.data.tables), 'linked table')}"
        return f"{count(self.n_missing, 'missing value')} in {where}"

    def outputs(self, output: Path) -> dict[str, Path]:
        """Return the file of each table: that of linked tables in a folder, in the format of its input file."""
        parsed, paths = self.parsed, {} if self.parsed is not None else {"": output}
        for name in () if parsed is None else parsed.data.tables:
            if name in (".", "..") or any(mark in name for mark in "/\\:\0"):
                raise DataError(f"Table {name!r} has a name that cannot be a file name: rename it in the schema file.")
            suffix = parsed.files[name].suffix.lower() if parsed and name in parsed.files else ""
            suffix = ".parquet" if suffix in PARQUET else ".tsv" if suffix == ".tsv" else ".csv"
            paths[name] = output / f"{name}{suffix}"
        refuse_overwriting_inputs(dict.fromkeys([output, *paths.values()]), [self.model.path, *self.inputs])
        return paths

    def write(self, answers: Any, outputs: dict[str, Path]) -> None:
        """Write all tables with missing values replaced by those of ``answers``; other cells are unchanged."""
        answer_of = {"": answers} if self.parsed is None else answers.tables
        for name, path in outputs.items():
            if name in self.prepared:
                table, file_format = self.prepared[name], self.prepared[name].format
                filled = table.fill(answer_of[name], self.model.format.date_formats)
            elif self.parsed is not None:
                source = self.parsed.sources.get(name)
                filled = self.parsed.data.tables[name] if source is None else source.cells
                file_format = None if source is None else source.format
            path.parent.mkdir(exist_ok=True)
            write_table(filled, path, file_format)

    def weights(self, weight: str | None = None) -> Any:
        """Return the weights of rows: of the named column, or of that of the fit where the data have it; or None."""
        name = weight or (None if self.model.source is None else self.model.source.weight)
        if name is None or (self.read is None and weight is None):
            return None
        if self.read is None:
            raise DataError("--weight names a column of one table: remove it for linked tables and sparse matrices.")
        if name in self.read.columns:
            return read_weights(self.read, name)
        if weight is not None:
            columns = list_columns(self.read.columns)
            raise DataError(f"--weight names the column {weight!r}, which does not exist; {columns}.")
        note(f"Rows are not weighted: {self.path} lacks the column {name!r}, which had the weights of the fit.")
        return None


def read_tables(
    model: OpenModel, data: Path, reading: FileFormat, *, complete: bool = False, known_states: bool = False
) -> ModelTables:
    """Read one table as that of the fit was read, or linked tables, and convert them to the types of the model.

    Columns that a table lacks are missing, or refused if it should be ``complete``; with ``known_states``, values that
    the model does not know are refused.
    """
    form, linked = model.form_of(data), model.linked
    if form == "matrix" and not data.is_dir():
        raise DataError(f"{data}: a sparse matrix has no missing values to impute: pass one table with missing values.")
    if linked != (form == "linked"):
        what, other = "one table, such as a CSV or Parquet file", "linked tables"
        if linked:
            what, other = "linked tables, by their TOML file, its folder or a database", "one table"
        raise ModelFileError(f"{model.path}: holds a {model.estimator}, but {data} is {other}: pass {what}.")
    schemas = dict(zip(model.field_.layout.tables, model.field_.layout.schemas, strict=True))
    if linked:
        parsed, source = read_linked(data, reading), None
        sources = parsed.sources
        cells = {n: sources[n].cells if n in sources else table for n, table in parsed.data.tables.items()}
        formats = {name: sources[name].format if name in sources else PLAIN for name in cells}
    else:
        parsed, source = None, read_like(data, reading, model.source, schemas[""].input_names)
        note_format(data, source.format)
        cells, formats = {"": source.cells}, {"": source.format}
        absent = [name for name in schemas[""].input_names if name not in source.cells.columns]
        if complete and absent:
            raise DataError(
                f"{data}: {len(absent):,} of {len(schemas[''].input_names):,} columns of the model are not in the "
                f"table, which lacks {list_columns(absent)}."
            )
    from sparsefield.app.tables.fill import prepare_table

    prepared = {}
    for name, schema in schemas.items():
        if name not in cells:
            raise DataError(f"Table {name!r} of the model does not exist in the data.")
        prepared[name] = prepare_table(cells[name], schema, formats[name], name, known_states=known_states)
    if parsed is None:
        return ModelTables(model, data, prepared, prepared[""].table, read=None if source is None else source.table)
    tables = parsed.data.tables
    converted = {name: tables[name].with_columns(part.table.get_columns()) for name, part in prepared.items()}
    return ModelTables(model, data, prepared, parsed.data.with_tables(converted), parsed)


def read_rows(model: OpenModel, data: Path, reading: FileFormat, outputs: Sequence[Path | None] = ()) -> ModelTables:
    """Read data with the columns and types of the model, and all other columns; refuse outputs that are inputs."""
    refuse_overwriting_inputs(outputs, [model.path, data])
    single = not model.linked
    if form_of(data) == "matrix" and single and (model.field_.schema.is_binary or not data.is_dir()):
        from sparsefield.app.tables.matrix_files import read_matrix, read_sparse

        names = model.field_.layout.schemas[0].input_names
        rows = read_sparse(data, columns=names)[0] if data.is_dir() else read_matrix(data)
        return ModelTables(model, data, {}, rows)
    tables = read_tables(model, data, reading, complete=True)
    refuse_overwriting_inputs(outputs, tables.inputs)
    if model.linked:
        return tables
    cells, known = tables.prepared[""].cells, model.field_.schema.index_of_name
    others = [name for name in cells.columns if name not in known]
    return replace(tables, data=tables.data.with_columns(cells.select(others)))


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


def remember_source(field: Any, source: Source) -> None:
    """Record in a fitted field how its table was read, by which command, and how well it predicts held-out cells."""
    import msgspec

    field.field_ = replace(field.field_, record=msgspec.structs.replace(field.field_.record, source=source.as_text()))
