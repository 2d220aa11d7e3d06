"""This module lets a page set values of a row of one table, or of an entity of linked tables and those around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import quote, unquote

import numpy as np

from sparsefield.analysis.network import Network, variable_at
from sparsefield.app.pages.explorer.cell_beliefs import TableBeliefs, missing_beliefs
from sparsefield.app.pages.explorer.conditional_beliefs import (
    BeliefChange,
    BeliefChanges,
    ConditionalBeliefs,
    belief_change,
    collect_warnings,
    with_method,
)
from sparsefield.app.pages.explorer.data_shares import DataShares, StateShares, training_shares
from sparsefield.app.pages.explorer.table_rows import TableRows, cell_number
from sparsefield.data.schema import Variable
from sparsefield.errors import DataError
from sparsefield.estimators.compiled_rows import compile_densely

UNKNOWN = "unknown"
"""The value of a cell of linked tables that is treated as missing although the data have it."""

MAX_LINKED = 40
"""Linked entities whose cells can be set."""

KEPT_ANSWERS = 8

Evidence = Mapping[str, Any]
"""{key of a cell: position of its state, or number}; None where no value is chosen yet."""

Shares = Callable[[BeliefChange], StateShares | None]


@dataclass(frozen=True)
class RowKey:
    """The table and the number of a row."""

    table: str
    row: int


class EvidenceSource(Protocol):
    """Cells that can be set, and the beliefs that follow."""

    @property
    def can_unset(self) -> bool:
        """Whether a cell can be set to `UNKNOWN`."""
        ...

    def options(self, text: str, skip: Sequence[str], entity: RowKey | None, limit: int) -> list[tuple[str, str]]:
        """Return (key, label) of the cells that can be set, whose label contains a text."""
        ...

    def variable(self, key: str) -> Variable | None:
        """Return the variable of a cell; None if there is no such cell."""
        ...

    def label(self, key: str) -> str:
        """Return the name of a cell."""
        ...

    def node(self, key: str) -> int:
        """Return the node of a cell's variable in the network."""
        ...

    def compare(self, evidence: Evidence, entity: RowKey | None, method: str) -> BeliefChanges:
        """Return the beliefs before and after evidence."""
        ...

    def shares(self, evidence: Evidence) -> Shares:
        """Return a function that counts the states of a variable in the data under the same evidence."""
        ...


def chosen_values(evidence: Evidence) -> dict[str, Any]:
    """Return the evidence without cells for which no value is chosen yet."""
    return {key: value for key, value in evidence.items() if value is not None}


@dataclass(frozen=True)
class PlainEvidence:
    """Cells of a row of one table; the key of a cell is the node of its variable."""

    network: Network
    beliefs: ConditionalBeliefs
    data: DataShares | None
    can_unset = False

    def options(self, text: str, skip: Sequence[str], entity: RowKey | None, limit: int) -> list[tuple[str, str]]:
        found = self.network.find(text, limit + len(skip))
        return [(str(k), self.network.labels[k]) for k in found if str(k) not in skip][:limit]

    def variable(self, key: str) -> Variable | None:
        return self.network.variable(int(key))

    def label(self, key: str) -> str:
        return self.network.labels[int(key)]

    def node(self, key: str) -> int:
        return int(key)

    def compare(self, evidence: Evidence, entity: RowKey | None, method: str) -> BeliefChanges:
        return self.beliefs.compare(self._values(evidence), method)

    def shares(self, evidence: Evidence) -> Shares:
        values = self._values(evidence)
        if self.data is None:
            return lambda change: None if values else training_shares(self._named(change.name))
        data, rows = self.data, self.data.matching(values)
        return lambda change: data.shares(change.name, rows)

    def _named(self, name: str) -> Variable:
        return variable_at(self.beliefs.schema, self.beliefs.schema.index_of_name[name])

    def _values(self, evidence: Evidence) -> dict[str, Any]:
        """Return {variable: value} of the cells for which a value is chosen."""
        found = {}
        for key, value in chosen_values(evidence).items():
            variable = self.variable(key)
            assert variable is not None
            found[variable.name] = _value(variable, value)
        return found


class LinkedEvidence:
    """Cells of an entity of linked tables and of those that it is linked with; keys are ``table/row/column``."""

    can_unset = True

    def __init__(self, network: Network, rows: TableRows, data: Mapping[str, DataShares]) -> None:
        self.network, self.rows, self.data = network, rows, data
        self._answer = lru_cache(KEPT_ANSWERS)(self._infer)

    def options(self, text: str, skip: Sequence[str], entity: RowKey | None, limit: int) -> list[tuple[str, str]]:
        found, text = [], text.strip().lower()
        for key in self._keys(entity) if entity else ():
            label = self.label(key)
            if key not in skip and text in label.lower():
                found.append((key, label))
                if len(found) == limit:
                    break
        return found

    def variable(self, key: str) -> Variable | None:
        entity, name = split_key(key)
        schema = self.rows.schemas.get(entity.table)
        if schema is None or name not in schema.index_of_name or not self._has(entity):
            return None
        return variable_at(schema, schema.index_of_name[name])

    def label(self, key: str) -> str:
        entity, name = split_key(key)
        return f"{entity.table} {self.rows.row_name(entity.table, entity.row)}: {name}"

    def node(self, key: str) -> int:
        entity, name = split_key(key)
        return self.network.number(name, entity.table)

    def compare(self, evidence: Evidence, entity: RowKey | None, method: str) -> BeliefChanges:
        if entity is None or not self._has(entity):
            return BeliefChanges([])
        values, accepted = tuple(chosen_values(evidence).items()), tuple(self.rows.accepted.values())
        (before, warned), (after, more) = self._answer(method, (), accepted), self._answer(method, values, accepted)
        known, found = dict(values), []
        for key in self._keys(entity):
            cell, name = split_key(key)
            variable = self.variable(key)
            is_unset = known.get(key) == UNKNOWN
            if variable is None or variable.role != "target":
                continue
            if is_unset or (key not in known and self.rows.is_missing(cell.table, cell.row, name)):
                new = after.values[cell.table][name][cell.row]
                old = new if is_unset else before.values[cell.table][name][cell.row]
                found.append(belief_change(variable, old, new, cell.table, cell.row))
        found.sort(key=lambda change: (change.table != entity.table or change.row != entity.row, -change.distance))
        return BeliefChanges(found, before.methods | after.methods, tuple(dict.fromkeys((*warned, *more))))

    def shares(self, evidence: Evidence) -> Shares:
        def count(change: BeliefChange) -> StateShares | None:
            data = self.data.get(change.table)
            return None if data is None else data.shares(change.name, np.ones(data.known.height, dtype=bool))

        return count

    def linked_entities(self, entity: RowKey) -> list[RowKey]:
        """Return the entities that share a link with one, or are joined with it by rows without variables."""
        data = self.rows.data
        assert data is not None
        found: dict[RowKey, None] = {}
        joined, frontier = {entity}, [entity]
        while frontier and len(found) < MAX_LINKED:
            current = frontier.pop(0)
            for other in _neighbors(data, current):
                if other in joined:
                    continue
                joined.add(other)
                if other.table in self.rows.schemas and data.variables(other.table):
                    found[other] = None
                else:
                    frontier.append(other)
        return list(found)[:MAX_LINKED]

    def _has(self, entity: RowKey) -> bool:
        return entity.table in self.rows.tables and 0 <= entity.row < self.rows.tables[entity.table].n_rows

    def _keys(self, entity: RowKey) -> Iterator[str]:
        if self._has(entity):
            for one in (entity, *self.linked_entities(entity)):
                for name in self.rows.schemas[one.table].input_names:
                    yield cell_key(one.table, one.row, name)

    def _infer(self, method: str, values: tuple[Any, ...], _: Any) -> tuple[TableBeliefs, tuple[str, ...]]:
        changes = []
        for key, value in values:
            entity, name = split_key(key)
            variable = self.variable(key)
            assert variable is not None
            changes.append((entity.table, entity.row, name, _value(variable, value)))
        model = with_method(self.rows.model, method)
        with collect_warnings() as lines:
            found = missing_beliefs(model, compile_densely(model, self.rows.data_with(changes)))
        return found, tuple(lines)


def _value(variable: Variable, value: Any) -> Any:
    """Return the value of a cell from the position of a state, or a number or date; None if it is unknown."""
    if value == UNKNOWN:
        return None
    if not variable.numeric:
        return variable.states[int(value)]
    try:
        return cell_number(variable, value)
    except DataError:
        raise
    except ValueError:
        raise DataError(f"Column {variable.name!r} is numeric: {value!r} is no number.") from None


def cell_key(table: str, row: int, name: str) -> str:
    """Return the key of a cell of linked tables."""
    return f"{quote(table, safe='')}/{row}/{name}"


def split_key(key: str) -> tuple[RowKey, str]:
    """Return the entity and the column of a cell of linked tables."""
    table, row, name = key.split("/", 2)
    return RowKey(unquote(table), int(row)), name


def _neighbors(data: Any, entity: RowKey) -> Iterator[RowKey]:
    """Return the entities at the other ends of all links of one."""
    for name, link in data.links.items():
        here, there = data.linked_rows(name)
        if link.table == entity.table:
            yield from (RowKey(link.to, int(row)) for row in there[here == entity.row])
        if link.to == entity.table:
            yield from (RowKey(link.table, int(row)) for row in here[there == entity.row])
