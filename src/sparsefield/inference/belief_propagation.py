"""Belief propagation (sum-product): exact where the gaps make up a tree, and usually close where they do not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.inference.factor_graph import (
    FactorGraph,
    build_factors,
    cells_of,
    entities_of,
    normalized,
    write_beliefs,
)
from sparsefield.inference.method import InferenceMethod
from sparsefield.inference.missing_problem import MissingProblem
from sparsefield.kernels.message_passing import Queue, Space, propagate

__all__ = ["BeliefPropagation", "message_beliefs"]


@dataclass(frozen=True)
class BeliefPropagation(InferenceMethod):
    """Gaps that share features tell each other what they hear from the rest, until no message moves.

    Two passes over a part's factors come first, out from one gap and back; where these make up a tree, they are all.
    Then the message that moves most is updated first.

    Parameters
    ----------
    tolerance : a message is settled when an update would change the log-ratio of no two of its values by more
    max_updates : cap on updates, for each message on average
    damping : share of the old message, in logarithms, that is kept at each update after the two passes, in [0, 1)
    """

    tolerance: float = 1e-8
    max_updates: int = 200
    damping: float = 0.1
    name = "bp"
    advice = "Raise max_updates, or damping: inference=BeliefPropagation(max_updates=..., damping=...)"

    def __post_init__(self) -> None:
        if not 0.0 <= self.damping < 1.0:
            raise ValueError(f"damping must be in [0, 1), got {self.damping}.")
        if self.tolerance < 0 or self.max_updates < 1:
            raise ValueError("tolerance must not be negative, and max_updates must be at least 1.")

    def fill(self, web: MissingProblem, theta: np.ndarray) -> int:
        graph = build_factors(web, theta)
        logits, settled = message_beliefs(graph, self, np.arange(graph.n_parts))
        write_beliefs(web, graph, normalized(graph, logits))
        return entities_of(web, cells_of(graph, ~settled))


def message_beliefs(
    graph: FactorGraph, options: BeliefPropagation, parts: np.ndarray, *, hard: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Logits of all states of all gaps, and which of some parts settled; ``hard`` is max-product."""
    arity = np.diff(graph.factor_offsets)
    states, edges = np.diff(graph.message_offsets), len(graph.edge_cell)
    rooms = np.add.reduceat(states, graph.factor_offsets[:-1]) if len(arity) else np.zeros(0, dtype=np.int64)
    space = Space(
        messages=np.zeros(graph.message_offsets[-1]),
        pending=np.zeros(graph.message_offsets[-1]),
        beliefs=graph.unary.copy(),
        queue=Queue(np.zeros(edges), np.empty(edges, dtype=np.int64), np.empty(edges, dtype=np.int64)),
        order=np.empty(len(arity), dtype=np.int64),
        towards=np.full(len(arity), -1, dtype=np.int64),
        met=np.zeros(graph.n_missing, dtype=np.bool_),
        incoming=np.empty(rooms.max(initial=0) + states.max(initial=0)),
        digit=np.empty(arity.max(initial=0), dtype=np.int64),
    )
    caps = float(options.tolerance), int(options.max_updates), float(options.damping)
    settled = propagate(graph, parts, *caps, hard, space)
    return space.beliefs, settled
