"""The paper's synthetic networks (section 4.1): a random field, known to the last weight, and rows drawn from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sparsefield.data import Layout, Schema, Variable
from sparsefield.estimators import MarkovField
from sparsefield.model import Field

__all__ = ["SyntheticField", "make_markov_field"]

Array = np.ndarray[Any, np.dtype[Any]]
Bounds = tuple[float, float]


@dataclass(frozen=True)
class SyntheticField:
    """A field that was made up, and rows of it.

    Attributes
    ----------
    field : MarkovField
        The true field: it answers, draws and saves like a learned one.
    samples : array (rows, nodes) of int64
        States are 0, 1, ...; columns are called x0, x1, ...
    edges : list of (str, str)
        Names of the columns that share a weight: what ``FixedGraph(edges=...)`` takes.
    """

    field: MarkovField
    samples: Array
    edges: list[tuple[str, str]]

    def edge_mask(self) -> Array:
        """Boolean array (nodes, nodes), true at the edges, in both directions."""
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
    unary: Bounds | Literal["balanced"] = (0.0, 0.0),
    burn_in: int = 10_000,
    thin: int = 1_000,
    chains: int = 1,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SyntheticField:
    """Make a random field up, and draw rows of it by Gibbs sampling.

    Every pair of nodes is an edge with the same probability. An edge has a weight for each pair of its nodes' states
    but 0, the base state.

    Parameters
    ----------
    nodes, rows : int
        The paper's N and M.
    states : int or sequence of int
        States of a node; of each node, where a sequence of that many numbers is given.
    neighbors : float or None
        How many edges a node has on average, the paper's K; five, or as many as there can be, unless told.
    weights : (float, float)
        Weights are uniform between these.
    unary : (float, float) or "balanced"
        The same for unary weights; the paper speaks of none. "balanced" undoes the mean pull of a node's edges, so
        that no node is nearly always in one state because of its neighbors' number.
    burn_in, thin : int
        Sweeps before the first row of a chain, and between its rows.
    chains : int
        How many chains share the rows. One, as in the paper, may stay among a few of the field's modes: weights of 5
        make for deep ones.
    seed : int
        The same seed gives the same field and the same rows.
    n_jobs : int or None
        Threads; the rows are the same with any number.
    progress : callable, optional
        Hears how many sweeps are done, and how many there are.

    Examples
    --------
    >>> made = make_markov_field(10, 50, states=3, neighbors=2.0, burn_in=100, thin=10, seed=1)
    >>> made.samples.shape, len(made.edges)
    ((50, 10), 8)
    """
    if nodes < 1 or rows < 1:
        raise ValueError(f"nodes and rows must be at least 1, got {nodes} and {rows}.")
    if burn_in < 1:
        raise ValueError(f"burn_in must be at least 1, got {burn_in}.")
    widths = _counts(states, nodes) - 1
    neighbors = min(5.0, nodes - 1.0) if neighbors is None else neighbors
    if not 0.0 <= neighbors <= max(nodes - 1, 0):
        raise ValueError(f"neighbors must lie between 0 and {nodes - 1}, got {neighbors}.")
    shape, chain = np.random.SeedSequence(seed).spawn(2)
    rng = np.random.default_rng(shape)
    first, second = np.triu_indices(nodes, k=1)
    chosen = rng.random(first.size) < neighbors / max(nodes - 1, 1)
    ends = np.column_stack([first[chosen], second[chosen]])

    schema = _schema(widths + 1)
    pairs = _state_pairs(ends, widths, schema.offsets)
    strengths = rng.uniform(*_bounds("weights", weights), size=len(pairs))
    if isinstance(unary, str) and unary == "balanced":
        biases = -_mean_pull(pairs, strengths, schema)
    else:
        biases = rng.uniform(*_bounds("unary", unary, "'balanced' or "), size=schema.n_states)
    field = MarkovField.from_field(Field(Layout.single(schema), biases, pairs, strengths), n_jobs=n_jobs)
    drawn = int(chain.generate_state(1)[0])
    samples = field.sample(rows, sweeps=burn_in, thin=thin, chains=chains, random_state=drawn, progress=progress)
    return SyntheticField(field, np.asarray(samples, dtype=np.int64), [(f"x{a}", f"x{b}") for a, b in ends.tolist()])


def _counts(states: int | Sequence[int], nodes: int) -> Array:
    """(nodes,): how many states each node has."""
    counts = np.asarray(states)
    if counts.dtype.kind not in "iu" or counts.shape not in ((), (nodes,)):
        raise ValueError(f"states must be a whole number, or {nodes} of them, one for each node; got {states!r}.")
    if counts.min() < 2:
        raise ValueError(f"states must be at least 2, got {int(counts.min())}.")
    return np.broadcast_to(counts.astype(np.int64), (nodes,))


def _bounds(name: str, bounds: Any, other: str = "") -> Bounds:
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be {other}a pair of numbers, got {bounds!r}.") from None
    if not -np.inf < low <= high < np.inf:
        raise ValueError(f"{name} must be {other}a pair of finite numbers, the smaller first; got {bounds!r}.")
    return low, high


def _schema(counts: Array) -> Schema:
    variables = tuple(
        Variable(f"x{k}", "target", tuple(range(count)), 0, (1.0 / count,) * count)
        for k, count in enumerate(counts.tolist())
    )
    return Schema(variables, tuple(variable.name for variable in variables))


def _state_pairs(ends: Array, widths: Array, offsets: Array) -> Array:
    """(features, 2): every pair of states of the two nodes of each edge, in ascending order."""
    left, right = ends.T
    counts = widths[left] * widths[right]
    edge = np.repeat(np.arange(len(ends)), counts)
    place = np.arange(len(edge)) - np.repeat(np.cumsum(counts) - counts, counts)
    a, b = np.divmod(place, widths[right][edge])
    pairs = np.column_stack([offsets[left][edge] + a, offsets[right][edge] + b]).astype(np.int64)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def _mean_pull(pairs: Array, strengths: Array, schema: Schema) -> Array:
    """(states,): what a state's edges add to its logit when every state of the neighbors is as likely."""
    chance = 1.0 / (1.0 + schema.widths[schema.variable_of_column])
    both = np.concatenate([pairs, pairs[:, ::-1]])
    return np.bincount(both[:, 0], np.tile(strengths, 2) * chance[both[:, 1]], schema.n_states)
