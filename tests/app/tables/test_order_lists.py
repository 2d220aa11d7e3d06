"""A list of orders is recognized, and other tables of few columns are not."""

from __future__ import annotations

import numpy as np
import polars as pl

from sparsefield import inspect


def _orders() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    rows = [(order, f"item {k}") for order in range(40) for k in sorted(rng.choice(12, 3, replace=False))]
    return pl.DataFrame(rows, schema=["order", "item"], orient="row")


def test_orders_get_the_option_for_baskets() -> None:
    book = inspect(_orders())
    assert book.order_list == ("order", "item")
    assert book.advice[0].option == "--long order,item"
    assert inspect(_orders().sample(fraction=1.0, shuffle=True, seed=0)).order_list == ("order", "item")


def test_other_tables_do_not() -> None:
    rng = np.random.default_rng(0)
    ages, cities = rng.integers(20, 80, 300), [f"city {k}" for k in rng.integers(0, 20, 300)]
    assert inspect(pl.DataFrame({"age": ages, "city": cities})).order_list is None
    assert inspect(_orders().with_columns(pl.lit(1).alias(f"x{k}") for k in range(3))).order_list is None
