"""The tree of additions: whoever adds what, the bits are the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsefield.compute.dask_worker import Shard, _climb, add, root, turn
from sparsefield.compute.tree_sum import Tree, plus, total

NUMBERS = st.floats(-1e20, 1e20, allow_subnormal=True)


def pairwise(values: list) -> object:
    """The tree as its description says it: neighbors first, what is left over goes up a level."""
    while len(values) > 1:
        pairs = [plus(*values[k : k + 2]) if k + 1 < len(values) else values[k] for k in range(0, len(values), 2)]
        values = pairs
    return values[0]


@given(st.lists(NUMBERS, min_size=1, max_size=70))
def test_neighbors_are_added_first(values) -> None:
    assert total(values) == pairwise(values)


@given(st.lists(NUMBERS, min_size=1, max_size=70), st.integers(0, 5))
def test_aligned_runs_may_be_added_anywhere(values, level) -> None:
    length = 2**level
    runs = [total(values[k : k + length]) for k in range(0, len(values), length)]
    assert total(runs) == total(values)


@given(st.lists(NUMBERS, min_size=1, max_size=70), st.data())
def test_any_workers_with_any_shards_come_to_the_same_bits(values, data) -> None:
    length = 2 ** data.draw(st.integers(0, 4))
    shards = [Shard(tuple(values[k : k + length])) for k in range(0, len(values), length)]
    owner = data.draw(st.lists(st.integers(0, 4), min_size=len(shards), max_size=len(shards)))
    told: dict = {}
    for worker in data.draw(st.permutations(range(5))):
        mine = {(0, k): add(shards[k], abs) for k in range(len(shards)) if owner[k] == worker}
        sent = _climb(dict(mine), plus, len(shards))
        assert len(sent) <= len(mine)
        told |= sent
    assert root(told, plus, len(shards)) == total([abs(value) for value in values])


@given(st.lists(NUMBERS, min_size=1, max_size=40), st.integers(0, 4))
def test_what_makings_bring_is_put_together_alike(values, level) -> None:
    length = 2**level
    shards = [Shard(tuple(values[k : k + length])) for k in range(0, len(values), length)]
    made = [turn(shard, None, plus, lambda part: (-part, part)) for shard in shards]
    assert [part for shard in made for part in shard.parts] == [-value for value in values]
    assert root({(0, k): shard.value for k, shard in enumerate(made)}, plus, len(made)) == total(values)


def test_a_worker_with_all_shards_tells_one_thing_and_others_as_few_as_can_be() -> None:
    assert set(_climb({(0, k): 1.0 for k in range(7)}, plus, 7)) == {(3, 0)}
    # 4 to 6 are the right half of the tree; 1 waits for its neighbor.
    assert set(_climb({(0, k): 1.0 for k in (1, 4, 5, 6)}, plus, 7)) == {(0, 1), (2, 1)}


def test_the_order_of_neighbors_is_kept() -> None:
    words = [chr(ord("a") + k) for k in range(11)]
    assert total(words) == "abcdefghijk"
    assert root({(0, k): word for k, word in reversed(list(enumerate(words)))}, plus, 11) == "abcdefghijk"


def test_nothing_adds_up_to_nothing() -> None:
    assert total([]) is None
    assert root({}, plus, 0) is None
    assert total([None, None, None]) is None
    assert total([None, 2.0, None, 3.0]) == 5.0


def test_tuples_are_added_place_by_place_and_a_lone_value_is_handed_on() -> None:
    found = total([(np.ones(2), None), (np.ones(2), 3.0), (np.ones(2), 4.0)])
    assert found[0].tolist() == [3.0, 3.0]
    assert found[1] == 7.0
    alone = np.ones(3)
    assert total([alone]) is alone


@pytest.mark.parametrize("count", [1, 2, 3, 8, 100])
def test_a_tree_holds_one_value_for_each_level_at_most(count) -> None:
    tree = Tree()
    for k in range(count):
        tree.push(1.0)
        assert len(tree._held) == (k + 1).bit_count()
    assert tree.total() == count
