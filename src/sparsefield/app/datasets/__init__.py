"""Synthetic networks of the paper (section 4.1): random fields with known weights, and rows drawn from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np

from sparsefield.data import Layout, Schema
from sparsefield.estimators import MarkovField
from sparsefield.model import Field

Array = np.ndarray[Any, np.dtype[Any]]
Bounds = tuple[float, float]


@dataclass(frozen=True)
class SyntheticField:
    """A random field with known weights, and rows sampled from it.

    Attributes
    ----------
    field : MarkovField
        The true field, which can be used like a learned one.
    samples : array (rows, nodes) of int64
        States are 0, 1, ...; column names are x0, x1, ...
    edges : list of (str, str)
        Names of the columns that share a weight, as ``FixedGraph(edges=...)`` takes them.
    """

    field: MarkovField
    samples: Array
    edges: list[tuple[str, str]]

    def edge_mask(self) -> Array:
        """Return the symmetric boolean adjacency matrix (nodes, nodes)."""
        mask = np.zeros((self.samples.shape[1],) * 2, dtype=bool)
        for left, right in self.edges:
            mask[int(left[1:]), int(right[1:])] = mask[int(right[1:]), int(left[1:])] = True
        return mask


def make_markov_field(
    nodes: int = 200,
    rows: int = 200,
    *,
    states: int | Sequence[int] = 2,
    neighbors: float | None = None,
    weights: Bounds = (-5.0, 5.0),
    biases: Bounds | Literal["balanced"] = (0.0, 0.0),
    burn_in: int = 10_000,
    thin: int = 1_000,
    chains: int = 1,
    seed: int = 0,
    n_jobs: int | None = None,
) -> SyntheticField:
    """Make a random field and sample rows from it by Gibbs sampling.

    Every pair of nodes is an edge with the same probability. An edge has a weight for each pair of states of its nodes,
    except for the reference state 0.

    Parameters
    ----------
    nodes, rows : int
        Numbers of columns and rows, N and M in the paper.
    states : int or sequence of int
        Number of states of every node, or of each node.
    neighbors : float or None
        Mean number of edges of a node, K in the paper; by default five, or ``nodes - 1`` if that is smaller.
    weights : (float, float)
        Bounds of the uniform distribution of the weights.
    biases : (float, float) or "balanced"
        Bounds of the biases, which the paper does not have. "balanced" cancels the mean effect of the edges of
        a node, so that nodes with many neighbors are not nearly always in one state.
    burn_in, thin : int
        Sweeps before the first row of a chain, and between its rows.
    chains : int
        Number of chains that share the rows. A single chain, as in the paper, may stay in a few modes of the field when
        weights are as large as 5.
    seed : int
        The same seed gives the same field and the same rows.
    n_jobs : int or None
        Number of threads; it does not affect the rows.

    Returns
    -------
    SyntheticField

    Examples
    --------
    >>> made = make_markov_field(10, 50, states=3, neighbors=2.0, burn_in=100, thin=10, seed=1)
    >>> made.samples.shape, len(made.edges)
    ((50, 10), 8)
    """
    counts = np.asarray(states)
    neighbors = min(5.0, nodes - 1.0) if neighbors is None else neighbors
    if min(nodes, rows) < 1:
        raise ValueError(f"nodes and rows must be at least 1, got {nodes} and {rows}.")
    if counts.dtype.kind not in "iu" or counts.shape not in ((), (nodes,)) or counts.min() < 2:
        what = f"states must be an integer of at least 2, or {nodes} of them, one for each node"
        raise ValueError(f"{what}; got {states!r}.")
    if not 0.0 <= neighbors <= max(nodes - 1, 0):
        raise ValueError(f"neighbors must be between 0 and {nodes - 1}, got {neighbors}.")
    widths = np.broadcast_to(counts.astype(np.int64), (nodes,)) - 1
    shape, chain = np.random.SeedSequence(seed).spawn(2)
    rng = np.random.default_rng(shape)
    first, second = np.triu_indices(nodes, k=1)
    chosen = rng.random(first.size) < neighbors / max(nodes - 1, 1)
    ends = np.column_stack([first[chosen], second[chosen]])

    schema = Schema.uniform({f"x{k}": range(width + 1) for k, width in enumerate(widths.tolist())})
    columns = [range(first, first + width) for first, width in zip(schema.offsets.tolist(), widths, strict=False)]
    listed = sorted(pair for a, b in ends.tolist() for pair in product(columns[a], columns[b]))
    pairs = np.array(listed, dtype=np.int64).reshape(-1, 2)
    strengths = rng.uniform(*_bounds("weights", weights), size=len(pairs))
    if biases == "balanced":
        # The mean contribution of edges to the logit of a state, for neighbors in uniform states, is canceled.
        share = 1.0 / (1.0 + schema.widths[schema.variable_of_column])
        both = np.concatenate([pairs, pairs[:, ::-1]])
        drawn = -np.bincount(both[:, 0], np.tile(strengths, 2) * share[both[:, 1]], schema.n_target_columns)
    else:
        drawn = rng.uniform(*_bounds("biases", biases, "'balanced' or "), size=schema.n_target_columns)
    field = MarkovField.from_field(Field(Layout.single(schema), drawn, pairs, strengths), n_jobs=n_jobs)
    draw_seed = int(chain.generate_state(1)[0])
    samples = field.sample(rows, burn_in=burn_in, thin=thin, chains=chains, random_state=draw_seed)
    return SyntheticField(field, np.asarray(samples, dtype=np.int64), [(f"x{a}", f"x{b}") for a, b in ends.tolist()])


def _bounds(name: str, bounds: Any, other: str = "") -> Bounds:
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError):
        low, high = np.inf, -np.inf
    if not -np.inf < low <= high < np.inf:
        raise ValueError(f"{name} must be {other}a pair of finite numbers, the smaller first; got {bounds!r}.")
    return low, high
