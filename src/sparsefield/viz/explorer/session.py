"""What is explored: a model, its network, and the data that were given with it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparsefield.errors import DataError
from sparsefield.estimators import CRFClassifier, MarkovField, RelationalField
from sparsefield.viz.explorer.conditional_beliefs import Asker, Change, changes
from sparsefield.viz.explorer.subgraph import Network
from sparsefield.viz.explorer.table_rows import Rows

__all__ = ["Subject", "make_subject"]


FULL_TINT = 0.25
"""A box is filled with all of its color from this move on, at the least."""


@dataclass
class Subject:
    """One model on one page.

    The server answers in threads, while inference and what was accepted are for one at a time: ``lock`` sees to it.
    """

    name: str
    model: Any
    network: Network
    asker: Asker | None
    """None for linked tables: a row of theirs is nothing without the rows that it is linked with."""
    rows: Rows | None
    """None where no data were given."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def words(self) -> str:
        """The line below the title."""
        linked = f"{len(self.model.field_.layout.tables):,} linked tables, " if self.network.linked else ""
        kind = "classifier, " if isinstance(self.model, CRFClassifier) else ""
        words = f"{kind}{linked}{self.network.n_variables:,} variables, {self.network.n_edges:,} links"
        if self.rows is None:
            return words
        n_rows = sum(given.n_rows for given in self.rows.tables.values())
        return f"{words}; {n_rows:,} rows of data"

    def given(self, evidence: Mapping[int, Any]) -> dict[str, Any]:
        """{variable: value} from {node: place of the state, or number}."""
        found = {}
        for node, value in evidence.items():
            variable = self.network.variable(node)
            found[variable.name] = float(value) if variable.numeric else variable.states[int(value)]
        return found

    def changes(self, evidence: Mapping[int, Any], method: str) -> tuple[list[Change], tuple[str, ...]]:
        """What evidence moves, most first; where a method refuses, nothing, and its words as a note."""
        assert self.asker is not None
        try:
            with self.lock:
                return changes(self.asker, self.given(evidence), method)
        except DataError as error:
            return [], (str(error),)

    def moved(self, found: list[Change], least: float = 0.005) -> dict[int, tuple[int, float]]:
        """{node: (direction, by how much)} for the picture; a direction is that of the state which is not the base.

        What moves most counts as 1, or small moves could not be told from none.
        """
        moves, most = {}, max([FULL_TINT, *(change.moved for change in found[:1])])
        for change in found:
            if change.moved < least:
                break
            node = self.network.number(change.name)
            variable = self.network.variable(node)
            direction = 0
            if len(variable.states) == 2:
                on = 1 - variable.base
                direction = 1 if change.after[on] > change.before[on] else -1
            moves[node] = direction, change.moved / most
        return moves


def make_subject(name: str, model: Any, rows: Rows | None = None) -> Subject:
    """Look at a model; the kinds that cannot be explored are refused."""
    if not isinstance(model, (MarkovField, CRFClassifier, RelationalField)):
        raise DataError(f"{name}: holds a {type(model).__name__}, which cannot be explored.")
    asker = None if isinstance(model, RelationalField) else Asker(model)
    return Subject(name, model, Network(model.field_), asker, rows)
