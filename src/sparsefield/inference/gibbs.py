"""Gibbs sampling: drawing hidden cells from the field."""

from __future__ import annotations

import numpy as np

from sparsefield.data import MegaSample
from sparsefield.engines import Threads
from sparsefield.field import Field
from sparsefield.inference.web import units, weave
from sparsefield.kernels.gaps import gibbs

__all__ = ["draw"]


def draw(field: Field, sample: MegaSample, *, sweeps: int, seed: int | None, engine: Threads) -> tuple[np.ndarray, ...]:
    """Table by table, (targets, rows) int32 codes after ``sweeps`` Gibbs sweeps over all gaps.

    Rows without links are chains of their own.
    """
    blocks = [[b._replace(codes=b.codes.copy()) for b in table.blocks] for table in sample.tables]
    together = units(sample, blocks)
    seeds = np.random.SeedSequence(seed).generate_state(max(1, len(together)))

    def one(k: int) -> None:
        woven = weave(sample, field.graphs, together[k])
        member, variable, row = woven.gap_cells
        drawn = np.zeros(len(row), dtype=np.int32)
        gibbs(woven.web, field.theta, int(seeds[k]), sweeps, drawn)
        ends = np.searchsorted(member, np.arange(len(together[k]) + 1))
        for (_, block), first, last in zip(together[k], ends[:-1], ends[1:], strict=True):
            block.codes[variable[first:last], row[first:last]] = drawn[first:last]

    engine.map(one, range(len(together)))
    return tuple(np.concatenate([block.codes for block in part], axis=1) for part in blocks)
