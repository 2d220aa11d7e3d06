"""A table compiled to flat, read-only arrays, cut into blocks of rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.data.column_summaries import read_cells
from sparsefield.data.frames import Columns
from sparsefield.data.labels import Label, as_numbers, unified
from sparsefield.data.memory import refuse_beyond_memory
from sparsefield.data.schema import Schema, Variable
from sparsefield.errors import DataError, UnseenStateWarning

__all__ = [
    "Block",
    "Table",
    "Unseen",
    "compile_table",
    "cut_into_blocks",
    "dense_bytes",
    "look_up",
    "read_rows",
    "warn_of_unseen",
]


class Block(NamedTuple):
    """Some consecutive rows, as kernels take them. Each column lies contiguous in memory: kernels run along rows."""

    start: int
    codes: np.ndarray
    """(targets, rows) int32: 0 is the base state, -1 a gap."""
    beliefs: np.ndarray
    """(columns, rows): q0. One-hot (less the base) where seen, training frequencies in gaps; standardized numbers; then
    what rows see of their neighbors, if they have any."""
    weight: np.ndarray
    """(rows,)"""
    cell_offsets: np.ndarray
    """(targets + 1,): target v has its gaps at missing_rows[cell_offsets[v]:cell_offsets[v + 1]]."""
    missing_rows: np.ndarray
    n_target_states: int
    n_own_columns: int

    @property
    def n_rows(self) -> int:
        return self.codes.shape[1]

    @property
    def givens(self) -> np.ndarray:
        """(observed columns, rows)"""
        return self.beliefs[self.n_target_states : self.n_own_columns]

    @property
    def rows(self) -> slice:
        return slice(self.start, self.start + self.n_rows)


@dataclass(frozen=True)
class Table:
    """Rows under a schema."""

    schema: Schema
    blocks: tuple[Block, ...]
    n_rows: int
    unseen: dict[str, np.ndarray] = field(default_factory=dict)
    """Per target column: rows whose value training never saw. They are gaps to inference."""

    @property
    def total_weight(self) -> float:
        return float(sum(block.weight.sum() for block in self.blocks))

    @property
    def has_missing(self) -> bool:
        return any(len(block.missing_rows) for block in self.blocks)

    def codes(self) -> np.ndarray:
        """(targets, rows) int32."""
        return np.concatenate([block.codes for block in self.blocks], axis=1)


def compile_table(
    source: Columns,
    schema: Schema,
    *,
    sample_weight: np.ndarray | None = None,
    absent_targets: bool = False,
    repeat: int = 1,
    width: int | None = None,
    name: str = "",
) -> Table:
    """Turn the columns of ``source`` into codes and beliefs.

    With ``absent_targets``, target columns that are not in ``source`` are gaps in every row, as hidden ones always are;
    with ``repeat``, each row stands that many times in a row. ``width`` is the number of columns that rows see, when
    links let them see more than their own; ``name`` is what warnings call the table when there are several.
    """
    n_rows = source.n_rows
    width = schema.n_columns if width is None else width
    _refuse_too_large(schema, n_rows, width)
    weight = np.ones(n_rows, dtype=config.FLOAT) if sample_weight is None else sample_weight
    codes, givens, unseen = read_rows(source, schema, absent_targets=absent_targets)
    for variable in schema.variables:
        if variable.name in unseen:
            warn_of_unseen(variable.name, len(unseen[variable.name].rows), unseen[variable.name].example, name)
    if repeat > 1:
        codes, weight = np.repeat(codes, repeat, axis=1), np.repeat(weight, repeat)
        givens = [np.repeat(given, repeat, axis=1) for given in givens]
    strange = {v.name: unseen[v.name].rows for v in schema.targets if v.name in unseen}
    return Table(schema, tuple(cut_into_blocks(schema, codes, givens, weight, width)), n_rows * repeat, strange)


class Unseen(NamedTuple):
    """Cells of a column with values that training never saw."""

    rows: np.ndarray
    example: Label


def read_rows(
    source: Columns, schema: Schema, *, absent_targets: bool = False
) -> tuple[np.ndarray, list[np.ndarray], dict[str, Unseen]]:
    """(targets, rows) int32 codes; (width, rows) of each observed variable; and, by column, values that are unknown."""
    codes = np.full((len(schema.targets), source.n_rows), -1, dtype=np.int32)
    there = set(source.names)
    unseen: dict[str, Unseen] = {}
    for v, variable in enumerate(schema.targets):
        if variable.name not in there:
            if absent_targets or variable.role == "latent":
                continue
            raise DataError(f"Column {variable.name!r}, which the field was learned with, is not there.")
        codes[v] = look_up(source, variable, unseen)
    givens = []
    for variable in schema.observed:
        if variable.name not in there:
            raise DataError(f"Observed column {variable.name!r}, which the field was learned with, is not there.")
        givens.append(_observed_columns(source, variable, unseen))
    return codes, givens, unseen


def look_up(source: Columns, variable: Variable, unseen: dict[str, Unseen]) -> np.ndarray:
    """(rows,) codes of a categorical variable; values unknown to it are gaps, and are written into ``unseen``."""
    cells = read_cells(source, variable.name)
    known = variable.code_of_label
    table = np.array([known.get(label, -1) for label in cells.labels] + [-1], dtype=np.int32)
    codes = table[cells.codes]
    strangers = np.flatnonzero((codes < 0) & (cells.codes >= 0))
    if len(strangers):
        odd = unified([*cells.labels], cells.are_objects)[cells.codes[strangers].min()]
        unseen[variable.name] = Unseen(strangers, odd)
    return codes


def warn_of_unseen(column: str, count: int, example: Label, owner: str = "") -> None:
    """``owner`` is the table, where there are several."""
    whose = f" of table {owner!r}" if owner else ""
    warnings.warn(
        f"Column {column!r}{whose} has {count} cell(s) with values that training never saw "
        f"(such as {example!r}); they are treated as gaps.",
        UnseenStateWarning,
        stacklevel=2,
    )


def _observed_columns(source: Columns, variable: Variable, unseen: dict[str, Unseen]) -> np.ndarray:
    """(width, rows). A missing or unknown value carries no signal: it sits at its training mean."""
    if variable.numeric:
        column = source.column(variable.name)
        values = np.zeros((1, source.n_rows), dtype=config.FLOAT)
        values[0, column.seen] = (as_numbers(column) - variable.centre) / variable.scale
        return values
    return _one_hot(look_up(source, variable, unseen), variable)


def _one_hot(codes: np.ndarray, variable: Variable) -> np.ndarray:
    hot = np.empty((variable.width, len(codes)), dtype=config.FLOAT)
    missing = codes < 0
    for k in range(variable.width):
        hot[k] = codes == k + 1
        hot[k, missing] = variable.column_frequencies[k]
    return hot


def cut_into_blocks(
    schema: Schema,
    codes: np.ndarray,
    givens: list[np.ndarray],
    weight: np.ndarray,
    width: int,
    *,
    size: int | None = None,
    first: int = 0,
) -> Iterator[Block]:
    """Blocks of ``size`` rows; of all rows of a table that is told by how many there are. ``first`` is the number that
    the first row has in the table."""
    n_rows = codes.shape[1]
    size = config.block_rows(n_rows) if size is None else size
    # A table without rows has one block too, so that sums over its blocks have a shape.
    for start in range(0, max(n_rows, 1), size):
        rows = slice(start, min(start + size, n_rows))
        part = np.ascontiguousarray(codes[:, rows])
        cell_variable, missing_rows = np.nonzero(part < 0)
        offsets = np.searchsorted(cell_variable, np.arange(len(schema.targets) + 1))
        beliefs = np.zeros((width, part.shape[1]), dtype=config.FLOAT)
        variable, row = np.nonzero(part > 0)
        beliefs[schema.state_offsets[variable] + part[variable, row] - 1, row] = 1.0
        for v in np.flatnonzero(np.diff(offsets)):
            missing = missing_rows[offsets[v] : offsets[v + 1]]
            columns = slice(schema.state_offsets[v], schema.state_offsets[v + 1])
            beliefs[columns, missing] = schema.targets[int(v)].column_frequencies[:, None]
        if givens:
            beliefs[schema.n_states : schema.n_columns] = np.concatenate([given[:, rows] for given in givens])
        counts = schema.n_states, schema.n_columns
        yield Block(first + start, part, beliefs, np.ascontiguousarray(weight[rows]), offsets, missing_rows, *counts)


def _refuse_too_large(schema: Schema, n_rows: int, width: int) -> None:
    what = f"{n_rows:,} rows x {width:,} states"
    refuse_beyond_memory(dense_bytes(n_rows * width), what, lambda: _advice(schema, width))


def dense_bytes(cells: float) -> float:
    """Memory that a fit to dense arrays of rows x states may take."""
    return config.DENSE_COPIES * cells * np.dtype(config.FLOAT).itemsize


def _advice(schema: Schema, width: int) -> str:
    over_links = width - schema.n_columns
    if over_links > 0:
        return f"use fewer rows, columns or templates. Of the states, {over_links:,} are seen over links."
    widest = max(schema.variables, key=lambda variable: variable.width)
    return f"use fewer rows or columns. Column {widest.name!r} has the most states, {widest.width + 1:,}."
