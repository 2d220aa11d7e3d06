"""Sums along the tree of additions have the same bits, on any workers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsefield.compute.dask_engine import combine_values, sum_shard, update_shard
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


@given(st.lists(NUMBERS, min_size=1, max_size=40), st.integers(0, 4))
def test_values_of_updates_are_combined_along_the_tree(values, level) -> None:
    length = 2**level
    shards = [(values[k : k + length], None) for k in range(0, len(values), length)]
    updated = [update_shard(shard, None, plus, lambda block: (-block, block)) for shard in shards]
    assert [block for blocks, _ in updated for block in blocks] == [-value for value in values]
    assert combine_values([value for _, value in updated], plus) == tree_sum(values)
    assert combine_values([sum_shard(shard, abs) for shard in shards], plus) == tree_sum(map(abs, values))


def test_the_order_of_neighbors_is_kept() -> None:
    words = [chr(ord("a") + k) for k in range(11)]
    assert tree_sum(words) == "abcdefghijk"
    assert combine_values(words, plus) == "abcdefghijk"


def test_an_empty_sum_is_none() -> None:
    assert tree_sum([]) is None
    assert combine_values([], plus) is None
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
