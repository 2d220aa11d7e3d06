"""This module writes a page about a comparison of groups: tests, edges and networks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from sparsefield.analysis.comparison_tables import difference_field
from sparsefield.analysis.comparison_text import TESTS, ComparisonFacts, describe_comparison, name_groups
from sparsefield.analysis.permutation_tests import PermutationResult
from sparsefield.app.pages.charts import HistogramPanel, VerticalLine, draw_panels
from sparsefield.app.pages.html_page import (
    TableCell,
    bullets,
    document,
    paragraph,
    render_figure,
    render_table,
    section,
)
from sparsefield.app.pages.network_plot import NetworkPlot
from sparsefield.app.pages.network_view import build_view
from sparsefield.app.pages.palette import ORANGE
from sparsefield.model import Field

SHOWN_EDGES = 100
BINS = 24
COUNTED = "permutations, on a logarithmic scale"
MOST_PICTURES = 6
"""Difference networks of pairs of groups that are drawn."""


def make_comparison_page(
    facts: ComparisonFacts, fields: Sequence[Field], results: Sequence[PermutationResult], title: str
) -> str:
    """Return an HTML document about a comparison; ``fields`` are those of the groups."""
    body = [
        f"<h1>{escape(title)}</h1>",
        bullets([escape(line) for line in describe_comparison(facts)]),
        section("tests", "Tests of whole networks", _tests(facts), *_histograms(facts, results)),
        section("edges", "Edges", _edges(facts)),
        section("nodes", "Strength centrality of columns", _nodes(facts)),
        section("networks", "Networks", *_networks(facts, fields, results)),
    ]
    return document(title, f"<main>{''.join(body)}</main>", "tables.js")


def _tests(facts: ComparisonFacts) -> str:
    rows = [
        [*_groups(facts, name_groups(test)), TableCell(TESTS[test.test], "text"), _number(test.statistic), _p(test.p)]
        for test in facts.tables.test_rows
    ]
    return _render(facts, ("test", "difference", "p"), rows)


def _groups(facts: ComparisonFacts, names: str) -> list[TableCell]:
    """Return the first cell of a row: its groups, unless there are only two."""
    return [TableCell(names, "text")] if facts.several_pairs else []


def _render(
    facts: ComparisonFacts, heads: tuple[str, ...], rows: list[list[TableCell]], *, sortable: bool = False
) -> str:
    if facts.several_pairs:
        return render_table(("groups", *heads), rows, text=(0, 1), sortable=sortable)
    return render_table(heads, rows, text=(0,), sortable=sortable)


def _histograms(facts: ComparisonFacts, results: Sequence[PermutationResult]) -> list[str]:
    """Return histograms of the statistics of permuted groups."""
    if not facts.permutations:
        return [paragraph("Nothing was tested, since there are no permutations.", "absent")]
    panels = []
    for result in results:
        groups = result.comparison.groups
        names = ", " + " and ".join(str(facts.groups[k]) for k in groups) if len(groups) == 2 else ", all groups"
        names = names if facts.several_pairs else ""
        for k, (test, observed) in enumerate(
            (("global strength", result.observed.global_strength), ("structure", result.observed.structure))
        ):
            top = max(float(result.drawn[:, k].max(initial=0.0)), observed, 1e-9)
            counts, edges = np.histogram(result.drawn[:, k], BINS, (0.0, top))
            label = f"difference with permuted groups; line: observed, {observed:.3g}"
            mark, title = VerticalLine("observed", observed, color=ORANGE), f"{test}{names}"
            panels.append(HistogramPanel(title, label, edges.tolist(), counts.tolist(), COUNTED, mark))
    drawn = draw_panels("Statistics of permuted groups", panels)
    return [render_figure(drawn, "A group difference is unusual where few permutations reach the observed value.")]


def _edges(facts: ComparisonFacts) -> str:
    rows = [
        [
            *_groups(facts, name_groups(edge)),
            TableCell(f"{edge.variable_a} - {edge.variable_b}", "text"),
            *map(_number, (edge.weight_a, edge.weight_b, edge.separate_a, edge.separate_b, edge.statistic)),
            *map(_p, (edge.p, edge.p_adjusted)),
        ]
        for edge in facts.tables.edge_rows[:SHOWN_EDGES]
    ]
    first, second = _sides(facts)
    weights = f"joint fit: {first}", second, f"separate fits: {first}", second
    heads = ("edge", *weights, "difference", "p", "adjusted p")
    text = "The difference and its p-values are those of the separate fits, of each group by itself."
    return paragraph(text, "note") + _render(facts, heads, rows, sortable=True)


def _nodes(facts: ComparisonFacts) -> str:
    rows = [
        [
            *_groups(facts, f"{node.group_a} and {node.group_b}"),
            TableCell(node.variable, "text"),
            *map(_number, (node.strength_a, node.strength_b, node.statistic)),
            *map(_p, (node.p, node.p_adjusted)),
        ]
        for node in facts.tables.node_rows[:SHOWN_EDGES]
    ]
    first, second = _sides(facts)
    heads = ("column", f"strength in {first}", f"in {second}", "tested", "p", "adjusted p")
    return _render(facts, heads, rows, sortable=True)


def _sides(facts: ComparisonFacts) -> tuple[str, str]:
    """Return what the two groups of a row are called in the head of a table."""
    return ("first", "second") if facts.several_pairs else (str(facts.groups[0]), str(facts.groups[1]))


def _networks(facts: ComparisonFacts, fields: Sequence[Field], results: Sequence[PermutationResult]) -> list[str]:
    """Return pictures of the differences of pairs of groups, and of the network of each group."""
    found = []
    pairs = [result.comparison.groups for result in results if len(result.comparison.groups) == 2]
    for a, b in pairs[:MOST_PICTURES]:
        names = str(facts.groups[a]), str(facts.groups[b])
        difference = difference_field(fields[a], fields[b])
        if not len(difference.pairs):
            found.append(paragraph(f"{names[0]} and {names[1]}: no edge differs in the joint fit.", "absent"))
            continue
        plot = NetworkPlot(build_view(difference), f"{names[0]} minus {names[1]}")
        caption = (
            f"Edges have the weight in {names[0]} minus the weight in {names[1]}: blue where it is larger in "
            f"{names[0]}, orange where it is larger in {names[1]}."
        )
        found.append(render_figure(plot.to_svg(), caption))
    for label, field in zip(facts.groups, fields, strict=True):
        plot = NetworkPlot(build_view(field), f"Network of {label}")
        found.append(render_figure(plot.to_svg(), f"The network of the group {label}."))
    return found


def _number(value: float) -> TableCell:
    return TableCell.number(value)


def _p(value: float) -> TableCell:
    return TableCell("") if np.isnan(value) else TableCell.number(value, ".3g")
