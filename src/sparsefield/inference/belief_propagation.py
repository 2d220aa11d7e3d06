"""This module implements belief propagation (sum-product): exact on trees and usually accurate elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.inference.factor_graph import (
    FactorGraph,
    build_factors,
    cells_of_components,
    count_entities,
    normalize,
    write_beliefs,
)
from sparsefield.inference.method import FillResult, InferenceMethod
from sparsefield.inference.missing_problem import MissingProblem
from sparsefield.kernels.message_passing import MessageState, ResidualQueue, propagate


@dataclass(frozen=True)
class BeliefPropagation(InferenceMethod):
    """Belief propagation passes messages between missing cells that share features until none changes.

    Two passes over the factors of a connected component come first, inward and outward from one cell; on a tree they
    are exact. Then the message with the largest residual is updated first.

    Parameters
    ----------
    tolerance : float
        A message has converged when an update would change no log-ratio of two of its values by more.
    max_updates : int
        Maximum number of updates per message, on average.
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
        logits, converged = propagate_messages(graph, self, np.arange(graph.n_components))
        write_beliefs(problem, graph, normalize(graph, logits))
        unconverged = count_entities(problem, cells_of_components(graph, ~converged))
        return FillResult(unconverged, frozenset({self.name}))


def propagate_messages(
    graph: FactorGraph, options: BeliefPropagation, components: np.ndarray, *, max_product: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the logits of all states of all missing cells, and which of the given components converged."""
    arity = np.diff(graph.factor_offsets)
    states, edges = np.diff(graph.message_offsets), len(graph.edge_cell)
    sizes = np.add.reduceat(states, graph.factor_offsets[:-1]) if len(arity) else np.zeros(0, dtype=np.int64)
    state = MessageState(
        messages=np.zeros(graph.message_offsets[-1]),
        pending=np.zeros(graph.message_offsets[-1]),
        beliefs=graph.unary_logits.copy(),
        queue=ResidualQueue(np.zeros(edges), np.empty(edges, dtype=np.int64), np.empty(edges, dtype=np.int64)),
        order=np.empty(len(arity), dtype=np.int64),
        parent_edge=np.full(len(arity), -1, dtype=np.int64),
        visited=np.zeros(graph.n_missing, dtype=np.bool_),
        incoming=np.empty(sizes.max(initial=0) + states.max(initial=0)),
        digit=np.empty(arity.max(initial=0), dtype=np.int64),
    )
    caps = float(options.tolerance), int(options.max_updates), float(options.damping)
    converged = propagate(graph, components, *caps, max_product, state)
    return state.beliefs, converged
