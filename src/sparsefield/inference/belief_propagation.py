"""Belief propagation: exact on trees and usually accurate elsewhere; Bethe sums, and max-product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sparsefield.inference.factor_graph import FactorGraph, build_factors, write_probabilities
from sparsefield.inference.method import FillResult, InferenceMethod
from sparsefield.inference.missing_problem import MissingProblem
from sparsefield.kernels.message_passing import MessageState, factor_beliefs, propagate


@dataclass(frozen=True)
class BeliefPropagation(InferenceMethod):
    """Belief propagation: messages between missing cells that share features, until none changes.

    Two passes over the factors of a connected component come first, inward and outward from one cell; on a tree they
    are exact. Then all messages are updated in turn.

    Parameters
    ----------
    tolerance : float
        A message has converged when an update would change no log-ratio of two of its values by more.
    max_updates : int
        Maximum number of updates of each message.
    damping : float
        Share of the old message, in logs, that each update after the two passes keeps, in [0, 1).
    """

    tolerance: float = 1e-8
    max_updates: int = 200
    damping: float = 0.1
    name = "bp"
    advice = "Raise max_updates, or damping: inference=BeliefPropagation(max_updates=..., damping=...)"

    def fill(self, problem: MissingProblem, theta: np.ndarray) -> FillResult:
        graph = build_factors(problem, theta)
        logits, rounds = propagate_messages(graph, self, np.arange(graph.n_components))
        write_probabilities(problem, graph.normalize(logits))
        unconverged = graph.cells_of(rounds > self.max_updates)
        return FillResult(problem.count_entities(unconverged), frozenset({self.name}))


def propagate_messages(
    graph: FactorGraph, options: BeliefPropagation, components: np.ndarray, *, max_product: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the logits of all states of all missing cells, and the rounds of the given components: see `propagate`."""
    state, rounds = _run(graph, options, components, max_product)
    return state.beliefs, rounds


class BetheSums(NamedTuple):
    """What belief propagation finds: marginals, and the Bethe approximation of partition functions."""

    log_partition: np.ndarray
    """(components,): the Bethe approximation of ln Z, which is exact on trees."""
    probabilities: np.ndarray
    """(states of all missing cells,)"""
    marginals: np.ndarray
    """Probabilities of the joint states of each factor, as its table has log-potentials."""
    converged: np.ndarray
    """(components,)"""


def sum_by_messages(graph: FactorGraph, options: BeliefPropagation) -> BetheSums:
    """Return the Bethe approximation of the sums over all missing cells.

    ln Z is the sum of ln Z_f over factors plus (1 - d) ln Z_c over cells, where Z is the sum of unnormalized beliefs
    and d the number of factors of a cell (Yedidia, Freeman and Weiss 2005). Where messages have converged, its
    derivatives are the expectations of features under the beliefs.
    """
    state, rounds = _run(graph, options, np.arange(graph.n_components), False)
    marginals, factor_sums = np.empty(graph.table_offsets[-1]), np.empty(len(graph.factor_offsets) - 1)
    factor_beliefs(graph, state, marginals, factor_sums)
    cell_sums = np.logaddexp.reduceat(state.beliefs, graph.offsets[:-1]) if graph.n_missing else np.empty(0)
    owner = graph.component_of_cell
    degrees = np.diff(graph.cell_edge_offsets)
    total = np.bincount(owner, (1.0 - degrees) * cell_sums, graph.n_components)
    if len(factor_sums):
        factor_owner = owner[graph.edge_cell[graph.factor_offsets[:-1]]]
        total = total + np.bincount(factor_owner, factor_sums, graph.n_components)
    return BetheSums(total, graph.normalize(state.beliefs), marginals, rounds <= options.max_updates)


def _run(
    graph: FactorGraph, options: BeliefPropagation, components: np.ndarray, max_product: bool
) -> tuple[MessageState, np.ndarray]:
    """Pass the messages of some components, which say nothing at first; return them, and the rounds."""
    arity = np.diff(graph.factor_offsets)
    states = np.diff(graph.message_offsets)
    sizes = np.add.reduceat(states, graph.factor_offsets[:-1]) if len(arity) else np.zeros(0, dtype=np.int64)
    state = MessageState(
        messages=np.zeros(graph.message_offsets[-1]),
        pending=np.empty(states.max(initial=0)),
        beliefs=graph.unary_logits.copy(),
        order=np.empty(len(arity), dtype=np.int64),
        parent_edge=np.full(len(arity), -1, dtype=np.int64),
        visited=np.zeros(graph.n_missing, dtype=np.bool_),
        incoming=np.empty(sizes.max(initial=0)),
        potentials=graph.tables if max_product else np.zeros(len(graph.tables)),
    )
    caps = float(options.tolerance), int(options.max_updates), float(options.damping)
    return state, propagate(graph, components, *caps, max_product, state)
