"""Gibbs sampling: drawing hidden cells from the field."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock

import numpy as np

from sparsefield.data import MegaSample
from sparsefield.engines import Threads
from sparsefield.field import Field
from sparsefield.inference.web import units, weave
from sparsefield.kernels.gaps import gibbs

__all__ = ["draw", "draw_often"]

CELLS_AT_A_TIME = 5_000_000
"""Cells that are drawn before a chain can be interrupted, and tells how far it is."""


def draw(
    field: Field,
    sample: MegaSample,
    *,
    sweeps: int,
    seed: int | None,
    engine: Threads,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[np.ndarray, ...]:
    """Table by table, (targets, rows) int32 codes after ``sweeps`` Gibbs sweeps over all gaps."""
    often = draw_often(field, sample, count=1, sweeps=sweeps, thin=0, seed=seed, engine=engine, progress=progress)
    return tuple(codes[0] for codes in often)


def draw_often(
    field: Field,
    sample: MegaSample,
    *,
    count: int,
    sweeps: int,
    thin: int,
    seed: int | None,
    engine: Threads,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[np.ndarray, ...]:
    """Table by table, (count, targets, rows) int32 codes: the first after ``sweeps`` sweeps, each other ``thin`` later.

    Rows without links are chains of their own. ``progress`` hears of sweeps done, and of how many there are.
    """
    blocks = [table.blocks for table in sample.tables]
    found = [np.stack([np.concatenate([b.codes for b in part], axis=1)] * count) for part in blocks]
    together = units(sample, blocks)
    seeds = np.random.SeedSequence(seed).spawn(len(together))
    lengths = [sweeps] + [thin] * (count - 1)
    done, lock, stopped = 0, Lock(), Event()

    def tell(more: int) -> None:
        nonlocal done
        with lock:
            done += more
            if progress is not None:
                progress(done, len(together) * sum(lengths))

    def one(k: int) -> None:
        try:
            run(k)
        except BaseException:
            stopped.set()
            raise

    def run(k: int) -> None:
        woven, rng = weave(sample, field.graphs, together[k]), np.random.default_rng(seeds[k])
        member, variable, row = woven.gap_cells
        drawn = np.zeros(len(row), dtype=np.int32)
        ends = np.searchsorted(member, np.arange(len(together[k]) + 1))
        piece = max(1, CELLS_AT_A_TIME // len(drawn))
        for way, length in enumerate(lengths):
            for start in range(0, length, piece):
                if stopped.is_set():
                    return
                more = min(piece, length - start)
                gibbs(woven.web, field.theta, rng, more, drawn)
                tell(more)
            for (t, block), first, last in zip(together[k], ends[:-1], ends[1:], strict=True):
                found[t][way, variable[first:last], block.start + row[first:last]] = drawn[first:last]

    try:
        engine.map(one, range(len(together)))
    finally:
        stopped.set()  # so that an interrupt does not wait for the chains of other threads
    return tuple(found)
