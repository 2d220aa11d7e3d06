"""Sums along the tree of additions have the same bits, on any workers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsefield.compute.dask_worker import Shard, _merge_neighbors, map_update, merge_root, sum_blocks
from sparsefield.compute.tree_sum import SumTree, plus, tree_sum

NUMBERS = st.floats(-1e20, 1e20, allow_subnormal=True)


def pairwise(values: list) -> object:
    """Add along the tree as documented: neighbors first, a value without a neighbor moves up one level."""
    while len(values) > 1:
        pairs = [plus(*values[k : k + 2]) if k + 1 < len(values) else values[k] for k in range(0, len(values), 2)]
        values = pairs
    return values[0]


@given(st.lists(NUMBERS, min_size=1, max_size=70))
def test_neighbors_are_added_first(values) -> None:
    assert tree_sum(values) == pairwise(values)


@given(st.lists(NUMBERS, min_size=1, max_size=70), st.integers(0, 5))
def test_aligned_runs_are_subtrees(values, level) -> None:
    length = 2**level
    runs = [tree_sum(values[k : k + length]) for k in range(0, len(values), length)]
    assert tree_sum(runs) == tree_sum(values)


@given(st.lists(NUMBERS, min_size=1, max_size=70), st.data())
def test_any_assignment_of_shards_to_workers_gives_the_same_bits(values, data) -> None:
    length = 2 ** data.draw(st.integers(0, 4))
    shards = [Shard(tuple(values[k : k + length])) for k in range(0, len(values), length)]
    owner = data.draw(st.lists(st.integers(0, 4), min_size=len(shards), max_size=len(shards)))
    found: dict = {}
    for worker in data.draw(st.permutations(range(5))):
        mine = {(0, k): sum_blocks(shards[k], abs) for k in range(len(shards)) if owner[k] == worker}
        sent = _merge_neighbors(dict(mine), plus, len(shards))
        assert len(sent) <= len(mine)
        found |= sent
    assert merge_root(found, plus, len(shards)) == tree_sum([abs(value) for value in values])


@given(st.lists(NUMBERS, min_size=1, max_size=40), st.integers(0, 4))
def test_values_of_updates_are_combined_along_the_tree(values, level) -> None:
    length = 2**level
    shards = [Shard(tuple(values[k : k + length])) for k in range(0, len(values), length)]
    made = [map_update(shard, None, plus, lambda block: (-block, block)) for shard in shards]
    assert [block for shard in made for block in shard.blocks] == [-value for value in values]
    assert merge_root({(0, k): shard.value for k, shard in enumerate(made)}, plus, len(made)) == tree_sum(values)


def test_workers_merge_their_shards_into_as_few_nodes_as_possible() -> None:
    assert set(_merge_neighbors({(0, k): 1.0 for k in range(7)}, plus, 7)) == {(3, 0)}
    # 4 to 6 are the right half of the tree; 1 waits for its neighbor.
    assert set(_merge_neighbors({(0, k): 1.0 for k in (1, 4, 5, 6)}, plus, 7)) == {(0, 1), (2, 1)}


def test_the_order_of_neighbors_is_kept() -> None:
    words = [chr(ord("a") + k) for k in range(11)]
    assert tree_sum(words) == "abcdefghijk"
    assert merge_root({(0, k): word for k, word in reversed(list(enumerate(words)))}, plus, 11) == "abcdefghijk"


def test_an_empty_sum_is_none() -> None:
    assert tree_sum([]) is None
    assert merge_root({}, plus, 0) is None
    assert tree_sum([None, None, None]) is None
    assert tree_sum([None, 2.0, None, 3.0]) == 5.0


def test_tuples_are_added_element_by_element_and_a_single_value_is_not_copied() -> None:
    found = tree_sum([(np.ones(2), None), (np.ones(2), 3.0), (np.ones(2), 4.0)])
    assert found[0].tolist() == [3.0, 3.0]
    assert found[1] == 7.0
    alone = np.ones(3)
    assert tree_sum([alone]) is alone


@pytest.mark.parametrize("count", [1, 2, 3, 8, 100])
def test_a_tree_keeps_at_most_one_partial_sum_per_level(count) -> None:
    tree = SumTree()
    for k in range(count):
        tree.push(1.0)
        assert len(tree._partial) == (k + 1).bit_count()
    assert tree.total() == count
