"""The planted shop: the path of its draw is found in small ones, and its numbers are those of the tables."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.shop import draw_shop, join_aggregates, run_method, sweep


def test_the_path_of_a_small_shop_is_found_and_beats_frequencies() -> None:
    rows = {method: run_method(method, 1500, 15_000, 0, 1) for method in ("auto", "frequency", "logistic")}
    assert rows["auto"]["found"]
    assert rows["auto"]["log_loss"] < rows["frequency"]["log_loss"]
    assert rows["logistic"]["log_loss"] < rows["frequency"]["log_loss"]


def test_aggregates_are_those_of_a_loop() -> None:
    shop = draw_shop(50, 300, seed=1)
    lines, orders = shop.data.tables["line"], shop.data.tables["order"]
    X, kinds = join_aggregates(shop), shop.data.tables["product"]["kind"].to_list()
    buyers = orders["buyer"].to_numpy()[lines["order"].to_numpy()]
    for customer in range(50):
        bought = [kinds[product] for product in lines["product"].to_numpy()[buyers == customer]]
        assert np.nan_to_num(X[customer, -8]) == pytest.approx(
            sum(kind == "k0" for kind in bought) / max(len(bought), 1)
        )
    assert shop.data.tables["customer"]["left"].null_count() == shop.hidden.sum()


def test_a_sweep_measures_links_and_time() -> None:
    rows, growth = sweep([200, 400], threads=1)
    assert [row["links"] for row in rows] == [2 * 7 * n + 3 * 7 * n // 10 for n in (200, 400)]
    assert growth is not None
