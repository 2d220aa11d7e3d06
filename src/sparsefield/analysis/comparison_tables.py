"""This module makes the tables of a comparison of groups: tests, edges and nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np

from sparsefield.analysis.group_statistics import Adjustment, CandidateEdges, adjust
from sparsefield.analysis.max_adjustment import adjust_by_maximum, adjust_by_plain_maximum
from sparsefield.analysis.network import Network, sum_by_node, variable_at
from sparsefield.analysis.permutation_tests import PermutationResult
from sparsefield.data import Label
from sparsefield.data.frame_building import make_frame
from sparsefield.frame_protocol import Frame
from sparsefield.model import Field

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
    separate_a: float
    separate_b: float
    """Weights of the fits of each group by itself, to which the test belongs."""
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
    n_tested: int
    """Tests of edges, of all pairs of groups, for which p-values are adjusted."""
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
    candidates: np.ndarray,
    results: Sequence[PermutationResult],
    adjustment: Adjustment,
    kind: str,
    *,
    tested: bool,
) -> ComparisonTables:
    """Return the tables of a comparison; p-values are NaN where nothing was ``tested``.

    ``candidates`` (pairs, 2) are those of the tests. Edges and nodes of all pairs of groups have the smallest p first.
    """
    edges = CandidateEdges.of(fields[0].schema, candidates)
    tests: list[NetworkTest] = []
    edge_rows: list[ComparedEdge] = []
    node_rows: list[ComparedNode] = []
    pairs = [result for result in results if len(result.comparison.groups) == 2]
    adjusted = iter(_adjusted(pairs, adjustment))
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
            pair, n, (of_edges, of_nodes) = [fields[group] for group in groups], len(edges.ends), next(adjusted)
            alone = [replace(pair[0], pairs=candidates, weights=weights) for weights in result.weights]
            edge_rows += _edge_rows(names, pair, alone, edges, result, p[2 : 2 + n], of_edges)
            node_rows += _node_rows(names, pair, result, p[2 + n :], of_nodes)
    n_tested = len(pairs) * len(edges.ends)
    return ComparisonTables(tuple(tests), _by_p(edge_rows), _by_p(node_rows), n_tested, kind)


Row = TypeVar("Row", ComparedEdge, ComparedNode)


def _by_p(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return rows of all pairs of groups, smallest p first; NaN is the last."""
    p, adjusted, statistic = (
        np.array([getattr(row, name) for row in rows]) for name in ("p", "p_adjusted", "statistic")
    )
    return tuple(rows[k] for k in np.lexsort((-statistic, adjusted, p)).tolist())


def _adjusted(pairs: Sequence[PermutationResult], adjustment: Adjustment) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the adjusted p-values of the edges and of the nodes of each pair of groups.

    Edges are adjusted for the edges of all pairs of groups, and nodes for all nodes.
    """
    if not len(pairs[0].drawn):
        return [(np.full(len(r.edge_p), np.nan), np.full(len(r.node_p), np.nan)) for r in pairs]
    edges, nodes = [r.observed.edges for r in pairs], [r.observed.nodes for r in pairs]
    if adjustment != "max":
        both = [_adjust_all([r.edge_p for r in pairs], adjustment), _adjust_all([r.node_p for r in pairs], adjustment)]
    elif pairs[0].singles.shape[1]:
        n = len(edges[0])
        both = [
            adjust_by_maximum(edges, [r.singles[:, :n] for r in pairs]),
            adjust_by_maximum(nodes, [r.singles[:, n:] for r in pairs]),
        ]
    else:
        both = [
            adjust_by_plain_maximum(edges, [r.drawn[:, 1] for r in pairs]),
            adjust_by_plain_maximum(nodes, [r.drawn[:, 2] for r in pairs]),
        ]
    return list(zip(*both, strict=True))


def _adjust_all(p: Sequence[np.ndarray], method: Literal["holm", "bh", "none"]) -> list[np.ndarray]:
    """Return p-values of several pairs of groups, adjusted for their number in all of them."""
    return np.split(adjust(np.concatenate(p), method), np.cumsum([len(part) for part in p])[:-1])


def signed_weights(field: Field) -> dict[tuple[int, int], float]:
    """Return {two variables: sign x strength}; the strength where states have no order."""
    network = Network(field)
    signed = np.where(network.signs == 0, 1, network.signs) * network.strengths
    return {(min(a, b), max(a, b)): w for (a, b), w in zip(network.ends.tolist(), signed.tolist(), strict=True)}


def node_strengths(field: Field) -> np.ndarray:
    """Return the strength centrality of each column, (variables,)."""
    network = Network(field)
    return sum_by_node(network.ends, network.strengths, network.n_variables)


def _edge_rows(
    names: tuple[Label, Label],
    fields: Sequence[Field],
    alone: Sequence[Field],
    edges: CandidateEdges,
    result: PermutationResult,
    p: np.ndarray,
    adjusted: np.ndarray,
) -> list[ComparedEdge]:
    """Return the edges that have a weight in a field, or differ in the test, of fits of each group ``alone``."""
    one, two, one_alone, two_alone = (signed_weights(field) for field in (*fields, *alone))
    difference, schema = signed_weights(difference_field(*fields)), fields[0].schema
    statistics = result.observed.edges
    found = []
    for k, (a, b) in enumerate(edges.ends.tolist()):
        weights = one.get((a, b), 0.0), two.get((a, b), 0.0)
        if any(weights) or statistics[k] > 0.0:
            separate = one_alone.get((a, b), 0.0), two_alone.get((a, b), 0.0)
            tested = float(statistics[k]), float(p[k]), float(adjusted[k])
            values = *weights, difference.get((a, b), 0.0), *separate, *tested
            found.append(ComparedEdge(*names, variable_at(schema, a).name, variable_at(schema, b).name, *values))
    return found


def _node_rows(
    names: tuple[Label, Label],
    fields: Sequence[Field],
    result: PermutationResult,
    p: np.ndarray,
    adjusted: np.ndarray,
) -> list[ComparedNode]:
    """Return the strength centrality of all columns."""
    schema = fields[0].schema
    sums = [node_strengths(field) for field in fields]
    statistics = result.observed.nodes
    found = []
    for k in range(len(statistics)):
        strengths, name = (float(sums[0][k]), float(sums[1][k])), variable_at(schema, k).name
        tested = float(statistics[k]), float(p[k]), float(adjusted[k])
        found.append(ComparedNode(*names, name, *strengths, *tested))
    return found
