"""Baskets, from lists of items or from a long table with a row for each item, as a sparse 0/1 matrix."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp

from sparsefield.app.tables.read import list_columns, read_table
from sparsefield.data.frames import Source, as_source
from sparsefield.data.labels import Label, factorize
from sparsefield.errors import DataError, LeftOutWarning

SHOWN_ITEMS = 8


@dataclass(frozen=True, eq=False, repr=False)
class Baskets:
    """Baskets as a sparse 0/1 matrix, with the names of its rows and columns."""

    matrix: Any
    """scipy CSR matrix, (baskets, items): 1 where a basket has an item."""
    items: tuple[str, ...]
    """Names of the columns."""
    names: tuple[Label, ...]
    """Names of the rows."""

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"Baskets({len(self):,} baskets, {len(self.items):,} items, {self.matrix.nnz:,} pairs)"

    def select(self, items: Sequence[str]) -> Baskets:
        """Return the same baskets over other columns, such as the items of a model.

        An item that no basket has is a column of zeros. Items of these baskets that are not among ``items`` are left
        out, with a warning; a basket of which no item is left is an empty row.
        """
        position = {name: k for k, name in enumerate(items)}
        column = np.array([position.get(name, -1) for name in self.items], dtype=np.int64)
        unknown = [self.items[k] for k in np.flatnonzero(column < 0).tolist()]
        if unknown:
            lost = int(self.matrix.getnnz(axis=0)[column < 0].sum())
            shown = ", ".join(map(repr, unknown[:SHOWN_ITEMS])) + (", ..." if len(unknown) > SHOWN_ITEMS else "")
            warnings.warn(
                f"{len(unknown):,} of {len(self.items):,} items are not among the items of the model, and are left out "
                f"with {lost:,} entries of baskets: {shown}.",
                LeftOutWarning,
                stacklevel=2,
            )
        cells = self.matrix.tocoo()
        kept = column[cells.col] >= 0
        return Baskets(
            _matrix(cells.row[kept], column[cells.col[kept]], (len(self), len(items))), tuple(items), self.names
        )


def read_baskets(orders: Any, basket: str | None = None, item: str | None = None, *, min_support: float = 1) -> Baskets:
    """Read baskets from lists of items, or from a long table with one row for each item of each basket.

    Parameters
    ----------
    orders : frame, path of a table, or list of lists of items
        Other columns than the two named ones are ignored. An item that a basket has several times counts once. Rows
        without a basket or without an item are left out, with a warning.
    basket, item : names of the columns of baskets, such as order numbers, and of items; left out for lists
    min_support : int or float
        Smallest number of baskets of an item, or, if it is a fraction below 1, its smallest share of the baskets. Rarer
        items are left out; baskets that had no others remain, as empty rows.

    Returns
    -------
    Baskets
        With the sparse ``matrix``, whose rows are the baskets in the order in which they first appear, and whose
        columns are the ``items``, sorted; and the ``names`` of the baskets, numbers for lists.

    Examples
    --------
    >>> import polars as pl
    >>> orders = pl.DataFrame({"order": [7, 7, 3, 3], "product": ["tea", "milk", "tea", "tea"]})
    >>> baskets = read_baskets(orders, "order", "product")
    >>> baskets
    Baskets(2 baskets, 2 items, 3 pairs)
    >>> baskets.names, baskets.items, baskets.matrix.toarray().tolist()
    ((7, 3), ('milk', 'tea'), [[1, 1], [0, 1]])
    >>> read_baskets([["tea", "milk"], ["tea"]]).matrix.toarray().tolist()
    [[1, 1], [0, 1]]
    """
    if basket is None or item is None:
        names, row, items, column = _read_lists(orders)
        what = "The baskets"
    else:
        what = str(orders) if isinstance(orders, (str, Path)) else "orders"
        table = read_table(orders) if isinstance(orders, (str, Path)) else orders
        names, row, items, column = _read_long(table, basket, item, what)
    found = _matrix(row, column, (len(names), len(items)))
    counts, least = found.getnnz(axis=0), max(1, _support_count(min_support, len(names)))
    frequent = np.flatnonzero(counts >= least)
    if not len(frequent):
        top = int(np.argmax(counts))
        raise DataError(
            f"{what}: no item is in {least:,} or more of {len(names):,} baskets; the most frequent, {items[top]!r}, is "
            f"in {counts[top]:,}: lower min_support."
        )
    return Baskets(found[:, frequent], tuple(items[k] for k in frequent.tolist()), tuple(names))


Cells = tuple[Sequence[Label], np.ndarray, list[str], np.ndarray]
"""Names of baskets, the basket of each cell, names of items, and the item of each cell."""


def _read_lists(orders: Any) -> Cells:
    """Return the cells of lists of items."""
    if isinstance(orders, (str, Path)) or hasattr(orders, "columns") or hasattr(orders, "shape"):
        raise DataError("A table of orders needs the names of two columns: pass basket= and item=.")
    lists = list(orders)
    wrong = next((k for k, items in enumerate(lists) if isinstance(items, (str, bytes))), None)
    if wrong is not None:
        raise DataError(f"Basket {wrong} is the text {lists[wrong]!r}: pass a list of items.")
    lists = [[str(item) for item in items] for items in lists]
    items = sorted({item for basket in lists for item in basket})
    if not items:
        raise DataError("The baskets have no items: pass lists of items.")
    position = {item: k for k, item in enumerate(items)}
    row = np.repeat(np.arange(len(lists)), [len(basket) for basket in lists])
    return range(len(lists)), row, items, np.array([position[item] for basket in lists for item in basket])


def _read_long(table: Any, basket: str, item: str, what: str) -> Cells:
    """Return the cells of a long table, whose name in messages is ``what``."""
    source = _two_columns(table, (basket, item), what)
    (labels, row), (names, column) = (
        source.text_categories(name) or factorize(source.column(name)) for name in (basket, item)
    )
    texts = [str(name) for name in names]
    position = {text: k for k, text in enumerate(dict.fromkeys(texts))}
    # The last place is for missing cells, whose code is -1.
    column = np.array([*(position[text] for text in texts), -1], dtype=np.int64)[column]
    complete = (row >= 0) & (column >= 0)
    if not complete.any():
        raise DataError(f"{what}: no row has both a {basket!r} and an {item!r}: there are no baskets.")
    missing = len(complete) - int(complete.sum())
    if missing:
        where = f"{what}: {missing:,} of {len(complete):,} rows"
        warnings.warn(f"{where} have no {basket!r} or no {item!r}, and are left out.", LeftOutWarning, stacklevel=3)
    distinct, first, inverse = np.unique(row[complete], return_index=True, return_inverse=True)
    order = np.argsort(first)  # of appearance
    baskets = [labels[k] for k in distinct[order].tolist()]
    return baskets, np.argsort(order)[inverse], list(position), column[complete]


def _support_count(min_support: float, n_baskets: int) -> int:
    """Return a smallest support, a number of baskets or a fraction of them below 1, as a number of baskets."""
    if isinstance(min_support, Integral) and min_support >= 0:
        return int(min_support)
    if not 0.0 <= min_support < 1.0:
        raise ValueError(
            f"min_support must be a whole number of baskets, or a fraction of them below 1; got {min_support!r}."
        )
    return math.ceil(min_support * n_baskets - 1e-9)


def _two_columns(table: Any, columns: tuple[str, str], what: str) -> Source:
    """Return the two columns of a long table; dates in them are text."""
    if columns[0] == columns[1]:
        raise DataError(f"{what}: baskets and items are both in the column {columns[0]!r}: name two columns.")
    source = as_source(table, what=what)
    absent = [name for name in columns if name not in source.names]
    if absent:
        named = " and ".join(map(repr, absent))
        raise DataError(f"{what}: there is no column {named}; the table has the {list_columns(source.names)}.")
    if source.kind in ("array", "sparse"):
        raise DataError(f"{what}: columns have no names: pass a frame, or the path of a file.")
    frame = source.native.select(*columns)
    dates = [name for name in columns if frame[name].dtype.is_temporal()]
    return Source(
        columns, source.n_rows, source.kind, frame.with_columns(nw.col(*dates).cast(nw.String)) if dates else frame
    )


def _matrix(row: np.ndarray, column: np.ndarray, shape: tuple[int, int]) -> Any:
    """Return a 0/1 matrix with ones in the given cells, each of which may be given several times."""
    cells = np.unique(row.astype(np.int64) * max(shape[1], 1) + column)
    row, column = np.divmod(cells, max(shape[1], 1))
    offsets = np.searchsorted(row, np.arange(shape[0] + 1))
    return sp.csr_matrix((np.ones(len(cells), dtype=np.int8), column.astype(np.int32), offsets), shape=shape)
