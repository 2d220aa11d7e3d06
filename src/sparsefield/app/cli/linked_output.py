"""Linked tables imputed or sampled, and written to a folder, or their probabilities to one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.app.cli.console import ProgressBar, StatusLine, show
from sparsefield.app.cli.table_files import check_folder, check_table_output, show_written
from sparsefield.app.tables.read import PARQUET
from sparsefield.app.tables.read_options import FileFormat
from sparsefield.app.tables.write import find_output_format, refuse_overwriting_inputs, write_table
from sparsefield.errors import DataError
from sparsefield.text import count

if TYPE_CHECKING:
    import polars as pl

    from sparsefield import RelationalField
    from sparsefield.app.cli.model_input import OpenModel
    from sparsefield.app.tables.fill import TableToFill
    from sparsefield.app.tables.schema_file import SchemaFile, TableFile
    from sparsefield.data import Relational


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
        return sum(one.n_missing for one in self.prepared.values())

    def fill(self, answers: Relational) -> dict[str, pl.DataFrame]:
        """Return all original tables, with missing values replaced by those of ``answers``."""
        tables = answers.tables
        return self.raw | {name: prepared.fill(tables[name]) for name, prepared in self.prepared.items()}


def prepare_linked(
    field: RelationalField | OpenModel, parsed: SchemaFile, *, known_states: bool = False
) -> LinkedTables:
    """Convert each table of the model to its types, and refuse other values than its states if ``known_states``."""
    from sparsefield.app.tables.fill import prepare_table, refuse_unknown_states

    files, tables, layout = parsed.files, parsed.data.tables, field.field_.layout
    raw = {name: files[name].read(as_text=True) if name in files else tables[name] for name in tables}
    prepared = {}
    for name, schema in zip(layout.tables, layout.schemas, strict=True):
        if name not in raw:
            raise DataError(f"Table {name!r} of the model does not exist in the data.")
        found = parsed.formats.get(name, FileFormat())
        if known_states:
            refuse_unknown_states(raw[name], schema, found, name)
        prepared[name] = prepare_table(raw[name], schema, found, name)
    converted = {name: tables[name].with_columns(one.table.get_columns()) for name, one in prepared.items()}
    return LinkedTables(raw, prepared, parsed.data.with_tables(converted))


def check_linked_output(output: Path, proba: bool) -> None:
    """Require a folder for imputed tables and a file for probabilities."""
    if proba:
        check_table_output(output)
    elif output.is_file() or (find_output_format(output) is not None and not output.is_dir()):
        raise DataError(f"{output}: several tables are written: give a folder, such as 'imputed'.")
    else:
        check_folder(output)


def predict_linked(
    field: RelationalField, model: Path, parsed: SchemaFile, output: Path, proba: bool, fill: Any
) -> None:
    """Impute the missing values of all tables, or write the probabilities of their states."""
    paths = {} if proba else _output_files(output, parsed)
    refuse_overwriting_inputs([output, *paths.values()], [model, *parsed.inputs])
    given = prepare_linked(field, parsed)
    columns = sum(len(one.missing) for one in given.prepared.values())
    with StatusLine(f"Imputing {_cells_of_tables(given)}"):
        if proba:
            write_table(_probabilities(field, given), output)
        else:
            _write_all(given.fill(field.transform(given.data, fill=fill)), paths, parsed)
    missing, tables = count(given.n_missing, "missing value"), count(len(given.raw), "table")
    line = f"{missing} in {count(columns, 'column')} of {tables}"
    if proba:
        show_written(line, output)
    else:
        show(f"{line}; wrote {', '.join(map(str, paths.values()))}.")


def sample_linked(
    field: RelationalField, model: Path, parsed: SchemaFile, output: Path, *, sweeps: int, seed: int
) -> None:
    """Sample the missing values of all tables with one chain over all rows."""
    paths = _output_files(output, parsed)
    refuse_overwriting_inputs(paths.values(), [model, *parsed.inputs])
    given = prepare_linked(field, parsed, known_states=True)
    with ProgressBar(f"Sampling {_cells_of_tables(given)}") as meter:
        drawn = field.sample(given.data, sweeps=sweeps, random_state=seed, progress=meter.show_progress)
        _write_all(given.fill(drawn), paths, parsed)
    rows, written = sum(table.height for table in given.raw.values()), ", ".join(map(str, paths.values()))
    how = f"{count(rows, 'row')} of {count(len(given.raw), 'table')} sampled with 1 chain of {count(sweeps, 'sweep')}"
    show(f"{count(given.n_missing, 'missing value')} in {how}; wrote {written}.")


def _cells_of_tables(given: LinkedTables) -> str:
    return f"{count(given.n_missing, 'missing value')} in {count(len(given.raw), 'linked table')}"


def _output_files(output: Path, parsed: SchemaFile) -> dict[str, Path]:
    return {name: _output_file(output, name, parsed.files.get(name)) for name in parsed.data.tables}


def _output_file(output: Path, name: str, file: TableFile | None) -> Path:
    """Return the output file of a table, in the format of its input file."""
    if name in (".", "..") or any(mark in name for mark in "/\\:\0"):
        raise DataError(f"Table {name!r} has a name that cannot be a file name: rename it in the schema file.")
    suffix = "" if file is None else file.path.suffix.lower()
    suffix = ".parquet" if suffix in PARQUET else ".tsv" if suffix == ".tsv" else ".csv"
    return output / f"{name}{suffix}"


def _probabilities(field: RelationalField, given: LinkedTables) -> pl.DataFrame:
    import polars as pl

    from sparsefield.app.pages.cell_beliefs import cell_beliefs
    from sparsefield.app.tables.fill import probability_table

    beliefs = cell_beliefs(field, given.data).values
    tables = {
        name: probability_table(prepared, group_beliefs(prepared, beliefs[name]))
        for name, prepared in given.prepared.items()
    }
    return pl.concat(table.select(pl.lit(name).alias("table"), pl.all()) for name, table in tables.items())


def group_beliefs(prepared: TableToFill, beliefs: Mapping[str, Any]) -> dict[str, Any]:
    """Return {column: (states or bins, their probabilities)} of the columns of a table with missing values."""
    from sparsefield.app.pages.cell_beliefs import group_states

    return {v.name: group_states(v, beliefs[v.name]) for v in prepared.schema.targets if v.name in prepared.missing}


def _write_all(tables: dict[str, pl.DataFrame], paths: dict[str, Path], parsed: SchemaFile) -> None:
    """Write each table in the format of its input file, if it has one."""
    for name, path in paths.items():
        path.parent.mkdir(exist_ok=True)
        write_table(tables[name], path, parsed.formats.get(name))
