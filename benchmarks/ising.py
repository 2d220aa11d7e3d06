"""This module draws random Ising-like fields with known weights, and samples of them by Gibbs sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

Array = np.ndarray[Any, np.dtype[Any]]

# At mean degree 5 and weights in [-2, 2] a chain forgets its start within some tens of sweeps.
BURN_IN = 500
THIN = 50
ROWS_PER_CHAIN = 20


class _Graph(NamedTuple):
    """A graph has the neighbors of node i at ``starts[i]:starts[i + 1]``, each edge once per direction."""

    starts: Array
    neighbors: Array
    weights: Array
    biases: Array


# A kernel of its own: `beliefs` averages conditional probabilities over sweeps, and rows come from chains within one
# table; the library's sampler returns the last states of independent chains.
@njit(nogil=True, cache=True)
def _gibbs(state, free, graph, sweeps, rng, belief_sums):
    for _ in range(sweeps):
        for node in free:
            logit = graph.biases[node]
            for k in range(graph.starts[node], graph.starts[node + 1]):
                logit += graph.weights[k] * state[graph.neighbors[k]]
            belief = 1.0 / (1.0 + np.exp(-logit))
            belief_sums[node] += belief
            state[node] = 1 if rng.random() < belief else 0


@dataclass(frozen=True)
class IsingData:
    """Ising data are samples of a field over 0/1 nodes, with the field itself.

    The field is p(x) ~ exp(sum_i biases[i] x_i + sum_e weights[e] x_a x_b), where (a, b) = pairs[e].

    Attributes
    ----------
    samples : array (rows, nodes) of int8
    pairs : array (edges, 2) of int64
        The smaller node first.
    weights : array (edges,) of float64
    biases : array (nodes,) of float64
    """

    samples: Array
    pairs: Array
    weights: Array
    biases: Array

    def weight_matrix(self) -> Array:
        """Return the symmetric matrix (nodes, nodes) of the true weights, zero where there is no edge."""
        matrix = np.zeros((self.biases.size, self.biases.size))
        matrix[self.pairs[:, 0], self.pairs[:, 1]] = self.weights
        return matrix + matrix.T

    def edge_mask(self) -> Array:
        """Return the boolean adjacency matrix (nodes, nodes)."""
        mask = np.zeros((self.biases.size, self.biases.size), dtype=bool)
        mask[self.pairs[:, 0], self.pairs[:, 1]] = True
        return mask | mask.T

    def pseudo_log_likelihood(
        self, bias: Array | None = None, weights: Array | None = None, rows: slice = slice(None)
    ) -> float:
        """Return the mean over the cells of ``samples[rows]`` of log p(cell | the rest of its row).

        Parameters
        ----------
        bias : array (nodes,), optional
            None takes the true biases.
        weights : array (nodes, nodes), optional
            None takes the true weights.
        rows : slice
            Which rows to score.
        """
        bias = self.biases if bias is None else bias
        weights = self.weight_matrix() if weights is None else weights
        return pseudo_log_likelihood(self.samples[rows], bias, weights)

    def beliefs(self, incomplete: Array, *, burn_in: int = 100, sweeps: int = 1000, seed: int = 0) -> Array:
        """Return the probability of 1 in each missing cell given the others of its row, under the true field.

        Gibbs sampling runs over the missing cells; conditional probabilities are averaged, not the draws
        (Rao-Blackwell), which is more exact.

        Parameters
        ----------
        incomplete : array (rows, nodes) of float
            NaN marks a gap.

        Returns
        -------
        array (rows, nodes) of float64
            Seen cells hold their own value.
        """
        rng = np.random.default_rng(seed)
        graph = _flat_graph(self.pairs, self.weights, self.biases)
        beliefs = np.array(incomplete, dtype=np.float64)
        sums = np.zeros(self.biases.size)
        for row in beliefs:
            free = np.flatnonzero(np.isnan(row))
            state = np.where(np.isnan(row), rng.integers(0, 2, row.size), row).astype(np.int8)
            _gibbs(state, free, graph, burn_in, rng, sums)
            sums[:] = 0.0
            _gibbs(state, free, graph, sweeps, rng, sums)
            row[free] = sums[free] / sweeps
        return beliefs


def draw_ising(
    nodes: int,
    rows: int,
    *,
    mean_degree: float = 5.0,
    strength: float = 2.0,
    burn_in: int = BURN_IN,
    thin: int = THIN,
    rows_per_chain: int = ROWS_PER_CHAIN,
    seed: int = 0,
) -> IsingData:
    """Draw a random field and samples of it.

    Every pair of nodes is an edge with the same probability; weights are uniform in [-strength, strength];
    the biases cancel the mean effect of the weights, so every node is 1 half of the time. Consecutive rows
    come from one chain, ``thin`` sweeps apart, so two consecutive parts of the rows share at most
    one chain.

    Parameters
    ----------
    nodes, rows : int
        Size of the table. Draw training and held-out rows in one call and split them.
    mean_degree : float
        Expected number of neighbors of a node.
    strength : float
        Largest absolute weight.
    burn_in, thin, rows_per_chain : int
        Sweeps before the first row of a chain, sweeps between its rows, and rows taken from it.
    seed : int
        The same seed gives the same field and the same rows.

    Examples
    --------
    >>> data = draw_ising(10, 50, seed=1)
    >>> data.samples.shape
    (50, 10)
    """
    rng = np.random.default_rng(seed)
    first, second = np.triu_indices(nodes, k=1)
    chosen = rng.random(first.size) < mean_degree / max(nodes - 1, 1)
    pairs = np.column_stack([first[chosen], second[chosen]]).astype(np.int64)
    weights = rng.uniform(-strength, strength, size=len(pairs))
    biases = -0.5 * np.bincount(pairs.ravel(), weights=np.repeat(weights, 2), minlength=nodes)
    graph = _flat_graph(pairs, weights, biases)

    samples = np.empty((rows, nodes), dtype=np.int8)
    everywhere, unused = np.arange(nodes), np.zeros(nodes)
    for start in range(0, rows, rows_per_chain):
        state = rng.integers(0, 2, nodes).astype(np.int8)
        for row in range(start, min(start + rows_per_chain, rows)):
            _gibbs(state, everywhere, graph, burn_in if row == start else thin, rng, unused)
            samples[row] = state
    return IsingData(samples=samples, pairs=pairs, weights=weights, biases=biases)


def pseudo_log_likelihood(samples: Array, bias: Array, weights: Array) -> float:
    """Return the mean over cells of log p(cell | the rest of its row), natural log.

    Parameters
    ----------
    samples : array (rows, nodes) of 0/1
    bias : array (nodes,)
    weights : array (nodes, nodes)
        Row i holds the weights by which the others act on node i. A symmetric matrix is one field; separate
        regressions, one per node, need not be symmetric. The diagonal must be zero.
    """
    cells = np.asarray(samples, dtype=np.float64)
    logits = cells @ weights.T + bias
    return float(-np.mean(np.logaddexp(0.0, (1.0 - 2.0 * cells) * logits)))


def _flat_graph(pairs: Array, weights: Array, biases: Array) -> _Graph:
    source = np.concatenate([pairs[:, 0], pairs[:, 1]])
    target = np.concatenate([pairs[:, 1], pairs[:, 0]])
    order = np.argsort(source, kind="stable")
    counts = np.bincount(source, minlength=biases.size)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return _Graph(starts, target[order], np.concatenate([weights, weights])[order], biases)
