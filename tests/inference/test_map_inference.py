"""The most probable joint states are those that enumeration finds; a search never claims more than it has."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_fields import Small, slow_of, small_field

from sparsefield.compute import Threads
from sparsefield.data import Dataset
from sparsefield.inference.automatic import MAPResult, complete

SEEDS = st.integers(0, 2**32 - 1)
STRUCTURES = st.sampled_from(["tree", "loop", "all"])


def completed(small: Small, threads: int = 1, **options) -> MAPResult:
    with Threads(threads) as engine:
        return complete(small.field, small.sample, engine, **options)


def probabilities(small: Small, found: MAPResult) -> list[tuple[float, float]]:
    """Return, for each row, the probability of the result, and that of the best assignment."""
    out = []
    for row in range(small.table.n_rows):
        joint = small.slow.joint(small.codes(row), small.observed(row))
        codes = tuple(found.codes[0][:, row].tolist())
        assert codes in joint, "observed cells stay"
        out.append((joint[codes], max(joint.values())))
    return out


@given(seed=SEEDS, structure=STRUCTURES, size=st.sampled_from([0.5, 3.0, 15.0]), triples=st.sampled_from([0, 5]))
def test_the_result_is_the_most_probable_assignment(seed, structure, size, triples) -> None:
    small = small_field(seed, structure=structure, size=size, triples=triples, rows=4)
    found = completed(small)
    assert found.exact[0].all()
    for found_probability, best in probabilities(small, found):
        assert found_probability == pytest.approx(best, rel=1e-9)


@given(seed=SEEDS, structure=STRUCTURES, size=st.sampled_from([0.5, 3.0]))
def test_a_search_is_marked_and_finds_the_optimum_of_small_fields(seed, structure, size) -> None:
    small = small_field(seed, structure=structure, size=size, triples=3, rows=4)
    found = completed(small, max_cells=1)
    missing = (small.table.codes() < 0).any(axis=0)
    assert np.array_equal(found.exact[0], ~missing)
    for found_probability, best in probabilities(small, found):
        # Fields of five columns have few modes, so that the search must find the best one.
        assert found_probability == pytest.approx(best, rel=1e-9)


def test_the_joint_maximum_may_differ_from_the_maximum_of_each_marginal() -> None:
    """The first of three states has the largest marginal, but the most probable pair has another one."""
    small = small_field(0, states=(3, 3), structure="all", rows=1, missing=1.0)
    joint = np.array([[0.0, 0.2, 0.2], [0.3, 0.0, 0.0], [0.0, 0.15, 0.15]]) + 1e-9
    logs = np.log(joint / joint[0, 0])
    targets = small.field.pairs[:, 1] < 4
    pairs = small.field.pairs[targets]
    biases = np.concatenate([logs[1:, 0], logs[0, 1:]])
    weights = np.array([logs[a + 1, b - 1] - logs[a + 1, 0] - logs[0, b - 1] for a, b in pairs])
    field = type(small.field)(small.field.layout, biases, pairs, weights)
    small = Small(field, small.table, slow_of(field))
    assert small.slow.marginals((-1, -1), small.observed(0))[0][0] == pytest.approx(0.4, abs=1e-6)
    assert completed(small).codes[0][:, 0].tolist() == [1, 0]
    assert completed(small, max_cells=1).codes[0][:, 0].tolist() == [1, 0]


def test_threads_change_no_bit() -> None:
    small = small_field(9, structure="all", rows=300, missing=0.5)
    assert len(small.table.blocks) > 1
    for cells in (2**20, 1):
        one, other = (completed(small, threads, max_cells=cells) for threads in (1, 3))
        assert np.array_equal(one.codes[0], other.codes[0])


def test_rows_without_missing_cells_are_certain() -> None:
    small = small_field(2, rows=5, missing=0.0)
    found = completed(small)
    assert np.array_equal(found.codes[0], small.table.codes())
    assert found.exact[0].all()
    assert not Dataset.single(small.table).has_missing
