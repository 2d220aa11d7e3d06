"""Gibbs sampling: draws of missing cells, marginals as means over chains, and annealed importance sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Lock
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from sparsefield.compute import Engine
from sparsefield.data import Dataset
from sparsefield.data.sparse_matrix import expand
from sparsefield.inference.completions import missing_arcs
from sparsefield.inference.factor_graph import FactorGraph, build_factors, write_probabilities
from sparsefield.inference.method import FillResult, InferenceMethod
from sparsefield.inference.missing_problem import MissingProblem, compile_problem, independent_groups
from sparsefield.kernels import gibbs_chains as kernel
from sparsefield.kernels.gibbs_chains import anneal_chains
from sparsefield.kernels.missing_cells import gibbs
from sparsefield.kernels.row_draws import draw_copies, draw_frequencies, row_keys
from sparsefield.model import Field
from sparsefield.options import OptionObject

CELLS_PER_CALL = 5_000_000
"""Draws per kernel call; between calls a chain reports its progress and can be interrupted."""

CHAINS_PER_TASK = 16
"""Chains of annealed importance sampling that a thread runs one after another."""

LEAST_SHARE = 1e-4
"""Smallest probability of a state in the distribution that these chains start from."""


def draw(
    field: Field,
    dataset: Dataset,
    *,
    sweeps: int,
    seed: int | None,
    engine: Engine,
    count: int = 1,
    thin: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[np.ndarray, ...]:
    """Return, table by table, ``count`` successive draws as int32 codes (count, targets, rows).

    The first draw is taken after ``sweeps`` Gibbs sweeps over all missing cells, each further one ``thin`` sweeps
    later. Rows without links are independent chains. ``progress`` is called with the numbers of sweeps done and to do.
    """
    blocks = [table.blocks for table in dataset.tables]
    drawn = [np.stack([np.concatenate([b.codes for b in part], axis=1)] * count) for part in blocks]
    groups = independent_groups(dataset, blocks)
    seeds = np.random.SeedSequence(seed).spawn(len(groups))
    lengths = [sweeps] + [thin] * (count - 1)
    done, lock, stopped = 0, Lock(), Event()

    def run(k: int) -> None:
        nonlocal done
        compiled, rng = compile_problem(dataset, field.graphs, groups[k], field.theta), np.random.default_rng(seeds[k])
        member, variable, row = compiled.missing_cells
        codes = np.zeros(len(row), dtype=np.int32)
        per_call = max(1, CELLS_PER_CALL // len(codes))
        for number, length in enumerate(lengths):
            for start in range(0, length, per_call):
                if stopped.is_set():
                    return
                gibbs(compiled.problem, field.theta, rng, min(per_call, length - start), codes)
                with lock:
                    done += min(per_call, length - start)
                    if progress is not None:
                        progress(done, len(groups) * sum(lengths))
            for m, (t, block) in enumerate(groups[k]):
                cells = member == m
                drawn[t][number, variable[cells], block.start + row[cells]] = codes[cells]

    def run_or_stop(k: int) -> None:
        try:
            run(k)
        except BaseException:
            stopped.set()  # the chains of other threads need not end
            raise

    try:
        engine.map(run_or_stop, range(len(groups)))
    finally:
        stopped.set()  # an interrupt must not wait for the chains of other threads
    return tuple(drawn)


@dataclass(frozen=True)
class Gibbs(InferenceMethod):
    """Gibbs sampling: several chains for each row, whose conditional probabilities are averaged.

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
        beliefs = graph.normalize(graph.unary_logits)
        means = run_chains(problem, theta, graph, self)
        sampled = np.isfinite(means.r_hat)
        beliefs[sampled] = means.value[sampled]
        write_probabilities(problem, beliefs)
        cell_of_state = np.repeat(np.arange(graph.n_missing), np.diff(graph.offsets))
        unconverged = problem.count_entities(cell_of_state[means.r_hat > self.max_r_hat])
        return FillResult(unconverged, frozenset({self.name}))


@dataclass(frozen=True)
class ShortGibbs(InferenceMethod):
    """Short Gibbs chains side by side, whose conditional probabilities are averaged: precise enough to compare fields.

    Probabilities are exact in rows whose missing cells do not depend on each other.
    """

    copies: int = 8
    burn_in: int = 2
    sweeps: int = 4
    name = "gibbs"

    def fill(self, problem: MissingProblem, theta: np.ndarray) -> FillResult:
        codes = np.zeros((len(problem.cell_variable), self.copies), dtype=np.int32)
        slots, sums = missing_arcs(problem, theta), np.zeros(len(problem.probabilities))
        keys = row_keys(0, 0, problem.cell_target[problem.cell_offsets[:-1]], problem.entity_row)
        draw_frequencies(problem.coding, problem.cell_variable, problem.entity_of_cell, keys, codes)
        values = np.zeros((len(slots.base), self.copies))
        draw_copies(problem, slots, keys, self.burn_in, self.sweeps, values, codes, sums)
        write_probabilities(problem, sums / (self.sweeps * self.copies))
        return FillResult(0, frozenset({self.name}))


class ChainMeans(NamedTuple):
    """Means over chains, their standard errors and R-hat; NaN for quantities that were not sampled."""

    value: np.ndarray
    error: np.ndarray
    r_hat: np.ndarray


def run_chains(
    problem: MissingProblem,
    theta: np.ndarray,
    graph: FactorGraph,
    options: Gibbs,
    event: kernel.Event | None = None,
    components: np.ndarray | None = None,
) -> ChainMeans:
    """Return means over chains of the probability of every state of the missing cells in some components.

    By default these are the components with factors. With an event, only its probability is returned; its cells must
    belong to the one component given.
    """
    if components is None:
        components = np.flatnonzero(np.diff(graph.component_factor_offsets))
    out = np.full((3, int(graph.offsets[-1]) + 1), np.nan)
    kernel.run_chains(
        graph, problem.coding, problem.cell_variable, missing_arcs(problem, theta), components, np.int64(options.seed),
        options.chains, options.burn_in, options.sweeps, event or kernel.NO_EVENT, out,
    )  # fmt: skip
    return ChainMeans(*(out[:, :-1] if event is None else out[:, -1:]))


@dataclass(frozen=True)
class AIS(OptionObject):
    """Set the options of annealed importance sampling, which estimates partition functions.

    Chains start from independent columns with their training frequencies, and end at the field after ``steps``
    distributions in between, with a Gibbs sweep for each.

    Parameters
    ----------
    chains : int
        Number of chains; the standard error falls with its square root.
    steps : int
        Number of distributions; more of them make the weights of chains more equal.
    seed : int
        Seed of all draws.
    """

    chains: int = 64
    steps: int = 1000
    seed: int = 0


def anneal_importance(
    problem: MissingProblem, graph: FactorGraph, components: np.ndarray, engine: Engine, options: AIS
) -> tuple[np.ndarray, np.ndarray]:
    """Return estimates of ln Z of some components, and their variances."""
    counts = np.diff(problem.state_offsets)
    states = expand(problem.coding.state_offsets[problem.cell_variable], counts)
    shares = np.maximum(problem.coding.frequencies[states], LEAST_SHARE)
    base = np.log(shares / np.repeat(np.add.reduceat(shares, problem.state_offsets[:-1]), counts))

    def run(task: tuple[int, int]) -> np.ndarray:
        component, first = task
        out = np.empty(min(CHAINS_PER_TASK, options.chains - first))
        anneal_chains(
            graph, component, base, options.steps, np.uint64(options.seed), first, np.empty(counts.max()), out
        )
        return out

    tasks = [(int(component), first) for component in components for first in range(0, options.chains, CHAINS_PER_TASK)]
    logs = np.concatenate(engine.map(run, tasks)).reshape(len(components), options.chains)
    value = logsumexp(logs, axis=1) - np.log(options.chains)
    return value, np.exp(logs - value[:, None]).var(axis=1, ddof=1) / options.chains  # of shares with a mean of 1
