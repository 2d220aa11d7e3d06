"""This module reads baskets at the command line: a long table of orders, or a matrix whose columns have names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.app.cli.input_data import (
    CELLS_TO_HOLD_OUT,
    ColumnOptions,
    InputData,
    is_linked,
    is_matrix,
    read_data,
    refuse_roles_of_matrix,
)
from sparsefield.app.pages.fit_summary import count
from sparsefield.app.tables.read import list_columns, read_table
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.errors import DataError

if TYPE_CHECKING:
    from sparsefield.app.tables.baskets import Baskets


@dataclass(frozen=True)
class BasketOptions:
    """The options for baskets."""

    long: str | None = None
    """Names of the columns of baskets and items, separated by a comma."""
    min_support: float | None = None
    column_names: Path | None = None
    """File with the names of the columns of a matrix."""

    @property
    def given(self) -> bool:
        """Whether any of the options is given."""
        return self != BasketOptions()


def read_any_data(data: Path, reading: ReadOptions, columns: ColumnOptions, baskets: BasketOptions) -> InputData:
    """Read a long table of orders, a matrix with names, or other data without options for baskets."""
    if not baskets.given:
        return read_data(data, reading, columns)
    check_basket_options(data, baskets)
    if baskets.long is not None:
        found = read_orders(data, reading, baskets)
        return _as_input(data, found.matrix, found.items, columns, ())
    from sparsefield.app.tables.matrix_files import read_matrix

    names = _read_names(baskets.column_names)
    matrix = read_matrix(data)
    if len(names) != matrix.shape[1]:
        raise DataError(
            f"{baskets.column_names}: there are {count(len(names), 'name')}, but {data} has "
            f"{count(matrix.shape[1], 'column')}."
        )
    return _as_input(data, matrix, names, columns, (Path(str(baskets.column_names)),))


def check_basket_options(data: Path, baskets: BasketOptions) -> None:
    """Refuse options for baskets that do not go together, or with the data."""
    if baskets.min_support is not None and baskets.long is None:
        raise DataError("--min-support is an option of --long: add --long BASKET,ITEM or remove it.")
    if baskets.long is not None and is_linked(data):
        raise DataError(f"{data}: --long is for one table of orders; these are linked tables: remove it.")
    if baskets.long is not None and is_matrix(data):
        raise DataError(f"{data}: --long is for a table of orders, and a matrix has its columns already: remove it.")
    if baskets.column_names is not None and not is_matrix(data):
        raise DataError(f"{data}: --columns has names for the columns of an .npz matrix: remove it.")


def read_orders(data: Path, reading: ReadOptions, baskets: BasketOptions) -> Baskets:
    """Read the baskets of a long table."""
    from sparsefield.app.tables.baskets import find_baskets

    table = read_table(data, reading)
    basket, item = _two_columns(str(baskets.long), table.columns, data)
    least = 1.0 if baskets.min_support is None else baskets.min_support
    return find_baskets(table, basket, item, int(least) if least == int(least) else least, what=str(data))


def orders_of_model(data: Path, reading: ReadOptions, baskets: BasketOptions, field: Any) -> Any:
    """Read a long table as a matrix over the items of a model."""
    from sparsefield.estimators.pair_rules import item_names

    check_basket_options(data, baskets)
    if field.kind_ != "sparse":
        raise DataError(f"{data}: --long needs a model that was learned with --long or from a sparse matrix.")
    return read_orders(data, reading, baskets).select(item_names(field.field_.schema)).matrix


def _two_columns(words: str, columns: list[str], data: Path) -> tuple[str, str]:
    """Return the two columns that --long names; a name may contain commas."""
    parts = words.split(",")
    splits = [(",".join(parts[:k]).strip(), ",".join(parts[k:]).strip()) for k in range(1, len(parts))]
    known = [split for split in splits if set(split) <= set(columns)]
    if known:
        return known[0]
    if len(splits) != 1 or not all(splits[0]):
        raise DataError(f"--long names two columns, of baskets and of items, such as order,item; got {words!r}.")
    absent = " and ".join(repr(name) for name in splits[0] if name not in columns)
    raise DataError(f"{data}: --long names the column {absent}, which does not exist; {list_columns(columns)}.")


def _as_input(data: Path, matrix: Any, names: Any, columns: ColumnOptions, inputs: tuple[Path, ...]) -> InputData:
    roles = columns.find(names)
    refuse_roles_of_matrix(data, roles)
    large = matrix.shape[0] * matrix.shape[1] > CELLS_TO_HOLD_OUT
    why = "held-out cells need a dense table, and these are too many." if large else ""
    position = {name: k for k, name in enumerate(names)}
    # By position, since a check on held-out cells works on an array without names.
    observed: list[Any] = [position[name] for name in roles.observed]
    return InputData(matrix, False, observed, "auto", matrix.shape[0], why, inputs, names=tuple(names), named=roles)


def _read_names(path: Path | None) -> tuple[str, ...]:
    """Return the lines of a file."""
    path = Path(str(path))
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
