"""This module holds what a page explores: a model, its network, and the data that were given with it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sparsefield.analysis.network import Network
from sparsefield.app.pages.explorer.community_bubbles import CommunityBubbles, find_bubbles
from sparsefield.app.pages.explorer.conditional_beliefs import BeliefChange, BeliefChanges, ConditionalBeliefs
from sparsefield.app.pages.explorer.data_shares import DataShares
from sparsefield.app.pages.explorer.evidence_sources import (
    Evidence,
    EvidenceSource,
    LinkedEvidence,
    PlainEvidence,
    RowKey,
)
from sparsefield.app.pages.explorer.pair_table import PairTable, make_pair_table
from sparsefield.app.pages.explorer.table_rows import TableRows
from sparsefield.errors import DataError
from sparsefield.estimators import CRFClassifier, MarkovField, RelationalField
from sparsefield.text import count

FULL_COLOR_DISTANCE = 0.25
"""Smallest distance between two beliefs at which a node may have its full color."""

NodeColors = dict[int, tuple[int, float]]
"""{node: (direction, amount)}"""


@dataclass
class Session:
    """One model on one page.

    The server runs in threads, while inference and acceptance of values are not thread-safe: ``lock`` guards them.
    """

    name: str
    model: Any
    network: Network
    evidence: EvidenceSource | None
    """None for linked tables without data, where there are no entities to set values of."""
    rows: TableRows | None
    """None where no data were given."""
    shares: dict[str, DataShares] = field(default_factory=dict)
    """States of each table of the data."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def summary(self) -> str:
        """The line below the title."""
        kind = "classifier, " if isinstance(self.model, CRFClassifier) else ""
        linked = f"{len(self.model.field_.layout.tables):,} linked tables, " if self.network.linked else ""
        size = f"{count(self.network.n_variables, 'variable')}, {count(len(self.network.strengths), 'edge')}"
        n_rows = sum(table.n_rows for table in self.rows.tables.values()) if self.rows else 0
        return f"{kind}{linked}{size}" + (f"; {count(n_rows, 'row')} of data" if self.rows else "")

    @cached_property
    def bubbles(self) -> CommunityBubbles | None:
        """The communities of a large network; None where it is small."""
        return find_bubbles(self.network)

    def pair_table(self, edge: int) -> PairTable | None:
        """Return the table of the states of the two columns of an edge."""
        return make_pair_table(self.network, edge, self.shares)

    def compare(self, evidence: Evidence, method: str, entity: RowKey | None = None) -> BeliefChanges:
        """Return the changes that evidence makes, largest first; the error where a method refuses is a warning."""
        assert self.evidence is not None
        try:
            with self.lock:
                return self.evidence.compare(evidence, entity, method)
        except DataError as error:
            return BeliefChanges([], warnings=(str(error),))

    def evidence_nodes(self, evidence: Evidence) -> list[int]:
        """Return the nodes of the variables that are set, or are about to be."""
        if self.evidence is None:
            return []
        return list(dict.fromkeys(self.evidence.node(key) for key in evidence))

    def node_colors(self, changes: list[BeliefChange], min_distance: float = 0.005) -> NodeColors:
        """Return {node: (direction, amount)} for the picture; the direction is that of the non-reference state of
        two states, or of ordered states on average.

        Amounts are relative to the largest change, so that small changes are visible.
        """
        found: NodeColors = {}
        largest = max([FULL_COLOR_DISTANCE, *(change.distance for change in changes)])
        for change in changes:
            if change.distance < min_distance:
                continue
            node = self.network.number(change.name, change.table)
            variable = self.network.variable(node)
            direction = change.direction
            if variable is not None and len(variable.states) == 2:
                direction = 1 if change.after[1 - variable.reference] > change.before[1 - variable.reference] else -1
            found.setdefault(node, (direction, change.distance / largest))
        return found


def open_session(name: str, model: Any, rows: TableRows | None = None) -> Session:
    """Return the session of a model; other objects are refused."""
    if not isinstance(model, (MarkovField, CRFClassifier, RelationalField)):
        raise DataError(f"{name}: holds a {type(model).__name__}, which cannot be explored.")
    network = Network(model.field_)
    shares = {}
    if rows is not None:
        shares = {table: DataShares(given.known, rows.schemas[table]) for table, given in rows.tables.items()}
    evidence: EvidenceSource | None = None
    if not isinstance(model, RelationalField):
        evidence = PlainEvidence(network, ConditionalBeliefs(model), shares.get(""))
    elif rows is not None:
        evidence = LinkedEvidence(network, rows, shares)
    return Session(name, model, network, evidence, rows, shares)
