"""Layouts: one flat numbering of the states and columns of all tables, and of the sums over linked rows.

The columns of a table are its own ones (target states, then observed columns), and, for each template that ends in the
table, the columns of the linked rows, summed over neighbors: a *neighbor view*. If rows differ in their number of
neighbors, that number is one more column of the view. Numbers of paths follow, see `sparsefield.data.paths`. A plain
table is a layout of one table, the template "within", and no views.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from sparsefield.data.coding import PENALTY_FACTORS, SCORE_RIDGE, ColumnClass
from sparsefield.data.links import Template
from sparsefield.data.paths import PathView
from sparsefield.data.schema import Label, Schema
from sparsefield.errors import DataError

Array = np.ndarray


NEIGHBOR_COUNT = "(neighbor count)"
"""Name of the number of neighbors, in place of a variable's name."""

COUNT_COLUMN = -1
"""Column number of the number of neighbors, in place of an own column of the other table."""

PATH_VIEW = -2
"""Number of the view of all paths, in place of that of a neighbor view."""


@dataclass(frozen=True)
class NeighborView:
    """The columns of a source table, summed over the neighbors of each row of a target table."""

    template: int
    forward: bool
    """Whether the target table is the template's left end; a symmetric template has only this view."""
    target_table: int
    source_table: int
    columns: Array
    """Own columns of the source table, ascending; then COUNT_COLUMN, if the number of neighbors varies."""
    start: int
    """First column of the view among the columns of the target table."""

    @property
    def stop(self) -> int:
        return self.start + len(self.columns)


@dataclass(frozen=True)
class Side:
    """One end of a template in its matrix of candidates."""

    table: int
    columns: Array
    """Own columns of the table, states first; COUNT_COLUMN last, if the number of neighbors varies."""
    n_target_columns: int
    """Number of target states among the columns."""
    neighbor_columns: Array
    """Columns of the other side's table that hold the neighbor sums of ``columns``; empty if it has no targets."""
    classes: Array
    """The `ColumnClass` of each column."""


@dataclass(frozen=True)
class CandidateBlock:
    """The candidate pairs of one template as a matrix: columns of its left table by columns of its right table."""

    template: int
    left: Side
    right: Side
    mirrored: bool
    """Whether the matrix is symmetric: only pairs with a <= b are candidates."""
    within: bool
    """Whether both ends are the same row, so that states of one variable form no pair."""
    target_factor: float = 1.0
    """Factor of l1 for pairs of two target columns."""

    @property
    def n_candidates(self) -> int:
        """Number of pairs with at least one target column; pairs within one variable are included."""
        allowed = np.isfinite(PENALTY_FACTORS).astype(np.int64)
        (left, left_observed), (right, right_observed) = (
            [np.bincount(part, minlength=len(ColumnClass)) for part in np.split(side.classes, [side.n_target_columns])]
            for side in (self.left, self.right)
        )
        if not self.mirrored:
            return int(left @ allowed @ (right + right_observed) + left_observed @ allowed @ right)
        alone = int(left @ allowed.diagonal())
        among = (int(left @ allowed @ left) - alone) // 2
        return among + (0 if self.within else alone) + int(left @ allowed @ left_observed)

    @property
    def has_unit_factors(self) -> bool:
        """Return whether all columns are plain and the factors of l1 are 1."""
        return self.target_factor == 1.0 and not (self.left.classes.any() or self.right.classes.any())

    def factors(self, a: Array, b: Array) -> Array:
        """Return the factors of l1 for pairs, given by positions among the left and the right columns."""
        if self.has_unit_factors:
            return np.ones(np.broadcast_shapes(a.shape, b.shape))
        found = PENALTY_FACTORS[self.left.classes[a], self.right.classes[b]]
        if self.target_factor == 1.0:
            return found
        both = (a < self.left.n_target_columns) & (b < self.right.n_target_columns)
        return np.where(both, self.target_factor * found, found)


def classes_of(schema: Schema, columns: Array) -> Array:
    """Return the `ColumnClass` of some columns of a table, which may be `COUNT_COLUMN` even if it has no columns."""
    classes = np.full(len(columns), ColumnClass.PLAIN, dtype=np.int8)
    own = columns != COUNT_COLUMN
    classes[own] = schema.column_classes[columns[own]]
    return classes


class Arcs(NamedTuple):
    """Arcs are directed influences of columns on target states of the same row, each with the feature of its weight."""

    target: Array
    """State number among all target states of all tables, (arcs,)."""
    source: Array
    """Column number among all columns of all tables, or n_columns + k for the k-th conjunction, (arcs,)."""
    feature: Array
    """Position in the list of features, (arcs,)."""
    conjunctions: Array = np.empty((0, 2), dtype=np.int64)
    """Own columns whose product is a source, padded with -1, (conjunctions, columns)."""


class FeatureName(NamedTuple):
    """The names of a pair feature, or of one over paths."""

    template: str
    table_a: str
    variable_a: str
    state_a: Label | None
    table_b: str
    variable_b: str
    state_b: Label | None
    last: tuple[tuple[str, str, Label | None], ...] = ()
    """Table, variable and state of the third cell of a triangle or cycle."""

    @property
    def terms(self) -> tuple[tuple[str, str, Label | None], ...]:
        """Table, variable and state of each column."""
        return self[1:4], self[4:7], *self.last


@dataclass(frozen=True)
class Layout:
    """A layout numbers the states and columns of tables that are connected by templates.

    Column numbers run over the tables, and within a table over its own columns and then its neighbor views. State
    numbers run over the target states of all tables: they index biases. A feature is a pair (a, b) of column
    numbers of one table: a target state, and an own column or a column of a view. A feature of two targets has a second
    arc, from a to the state of b; for a link, that arc belongs to the other table.
    """

    tables: tuple[str, ...]
    schemas: tuple[Schema, ...]
    templates: tuple[Template, ...]
    ends: tuple[tuple[int, int], ...]
    """Numbers of the tables at the two ends of each template."""
    has_neighbor_count: tuple[tuple[bool, bool], ...] = ()
    """Per template, whether rows of its left, and of its right table, differ in their number of neighbors.

    A neighbor in its reference state adds nothing to the sums, as if there were no neighbor; the number distinguishes
    the two. Empty means nowhere.
    """
    target_factor: float = field(default=1.0, compare=False)
    """Factor of l1 for pairs of two target columns; an option of a fit, which no field needs later."""
    path_factors: tuple[float, ...] = field(default=(), compare=False)
    """Factor of l1 for features over paths, per path view; of a fit, too. Empty means 1."""

    def __post_init__(self) -> None:
        # Written out, so that a layout that is loaded equals the one that was saved.
        object.__setattr__(
            self, "has_neighbor_count", self.has_neighbor_count or ((False, False),) * len(self.templates)
        )

    @classmethod
    def single(cls, schema: Schema, name: str = "") -> Layout:
        """Return the layout of one plain table."""
        return cls((name,), (schema,), (Template("within", (name,)),), ((0, 0),))

    @cached_property
    def neighbor_views(self) -> tuple[NeighborView, ...]:
        """All neighbor views, table by table, in the order of the templates."""
        found = []
        for t, schema in enumerate(self.schemas):
            start = schema.n_columns
            for k, (template, (left, right)) in enumerate(zip(self.templates, self.ends, strict=True)):
                if template.kind == "within" or template.over_paths or schema.n_target_columns == 0:
                    continue
                sides = [(True, left, right), (False, right, left)]
                for forward, target, source in sides[:1] if template.symmetric else sides:
                    if target == t:
                        found.append(NeighborView(k, forward, t, source, self._source_columns(k, forward), start))
                        start = found[-1].stop
        return tuple(found)

    @cached_property
    def path_views(self) -> tuple[PathView, ...]:
        """All path views, table by table, in the order of the templates and of the sides of their triangles."""
        found, widths = [], self.widths_without_paths
        for k, template in enumerate(self.templates):
            if template.over_paths:
                table = self.ends[k][0]
                schema = self.schemas[table]
                states = np.flatnonzero(schema.column_classes[: schema.n_target_columns] == ColumnClass.PLAIN)
                cyclic, start = template.kind == "cycle", widths[table]
                for side in range((1 if cyclic else 3) if len(states) else 0):
                    found.append(PathView(k, table, side, cyclic, states, start))
                    start = found[-1].stop
                widths[table] = start
        return tuple(found)

    @property
    def widths_without_paths(self) -> list[int]:
        """Number of columns of each table before those of paths."""
        widths = [schema.n_columns for schema in self.schemas]
        for view in self.neighbor_views:
            widths[view.target_table] += len(view.columns)
        return widths

    @cached_property
    def widths(self) -> Array:
        """Number of columns of each table, own ones and those of its views, (tables,)."""
        widths = np.array(self.widths_without_paths, dtype=np.int64)
        for view in self.path_views:
            widths[view.table] = view.stop
        return widths

    @cached_property
    def column_starts(self) -> Array:
        return np.concatenate([[0], np.cumsum(self.widths)]).astype(np.int64)

    @cached_property
    def target_starts(self) -> Array:
        return np.concatenate([[0], np.cumsum([s.n_target_columns for s in self.schemas])]).astype(np.int64)

    @property
    def n_target_columns(self) -> int:
        """Number of target states with a bias, over all tables."""
        return int(self.target_starts[-1])

    @property
    def n_columns(self) -> int:
        return int(self.column_starts[-1])

    @property
    def n_targets(self) -> int:
        return sum(len(schema.targets) for schema in self.schemas)

    @property
    def has_latent(self) -> bool:
        """Whether any table has latent variables."""
        return any(len(schema.latent) for schema in self.schemas)

    @cached_property
    def column_of_target(self) -> Array:
        """(states,)"""
        parts = zip(self.schemas, self.column_starts[:-1], strict=True)
        return np.concatenate([np.arange(s.n_target_columns) + start for s, start in parts])

    @cached_property
    def table_of_column(self) -> Array:
        return np.repeat(np.arange(len(self.tables)), self.widths)

    @cached_property
    def column_classes(self) -> Array:
        """The `ColumnClass` of each column, (columns,)."""
        parts = []
        for t, schema in enumerate(self.schemas):
            classes = [schema.column_classes]
            for view in self.neighbor_views:
                if view.target_table == t:
                    classes.append(classes_of(self.schemas[view.source_table], view.columns))
            classes.append(np.full(self.widths[t] - sum(map(len, classes)), ColumnClass.PLAIN, dtype=np.int8))
            parts.append(np.concatenate(classes))
        return np.concatenate(parts)

    def feature_factors(self, features: Array) -> Array:
        """Return the factors of l1 for features (features, columns): the largest factor of two of their columns.

        It is infinite for a feature with two columns that form no candidate.
        """
        factors = np.ones(len(features))
        for i, j in combinations(range(features.shape[1]), 2):
            there = np.flatnonzero(features[:, j] >= 0)
            classes = self.column_classes[features[there]]
            factors[there] = np.maximum(factors[there], PENALTY_FACTORS[classes[:, i], classes[:, j]])
        if self.target_factor != 1.0:
            factors[(self.target_of_column[features[:, :2]] >= 0).all(axis=1)] *= self.target_factor
        for view, factor in zip(self.path_views, self.path_factors, strict=False):
            start = self.column_starts[view.table]
            factors[(features[:, 1] >= start + view.start) & (features[:, 1] < start + view.stop)] *= factor
        return factors

    def l2_factors(self, features: Array) -> Array:
        """Return the factors of l2 for features (features, columns): that of pairs of scores is `SCORE_RIDGE`."""
        if not self.schemas:  # of a chain
            return np.ones(len(features))
        scores = np.isin(self.column_classes[features[:, :2]], (ColumnClass.SCORE, ColumnClass.OBSERVED_SCORE))
        return np.where(scores.all(axis=1) & (features[:, 2:] < 0).all(axis=1), SCORE_RIDGE, 1.0)

    def edge_factors(self, pairs: Array) -> Array:
        """Return the square roots of the degrees of freedom of the edges of pairs (pairs, 2).

        A nominal variable has one for each state but one; an ordinal or numeric one, whose score comes first, has one.
        """
        degrees = self._edge_ends[1][pairs]
        return np.sqrt(degrees[:, 0] * degrees[:, 1])

    def edge_keys(self, pairs: Array) -> Array:
        """Return a number for each pair (pairs, 2), the same for all pairs of one edge: two variables, one template."""
        variables, views = self._edge_ends[0], self.view_of_column[pairs[:, 1]] + 1
        count = int(variables.max(initial=0)) + 1
        n_views = len(self.neighbor_views) + 1
        return (variables[pairs[:, 0]] * n_views + views) * count + variables[pairs[:, 1]]

    @cached_property
    def _edge_ends(self) -> tuple[Array, Array]:
        """The number of the variable of each column, among those of all tables, and its degrees of freedom.

        Columns of a view belong to the variables of the source table; the number of neighbors is a variable by itself.
        """
        starts = np.cumsum([0, *(len(schema.variables) for schema in self.schemas)])
        variables, degrees = np.empty(self.n_columns, dtype=np.int64), np.ones(self.n_columns)
        for t, schema in enumerate(self.schemas):
            here = slice(self.column_starts[t], self.column_starts[t] + schema.n_columns)
            free = np.array([1 if v.ordered else max(len(v.states) - 1, 1) for v in schema.variables], dtype=np.float64)
            variables[here] = starts[t] + schema.variable_of_column
            degrees[here] = free[schema.variable_of_column]
        for k, view in enumerate(self.neighbor_views):
            to = self.column_starts[view.target_table] + np.arange(view.start, view.stop)
            own, source = view.columns != COUNT_COLUMN, self.column_starts[view.source_table]
            variables[to[~own]] = starts[-1] + k
            variables[to[own]] = variables[source + view.columns[own]]
            degrees[to[own]] = degrees[source + view.columns[own]]
        paths = np.flatnonzero(self.view_of_column == PATH_VIEW)  # each stands for itself
        variables[paths] = starts[-1] + len(self.neighbor_views) + np.arange(len(paths))
        return variables, degrees

    @cached_property
    def view_of_column(self) -> Array:
        """Index of the neighbor view of each column, -1 for own columns, PATH_VIEW for paths, (columns,)."""
        owner = np.full(self.n_columns, -1, dtype=np.int64)
        for view in self.path_views:
            owner[self.column_starts[view.table] + np.arange(view.start, view.stop)] = PATH_VIEW
        for k, view in enumerate(self.neighbor_views):
            owner[self.column_starts[view.target_table] + np.arange(view.start, view.stop)] = k
        return owner

    def column_views(self, table: int) -> tuple[Array, Array]:
        """Return the view (-1 if own) and the column in the source table, or COUNT_COLUMN, of a table's columns.

        A path, whose view is PATH_VIEW, has its column in the table.
        """
        first, last = self.column_starts[table], self.column_starts[table + 1]
        source = np.arange(last - first)
        for view in self.neighbor_views:
            if view.target_table == table:
                source[view.start : view.stop] = view.columns
        return self.view_of_column[first:last], source

    @cached_property
    def candidate_blocks(self) -> tuple[CandidateBlock, ...]:
        """Candidate pairs of each template but those over paths, which are the last ones."""
        return tuple(self._candidate_block(k) for k, template in enumerate(self.templates) if not template.over_paths)

    @property
    def n_candidate_pairs(self) -> int:
        pairs = sum(
            self.schemas[block.left.table].n_candidate_pairs if block.within else block.n_candidates
            for block in self.candidate_blocks
        )
        return pairs + sum(view.n_features for view in self.path_views)

    def path_pairs(self, view: PathView) -> Array:
        """Return all features over a path view of side 0 as pairs of a state t and a path of r and s, (pairs, 2)."""
        k, start = len(view.columns), int(self.column_starts[view.table])
        t, r, s = np.indices((k, k, k)).reshape(3, -1)
        t, r, s = np.stack([t, r, s])[:, view.are_features(t, r, s)]
        return np.column_stack([start + view.columns[t], start + view.start + r * k + s])

    def path_terms(self, pairs: Array) -> tuple[Array, Array, Array]:
        """Return which features (pairs, 2) are over paths, and their states r, s and t (features, 3) and templates."""
        found = [(np.empty(0, dtype=np.int64), np.empty((0, 3), dtype=np.int64), np.empty(0, dtype=np.int64))]
        for view in self.path_views:
            start = int(self.column_starts[view.table])
            there = np.flatnonzero((pairs[:, 1] >= start + view.start) & (pairs[:, 1] < start + view.stop))
            t, r, s = self.path_members(view, pairs[there])
            columns = start + view.columns[np.column_stack([r, s, t])]
            found.append((there, columns, np.full(len(there), view.template)))
        return tuple(np.concatenate(part) for part in zip(*found, strict=True))  # pyright: ignore[reportReturnType]

    def path_members(self, view: PathView, pairs: Array) -> tuple[Array, Array, Array]:
        """Return the positions of the states t, r and s of features (pairs, 2) over a path view among its columns."""
        own, path = (pairs - self.column_starts[view.table]).T
        return np.searchsorted(view.columns, own), *np.divmod(path - view.start, len(view.columns))

    def arcs(self, features: Array) -> Arcs:
        """Return the arcs of features: one for each end that is a target state.

        ``features`` has shape (features, columns), padded with -1. A feature of more than two columns has an arc to
        each of its target states, from the conjunction of its other columns.
        """
        if features.shape[1] == 2:
            return self._pair_arcs(features, np.arange(len(features)))
        higher = features[:, 2] >= 0
        arcs = self._pair_arcs(features[~higher, :2], np.flatnonzero(~higher))
        rows = np.flatnonzero(higher)
        targets, others, owners = [arcs.target], [], [arcs.feature]
        for k in range(features.shape[1]):
            column = features[rows, k]
            state = np.where(column >= 0, self.target_of_column[column], -1)
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
        parts = [(a, b, feature), (back_target[has_back], back_source[has_back], feature[has_back])]
        for view in self.path_views:
            parts += self._path_arcs(view, pairs, feature)
        target, source, feature = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Arcs(self.target_of_column[target], source, feature)

    def _path_arcs(self, view: PathView, pairs: Array, feature: Array) -> list[tuple[Array, Array, Array]]:
        """Return target columns, sources and features of the arcs to the two cells of paths of a view."""
        first, k = int(self.column_starts[view.table]), len(view.columns)
        there = np.flatnonzero((pairs[:, 1] >= first + view.start) & (pairs[:, 1] < first + view.stop))
        if view.side or not len(there):
            return []
        t, r, s = self.path_members(view, pairs[there])
        states = first + view.columns
        if view.cyclic:  # three cells in the same state are the same cell
            there, t, r, s = (part[(t != r) | (r != s)] for part in (there, t, r, s))
            sources = view.start + s * k + t, view.start + t * k + r
        else:
            sources = view.stop + t * k + s, view.stop + k * k + r * k + t
        ends = zip((r, s), sources, strict=True)
        return [(states[end], first + source, feature[there]) for end, source in ends]

    def keys(self, features: Array) -> Array:
        """Return one number per feature, for set operations among features of the same width."""
        if features.shape[1] == 2:
            return features[:, 0] * np.int64(self.n_columns) + features[:, 1]
        if (self.n_columns + 1) ** features.shape[1] > np.iinfo(np.int64).max:
            raise DataError(
                f"There are too many possible features of up to {features.shape[1]} out of {self.n_columns:,} columns: "
                "use a lower max_order."
            )
        key = np.zeros(len(features), dtype=np.int64)
        for k in range(features.shape[1]):
            key = key * np.int64(self.n_columns + 1) + features[:, k] + 1
        return key

    def feature_name(self, a: int, b: int) -> FeatureName:
        """Return the names of a pair of column numbers."""
        here, number = self.own_column_name(a), int(self.view_of_column[b])
        if number == PATH_VIEW:
            _, columns, template = self.path_terms(np.array([[a, b]]))
            r, s, t = map(self.own_column_name, columns[0].tolist())
            return FeatureName(self.templates[template[0]].label, *r, *s, (t,))
        if number < 0:
            return FeatureName(self.within_label(here[0]), *here, *self.own_column_name(b))
        view = self.neighbor_views[number]
        column = int(view.columns[b - self.column_starts[view.target_table] - view.start])
        table, schema = self.tables[view.source_table], self.schemas[view.source_table]
        name, state = (NEIGHBOR_COUNT, None) if column == COUNT_COLUMN else schema.column_name(column)
        there = table, name, state
        # Names follow the direction of the template: "across subject" names the relation first, then the nation.
        left, right = (here, there) if view.forward else (there, here)
        return FeatureName(self.templates[view.template].label, *left, *right)

    @staticmethod
    def within_label(table: str) -> str:
        """Return the label of the template that pairs columns of one row."""
        return f"within {table}".rstrip()

    def own_column_name(self, column: int) -> tuple[str, str, Label | None]:
        """Return table, variable and state of an own column."""
        table = int(self.table_of_column[column])
        return self.tables[table], *self.schemas[table].column_name(column - int(self.column_starts[table]))

    @cached_property
    def variable_of_own_column(self) -> Array:
        """Number of each column's variable within its table, -1 for columns of views, (columns,)."""
        number = np.full(self.n_columns, -1, dtype=np.int64)
        for schema, start in zip(self.schemas, self.column_starts[:-1], strict=True):
            number[start : start + schema.n_columns] = schema.variable_of_column
        return number

    @cached_property
    def target_of_column(self) -> Array:
        """State number of each column, -1 if it is no target state, (columns,)."""
        number = np.full(self.n_columns, -1, dtype=np.int64)
        number[self.column_of_target] = np.arange(self.n_target_columns)
        return number

    def _backward(self, a: Array, b: Array) -> tuple[Array, Array, Array]:
        """Return target and source column of each pair's second arc, and whether it has one."""
        target, source = b.copy(), a.copy()
        views = self.view_of_column[b]
        for k in np.unique(views[views >= 0]):
            view = self.neighbor_views[k]
            # The view in the other direction, which a symmetric template does not have.
            back = view.template, view.forward == self.templates[view.template].symmetric
            mirror = next((m for m, v in enumerate(self.neighbor_views) if (v.template, v.forward) == back), -1)
            at = np.flatnonzero(views == k)
            target_start, source_start = self.column_starts[view.target_table], self.column_starts[view.source_table]
            column = view.columns[b[at] - target_start - view.start]
            at, column = at[column != COUNT_COLUMN], column[column != COUNT_COLUMN]
            target[at] = source_start + column
            if mirror >= 0:
                own = self.neighbor_views[mirror].columns
                position = np.searchsorted(own[own != COUNT_COLUMN], a[at] - target_start)
                source[at] = source_start + self.neighbor_views[mirror].start + position
        has = (self.target_of_column[target] >= 0) & ((target != a) | (source != b))
        return target, source, has

    def paired_columns(self, table: int, names: Sequence[str] | None) -> Array:
        """Return the own columns of a table, or of some of its variables, that features are made of."""
        schema = self.schemas[table]
        columns = np.flatnonzero(schema.column_classes != ColumnClass.SQUARE)
        if names is None:
            return columns
        wanted = np.array([variable.name in names for variable in schema.variables], dtype=bool)
        return columns[wanted[schema.variable_of_column[columns]]]

    def _source_columns(self, k: int, forward: bool) -> Array:
        """Return the columns of a template's source table, for one direction."""
        template, (left, right) = self.templates[k], self.ends[k]
        columns = self.paired_columns(right, template.right) if forward else self.paired_columns(left, template.left)
        return np.append(columns, COUNT_COLUMN) if self.has_neighbor_count[k][0 if forward else 1] else columns

    def _candidate_block(self, k: int) -> CandidateBlock:
        template, (left, right) = self.templates[k], self.ends[k]
        within = template.kind == "within"
        left_columns, right_columns = self._source_columns(k, template.symmetric), self._source_columns(k, True)
        views = {view.forward: view for view in self.neighbor_views if view.template == k}

        def side(table: int, columns: Array, forward: bool) -> Side:
            view = views.get(forward or template.symmetric)
            neighbors = np.empty(0, dtype=np.int64) if view is None else np.arange(view.start, view.stop)
            states = int(((columns < self.schemas[table].n_target_columns) & (columns != COUNT_COLUMN)).sum())
            classes = classes_of(self.schemas[table], columns)
            return Side(table, columns, states, left_columns if within else neighbors, classes)

        sides = side(left, left_columns, False), side(right, right_columns, True)
        mirrored = within or template.symmetric
        return CandidateBlock(k, *sides, mirrored=mirrored, within=within, target_factor=self.target_factor)


def are_valid_pairs(layout: Layout, pairs: Array) -> bool:
    """Return whether every pair is a target state and a column that a template pairs with it, as kernels assume."""
    if (pairs < 0).any() or (pairs >= layout.n_columns).any():
        return False
    a, b = pairs[:, 0], pairs[:, 1]
    table, views = layout.table_of_column[a], layout.view_of_column[b]
    if (layout.target_of_column[a] < 0).any() or (table != layout.table_of_column[b]).any():
        return False
    if not np.isfinite(layout.feature_factors(pairs)).all():
        return False
    paths, n_valid = pairs[views == PATH_VIEW], 0
    for view in layout.path_views:
        start = layout.column_starts[view.table]
        here = paths[(paths[:, 1] >= start + view.start) & (paths[:, 1] < start + view.stop)]
        own = np.isin(here[:, 0] - start, view.columns) & view.are_features(*layout.path_members(view, here))
        n_valid += np.count_nonzero(own) if view.side == 0 else 0
    if n_valid < len(paths):
        return False
    for k in np.unique(table):
        start, schema = layout.column_starts[k], layout.schemas[k]
        own = (table == k) & (views == -1)
        owner = schema.variable_of_column
        if (owner[a[own] - start] == owner[b[own] - start]).any() or (own.any() and k not in _within_tables(layout)):
            return False
    for k in np.unique(views[views >= 0]):
        view = layout.neighbor_views[k]
        template = layout.templates[view.template]
        mine = layout.paired_columns(view.target_table, template.left if view.forward else template.right)
        if not np.isin(a[views == k] - layout.column_starts[view.target_table], mine).all():
            return False
    return True


def are_valid_conjunctions(layout: Layout, conjunctions: Array) -> bool:
    """Return whether features of three columns and more are valid.

    Each needs ascending own columns of one table and of different variables, a target state first, padded with -1.
    """
    if conjunctions.ndim != 2 or conjunctions.shape[1] < 3 or (conjunctions >= layout.n_columns).any():
        return False
    named = conjunctions >= 0
    if not named[:, :3].all() or (conjunctions < -1).any() or (named[:, 1:] & ~named[:, :-1]).any():
        return False
    first_is_state = layout.target_of_column[conjunctions[:, 0]] >= 0
    if not first_is_state.all() or (layout.view_of_column[conjunctions][named] != -1).any():
        return False
    table = layout.table_of_column[conjunctions]
    if ((table != table[:, :1]) & named).any() or not _within_tables(layout).issuperset(table[named].tolist()):
        return False
    owner = layout.variable_of_own_column[conjunctions]
    rising = np.diff(conjunctions, axis=1) > 0
    apart = np.diff(owner, axis=1) != 0  # columns of one variable are adjacent
    return bool((rising & apart | ~named[:, 1:]).all())


def _within_tables(layout: Layout) -> set[int]:
    """Return the numbers of the tables whose columns are paired within a row."""
    return {block.left.table for block in layout.candidate_blocks if block.within}
