"""This module recognizes a list of orders: a table with a row for each item of each basket."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sparsefield.app.tables.column_statistics import ColumnStatistics

MOST_COLUMNS = 3
"""A list of orders has a column of baskets, one of items, and perhaps one more, such as a quantity."""

LEAST_BASKETS, LEAST_ITEMS = 10, 5
LEAST_ROWS = 1.5
"""The least mean number of rows of a basket."""

BASKET_NAME = re.compile(
    r"(?i)order|basket|cart|invoice|receipt|transaction|session|ticket|customer|user|visit|bestell"
)


def find_order_list(columns: Sequence[ColumnStatistics]) -> tuple[str, str] | None:
    """Return the columns of baskets and of items if a table looks like a list of orders, or None.

    The rows of a basket follow each other, or its column has such a name; each basket has several rows, and items are
    text.
    """
    if not 2 <= len(columns) <= MOST_COLUMNS:
        return None
    baskets = [column for column in columns if _may_be_basket(column)]
    for basket in baskets:
        items = [one for one in columns if one is not basket and one.is_text and one.n_distinct >= LEAST_ITEMS]
        items = [one for one in items if one.n_distinct < one.n_values]
        if items:
            return basket.name, max(items, key=lambda one: one.n_distinct).name
    return None


def _may_be_basket(column: ColumnStatistics) -> bool:
    whole = column.is_text or column.is_whole
    if not whole or column.n_missing or column.n_distinct < LEAST_BASKETS:
        return False
    if column.n_values < LEAST_ROWS * column.n_distinct:
        return False
    changes = int((column.values != column.values.shift(1)).sum()) + 1
    return changes == column.n_distinct or BASKET_NAME.search(column.name) is not None
