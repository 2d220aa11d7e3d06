"""The two-round search finds exactly the large entries of the whole sum over shards."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsefield.compute import block_collection
from sparsefield.compute.block_collection import (
    ThresholdQuery,
    TopEntries,
    find_large_entries,
    select_top_entries,
)
from sparsefield.compute.dask_worker import RoundedArray, Shard, _round, item_sums, pick_entries, round_sums
from sparsefield.compute.top_entries import TopEntriesSearch
from sparsefield.compute.tree_sum import tree_sum


def summand(block: dict, item: str) -> np.ndarray | None:
    return block.get(item)


def beyond(cut: float, item: str, sums: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    size = np.abs(sums.sum(axis=0)) - cut
    return np.where(rows + 0 * columns == 1, -np.inf, size) if item == "b" else size


def every_entry(item: str, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return np.ones(len(rows), dtype=bool)


def off_diagonal(item: str, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return rows != columns


def run_search(query: ThresholdQuery, shards: list[Shard], items: list[str], at_a_time: int = 2) -> TopEntriesSearch:
    """Run the two rounds of a cluster in this process."""
    search = TopEntriesSearch(query)
    for k in range(0, len(items), at_a_time):
        some = items[k : k + at_a_time]
        sums = [item_sums(shard, None, some, query.summand) for shard in shards]
        positions = search.select_positions(some, [round_sums(found.value) for found in sums])
        search.add_exact(some, positions, [pick_entries(found, positions) for found in sums])
    return search


def search_exact_sums(query: ThresholdQuery, shards: list[Shard], items: list[str]) -> list[TopEntries]:
    blocks, every = [block for shard in shards for block in shard.blocks], replace(query, limit=None)
    sums = [tree_sum(summand(block, item) for block in blocks) for item in items]
    return select_top_entries(
        every, [find_large_entries(query, item, total) for item, total in zip(items, sums, strict=True)]
    )


def entries(found: list[TopEntries]) -> dict[tuple[str, int, int], bytes]:
    return {
        (large.item, row, column): large.sums[:, k].tobytes()
        for large in found
        for k, (row, column) in enumerate(zip(*(positions.tolist() for positions in large.positions), strict=True))
    }


def assert_same(query: ThresholdQuery, search: TopEntriesSearch, expected: list[TopEntries]) -> None:
    """Require all entries, in order, with the same bits; with a limit, the largest ones including ties."""
    found, wanted = entries(search.found), entries(expected)
    if query.limit is None:
        assert list(found.items()) == list(wanted.items())
        return
    assert found.items() <= wanted.items()
    excess = {
        (large.item, row, column): value
        for large in expected
        for row, column, value in zip(
            *(positions.tolist() for positions in large.positions),
            query.excess(large.item, large.sums, *large.positions).tolist(),
            strict=True,
        )
    }
    last = min(sorted(excess.values(), reverse=True)[: query.limit], default=np.inf)
    assert {place for place, value in excess.items() if value >= last} <= found.keys()


SIZES = st.sampled_from([1.0, 1e-300, 1e-30, 1e30, 1e300])


@st.composite
def problems(draw, specials: bool = False):
    """Shards of summands that cancel, tie and differ in size by much."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    layers, n_parts = draw(st.integers(1, 2)), draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(SIZES) if dtype == np.float64 else draw(st.sampled_from([1.0, 1e-38, 1e-20, 1e20, 1e37]))
    shapes = {"a": (5, 4), "b": (3, 6), "c": (1, 1), "d": (4, 4)}
    kinds = {item: draw(st.sampled_from(["normal", "few", "zero", "wide"])) for item in shapes}
    parts = []
    for _ in range(n_parts):
        part = {}
        for item, shape in shapes.items():
            if rng.random() < 0.2:
                continue  # a block without this item
            values = rng.normal(size=(layers, *shape))
            if kinds[item] == "few":
                values = rng.integers(-2, 3, (layers, *shape)).astype(float)  # ties
            elif kinds[item] == "zero":
                values = np.zeros((layers, *shape))
            elif kinds[item] == "wide":
                values *= 10.0 ** rng.integers(-12, 1, values.shape)
            with np.errstate(over="ignore", under="ignore"):
                values = (values * scale).astype(dtype)
            if specials:
                odd = rng.random(values.shape) < 0.05
                values[odd] = rng.choice([np.inf, -np.inf, np.nan, -0.0], odd.sum())
            part[item] = values
        parts.append(part)
    length = draw(st.sampled_from([1, 2, 4]))
    shards = [Shard(tuple(parts[k : k + length])) for k in range(0, n_parts, length)]
    cut = draw(st.sampled_from([0.0, 0.5, 1.0, 2.0, 2.5])) * scale
    limit = draw(st.sampled_from([None, 1, 3, 10, 1000]))
    eligible = draw(st.sampled_from([every_entry, off_diagonal]))
    return ThresholdQuery(summand, (), partial(beyond, cut), eligible, limit), shards


@given(problems())
def test_entries_and_sums_equal_those_of_the_whole_sum(problem) -> None:
    query, shards = problem
    items = list("abcd")
    assert_same(query, run_search(query, shards, items), search_exact_sums(query, shards, items))


@given(problems(specials=True))
def test_entries_equal_those_of_the_whole_sum_if_some_are_not_finite(problem) -> None:
    query, shards = problem
    items = list("abcd")
    with np.errstate(invalid="ignore", over="ignore"):
        expected = search_exact_sums(query, shards, items)
        assert_same(query, run_search(query, shards, items), expected)


@given(st.integers(0, 10**6), st.sampled_from([np.float32, np.float64]), st.integers(-1080, 1020))
def test_rounding_errors_are_within_their_bound(seed, dtype, exponent) -> None:
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore", under="ignore"):
        values = np.ldexp(rng.normal(size=200) * 10.0 ** rng.integers(-9, 1, 200), exponent).astype(dtype)
    values[rng.random(200) < 0.1] = 0.0
    rounded = _round(values)
    with np.errstate(over="ignore", invalid="ignore"):
        off = np.abs(rounded.values - values.astype(float))
    known = np.isfinite(values)
    assert (off[known] <= rounded.error_bound[known]).all()


@pytest.mark.parametrize("top", [0.0, 5e-324, 1e-308, 1.0, 65504.0, 1.7976931348623157e308])
def test_the_smallest_and_the_largest_numbers_can_be_rounded(top) -> None:
    rounded = _round(np.array([top, -top, 0.0]))
    assert isinstance(rounded, RoundedArray)
    assert np.isfinite(rounded.values).all()
    assert np.abs(rounded.values[0] - top) <= rounded.error_bound[0]


def adversary(n_shards: int, side: int, winners: int, rng: np.random.Generator) -> tuple[list[Shard], np.ndarray]:
    """Winners have a small equal share in every shard; losers are huge in one shard, and cancel in another."""
    parts = np.zeros((n_shards, 1, side, side))
    place = rng.permutation(side * side)
    won, lost = place[:winners], place[winners:]
    parts.reshape(n_shards, -1)[:, won] = 1.0
    one = rng.integers(0, n_shards, len(lost))
    other = (one + rng.integers(1, n_shards, len(lost))) % n_shards
    size = rng.choice([-1.0, 1.0], len(lost)) * rng.uniform(20.0, 40.0, len(lost))
    parts.reshape(n_shards, -1)[one, lost] = size
    parts.reshape(n_shards, -1)[other, lost] = -size
    return [Shard(({"a": part},)) for part in parts], np.sort(won)


@pytest.mark.parametrize("limit", [None, 12])
def test_large_entries_that_no_shard_ranks_high_are_found_and_few_entries_are_sent_in_full(limit) -> None:
    n_shards, side, winners = 8, 60, 12
    shards, won = adversary(n_shards, side, winners, np.random.default_rng(3))
    for shard in shards:
        size = np.abs(shard.blocks[0]["a"]).ravel()
        assert not np.isin(np.argsort(-size)[: 10 * winners], won).any()
    query = ThresholdQuery(summand, (), partial(beyond, 0.5 * n_shards), every_entry, limit)
    search = run_search(query, shards, ["a"])
    assert_same(query, search, search_exact_sums(query, shards, ["a"]))
    rows, columns = search.found[0].positions
    assert (rows * side + columns).tolist() == won.tolist()
    assert search.entries == side * side
    assert search.exact < 0.02 * search.entries


def test_with_a_limit_few_of_many_large_entries_are_sent_in_full() -> None:
    rng = np.random.default_rng(0)
    shards = [Shard(({"a": rng.normal(size=(1, 100, 100))},)) for _ in range(6)]
    query = ThresholdQuery(summand, (), partial(beyond, 0.0), every_entry, 20)
    search = run_search(query, shards, ["a"])
    assert_same(query, search, search_exact_sums(query, shards, ["a"]))
    assert 20 <= search.exact < 0.01 * search.entries


def test_later_items_must_exceed_the_entries_of_earlier_ones() -> None:
    rng = np.random.default_rng(1)
    items = [chr(ord("c") + k) for k in range(8)]
    shards = [Shard(({item: rng.normal(size=(1, 30, 30)) for item in items},)) for _ in range(3)]
    query = ThresholdQuery(summand, (), partial(beyond, 0.0), every_entry, 10)
    search = run_search(query, shards, items, at_a_time=1)
    assert_same(query, search, search_exact_sums(query, shards, items))
    assert search.exact < 0.05 * search.entries


@pytest.mark.parametrize("first_checked", [1, 100])
@pytest.mark.parametrize("limit", [1, 7, 300, 5000])
def test_of_very_many_entries_the_largest_eligible_ones_are_kept(monkeypatch, limit, first_checked) -> None:
    monkeypatch.setattr(block_collection, "FIRST_CHECKED", first_checked)
    sums = np.random.default_rng(3).integers(-40, 90, (1, 60, 60)).astype(float)
    sums[0] += 1000.0 * np.eye(60)
    query = ThresholdQuery(summand, (), partial(beyond, 2.0), off_diagonal, limit)
    found = entries(select_top_entries(query, [find_large_entries(query, "a", sums)]))
    excess = np.where(np.eye(60) == 1.0, -1.0, np.abs(sums[0]) - 2.0)
    wanted = np.sort(excess[excess > 0.0])[-limit:]
    places = np.array([(row, column) for _, row, column in found])
    assert (excess[places[:, 0], places[:, 1]] > 0.0).all()
    assert {tuple(place) for place in np.argwhere(excess >= wanted[0]).tolist()} <= {tuple(p) for p in places.tolist()}
