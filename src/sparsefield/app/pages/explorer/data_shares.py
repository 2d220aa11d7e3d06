"""This module counts how often states occur in the rows of a table that agree with evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from sparsefield.analysis.network import variable_at
from sparsefield.app.pages.explorer.cell_beliefs import group_states, number_range
from sparsefield.data.schema import Schema, Variable

CACHED_COLUMNS = 512
MICROSECONDS_OF_DAY = 86_400_000_000


@dataclass(frozen=True)
class StateShares:
    """The rows with each state of a variable among those that agree with the evidence."""

    counts: np.ndarray
    """(states,): numbers of rows; bins of a number. Shares of the training data where no table was given."""
    mean: float | None = None
    """Mean of a number in these rows; None if there is none."""
    from_training: bool = False
    """Whether these are shares of the training data, of which the numbers of rows are not known."""

    @property
    def total(self) -> float:
        """Number of rows that agree with the evidence and have a value."""
        return float(self.counts.sum())

    def share(self, k: int) -> float | None:
        """Return the share of a state; None where no row agrees with the evidence."""
        return float(self.counts[k]) / self.total if self.total else None


class DataShares:
    """States of one table, by the positions of its values among the states of their variable."""

    def __init__(self, known: pl.DataFrame, schema: Schema) -> None:
        self.known, self.schema = known, schema
        self._positions = lru_cache(CACHED_COLUMNS)(self._find_positions)

    def matching(self, evidence: Mapping[str, Any]) -> np.ndarray:
        """Return (rows,) bool: which rows agree with the evidence; a number agrees if it is in the same bin."""
        found = np.ones(self.known.height, dtype=bool)
        for name, value in evidence.items():
            if name in self.known.columns:
                found &= self._positions(name) == _position(self._variable(name), value)
        return found

    def shares(self, name: str, rows: np.ndarray) -> StateShares | None:
        """Return the states of a variable in some rows, (rows,) bool; None if the table lacks the column."""
        if name not in self.known.columns:
            return None
        variable, positions = self._variable(name), self._positions(name)
        chosen = rows & (positions >= 0)
        counts = np.bincount(positions[chosen], minlength=len(_shown_states(variable)))
        mean = None
        if variable.numeric and chosen.any():
            mean = float(_numbers(self.known[name])[chosen].mean())
        return StateShares(counts, mean)

    def cross_counts(self, one: str, two: str) -> np.ndarray | None:
        """Return (states, states): rows with each pair of states of two variables; None without both columns."""
        if one not in self.known.columns or two not in self.known.columns:
            return None
        a, b = self._positions(one), self._positions(two)
        sizes = len(_shown_states(self._variable(one))), len(_shown_states(self._variable(two)))
        known = (a >= 0) & (b >= 0)
        return np.bincount(a[known] * sizes[1] + b[known], minlength=sizes[0] * sizes[1]).reshape(sizes)

    def _variable(self, name: str) -> Variable:
        return variable_at(self.schema, self.schema.index_of_name[name])

    def _find_positions(self, name: str) -> np.ndarray:
        return _positions(self._variable(name), self.known[name])


def training_shares(variable: Variable) -> StateShares | None:
    """Return the shares of the training data, which a variable keeps; None if they are not known."""
    if not variable.frequencies or not max(variable.frequencies) > 0:
        return None
    frequencies = np.asarray(variable.frequencies)
    mean = number_range(variable, frequencies)[0] if variable.numeric else None
    return StateShares(group_states(variable, frequencies)[1], mean, from_training=True)


def _shown_states(variable: Variable) -> tuple[Any, ...]:
    return group_states(variable, np.zeros(len(variable.states)))[0]


def _position(variable: Variable, value: Any) -> int:
    """Return the position of a state, or of the bin of a number."""
    return int(_bins_of(variable, np.array([float(value)]))[0]) if variable.numeric else variable.states.index(value)


def _positions(variable: Variable, column: pl.Series) -> np.ndarray:
    """Return (rows,) the position of each value among the states, or bins, of a variable; -1 for missing ones."""
    if variable.numeric:
        numbers = _numbers(column)
        return np.where(np.isnan(numbers), -1, _bins_of(variable, np.nan_to_num(numbers)))
    place = {state: k for k, state in enumerate(variable.states)}
    return np.array([-1 if value is None else place.get(value, -1) for value in column.to_list()], dtype=np.int64)


def _bins_of(variable: Variable, numbers: np.ndarray) -> np.ndarray:
    found = variable.position_of_code[variable.codes_of(numbers)]
    return np.unique(variable.bins, return_inverse=True)[1][found] if variable.bins else found


def _numbers(column: pl.Series) -> np.ndarray:
    """Return a column of numbers, or of dates as days; NaN for missing values."""
    kind = column.dtype
    if kind == pl.Datetime:
        column = column.dt.epoch("us") / MICROSECONDS_OF_DAY
    elif kind == pl.Duration:
        column = column.dt.total_microseconds() / MICROSECONDS_OF_DAY
    elif kind == pl.Time:
        column = column.cast(pl.Int64) / (1000 * MICROSECONDS_OF_DAY)
    elif kind == pl.Date:
        column = column.cast(pl.Int32)
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
