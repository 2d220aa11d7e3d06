"""Gibbs sampling: drawing the hidden cells of rows from the field."""

from __future__ import annotations

import numpy as np

from sparsefield.data import Table
from sparsefield.engines import Threads
from sparsefield.field import Field
from sparsefield.kernels.gaps import gibbs

__all__ = ["draw"]


def draw(field: Field, table: Table, *, sweeps: int, seed: int | None, engine: Threads) -> np.ndarray:
    """(targets, rows) int32 codes: each row's gaps after ``sweeps`` Gibbs sweeps, an independent chain per row."""
    seeds = np.random.SeedSequence(seed).generate_state(len(table.blocks))

    def one(k: int) -> np.ndarray:
        block = table.blocks[k]
        beliefs, codes = block.beliefs.copy(), block.codes.copy()
        gibbs(block, field.graph, field.theta, beliefs, codes, int(seeds[k]), sweeps)
        return codes

    return np.concatenate(engine.map(one, range(len(table.blocks))), axis=1)
