"""Mean field converges to a fixed point of its updates, and no update raises the free energy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain import fill

from sparsefield.inference import MeanField


def filled(problem, method: MeanField):
    block = problem.table.blocks[0]
    block = block._replace(beliefs=block.beliefs.copy())
    unconverged = fill(problem.schema, [block], method, problem.graphs, problem.theta)
    return block.beliefs, unconverged


def cell_updates(problem, q, row):
    """Yield the belief of every missing cell of a row before and after an update."""
    for v, code in enumerate(row.codes):
        if code < 0:
            now = [q[s] for s in problem.slow.columns(v)]
            yield now, problem.slow.update(v, q)[1:]


@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([0.5, 2.0]))
def test_mean_field_ends_at_a_fixed_point(make_problem, seed, size) -> None:
    problem = make_problem(seed, missing=0.5, size=size)
    beliefs, unconverged = filled(problem, MeanField(tolerance=1e-10, max_sweeps=20000))
    assert unconverged == 0
    for i, row in enumerate(problem.rows):
        for now, then in cell_updates(problem, beliefs[:, i].tolist(), row):
            assert now == pytest.approx(then, abs=1e-7)


@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([0.5, 3.0, 15.0]))
def test_no_sweep_raises_the_free_energy(make_problem, seed, size) -> None:
    problem = make_problem(seed, missing=0.5, size=size)
    energies = [[problem.slow.free_energy(row.q) for row in problem.rows]]
    for sweeps in (1, 2, 5, 30):
        beliefs, _ = filled(problem, MeanField(tolerance=0.0, max_sweeps=sweeps))
        energies.append([problem.slow.free_energy(column) for column in beliefs.T.tolist()])
    assert (np.diff(energies, axis=0) <= 1e-9 * max(size, 1.0)).all()
