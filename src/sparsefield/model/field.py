"""Features and weights: the learned field, and the arcs that kernels walk."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sparsefield.data.layout import Arcs, Layout
from sparsefield.data.schema import Schema
from sparsefield.model.fit_record import FitRecord

__all__ = ["Field", "Graph", "compile_graphs", "widen"]


class Graph(NamedTuple):
    """Who influences the states of one table, as flat arrays: each arc leads from a column that the table's rows see,
    their own or a neighbor's, to a target state, and names the feature whose weight it carries."""

    first: int
    """Place of the table's first unary weight in theta."""
    state_offsets: np.ndarray
    """(targets + 1,)"""
    arc_offsets: np.ndarray
    """(states + 1,)"""
    arc_source: np.ndarray
    arc_feature: np.ndarray
    """Index into theta: unary weights first, then pair weights, then those of conjunctions."""
    widest: int
    term_offsets: np.ndarray
    """(states + 1,): arcs from a conjunction of columns, whose product they carry."""
    term_source: np.ndarray
    """(term arcs, columns): own columns of the table, -1 where there are fewer. Arcs that differ in their first column
    alone follow each other."""
    term_feature: np.ndarray
    term_run: np.ndarray
    """(term arcs,): how many such arcs there are from here on."""
    members: np.ndarray
    """(features, columns): the columns of each feature of three and more that the table has; member_feature names its
    weight."""
    member_feature: np.ndarray


def compile_graphs(layout: Layout, arcs: Arcs) -> tuple[Graph, ...]:
    """The graph of each table, arcs sorted by target state and source."""
    order = np.lexsort((arcs.source, arcs.target))
    order = order[arcs.source[order] < layout.n_columns] if len(arcs.conjunctions) else order
    target, source = arcs.target[order], arcs.source[order]
    feature = layout.n_states + arcs.feature[order]
    terms = _compile_terms(layout, arcs)
    graphs = []
    for t, schema in enumerate(layout.schemas):
        first, last = int(layout.state_starts[t]), int(layout.state_starts[t + 1])
        offsets = np.searchsorted(target, np.arange(first, last + 1))
        mine = slice(int(offsets[0]), int(offsets[-1]))
        widest = int(np.diff(schema.state_offsets).max(initial=1))
        graphs.append(
            Graph(
                first,
                schema.state_offsets,
                offsets - offsets[0],
                source[mine] - layout.column_starts[t],
                feature[mine],
                widest,
                *terms[t],
            )
        )
    return tuple(graphs)


def _compile_terms(layout: Layout, arcs: Arcs) -> list[tuple[np.ndarray, ...]]:
    """Per table, the arcs of its conjunctions by target state, and the features themselves."""
    order = np.flatnonzero(arcs.source >= layout.n_columns) if len(arcs.conjunctions) else np.empty(0, dtype=np.int64)
    sources = _last_first(arcs.conjunctions[arcs.source[order] - layout.n_columns])
    by_target = np.lexsort((*sources.T, arcs.target[order]))
    order, sources = order[by_target], sources[by_target]
    target, feature = arcs.target[order], layout.n_states + arcs.feature[order]
    run = _runs(np.column_stack([target, sources[:, 1:]]))
    own = np.column_stack([layout.column_of_state[target], sources]) if len(order) else np.empty((0, 3), dtype=np.int64)
    found = []
    for t in range(len(layout.schemas)):
        first, last = int(layout.state_starts[t]), int(layout.state_starts[t + 1])
        offsets = np.searchsorted(target, np.arange(first, last + 1))
        mine, start = slice(int(offsets[0]), int(offsets[-1])), layout.column_starts[t]
        features, place = np.unique(feature[mine], return_index=True)
        members = own[mine][place]
        found.append(
            (
                offsets - offsets[0],
                np.ascontiguousarray(np.where(sources[mine] >= 0, sources[mine] - start, -1)),
                feature[mine],
                run[mine],
                np.ascontiguousarray(np.where(members >= 0, members - start, -1)),
                features,
            )
        )
    return found


def _last_first(sources: np.ndarray) -> np.ndarray:
    """``sources``, ascending with -1 behind, with their last column moved to the front.

    Which column goes there must not depend on what other features there are: sums would come out in another order, and
    a fit that was interrupted with other bits.
    """
    last = ((sources >= 0).sum(axis=1) - 1)[:, None]
    first = np.take_along_axis(sources, last, axis=1)
    others = sources[np.arange(sources.shape[1]) != last].reshape(len(sources), sources.shape[1] - 1)
    return np.concatenate([first, others], axis=1)


def _runs(keys: np.ndarray) -> np.ndarray:
    """(rows,): how many rows from here on are equal."""
    if not len(keys):
        return np.empty(0, dtype=np.int64)
    ends = np.append(np.flatnonzero((keys[1:] != keys[:-1]).any(axis=1)) + 1, len(keys))
    return ends[np.searchsorted(ends, np.arange(len(keys)), side="right")] - np.arange(len(keys))


@dataclass(frozen=True)
class Field:
    """A conditional random field (Eq. 1): a layout, unary weights, and weighted pairs of columns."""

    layout: Layout
    unary: np.ndarray
    """(states,)"""
    pairs: np.ndarray
    """(features, 2): column numbers of the layout, a target state and what it sees, ascending."""
    weights: np.ndarray
    """(features,)"""
    conjunctions: np.ndarray = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64))
    """(features, columns): features of three columns and more, a target state first, -1 where there are fewer."""
    conjunction_weights: np.ndarray = field(default_factory=lambda: np.empty(0))
    record: FitRecord = FitRecord()
    """What is known of the fit."""

    @property
    def schema(self) -> Schema:
        """The columns of a field over one table."""
        (schema,) = self.layout.schemas
        return schema

    @cached_property
    def features(self) -> np.ndarray:
        """(features, columns): pairs, then conjunctions, in the order of their weights in theta."""
        if not len(self.conjunctions):
            return self.pairs
        return np.concatenate([widen(self.pairs, self.conjunctions.shape[1]), self.conjunctions])

    @cached_property
    def graphs(self) -> tuple[Graph, ...]:
        return compile_graphs(self.layout, self.layout.arcs(self.features))

    @cached_property
    def theta(self) -> np.ndarray:
        return np.concatenate([self.unary, self.weights, self.conjunction_weights])


def widen(features: np.ndarray, width: int) -> np.ndarray:
    """(features, width): the same features with -1 behind their columns."""
    return np.pad(features, ((0, 0), (0, width - features.shape[1])), constant_values=-1)
