"""This module turns codes and beliefs of one table into labels, cells and frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from sparsefield.data import Label, Schema, Table, Variable, make_frame
from sparsefield.frame_protocol import Frame
from sparsefield.inference import state_probabilities
from sparsefield.model import PathRow


def states_of(schema: Schema) -> dict[str, list]:
    """Return the sorted states of every target column."""
    return {variable.name: list(variable.states) for variable in schema.targets}


def probabilities(schema: Schema, beliefs: np.ndarray) -> dict[str, np.ndarray]:
    """Return {column: (rows, states)} from (states, rows) beliefs."""
    return {v.name: state_probabilities(v, _columns(schema, beliefs, k)) for k, v in enumerate(schema.targets)}


def filled_cells(table: Table, missing: np.ndarray) -> dict[str, tuple[np.ndarray, list[Label]]]:
    """Return {column: (rows, labels)}: the most probable state of each missing cell.

    Values that training never saw are left as they are.
    """
    cells = {}
    for k, variable, rows in _cells_to_fill(table):
        best = state_probabilities(variable, _columns(table.schema, missing, k)[:, rows]).argmax(axis=1)
        cells[variable.name] = (rows, [variable.states[position] for position in best])
    return cells


def log_belief(table: Table, truth: Table, missing: np.ndarray) -> tuple[float, int]:
    """Return the sum of the log-probabilities of the truth over cells that are missing in ``table`` and known in
    ``truth``, and the number of these cells."""
    missing_cell, known = table.codes() < 0, truth.codes()
    total, count = 0.0, 0
    for k, variable in enumerate(table.schema.targets):
        rows = np.flatnonzero(missing_cell[k] & (known[k] >= 0))
        found = state_probabilities(variable, _columns(table.schema, missing, k)[:, rows])
        picked = found[np.arange(len(rows)), variable.position_of_code[known[k, rows]]]
        total += float(np.log(np.maximum(picked, np.finfo(float).tiny)).sum())
        count += len(rows)
    return total, count


def drawn_cells(table: Table, drawn: np.ndarray) -> dict[str, tuple[np.ndarray, list[Label]]]:
    """Return {column: (rows, labels)}: the drawn states of the missing cells."""
    columns = drawn_columns(table.schema, drawn)
    return {v.name: (rows, [columns[v.name][row] for row in rows]) for _, v, rows in _cells_to_fill(table)}


def drawn_columns(schema: Schema, codes: np.ndarray) -> dict[str, list[Label]]:
    """Return {column: labels} of (targets, rows) codes, in the order of the input columns."""
    columns = {}
    for k, variable in enumerate(schema.targets):
        labels = np.array(variable.states, dtype=object)[variable.position_of_code]
        columns[variable.name] = labels[codes[k]].tolist()
    return {name: columns[name] for name in schema.order if name in columns}


def drawn_frame(schema: Schema, codes: np.ndarray, kind: str) -> Frame:
    """Return (targets, rows) codes as a frame of labels.

    A column of pandas may mix numbers and text; in other libraries such a column becomes text.
    """
    columns: dict[str, list[Any]] = {**drawn_columns(schema, codes)}
    for variable in schema.targets if kind != "pandas" else ():
        kinds = {type(state) for state in variable.states}
        if len(kinds) > 1:
            common = float if kinds == {int, float} else str
            columns[variable.name] = [common(label) for label in columns[variable.name]]
    return make_frame(columns, kind)


def path_frame(rows: Sequence[PathRow], criterion: str | None, kind: str) -> Frame:
    """Return the rows of a regularization path as a frame, with the criterion of the scores in every row."""
    columns = {field.name: [getattr(row, field.name) for row in rows] for field in fields(PathRow)}
    return make_frame(columns | {"criterion": [criterion] * len(rows)}, kind)


def _cells_to_fill(table: Table) -> Iterator[tuple[int, Variable, np.ndarray]]:
    """Yield number, variable and rows of the missing cells of each target, without values that training never saw."""
    codes = table.codes()
    for k, variable in enumerate(table.schema.targets):
        rows = np.setdiff1d(np.flatnonzero(codes[k] < 0), table.unknown_rows.get(variable.name, []))
        if len(rows):
            yield k, variable, rows


def _columns(schema: Schema, beliefs: np.ndarray, k: int) -> np.ndarray:
    return beliefs[schema.state_offsets[k] : schema.state_offsets[k + 1]]
