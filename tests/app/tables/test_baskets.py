"""Lists of items and long tables of orders become 0/1 matrices, counted here by pandas and by loops."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sparsefield import read_baskets
from sparsefield.errors import DataError, LeftOutWarning


def make_orders(seed: int, n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"order": rng.integers(0, 40, n) * 7, "item": [f"i{k}" for k in rng.integers(0, 25, n)]})


@pytest.mark.parametrize("convert", [lambda frame: frame, pl.from_pandas], ids=["pandas", "polars"])
def test_the_matrix_is_the_crosstab_of_baskets_and_items(convert) -> None:
    orders = make_orders(0)
    found = read_baskets(convert(orders), "order", "item")
    expected = pd.crosstab(orders["order"], orders["item"]).clip(upper=1)
    assert found.names == tuple(dict.fromkeys(orders["order"]))
    assert found.items == tuple(sorted(set(orders["item"])))
    assert found.matrix.has_canonical_format
    np.testing.assert_array_equal(found.matrix.toarray(), expected.loc[list(found.names), list(found.items)])


def test_lists_of_items_are_the_same_baskets_as_a_long_table() -> None:
    orders = make_orders(2)
    lists = orders.groupby("order", sort=False)["item"].apply(list).to_list()
    found, expected = read_baskets([*lists, []]), read_baskets(orders, "order", "item")
    assert found.items == expected.items
    assert found.names == tuple(range(41))
    np.testing.assert_array_equal(found.matrix.toarray()[:-1], expected.matrix.toarray())
    assert not found.matrix[-1].nnz


def test_rare_items_are_left_out_and_their_baskets_remain() -> None:
    orders = make_orders(1)
    every, found = read_baskets(orders, "order", "item"), read_baskets(orders, "order", "item", min_support=15)
    counts = dict(zip(every.items, every.matrix.toarray().sum(axis=0).tolist(), strict=True))
    assert len(every.names) == 40
    assert found.items == tuple(name for name in every.items if counts[name] >= 15)
    assert 0 < len(found.items) < len(every.items)
    assert found.names == every.names


def test_rows_without_a_basket_or_an_item_are_left_out_with_a_warning() -> None:
    orders = pl.DataFrame({"b": [1, None, 2, 2, 3], "i": ["tea", "tea", None, "jam", None]})
    with pytest.warns(LeftOutWarning, match=r"3 of 5 rows have no 'b' or no 'i'"):
        found = read_baskets(orders, "b", "i")
    assert (found.names, found.items) == ((1, 2), ("jam", "tea"))
    assert found.matrix.toarray().tolist() == [[0, 1], [1, 0]]


def test_numbers_of_items_are_sorted_as_numbers_and_named_as_text() -> None:
    orders = pd.DataFrame({"b": [1, 1, 2, 2], "i": [10.0, 9.0, 10.0, np.nan]})
    with pytest.warns(LeftOutWarning):
        assert read_baskets(orders, "b", "i").items == ("9", "10")


def test_files_keep_leading_zeros_and_dates_are_baskets(tmp_path) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("day,sku,price\n2024-01-02,007,1.5\n2024-01-01,010,2\n2024-01-02,010,2\n")
    found = read_baskets(path, "day", "sku")
    assert (found.names, found.items) == (("2024-01-02", "2024-01-01"), ("007", "010"))
    days = pl.read_csv(path, try_parse_dates=True, schema_overrides={"sku": pl.String})
    assert read_baskets(days, "day", "sku").names == found.names


def test_bad_tables_are_refused_in_a_sentence(tmp_path) -> None:
    orders = pl.DataFrame({"b": [1, 2], "i": ["tea", "jam"], "empty": [None, None]})
    with pytest.raises(DataError, match=r"no column 'order' and 'sku'; the table has the columns: b, i, empty"):
        read_baskets(orders, "order", "sku")
    with pytest.raises(DataError, match="name two columns"):
        read_baskets(orders, "b", "b")
    with pytest.raises(DataError, match="there are no baskets"):
        read_baskets(orders, "b", "empty")
    with pytest.raises(DataError, match=r"no item is in 2 or more of 2 baskets; the most frequent, 'jam', is in 1"):
        read_baskets(orders, "b", "i", min_support=2)
    for table in (orders, orders.to_numpy(), "orders.csv"):
        with pytest.raises(DataError, match=r"pass basket= and item="):
            read_baskets(table)
    with pytest.raises(DataError, match="Basket 1 is the text 'tea': pass a list"):
        read_baskets([["jam"], "tea"])
    with pytest.raises(DataError, match="no items"):
        read_baskets([[]])
    with pytest.raises(DataError, match="no such file"):
        read_baskets(tmp_path / "none.csv", "b", "i")
