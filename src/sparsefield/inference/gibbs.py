"""Gibbs sampling: drawing hidden cells from the field, and beliefs as means over chains of draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Lock

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import DenseDataset
from sparsefield.inference.factor_graph import (
    FactorGraph,
    build_factors,
    cells_of,
    entities_of,
    normalized,
    write_beliefs,
)
from sparsefield.inference.method import InferenceMethod
from sparsefield.inference.missing_problem import MissingProblem, compile_problem, independent_groups
from sparsefield.kernels import gibbs_chains as kernel
from sparsefield.kernels.missing_cells import gibbs
from sparsefield.model import Field

__all__ = ["ChainMeans", "Gibbs", "draw", "draw_often", "run_chains"]

LEAST_VARIANCE = 1e-10
"""Added to variances before they are compared: probabilities that differ by less than 0.00001 count as the same."""

CELLS_AT_A_TIME = 5_000_000
"""Cells that are drawn before a chain can be interrupted, and tells how far it is."""


def draw(
    field: Field,
    sample: DenseDataset,
    *,
    sweeps: int,
    seed: int | None,
    engine: Engine,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[np.ndarray, ...]:
    """Table by table, (targets, rows) int32 codes after ``sweeps`` Gibbs sweeps over all gaps."""
    often = draw_often(field, sample, count=1, sweeps=sweeps, thin=0, seed=seed, engine=engine, progress=progress)
    return tuple(codes[0] for codes in often)


def draw_often(
    field: Field,
    sample: DenseDataset,
    *,
    count: int,
    sweeps: int,
    thin: int,
    seed: int | None,
    engine: Engine,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[np.ndarray, ...]:
    """Table by table, (count, targets, rows) int32 codes: the first after ``sweeps`` sweeps, each other ``thin`` later.

    Rows without links are chains of their own. ``progress`` hears of sweeps done, and of how many there are.
    """
    blocks = [table.blocks for table in sample.tables]
    found = [np.stack([np.concatenate([b.codes for b in part], axis=1)] * count) for part in blocks]
    together = independent_groups(sample, blocks)
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
        woven, rng = compile_problem(sample, field.graphs, together[k]), np.random.default_rng(seeds[k])
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


@dataclass(frozen=True)
class Gibbs(InferenceMethod):
    """Several chains of draws for each row; beliefs are means of conditional probabilities, not of the draws.

    The mean of a gap's probabilities given all other draws has the same expectation as the mean of the draws, and less
    variance (Rao-Blackwell). Chains start far from each other, and must agree in the end: R-hat compares the variance
    between the halves of all chains with that within them (Gelman and Rubin 1992; Vehtari et al. 2021).

    What a row draws depends on ``seed``, on its gaps and on what they see, and on nothing else: neither on the rows
    beside it nor on threads. Rows that are alike get the same answer.

    Parameters
    ----------
    chains : chains for each row, or for rows that are linked
    burn_in : sweeps of each chain before its draws count
    sweeps : sweeps that count
    max_r_hat : a row with a gap of a larger R-hat counts as not converged
    seed : of all chains
    """

    chains: int = 4
    burn_in: int = 100
    sweeps: int = 500
    max_r_hat: float = 1.05
    seed: int = 0
    name = "gibbs"
    advice = "Raise burn_in and sweeps: inference=Gibbs(burn_in=..., sweeps=...)"

    def __post_init__(self) -> None:
        for name, least in (("chains", 2), ("burn_in", 0), ("sweeps", 4)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}.")
        if not self.max_r_hat > 1.0:
            raise ValueError(f"max_r_hat must be larger than 1, got {self.max_r_hat}.")
        if isinstance(self.seed, bool) or int(self.seed) != self.seed or not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must be a whole number that is not negative, got {self.seed}.")

    def fill(self, web: MissingProblem, theta: np.ndarray) -> int:
        graph = build_factors(web, theta)
        beliefs = normalized(graph, graph.unary)
        means = run_chains(graph, self)
        sampled = np.isfinite(means.r_hat)
        beliefs[sampled] = means.value[sampled]
        write_beliefs(web, graph, beliefs)
        gap_of_state = np.repeat(np.arange(graph.n_missing), np.diff(graph.offsets))
        return entities_of(web, gap_of_state[means.r_hat > self.max_r_hat])


@dataclass(frozen=True)
class ChainMeans:
    """What chains found: means, their standard errors, and R-hat; NaN where nothing had to be drawn."""

    value: np.ndarray
    error: np.ndarray
    r_hat: np.ndarray

    @classmethod
    def of(cls, sums: np.ndarray, squares: np.ndarray, counts: np.ndarray) -> ChainMeans:
        """From sums and sums of squares, (half chains, quantities), of so many numbers, (half chains,)."""
        counts = counts[:, None]
        means = sums / counts
        within = np.maximum(squares / counts - means**2, 0.0).mean(axis=0)
        between = means.var(axis=0, ddof=1)
        r_hat = np.sqrt((within + between + LEAST_VARIANCE) / (within + LEAST_VARIANCE))
        return cls(means.mean(axis=0), np.sqrt(between / len(means)), r_hat)


def run_chains(
    graph: FactorGraph, options: Gibbs, event: kernel.Event | None = None, parts: np.ndarray | None = None
) -> ChainMeans:
    """Means over chains of the probability of every state of every gap that shares features.

    With an event, of the event alone, whose gaps must be in the one part of ``parts``.
    """
    if parts is None:
        parts = np.flatnonzero(np.diff(graph.part_factor_offsets))
    size = int(graph.offsets[-1])
    nothing = kernel.Event(np.empty(0, dtype=np.int64), np.zeros(0, dtype=bool))
    sums, squares = np.full((2, 2 * options.chains, size), np.nan)
    states = np.diff(graph.offsets)
    drawn = np.zeros(graph.n_missing, dtype=bool)
    drawn[cells_of(graph, np.isin(np.arange(graph.n_parts), parts))] = True
    sums[:, np.repeat(drawn, states)] = squares[:, np.repeat(drawn, states)] = 0.0
    hits = np.zeros((2 * options.chains, 2))
    kernel.run_chains(
        graph, parts, np.int64(options.seed), options.chains, options.burn_in, options.sweeps, event or nothing,
        np.zeros(graph.n_missing, dtype=np.int64), np.empty(states.max(initial=1)), sums, squares, hits,
    )  # fmt: skip
    # The first half of an odd number of sweeps has one more.
    counts = np.tile([(options.sweeps + 1) // 2, options.sweeps // 2], options.chains)
    if event is not None:
        return ChainMeans.of(hits[:, :1], hits[:, 1:], counts)
    return ChainMeans.of(sums, squares, counts)
