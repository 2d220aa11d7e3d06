"""This module infers missing cells exactly where that is cheap, else by belief propagation or Gibbs sampling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.inference.belief_propagation import BeliefPropagation, propagate_messages
from sparsefield.inference.elimination import batches_by_shape
from sparsefield.inference.exact_marginals import exact_logits
from sparsefield.inference.factor_graph import (
    FactorGraph,
    build_factors,
    cells_of_components,
    component_of_cell,
    count_entities,
    normalize,
    write_beliefs,
)
from sparsefield.inference.gibbs import ChainMeans, Gibbs, run_chains
from sparsefield.inference.method import FillResult, InferenceMethod
from sparsefield.inference.missing_problem import MissingProblem
from sparsefield.kernels.component_enumeration import enumerate_components

MAX_ENUMERATED = 4096
"""Joint states of a component that are enumerated."""

MAX_ENUMERATED_IF_UNSURE = 65536
"""The same for components on which the first Gibbs chains disagree: longer chains would take more time."""

MAX_SHAPES = 2000
"""Shapes of larger components that are solved by elimination, the most frequent ones: each needs a plan of its own."""

FIRST_CHAINS = Gibbs(chains=8, burn_in=20, sweeps=80, max_r_hat=1.1)
LONG_CHAINS = Gibbs(chains=8, burn_in=250, sweeps=1000)
"""Gibbs chains, and those that follow where the first ones do not agree. Fewer chains than these would too often be in
the same one of several modes, and agree."""

MESSAGES = BeliefPropagation(tolerance=1e-6, max_updates=50)
"""Belief propagation of components on which the first chains agree."""

MAX_DIFFERENCE, STANDARD_ERRORS = 0.01, 3.0
"""Belief propagation is used if no probability differs from that of the first chains by more than ``MAX_DIFFERENCE``
beyond so many standard errors of the latter. Converged messages can be far off where dependence is strong, and chains
are independent of them; where both agree, messages are the more accurate, since they have no sampling error."""


@dataclass(frozen=True)
class AutomaticInference(InferenceMethod):
    """Automatic inference is exact where missing cells are few or depend on each other narrowly.

    The missing cells of a row, or of linked rows, form connected components. Small ones are enumerated, and
    larger ones solved by variable elimination where its tables are small. For others short Gibbs chains are run. Where
    these agree with each other, belief propagation is run as well, and used if it converges and confirms them: no
    probability may differ by more than 0.01 beyond three standard errors. Where chains disagree, longer ones follow.
    Mean field is never used. In a table with more than 2,000 patterns of large components, chains are also run for
    those of the rarest patterns: whether a row is among them depends on the other rows.

    Parameters
    ----------
    max_cells : int
        Largest number of entries of a table of variable elimination.
    retry : bool
        Whether longer chains are run where the first ones disagree.
    """

    max_cells: int = 4096
    retry: bool = True
    name = "auto"
    advice = "Use inference='exact' or inference=Gibbs(burn_in=..., sweeps=...)"

    def fill(self, problem: MissingProblem, theta: np.ndarray) -> FillResult:
        graph = build_factors(problem, theta)
        components = _Components(graph)
        components.solve_exactly(self.max_cells)
        components.run_first_chains()
        if self.retry:
            components.run_long_chains()
        write_beliefs(problem, graph, components.beliefs)
        cells = cells_of_components(graph, np.isin(np.arange(graph.n_components), components.unsure))
        return FillResult(count_entities(problem, cells), frozenset(components.methods))


class _Components:
    """The connected components of a factor graph, their beliefs so far, and those that have none yet."""

    def __init__(self, graph: FactorGraph) -> None:
        self.graph, self.owner, states = graph, component_of_cell(graph), np.diff(graph.offsets)
        self.owner_of_state = np.repeat(self.owner, states)
        self.joint = np.bincount(self.owner, np.log2(states), graph.n_components)
        self.largest = int(np.bincount(self.owner, minlength=1).max(initial=1)), int(states.max(initial=1))
        self.unsure = np.arange(graph.n_components)
        self.beliefs = np.empty(0)
        self.methods: set[str] = set()

    def solve_exactly(self, max_cells: int) -> None:
        """Enumerate small components and eliminate narrow ones; all others are unsure."""
        few = self._up_to(MAX_ENUMERATED)
        others = np.setdiff1d(self.unsure, few)
        batches = batches_by_shape(self.graph, max_cells, others, MAX_SHAPES)
        batches = [batch for batch in batches if batch.plan.feasible]
        self.beliefs = normalize(self.graph, exact_logits(self.graph, batches))
        self._enumerate(few, MAX_ENUMERATED)
        solved = [self.owner[batch.missing_cells[:, 0]] for batch in batches]
        self.unsure = np.setdiff1d(others, np.concatenate([few, *solved]))
        if len(few) or solved:
            self.methods.add("exact")

    def run_first_chains(self) -> None:
        """Run short chains, and belief propagation where they agree; components where they do not remain unsure."""
        if not len(self.unsure):
            return
        tried, means = self.unsure, self._run_chains(FIRST_CHAINS)
        agreed = np.setdiff1d(tried, self.unsure)
        found, converged = propagate_messages(self.graph, MESSAGES, agreed)
        found = normalize(self.graph, found)
        excess = np.abs(found - means.value) - STANDARD_ERRORS * means.error
        differing = np.unique(self.owner_of_state[excess > MAX_DIFFERENCE])
        confirmed = np.setdiff1d(agreed[converged], differing)
        used = np.isin(self.owner_of_state, confirmed)
        self.beliefs[used] = found[used]
        small = np.intersect1d(self.unsure, self._up_to(MAX_ENUMERATED_IF_UNSURE))
        self._enumerate(small, MAX_ENUMERATED_IF_UNSURE)
        self.methods.update(["bp"] * bool(len(confirmed)) + ["exact"] * bool(len(small)))
        self.methods.update(["gibbs"] * (len(confirmed) + len(small) < len(tried)))
        self.unsure = np.setdiff1d(self.unsure, small)

    def run_long_chains(self) -> None:
        """Run long chains for components that are unsure; those where they disagree remain so."""
        if len(self.unsure):
            self._run_chains(LONG_CHAINS)

    def _run_chains(self, chains: Gibbs) -> ChainMeans:
        means = run_chains(self.graph, chains, components=self.unsure)
        drawn = np.isfinite(means.value)
        self.beliefs[drawn] = means.value[drawn]
        self.unsure = np.unique(self.owner_of_state[means.r_hat > chains.max_r_hat])
        return means

    def _up_to(self, joint_states: int) -> np.ndarray:
        """Return the components with at most so many joint states."""
        return np.flatnonzero(self.joint <= np.log2(joint_states) + 1e-9)

    def _enumerate(self, components: np.ndarray, most: int) -> None:
        enumerate_components(self.graph, components, most, *self.largest, self.beliefs)
