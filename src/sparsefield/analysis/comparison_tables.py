"""This module makes the tables of a comparison of groups: tests, edges and nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsefield.analysis.group_statistics import Adjustment, CandidateEdges, adjust
from sparsefield.analysis.permutation_tests import PermutationResult
from sparsefield.data import Label
from sparsefield.data.frame_building import make_frame
from sparsefield.frame_protocol import Frame
from sparsefield.model import Field
from sparsefield.viz.network import Network, variable_at

GLOBAL_STRENGTH, STRUCTURE = "global strength", "structure"
"""Names of the tests of whole networks."""


@dataclass(frozen=True)
class ComparedEdge:
    """An edge in the networks of two groups."""

    group_a: Label
    group_b: Label
    variable_a: str
    variable_b: str
    weight_a: float
    weight_b: float
    difference: float
    """Signed where the difference has a direction, else its size."""
    statistic: float
    p: float
    p_adjusted: float


@dataclass(frozen=True)
class ComparedNode:
    """A column in the networks of two groups."""

    group_a: Label
    group_b: Label
    variable: str
    strength_a: float
    strength_b: float
    statistic: float
    p: float
    p_adjusted: float


@dataclass(frozen=True)
class NetworkTest:
    """The test of whole networks; of all groups where no group is named."""

    group_a: Label
    group_b: Label
    test: str
    statistic: float
    p: float


@dataclass(frozen=True)
class ComparisonTables:
    """The tables of a comparison, as records and as frames."""

    test_rows: tuple[NetworkTest, ...]
    edge_rows: tuple[ComparedEdge, ...]
    node_rows: tuple[ComparedNode, ...]
    kind: str
    """Kind of the frames."""

    @property
    def tests(self) -> Frame:
        return self._frame(NetworkTest, self.test_rows)

    @property
    def edges(self) -> Frame:
        return self._frame(ComparedEdge, self.edge_rows)

    @property
    def nodes(self) -> Frame:
        return self._frame(ComparedNode, self.node_rows)

    def _frame(self, record: type, rows: Sequence[Any]) -> Frame:
        columns = {name: [getattr(row, name) for row in rows] for name in record.__dataclass_fields__}
        for name in ("group_a", "group_b"):
            columns[name] = [str(label) for label in columns[name]]
        return make_frame(columns, self.kind)


def difference_field(a: Field, b: Field) -> Field:
    """Return a field over the same columns whose weights are those of one field minus those of another."""
    pairs, place = np.unique(np.concatenate([a.pairs, b.pairs]), axis=0, return_inverse=True)
    weights = np.bincount(place.ravel(), np.concatenate([a.weights, -b.weights]), len(pairs))
    kept = weights != 0.0
    return Field(a.layout, a.biases - b.biases, pairs[kept], weights[kept])


def make_tables(
    labels: Sequence[Label],
    fields: Sequence[Field],
    edges: CandidateEdges,
    results: Sequence[PermutationResult],
    adjustment: Adjustment,
    kind: str,
    *,
    tested: bool,
) -> ComparisonTables:
    """Return the tables of a comparison; p-values are NaN where nothing was ``tested``."""
    tests: list[NetworkTest] = []
    edge_rows: list[ComparedEdge] = []
    node_rows: list[ComparedNode] = []
    for result in results:
        p = result.p_values if tested else np.full(len(result.counts), np.nan)
        groups = result.comparison.groups
        two = len(groups) == 2
        names = (labels[groups[0]], labels[groups[1]]) if two else ("", "")
        statistics = result.observed.global_strength, result.observed.structure
        tests += [
            NetworkTest(*names, *test)
            for test in zip((GLOBAL_STRENGTH, STRUCTURE), statistics, p[:2].tolist(), strict=True)
        ]
        if two:
            pair, n = [fields[group] for group in groups], len(edges.ends)
            edge_rows += _edge_rows(names, pair, edges, result, p[2 : 2 + n], adjustment)
            node_rows += _node_rows(names, pair, result, p[2 + n :], adjustment)
    return ComparisonTables(tuple(tests), tuple(edge_rows), tuple(node_rows), kind)


def signed_weights(field: Field) -> dict[tuple[int, int], float]:
    """Return {two variables: sign x strength}; the strength where states have no order."""
    network = Network(field)
    signed = np.where(network.signs == 0, 1, network.signs) * network.strengths
    return {(min(a, b), max(a, b)): w for (a, b), w in zip(network.ends.tolist(), signed.tolist(), strict=True)}


def node_strengths(field: Field) -> np.ndarray:
    """Return the strength centrality of each column, (variables,)."""
    network, count = Network(field), field.schema.n_variables
    one, two = network.ends.T
    return np.bincount(one, network.strengths, count) + np.bincount(two, network.strengths, count)


def _edge_rows(
    names: tuple[Label, Label],
    fields: Sequence[Field],
    edges: CandidateEdges,
    result: PermutationResult,
    p: np.ndarray,
    adjustment: Adjustment,
) -> list[ComparedEdge]:
    """Return the edges that have a weight in a field, or differ in the test; smallest p first."""
    one, two = (signed_weights(field) for field in fields)
    difference, schema = signed_weights(difference_field(*fields)), fields[0].schema
    adjusted, statistics = adjust(p, adjustment), result.observed.edges
    found = []
    for k in np.lexsort((-statistics, p)).tolist():
        a, b = edges.ends[k].tolist()
        weights = one.get((a, b), 0.0), two.get((a, b), 0.0)
        if any(weights) or statistics[k] > 0.0:
            values = *weights, difference.get((a, b), 0.0), float(statistics[k]), float(p[k]), float(adjusted[k])
            found.append(ComparedEdge(*names, variable_at(schema, a).name, variable_at(schema, b).name, *values))
    return found


def _node_rows(
    names: tuple[Label, Label],
    fields: Sequence[Field],
    result: PermutationResult,
    p: np.ndarray,
    adjustment: Adjustment,
) -> list[ComparedNode]:
    """Return the strength centrality of all columns, smallest p first."""
    schema = fields[0].schema
    sums = [node_strengths(field) for field in fields]
    adjusted, statistics = adjust(p, adjustment), result.observed.nodes
    found = []
    for k in np.lexsort((-statistics, p)).tolist():
        strengths, name = (float(sums[0][k]), float(sums[1][k])), variable_at(schema, k).name
        tested = float(statistics[k]), float(p[k]), float(adjusted[k])
        found.append(ComparedNode(*names, name, *strengths, *tested))
    return found
