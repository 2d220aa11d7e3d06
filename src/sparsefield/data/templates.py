"""This module finds the pairs of rows of a template, and the default templates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

import numpy as np

from sparsefield.data.links import ForeignKey, Link, Template, as_templates
from sparsefield.data.relational import Relational
from sparsefield.errors import DataError

MAX_PAIRS = 200_000_000
"""Largest number of pairs of rows of a template. Compilation takes about 45 bytes per pair, so this is some 9 GB."""

Rows = tuple[np.ndarray, np.ndarray]


def row_pairs(data: Relational, template: Template) -> Rows:
    """Return the pairs of rows (i, j) of a template's two ends, each once and no row with itself.

    A symmetric template has either (i, j) or (j, i), with the smaller row first.
    """
    left, right = template_ends(data.links, template)
    one, other = data.linked_rows(template.names[0]), data.linked_rows(template.names[-1])
    if template.kind == "across":
        i, j = one
    elif template.kind == "joined":
        _, *joined = _two_ends(one, other)
        i, j = _distinct(*joined)
    elif template.kind == "shared":
        i, j = _pairs_with_shared_neighbor(one, other, template)
    else:
        row, first, second = _two_ends(one, other)
        span = max(first.max(initial=0), second.max(initial=0)) + 1
        i, j = _pairs_with_shared_neighbor((row, first * span + second), (row, second * span + first), template)
    if left == right:
        # With one shared link or two swapped ones, each pair is found in both directions: keep one.
        halved = template.kind == "swapped" or (template.kind == "shared" and len(set(template.names)) == 1)
        keep = i < j if halved else i != j
        i, j = i[keep], j[keep]
        if template.symmetric and not halved:
            i, j = _distinct(np.minimum(i, j), np.maximum(i, j))
    return i, j


def template_ends(links: Mapping[str, Link], template: Template) -> tuple[str, str]:
    """Return the tables at the two ends of a template over links."""
    for name in template.names:
        if name not in links:
            known = ", ".join(links) or "none"
            raise DataError(f"The template {template.label!r} names the link {name!r}; links: {known}.")
    one, other = links[template.names[0]], links[template.names[-1]]
    if template.kind == "across":
        ends = one.table, one.to
    elif template.kind == "shared":
        if one.to != other.to:
            raise DataError(
                f"The template {template.label!r} needs links to the same table, but its links point to "
                f"{one.to!r} and {other.to!r}."
            )
        ends = one.table, other.table
    else:
        if one.table != other.table or (template.kind == "swapped" and one.to != other.to):
            raise DataError(f"The template {template.label!r} needs two links of one table; these do not fit together.")
        ends = (one.to, other.to) if template.kind == "joined" else (one.table, one.table)
    if template.symmetric and ends[0] != ends[1]:
        raise DataError(f"The template {template.label!r} cannot be symmetric: it links {ends[0]!r} and {ends[1]!r}.")
    return ends


def resolve_templates(data: Relational, templates: Any = None) -> tuple[Template, ...]:
    """Return the given templates, those of the data, or the default ones; check them against the data."""
    if templates is None:
        templates = data.templates
    if templates is None:
        return tuple(_default_templates(data))
    resolved = as_templates(templates)
    for k, template in enumerate(resolved):
        if any(template.label == other.label for other in resolved[:k]):
            raise DataError(f"The template {template.label!r} is given twice.")
        where = f"The template {template.label!r}"
        if template.kind == "within":
            data.require_table(template.names[0], where)
            continue
        for table, names in zip(template_ends(data.links, template), (template.left, template.right), strict=True):
            for name in names or ():
                if name not in data.variables(table):
                    raise DataError(f"{where} names {name!r}, not a variable of table {table!r}.")
    return resolved


def _default_templates(data: Relational) -> Iterable[Template]:
    without_variables = {name for name in data.tables if not data.variables(name)}
    yield from (Template("within", (name,)) for name in data.tables if name not in without_variables)
    for name, link in data.links.items():
        if link.table not in without_variables and link.to not in without_variables:
            yield Template("across", (name,))
    foreign_keys = [name for name, link in data.links.items() if isinstance(link, ForeignKey)]
    for one, other in combinations(foreign_keys, 2):
        if data.links[one].table != data.links[other].table:
            continue
        table, ends = data.links[one].table, {data.links[one].to, data.links[other].to}
        if table in without_variables and not ends & without_variables:
            yield Template("joined", (one, other))
        if table not in without_variables and len(ends) == 1 and ends <= without_variables:
            yield Template("swapped", (one, other))


def _two_ends(one: Rows, other: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows from which both links start, and the rows to which the one and the other lead."""
    row, at_one, at_other = np.intersect1d(one[0], other[0], assume_unique=True, return_indices=True)
    return row, one[1][at_one], other[1][at_other]


def _distinct(i: np.ndarray, j: np.ndarray) -> Rows:
    """Return each pair once, sorted."""
    span = j.max(initial=0) + 1
    key = np.unique(i * span + j)
    return key // span, key % span


def _pairs_with_shared_neighbor(one: Rows, other: Rows, template: Template) -> Rows:
    """Return the rows i of one link and j of the other that are linked to the same row."""
    order = np.argsort(other[1], kind="stable")
    shared = other[1][order]
    first = np.searchsorted(shared, one[1], side="left")
    count = np.searchsorted(shared, one[1], side="right") - first
    total = int(count.sum())
    if total > MAX_PAIRS:
        raise DataError(
            f"The template {template.label!r} has {total:,} pairs of rows, since some rows have very many neighbors; "
            f"at most {MAX_PAIRS:,} are allowed. Omit the template, or use rows with fewer neighbors."
        )
    i = np.repeat(one[0], count)
    inside = np.arange(total) - np.repeat(np.cumsum(count) - count, count)
    j = other[0][order[np.repeat(first, count) + inside]]
    return i, j
