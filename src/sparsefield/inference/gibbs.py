"""This module implements Gibbs sampling: draws of missing cells, and marginals as means over chains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Lock

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Dataset
from sparsefield.inference.factor_graph import (
    FactorGraph,
    build_factors,
    cells_of_components,
    count_entities,
    normalize,
    write_beliefs,
)
from sparsefield.inference.method import FillResult, InferenceMethod
from sparsefield.inference.missing_problem import MissingProblem, compile_problem, independent_groups
from sparsefield.kernels import gibbs_chains as kernel
from sparsefield.kernels.missing_cells import gibbs
from sparsefield.model import Field

LEAST_VARIANCE = 1e-10
"""Added to variances before their ratio is taken: probabilities that differ by less than 0.00001 count as equal."""

CELLS_PER_CALL = 5_000_000
"""Draws per kernel call; between calls a chain reports its progress and can be interrupted."""


def draw(
    field: Field,
    sample: Dataset,
    *,
    sweeps: int,
    seed: int | None,
    engine: Engine,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[np.ndarray, ...]:
    """Return, table by table, the int32 codes (targets, rows) after ``sweeps`` Gibbs sweeps over all missing cells."""
    often = draw_often(field, sample, count=1, sweeps=sweeps, thin=0, seed=seed, engine=engine, progress=progress)
    return tuple(codes[0] for codes in often)


def draw_often(
    field: Field,
    sample: Dataset,
    *,
    count: int,
    sweeps: int,
    thin: int,
    seed: int | None,
    engine: Engine,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[np.ndarray, ...]:
    """Return, table by table, ``count`` successive draws as int32 codes (count, targets, rows).

    The first draw is taken after ``sweeps`` sweeps, each further one ``thin`` sweeps later. Rows without links are
    independent chains. ``progress`` is called with the number of sweeps done and the total.
    """
    blocks = [table.blocks for table in sample.tables]
    found = [np.stack([np.concatenate([b.codes for b in part], axis=1)] * count) for part in blocks]
    groups = independent_groups(sample, blocks)
    seeds = np.random.SeedSequence(seed).spawn(len(groups))
    lengths = [sweeps] + [thin] * (count - 1)
    done, lock, stopped = 0, Lock(), Event()

    def report(more: int) -> None:
        nonlocal done
        with lock:
            done += more
            if progress is not None:
                progress(done, len(groups) * sum(lengths))

    def run_or_stop(k: int) -> None:
        try:
            run(k)
        except BaseException:
            stopped.set()
            raise

    def run(k: int) -> None:
        compiled, rng = compile_problem(sample, field.graphs, groups[k]), np.random.default_rng(seeds[k])
        member, variable, row = compiled.missing_cells
        drawn = np.zeros(len(row), dtype=np.int32)
        ends = np.searchsorted(member, np.arange(len(groups[k]) + 1))
        per_call = max(1, CELLS_PER_CALL // len(drawn))
        for draw_number, length in enumerate(lengths):
            for start in range(0, length, per_call):
                if stopped.is_set():
                    return
                more = min(per_call, length - start)
                gibbs(compiled.problem, field.theta, rng, more, drawn)
                report(more)
            for (t, block), first, last in zip(groups[k], ends[:-1], ends[1:], strict=True):
                found[t][draw_number, variable[first:last], block.start + row[first:last]] = drawn[first:last]

    try:
        engine.map(run_or_stop, range(len(groups)))
    finally:
        stopped.set()  # an interrupt must not wait for the chains of other threads
    return tuple(found)


@dataclass(frozen=True)
class Gibbs(InferenceMethod):
    """Gibbs sampling runs several chains for each row and averages conditional probabilities.

    The mean of the conditional probabilities of a cell has the same expectation as the mean of its draws, and a lower
    variance (Rao-Blackwell). Chains start far from each other and must agree in the end: R-hat compares the variance
    between the halves of all chains with the variance within them (Gelman and Rubin 1992; Vehtari et al. 2021).

    The draws of a row depend only on ``seed``, on its missing cells and on the observed cells that these share features
    with; they depend neither on other rows nor on threads. Equal rows get equal results.

    Parameters
    ----------
    chains : int
        Chains for each row, or for each group of linked rows.
    burn_in : int
        Sweeps of each chain that are discarded.
    sweeps : int
        Sweeps of each chain that are used.
    max_r_hat : float
        A row has not converged when one of its cells has a larger R-hat.
    seed : int
        Seed of all chains.
    """

    chains: int = 4
    burn_in: int = 100
    sweeps: int = 500
    max_r_hat: float = 1.05
    seed: int = 0
    name = "gibbs"
    advice = "Raise burn_in and sweeps: inference=Gibbs(burn_in=..., sweeps=...)"

    def fill(self, problem: MissingProblem, theta: np.ndarray) -> FillResult:
        graph = build_factors(problem, theta)
        beliefs = normalize(graph, graph.unary_logits)
        means = run_chains(graph, self)
        sampled = np.isfinite(means.r_hat)
        beliefs[sampled] = means.value[sampled]
        write_beliefs(problem, graph, beliefs)
        cell_of_state = np.repeat(np.arange(graph.n_missing), np.diff(graph.offsets))
        unconverged = count_entities(problem, cell_of_state[means.r_hat > self.max_r_hat])
        return FillResult(unconverged, frozenset({self.name}))


@dataclass(frozen=True)
class ChainMeans:
    """Chain means hold means over chains, their standard errors and R-hat; NaN for quantities that were not sampled."""

    value: np.ndarray
    error: np.ndarray
    r_hat: np.ndarray

    @classmethod
    def of(cls, sums: np.ndarray, squares: np.ndarray, counts: np.ndarray) -> ChainMeans:
        """Compute means from sums and sums of squares (half chains, quantities) over counts (half chains,) sweeps."""
        counts = counts[:, None]
        means = sums / counts
        within = np.maximum(squares / counts - means**2, 0.0).mean(axis=0)
        between = means.var(axis=0, ddof=1)
        r_hat = np.sqrt((within + between + LEAST_VARIANCE) / (within + LEAST_VARIANCE))
        return cls(means.mean(axis=0), np.sqrt(between / len(means)), r_hat)


def run_chains(
    graph: FactorGraph, options: Gibbs, event: kernel.Event | None = None, components: np.ndarray | None = None
) -> ChainMeans:
    """Return means over chains of the probability of every state of the missing cells in some components.

    By default these are the components with factors. With an event, only its probability is returned; its cells must
    belong to the one component given.
    """
    if components is None:
        components = np.flatnonzero(np.diff(graph.component_factor_offsets))
    size = int(graph.offsets[-1])
    nothing = kernel.Event(np.empty(0, dtype=np.int64), np.zeros(0, dtype=bool))
    sums, squares = np.full((2, 2 * options.chains, size), np.nan)
    states = np.diff(graph.offsets)
    drawn = np.zeros(graph.n_missing, dtype=bool)
    drawn[cells_of_components(graph, np.isin(np.arange(graph.n_components), components))] = True
    sums[:, np.repeat(drawn, states)] = squares[:, np.repeat(drawn, states)] = 0.0
    event_sums = np.zeros((2 * options.chains, 2))
    kernel.run_chains(
        graph, components, np.int64(options.seed), options.chains, options.burn_in, options.sweeps, event or nothing,
        np.zeros(graph.n_missing, dtype=np.int64), np.empty(states.max(initial=1)), sums, squares, event_sums,
    )  # fmt: skip
    # With an odd number of sweeps the first half has one more.
    counts = np.tile([(options.sweeps + 1) // 2, options.sweeps // 2], options.chains)
    if event is not None:
        return ChainMeans.of(event_sums[:, :1], event_sums[:, 1:], counts)
    return ChainMeans.of(sums, squares, counts)
