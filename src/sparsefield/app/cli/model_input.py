"""The model of a command, and tables that are read as that of its fit was; bad ones are refused before long imports."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.app.cli.console import note
from sparsefield.app.cli.input_data import InputData, note_format
from sparsefield.app.cli.table_checks import read_weights
from sparsefield.app.cli.table_files import find_columns
from sparsefield.app.tables.read import STANDARD_INPUT, SourceTable, read_like
from sparsefield.app.tables.read_options import FileFormat, ReadOptions, Source, source_of
from sparsefield.errors import DataError, ModelFileError

if TYPE_CHECKING:
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
        return FileFormat() if self.source is None else self.source.format

    def load(self, jobs: int | None = None) -> Any:
        """Return the fitted estimator."""
        from sparsefield.estimators import restore_estimator

        field = restore_estimator(self.path, self.field_, self.extra)
        field.n_jobs = jobs
        return field


def open_model(model: Path, *data: Path | None) -> OpenModel:
    """Read a model, and refuse data that do not exist."""
    from sparsefield.model.model_file import load_field

    opened = OpenModel(model, *load_field(model))
    check_inputs(data)
    return opened


def check_inputs(data: tuple[Path | None, ...]) -> None:
    """Refuse data that do not exist."""
    for path in data:
        if path is not None and str(path) != STANDARD_INPUT and not path.exists():
            raise DataError(f"{path}: there is no such file.")


def require_estimator(model: OpenModel, *names: str, what: str) -> None:
    """Refuse a model of another estimator; ``what`` says what the named ones can do, as in "can impute one table"."""
    if model.estimator not in names:
        raise ModelFileError(f"{model.path}: holds a {model.estimator}; only a {' or a '.join(names)} {what}.")


def read_for_model(data: Path, reading: ReadOptions, model: OpenModel) -> SourceTable:
    """Read a table as that of the fit was read, and print a note about the format of its file."""
    source = read_like(data, reading, model.source, model.field_.schema.input_names)
    note_format(data, source.format)
    return source


def read_weights_for_model(data: Path, reading: ReadOptions, model: OpenModel, weight: str | None = None) -> Any:
    """Return the weights of the rows: of the given column, or of that of the fit where the data have it; or None."""
    of_fit = None if model.source is None else model.source.weight
    if weight is None and of_fit is None:
        return None
    with warnings.catch_warnings():  # the table was read before, with the same notes
        warnings.simplefilter("ignore")
        table = read_like(data, reading, model.source, model.field_.schema.input_names).table
    if weight is not None:
        return read_weights(table, find_columns([weight], table.columns, "--weight")[0])
    if of_fit not in table.columns:
        note(f"Rows are not weighted: {data} lacks the column {of_fit!r}, which had the weights of the fit.")
        return None
    return read_weights(table, of_fit)


def remember_reading(
    field: Any,
    data: Path,
    reading: ReadOptions,
    given: InputData,
    top_levels: int | None,
    column_names: Path | None = None,
) -> None:
    """Record in a fitted field how its one table was read; schema files describe the reading of linked tables."""
    import msgspec

    roles = given.named
    if roles is None:
        return
    source = Source(
        str(data),
        reading,
        given.format,
        identifiers=tuple(roles.identifiers),
        left_out=() if given.book is None else given.book.left_out,
        weight=roles.weight,
        group=roles.group,
        top_levels=top_levels,
        columns=None if column_names is None else str(column_names),
    )
    record = msgspec.structs.replace(field.field_.record, source=source.as_text())
    field.field_ = replace(field.field_, record=record)
