"""The flat numbering of linked tables: every candidate once, its arcs lead both ways, and rows see their neighbors."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from relational_oracle import (
    bias_names,
    ends_counted,
    layout_of,
    names_of,
    slow_over,
)
from villages import TEMPLATES, village

from sparsefield.data import NEIGHBOR_COUNT, Layout, Schema, Template, Variable
from sparsefield.data.candidate_pairs import COUNT_COLUMN
from sparsefield.data.feature_validity import are_valid_pairs
from sparsefield.induction import all_pairs

SEEDS = st.integers(0, 2**32 - 1)
SOME_TEMPLATES = st.lists(st.sampled_from(TEMPLATES), min_size=1, unique=True)


@st.composite
def layouts(draw) -> Layout:
    """Any tables, columns, templates and counts of neighbors, whether or not there could be links for them."""

    def schema(t: int) -> Schema:
        def column(k: int, role: str, states: int) -> Variable:
            if states == 0:
                numbers = {"kind": "numeric", "center": 0.5, "scale": 0.5, "scores": (-1.0, 1.0), "cuts": (0.5,)}
                return Variable(f"v{k}", role, (0.0, 1.0), 0, (0.5, 0.5), **numbers)
            labels = tuple(f"s{n}" for n in range(states))
            return Variable(f"v{k}", role, labels, draw(st.integers(0, states - 1)), (1 / states,) * states)

        targets = draw(st.lists(st.integers(1, 4), max_size=3))
        observed = draw(st.lists(st.integers(0, 3), max_size=2))
        kinds = [("target", n) for n in targets] + [("observed", n) for n in observed]
        variables = tuple(column(k, *kind) for k, kind in enumerate(kinds))
        return Schema(variables, tuple(v.name for v in variables))

    n_tables = draw(st.integers(1, 3))
    schemas = tuple(schema(t) for t in range(n_tables))
    some = st.one_of(st.none(), st.lists(st.sampled_from(["v0", "v1", "v2", "v3", "v4"]), unique=True).map(tuple))
    templates, ends, counted = [], [], []
    for t in range(n_tables):
        if draw(st.booleans()):
            templates.append(Template("within", (f"t{t}",)))
            ends.append((t, t))
            counted.append((False, False))
    for k in range(draw(st.integers(0 if templates else 1, 4))):
        left, right = draw(st.integers(0, n_tables - 1)), draw(st.integers(0, n_tables - 1))
        symmetric = left == right and draw(st.booleans())
        one = draw(some)
        templates.append(Template("across", (f"l{k}",), symmetric, one, one if symmetric else draw(some)))
        ends.append((left, right))
        flag = draw(st.booleans())
        counted.append((flag, flag if symmetric else draw(st.booleans())))
    names = tuple(f"t{t}" for t in range(n_tables))
    return Layout(names, schemas, tuple(templates), tuple(ends), tuple(counted))


def count_by_hand(layout: Layout) -> int:
    total = 0
    for template, (left, right), counted in zip(layout.templates, layout.ends, layout.has_neighbor_count, strict=True):

        def side(table: int, names) -> list[tuple[str, str, int]]:
            variables = [v for v in layout.schemas[table].variables if names is None or v.name in names]
            return [(v.name, v.role, k) for v in variables for k in range(v.width)]

        pairs = set()
        for a, b in itertools.product(side(left, template.left), side(right, template.right)):
            if a[1] == b[1] == "observed" or (template.kind == "within" and a[0] == b[0]):
                continue
            pairs.add(tuple(sorted((a, b))) if template.kind == "within" or template.symmetric else (a, b))
        total += len(pairs)
        # A target state with the number of neighbors, from either end; a symmetric template has one.
        for seen, table, names in ((counted[0], left, template.left), (counted[1], right, template.right)):
            total += sum(role == "target" for _, role, _ in side(table, names)) if seen else 0
            if template.symmetric:
                break
    return total


@given(layout=layouts())
def test_candidates_are_counted_as_they_are_listed(layout) -> None:
    pairs = all_pairs(layout)
    assert len(pairs) == layout.n_candidate_pairs == count_by_hand(layout)
    assert len(np.unique(layout.keys(pairs))) == len(pairs)
    assert are_valid_pairs(layout, pairs)


@given(layout=layouts())
def test_a_feature_has_an_arc_to_each_of_its_targets(layout) -> None:
    """From the other end to the target: two arcs for two targets, but one for a state that meets itself both ways."""
    pairs = all_pairs(layout)
    arcs = layout.arcs(pairs)
    state_names = bias_names(layout)
    symmetric = {t.label for t in layout.templates if t.symmetric}
    found: dict[int, list] = {k: [] for k in range(len(pairs))}
    for target, source, feature in zip(*(part.tolist() for part in arcs[:3]), strict=True):
        table = int(layout.table_of_column[source])
        assert layout.tables[table] == state_names[target][0]  # a row sees only what its table sees
        views, columns = layout.column_views(table)
        place = source - layout.column_starts[table]
        label, seen = f"within {layout.tables[table]}", table
        if views[place] >= 0:
            view = layout.neighbor_views[views[place]]
            label, seen = layout.templates[view.template].label, view.source_table
        column = int(columns[place])
        words = (NEIGHBOR_COUNT, None) if column == COUNT_COLUMN else layout.schemas[seen].column_names[column]
        other = (layout.tables[seen], *words)
        found[feature].append((label, state_names[target], other))
    for k, (a, b) in enumerate(pairs.tolist()):
        name = layout.feature_name(a, b)
        ends = tuple(name[1:4]), tuple(name[4:7])
        wanted = [(name.template, one, other) for one, other in (ends, ends[::-1]) if one in state_names]
        if name.template in symmetric and ends[0] == ends[1]:
            wanted = wanted[:1]
        assert Counter(found[k]) == Counter(wanted)


@given(seed=SEEDS, templates=SOME_TEMPLATES, counts=st.sampled_from(["differs", "any", "every", "no"]))
def test_candidates_are_those_that_names_allow(seed, templates, counts) -> None:
    data, rows = village(seed, templates=templates)
    counted = ends_counted(counts, data, rows, seed)
    layout = layout_of(data, counted=counted)
    slow = slow_over(data, rows, layout, counted=counted)
    names = names_of(slow, layout, all_pairs(layout))
    assert Counter(names) == Counter(slow.candidates)
