"""This module holds what a page explores: a model, its network, and the data that were given with it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparsefield.errors import DataError
from sparsefield.estimators import CRFClassifier, MarkovField, RelationalField
from sparsefield.viz.explorer.conditional_beliefs import BeliefChange, ConditionalBeliefs
from sparsefield.viz.explorer.table_rows import TableRows
from sparsefield.viz.fit_summary import count
from sparsefield.viz.network import Network

FULL_COLOR_DISTANCE = 0.25
"""Smallest distance between two beliefs at which a node may have its full color."""


@dataclass
class Session:
    """One model on one page.

    The server runs in threads, while inference and acceptance of values are not thread-safe: ``lock`` guards them.
    """

    name: str
    model: Any
    network: Network
    beliefs: ConditionalBeliefs | None
    """None for linked tables, where beliefs about a row depend on the rows that it is linked with."""
    rows: TableRows | None
    """None where no data were given."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def summary(self) -> str:
        """The line below the title."""
        kind = "classifier, " if isinstance(self.model, CRFClassifier) else ""
        linked = f"{len(self.model.field_.layout.tables):,} linked tables, " if self.network.linked else ""
        size = f"{count(self.network.n_variables, 'variable')}, {count(len(self.network.strengths), 'edge')}"
        n_rows = sum(table.n_rows for table in self.rows.tables.values()) if self.rows else 0
        return f"{kind}{linked}{size}" + (f"; {count(n_rows, 'row')} of data" if self.rows else "")

    def _evidence_values(self, evidence: Mapping[Any, Any]) -> dict[str, Any]:
        """Return {variable: value} from {node: position of the state, or number}; the page has nodes as text."""
        found = {}
        for node, value in evidence.items():
            variable = self.network.variable(int(node))
            assert variable is not None
            found[variable.name] = float(value) if variable.numeric else variable.states[int(value)]
        return found

    def compare(self, evidence: Mapping[Any, Any], method: str) -> tuple[list[BeliefChange], tuple[str, ...]]:
        """Return the changes that evidence makes, largest first, and warnings; the error where a method refuses."""
        assert self.beliefs is not None
        try:
            with self.lock:
                return self.beliefs.compare(self._evidence_values(evidence), method)
        except DataError as error:
            return [], (str(error),)

    def node_colors(self, changes: list[BeliefChange], min_distance: float = 0.005) -> dict[int, tuple[int, float]]:
        """Return {node: (direction, amount)} for the picture; the direction is that of the non-reference state of
        two states, or of ordered states on average.

        Amounts are relative to the largest change, so that small changes are visible.
        """
        found = {}
        largest = max([FULL_COLOR_DISTANCE, *(change.distance for change in changes[:1])])
        for change in changes:
            if change.distance < min_distance:
                break
            node = self.network.number(change.name)
            variable = self.network.variable(node)
            direction = change.direction
            if variable is not None and len(variable.states) == 2:
                direction = 1 if change.after[1 - variable.reference] > change.before[1 - variable.reference] else -1
            found[node] = direction, change.distance / largest
        return found


def open_session(name: str, model: Any, rows: TableRows | None = None) -> Session:
    """Return the session of a model; other objects are refused."""
    if not isinstance(model, (MarkovField, CRFClassifier, RelationalField)):
        raise DataError(f"{name}: holds a {type(model).__name__}, which cannot be explored.")
    beliefs = None if isinstance(model, RelationalField) else ConditionalBeliefs(model)
    return Session(name, model, Network(model.field_), beliefs, rows)
