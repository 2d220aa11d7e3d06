"""Adjacency: a pair of targets has arcs to both ends, a pair with an observed column only to its target."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sparsefield.model import Field, compile_adjacency


@given(seed=st.integers(0, 2**32 - 1), share=st.sampled_from([0.0, 0.3, 1.0]))
def test_arcs_lead_from_every_source_to_every_target_once(make_problem, seed, share) -> None:
    problem = make_problem(seed, share=share)
    n = problem.schema.n_target_columns
    order = np.random.default_rng(seed).permutation(len(problem.pairs))
    pairs = problem.pairs[order]
    (graph,) = compile_adjacency(problem.layout, problem.layout.arcs(pairs))
    expected = set()
    for f, (a, b) in enumerate(pairs.tolist()):
        expected.add((a, b, n + f))
        if b < n:
            expected.add((b, a, n + f))
    found = [
        (state, int(graph.arc_source[k]), int(graph.arc_feature[k]))
        for state in range(n)
        for k in range(graph.arc_offsets[state], graph.arc_offsets[state + 1])
    ]
    assert len(found) == len(graph.arc_source) == len(expected)
    assert set(found) == expected
    assert [arc[:2] for arc in found] == sorted(arc[:2] for arc in found)
    assert graph.widest == max(v.width for v in problem.schema.targets)


def test_theta_is_biases_then_pair_weights(make_problem) -> None:
    problem = make_problem(1)
    n = problem.schema.n_target_columns
    field = Field(problem.layout, problem.theta[:n], problem.pairs, problem.theta[n:])
    assert np.array_equal(field.theta, problem.theta)
    (graph,) = field.graphs
    assert graph.arc_offsets[-1] == len(graph.arc_source)
