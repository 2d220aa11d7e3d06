"""Gibbs sampling: drawing hidden cells from the field."""

from __future__ import annotations

import numpy as np

from sparsefield.data import Block, MegaSample
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
        _write(together[k], member, variable, row, drawn)

    engine.map(one, range(len(together)))
    return tuple(np.concatenate([block.codes for block in part], axis=1) for part in blocks)


def _write(
    members: list[tuple[int, Block]], member: np.ndarray, variable: np.ndarray, row: np.ndarray, drawn: np.ndarray
) -> None:
    for k, (_, block) in enumerate(members):
        here = member == k
        block.codes[variable[here], row[here]] = drawn[here]
