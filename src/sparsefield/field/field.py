"""Features and weights: the learned field, and the arcs that kernels walk."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sparsefield.data.schema import Schema

__all__ = ["Field", "Graph", "compile_graph"]


class Graph(NamedTuple):
    """Who influences whom, as flat arrays. A pair feature of two targets has two arcs, of a target and an observed
    column one; each arc leads from a source column to a target state and names the feature whose weight it carries."""

    state_offsets: np.ndarray
    """(targets + 1,)"""
    arc_offsets: np.ndarray
    """(states + 1,)"""
    arc_source: np.ndarray
    arc_feature: np.ndarray
    """Index into theta: unary weights first, then pair weights."""
    widest: int


def compile_graph(schema: Schema, pairs: np.ndarray) -> Graph:
    """Arcs of ``pairs`` (features, 2), each with a target state first, sorted by target state and source."""
    n_states = schema.n_states
    a, b = pairs[:, 0], pairs[:, 1]
    feature = n_states + np.arange(len(pairs))
    both = b < n_states
    target = np.concatenate([a, b[both]])
    source = np.concatenate([b, a[both]])
    order = np.lexsort((source, target))
    offsets = np.searchsorted(target[order], np.arange(n_states + 1))
    widths = np.diff(schema.state_offsets)
    return Graph(
        schema.state_offsets,
        offsets,
        source[order],
        np.concatenate([feature, feature[both]])[order],
        int(widths.max(initial=1)),
    )


@dataclass(frozen=True)
class Field:
    """A conditional random field (Eq. 1): a schema, unary weights, and weighted pairs of columns."""

    schema: Schema
    unary: np.ndarray
    """(states,)"""
    pairs: np.ndarray
    """(features, 2): columns of the flat numbering, a target state first, ascending."""
    weights: np.ndarray
    """(features,)"""
    about: dict[str, Any] = field(default_factory=dict)
    """How it was learned: options and outcome, plain values."""

    @cached_property
    def graph(self) -> Graph:
        return compile_graph(self.schema, self.pairs)

    @cached_property
    def theta(self) -> np.ndarray:
        return np.concatenate([self.unary, self.weights])
