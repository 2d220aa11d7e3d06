"""Completions of incomplete rows have their exact probabilities where all are enumerated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_fields import Small, latent_field, small_field

from sparsefield.inference.completions import Drawn, Enumerated, FieldWeights, complete_rows
from sparsefield.kernels.row_draws import row_keys

SEEDS = st.integers(0, 2**32 - 1)
NOTHING = np.empty((0, 0), dtype=np.int32)


def complete(small: Small, copies: int) -> tuple[Enumerated, Drawn, np.ndarray]:
    rows = np.arange(small.block.n_rows)
    keys = row_keys(0, 1, np.zeros_like(rows), rows)
    return complete_rows(FieldWeights.of(small.field), 0, small.block, copies, 1, keys, NOTHING)


def posterior(small: Small, row: int) -> dict[tuple[int, ...], float]:
    """Return the probability of every completion of a row by brute force, latent variables summed out."""
    n, found = len(small.field.schema.targets) - len(small.field.schema.latent), {}
    for assignment, p in small.slow.joint(small.codes(row), small.observed(row)).items():
        found[assignment[:n]] = found.get(assignment[:n], 0.0) + p
    return found


def check_enumerated(small: Small) -> None:
    """Compare all completions with brute force."""
    every, drawn, _ = complete(small, copies=10_000)
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
