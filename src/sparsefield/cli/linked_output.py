"""This module writes imputed or sampled linked tables to a folder, or probabilities to one file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from sparsefield.cli.console import ProgressBar, StatusLine, show
from sparsefield.cli.imputation import TableToFill, fill_table, prepare_table, probability_table, refuse_unknown_states
from sparsefield.cli.table_files import PARQUET, TABLES, check_folder, check_output, resolve_separator, write_table
from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl

    from sparsefield import RelationalField
    from sparsefield.data import Relational
    from sparsefield.io.schema_file import SchemaFile, TableFile

__all__ = ["check_linked_output", "predict_linked", "prepare_tables", "refuse_overwriting_inputs", "sample_linked"]


def check_linked_output(output: Path, proba: bool) -> None:
    """Require a folder for imputed tables and a file for probabilities."""
    if proba:
        check_output(output, TABLES)
    elif output.is_file() or (output.suffix.lower() in TABLES and not output.is_dir()):
        raise DataError(f"{output}: several tables are written: give a folder, such as 'imputed'.")
    else:
        check_folder(output)


def predict_linked(field: RelationalField, parsed: SchemaFile, output: Path, proba: bool) -> None:
    """Impute the missing values of all tables, or write the probabilities of their states."""
    data = parsed.data
    paths = {} if proba else _output_files(output, parsed)
    refuse_overwriting_inputs([output, *paths.values()], parsed.inputs)
    raw = _raw(parsed)
    prepared = _prepare_all(field, parsed, raw)
    total, columns = sum(one.n_missing for one in prepared.values()), sum(len(one.missing) for one in prepared.values())
    with StatusLine(f"Imputing {total:,} missing values in {len(raw):,} linked tables"):
        known = _replace_columns(data, prepared)
        if proba:
            write_table(_probabilities(field, known, prepared), output)
        else:
            _write_all(_fill_all(field, field.transform(known), prepared, raw), output, paths, parsed)
    written = ", ".join(map(str, paths.values() or [output]))
    show(f"{total:,} missing values in {columns:,} columns of {len(raw):,} tables; wrote {written}.")


def sample_linked(field: RelationalField, parsed: SchemaFile, output: Path, *, sweeps: int, seed: int) -> None:
    """Sample the missing values of all tables with one chain over all rows."""
    paths = _output_files(output, parsed)
    refuse_overwriting_inputs(paths.values(), parsed.inputs)
    raw = _raw(parsed)
    for name, schema in zip(field.field_.layout.tables, field.field_.layout.schemas, strict=True):
        if name in raw:
            refuse_unknown_states(raw[name], schema, _markers(parsed, name), name)
    prepared = _prepare_all(field, parsed, raw)
    total = sum(one.n_missing for one in prepared.values())
    with ProgressBar(f"Sampling {total:,} missing values in {len(raw):,} linked tables") as meter:
        known = _replace_columns(parsed.data, prepared)
        drawn = field.sample(known, sweeps=sweeps, random_state=seed, progress=meter.update)
        _write_all(_fill_all(field, drawn, prepared, raw), output, paths, parsed)
    rows, written = sum(table.height for table in raw.values()), ", ".join(map(str, paths.values()))
    how = f"{rows:,} rows of {len(raw):,} tables sampled with 1 chain of {sweeps:,} sweeps"
    show(f"{total:,} missing values in {how}; wrote {written}.")


def prepare_tables(field: RelationalField, parsed: SchemaFile) -> Relational:
    """Return the data with the column types of the model."""
    return _replace_columns(parsed.data, _prepare_all(field, parsed, _raw(parsed)))


def _output_files(output: Path, parsed: SchemaFile) -> dict[str, Path]:
    return {name: _output_file(output, name, parsed.files.get(name)) for name in parsed.data.tables}


def _output_file(output: Path, name: str, file: TableFile | None) -> Path:
    """Return the output file of a table, in the format of its input file."""
    if name in (".", "..") or any(mark in name for mark in "/\\:\0"):
        raise DataError(f"Table {name!r} has a name that cannot be a file name: rename it in the schema file.")
    suffix = "" if file is None else file.path.suffix.lower()
    suffix = ".parquet" if suffix in PARQUET else ".tsv" if suffix == ".tsv" else ".csv"
    return output / f"{name}{suffix}"


def refuse_overwriting_inputs(outputs: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Refuse outputs that are also inputs."""
    existing = [path for path in inputs if path.is_file()]
    for path in outputs:
        if path.is_file() and any(path.samefile(read) for read in existing):
            raise DataError(f"{path}: this is one of the files that are read: write to another file.")


def _raw(parsed: SchemaFile) -> dict[str, pl.DataFrame]:
    """Return all original tables, with the cells of files as text."""
    files, tables = parsed.files, parsed.data.tables
    return {name: files[name].read(as_text=True) if name in files else tables[name] for name in tables}


def _markers(parsed: SchemaFile, name: str) -> list[str]:
    """Return the markers of missing values of a table."""
    file = parsed.files.get(name)
    return [] if file is None else file.reading.markers(file.path)


def _prepare_all(field: RelationalField, parsed: SchemaFile, raw: dict[str, pl.DataFrame]) -> dict[str, TableToFill]:
    """Convert each table of the model to its types."""
    layout = field.field_.layout
    prepared = {}
    for name, schema in zip(layout.tables, layout.schemas, strict=True):
        if name not in raw:
            raise DataError(f"Table {name!r} of the model does not exist in the data.")
        prepared[name] = prepare_table(raw[name], schema, _markers(parsed, name), name)
    return prepared


def _replace_columns(data: Relational, prepared: dict[str, TableToFill]) -> Relational:
    """Return the data with the converted columns; keys and links are unchanged."""
    return data.with_tables(
        {name: data.tables[name].with_columns(one.table.get_columns()) for name, one in prepared.items()}
    )


def _fill_all(
    field: RelationalField, answers: Relational, prepared: dict[str, TableToFill], raw: dict[str, pl.DataFrame]
) -> dict[str, pl.DataFrame]:
    """Return all original tables, with missing values replaced by those of ``answers``."""
    tables, states = answers.tables, field.states_
    made = {name: fill_table(raw[name], one, tables[name], states[name]) for name, one in prepared.items()}
    return {**raw, **made}


def _probabilities(field: RelationalField, data: Relational, prepared: dict[str, TableToFill]) -> pl.DataFrame:
    import polars as pl

    found = field.predict_proba(data)
    parts = [
        probability_table(one, found[name], field.states_[name]).select(pl.lit(name).alias("table"), pl.all())
        for name, one in prepared.items()
    ]
    return pl.concat(parts)


def _write_all(tables: dict[str, pl.DataFrame], output: Path, paths: dict[str, Path], parsed: SchemaFile) -> None:
    output.mkdir(exist_ok=True)
    for name, path in paths.items():
        _write(tables[name], path, parsed.files.get(name))


def _write(table: pl.DataFrame, path: Path, file: TableFile | None) -> None:
    """Write a table in the format of its input file, if it has one."""
    if file is None:
        write_table(table, path)
    else:
        separator = resolve_separator(file.path, file.reading.separator)
        write_table(table, path, separator, header=file.reading.header)
