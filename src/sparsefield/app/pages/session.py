"""What a served page asks: beliefs under evidence, and rows of the data."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from sparsefield.app.pages import cells
from sparsefield.app.pages.findings import linked_evidence
from sparsefield.app.pages.names import told_warnings
from sparsefield.app.pages.page import make_page
from sparsefield.data import Dataset, as_source, compile_table
from sparsefield.data.schema import Label, Variable
from sparsefield.data.table import Table
from sparsefield.errors import DataError, UnknownStateWarning
from sparsefield.estimators import CRFClassifier, MarkovField, RelationalField
from sparsefield.estimators.compiled_rows import compile_densely, compile_rows, infer_cells, infer_missing
from sparsefield.inference import BeliefPropagation, InferenceMethod

METHODS = {
    "auto": "automatic",
    "exact": "exact",
    "bp": "belief propagation",
    "gibbs": "Gibbs sampling",
    "mean-field": "mean field",
}
"""Inference methods and their names on the page."""

WIDE = 2_000
"""Columns above which belief propagation is the default: the automatic method draws long chains, which take minutes."""

WIDE_METHOD = BeliefPropagation(tolerance=1e-4)
"""A page shows a tenth of a percent."""

MAX_CHANGES, LEAST_CHANGE, MAX_FOUND, MAX_LINKED = 60, 0.005, 40, 8
"""Columns whose beliefs are sent, the smallest change that colors a column, rows of a search, and of a link."""


class Session:
    """One model, and the data that it may come with.

    The server runs in threads, while inference uses all cores: ``lock`` lets one question be answered at a time.
    """

    def __init__(self, name: str, model: Any, rows: cells.TableRows | None = None) -> None:
        if not isinstance(model, (MarkovField, CRFClassifier, RelationalField)):
            raise DataError(f"{name}: holds a {type(model).__name__}, which cannot be explored.")
        self.name, self.linked = name, isinstance(model, RelationalField)
        self.model: Any = model
        # A classifier predicts only labels; the same field over one table also takes labels as evidence.
        if isinstance(model, CRFClassifier):
            self.model = MarkovField.from_field(model.field_, inference=model.inference)
        self.rows = rows
        self.lock = threading.Lock()
        self._given = lru_cache(32)(self._infer_given)
        self._linked_cells = lru_cache(2)(
            lambda method: cells.table_beliefs(self._with_method(method), self._rows().data)
        )

    @property
    def default_method(self) -> str:
        """The method of inference that a page starts with."""
        wide = not self.linked and self.model.field_.schema.n_variables > WIDE
        return "bp" if wide else "auto"

    @cached_property
    def page(self) -> str:
        """The page, which is made at the first request."""
        layout, columns = self.model.field_.layout, {}
        for table, schema in zip(layout.tables, layout.schemas, strict=True):
            for variable in (cells.find_variable(schema, name) for name in schema.order if not table):
                columns[variable.name] = None if variable.numeric else [str(state) for state in variable.states]
        tables = {} if self.rows is None else self.rows.tables
        server = {
            "methods": list(METHODS.items()),
            "method": self.default_method,
            "tables": [[name, table.cells.height] for name, table in tables.items()],
            "linked": self.linked,
            "columns": columns,
        }
        data = None if self.rows is None else self.rows.data if self.linked else self.rows.tables[""].table
        return make_page(self.model, data, title=self.name, server=server)

    @cached_property
    def _shares(self) -> cells.DataShares | None:
        """States of the only table of the data."""
        if self.rows is None:
            return None
        with collect_warnings():
            return cells.DataShares(compile_densely(self.model, self.rows.tables[""].table).tables[0])

    # -- beliefs under evidence --------------------------------------------------------------------------------------

    def beliefs(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the beliefs before and after evidence, the largest changes first.

        A request has ``set`` {column: text}, ``method``, and ``filter``, which labels contain.
        """
        given, method, wanted = request.get("set", {}), self._method(request), str(request.get("filter", "")).lower()
        if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
            raise DataError("'set' of a request has a text for each column.")
        if self.linked:
            raise DataError("Values can be set where the model is over one table.")
        with self.lock:
            changes, notes = self._compare(given, method, wanted)
        changes.sort(key=lambda change: -change["distance"])
        largest = max([0.25, *(change["distance"] for change in changes)])
        colors = {
            change["label"]: [change["direction"], round(change["distance"] / largest, 3)]
            for change in changes
            if change["distance"] >= LEAST_CHANGE
        }
        shown = [change for change in changes if wanted in change["label"].lower()][:MAX_CHANGES]
        return {"changes": shown, "colors": colors, "total": len(changes), **notes}

    def _compare(self, given: dict[str, str], method: str, text: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        schema = self.model.field_.schema
        evidence = {name: cells.read_value(self._variable(name), text) for name, text in given.items()}
        before, old_methods, warned = self._given(method, ())
        after, methods, more = self._given(method, tuple(sorted(evidence.items())))
        data = self._shares
        rows = None if data is None else data.matching(evidence)
        moved = {name: float(np.abs(after[name] - before[name]).sum()) for name in schema.order if name in after}
        ranked = sorted((name for name in moved if name not in evidence), key=lambda name: -moved[name])
        wanted = [name for name in ranked if text in name.lower()]
        changes = []
        for name in dict.fromkeys([*wanted[:MAX_CHANGES], *(name for name in ranked if moved[name] >= LEAST_CHANGE)]):
            counts = None if data is None or rows is None else data.counts(name, rows)
            changes.append(_change(self._variable(name), name, before[name], after[name], counts))
        notes = _notes(old_methods | methods, (*warned, *more))
        return changes, {**notes, "total": len(wanted), "rows": None if rows is None else int(rows.sum())}

    def _infer_given(self, method: str, evidence: tuple[tuple[str, Label], ...]) -> tuple[dict, frozenset, tuple]:
        """Return beliefs {column: (states,)} about a row in which only the evidence has values."""
        model = self._with_method(method)
        with collect_warnings() as lines:
            marginals = infer_missing(model, Dataset.single(self._compile_row(dict(evidence))))
        beliefs = cells.beliefs_by_column(model.field_.schema, marginals.values[0])
        return {name: belief[0] for name, belief in beliefs.items()}, marginals.methods, tuple(lines)

    def _compile_row(self, values: Mapping[str, Any]) -> Table:
        """Return a table of one row from an array, since reading a frame of ten thousand columns takes a minute."""
        schema = self.model.field_.schema
        row = np.full((1, len(schema.order)), None, dtype=object)
        row[0, :] = [values.get(name) for name in schema.order]
        return compile_table(replace(as_source(row), names=schema.order), schema)

    # -- rows of the data --------------------------------------------------------------------------------------------

    def find_rows(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return rows by their number or name."""
        rows, table = self._rows(), str(request.get("table", ""))
        rows.check(table, 0)
        numbers = rows.find(table, str(request.get("text", "")), MAX_FOUND)
        return {"rows": [{"row": row, "name": rows.row_name(table, row)} for row in numbers]}

    def row(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row: surprising values, beliefs about missing ones."""
        rows, method = self._rows(), self._method(request)
        table, row = self._row(request)
        with self.lock, collect_warnings() as lines:
            if self.linked:
                tables, methods = self._linked_cells(method)
                beliefs = {name: own[row] for name, own in tables[table].items()}
            else:
                # Values unknown to the model are missing.
                values = rows.values(table, row).items()
                known = {name: value for name, value in values if cells.is_known(self._variable(name), value)}
                answer = infer_cells(self._with_method(method), Dataset.single(self._compile_row(known)))
                columns = cells.beliefs_by_column(self.model.field_.schema, answer.conditionals[0])
                beliefs, methods = {name: belief[0] for name, belief in columns.items()}, answer.methods
            linked = self._describe_linked(table, row) if self.linked else {}
        described = rows.describe(table, row, beliefs) | linked
        return {"name": rows.row_name(table, row), **described, **_notes(methods, lines)}

    def _describe_linked(self, table: str, row: int) -> dict[str, Any]:
        """Return the rows that a row is linked to and those linked to it, and what their states say about its own."""
        rows: Any = self._rows()
        neighbors = []

        def show(there: str, row: int) -> list[Any]:
            values = rows.values(there, row).items()
            known = ", ".join(f"{name} = {value}" for name, value in values if value is not None)
            return [there, row, rows.row_name(there, row), known]

        for name, link in rows.data.links.items():
            pairs = rows.data.linked_rows(name)
            for here, there, (own, other) in ((link.table, link.to, pairs), (link.to, link.table, pairs[::-1])):
                linked = other[own == row].tolist() if here == table else []
                if linked:
                    shown = [show(there, number) for number in linked[:MAX_LINKED]]
                    neighbors.append({"title": f"{there}, {name}", "more": len(linked) - len(shown), "rows": shown})
        return {"linked": neighbors, "reasons": linked_evidence(self.model.field_, self._linked_rows, table, row)}

    @cached_property
    def _linked_rows(self) -> Dataset:
        return compile_rows(self.model, self._rows().data)

    # -- reading requests --------------------------------------------------------------------------------------------

    def _rows(self) -> cells.TableRows:
        if self.rows is None:
            raise DataError("The page was opened without data.")
        return self.rows

    def _row(self, request: Mapping[str, Any]) -> tuple[str, int]:
        table, row = request.get("table", ""), request.get("row")
        if not isinstance(table, str) or not isinstance(row, int):
            raise DataError("A row has a table, a text, and a number.")
        self._rows().check(table, row)
        return table, row

    def _method(self, request: Mapping[str, Any]) -> str:
        method = str(request.get("method") or self.default_method)
        if method not in METHODS:
            raise DataError(f"There is no inference method {method!r}: choose one of {', '.join(METHODS)}.")
        return method

    def _variable(self, name: str) -> Variable:
        return cells.find_variable(self.model.field_.schema, name)

    def _with_method(self, method: str) -> Any:
        """Return the model with an inference method; the model's own method keeps its options."""
        own = self.model.inference
        if method == (own.name if isinstance(own, InferenceMethod) else str(own)):
            return self.model
        other = copy.copy(self.model)
        other.inference = WIDE_METHOD if method == "bp" and self.default_method == "bp" else method
        return other


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Collect the library's warnings as lines for the page; unknown values were reported at the start."""
    lines: list[str] = []
    with told_warnings(lines.append, UnknownStateWarning):
        yield lines


def _notes(methods: frozenset[str], lines: Any) -> dict[str, Any]:
    names = ", ".join(sorted(METHODS.get(method, method) for method in methods))
    return {"method": names, "warnings": list(dict.fromkeys(lines))}


def _change(
    variable: Variable, label: str, before: np.ndarray, after: np.ndarray, counts: np.ndarray | None
) -> dict[str, Any]:
    """Return the belief about a variable before and after evidence, and the rows with each state that agree with it.

    The distance is the probability that moved; the direction is that of the mean of ordered states, or of the
    non-reference state of two.
    """
    states, (old, new) = cells.group_states(variable, np.array([before, after]))
    direction = float(np.arange(len(states)) @ (new - old)) if variable.ordered else 0.0
    if len(variable.states) == 2 and not variable.numeric:
        direction = float(new[1 - variable.reference] - old[1 - variable.reference])
    means = (
        [round(cells.number_range(variable, belief)[0], 6) for belief in (before, after)] if variable.numeric else None
    )
    return {
        "label": label,
        "states": [str(state) for state in states],
        "before": np.round(old, 4).tolist(),
        "after": np.round(new, 4).tolist(),
        "means": means,
        "counts": None if counts is None else counts.tolist(),
        "distance": 0.5 * float(np.abs(new - old).sum()),
        "direction": int(np.sign(round(direction, 9))),
    }
