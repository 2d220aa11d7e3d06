"""Missing cells are inferred and drawn with features of three or more columns, as plain loops and enumeration do."""

from __future__ import annotations

import numpy as np
import pytest
from higher import with_conjunctions
from hypothesis import given
from hypothesis import strategies as st
from plain import fill

from sparsefield.compute import Threads
from sparsefield.data import Dataset, Source, compile_table
from sparsefield.inference import MeanField, draw


def filled(problem, method: MeanField) -> np.ndarray:
    block = problem.plain.table.blocks[0]
    block = block._replace(beliefs=block.beliefs.copy())
    fill(problem.schema, [block], method, problem.field.graphs, problem.field.theta)
    return block.beliefs


@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([0.5, 2.0]))
def test_one_sweep_of_mean_field_is_that_of_the_oracle(make_problem, seed, size) -> None:
    problem = with_conjunctions(make_problem(seed, missing=0.5), seed, size=size)
    beliefs = filled(problem, MeanField(tolerance=0.0, max_sweeps=1))
    for i, row in enumerate(problem.rows):
        np.testing.assert_allclose(beliefs[:, i], problem.slow.mean_field(row, sweeps=1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("given_values", [{}, {1: 2.0}])
def test_draws_have_the_exact_joint_distribution(make_problem, given_values) -> None:
    small = make_problem(1, states=(2, 3, 2), observed_states=(), numbers=1, missing=0.0, size=0.5)
    problem = with_conjunctions(small, 1, size=0.9)
    count, row = 6000, np.array([np.nan, np.nan, np.nan, 0.7])
    for column, value in given_values.items():
        row[column] = value
    source = Source(problem.schema.order, count, "array", np.tile(row, (count, 1)))
    table = compile_table(source, problem.schema)
    with Threads(1) as engine:
        ((codes,),) = draw(problem.field, Dataset.single(table), sweeps=30, seed=1, engine=engine)
    block = table.blocks[0]
    joint = problem.slow.joint(block.codes[:, 0].tolist(), block.beliefs[problem.schema.n_target_columns :, 0].tolist())
    counts = dict.fromkeys(joint, 0)
    for assignment in map(tuple, codes.T.tolist()):
        counts[assignment] += 1
    common = [assignment for assignment, p in joint.items() if p * count >= 5]
    chi = sum(
        (counts[assignment] - joint[assignment] * count) ** 2 / (joint[assignment] * count) for assignment in common
    )
    degrees = len(common) - 1
    assert degrees >= 2
    assert chi < degrees + 4.5 * np.sqrt(2 * degrees)
