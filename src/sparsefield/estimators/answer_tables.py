"""This module turns codes and beliefs of one table into labels, cells and frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sparsefield.data import Label, Schema, Source, Table, Variable, make_frame
from sparsefield.data.frame_building import Frame, make_column
from sparsefield.data.labels import as_numbers
from sparsefield.estimators.number_answers import Fill, fill_labels, labels_of_codes
from sparsefield.inference import state_probabilities
from sparsefield.model import PathRow


def states_of(schema: Schema) -> dict[str, list]:
    """Return the sorted states of every target column."""
    return {variable.name: list(variable.states) for variable in schema.targets}


def probabilities(schema: Schema, beliefs: np.ndarray) -> dict[str, np.ndarray]:
    """Return {column: (rows, states)} of the columns with states from (states, rows) beliefs."""
    return {v.name: state_probabilities(schema, k, beliefs) for k, v in enumerate(schema.targets) if not v.numeric}


def filled_cells(table: Table, missing: np.ndarray, fill: Fill = "auto") -> dict[str, tuple[np.ndarray, list[Label]]]:
    """Return {column: (rows, labels)}: what stands for each missing cell.

    Values that training never saw are left as they are.
    """
    cells = {}
    for k, variable, rows in _cells_to_fill(table):
        cells[variable.name] = rows, fill_labels(variable, state_probabilities(table.schema, k, missing[:, rows]), fill)
    return cells


def log_belief(table: Table, truth: Table, missing: np.ndarray) -> tuple[float, int]:
    """Return the sum of the log-probabilities of the truth over cells that are missing in ``table`` and known in
    ``truth``, and the number of these cells."""
    missing_cell, known = table.codes() < 0, truth.codes()
    total, count = 0.0, 0
    for k, variable in enumerate(table.schema.targets):
        rows = np.flatnonzero(missing_cell[k] & (known[k] >= 0))
        found = state_probabilities(table.schema, k, missing[:, rows])
        picked = found[np.arange(len(rows)), variable.position_of_code[known[k, rows]]]
        total += float(np.log(np.maximum(picked, np.finfo(float).tiny)).sum())
        count += len(rows)
    return total, count


def drawn_cells(
    table: Table, drawn: np.ndarray, seed: np.random.SeedSequence | None = None
) -> dict[str, tuple[np.ndarray, list[Label]]]:
    """Return {column: (rows, labels)}: the drawn states of the missing cells; None takes the middle of levels."""
    columns = drawn_columns(table.schema, drawn, seed)
    return {v.name: (rows, [columns[v.name][row] for row in rows]) for _, v, rows in _cells_to_fill(table)}


def drawn_columns(
    schema: Schema, codes: np.ndarray, seed: np.random.SeedSequence | None = None
) -> dict[str, list[Label]]:
    """Return {column: labels} of (targets, rows) codes, in the order of the input columns.

    A number is drawn from its level; without a seed it is the mean of the level.
    """
    columns = {}
    seeds = [None] * len(schema.targets) if seed is None else seed.spawn(len(schema.targets))
    for k, (variable, own) in enumerate(zip(schema.targets, seeds, strict=True)):
        rng = None if own is None else np.random.default_rng(own)
        columns[variable.name] = labels_of_codes(variable, codes[k], rng)
    return {name: columns[name] for name in schema.order if name in columns}


def known_numbers(
    source: Source, schema: Schema, columns: Mapping[str, list[Label]], repeat: int
) -> tuple[dict[str, list[Label]], dict[str, np.ndarray]]:
    """Return numeric columns with the numbers that a table has, where every row is repeated; others are as drawn.

    The second dictionary says which cells the table has, bool, (rows,) of each of these columns.
    """
    found, cells = {}, {}
    for variable in schema.targets:
        if variable.numeric and variable.name in source.names:
            column = source.column(variable.name)
            numbers = np.full(source.n_rows, np.nan)
            numbers[column.present] = as_numbers(column)
            known = np.repeat(numbers, repeat).tolist()
            cells[variable.name] = np.repeat(column.present, repeat)
            drawn = columns[variable.name]
            whole = int if variable.whole else float
            found[variable.name] = [
                one if number != number else whole(number) for number, one in zip(known, drawn, strict=True)
            ]
    return found, cells


def labeled_frame(
    schema: Schema, columns: Mapping[str, list[Label]], kind: str, known: Mapping[str, np.ndarray] | None = None
) -> Frame:
    """Return columns of labels as a frame, in which dates and categories have their types.

    A column of pandas may mix numbers and text; in other libraries such a column becomes text. ``known`` are the cells
    of columns, bool, (rows,) each, that are not drawn.
    """
    found: dict[str, Any] = dict(columns)
    for variable in schema.targets if kind != "pandas" else ():
        kinds = {type(state) for state in variable.states}
        if len(kinds) > 1:
            common = float if kinds == {int, float} else str
            found[variable.name] = [common(label) for label in found[variable.name]]
    for variable in schema.targets:
        if variable.dtype:
            own = (known or {}).get(variable.name)
            found[variable.name] = make_column(variable.name, found[variable.name], variable.column_type, kind, own)
    return make_frame(found, kind)


def path_frame(rows: Sequence[PathRow], criterion: str | None, kind: str) -> Frame:
    """Return the rows of a regularization path as a frame, with the criterion of the scores in every row."""
    columns = {name: [getattr(row, name) for row in rows] for name in PathRow.__struct_fields__}
    columns["error"] = [np.nan if error is None else error for error in columns["error"]]
    return make_frame(columns | {"criterion": [criterion] * len(rows)}, kind)


def _cells_to_fill(table: Table) -> Iterator[tuple[int, Variable, np.ndarray]]:
    """Yield number, variable and rows of the missing cells of each target, without values that training never saw."""
    codes = table.codes()
    for k, variable in enumerate(table.schema.targets):
        rows = np.setdiff1d(np.flatnonzero(codes[k] < 0), table.unknown_rows.get(variable.name, []))
        if len(rows):
            yield k, variable, rows
