"""Inference that is exact where missing cells depend on each other narrowly: marginals, and most probable states (MAP).

Elsewhere, marginals are those of belief propagation or Gibbs sampling, and states are found by simulated annealing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Block, Dataset
from sparsefield.inference.belief_propagation import BeliefPropagation, propagate_messages
from sparsefield.inference.elimination import MAX_CELLS, batches_by_shape, exact_logits, most_probable
from sparsefield.inference.factor_graph import FactorGraph, build_factors, write_probabilities
from sparsefield.inference.gibbs import ChainMeans, Gibbs, run_chains
from sparsefield.inference.method import FillResult, InferenceMethod
from sparsefield.inference.missing_problem import MissingProblem, compile_problem, independent_groups
from sparsefield.kernels.gibbs_chains import anneal, enumerate_components
from sparsefield.model import Adjacency, Field

MAX_ENUMERATED = 4096
"""Joint states of a component that are enumerated."""

MAX_ENUMERATED_IF_UNSURE = 65536
"""The same for components on which the first Gibbs chains disagree: longer chains would take more time."""

MAX_SHAPES = 20
"""Shapes of larger components that are solved by elimination, the most frequent ones: each needs a plan of its own."""

FEW, WIDER, MAX_ENTRIES = 16, 256, 2**22
"""Components that are a few, factor by which tables of elimination may be larger for them, and entries of the largest
tables of these together: so many take less than a second, and chains are less exact."""

FIRST_CHAINS = Gibbs(chains=8, burn_in=20, sweeps=80, max_r_hat=1.1)
LONG_CHAINS = Gibbs(chains=8, burn_in=250, sweeps=1000)
"""Gibbs chains, and those that follow where the first ones do not agree. Fewer chains than these would too often be in
the same one of several modes, and agree."""

FAST_MESSAGES = BeliefPropagation(tolerance=1e-6, max_updates=6, damping=0.0)
"""Belief propagation that is used without a look at chains. Messages converge fast where dependence is weak, and then
they are right: of 600 components of random fields, those that converged in 6 rounds had errors up to .004, those in 8
rounds up to .03, and in 20 rounds up to .36."""

MESSAGES = BeliefPropagation(tolerance=1e-6, max_updates=50)
"""Belief propagation of components on which the first chains agree."""

MAX_DIFFERENCE, STANDARD_ERRORS = 0.01, 3.0
"""Belief propagation is used if no probability differs from that of the first chains by more than ``MAX_DIFFERENCE``
beyond so many standard errors of the latter. Converged messages can be far off where dependence is strong, and chains
are independent of them; where both agree, messages are the more accurate, since they have no sampling error."""

RESTARTS, SWEEPS = 20, 50
"""Number of restarts of simulated annealing, and sweeps of each."""


@dataclass(frozen=True)
class AutomaticInference(InferenceMethod):
    """Automatic inference: exact where missing cells are few or depend on each other narrowly.

    The missing cells of a row, or of linked rows, form connected components. Small ones are enumerated, and
    larger ones solved by variable elimination where its tables are small. For others belief propagation is used if its
    messages converge very fast, as where dependence is weak; elsewhere short Gibbs chains are run. Where these agree
    with each other, belief propagation is used if it converges and confirms them: no probability may differ by more
    than 0.01 beyond three standard errors. Where chains disagree, longer ones follow. Mean field is never used. In a
    table with more than 200 patterns of large components, those of the rarest patterns are not eliminated, and only a
    few components may need tables of 256 times ``max_cells`` entries: whether a row is among them depends on others.

    Parameters
    ----------
    max_cells : int
        Largest number of entries of a table of variable elimination, where there are many of them.
    """

    max_cells: int = 4096
    name = "auto"
    advice = "Use inference='exact' or inference=Gibbs(burn_in=..., sweeps=...)"

    def fill(self, problem: MissingProblem, theta: np.ndarray) -> FillResult:
        graph = build_factors(problem, theta)
        components = _Components(problem, theta, graph)
        components.solve_exactly(self.max_cells, wider=True)
        components.run_first_chains()
        if len(components.unsure):
            components.run_chains(LONG_CHAINS)
        write_probabilities(problem, components.beliefs)
        cells = graph.cells_of(np.isin(np.arange(graph.n_components), components.unsure))
        return FillResult(problem.count_entities(cells), frozenset(components.methods))


def infer_rows(
    dataset: Dataset, member: tuple[int, Block], graphs: Sequence[Adjacency], theta: np.ndarray, max_cells: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities (states, rows) of a block, and which of its rows have them.

    With ``max_cells`` these are the rows that enumeration solves, or elimination with tables of so many entries.
    """
    compiled = compile_problem(dataset, graphs, [member], theta)
    graph = build_factors(compiled.problem, theta)
    components = _Components(compiled.problem, theta, graph)
    components.solve_exactly(max_cells or AutomaticInference.max_cells)
    solved = np.ones(member[1].n_rows, dtype=bool)
    if max_cells:
        unsure = np.isin(np.arange(graph.n_components), components.unsure)
        solved[compiled.missing_cells[2][graph.cells_of(unsure)]] = False
    else:
        components.enumerate_unsure()
        components.run_first_chains()
    compiled.problem.probabilities[:] = components.beliefs
    return compiled.state_probabilities()[0], solved


class _Components:
    """The connected components of a factor graph, their beliefs so far, and those that have none yet."""

    def __init__(self, problem: MissingProblem, theta: np.ndarray, graph: FactorGraph) -> None:
        self.problem, self.theta = problem, theta
        self.graph, self.owner, states = graph, graph.component_of_cell, np.diff(graph.offsets)
        self.owner_of_state = np.repeat(self.owner, states)
        self.joint = np.bincount(self.owner, np.log2(states), graph.n_components)
        self.largest = int(np.bincount(self.owner, minlength=1).max(initial=1)), int(states.max(initial=1))
        self.unsure = np.arange(graph.n_components)
        self.beliefs = np.empty(0)
        self.methods: set[str] = set()

    def solve_exactly(self, max_cells: int, *, wider: bool = False) -> None:
        """Enumerate small components and eliminate narrow ones, also ``wider`` ones if they are few."""
        few = self._up_to(MAX_ENUMERATED)
        others = np.setdiff1d(self.unsure, few)
        batches, left = [], MAX_ENTRIES
        largest = max_cells * (WIDER if wider and len(others) <= FEW else 1)
        for batch in batches_by_shape(self.graph, largest, others, MAX_SHAPES):
            entries = batch.plan.table_size * len(batch.missing_cells)
            if batch.plan.feasible and (batch.plan.table_size <= max_cells or entries <= left):
                batches.append(batch)
                left -= entries if batch.plan.table_size > max_cells else 0
        self.beliefs = self.graph.normalize(exact_logits(self.graph, batches))
        self._enumerate(few, MAX_ENUMERATED)
        solved = [self.owner[batch.missing_cells[:, 0]] for batch in batches]
        self.unsure = np.setdiff1d(others, np.concatenate([few, *solved]))
        if len(few) or solved:
            self.methods.add("exact")

    def run_first_chains(self) -> None:
        """Run short chains, and belief propagation where they agree; components where they do not remain unsure."""
        if not len(self.unsure):
            return
        logits, rounds = propagate_messages(self.graph, FAST_MESSAGES, self.unsure)
        fast = self.unsure[rounds <= FAST_MESSAGES.max_updates]
        used = np.isin(self.owner_of_state, fast)
        self.beliefs[used] = self.graph.normalize(logits)[used]
        self.unsure = np.setdiff1d(self.unsure, fast)
        self.methods.update(["bp"] * bool(len(fast)))
        if not len(self.unsure):
            return
        tried, means = self.unsure, self.run_chains(FIRST_CHAINS)
        agreed = np.setdiff1d(tried, self.unsure)
        logits, rounds = propagate_messages(self.graph, MESSAGES, agreed)
        beliefs, converged = self.graph.normalize(logits), rounds <= MESSAGES.max_updates
        excess = np.abs(beliefs - means.value) - STANDARD_ERRORS * means.error
        differing = np.unique(self.owner_of_state[excess > MAX_DIFFERENCE])
        confirmed = np.setdiff1d(agreed[converged], differing)
        used = np.isin(self.owner_of_state, confirmed)
        self.beliefs[used] = beliefs[used]
        n_small = self.enumerate_unsure()
        self.methods.update(["bp"] * bool(len(confirmed)) + ["exact"] * bool(n_small))
        self.methods.update(["gibbs"] * (len(confirmed) + n_small < len(tried)))

    def enumerate_unsure(self) -> int:
        """Enumerate what can be of the components that are unsure, and return how many these are."""
        small = np.intersect1d(self.unsure, self._up_to(MAX_ENUMERATED_IF_UNSURE))
        self._enumerate(small, MAX_ENUMERATED_IF_UNSURE)
        self.unsure = np.setdiff1d(self.unsure, small)
        return len(small)

    def run_chains(self, chains: Gibbs) -> ChainMeans:
        """Run chains for components that are unsure; those where they disagree remain so."""
        means = run_chains(self.problem, self.theta, self.graph, chains, components=self.unsure)
        drawn = np.isfinite(means.value)
        self.beliefs[drawn] = means.value[drawn]
        self.unsure = np.unique(self.owner_of_state[means.r_hat > chains.max_r_hat])
        return means

    def _up_to(self, joint_states: int) -> np.ndarray:
        """Return the components with at most so many joint states."""
        return np.flatnonzero(self.joint <= np.log2(joint_states) + 1e-9)

    def _enumerate(self, components: np.ndarray, most: int) -> None:
        if len(components):  # else nothing is compiled
            enumerate_components(self.graph, components, most, *self.largest, self.beliefs)


@dataclass(frozen=True)
class MAPResult:
    """The most probable joint states of all missing cells, table by table."""

    codes: tuple[np.ndarray, ...]
    """(targets, rows) int32, observed cells included."""
    exact: tuple[np.ndarray, ...]
    """(rows,): whether the states are provably the most probable ones; otherwise they were found by a search."""


def complete(field: Field, dataset: Dataset, engine: Engine, *, max_cells: int = MAX_CELLS) -> MAPResult:
    """Find the most probable joint states of all missing cells.

    Connected components that need no table of more than ``max_cells`` entries are solved exactly by max-product
    elimination. For the others, max-product belief propagation proposes states, simulated annealing restarts from
    random ones, iterated conditional modes improve both, and the best result is returned.
    """
    blocks = [table.blocks for table in dataset.tables]
    codes = [np.concatenate([block.codes for block in part], axis=1) for part in blocks]
    exact = [np.ones(table.n_rows, dtype=bool) for table in dataset.tables]

    def solve(members: list[tuple[int, Block]]) -> None:
        compiled = compile_problem(dataset, field.graphs, members, field.theta)
        graph = build_factors(compiled.problem, field.theta)
        best, certain = np.zeros(graph.n_missing, dtype=np.int64), np.ones(graph.n_missing, dtype=bool)
        for batch in batches_by_shape(graph, max_cells):
            if not batch.plan.feasible:
                certain[batch.missing_cells] = False
                continue
            for part in batch.split():
                best[part.missing_cells] = most_probable(graph, part)
        if not certain.all():
            _search(graph, np.unique(graph.component_of_cell[~certain]), best)
        member, variable, row = compiled.missing_cells
        for k, (t, block) in enumerate(members):
            cells = member == k
            where = block.start + row[cells]
            codes[t][variable[cells], where] = best[cells]
            np.logical_and.at(exact[t], where, certain[cells])

    engine.map(solve, independent_groups(dataset, blocks))
    return MAPResult(tuple(codes), tuple(exact))


def _search(graph: FactorGraph, components: np.ndarray, codes: np.ndarray) -> None:
    """Search for the most probable codes of some components, and write them to ``codes``."""
    logits, _ = propagate_messages(graph, BeliefPropagation(damping=0.3), components, max_product=True)
    buffer = np.empty(np.diff(graph.offsets).max())
    for component in components:
        first, last = graph.component_offsets[component], graph.component_offsets[component + 1]
        for cell in graph.component_cells[first:last]:
            codes[cell] = logits[graph.offsets[cell] : graph.offsets[cell + 1]].argmax()
        anneal(graph, component, 0, RESTARTS, SWEEPS, codes, buffer)
