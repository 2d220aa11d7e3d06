"""The result of a comparison of groups: fields, tables of differences and their tests, and what they say in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from sparsefield.analysis.network import Network, sum_by_node
from sparsefield.analysis.permutation_tests import Adjustment, CandidateEdges, PermutationResult, adjust_results
from sparsefield.data import Label
from sparsefield.data.frame_building import Frame
from sparsefield.errors import DataError, count
from sparsefield.estimators.markov_field import MarkovField
from sparsefield.model import Field

LEVEL = 0.05
"""Level of significance at which an edge counts as different."""

LISTED_EDGES = 8
"""Edges that differ and are named in a sentence, at most."""

ADJUSTED = {
    "max": " after the adjustment by the largest statistic",
    "holm": " after Holm's adjustment",
    "bh": " after the adjustment of Benjamini and Hochberg",
    "none": "",
}

TESTS = {
    "global strength": "global strength (sum of the strengths of all edges)",
    "structure": "structure (largest difference of an edge)",
}
"""Tests of whole networks, and what they compare."""


EDGE_COLUMNS = (
    "group_a", "group_b", "variable_a", "variable_b", "weight_a", "weight_b", "difference", "statistic", "p",
    "p_adjusted",
)  # fmt: skip
NODE_COLUMNS = "group_a", "group_b", "variable", "strength_a", "strength_b", "statistic", "p", "p_adjusted"


@dataclass(frozen=True)
class GroupComparison:
    """The fields of groups of rows, how they differ, and tests of these differences.

    Attributes
    ----------
    groups : tuple of group labels
    sizes : tuple of int, the rows of each group
    fields : dict of group label -> `MarkovField`
        Each fitted to the rows of the group by themselves. Missing cells are completed by draws from the field of all
        rows.
    pooled : `MarkovField`
        Fitted to all rows without the group column.
    l1 : float
        The penalty of the field of all rows. That of a group is l1 times the square root of its share of the rows.
    tests : frame
        group_a, group_b ("" and "" for the test of all groups), test, statistic, p.
    edges : frame
        For each pair of groups and each edge that has a weight: group_a, group_b, variable_a, variable_b; weight_a and
        weight_b, the strength of the edge with its sign; difference, signed where it has a direction; statistic, p and
        p_adjusted of its test. Smallest p first, over all pairs of groups.
    nodes : frame
        For each pair of groups and each column, its strength centrality in both, and the test of its difference.
    permutations : int
    adjustment : "max", "holm", "bh" or "none"
    results : tuple of `PermutationResult`
    hidden_cells : int
        Observed cells that fits of groups and tests did not use, so that all groups have the same missing cells.
    """

    groups: tuple[Label, ...]
    sizes: tuple[int, ...]
    fields: Mapping[Label, MarkovField]
    pooled: MarkovField
    l1: float
    tests: Frame
    edges: Frame
    nodes: Frame
    permutations: int
    adjustment: Adjustment
    results: tuple[PermutationResult, ...]
    hidden_cells: int

    def __repr__(self) -> str:
        return f"<GroupComparison of {', '.join(map(str, self.groups))}: summary(), tests, edges, nodes, fields>"

    def difference_field(self, group_a: Label | None = None, group_b: Label | None = None) -> Field:
        """Return a field whose weights are those of group_a minus those of group_b; by default of the first two."""
        a = self.groups[0] if group_a is None else group_a
        b = next(label for label in self.groups if label != a) if group_b is None else group_b
        unknown = [label for label in (a, b) if label not in self.groups]
        if unknown:
            known = ", ".join(map(repr, self.groups))
            raise DataError(f"There is no group {unknown[0]!r}; the groups are {known}.")
        return difference_field(self.fields[a].field_, self.fields[b].field_)

    def summary(self) -> str:
        """Return the result in a few lines of text."""
        sizes = ", ".join(f"{label} ({n:,} rows)" for label, n in zip(self.groups, self.sizes, strict=True))
        lines = [f"{count(len(self.groups), 'group')}: {sizes}.", self.describe_fits()]
        if not self.permutations:
            return "\n".join([*lines, "Nothing was tested, since there are no permutations."])
        if self.hidden_cells:
            lines.append(self.describe_hidden_cells())
        for row in rows_of(self.tests):
            groups = f"{name_groups(row)}, " if self.has_several_pairs else ""
            lines.append(f"{groups}{TESTS[row['test']]}: difference {row['statistic']:.3g}, p = {row['p']:.3g}.")
        return "\n".join([*lines, self.describe_edges()])

    @property
    def has_several_pairs(self) -> bool:
        """Whether there is more than one pair of groups, so that rows of tables have to name theirs."""
        return len(self.groups) > 2

    def describe_fits(self) -> str:
        """Return a sentence about the penalty and the number of edges of each group."""
        fits = [
            f"{label} with l1 = {field.field_.record.l1:.3g} has {count(len(Network(field.field_).ends), 'edge')}"
            for label, field in self.fields.items()
        ]
        return f"Each group is fitted by itself: {', '.join(fits)} (l1 = {self.l1:.3g} for all rows)."

    def describe_hidden_cells(self) -> str:
        """Return a sentence about the observed cells that fits of groups and tests leave out."""
        return (
            "The groups have different missing cells, and a fit to fewer cells has weaker edges: the fits of groups "
            f"and the tests leave out {count(self.hidden_cells, 'observed cell')}, chosen at random, so that cells are "
            "missing alike in all groups."
        )

    def describe_edges(self) -> str:
        """Return a sentence about the number of edges that differ by their own tests, and which these are."""
        at = f"p <= {LEVEL:g}{ADJUSTED[self.adjustment]}"
        n_tested = sum(result.n_edges for result in self.results if len(result.groups) == 2)
        factor = n_tested if self.adjustment == "holm" else 1
        if factor / (1 + self.permutations) > LEVEL:
            other = ", or adjust by the largest statistic ('max')" if self.adjustment == "holm" else ""
            return (
                f"No edge can differ ({at}): with {count(self.permutations, 'permutation')} the smallest possible "
                f"p-value is {min(factor / (1 + self.permutations), 1.0):.3g}. Take at least "
                f"{ceil(factor / LEVEL) - 1:,} permutations{other}."
            )
        differing = [row for row in rows_of(self.edges) if row["p_adjusted"] <= LEVEL]
        if not differing:
            return f"No edge differs ({at})."
        names = [
            f"{row['variable_a']} - {row['variable_b']}" + f" ({name_groups(row)})" * self.has_several_pairs
            for row in differing[:LISTED_EDGES]
        ]
        more = f" and {len(differing) - LISTED_EDGES:,} more" if len(differing) > LISTED_EDGES else ""
        verb = "differs" if len(differing) == 1 else "differ"
        return f"{count(len(differing), 'edge')} {verb} ({at}): {', '.join(names)}{more}."


def difference_field(a: Field, b: Field) -> Field:
    """Return a field over the same columns whose weights are those of one field minus those of another."""
    pairs, place = np.unique(np.concatenate([a.pairs, b.pairs]), axis=0, return_inverse=True)
    weights = np.bincount(place.ravel(), np.concatenate([a.weights, -b.weights]), len(pairs))
    weighted = weights != 0.0
    return Field(a.layout, a.biases - b.biases, pairs[weighted], weights[weighted])


def rows_of(frame: Frame) -> list[dict[str, Any]]:
    """Return the rows of a frame of any library, by the names of its columns."""
    return nw.from_native(frame, eager_only=True).rows(named=True)


def name_groups(row: Mapping[str, Any]) -> str:
    """Return the two groups of a row of `tests`, `edges` or `nodes`, or that it is about all."""
    return "all groups" if (row["group_a"], row["group_b"]) == ("", "") else f"{row['group_a']} and {row['group_b']}"


def network_test_columns(labels: Sequence[Label], results: Sequence[PermutationResult]) -> dict[str, list[Any]]:
    """Return the columns of the frame of tests of whole networks."""
    names = [[str(labels[group]) for group in r.groups] if len(r.groups) == 2 else ["", ""] for r in results]
    return {
        "group_a": [a for a, _ in names for _ in TESTS],
        "group_b": [b for _, b in names for _ in TESTS],
        "test": [*TESTS] * len(results),
        "statistic": [value for r in results for value in r.observed[:2].tolist()],
        "p": [p for r in results for p in r.p_values[:2].tolist()],
    }


def edge_and_node_columns(
    labels: Sequence[Label],
    fields: Sequence[Field],
    candidates: np.ndarray,
    results: Sequence[PermutationResult],
    adjustment: Adjustment,
) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Return the columns of the frames of edges and of nodes, of all pairs of groups."""
    schema = fields[0].schema
    ends, names = CandidateEdges.of(schema, candidates).ends, [variable.name for variable in schema.variables]
    pairs = [result for result in results if len(result.groups) == 2]
    edges, nodes = [], []
    for result, *adjusted in zip(pairs, *adjust_results(pairs, adjustment), strict=True):
        groups = [str(labels[group]) for group in result.groups]
        a, b = (fields[group] for group in result.groups)
        weights = [_signed_strengths(field, ends) for field in (a, b, difference_field(a, b))]
        values = np.column_stack(
            [*weights, result.of_edges(result.observed), result.of_edges(result.p_values), adjusted[0]]
        )
        for k in np.flatnonzero(values[:, :4].any(axis=1)).tolist():
            edges.append([*groups, *(names[end] for end in ends[k].tolist()), *values[k].tolist()])
        strengths = [sum_by_node(ends, np.abs(weights[k]), len(names)) for k in (0, 1)]
        values = np.column_stack(
            [*strengths, result.of_nodes(result.observed), result.of_nodes(result.p_values), adjusted[1]]
        )
        nodes += [[*groups, name, *row] for name, row in zip(names, values.tolist(), strict=True)]
    return _columns(EDGE_COLUMNS, edges), _columns(NODE_COLUMNS, nodes)


def _signed_strengths(field: Field, ends: np.ndarray) -> np.ndarray:
    """Return sign x strength of edges between variables (edges, 2); the strength where states have no order."""
    network = Network(field)
    signed = np.where(network.signs == 0, 1, network.signs) * network.strengths
    strengths = {(min(a, b), max(a, b)): w for (a, b), w in zip(network.ends.tolist(), signed.tolist(), strict=True)}
    return np.array([strengths.get((a, b), 0.0) for a, b in ends.tolist()])


def _columns(names: Sequence[str], rows: list[list[Any]]) -> dict[str, list[Any]]:
    """Return columns of rows that end with statistic, p and adjusted p, the smallest p first and NaN last."""
    if not rows:
        return {name: [] for name in names}
    statistic, p, adjusted = np.array([row[-3:] for row in rows]).T
    order = np.lexsort((-statistic, adjusted, p)).tolist()
    return {name: [rows[k][position] for k in order] for position, name in enumerate(names)}
