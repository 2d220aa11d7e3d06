"""From the states of one table, and beliefs about them, to what a user asks for."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsefield.data import Label, Schema, Table, make_frame
from sparsefield.inference import state_probabilities

__all__ = ["drawn_cells", "drawn_columns", "drawn_frame", "filled_cells", "log_belief", "probabilities", "states_of"]


def states_of(schema: Schema) -> dict[str, list]:
    """Sorted states of every target column."""
    return {variable.name: list(variable.states) for variable in schema.targets}


def probabilities(schema: Schema, beliefs: np.ndarray) -> dict[str, np.ndarray]:
    """{column: (rows, states)} from (states, rows) beliefs."""
    return {v.name: state_probabilities(v, _columns(schema, beliefs, k)) for k, v in enumerate(schema.targets)}


def filled_cells(table: Table, missing: np.ndarray) -> dict[str, tuple[np.ndarray, list[Label]]]:
    """{column: (rows, labels)}: the most probable state of each gap. What training never saw stays as it is."""
    cells, codes = {}, table.codes()
    for k, variable in enumerate(table.schema.targets):
        rows = np.setdiff1d(np.flatnonzero(codes[k] < 0), table.unseen.get(variable.name, []))
        if len(rows):
            best = state_probabilities(variable, _columns(table.schema, missing, k)[:, rows]).argmax(axis=1)
            cells[variable.name] = (rows, [variable.states[position] for position in best])
    return cells


def log_belief(table: Table, truth: Table, missing: np.ndarray) -> tuple[float, int]:
    """Sum of the log-beliefs in the truth over the cells that are gaps in one table and known in the other, and how
    many these are."""
    hidden, known = table.codes() < 0, truth.codes()
    total, count = 0.0, 0
    for k, variable in enumerate(table.schema.targets):
        rows = np.flatnonzero(hidden[k] & (known[k] >= 0))
        found = state_probabilities(variable, _columns(table.schema, missing, k)[:, rows])
        picked = found[np.arange(len(rows)), variable.position_of_code[known[k, rows]]]
        total += float(np.log(np.maximum(picked, np.finfo(float).tiny)).sum())
        count += len(rows)
    return total, count


def drawn_cells(table: Table, drawn: np.ndarray) -> dict[str, tuple[np.ndarray, list[Label]]]:
    """{column: (rows, labels)}: the drawn states of the gaps."""
    cells, codes, columns = {}, table.codes(), drawn_columns(table.schema, drawn)
    for k, variable in enumerate(table.schema.targets):
        rows = np.setdiff1d(np.flatnonzero(codes[k] < 0), table.unseen.get(variable.name, []))
        if len(rows):
            cells[variable.name] = (rows, [columns[variable.name][row] for row in rows])
    return cells


def drawn_columns(schema: Schema, codes: np.ndarray) -> dict[str, list[Label]]:
    """{column: labels} of (targets, rows) codes, in the order in which the columns came."""
    columns = {}
    for k, variable in enumerate(schema.targets):
        labels = np.array(variable.states, dtype=object)[variable.position_of_code]
        columns[variable.name] = labels[codes[k]].tolist()
    return {name: columns[name] for name in schema.order if name in columns}


def drawn_frame(schema: Schema, codes: np.ndarray, kind: str) -> Any:
    """The same as a frame. Columns of pandas may mix numbers and words; elsewhere such a column becomes text."""
    columns: dict[str, list[Any]] = {**drawn_columns(schema, codes)}
    for variable in schema.targets if kind != "pandas" else ():
        kinds = {type(state) for state in variable.states}
        if len(kinds) > 1:
            common = float if kinds == {int, float} else str
            columns[variable.name] = [common(label) for label in columns[variable.name]]
    return make_frame(columns, kind)


def _columns(schema: Schema, beliefs: np.ndarray, k: int) -> np.ndarray:
    return beliefs[schema.state_offsets[k] : schema.state_offsets[k + 1]]
