"""This module says in words what a comparison of groups found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isinf

from sparsefield.analysis.comparison_tables import (
    GLOBAL_STRENGTH,
    STRUCTURE,
    ComparedEdge,
    ComparisonTables,
    NetworkTest,
)
from sparsefield.analysis.group_statistics import Adjustment
from sparsefield.data import Label
from sparsefield.text import count

LEVEL = 0.05
"""Level of significance at which an edge counts as different."""

ADJUSTED = {
    "max": "after the adjustment by the largest statistic",
    "holm": "after Holm's adjustment",
    "bh": "after the adjustment of Benjamini and Hochberg",
    "none": "",
}


TESTS = {
    GLOBAL_STRENGTH: "global strength (sum of the strengths of all edges)",
    STRUCTURE: "structure (largest difference of an edge)",
}
"""What the tests of whole networks compare."""


@dataclass(frozen=True)
class ComparisonFacts:
    """What a comparison of groups was made with, and its tables."""

    groups: tuple[Label, ...]
    sizes: tuple[int, ...]
    l1: float
    l1_difference: float
    permutations: int
    adjustment: Adjustment
    tables: ComparisonTables
    hidden_cells: int

    def differing_edges(self) -> list[ComparedEdge]:
        """Return the edges whose adjusted p-value is at most `LEVEL`."""
        return [edge for edge in self.tables.edge_rows if edge.p_adjusted <= LEVEL]

    @property
    def several_pairs(self) -> bool:
        """Whether there is more than one pair of groups, so that rows of tables have to name theirs."""
        return len(self.groups) > 2

    @property
    def smallest_p(self) -> float:
        """The smallest adjusted p-value that an edge can have."""
        return (self.tables.n_tested if self.adjustment == "holm" else 1) / (1 + self.permutations)


def describe_comparison(facts: ComparisonFacts) -> list[str]:
    """Return lines about the groups, the penalties, the tests and the edges that differ."""
    parts = zip(facts.groups, facts.sizes, strict=True)
    lines = [f"{count(len(facts.groups), 'group')}: " + ", ".join(f"{name} ({n:,} rows)" for name, n in parts) + "."]
    lines.append(describe_penalties(facts))
    if not facts.permutations:
        return [*lines, "Nothing was tested, since there are no permutations."]
    if facts.hidden_cells:
        lines.append(
            f"The groups have different missing cells, and a fit to fewer cells has weaker edges: the tests leave out "
            f"{count(facts.hidden_cells, 'observed cell')}, chosen at random, so that cells are missing alike in all "
            "groups."
        )
    lines += [describe_test(test, facts) for test in facts.tables.test_rows]
    return [*lines, describe_differing(facts)]


def describe_penalties(facts: ComparisonFacts) -> str:
    """Return a sentence about the two penalties and the number of edges that differ in the joint fit."""
    rows = facts.tables.edge_rows
    weighted = len({(e.variable_a, e.variable_b) for e in rows if e.weight_a != 0.0 or e.weight_b != 0.0})
    different = len({(e.variable_a, e.variable_b) for e in rows if e.difference != 0.0})
    somewhere = ", in two groups at least" if facts.several_pairs else ""
    if isinf(facts.l1_difference):
        return (
            f"Fitted together with l1 = {facts.l1:.3g} and no difference of weights (l1_difference = inf): in the "
            f"joint fit, groups have the same weights for {count(weighted, 'edge')}, and biases of their own."
        )
    return (
        f"Fitted together with l1 = {facts.l1:.3g}, and l1_difference = {facts.l1_difference:.3g} on differences of "
        f"weights: {different:,} of {count(weighted, 'edge')} have different weights in the joint fit{somewhere}."
    )


def name_groups(test: NetworkTest | ComparedEdge) -> str:
    """Return the two groups of a row, or that it is about all."""
    return "all groups" if (test.group_a, test.group_b) == ("", "") else f"{test.group_a} and {test.group_b}"


def describe_test(test: NetworkTest, facts: ComparisonFacts) -> str:
    """Return a test in one line, with its groups if there are several pairs of them."""
    groups = f"{name_groups(test)}, " if facts.several_pairs else ""
    return f"{groups}{TESTS[test.test]}: difference {test.statistic:.3g}, p = {test.p:.3g}."


def describe_differing(facts: ComparisonFacts) -> str:
    """Return how many edges differ by their own tests, and which."""
    found = facts.differing_edges()
    how = ADJUSTED[facts.adjustment]
    at = f"p <= {LEVEL:g}" + (f" {how}" if how else "")
    if facts.smallest_p > LEVEL:
        return f"No edge can differ ({at}): {_describe_resolution(facts)}"
    if not found:
        return f"No edge differs ({at})."
    return (
        f"{count(len(found), 'edge')} {'differs' if len(found) == 1 else 'differ'} ({at}): {list_edges(found, facts)}."
    )


def _describe_resolution(facts: ComparisonFacts) -> str:
    """Return why no edge can have a small p-value, and what to do."""
    needed = ceil(facts.smallest_p * (1 + facts.permutations) / LEVEL) - 1
    other = ", or adjust by the largest statistic ('max')" if facts.adjustment == "holm" else ""
    return (
        f"with {count(facts.permutations, 'permutation')} the smallest possible p-value is "
        f"{min(facts.smallest_p, 1.0):.3g}. Take at least {needed:,} permutations{other}."
    )


def list_edges(edges: Sequence[ComparedEdge], facts: ComparisonFacts, most: int = 8) -> str:
    """Return the ends of some edges, with their groups if there are several pairs of them."""
    groups = [f" ({name_groups(edge)})" if facts.several_pairs else "" for edge in edges[:most]]
    shown = [f"{edge.variable_a} - {edge.variable_b}{end}" for edge, end in zip(edges[:most], groups, strict=True)]
    more = len(edges) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")
