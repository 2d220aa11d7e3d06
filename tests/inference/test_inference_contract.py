"""What every inference method must hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain import fill

from sparsefield.inference import INFERENCE


def filled(problem, name: str):
    block = problem.table.blocks[0]
    block = block._replace(beliefs=block.beliefs.copy())
    left = fill(problem.schema, [block], INFERENCE[name](), problem.graphs, problem.theta)
    return block, left


@pytest.mark.parametrize("name", INFERENCE)
@given(seed=st.integers(0, 2**32 - 1), gaps=st.sampled_from([0.2, 0.6]), size=st.sampled_from([0.3, 2.0, 20.0]))
def test_seen_and_observed_cells_stay_and_gaps_hold_probabilities(make_problem, name, seed, gaps, size) -> None:
    problem = make_problem(seed, gaps=gaps, size=size)
    before = problem.table.blocks[0]
    block, left = filled(problem, name)
    offsets = problem.schema.state_offsets
    assert 0 <= left <= block.n_rows
    assert np.array_equal(block.beliefs[problem.schema.n_states :], before.beliefs[problem.schema.n_states :])
    for v in range(len(problem.schema.targets)):
        states = slice(offsets[v], offsets[v + 1])
        seen = block.codes[v] >= 0
        assert np.array_equal(block.beliefs[states][:, seen], before.beliefs[states][:, seen])
        gap = block.beliefs[states][:, ~seen]
        assert (gap >= 0).all()
        assert (gap.sum(axis=0) <= 1 + 1e-12).all()


@pytest.mark.parametrize("name", INFERENCE)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_row_does_not_depend_on_the_rows_beside_it(make_problem, name, seed) -> None:
    problem = make_problem(seed, gaps=0.4, size=2.0)
    together, _ = filled(problem, name)
    graphs = problem.graphs
    whole = problem.table.blocks[0]
    for row in range(whole.n_rows):
        codes = np.ascontiguousarray(whole.codes[:, [row]])
        gap_variable, gap_rows = np.nonzero(codes < 0)
        alone = whole._replace(
            codes=codes,
            beliefs=np.ascontiguousarray(whole.beliefs[:, [row]]),
            weight=whole.weight[[row]],
            gap_offsets=np.searchsorted(gap_variable, np.arange(len(codes) + 1)),
            gap_rows=gap_rows,
        )
        fill(problem.schema, [alone], INFERENCE[name](), graphs, problem.theta)
        assert np.array_equal(alone.beliefs[:, 0], together.beliefs[:, row])


@pytest.mark.parametrize("name", INFERENCE)
def test_independent_variables_get_their_exact_marginals(make_problem, name) -> None:
    problem = make_problem(1, gaps=0.4, share=0.0)
    block, left = filled(problem, name)
    assert left == 0
    for i, row in enumerate(problem.rows):
        exact = problem.slow.marginals(row.codes, row.q[problem.schema.n_states :])
        for v, code in enumerate(row.codes):
            if code < 0:
                found = [block.beliefs[s, i] for s in problem.slow.columns(v)]
                assert found == pytest.approx(exact[v][1:], abs=1e-9)


@pytest.mark.parametrize("name", INFERENCE)
def test_a_single_gap_gets_its_exact_conditional(make_problem, name) -> None:
    """With everything else seen, mean field is exact."""
    problem = make_problem(2, gaps=0.12, size=1.5)
    block, _ = filled(problem, name)
    singles = [(i, row) for i, row in enumerate(problem.rows) if sum(code < 0 for code in row.codes) == 1]
    assert singles
    for i, row in singles:
        v = row.codes.index(-1)
        exact = problem.slow.conditional(v, row.codes, row.q[problem.schema.n_states :])
        assert [block.beliefs[s, i] for s in problem.slow.columns(v)] == pytest.approx(exact[1:], abs=1e-9)
