"""This module draws independent rows of small binary fields, whose states are enumerated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["EnumeratedField", "random_field"]

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class EnumeratedField:
    """An enumerated field is p(x) ~ exp(biases . x + x . weights . x / 2) over 0/1 nodes.

    A weight is the log odds ratio of its pair given the other nodes.

    Attributes
    ----------
    biases : array (nodes,)
    weights : array (nodes, nodes)
        Symmetric, 0 where there is no edge.
    """

    biases: Array
    weights: Array

    def __post_init__(self) -> None:
        if len(self.biases) > 16:
            raise ValueError(f"the states of at most 16 nodes are enumerated, got {len(self.biases)} nodes.")

    def distribution(self) -> tuple[Array, Array]:
        """Return all states (2 ** nodes, nodes) and their probabilities."""
        states = (np.arange(2 ** len(self.biases))[:, None] >> np.arange(len(self.biases))) & 1
        logs = states @ self.biases + 0.5 * np.einsum("si,ij,sj->s", states, self.weights, states)
        chances = np.exp(logs - logs.max())
        return states, chances / chances.sum()

    def means(self) -> Array:
        """Return the probability (nodes,) of a 1 in each node."""
        states, chances = self.distribution()
        return chances @ states

    def draw(self, rows: int, rng: np.random.Generator) -> Array:
        """Return independent rows (rows, nodes) of 0.0 and 1.0."""
        states, chances = self.distribution()
        return states[rng.choice(len(states), size=rows, p=chances)].astype(np.float64)


def random_field(nodes: int, edges: int, rng: np.random.Generator) -> EnumeratedField:
    """Return a field with so many edges, of weights from 0.5 to 1.5 of either sign.

    Biases cancel the mean effect of the weights up to 0.5. The first node has the most edges.

    Examples
    --------
    >>> field = random_field(6, 7, np.random.default_rng(0))
    >>> int(np.count_nonzero(np.triu(field.weights))), field.draw(3, np.random.default_rng(0)).shape
    (7, (3, 6))
    """
    first, second = np.triu_indices(nodes, k=1)
    chosen = rng.choice(first.size, size=edges, replace=False)
    weights = np.zeros((nodes, nodes))
    weights[first[chosen], second[chosen]] = rng.uniform(0.5, 1.5, edges) * rng.choice([-1.0, 1.0], edges)
    weights += weights.T
    order = np.argsort(-np.count_nonzero(weights, axis=1), kind="stable")
    weights = weights[np.ix_(order, order)]
    return EnumeratedField(rng.uniform(-0.5, 0.5, nodes) - 0.5 * weights.sum(axis=1), weights)
