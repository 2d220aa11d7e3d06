"""A slow, obvious field over linked tables: dicts of names, lists of pairs of rows, plain loops and enumeration.

It shares nothing with the library's numbering: a *spot* is (table, row, variable, state), a feature is named by its
template and its two (table, variable, state), and which rows touch is found by looking at all pairs of rows. Only what
a column was learned to be (states, base, frequencies, centre and scale) is taken from the library.

The number of neighbors of a row is the sum of 1 over them: every row has one more entry, NEIGHBOR_COUNT, which is
always 1, and a feature of a state and the number of its neighbors is a feature of that state and their NEIGHBOR_COUNT.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from plain import learn_plain_schema

from sparsefield.data import (
    NEIGHBOR_COUNT,
    Dataset,
    ForeignKey,
    Layout,
    OffsetLink,
    Relational,
    Schema,
    compile_table,
    resolve_templates,
    row_pairs,
    template_ends,
)
from sparsefield.induction import all_pairs
from sparsefield.inference import state_probabilities
from sparsefield.model import Field

# -- which rows touch, by looking at all pairs of rows -----------------------------------------------------------------


def linked(data: Relational, rows: dict[str, list[dict]], name: str, i: int, j: int) -> bool:
    """Whether row i of the table that a link starts from is linked to row j of the one it leads to."""
    link = data.links[name]
    if isinstance(link, ForeignKey):
        wanted = rows[link.table][i][link.column]
        return wanted is not None and rows[link.to][j][data.keys[link.to]] == wanted
    assert isinstance(link, OffsetLink)
    one, other = rows[link.table][i], rows[link.table][j]
    if any(one[column] != other[column] for column in link.within):
        return False

    def place(row: int) -> int:
        if link.along is not None:
            return rows[link.table][row][link.along]
        mine = [rows[link.table][row][column] for column in link.within]
        return sum([r[column] for column in link.within] == mine for r in rows[link.table][:row])

    return place(j) == place(i) + link.by


def touching_rows(data: Relational, rows: dict[str, list[dict]], template) -> list[tuple[int, int]]:
    """Pairs of rows of a template's two ends; of a symmetric template each pair once, the lower row first."""
    if template.kind == "within":
        return [(i, i) for i in range(len(rows[template.names[0]]))]
    one, other = template.names[0], template.names[-1]
    left, right = ends_of(data, template)
    start, end, start2, end2 = data.links[one].table, data.links[one].to, data.links[other].table, data.links[other].to

    links = {}
    for name in {one, other}:
        places = itertools.product(range(len(rows[data.links[name].table])), range(len(rows[data.links[name].to])))
        links[name] = {(i, j) for i, j in places if linked(data, rows, name, i, j)}
    a, b = links[one], links[other]

    found: list[tuple[int, int]] = []
    for i, j in itertools.product(range(len(rows[left])), range(len(rows[right]))):
        if template.kind == "across":
            count = int((i, j) in a)
        elif template.kind == "joined":
            count = int(any((k, i) in a and (k, j) in b for k in range(len(rows[start]))))
        elif template.kind == "shared":
            count = sum((i, k) in a and (j, k) in b for k in range(len(rows[end])))
        else:
            hubs = itertools.product(range(len(rows[end])), range(len(rows[end2])))
            count = sum((i, n) in a and (i, m) in b and (j, m) in a and (j, n) in b for n, m in hubs)
        found += [(i, j)] * count
    assert start2 == start or template.kind == "shared"
    if left == right:
        found = [(i, j) for i, j in found if i != j]
    if template.symmetric:
        found = sorted({(min(i, j), max(i, j)) for i, j in found})
    return found


def ends_of(data: Relational, template) -> tuple[str, str]:
    if template.kind == "within":
        return template.names[0], template.names[0]
    one, other = data.links[template.names[0]], data.links[template.names[-1]]
    if template.kind == "across":
        return one.table, one.to
    return (one.to, other.to) if template.kind == "joined" else (one.table, other.table)


def neighbors_differ(data: Relational, rows: dict[str, list[dict]], templates) -> Counted:
    """The ends of templates at which some rows have more neighbors than others."""
    found = set()
    for template in templates:
        if template.kind == "within":
            continue
        touch = touching_rows(data, rows, template)
        if template.symmetric:
            touch = touch + [(j, i) for i, j in touch]
        left, right = ends_of(data, template)
        if len({sum(i == row for i, _ in touch) for row in range(len(rows[left]))}) > 1:
            found.add((template.label, "left"))
        if len({sum(j == row for _, j in touch) for row in range(len(rows[right]))}) > 1:
            found.add((template.label, "right"))
    return frozenset(found)


def ends_counted(which: str, data: Relational, rows: dict[str, list[dict]], seed: int = 0) -> Counted:
    """Ends where the number of neighbors is seen: where it "differs", "any" at random, at "every" one, or at "no"."""
    templates = resolve_templates(data)
    if which == "differs":
        return neighbors_differ(data, rows, templates)
    rng, found = np.random.default_rng(seed), set()
    for template in templates:
        for side in ("left", "right"):
            wanted = which == "every" or (which == "any" and rng.random() < 0.5)
            if wanted and template.kind != "within":
                # Both ends of a symmetric template are one.
                found |= {(template.label, s) for s in (("left", "right") if template.symmetric else (side,))}
    return frozenset(found)


# -- the field ---------------------------------------------------------------------------------------------------------

Spot = tuple[str, int, str, Any]
Cell = tuple[str, int, str]
Name = tuple[str, tuple[str, str, Any], tuple[str, str, Any]]
Counted = frozenset[tuple[str, str]]
"""Labels of templates, and the end, "left" or "right", whose rows see how many neighbors they have."""


@dataclass
class SlowRelational:
    """Linked tables, a field over them, and beliefs q in every spot.

    ``biases`` is by (table, variable, state), ``weights`` by the names of features; what is not there weighs nothing.
    """

    data: Relational
    rows: dict[str, list[dict]]
    variables: dict[str, dict[str, Any]]
    templates: tuple
    counted: Counted
    biases: dict[tuple[str, str, Any], float] = field(default_factory=dict)
    weights: dict[Name, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pairs = {t.label: touching_rows(self.data, self.rows, t) for t in self.templates}
        self.candidates = [name for t in self.templates for name in self._candidates_of(t)]
        self.spots_of = {name: list(self._terms(name)) for name in self.candidates}
        self.touching: dict[Spot, list[tuple[Name, Spot]]] = {}
        for name, terms in self.spots_of.items():
            for a, b in terms:
                self.touching.setdefault(a, []).append((name, b))
                self.touching.setdefault(b, []).append((name, a))
        self.q = self._first_beliefs()

    # -- names ---------------------------------------------------------------------------------------------------------

    def is_target(self, table: str, variable: str) -> bool:
        return variable != NEIGHBOR_COUNT and variable not in self.data.observed.get(table, ())

    def states(self, table: str, variable: str) -> list:
        """States that carry a weight: all but the base; a number has one place, None."""
        learned = self.variables[table][variable]
        if learned.numeric:
            return [None]
        return [state for k, state in enumerate(learned.states) if k != learned.reference]

    def base(self, table: str, variable: str) -> Any:
        learned = self.variables[table][variable]
        return learned.states[learned.reference]

    def cells(self) -> list[Cell]:
        """Target cells, table by table, row by row, variable by variable."""
        return [
            (table, i, variable)
            for table, learned in self.variables.items()
            for i in range(len(self.rows[table]))
            for variable in learned
            if self.is_target(table, variable)
        ]

    def value(self, cell: Cell) -> Any:
        table, i, variable = cell
        return self.rows[table][i][variable]

    def _candidates_of(self, template) -> list[Name]:
        left, right = ends_of(self.data, template)

        def side(table: str, wanted) -> list[tuple[str, str, Any]]:
            return [
                (table, variable, state)
                for variable in self.variables[table]
                if wanted is None or variable in wanted
                for state in self.states(table, variable)
            ]

        meet = list(itertools.product(side(left, template.left), side(right, template.right)))
        if (template.label, "left") in self.counted:
            meet += [(a, (right, NEIGHBOR_COUNT, None)) for a in side(left, template.left)]
        if (template.label, "right") in self.counted:
            meet += [((left, NEIGHBOR_COUNT, None), b) for b in side(right, template.right)]
        found = []
        for a, b in meet:
            if not (self.is_target(*a[:2]) or self.is_target(*b[:2])):
                continue
            if template.kind == "within" and a[:2] == b[:2]:
                continue
            name = self.named(template, a, b)
            if name not in found:
                found.append(name)
        return found

    def named(self, template, a, b) -> Name:
        """A feature's name; where both directions count the same, the ends come in one order."""
        if template.kind == "within" or template.symmetric:
            a, b = sorted((a, b), key=repr)
        return template.label, a, b

    def _terms(self, name: Name) -> list[tuple[Spot, Spot]]:
        """The pairs of spots whose beliefs are multiplied and added up to a feature's value."""
        label, (table_a, variable_a, state_a), (table_b, variable_b, state_b) = name
        (template,) = [t for t in self.templates if t.label == label]
        for i, j in self.pairs[label]:
            yield (table_a, i, variable_a, state_a), (table_b, j, variable_b, state_b)
            if template.symmetric and name[1] != name[2]:
                yield (table_a, j, variable_a, state_a), (table_b, i, variable_b, state_b)

    # -- beliefs -------------------------------------------------------------------------------------------------------

    def _first_beliefs(self) -> dict[Spot, float]:
        """One-hot where seen, training frequencies in gaps, standardized numbers."""
        q = {}
        for table, learned in self.variables.items():
            for i, row in enumerate(self.rows[table]):
                q[table, i, NEIGHBOR_COUNT, None] = 1.0
                for name, variable in learned.items():
                    value = row[name]
                    for state in self.states(table, name):
                        if variable.numeric:
                            belief = 0.0 if value is None else (value - variable.center) / variable.scale
                        elif value is None:
                            belief = variable.frequencies[variable.states.index(state)]
                        else:
                            belief = float(value == state)
                        q[table, i, name, state] = belief
        return q

    def is_missing(self, cell: Cell) -> bool:
        return self.value(cell) is None

    def put(self, q: dict[Spot, float], cell: Cell, belief: dict[Any, float]) -> None:
        for state in self.states(cell[0], cell[2]):
            q[(*cell, state)] = belief[state]

    def one_hot(self, assignment: dict[Cell, Any]) -> dict[Spot, float]:
        """Beliefs under an assignment of states to some cells; the rest as they are."""
        q = dict(self.q)
        for cell, value in assignment.items():
            for state in self.states(cell[0], cell[2]):
                q[(*cell, state)] = float(value == state)
        return q

    # -- exact answers, by enumeration ---------------------------------------------------------------------------------

    def log_potential(self, q: dict[Spot, float]) -> float:
        total = 0.0
        for table, i, variable in self.cells():
            for state in self.states(table, variable):
                total += self.biases.get((table, variable, state), 0.0) * q[table, i, variable, state]
        for name, weight in self.weights.items():
            for a, b in self.spots_of[name]:
                total += weight * q[a] * q[b]
        return total

    def joint(self, hidden: list[Cell]) -> dict[tuple, float]:
        """Probability of every assignment of the hidden cells, given everything else."""
        choices = [self.variables[table][variable].states for table, _, variable in hidden]
        ways = list(itertools.product(*choices))
        logs = [self.log_potential(self.one_hot(dict(zip(hidden, way, strict=True)))) for way in ways]
        top = max(logs)
        total = sum(math.exp(x - top) for x in logs)
        return {way: math.exp(x - top) / total for way, x in zip(ways, logs, strict=True)}

    def marginals(self, hidden: list[Cell]) -> dict[Cell, dict[Any, float]]:
        found = {cell: dict.fromkeys(self.variables[cell[0]][cell[2]].states, 0.0) for cell in hidden}
        for way, p in self.joint(hidden).items():
            for cell, state in zip(hidden, way, strict=True):
                found[cell][state] += p
        return found

    def observed_given_observed(self) -> dict[Cell, dict[Any, float]]:
        """Probability of every state of an observed cell given all other observed cells.

        For each completion of the missing cells, the joint probability with another state of the cell is that with
        the observed one times the ratio of the two in the conditional distribution of the cell.
        """
        hidden = [cell for cell in self.cells() if self.is_missing(cell)]
        seen = [cell for cell in self.cells() if not self.is_missing(cell)]
        found = {cell: dict.fromkeys(self.variables[cell[0]][cell[2]].states, 0.0) for cell in seen}
        for way, p in self.joint(hidden).items():
            q = self.one_hot(dict(zip(hidden, way, strict=True)))
            for cell in seen:
                new = self.update(cell, q)
                for state, share in new.items():
                    found[cell][state] += p * share / new[self.value(cell)]
        return {c: {s: p / sum(states.values()) for s, p in states.items()} for c, states in found.items()}

    # -- one update, and what is made of it ----------------------------------------------------------------------------

    def update(self, cell: Cell, q: dict[Spot, float]) -> dict[Any, float]:
        """Belief in each state of a cell, base included, given the beliefs in everything else (Eq. 3)."""
        table, _, variable = cell
        z = {self.base(table, variable): 0.0}
        for state in self.states(table, variable):
            z[state] = self.biases.get((table, variable, state), 0.0)
            for name, other in self.touching.get((*cell, state), ()):
                z[state] += self.weights.get(name, 0.0) * q[other]
        top = max(z.values())
        total = sum(math.exp(x - top) for x in z.values())
        return {state: math.exp(x - top) / total for state, x in z.items()}

    def components(self) -> dict[tuple[str, int], int]:
        """A number for each set of entities that touch, at first hand or over others."""
        entities = [(table, i) for table, part in self.rows.items() for i in range(len(part))]
        circle = {entity: k for k, entity in enumerate(entities)}
        for spot, others in self.touching.items():
            for _, other in others:
                one, two = circle[spot[:2]], circle[other[:2]]
                circle = {entity: one if k == two else k for entity, k in circle.items()}
        return circle

    def mean_field(self, tolerance: float, max_sweeps: int = 500) -> tuple[dict, int]:
        """Beliefs, and rounds made: entity by entity, variable by variable, until no belief moves by more.

        Rows that touch go on together; what other rows do never matters to them.
        """
        q = dict(self.q)
        missing: dict[tuple[str, int], list[Cell]] = {}
        for cell in self.cells():
            if self.is_missing(cell):
                missing.setdefault(cell[:2], []).append(cell)
        circle = self.components()
        moving = {circle[entity] for entity in missing}
        for sweep in range(1, max_sweeps + 1):
            moved = set()
            for entity, cells in missing.items():
                if circle[entity] not in moving:
                    continue
                for cell in cells:
                    new, changes = self.update(cell, q), []
                    for state in self.states(cell[0], cell[2]):
                        spot = (*cell, state)
                        belief = new[state]
                        changes.append(belief - q[spot])
                        q[spot] = belief
                    changes.append(sum(changes))  # of the reference state, with the opposite sign
                    if max(map(abs, changes)) > tolerance:
                        moved.add(circle[entity])
            moving = moved
            if not moving:
                return q, sweep
        return q, max_sweeps

    # -- pseudo-likelihood ---------------------------------------------------------------------------------------------

    def pl_loss(self, q: dict[Spot, float]) -> float:
        """- sum over seen cells of ln p(cell | everything else)."""
        return -sum(math.log(self.update(c, q)[self.value(c)]) for c in self.cells() if not self.is_missing(c))

    def pl_gradient(self, q: dict[Spot, float]) -> tuple[dict, dict]:
        """By bias and by candidate: sums of error x belief at the other end."""
        errors = {}
        for cell in self.cells():
            new = self.update(cell, q)
            for state in self.states(cell[0], cell[2]):
                errors[(*cell, state)] = 0.0 if self.is_missing(cell) else new[state] - q[(*cell, state)]
        return self._gradient(errors, lambda name, spot: q[spot])

    # -- contrastive divergence: a row is a training instance, its neighbors stay at q0 -------------------------------

    def row_free_energy(self, table: str, row: int, q: dict[Spot, float]) -> float:
        """F of one row: - <log-potential of all that touches it> + sum q ln q, other rows at q0."""
        total = 0.0
        for variable in self.variables[table]:
            if self.is_target(table, variable):
                beliefs = [q[table, row, variable, state] for state in self.states(table, variable)]
                for p in [1.0 - sum(beliefs), *beliefs]:
                    total += p * math.log(p) if p > 1e-300 else 0.0
                for state, p in zip(self.states(table, variable), beliefs, strict=True):
                    total -= self.biases.get((table, variable, state), 0.0) * p
        for name, weight in self.weights.items():
            for a, b in self.spots_of[name]:
                if (table, row) in (a[:2], b[:2]):
                    one, other = (q[spot] if spot[:2] == (table, row) else self.q[spot] for spot in (a, b))
                    total -= weight * one * other
        return total

    def row_sweep(self, table: str, row: int) -> dict[Spot, float]:
        """q1: the targets of one row updated one after another, all else at q0."""
        q = dict(self.q)
        for variable in self.variables[table]:
            if self.is_target(table, variable):
                self.put(q, (table, row, variable), self.update((table, row, variable), q))
        return q

    def cd_loss(self) -> float:
        total = 0.0
        for table in self.variables:
            for row in range(len(self.rows[table])):
                q1 = self.row_sweep(table, row)
                total += self.row_free_energy(table, row, self.q) - self.row_free_energy(table, row, q1)
        return total

    def cd_gradient(self) -> tuple[dict, dict]:
        """error x (q0 + q1) / 2 within a row, error x q0 of the neighbor over links."""
        errors, expectations = {}, dict(self.q)
        for table in self.variables:
            for row in range(len(self.rows[table])):
                q1 = self.row_sweep(table, row)
                for spot in self.q:
                    if spot[:2] == (table, row) and self.is_target(table, spot[2]):
                        errors[spot] = q1[spot] - self.q[spot]
                        expectations[spot] = 0.5 * (q1[spot] + self.q[spot])
        return self._gradient(
            errors, lambda name, spot: expectations[spot] if name.startswith("within") else self.q[spot]
        )

    def _gradient(self, errors: dict[Spot, float], seen) -> tuple[dict, dict]:
        biases = {}
        for (table, _, variable, state), error in errors.items():
            biases[table, variable, state] = biases.get((table, variable, state), 0.0) + error
        pairs = {}
        for name, terms in self.spots_of.items():
            pairs[name] = 0.0
            for a, b in terms:
                pairs[name] += errors.get(a, 0.0) * seen(name[0], b) + errors.get(b, 0.0) * seen(name[0], a)
        return biases, pairs


# -- from the library's numbers to names, and back ---------------------------------------------------------------------


@dataclass
class Problem:
    """Linked tables with a random field over them, slow and compiled."""

    slow: SlowRelational
    sample: Dataset
    field: Field

    @property
    def layout(self) -> Layout:
        return self.sample.layout


def layout_of(data: Relational, templates=None, *, counted: Counted | None = None) -> Layout:
    """The numbers of everything; rows see how many neighbors they have where ``counted`` says, or where that differs.

    All pairs of rows are looked at to tell, unless it is given.
    """
    names = tuple(data.tables)
    templates = resolve_templates(data, templates)
    schemas = tuple(
        learn_plain_schema(data.select_variables(name), observed=data.observed.get(name, ())) for name in names
    )
    ends = tuple(tuple(map(names.index, ends_of(data, template))) for template in templates)
    for template, (left, right) in zip(templates, ends, strict=True):
        assert template.kind == "within" or template_ends(data.links, template) == (names[left], names[right])
    if counted is None:
        counted = neighbors_differ(data, rows_of(data), templates)
    flags = tuple(((t.label, "left") in counted, (t.label, "right") in counted) for t in templates)
    return Layout(names, schemas, templates, ends, flags)


def rows_of(data: Relational) -> dict[str, list[dict]]:
    """The tables, which are polars frames, as lists of rows."""
    return {name: table.to_dicts() for name, table in data.tables.items()}


def names_of(slow: SlowRelational, layout: Layout, pairs: np.ndarray) -> list[Name]:
    """The names of features given by numbers."""
    by_label = {template.label: template for template in slow.templates}
    found = []
    for a, b in pairs.tolist():
        name = layout.feature_name(a, b)
        found.append(slow.named(by_label[name.template], tuple(name[1:4]), tuple(name[4:7])))
    return found


def bias_names(layout: Layout) -> list[tuple[str, str, Any]]:
    """(table, variable, state) of every bias, in the library's order."""
    return [
        (table, *name)
        for table, schema in zip(layout.tables, layout.schemas, strict=True)
        for name in schema.column_names[: schema.n_target_columns]
    ]


def slow_over(
    data: Relational, rows: dict[str, list[dict]], layout: Layout, *, counted: Counted | None = None
) -> SlowRelational:
    """The slow field over some rows; ``counted`` must be given where they are not those that the field learned from.

    It does not look at what the layout says about that.
    """
    if counted is None:
        counted = neighbors_differ(data, rows, layout.templates)
    variables = {t: {v.name: v for v in s.variables} for t, s in zip(layout.tables, layout.schemas, strict=True)}
    return SlowRelational(data, rows, variables, layout.templates, counted)


def compiled(data: Relational, layout: Layout, slow: SlowRelational | None = None) -> Dataset:
    """The mega-sample; where ``slow`` is given, with its beliefs in the gaps."""
    tables = []
    for name, schema, width in zip(layout.tables, layout.schemas, layout.widths, strict=True):
        table = compile_table(data.select_variables(name), schema, width=int(width))
        for block in table.blocks if slow is not None else ():
            for k, (variable, state) in enumerate(schema.column_names[: schema.n_target_columns]):
                for i in range(block.n_rows):
                    block.beliefs[k, i] = slow.q[name, block.start + i, variable, state]
        tables.append(table)
    nothing = np.empty(0, dtype=np.int64)
    touch = [(nothing, nothing) if t.kind == "within" else row_pairs(data, t) for t in layout.templates]
    return Dataset.linked(layout, tables, touch).with_tables(tables)


def by_column(schema: Schema, probabilities: np.ndarray) -> list[tuple[str, Any, np.ndarray]]:
    """Return (variable, state, probabilities of the rows) of the states that have a column, in the paper's coding."""
    found = []
    for target, variable in enumerate(schema.targets):
        values = dict(zip(variable.states, state_probabilities(schema, target, probabilities).T, strict=True))
        found += [(variable.name, state, values[state]) for state in variable.column_labels]
    return found


def tell(slow: SlowRelational, fitted: Field) -> None:
    """Give the slow field the weights of a fast one."""
    slow.biases = dict(zip(bias_names(fitted.layout), fitted.biases.tolist(), strict=True))
    names = names_of(slow, fitted.layout, fitted.pairs)
    assert len(set(names)) == len(names)
    assert set(names) <= set(slow.candidates)
    slow.weights = dict(zip(names, fitted.weights.tolist(), strict=True))


def problem_of(
    data: Relational,
    rows: dict[str, list[dict]],
    seed: int,
    *,
    share: float = 0.6,
    size: float = 0.7,
    scatter: bool = True,
    layout: Layout | None = None,
    counted: Counted | None = None,
) -> Problem:
    """A random field over the tables; ``scatter`` puts random beliefs into the gaps."""
    rng = np.random.default_rng(seed)
    if counted is None:
        counted = neighbors_differ(data, rows, resolve_templates(data))
    layout = layout_of(data, counted=counted) if layout is None else layout
    slow = slow_over(data, rows, layout, counted=counted)
    if scatter:
        for cell in slow.cells():
            if slow.is_missing(cell):
                states = slow.variables[cell[0]][cell[2]].states
                slow.put(slow.q, cell, dict(zip(states, rng.dirichlet(np.ones(len(states))), strict=True)))
    fast = random_field(layout, rng, share, size)
    tell(slow, fast)
    return Problem(slow, compiled(data, layout, slow), fast)


def random_field(layout: Layout, rng: np.random.Generator, share: float = 0.6, size: float = 0.7) -> Field:
    candidates = all_pairs(layout)
    pairs = candidates[rng.random(len(candidates)) < share]
    return Field(
        layout, rng.normal(scale=size, size=layout.n_target_columns), pairs, rng.normal(scale=size, size=len(pairs))
    )
