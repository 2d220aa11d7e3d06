"""A table compiled to flat, read-only arrays, cut into blocks of rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sparsefield import policy
from sparsefield.data.frames import Columns
from sparsefield.data.labels import as_numbers, factorize
from sparsefield.data.memory import refuse_beyond_memory
from sparsefield.data.schema import Schema, Variable
from sparsefield.errors import DataError, UnseenStateWarning

__all__ = ["Block", "Table", "compile_table", "cut_into_blocks", "dense_bytes", "read_codes"]


class Block(NamedTuple):
    """Some consecutive rows, as kernels take them. Each column lies contiguous in memory: kernels run along rows."""

    start: int
    codes: np.ndarray
    """(targets, rows) int32: 0 is the base state, -1 a gap."""
    beliefs: np.ndarray
    """(columns, rows): q0. One-hot (less the base) where seen, training frequencies in gaps; standardised numbers; then
    what rows see of their neighbours, if they have any."""
    weight: np.ndarray
    """(rows,)"""
    gap_offsets: np.ndarray
    """(targets + 1,): target v has its gaps at gap_rows[gap_offsets[v]:gap_offsets[v + 1]]."""
    gap_rows: np.ndarray
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
    def has_gaps(self) -> bool:
        return any(len(block.gap_rows) for block in self.blocks)

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
    weight = np.ones(n_rows, dtype=policy.FLOAT) if sample_weight is None else sample_weight
    codes = np.full((len(schema.targets), n_rows), -1, dtype=np.int32)
    there = set(source.names)
    unseen: dict[str, np.ndarray] = {}
    for v, variable in enumerate(schema.targets):
        if variable.name not in there:
            if absent_targets or variable.role == "hidden":
                continue
            raise DataError(f"Column {variable.name!r}, which the field was learned with, is not there.")
        codes[v], strangers = read_codes(source, variable, name)
        if len(strangers):
            unseen[variable.name] = strangers
    givens = [_observed_columns(source, variable, name) for variable in schema.observed]
    if repeat > 1:
        codes, weight = np.repeat(codes, repeat, axis=1), np.repeat(weight, repeat)
        givens = [np.repeat(given, repeat, axis=1) for given in givens]
    return Table(schema, tuple(cut_into_blocks(schema, codes, givens, weight, width)), n_rows * repeat, unseen)


def read_codes(source: Columns, variable: Variable, owner: str) -> tuple[np.ndarray, np.ndarray]:
    """(rows,) codes of a categorical variable, and the rows that hold a value unknown to it."""
    labels, positions = factorize(source.column(variable.name))
    known = variable.code_of_label
    table = np.array([known.get(label, -1) for label in labels] + [-1], dtype=np.int32)
    codes = table[positions]
    strangers = np.flatnonzero((codes < 0) & (positions >= 0))
    if len(strangers):
        odd = [label for label in labels if label not in known]
        whose = f" of table {owner!r}" if owner else ""
        warnings.warn(
            f"Column {variable.name!r}{whose} has {len(strangers)} cell(s) with values that training never saw "
            f"(such as {odd[0]!r}); they are treated as gaps.",
            UnseenStateWarning,
            stacklevel=2,
        )
    return codes, strangers


def _observed_columns(source: Columns, variable: Variable, owner: str) -> np.ndarray:
    """(width, rows). A missing or unknown value carries no signal: it sits at its training mean."""
    if variable.name not in source.names:
        raise DataError(f"Observed column {variable.name!r}, which the field was learned with, is not there.")
    if variable.numeric:
        column = source.column(variable.name)
        values = np.zeros((1, source.n_rows), dtype=policy.FLOAT)
        values[0, column.seen] = (as_numbers(column) - variable.centre) / variable.scale
        return values
    codes, _ = read_codes(source, variable, owner)
    return _one_hot(codes, variable)


def _one_hot(codes: np.ndarray, variable: Variable) -> np.ndarray:
    hot = np.empty((variable.width, len(codes)), dtype=policy.FLOAT)
    gaps = codes < 0
    for k in range(variable.width):
        hot[k] = codes == k + 1
        hot[k, gaps] = variable.column_frequencies[k]
    return hot


def cut_into_blocks(
    schema: Schema, codes: np.ndarray, givens: list[np.ndarray], weight: np.ndarray, width: int
) -> Iterator[Block]:
    n_rows = codes.shape[1]
    size = policy.block_rows(n_rows)
    # A table without rows has one block too, so that sums over its blocks have a shape.
    for start in range(0, max(n_rows, 1), size):
        rows = slice(start, min(start + size, n_rows))
        part = np.ascontiguousarray(codes[:, rows])
        gap_variable, gap_rows = np.nonzero(part < 0)
        offsets = np.searchsorted(gap_variable, np.arange(len(schema.targets) + 1))
        beliefs = np.zeros((width, part.shape[1]), dtype=policy.FLOAT)
        variable, row = np.nonzero(part > 0)
        beliefs[schema.state_offsets[variable] + part[variable, row] - 1, row] = 1.0
        for v in np.flatnonzero(np.diff(offsets)):
            gaps = gap_rows[offsets[v] : offsets[v + 1]]
            columns = slice(schema.state_offsets[v], schema.state_offsets[v + 1])
            beliefs[columns, gaps] = schema.targets[int(v)].column_frequencies[:, None]
        if givens:
            beliefs[schema.n_states : schema.n_columns] = np.concatenate([given[:, rows] for given in givens])
        counts = schema.n_states, schema.n_columns
        yield Block(start, part, beliefs, np.ascontiguousarray(weight[rows]), offsets, gap_rows, *counts)


def _refuse_too_large(schema: Schema, n_rows: int, width: int) -> None:
    what = f"{n_rows:,} rows x {width:,} states"
    refuse_beyond_memory(dense_bytes(n_rows * width), what, lambda: _advice(schema, width))


def dense_bytes(cells: float) -> float:
    """Memory that a fit to dense arrays of rows x states may take."""
    return policy.DENSE_COPIES * cells * np.dtype(policy.FLOAT).itemsize


def _advice(schema: Schema, width: int) -> str:
    over_links = width - schema.n_columns
    if over_links > 0:
        return f"use fewer rows, columns or templates. Of the states, {over_links:,} are seen over links."
    widest = max(schema.variables, key=lambda variable: variable.width)
    return f"use fewer rows or columns. Column {widest.name!r} has the most states, {widest.width + 1:,}."
