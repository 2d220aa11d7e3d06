"""Answers about linked tables: filled or drawn tables into a folder, or probabilities into one file."""

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
    """Filled tables go into a folder, probabilities into a file."""
    if proba:
        check_output(output, TABLES)
    elif output.is_file() or (output.suffix.lower() in TABLES and not output.is_dir()):
        raise DataError(f"{output}: several tables are written; name a folder, such as 'filled'.")
    else:
        check_folder(output)


def predict_linked(field: RelationalField, described: SchemaFile, output: Path, proba: bool) -> None:
    """Fill the gaps of all tables, or write the probabilities of their states."""
    data = described.data
    paths = {} if proba else _places(output, described)
    refuse_overwriting_inputs([output, *paths.values()], described.inputs)
    raw = _raw(described)
    asked = _asked(field, described, raw)
    total, columns = sum(one.n_missing for one in asked.values()), sum(len(one.missing) for one in asked.values())
    with StatusLine(f"Filling {total:,} gaps in {len(raw):,} linked tables"):
        known = _as_known(data, asked)
        if proba:
            write_table(_probabilities(field, known, asked), output)
        else:
            _write_all(_filled(field, field.transform(known), asked, raw), output, paths, described)
    written = ", ".join(map(str, paths.values() or [output]))
    show(f"{total:,} gaps in {columns:,} columns of {len(raw):,} tables; wrote {written}.")


def sample_linked(field: RelationalField, described: SchemaFile, output: Path, *, sweeps: int, seed: int) -> None:
    """Draw the gaps of all tables by one chain over all rows."""
    paths = _places(output, described)
    refuse_overwriting_inputs(paths.values(), described.inputs)
    raw = _raw(described)
    for name, schema in zip(field.field_.layout.tables, field.field_.layout.schemas, strict=True):
        if name in raw:
            refuse_unknown_states(raw[name], schema, _markers(described, name), name)
    asked = _asked(field, described, raw)
    total = sum(one.n_missing for one in asked.values())
    with ProgressBar(f"Drawing {total:,} gaps in {len(raw):,} linked tables") as meter:
        known = _as_known(described.data, asked)
        drawn = field.sample(known, sweeps=sweeps, random_state=seed, progress=meter.update)
        _write_all(_filled(field, drawn, asked, raw), output, paths, described)
    rows, written = sum(table.height for table in raw.values()), ", ".join(map(str, paths.values()))
    how = f"{rows:,} rows of {len(raw):,} tables drawn by 1 chain of {sweeps:,} sweeps"
    show(f"{total:,} gaps in {how}; wrote {written}.")


def prepare_tables(field: RelationalField, described: SchemaFile) -> Relational:
    """The data as the model sees them."""
    return _as_known(described.data, _asked(field, described, _raw(described)))


def _places(output: Path, described: SchemaFile) -> dict[str, Path]:
    return {name: _place(output, name, described.files.get(name)) for name in described.data.tables}


def _place(output: Path, name: str, file: TableFile | None) -> Path:
    """The file that a table is written to, of the kind that it was read from."""
    if name in (".", "..") or any(mark in name for mark in "/\\:\0"):
        raise DataError(f"Table {name!r} cannot be written to a file of its name: rename it in the schema file.")
    suffix = "" if file is None else file.path.suffix.lower()
    suffix = ".parquet" if suffix in PARQUET else ".tsv" if suffix == ".tsv" else ".csv"
    return output / f"{name}{suffix}"


def refuse_overwriting_inputs(outputs: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Refuse to write over what was read."""
    there = [path for path in inputs if path.is_file()]
    for path in outputs:
        if path.is_file() and any(path.samefile(read) for read in there):
            raise DataError(f"{path}: this is one of the files that are read; write to another place.")


def _raw(described: SchemaFile) -> dict[str, pl.DataFrame]:
    """All tables as they came, the cells of files as text."""
    files, tables = described.files, described.data.tables
    return {name: files[name].read(as_text=True) if name in files else tables[name] for name in tables}


def _markers(described: SchemaFile, name: str) -> list[str]:
    """Words that stand for a gap in a table."""
    file = described.files.get(name)
    return [] if file is None else file.reading.markers(file.path)


def _asked(field: RelationalField, described: SchemaFile, raw: dict[str, pl.DataFrame]) -> dict[str, TableToFill]:
    """What the model sees of each table that it knows."""
    layout = field.field_.layout
    asked = {}
    for name, schema in zip(layout.tables, layout.schemas, strict=True):
        if name not in raw:
            raise DataError(f"Table {name!r}, which the field was learned with, is not there.")
        asked[name] = prepare_table(raw[name], schema, _markers(described, name), name)
    return asked


def _as_known(data: Relational, asked: dict[str, TableToFill]) -> Relational:
    """The data with columns of the types that the model knows; keys and links stay as they are."""
    return data.with_tables(
        {name: data.tables[name].with_columns(one.table.get_columns()) for name, one in asked.items()}
    )


def _filled(
    field: RelationalField, answers: Relational, asked: dict[str, TableToFill], raw: dict[str, pl.DataFrame]
) -> dict[str, pl.DataFrame]:
    """All tables as they came, with their gaps filled from those of the answers."""
    tables, states = answers.tables, field.states_
    made = {name: fill_table(raw[name], one, tables[name], states[name]) for name, one in asked.items()}
    return {**raw, **made}


def _probabilities(field: RelationalField, data: Relational, asked: dict[str, TableToFill]) -> pl.DataFrame:
    import polars as pl

    found = field.predict_proba(data)
    parts = [
        probability_table(one, found[name], field.states_[name]).select(pl.lit(name).alias("table"), pl.all())
        for name, one in asked.items()
    ]
    return pl.concat(parts)


def _write_all(tables: dict[str, pl.DataFrame], output: Path, paths: dict[str, Path], described: SchemaFile) -> None:
    output.mkdir(exist_ok=True)
    for name, path in paths.items():
        _write(tables[name], path, described.files.get(name))


def _write(table: pl.DataFrame, path: Path, file: TableFile | None) -> None:
    """In the format of the file that it comes from, if it comes from one."""
    if file is None:
        write_table(table, path)
    else:
        separator = resolve_separator(file.path, file.reading.separator)
        write_table(table, path, separator, header=file.reading.header)
