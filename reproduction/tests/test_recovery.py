"""Edges that were found beside edges that are there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduction.recovery import compare_edges, nodewise_strengths, strengths_of
from sparsefield import MarkovField
from sparsefield.app.datasets import make_markov_field


def symmetric(size: int, **edges: float) -> np.ndarray:
    """``symmetric(3, e01=2.0)`` has one edge."""
    out = np.zeros((size, size))
    for name, value in edges.items():
        a, b = int(name[1]), int(name[2])
        out[a, b] = out[b, a] = value
    return out


def test_found_and_true_edges_are_counted_by_hand() -> None:
    found = symmetric(4, e01=3.0, e02=2.0, e13=1.0)
    truth = symmetric(4, e01=1, e13=1, e23=1) > 0
    told = compare_edges(found, truth)
    assert told["edges"] == 3
    assert told["edge_precision"] == pytest.approx(2 / 3)
    assert told["edge_recall"] == pytest.approx(2 / 3)
    # Ranked: true, false, true, then three pairs at 0 of which one is true. Precision where recall grows: 1, 2/3, 3/6.
    assert told["edge_ap"] == pytest.approx((1 + 2 / 3 + 3 / 6) / 3)
    # Of 9 comparisons of a true with another pair the first wins 3, the third 2, and the one at 0 has two draws.
    assert told["edge_roc"] == pytest.approx((3 + 2 + 1) / 9)


def test_nothing_found() -> None:
    told = compare_edges(np.zeros((4, 4)), symmetric(4, e01=1) > 0)
    assert (told["edges"], told["edge_recall"], told["edge_roc"]) == (0, 0, 0.5)
    assert np.isnan(told["edge_precision"])
    assert told["edge_ap"] == pytest.approx(1 / 6)


def test_all_found() -> None:
    truth = symmetric(4, e01=1, e23=1) > 0
    assert set(compare_edges(1.0 * truth, truth).values()) == {2.0, 1.0}
    all_pairs = compare_edges(np.ones((4, 4)), truth)
    assert (all_pairs["edges"], all_pairs["edge_recall"], all_pairs["edge_precision"]) == (6, 1, pytest.approx(2 / 6))


def test_where_all_pairs_or_none_are_edges_there_is_nothing_to_rank() -> None:
    full = compare_edges(symmetric(3, e01=1.0), np.ones((3, 3)) > 0)
    assert full["edge_recall"] == pytest.approx(1 / 3)
    assert np.isnan([full["edge_ap"], full["edge_roc"]]).all()
    empty = compare_edges(symmetric(3, e01=1.0), np.zeros((3, 3)) > 0)
    assert empty["edge_precision"] == 0
    assert np.isnan([empty["edge_recall"], empty["edge_ap"], empty["edge_roc"]]).all()


@given(seed=st.integers(0, 2**32 - 1))
def test_edges_of_both_regressions_are_among_those_of_either(seed) -> None:
    rng = np.random.default_rng(seed)
    weights = np.where(rng.random((6, 6)) < 0.5, rng.normal(size=(6, 6)), 0.0)
    np.fill_diagonal(weights, 0.0)
    both, either = (nodewise_strengths(weights, both=both) for both in (True, False))
    for strengths in (both, either):
        assert np.array_equal(strengths, strengths.T)
    assert (both <= either).all()
    assert np.array_equal(both > 0, (weights != 0) & (weights.T != 0))
    assert np.array_equal(either > 0, (weights != 0) | (weights.T != 0))


def test_the_strength_of_an_edge_is_the_norm_of_its_weights() -> None:
    made = make_markov_field(6, 5, states=[2, 3, 2, 4, 2, 3], neighbors=3.0, burn_in=1, thin=1, seed=1)
    field = made.field.field_
    strengths, owner = strengths_of(field), field.schema.variable_of_column.tolist()
    assert np.array_equal(strengths > 0, made.edge_mask())
    for a, b in zip(*np.nonzero(strengths), strict=True):
        own = [
            w for (s, t), w in zip(field.pairs, field.weights, strict=True) if {owner[s], owner[t]} == {int(a), int(b)}
        ]
        assert strengths[a, b] == pytest.approx(np.linalg.norm(own))


def test_a_field_without_pairs_has_no_edges() -> None:
    field = MarkovField(l1=1e5, n_jobs=1).fit(np.random.default_rng(0).integers(0, 2, (30, 3))).field_
    assert not strengths_of(field).any()
