"""One flat numbering of everything a field speaks about: the states of all tables, and what their rows see of others.

The rows of a table see their own columns (target states, then observed columns), and, over each template that ends in
the table, the columns of the rows at its other end, summed: a *view*. Where some rows have more neighbors than others,
a view also tells how many there are. A plain table is a layout of one table and one template, "within", and no view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sparsefield.data.links import Template
from sparsefield.data.schema import Label, Schema
from sparsefield.errors import DataError

__all__ = ["NEIGHBOR_COUNT", "Arcs", "CandidateBlock", "FeatureName", "Layout", "NeighborView"]

Array = np.ndarray

NEIGHBOR_COUNT = "(how many)"
"""What the number of neighbors is called where a variable has its name."""

COUNT = -1
"""Stands for that number where an own column of the other table would stand."""


class Arcs(NamedTuple):
    """Directed influences: from what a row sees to a state of that row, with the feature that gives the weight."""

    target: Array
    """Number of a state among all target states of all tables."""
    source: Array
    """Number of a column among all columns of all tables, views included; beyond these, of a conjunction."""
    feature: Array
    """Position in the list of features."""
    conjunctions: Array = np.empty((0, 2), dtype=np.int64)
    """(conjunctions, columns): own columns whose product is a source, -1 where there are fewer. The k-th is called
    n_columns + k."""


class FeatureName(NamedTuple):
    """A pair feature in words."""

    template: str
    table_a: str
    variable_a: str
    state_a: Label | None
    table_b: str
    variable_b: str
    state_b: Label | None


@dataclass(frozen=True)
class NeighborView:
    """What the rows of one table see of another's over a template: a run of columns, each a sum over neighbors."""

    template: int
    forward: bool
    """Whether the seer is the template's left end; a symmetric template has this view alone."""
    seer: int
    seen: int
    columns: Array
    """Own columns of the table that is seen, ascending; then COUNT, where the number of neighbors differs."""
    start: int
    """First of the view's columns among all that the seer sees."""

    @property
    def stop(self) -> int:
        return self.start + len(self.columns)


@dataclass(frozen=True)
class CandidateBlock:
    """The candidates of one template as a matrix: some columns of its left table by some of its right table."""

    template: int
    left: int
    right: int
    mirrored: bool
    """The matrix is its own mirror image: only pairs with a <= b are candidates."""
    within: bool
    """Both ends are one row, so that states of one variable make no pair."""
    left_columns: Array
    """Own columns of the left table, states first; COUNT last, where the right table's rows see it."""
    right_columns: Array
    left_states: int
    """How many of the left columns are target states."""
    right_states: int
    seen_right: Array
    """(right columns,): where the left table's rows see them; empty when the left table has no targets."""
    seen_left: Array
    """(left columns,): where the right table's rows see them."""

    @property
    def n_candidates(self) -> int:
        """Pairs that have at least one target state (pairs within one variable still counted)."""
        states, given = self.left_states, len(self.left_columns) - self.left_states
        if not self.mirrored:
            return states * len(self.right_columns) + given * self.right_states
        return states * (states - 1) // 2 + states * given + (0 if self.within else states)


@dataclass(frozen=True)
class Layout:
    """Tables, templates, and the numbers that stand for their states and columns.

    Column numbers run over the tables, and within a table over its own columns and then its views. State numbers run
    over the target states of all tables alone: they index unary weights. A feature is a pair (a, b) of column numbers
    of one table: a target state and what it sees, an own column or a column of a view. A feature of two targets has a
    second arc, from a to b's state; over a link that arc lies in the other table.
    """

    tables: tuple[str, ...]
    schemas: tuple[Schema, ...]
    templates: tuple[Template, ...]
    ends: tuple[tuple[int, int], ...]
    """Tables at the two ends of each template."""
    counted: tuple[tuple[bool, bool], ...] = ()
    """Per template, whether rows at its left, and at its right, differ in how many neighbors they have. The base state
    of a neighbor adds nothing, as no neighbor does; the number tells the two apart. None given: nowhere."""

    def __post_init__(self) -> None:
        # Spelt out, so that a layout that comes back from a file equals the one that was saved.
        object.__setattr__(self, "counted", self.counted or ((False, False),) * len(self.templates))

    @classmethod
    def single(cls, schema: Schema, name: str = "") -> Layout:
        """The layout of one plain table."""
        return cls((name,), (schema,), (Template("within", (name,)),), ((0, 0),))

    # -- numbers -------------------------------------------------------------------------------------------------

    @cached_property
    def views(self) -> tuple[NeighborView, ...]:
        """All views, table by table, in the order of the templates."""
        found = []
        for t, schema in enumerate(self.schemas):
            start = schema.n_columns
            for k, (template, (left, right)) in enumerate(zip(self.templates, self.ends, strict=True)):
                if template.kind == "within" or schema.n_states == 0:
                    continue
                sides = [(True, left, right)]
                if not template.symmetric:
                    sides.append((False, right, left))
                for forward, seer, seen in sides:
                    if seer == t:
                        found.append(NeighborView(k, forward, t, seen, self._seen_columns(k, forward), start))
                        start = found[-1].stop
        return tuple(found)

    @cached_property
    def widths(self) -> Array:
        """(tables,): columns that the rows of each table see, own ones first."""
        widths = [schema.n_columns for schema in self.schemas]
        for view in self.views:
            widths[view.seer] += len(view.columns)
        return np.array(widths, dtype=np.int64)

    @cached_property
    def column_starts(self) -> Array:
        return np.concatenate([[0], np.cumsum(self.widths)]).astype(np.int64)

    @cached_property
    def state_starts(self) -> Array:
        return np.concatenate([[0], np.cumsum([s.n_states for s in self.schemas])]).astype(np.int64)

    @property
    def n_states(self) -> int:
        """Target states that carry a unary feature, over all tables."""
        return int(self.state_starts[-1])

    @property
    def n_columns(self) -> int:
        return int(self.column_starts[-1])

    @property
    def n_targets(self) -> int:
        return sum(len(schema.targets) for schema in self.schemas)

    @property
    def has_latent(self) -> bool:
        """Whether there are variables that no table has a cell of."""
        return any(len(schema.latent) for schema in self.schemas)

    @cached_property
    def column_of_state(self) -> Array:
        """(states,)"""
        parts = zip(self.schemas, self.column_starts[:-1], strict=True)
        return np.concatenate([np.arange(s.n_states) + start for s, start in parts])

    @cached_property
    def table_of_column(self) -> Array:
        return np.repeat(np.arange(len(self.tables)), self.widths)

    @cached_property
    def _view_of_column(self) -> Array:
        """(columns,): index of the view that a column belongs to, -1 for a table's own."""
        owner = np.full(self.n_columns, -1, dtype=np.int64)
        for k, view in enumerate(self.views):
            owner[self.column_starts[view.seer] + np.arange(view.start, view.stop)] = k
        return owner

    def column_views(self, table: int) -> tuple[Array, Array]:
        """For each column that a table's rows see: its view (-1: own), and the column that is seen there, or COUNT."""
        first, last = self.column_starts[table], self.column_starts[table + 1]
        seen = np.arange(last - first)
        for view in self.views:
            if view.seer == table:
                seen[view.start : view.stop] = view.columns
        return self._view_of_column[first:last], seen

    # -- candidates ----------------------------------------------------------------------------------------------

    @cached_property
    def meetings(self) -> tuple[CandidateBlock, ...]:
        return tuple(self._meeting(k) for k in range(len(self.templates)))

    @property
    def n_candidate_pairs(self) -> int:
        total = 0
        for meeting in self.meetings:
            total += self.schemas[meeting.left].n_candidate_pairs if meeting.within else meeting.n_candidates
        return total

    def arcs(self, features: Array) -> Arcs:
        """The arcs of features: one for each end that is a target state.

        ``features`` are pairs; where it is wider than that, a row may name more columns, and -1 where it names fewer. A
        feature of more than two columns leads to each of its target states from the conjunction of the others.
        """
        if features.shape[1] == 2:
            return self._pair_arcs(features, np.arange(len(features)))
        higher = features[:, 2] >= 0
        arcs = self._pair_arcs(features[~higher, :2], np.flatnonzero(~higher))
        rows = np.flatnonzero(higher)
        targets, others, owners = [arcs.target], [], [arcs.feature]
        for k in range(features.shape[1]):
            column = features[rows, k]
            state = np.where(column >= 0, self._state_of_column[column], -1)
            mine = np.flatnonzero(state >= 0)
            targets.append(state[mine])
            owners.append(rows[mine])
            others.append(np.delete(features[rows[mine]], k, axis=1))
        conjunctions = np.concatenate(others)
        sources = self.n_columns + np.arange(len(conjunctions))
        return Arcs(
            np.concatenate(targets), np.concatenate([arcs.source, sources]), np.concatenate(owners), conjunctions
        )

    def _pair_arcs(self, pairs: Array, feature: Array) -> Arcs:
        a, b = pairs[:, 0], pairs[:, 1]
        back_target, back_source, has_back = self._backward(a, b)
        return Arcs(
            np.concatenate([self._state_of_column[a], self._state_of_column[back_target[has_back]]]),
            np.concatenate([b, back_source[has_back]]),
            np.concatenate([feature, feature[has_back]]),
        )

    def keys(self, features: Array) -> Array:
        """One number per feature, for set operations among features of the same width."""
        if features.shape[1] == 2:
            return features[:, 0] * np.int64(self.n_columns) + features[:, 1]
        if (self.n_columns + 1) ** features.shape[1] > np.iinfo(np.int64).max:
            raise DataError(
                f"Features of up to {features.shape[1]} columns, out of {self.n_columns:,}, are too many to number: "
                "take a lower max_order."
            )
        key = np.zeros(len(features), dtype=np.int64)
        for k in range(features.shape[1]):
            key = key * np.int64(self.n_columns + 1) + features[:, k] + 1
        return key

    def feature_name(self, a: int, b: int) -> FeatureName:
        """A pair of column numbers in words."""
        table = int(self.table_of_column[a])
        start, view = int(self.column_starts[table]), int(self._view_of_column[b])
        one = self.schemas[table].column_name(a - start)
        if view < 0:
            label, other, column = self.within_label(self.tables[table]), table, b - start
        else:
            seen = self.views[view]
            label, other = self.templates[seen.template].label, seen.seen
            column = int(seen.columns[b - start - seen.start])
        here = self.tables[table], one[0], one[1]
        two = (NEIGHBOR_COUNT, None) if column == COUNT else self.schemas[other].column_name(column)
        there = self.tables[other], two[0], two[1]
        # Words follow the template's direction: "across subject" speaks of the relation first, then of the nation.
        if view >= 0 and not self.views[view].forward:
            here, there = there, here
        return FeatureName(label, *here, *there)

    @staticmethod
    def within_label(table: str) -> str:
        """What the template is called that lets columns of one row meet."""
        return f"within {table}".rstrip()

    def own_name(self, column: int) -> tuple[str, str, Label | None]:
        """Table, variable and state of a table's own column."""
        table = int(self.table_of_column[column])
        return self.tables[table], *self.schemas[table].column_name(column - int(self.column_starts[table]))

    def is_sound(self, pairs: Array) -> bool:
        """Whether every pair is a target state and a column that a template lets it meet: kernels trust that."""
        if (pairs < 0).any() or (pairs >= self.n_columns).any():
            return False
        a, b = pairs[:, 0], pairs[:, 1]
        table, views = self.table_of_column[a], self._view_of_column[b]
        if (self._state_of_column[a] < 0).any() or (table != self.table_of_column[b]).any():
            return False
        for k in np.unique(table):
            start, schema = self.column_starts[k], self.schemas[k]
            own = (table == k) & (views < 0)
            owner = schema.variable_of_column
            if (owner[a[own] - start] == owner[b[own] - start]).any():
                return False
            if own.any() and not any(m.within and m.left == k for m in self.meetings):
                return False
        for k in np.unique(views[views >= 0]):
            view = self.views[k]
            template = self.templates[view.template]
            mine = self._columns(view.seer, template.left if view.forward else template.right)
            if not np.isin(a[views == k] - self.column_starts[view.seer], mine).all():
                return False
        return True

    def are_sound(self, conjunctions: Array) -> bool:
        """The same of features of three columns and more: own columns of one table, ascending, each of a variable of
        its own, a target state first, and -1 behind the last."""
        if conjunctions.ndim != 2 or conjunctions.shape[1] < 3 or (conjunctions >= self.n_columns).any():
            return False
        named = conjunctions >= 0
        if not named[:, :3].all() or (conjunctions < -1).any() or (named[:, 1:] & ~named[:, :-1]).any():
            return False
        if (self._state_of_column[conjunctions[:, 0]] < 0).any() or (
            self._view_of_column[conjunctions][named] >= 0
        ).any():
            return False
        table = self.table_of_column[conjunctions]
        if ((table != table[:, :1]) & named).any():
            return False
        if any(not any(m.within and m.left == k for m in self.meetings) for k in np.unique(table[named])):
            return False
        owner = self.variable_of_own_column[conjunctions]
        rising = np.diff(conjunctions, axis=1) > 0
        apart = np.diff(owner, axis=1) != 0  # columns of one variable stand together
        return bool((rising & apart | ~named[:, 1:]).all())

    @cached_property
    def variable_of_own_column(self) -> Array:
        """(columns,): number of its variable within its table, -1 for what is seen over a view."""
        number = np.full(self.n_columns, -1, dtype=np.int64)
        for schema, start in zip(self.schemas, self.column_starts[:-1], strict=True):
            number[start : start + schema.n_columns] = schema.variable_of_column
        return number

    # -- behind them ---------------------------------------------------------------------------------------------

    @cached_property
    def _state_of_column(self) -> Array:
        """(columns,): number of the state, -1 where a column is none."""
        number = np.full(self.n_columns, -1, dtype=np.int64)
        number[self.column_of_state] = np.arange(self.n_states)
        return number

    @cached_property
    def _mirrors(self) -> tuple[int, ...]:
        """Per view, the view of the same template from the other side; -1 where that table has no targets."""
        by_side = {(view.template, view.forward): k for k, view in enumerate(self.views)}
        return tuple(
            k if self.templates[v.template].symmetric else by_side.get((v.template, not v.forward), -1)
            for k, v in enumerate(self.views)
        )

    def _backward(self, a: Array, b: Array) -> tuple[Array, Array, Array]:
        """Target and source column of each pair's second arc, and whether it has one."""
        target, source = b.copy(), a.copy()
        views = self._view_of_column[b]
        for k in np.unique(views[views >= 0]):
            view, mirror = self.views[k], self._mirrors[k]
            at = np.flatnonzero(views == k)
            seer, seen = self.column_starts[view.seer], self.column_starts[view.seen]
            column = view.columns[b[at] - seer - view.start]
            at, column = at[column != COUNT], column[column != COUNT]
            target[at] = seen + column
            if mirror >= 0:
                own = self.views[mirror].columns
                place = np.searchsorted(own[own != COUNT], a[at] - seer)
                source[at] = seen + self.views[mirror].start + place
        has = (self._state_of_column[target] >= 0) & ((target != a) | (source != b))
        return target, source, has

    def _columns(self, table: int, names: Sequence[str] | None) -> Array:
        """Own columns of a table, or of some of its variables."""
        schema = self.schemas[table]
        columns = np.arange(schema.n_columns)
        if names is None:
            return columns
        wanted = np.array([variable.name in names for variable in schema.variables], dtype=bool)
        return columns[wanted[schema.variable_of_column]]

    def _seen_columns(self, k: int, forward: bool) -> Array:
        """What one side of a template sees of the other."""
        template, (left, right) = self.templates[k], self.ends[k]
        columns = self._columns(right, template.right) if forward else self._columns(left, template.left)
        counted = self.counted[k][0 if forward else 1]
        return np.append(columns, COUNT) if counted else columns

    def _meeting(self, k: int) -> CandidateBlock:
        template, (left, right) = self.templates[k], self.ends[k]
        within = template.kind == "within"
        one, other = self._seen_columns(k, template.symmetric), self._seen_columns(k, forward=True)
        views = {view.forward: view for view in self.views if view.template == k}
        nothing = np.empty(0, dtype=np.int64)

        def seen(forward: bool) -> Array:
            if within:
                return one
            view = views.get(forward or template.symmetric)
            return nothing if view is None else np.arange(view.start, view.stop)

        return CandidateBlock(
            template=k,
            left=left,
            right=right,
            mirrored=within or template.symmetric,
            within=within,
            left_columns=one,
            right_columns=other,
            left_states=_count_states(one, self.schemas[left]),
            right_states=_count_states(other, self.schemas[right]),
            seen_right=seen(True),
            seen_left=seen(False),
        )


def _count_states(columns: Array, schema: Schema) -> int:
    return int(((columns < schema.n_states) & (columns != COUNT)).sum())
