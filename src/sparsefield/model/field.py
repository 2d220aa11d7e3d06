"""The learned field: features and weights, adjacency arrays, latent features, and labels given sparse covariates."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from sparsefield.data.coding import Coding
from sparsefield.data.dataset import Dataset
from sparsefield.data.layout import Arcs, Layout
from sparsefield.data.schema import Schema, Variable
from sparsefield.data.sparse_matrix import CovariateWeights, SparseMatrix
from sparsefield.data.table import Table, cut_into_blocks
from sparsefield.model.fit_record import FitRecord


class Adjacency(NamedTuple):
    """The adjacency lists of one table's target states, as flat (CSR) arrays.

    Each arc leads to a target state from a column of the same row or of its linked rows, and refers to a feature.
    """

    first: int
    """Index of the table's first bias in theta."""
    target_offsets: np.ndarray
    """(targets + 1,)"""
    coding: Coding
    arc_offsets: np.ndarray
    """(states + 1,)"""
    arc_source: np.ndarray
    arc_feature: np.ndarray
    """Index into theta: biases first, then pair weights, then those of conjunctions."""
    widest: int
    term_offsets: np.ndarray
    """(states + 1,): offsets of the arcs from conjunctions, that is, products of columns."""
    term_source: np.ndarray
    """(term arcs, columns): columns of the same row, padded with -1. Arcs that differ only in their first column are
    consecutive."""
    term_feature: np.ndarray
    term_run: np.ndarray
    """(term arcs,): number of such consecutive arcs from here on."""
    members: np.ndarray
    """(features, columns): the columns of each higher-order feature of the table; member_feature indexes theta."""
    member_feature: np.ndarray


def compile_adjacency(layout: Layout, arcs: Arcs) -> tuple[Adjacency, ...]:
    """Return the adjacency arrays of each table, with arcs sorted by target state and source."""
    # One key is sorted faster than two.
    key = arcs.target * np.int64(layout.n_columns + len(arcs.conjunctions)) + arcs.source
    order = np.argsort(key, kind="stable")
    order = order[arcs.source[order] < layout.n_columns] if len(arcs.conjunctions) else order
    target, source = arcs.target[order], arcs.source[order]
    feature = layout.n_target_columns + arcs.feature[order]
    terms = _compile_terms(layout, arcs)
    graphs = []
    for t, schema in enumerate(layout.schemas):
        first, last = int(layout.target_starts[t]), int(layout.target_starts[t + 1])
        offsets = np.searchsorted(target, np.arange(first, last + 1))
        own_arcs = slice(int(offsets[0]), int(offsets[-1]))
        widest = int(np.diff(schema.target_offsets).max(initial=1))
        graphs.append(
            Adjacency(
                first,
                schema.target_offsets,
                schema.coding,
                offsets - offsets[0],
                source[own_arcs] - layout.column_starts[t],
                feature[own_arcs],
                widest,
                *terms[t],
            )
        )
    return tuple(graphs)


def _compile_terms(layout: Layout, arcs: Arcs) -> list[tuple[np.ndarray, ...]]:
    """Return, for each table, the arcs from conjunctions by target state, and the higher-order features."""
    if not len(arcs.conjunctions):
        nothing, starts = np.empty(0, dtype=np.int64), [np.zeros(s.n_target_columns + 1, int) for s in layout.schemas]
        no_terms, no_members = np.empty((0, 2), dtype=np.int64), np.empty((0, 3), dtype=np.int64)
        return [(start, no_terms, nothing, nothing, no_members, nothing) for start in starts]
    order = np.flatnonzero(arcs.source >= layout.n_columns)
    ascending = arcs.conjunctions[arcs.source[order] - layout.n_columns]
    # The last column comes first. Which one must not depend on other features, since it determines the order of sums.
    last = ((ascending >= 0).sum(axis=1) - 1)[:, None]
    others = ascending[np.arange(ascending.shape[1]) != last].reshape(len(ascending), ascending.shape[1] - 1)
    sources = np.concatenate([np.take_along_axis(ascending, last, axis=1), others], axis=1)
    by_target = np.lexsort((*sources.T, arcs.target[order]))
    order, sources = order[by_target], sources[by_target]
    target, feature = arcs.target[order], layout.n_target_columns + arcs.feature[order]
    keys, places = np.column_stack([target, sources[:, 1:]]), np.arange(len(target))
    ends = np.append(np.flatnonzero((keys[1:] != keys[:-1]).any(axis=1)) + 1, len(keys))
    run = ends[np.searchsorted(ends, places, side="right")] - places  # equal consecutive rows from each on
    own = np.column_stack([layout.column_of_target[target], sources])
    tables = []
    for t in range(len(layout.schemas)):
        first, last = int(layout.target_starts[t]), int(layout.target_starts[t + 1])
        offsets = np.searchsorted(target, np.arange(first, last + 1))
        own_arcs, start = slice(int(offsets[0]), int(offsets[-1])), layout.column_starts[t]
        features, place = np.unique(feature[own_arcs], return_index=True)
        members = own[own_arcs][place]
        tables.append(
            (
                offsets - offsets[0],
                np.ascontiguousarray(np.where(sources[own_arcs] >= 0, sources[own_arcs] - start, -1)),
                feature[own_arcs],
                run[own_arcs],
                np.ascontiguousarray(np.where(members >= 0, members - start, -1)),
                features,
            )
        )
    return tables


@dataclass(frozen=True)
class Field:
    """A conditional random field (Eq. 1): a layout, biases, and weighted pairs and conjunctions of columns."""

    layout: Layout
    biases: np.ndarray
    """(states,)"""
    pairs: np.ndarray
    """(features, 2): column numbers of the layout, at least one of them a target state, ascending."""
    weights: np.ndarray
    """(features,)"""
    conjunctions: np.ndarray = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64))
    """(features, columns): higher-order features, a target state first, padded with -1."""
    conjunction_weights: np.ndarray = field(default_factory=lambda: np.empty(0))
    record: FitRecord = field(default_factory=FitRecord)
    """Facts about the fit; the empty record for a field that was not learned."""

    @property
    def schema(self) -> Schema:
        """Return the schema of a field over one table."""
        (schema,) = self.layout.schemas
        return schema

    @cached_property
    def features(self) -> np.ndarray:
        """Return (features, columns): pairs, then conjunctions, in the order of their weights in theta."""
        if not len(self.conjunctions):
            return self.pairs
        return np.concatenate([pad_features(self.pairs, self.conjunctions.shape[1]), self.conjunctions])

    @cached_property
    def graphs(self) -> tuple[Adjacency, ...]:
        return compile_adjacency(self.layout, self.layout.arcs(self.features))

    @cached_property
    def theta(self) -> np.ndarray:
        return np.concatenate([self.biases, self.weights, self.conjunction_weights])


def pad_features(features: np.ndarray, width: int) -> np.ndarray:
    """Return (features, width): the features padded with -1."""
    if features.shape[1] == width:
        return features
    return np.pad(features, ((0, 0), (0, width - features.shape[1])), constant_values=-1)


class LatentSplit(NamedTuple):
    """A field over one table, split into its visible features and the features of latent states."""

    whole: tuple[Adjacency, ...]
    visible: Adjacency
    """Arcs between visible columns."""
    first: int
    """Index of the first latent state; earlier states are visible."""
    members: np.ndarray
    """(latent states, joint states): 1 where a joint state of the latent variables contains the state."""
    column: np.ndarray
    """(features,): visible column of each feature between a column and a latent state ``first + state``."""
    state: np.ndarray
    feature: np.ndarray
    """Index into theta."""
    one: np.ndarray
    """(features,): ``one`` and ``other`` are two latent states that share the feature ``tie``."""
    other: np.ndarray
    tie: np.ndarray

    def joint_state_logits(self, theta: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (columns, joint states) contributions to the columns' logits, and (joint states,) their own logits."""
        weights = np.zeros((n_columns, len(self.members)))
        weights[self.column, self.state] = theta[self.feature]
        level = theta[self.first : self.first + len(self.members)] @ self.members
        for one, other, tie in zip(self.one, self.other, self.tie, strict=True):
            level = level + theta[tie] * self.members[one] * self.members[other]
        return weights @ self.members, level


def split_latent(layout: Layout, arcs: Arcs) -> LatentSplit:
    """Split the arcs of a field over one table into visible and latent ones."""
    (schema,) = layout.schemas
    first, last = int(schema.target_offsets[-1 - len(schema.latent)]), schema.n_target_columns
    from_latent, to_latent = (arcs.source >= first) & (arcs.source < last), arcs.target >= first
    own = np.flatnonzero(~from_latent & ~to_latent)
    outside, among = to_latent & ~from_latent, to_latent & from_latent & (arcs.target < arcs.source)
    (graph,) = compile_adjacency(layout, Arcs(arcs.target[own], arcs.source[own], arcs.feature[own], arcs.conjunctions))
    return LatentSplit(
        compile_adjacency(layout, arcs),
        graph,
        first,
        joint_states(tuple(variable.width for variable in schema.latent)),
        arcs.source[outside],
        arcs.target[outside] - first,
        last + arcs.feature[outside],
        arcs.target[among] - first,
        arcs.source[among] - first,
        last + arcs.feature[among],
    )


@lru_cache(maxsize=16)
def joint_states(widths: tuple[int, ...]) -> np.ndarray:
    """Return (latent states, joint states): 1 where a joint state contains a state other than the reference state."""
    codes = np.indices([width + 1 for width in widths]).reshape(len(widths), -1)
    parts = [codes[k] == np.arange(1, width + 1)[:, None] for k, width in enumerate(widths)]
    return np.concatenate(parts).astype(float)


def condition_on_covariates(field: Field, covariates: SparseMatrix, labels: Table) -> tuple[Field, Dataset]:
    """Return a field of labels alone, and the dataset on which it is the given field.

    Sparse covariates of a row enter the field only through the sum of covariate x weight for each label state. So
    inference needs no more than a dense table of the labels, with one covariate of weight 1 per label state: this sum.

    Parameters
    ----------
    field : of labels given sparse covariates
    covariates : (rows, covariates)
    labels : rows of the labels, compiled with the schema of the labels; missing cells are those to infer
    """
    schema = field.schema
    n = schema.n_target_columns
    among, outside = field.pairs[:, 1] < n, np.flatnonzero(field.pairs[:, 1] >= n)
    state, covariate = field.pairs[outside, 0], field.pairs[outside, 1] - n
    order = np.lexsort((state, covariate))
    offsets = np.searchsorted(covariate[order], np.arange(covariates.n_columns + 1))
    given = CovariateWeights(offsets, state[order].astype(np.int32), field.weights[outside[order]])
    logits = covariates.logits(given, n, 0, covariates.n_rows)
    stem = "covariates"
    while any(name.startswith(stem) for name in schema.labels.order):
        stem += "'"
    variables = (*schema.targets, *(Variable(f"{stem} {k}", "observed", kind="numeric") for k in range(n)))
    reduced = Schema(variables, tuple(variable.name for variable in variables))
    states = np.arange(n)
    pairs = np.concatenate([field.pairs[among], np.column_stack([states, n + states])])
    weights = np.concatenate([field.weights[among], np.ones(n)])
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    conditioned = Field(Layout.single(reduced), field.biases, pairs[order], weights[order])
    blocks = cut_into_blocks(reduced, labels.codes(), logits, labels.weight(), reduced.n_columns)
    table = Table(reduced, tuple(blocks), labels.n_rows, labels.unknown_rows)
    return conditioned, Dataset.single(table)
