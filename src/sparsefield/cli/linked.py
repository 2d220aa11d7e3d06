"""Answers about linked tables: filled tables into a folder, or probabilities into one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.cli.console import Watch, show
from sparsefield.cli.tables import TABLES, check_output, write_table
from sparsefield.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    from sparsefield import RelationalField
    from sparsefield.data import Relational

    Gaps = dict[tuple[str, str], np.ndarray]
    """(table, column) -> rows."""

__all__ = ["check_linked_output", "predict_linked"]


def check_linked_output(output: Path, proba: bool) -> None:
    """Filled tables go into a folder, probabilities into a file."""
    if proba:
        check_output(output, TABLES)
    elif output.is_file() or output.suffix:
        raise DataError(f"{output}: several tables are written; name a folder, such as 'filled'.")
    elif not output.is_dir() and not output.parent.is_dir():
        raise DataError(f"{output}: the folder '{output.parent}' does not exist; make it first.")


def predict_linked(field: RelationalField, data: Relational, output: Path, proba: bool) -> None:
    """Fill the gaps of all tables, or write the probabilities of their states."""
    data = _with_types_of(field, data)
    gaps = _gaps(field, data)
    total = sum(len(rows) for rows in gaps.values())
    with Watch(f"Filling {total:,} gaps in {len(data.tables):,} linked tables"):
        answer: Any = _probabilities(field, data, gaps) if proba else field.transform(data)
    tables = {output: answer} if proba else {output / f"{name}.csv": table for name, table in answer.tables.items()}
    if not proba:
        output.mkdir(exist_ok=True)
    for path, table in tables.items():
        write_table(table, path)
    written = ", ".join(map(str, tables))
    show(f"{total:,} gaps in {len(gaps):,} columns of {len(data.tables):,} tables; wrote {written}.")


def _with_types_of(field: RelationalField, data: Relational) -> Relational:
    """Columns that hold nothing have no type of their own: give them that of the model's states."""
    import polars as pl

    kinds = {str: pl.String, bool: pl.Boolean, int: pl.Int64, float: pl.Float64}
    tables = {}
    for name, columns in field.states_.items():
        frame: pl.DataFrame | None = data.tables.get(name)
        if frame is None:
            continue
        empty = [c for c in columns if c in frame.columns and frame[c].null_count() == frame.height]
        casts = [pl.col(c).cast(kinds[type(columns[c][0])]) for c in empty]
        tables[name] = frame.with_columns(casts)
    return data.with_tables(tables)


def _gaps(field: RelationalField, data: Relational) -> Gaps:
    import numpy as np

    found: Gaps = {}
    for table, columns in field.states_.items():
        for column in columns:
            if table in data.tables and column in data.sources[table].names:
                rows = np.flatnonzero(~data.sources[table].column(column).seen)
                if len(rows):
                    found[table, column] = rows
    return found


def _probabilities(field: RelationalField, data: Relational, gaps: Gaps) -> pl.DataFrame:
    """A line per gap and state."""
    import numpy as np
    import polars as pl

    found: dict[str, dict[str, Any]] = field.predict_proba(data)
    schema = {
        "table": pl.String, "row": pl.Int64, "column": pl.String, "state": pl.String, "probability": pl.Float64,
    }  # fmt: skip
    parts = [pl.DataFrame(schema=schema)]
    for (table, column), rows in gaps.items():
        states = [str(state) for state in field.states_[table][column]]
        lines = {
            "table": [table] * (len(rows) * len(states)),
            "row": np.repeat(rows + 1, len(states)),
            "column": [column] * (len(rows) * len(states)),
            "state": states * len(rows),
            "probability": found[table][column][rows].ravel(),
        }
        parts.append(pl.DataFrame(lines, schema=schema))
    return pl.concat(parts)
