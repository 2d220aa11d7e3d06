"""A synthetic field has the requested structure and weights, and its rows follow its distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import SlowField
from scipy.stats import chi2

from sparsefield import FixedGraph, MarkovField
from sparsefield.app.datasets import SyntheticField, make_markov_field
from sparsefield.data.layout import are_valid_pairs

pytestmark = pytest.mark.grid(keep=2)

QUICK = {"burn_in": 20, "thin": 5}
FALSE_ALARM = 1e-6
"""Probability that a statistical test below fails for another seed although the code is correct."""


def slow(made: SyntheticField) -> SlowField:
    field = made.field.field_
    return SlowField(field.schema, field.biases, field.pairs, field.weights)


def same_field(one: SyntheticField, other: SyntheticField) -> bool:
    a, b = one.field.field_, other.field.field_
    arrays = ((a.biases, b.biases), (a.pairs, b.pairs), (a.weights, b.weights))
    return a.schema == b.schema and all(np.array_equal(*pair) for pair in arrays)


# -- seeds ---------------------------------------------------------------------------------------------------


def test_the_seed_determines_the_field_and_the_rows() -> None:
    one, same, other = (make_markov_field(12, 30, states=3, neighbors=3.0, **QUICK, seed=seed) for seed in (4, 4, 5))
    assert same_field(one, same)
    assert one.edges == same.edges
    assert one.samples.tobytes() == same.samples.tobytes()
    assert not same_field(one, other)
    assert one.edges != other.edges
    assert not np.array_equal(one.samples, other.samples)


def test_the_field_does_not_depend_on_how_rows_are_drawn() -> None:
    few = make_markov_field(12, 5, neighbors=3.0, **QUICK, seed=1)
    many = make_markov_field(12, 9, neighbors=3.0, **QUICK, seed=1)
    others = make_markov_field(12, 9, neighbors=3.0, burn_in=7, thin=1, chains=3, seed=1)
    assert same_field(few, many)
    assert same_field(few, others)
    assert np.array_equal(few.samples, many.samples[:5]), "a chain continues from its last state"
    assert not np.array_equal(many.samples, others.samples)


def test_threads_change_no_bit() -> None:
    made = [make_markov_field(6, 600, neighbors=2.0, chains=600, **QUICK, n_jobs=jobs) for jobs in (1, 2, 3)]
    assert len({one.samples.tobytes() for one in made}) == 1
    assert all(same_field(made[0], one) for one in made)


# -- structure and weights --------------------------------------------------------------------------------------


def test_edges_and_weights_follow_the_requested_distribution() -> None:
    nodes, wanted = 300, 6.0
    made = make_markov_field(nodes, 1, neighbors=wanted, weights=(-5.0, 3.0), biases=(1.0, 2.0), burn_in=1, seed=2)
    mask = made.edge_mask()
    assert np.array_equal(mask, mask.T)
    assert not mask.diagonal().any()
    assert mask.sum() == 2 * len(made.edges)
    # The number of edges is binomial; five standard deviations have a probability of one in two million.
    pairs, share = nodes * (nodes - 1) / 2, wanted / (nodes - 1)
    assert abs(len(made.edges) - pairs * share) < 5 * np.sqrt(pairs * share * (1 - share))
    field = made.field.field_
    for values, low, high in ((field.weights, -5.0, 3.0), (field.biases, 1.0, 2.0)):
        assert low <= values.min() < low + 0.05 * (high - low), "of 300 uniform numbers, one is this small"
        assert high - 0.05 * (high - low) < values.max() <= high
        assert abs(values.mean() - (low + high) / 2) < 5 * (high - low) / np.sqrt(12 * len(values))


def test_states_are_one_number_or_one_for_each_node() -> None:
    made = make_markov_field(5, 400, states=4, neighbors=2.0, weights=(-1.0, 1.0), **QUICK)
    assert made.samples.dtype == np.int64
    assert [sorted(set(column)) for column in made.samples.T.tolist()] == [[0, 1, 2, 3]] * 5
    counts = [2, 5, 3, 2, 4]
    made = make_markov_field(5, 400, states=counts, neighbors=2.0, weights=(-1.0, 1.0), **QUICK)
    assert made.field.states_ == {f"x{k}": list(range(count)) for k, count in enumerate(counts)}
    assert (made.samples.max(axis=0) + 1).tolist() == counts
    assert same_field(
        made, make_markov_field(5, 1, states=np.array(counts), neighbors=2.0, weights=(-1.0, 1.0), **QUICK)
    )


def test_fields_without_edges_and_with_all_edges() -> None:
    assert make_markov_field(6, 3, neighbors=0.0, **QUICK).edges == []
    assert len(make_markov_field(6, 3, neighbors=5.0, **QUICK).edges) == 15
    assert make_markov_field(1, 3, neighbors=0.0, **QUICK).samples.shape == (3, 1)


@pytest.mark.slow
def test_balanced_nodes_are_one_half_of_the_time_in_each_state() -> None:
    """Flipping all states changes nothing, so that each mean is exactly 1/2 for weights of any size."""
    small = make_markov_field(8, 1, neighbors=4.0, biases="balanced", **QUICK)
    assert np.allclose(slow(small).marginals((-1,) * 8), 0.5)
    options = {"neighbors": 5.0, "weights": (-1.0, 3.0), "chains": 1500, "burn_in": 100}
    means = {
        biases: make_markov_field(30, 1500, biases=biases, **options).samples.mean(axis=0)
        for biases in ("balanced", (0, 0))
    }
    # Five standard deviations of a mean of 1500: for 30 nodes, a probability of one in fifty thousand.
    assert np.abs(means["balanced"] - 0.5).max() < 2.5 / np.sqrt(1500)
    assert means[(0, 0)].mean() > 0.8
    assert means[(0, 0)].max() > 0.99


@given(
    counts=st.lists(st.integers(2, 4), min_size=1, max_size=7), share=st.floats(0.0, 1.0), seed=st.integers(0, 2**32)
)
def test_every_edge_has_a_weight_for_each_pair_of_states_but_the_reference(counts, share, seed) -> None:
    nodes = len(counts)
    made = make_markov_field(nodes, 1, states=counts, neighbors=share * (nodes - 1), burn_in=1, seed=seed)
    field = made.field.field_
    pairs, owner = field.pairs, field.schema.variable_of_column
    assert list(map(tuple, pairs.tolist())) == sorted(set(map(tuple, pairs.tolist())))
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert (owner[pairs[:, 0]] != owner[pairs[:, 1]]).all()
    found: dict[tuple[int, int], int] = {}
    for a, b in owner[pairs].tolist():
        found[a, b] = found.get((a, b), 0) + 1
    edges = [(int(a[1:]), int(b[1:])) for a, b in made.edges]
    assert found == {(a, b): (counts[a] - 1) * (counts[b] - 1) for a, b in edges}
    assert edges == sorted(set(edges))
    assert are_valid_pairs(field.layout, pairs)


# -- rows ------------------------------------------------------------------------------------------------


def pair_p_values(samples: np.ndarray, truth: SlowField) -> list[float]:
    """Return the p-value of a chi-squared test of the sample frequencies of every pair of nodes."""
    nodes = samples.shape[1]
    joint = truth.joint((-1,) * nodes)
    assignments, shares = np.array(list(joint)), np.array(list(joint.values()))
    p_values = []
    for a in range(nodes):
        for b in range(a):
            size = 1 + assignments[:, a].max()
            bins = int(size * (1 + assignments[:, b].max()))
            expected = np.bincount(assignments[:, a] + size * assignments[:, b], shares, bins) * len(samples)
            found = np.bincount(samples[:, a] + size * samples[:, b], minlength=bins)
            assert expected.min() > 5, "needed for the chi-squared approximation"
            p_values.append(float(chi2.sf(((found - expected) ** 2 / expected).sum(), bins - 1)))
    return p_values


@pytest.mark.parametrize("chains", [1, 40])
def test_frequencies_of_pairs_are_those_of_enumeration(chains: int) -> None:
    made = make_markov_field(
        6, 8000, states=[2, 3, 2, 4, 2, 3], neighbors=4.0, weights=(-1.5, 1.5), biases=(-0.5, 0.5),
        burn_in=200, thin=25, chains=chains, seed=3,
    )  # fmt: skip
    assert len(made.edges) > 6
    p_values = pair_p_values(made.samples, slow(made))
    assert min(p_values) > FALSE_ALARM / len(p_values)
    # A field with slightly different weights fails the test.
    field = made.field.field_
    other = SlowField(field.schema, field.biases, field.pairs, field.weights * 0.85)
    assert min(pair_p_values(made.samples, other)) < FALSE_ALARM / len(p_values)


def test_edges_can_be_given_as_the_graph_of_a_fit() -> None:
    made = make_markov_field(10, 400, neighbors=3.0, weights=(-2.0, 2.0), biases="balanced", **QUICK, seed=6)
    learned = MarkovField(induction=FixedGraph(edges=made.edges), l1=1.0, n_jobs=1).fit(made.samples)
    assert learned.converged_
    found = set(learned.edges_.select("variable_a", "variable_b").rows())
    assert found <= set(made.edges)
    assert len(found) > len(made.edges) / 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 0}, "nodes and rows must be at least 1, got 0 and 5"),
        ({"states": 1}, "states must be an integer of at least 2.*got 1"),
        ({"states": [2, 3]}, "10 of them, one for each node; got .2, 3."),
        ({"states": 2.5}, "states must be an integer"),
        ({"neighbors": 9.5}, "neighbors must be between 0 and 9"),
        ({"weights": (2.0, 1.0)}, "weights must be a pair of finite numbers, the smaller first"),
        ({"weights": 5.0}, "weights must be a pair of finite numbers.*got 5.0"),
        ({"biases": "even"}, "biases must be 'balanced' or a pair of finite numbers.*got 'even'"),
        ({"burn_in": 0}, "burn_in must be a whole number of at least 1, got 0"),
        ({"thin": 0}, "thin must be a whole number of at least 1, got 0"),
        ({"chains": 0}, "chains must be a whole number of at least 1, got 0"),
    ],
)
def test_invalid_arguments_are_refused(options: dict, message: str) -> None:
    options = {"nodes": 10, "rows": 5, "neighbors": 2.0, **QUICK, **options}
    with pytest.raises(ValueError, match=message):
        make_markov_field(options.pop("nodes"), options.pop("rows"), **options)
