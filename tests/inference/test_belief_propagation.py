"""Belief propagation is exact on trees, reaches its fixed point elsewhere, and reports where it does not converge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from small_fields import slow_of, small_field

from sparsefield import BeliefPropagation, ExactInference, MarkovField
from sparsefield.compute import Threads
from sparsefield.inference import infer

SEEDS = st.integers(0, 2**32 - 1)


@given(
    seed=SEEDS,
    states=st.lists(st.integers(2, 4), min_size=3, max_size=6),
    size=st.sampled_from([0.5, 2.0, 15.0]),
    damping=st.sampled_from([0.0, 0.5]),
)
def test_beliefs_on_trees_are_exact(seed, states, size, damping) -> None:
    small = small_field(seed, states=states, structure="tree", size=size, rows=3, missing=0.9)
    answers = small.infer(BeliefPropagation(damping=damping))
    assert answers.unconverged == 0
    assert small.worst(answers.marginals[0]) < 1e-8


@given(seed=SEEDS, chained=st.booleans())
def test_conjunctions_that_form_a_tree_are_exact(seed, chained) -> None:
    """Two tables share one cell: v0 v1 v2 and v2 v3 v4, with pairs inside each."""
    small = small_field(seed, states=(2, 3, 2, 3, 2), structure="none", rows=3, missing=0.9)
    rng, offsets = np.random.default_rng(seed), small.field.schema.offsets
    first = [offsets[v] for v in range(5)]
    triples = [(first[0], first[1], first[2]), (first[0], first[1] + 1, first[2]), (first[2], first[3] + 1, first[4])]
    pairs = [(first[0], first[1]), (first[1] + 1, first[2]), (first[3], first[4])]
    if not chained:
        triples, pairs = triples[:2], [*pairs[:2], (first[2], first[3]), (first[3], first[4])]
    field = replace(
        small.field,
        pairs=np.array(pairs),
        weights=rng.normal(scale=2.0, size=len(pairs)),
        conjunctions=np.array(triples),
        conjunction_weights=rng.normal(scale=2.0, size=len(triples)),
    )
    small = replace(small, field=field, slow=slow_of(field))
    assert small.worst(small.infer(BeliefPropagation()).marginals[0]) < 1e-8
    assert small.worst(small.infer(ExactInference()).marginals[0]) < 1e-10


@given(seed=SEEDS, damping=st.sampled_from([0.0, 0.1, 0.6]))
def test_weak_loops_are_nearly_exact(seed, damping) -> None:
    small = small_field(seed, structure="loop", size=0.5, rows=3, missing=1.0)
    answers = small.infer(BeliefPropagation(damping=damping))
    assert answers.unconverged == 0
    assert small.worst(answers.marginals[0]) < 0.03


def frustrated(weight: float) -> MarkovField:
    """Return a field over five binary columns that prefer to differ pairwise."""
    small = small_field(0, states=(2,) * 5, structure="all", rows=1, missing=1.0)
    targets = small.field.pairs[:, 1] < 5
    pairs, weights = small.field.pairs[targets], np.full(int(targets.sum()), -weight)
    biases = 2.0 * weight + np.linspace(-0.2, 0.2, 5)
    return MarkovField.from_field(replace(small.field, biases=biases, pairs=pairs, weights=weights))


def test_rows_that_do_not_converge_are_reported() -> None:
    field = frustrated(30.0)
    X = np.full((7, 6), np.nan)
    X[4:, :4] = 1.0  # a single missing cell is no loop
    X[:, 5] = 0.0
    field.inference = BeliefPropagation(damping=0.0, max_updates=50)
    with pytest.warns(ConvergenceWarning, match=r"in 4 of 7 rows.*BeliefPropagation\(max_updates=\.\.\., damping"):
        found = field.predict_proba(X)
    assert all(np.isfinite(p).all() for p in found.values())


def test_long_chains_and_wide_stars_are_exact() -> None:
    for structure in ("chain", "star"):
        small = small_field(2, states=(2,) * 300, structure="none", rows=1, missing=1.0)
        rng = np.random.default_rng(0)
        pairs = [(k if structure == "chain" else 0, k + 1) for k in range(299)]
        field = replace(small.field, pairs=np.array(pairs), weights=rng.normal(scale=3.0, size=299))
        with Threads(1) as engine:
            exact, found = (infer(field, small.sample, m, engine) for m in (ExactInference(), BeliefPropagation()))
        assert found.unconverged == 0
        np.testing.assert_allclose(found.marginals[0], exact.marginals[0], rtol=0, atol=1e-9)
