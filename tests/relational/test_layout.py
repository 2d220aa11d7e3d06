"""The flat numbering of linked tables: every candidate once, its arcs lead both ways, and rows see their neighbours."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relational_oracle import compiled, layout_of, names_of, problem_of, slow_over, unary_names
from villages import TEMPLATES, village

from sparsefield import policy
from sparsefield.data import Layout, Schema, Template, Variable
from sparsefield.induction import all_pairs

SEEDS = st.integers(0, 2**32 - 1)
SOME_TEMPLATES = st.lists(st.sampled_from(TEMPLATES), min_size=1, unique=True)


@st.composite
def layouts(draw) -> Layout:
    """Any tables, columns and templates, whether or not there could be links for them."""

    def schema(t: int) -> Schema:
        def column(k: int, role: str, states: int) -> Variable:
            if states == 0:
                return Variable(f"v{k}", role)
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
    templates, ends = [], []
    for t in range(n_tables):
        if draw(st.booleans()):
            templates.append(Template("within", (f"t{t}",)))
            ends.append((t, t))
    for k in range(draw(st.integers(0 if templates else 1, 4))):
        left, right = draw(st.integers(0, n_tables - 1)), draw(st.integers(0, n_tables - 1))
        symmetric = left == right and draw(st.booleans())
        one = draw(some)
        templates.append(Template("across", (f"l{k}",), symmetric, one, one if symmetric else draw(some)))
        ends.append((left, right))
    return Layout(tuple(f"t{t}" for t in range(n_tables)), schemas, tuple(templates), tuple(ends))


def count_by_hand(layout: Layout) -> int:
    total = 0
    for template, (left, right) in zip(layout.templates, layout.ends, strict=True):

        def side(table: int, names) -> list[tuple[str, str, int]]:
            variables = [v for v in layout.schemas[table].variables if names is None or v.name in names]
            return [(v.name, v.role, k) for v in variables for k in range(v.width)]

        pairs = set()
        for a, b in itertools.product(side(left, template.left), side(right, template.right)):
            if a[1] == b[1] == "observed" or (template.kind == "within" and a[0] == b[0]):
                continue
            pairs.add(tuple(sorted((a, b))) if template.kind == "within" or template.symmetric else (a, b))
        total += len(pairs)
    return total


@given(layout=layouts())
def test_candidates_are_counted_as_they_are_listed(layout) -> None:
    pairs = all_pairs(layout)
    assert len(pairs) == layout.n_candidate_pairs == count_by_hand(layout)
    assert len(np.unique(layout.keys(pairs))) == len(pairs)
    assert layout.is_sound(pairs)


@given(layout=layouts())
def test_a_feature_has_an_arc_to_each_of_its_targets(layout) -> None:
    """From the other end to the target: two arcs for two targets, but one for a state that meets itself both ways."""
    pairs = all_pairs(layout)
    arcs = layout.arcs(pairs)
    state_names = unary_names(layout)
    symmetric = {t.label for t in layout.templates if t.symmetric}
    found: dict[int, list] = {k: [] for k in range(len(pairs))}
    for target, source, feature in zip(*(part.tolist() for part in arcs), strict=True):
        table = int(layout.table_of_column[source])
        assert layout.tables[table] == state_names[target][0]  # a row sees only what its table sees
        views, columns = layout.column_views(table)
        place = source - layout.column_starts[table]
        label, seen = f"within {layout.tables[table]}", table
        if views[place] >= 0:
            view = layout.views[views[place]]
            label, seen = layout.templates[view.template].label, view.seen
        other = (layout.tables[seen], *layout.schemas[seen].column_names[columns[place]])
        found[feature].append((label, state_names[target], other))
    for k, (a, b) in enumerate(pairs.tolist()):
        name = layout.feature_name(a, b)
        ends = tuple(name[1:4]), tuple(name[4:7])
        wanted = [(name.template, one, other) for one, other in (ends, ends[::-1]) if one in state_names]
        if name.template in symmetric and ends[0] == ends[1]:
            wanted = wanted[:1]
        assert Counter(found[k]) == Counter(wanted)


@given(layout=layouts())
def test_arcs_back_and_forth_are_columns_of_one_template(layout) -> None:
    """The two arcs of a directed template within one table use its two views, those of a symmetric one the same."""
    pairs = all_pairs(layout)
    arcs = layout.arcs(pairs)
    for k, pair in enumerate(pairs):
        sources = arcs.source[arcs.feature == k]
        tables = layout.table_of_column[sources]
        views = [layout.column_views(t)[0][s - layout.column_starts[t]] for t, s in zip(tables, sources, strict=True)]
        if views[0] < 0:
            assert set(views) == {-1}
            continue
        templates = {layout.views[view].template for view in views}
        assert templates == {layout.views[views[0]].template}, pair
        if len(views) == 2:
            symmetric = layout.templates[templates.pop()].symmetric
            assert {layout.views[view].forward for view in views} == ({True} if symmetric else {True, False})


@given(seed=SEEDS, templates=SOME_TEMPLATES)
def test_candidates_are_those_that_names_allow(seed, templates) -> None:
    data, rows = village(seed, templates=templates)
    layout = layout_of(data)
    slow = slow_over(data, rows, layout)
    names = names_of(slow, layout, all_pairs(layout))
    assert Counter(names) == Counter(slow.candidates)


@pytest.mark.parametrize("block_rows", [1, 2, 256])
@given(seed=SEEDS)
@settings(max_examples=10)
def test_rows_see_the_sum_of_their_neighbours(block_rows, seed) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "MIN_BLOCK_ROWS", block_rows)
        data, rows = village(seed, persons=5, letters=6, gaps=0.3, loose=0.05)
        problem = problem_of(data, rows, seed)
    layout, slow = problem.layout, problem.slow
    for view in layout.views:
        template, seer, seen = layout.templates[view.template], layout.tables[view.seer], layout.tables[view.seen]
        touch = slow.pairs[template.label]
        if template.symmetric:
            touch = touch + [(j, i) for i, j in touch]
        elif not view.forward:
            touch = [(j, i) for i, j in touch]
        names = [layout.schemas[view.seen].column_names[column] for column in view.columns]
        table = problem.sample.tables[view.seer]
        fast = np.concatenate([block.beliefs[view.start : view.stop] for block in table.blocks], axis=1)
        wanted = [
            [sum(slow.q[(seen, j, *name)] for i, j in touch if i == row) for row in range(len(rows[seer]))]
            for name in names
        ]
        assert fast == pytest.approx(np.array(wanted).reshape(fast.shape), abs=1e-12)


def test_a_plain_table_is_a_layout_of_one_table_without_views() -> None:
    data, _ = village(0, templates=[Template("within", ("person",))])
    schema = layout_of(data).schemas[1]
    layout = Layout.single(schema)
    assert layout.views == ()
    assert layout.n_columns == schema.n_columns
    assert layout.n_candidate_pairs == schema.n_candidate_pairs == len(all_pairs(layout))
    arcs = layout.arcs(all_pairs(layout))
    assert arcs.source.max() < schema.n_columns


def test_a_feature_is_named_in_the_direction_of_its_template() -> None:
    data, _ = village(0, gaps=0.0, persons=12, letters=12)
    layout = layout_of(data)
    tables = {
        t.label: tuple(layout.tables[e] for e in ends) for t, ends in zip(layout.templates, layout.ends, strict=True)
    }
    seen = set()
    for a, b in all_pairs(layout).tolist():
        name = layout.feature_name(a, b)
        assert (name.table_a, name.table_b) == tables[name.template]
        seen.add(name.template)
    assert seen == set(tables)


@given(layout=layouts(), seed=SEEDS)
def test_only_pairs_that_a_template_allows_are_sound(layout, seed) -> None:
    """What lies beyond them has no arc back, or one from a column that is not there."""
    rng = np.random.default_rng(seed)
    if layout.n_columns == 0:
        return
    pairs = rng.integers(-1, layout.n_columns + 1, (40, 2))
    states = set(layout.column_of_state.tolist())
    table = layout.table_of_column
    for a, b in pairs.tolist():
        if not layout.is_sound(np.array([[a, b]])):
            continue
        assert a in states
        assert table[a] == table[b]
        arcs = layout.arcs(np.array([[a, b]]))
        for target, source in zip(arcs.target, arcs.source, strict=True):
            assert table[layout.column_of_state[target]] == table[source]
        name = layout.feature_name(a, b)
        (template,) = [t for t in layout.templates if t.label == name.template]
        assert template.left is None or name.variable_a in template.left
        assert template.right is None or name.variable_b in template.right
        if template.kind == "within":
            assert name.variable_a != name.variable_b


def test_a_table_is_compiled_with_room_for_what_its_rows_see() -> None:
    data, _ = village(1)
    layout = layout_of(data)
    sample = compiled(data, layout)
    assert [table.blocks[0].beliefs.shape[0] for table in sample.tables] == layout.widths.tolist()
    assert layout.widths[layout.tables.index("friend")] == 0
    own = [schema.n_columns for schema in layout.schemas]
    assert layout.widths[layout.tables.index("place")] == own[layout.tables.index("place")]
