"""Sparse matrices whose columns have names in a file of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparsefield.app.cli.input_data import CELLS_TO_HOLD_OUT, ColumnOptions, InputData, refuse_roles_of_matrix
from sparsefield.errors import DataError
from sparsefield.text import count


def read_named_matrix(data: Path, column_names: Path, columns: ColumnOptions) -> InputData:
    """Read a sparse matrix, and the names of its columns from a file with one name per line."""
    from sparsefield.app.tables.matrix_files import read_matrix

    names = _read_names(column_names)
    matrix: Any = read_matrix(data)
    rows, width = matrix.shape
    if len(names) != width:
        raise DataError(
            f"{column_names}: there are {count(len(names), 'name')}, but {data} has {count(width, 'column')}."
        )
    roles = columns.find(names)
    refuse_roles_of_matrix(data, roles)
    large = rows * width > CELLS_TO_HOLD_OUT
    why = "held-out cells need a dense table, and these are too many." if large else ""
    position = {name: k for k, name in enumerate(names)}
    # By position, since a check on held-out cells works on an array without names.
    observed: list[Any] = [position[name] for name in roles.observed]
    return InputData(matrix, False, observed, "auto", rows, why, (column_names,), names=names, named=roles)


def _read_names(path: Path) -> tuple[str, ...]:
    """Return the lines of a file."""
    if not path.is_file():
        raise DataError(f"{path}: there is no such file.")
    try:
        names = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except UnicodeDecodeError:
        raise DataError(f"{path}: --columns needs a text file in UTF-8, with one name per line.") from None
    empty = [k + 1 for k, name in enumerate(names) if not name]
    if empty:
        raise DataError(f"{path}: line {empty[0]:,} is empty, but each line is the name of a column.")
    return tuple(names)
