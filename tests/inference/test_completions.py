"""Completions of incomplete rows have their exact probabilities where all are enumerated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_fields import Small, latent_field, small_field

from sparsefield.compute import Threads
from sparsefield.data import Block, Table
from sparsefield.inference.completions import Drawn, Draws, Enumerated, FieldWeights, complete_rows
from sparsefield.kernels.row_draws import row_keys
from sparsefield.objectives import EM
from sparsefield.objectives.training_rows import CompletedRows

SEEDS = st.integers(0, 2**32 - 1)
NOTHING = np.empty((0, 0), dtype=np.int32)


def complete(small: Small, draws: Draws, before: np.ndarray = NOTHING) -> tuple[Enumerated, Drawn, np.ndarray]:
    rows = np.arange(small.block.n_rows)
    keys = row_keys(0, 1, np.zeros_like(rows), rows)
    return complete_rows(FieldWeights.of(small.field), 0, small.block, draws, keys, before)


def posterior(small: Small, row: int) -> dict[tuple[int, ...], float]:
    """Return the probability of every completion of a row by brute force, latent variables summed out."""
    n, found = len(small.field.schema.targets) - len(small.field.schema.latent), {}
    for assignment, p in small.slow.joint(small.codes(row), small.observed(row)).items():
        found[assignment[:n]] = found.get(assignment[:n], 0.0) + p
    return found


def check_enumerated(small: Small) -> None:
    """Compare all completions with brute force."""
    every, drawn, _ = complete(small, Draws(copies=2, max_enumerated=10_000, sweeps=1))
    assert not len(drawn.rows)
    visible = len(small.field.schema.targets) - len(small.field.schema.latent)
    incomplete = np.flatnonzero((small.block.codes[:visible] < 0).any(axis=0))
    assert np.array_equal(np.unique(every.owner), incomplete)
    assert (every.codes[visible:] == -1).all()
    for row in incomplete:
        mine = np.flatnonzero(every.owner == row)
        assert every.weight[mine].sum() == pytest.approx(1.0, abs=1e-6)
        found = {tuple(every.codes[:visible, c].tolist()): float(every.weight[c]) for c in mine}
        assert len(found) == len(mine), "no completion is there twice"
        for assignment, p in posterior(small, row).items():
            assert found.get(assignment, 0.0) == pytest.approx(p, abs=2e-9)


@given(seed=SEEDS, triples=st.sampled_from([0, 4]), size=st.sampled_from([0.5, 3.0]))
def test_enumerated_completions_have_their_exact_posterior(seed, triples, size) -> None:
    check_enumerated(small_field(seed, structure="all", triples=triples, size=size, rows=8, missing=0.5))


@given(seed=SEEDS)
def test_latent_variables_are_summed_out_of_enumerated_completions(seed) -> None:
    check_enumerated(latent_field(seed, rows=8, missing=0.5))


# -- the rows that an objective is evaluated on ------------------------------------------------------------------


def completed(small: Small, copies: int) -> Block:
    """Return the completed rows of a table of one block."""
    with Threads(1) as engine:
        rows = CompletedRows(small.sample, engine, EM())
        rows.draw(FieldWeights.of(small.field), copies, sweeps=1)
        (block,) = (part.block for part in rows.rows.map(lambda part: part))
    return block


def repeated(small: Small, times: int) -> Small:
    """Return the same rows several times, so that many completed rows are equal; weights are 1, 2, 3, ..."""
    block, n = small.block, small.block.n_rows
    codes = np.tile(block.codes, times)
    variable, missing_rows = np.nonzero(codes < 0)
    block = block._replace(
        codes=codes,
        beliefs=np.tile(block.beliefs, times),
        weight=np.arange(1.0, n * times + 1.0),
        cell_offsets=np.searchsorted(variable, np.arange(len(codes) + 1)),
        missing_rows=missing_rows,
    )
    return Small(small.field, Table(small.field.schema, (block,), n * times), small.slow)


def test_completed_rows_have_the_expected_moments() -> None:
    """The weighted mean of a state over completed rows is the sum of its exact marginals."""
    small = repeated(small_field(2, structure="all", rows=12, missing=0.4), 3)
    block = completed(small, 10_000)
    found = block.beliefs[: small.field.schema.n_target_columns] @ block.weight
    wanted = np.zeros(small.field.schema.n_target_columns)
    for row in range(small.block.n_rows):
        exact = small.slow.marginals(small.codes(row), small.observed(row))
        wanted += small.block.weight[row] * np.concatenate([p[1:] for p in exact])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert set(np.unique(block.beliefs[: small.field.schema.n_target_columns])) == {0.0, 1.0}
