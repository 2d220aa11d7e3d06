"""Recommendations against the enumeration of all baskets, and rules against counts by loops."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from sparsefield import MarkovField, load, read_baskets
from sparsefield.errors import DataError

ITEMS = ["bread", "butter", "jam", "milk", "nuts", "tea"]


def make_rows(seed: int = 0, n: int = 300) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = (rng.random((n, 6)) < [0.4, 0.2, 0.15, 0.3, 0.1, 0.2]).astype(np.int8)
    rows[:, 1] |= rows[:, 0] & (rng.random(n) < 0.6)
    rows[:, 3] |= rows[:, 5] & (rng.random(n) < 0.7)
    return rows


ROWS = make_rows()


@pytest.fixture(scope="module")
def field() -> MarkovField:
    return MarkovField(l1=2.0).fit(sp.csr_matrix(ROWS), columns=ITEMS)


def slow_probability(field: MarkovField, basket: set[str], item: str) -> float:
    """P(item | the basket, and nothing else) from the joint distribution over all 64 baskets."""
    weights = {(row["variable_a"], row["variable_b"]): row["weight"] for row in field.features_.iter_rows(named=True)}
    biases = {row["variable"]: row["weight"] for row in field.biases_.iter_rows(named=True)}
    joint = {}
    for cells in product([0, 1], repeat=6):
        has = {name for name, cell in zip(ITEMS, cells, strict=True) if cell}
        energy = sum(biases.get(name, 0.0) for name in has)
        joint[frozenset(has)] = np.exp(energy + sum(w for (a, b), w in weights.items() if {a, b} <= has))
    with_item, without = joint[frozenset(basket | {item})], joint[frozenset(basket - {item})]
    return with_item / (with_item + without)


@pytest.mark.parametrize("basket", [set(), {"bread"}, {"tea", "jam", "bread"}], ids=len)
def test_probabilities_are_those_of_the_enumerated_distribution(field, basket) -> None:
    assert len(field.features_) > 2
    found = field.recommend(sorted(basket), n=10)
    expected = {name: slow_probability(field, basket, name) for name in ITEMS if name not in basket}
    ranked = sorted(expected, key=lambda name: -expected[name])
    assert found["item"].to_list() == ranked
    assert found["rank"].to_list() == list(range(1, len(ranked) + 1))
    np.testing.assert_allclose(found["probability"], [expected[name] for name in ranked])
    shares = dict(zip(ITEMS, ROWS.mean(axis=0), strict=True))
    np.testing.assert_allclose(found["lift"], [expected[name] / shares[name] for name in ranked])


def test_the_first_of_all_items_are_the_same_for_any_n(field) -> None:
    for basket in (["bread"], ["tea", "nuts"]):
        every = field.recommend(basket, n=6)
        for n in (1, 2, 3):
            assert field.recommend(basket, n=n).equals(every.head(n))


def test_several_baskets_are_those_one_by_one(field) -> None:
    baskets = {"ann": ["bread"], "bob": ["tea", "milk"], "cy": []}
    found = field.recommend(baskets, n=2)
    alone = [
        field.recommend(basket, n=2).insert_column(0, pl.lit(who).alias("basket")) for who, basket in baskets.items()
    ]
    assert found.equals(pl.concat(alone))
    numbered = field.recommend(list(baskets.values()), n=2)
    assert numbered["basket"].to_list() == [0, 0, 1, 1, 2, 2]
    assert numbered.drop("basket").equals(found.drop("basket"))
    matrix = sp.csr_matrix([[name in basket for name in ITEMS] for basket in baskets.values()], dtype=int)
    assert field.recommend(matrix, n=2).equals(numbered)


def test_baskets_of_a_long_table_are_matched_by_name(field) -> None:
    orders = pl.DataFrame({"who": ["bob", "ann", "bob"], "what": ["tea", "bread", "milk"]})
    found = field.recommend(read_baskets(orders, "who", "what"), n=2)
    assert found.equals(field.recommend({"bob": ["tea", "milk"], "ann": ["bread"]}, n=2))


def test_items_of_the_basket_and_excluded_ones_are_not_recommended(field) -> None:
    found = field.recommend(["bread", "bread"], n=10, exclude=["butter", "milk"])
    assert sorted(found["item"].to_list()) == ["jam", "nuts", "tea"]


def test_all_unknown_items_are_named(field) -> None:
    with pytest.raises(DataError, match=r"'gin', 'rum', 'ale'"):
        field.recommend([["gin", "tea"], ["rum"]], exclude=["ale"])
    found = field.recommend(["gin", "tea"], exclude=["ale"], unknown="ignore")
    assert found.equals(field.recommend(["tea"]))


def test_other_fields_over_items_answer_the_same() -> None:
    """A frame, where reference states may be 1, and a field with conjunctions, take the dense way."""
    rows = ROWS.copy()
    rows[:, 0] |= np.random.default_rng(1).random(len(rows)) < 0.6
    frame = pd.DataFrame(rows.astype(bool), columns=ITEMS)
    wide = MarkovField(l1=2.0).fit(frame)
    sparse = MarkovField(l1=2.0).fit(sp.csr_matrix(rows), columns=ITEMS)
    higher = MarkovField(l1=2.0, max_order=3).fit(sp.csr_matrix(ROWS), columns=ITEMS)
    basket = ["jam", "tea"]
    assert isinstance(wide.recommend(basket), pd.DataFrame)
    a, b = (
        dict(zip(f["item"], f["probability"], strict=True)) for f in (wide.recommend(basket), sparse.recommend(basket))
    )
    assert a.keys() == b.keys()
    np.testing.assert_allclose([a[name] for name in b], list(b.values()), atol=0.02)
    row = np.array([[name in basket for name in ITEMS]], dtype=int)
    conditionals = higher.predict_proba(row)
    for name, value in zip(*(higher.recommend(basket)[column] for column in ("item", "probability")), strict=True):
        assert value == pytest.approx(conditionals[name][0, 1])


def test_observed_items_count_and_are_not_recommended() -> None:
    field = MarkovField(l1=2.0).fit(sp.csr_matrix(ROWS), columns=ITEMS, observed=["bread"])
    assert "bread" not in field.recommend([], n=10)["item"].to_list()
    with_bread, without = (dict(field.recommend(b, n=9).select("item", "probability").rows()) for b in (["bread"], []))
    assert with_bread["butter"] > without["butter"]


def test_items_that_are_always_or_never_there_have_probability_one_or_zero() -> None:
    rows = ROWS.copy()
    rows[:, 2], rows[:, 4] = 1, 0
    found = MarkovField(l1=2.0).fit(sp.csr_matrix(rows), columns=ITEMS).recommend(["tea"], n=10)
    assert (found["item"][0], found["probability"][0], found["lift"][0]) == ("jam", 1.0, 1.0)
    assert (found["item"][-1], found["probability"][-1]) == ("nuts", 0.0)
    assert np.isnan(found["lift"][-1])


def test_columns_of_other_values_are_no_items() -> None:
    table = pd.DataFrame({"tea": [0, 1] * 30, "age": [20, 30, 40] * 20})
    with pytest.raises(DataError, match="'age'"):
        MarkovField(l1=1.0).fit(table).recommend(["tea"])


@pytest.mark.parametrize("n", [None, 2])
def test_rules_are_counts_by_loops(field, n) -> None:
    found = field.association_rules(sp.csr_matrix(ROWS), n)
    features = field.features_
    assert len(found) == (len(features) if n is None else n)
    assert found["weight"].to_list() == features["weight"].to_list()[:n]
    for row in found.iter_rows(named=True):
        a, b = (ROWS[:, ITEMS.index(row[end])] for end in ("item_a", "item_b"))
        both = sum(x and y for x, y in zip(a.tolist(), b.tolist(), strict=True))
        assert row["support"] == pytest.approx(both / len(ROWS))
        assert row["confidence_ab"] == pytest.approx(both / sum(a.tolist()))
        assert row["confidence_ba"] == pytest.approx(both / sum(b.tolist()))
        assert row["lift"] == pytest.approx(both / len(ROWS) / (a.mean() * b.mean()))


def test_rules_of_frames_and_baskets_are_those_of_the_matrix(field) -> None:
    expected = field.association_rules(sp.csr_matrix(ROWS))
    long = pl.DataFrame(
        [(row, ITEMS[k]) for row, k in zip(*np.nonzero(ROWS), strict=True)], schema=["b", "i"], orient="row"
    )
    empty = int((ROWS.sum(axis=1) == 0).sum())
    baskets = read_baskets(long, "b", "i")
    assert len(baskets) == len(ROWS) - empty
    np.testing.assert_allclose(field.association_rules(baskets)["confidence_ab"], expected["confidence_ab"])
    flipped = MarkovField(l1=2.0, coding="reference").fit(pd.DataFrame(1 - ROWS, columns=ITEMS))
    rules = flipped.association_rules(pd.DataFrame(1 - ROWS, columns=ITEMS))
    assert isinstance(rules, pd.DataFrame)
    names = set(map(frozenset, expected.select("item_a", "item_b").rows()))
    assert {frozenset(pair) for pair in zip(rules["item_a"], rules["item_b"], strict=True)} == names


def test_rare_pairs_are_left_out(field) -> None:
    every = field.association_rules(ROWS)
    found = field.association_rules(ROWS, min_support=0.1)
    assert 0 < len(found) < len(every)
    assert found["support"].to_list() == [share for share in every["support"] if share >= 0.1]


def test_names_of_columns_are_saved_and_hold_for_later_matrices(field, tmp_path) -> None:
    field.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    matrix = sp.csr_matrix(ROWS)
    assert again.recommend(["tea"]).equals(field.recommend(["tea"]))
    assert again.score(matrix) == field.score(matrix) == pytest.approx(field.score(ROWS))
    assert list(again.predict_proba(matrix)) == ITEMS
    assert set(again.stability(matrix, 2)["variable_a"]) <= set(ITEMS)


def test_wrong_names_of_columns_are_refused() -> None:
    matrix = sp.csr_matrix(ROWS)
    with pytest.raises(DataError, match="5 names, but X has 6 columns"):
        MarkovField(l1=2.0).fit(matrix, columns=ITEMS[:5])
    with pytest.raises(DataError, match="'bread'"):
        MarkovField(l1=2.0).fit(matrix, columns=["bread", "bread", *ITEMS[2:]])
    with pytest.raises(DataError, match="frame"):
        MarkovField(l1=2.0).fit(pd.DataFrame(ROWS), columns=ITEMS)
    with pytest.raises(DataError, match="parts"):
        MarkovField(l1=2.0).fit(iter([matrix]), columns=ITEMS)
