"""Counts of states in the rows of a compiled table, over all rows or over those that agree with evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparsefield.analysis.network import variable_at
from sparsefield.app.pages.cell_beliefs import group_states
from sparsefield.data.schema import Variable
from sparsefield.data.table import Table


class DataShares:
    """States of one table, as positions among the states of their variable, or among the bins of a number."""

    def __init__(self, table: Table) -> None:
        self.schema, self.n_rows = table.schema, table.n_rows
        self._codes = table.codes()

    def matching(self, evidence: Mapping[str, Any]) -> np.ndarray | None:
        """Return (rows,) bool: which rows agree with evidence {predicted column: state or number}.

        A number agrees if it is in the same bin. None where a covariate is among the evidence: the compiled rows have
        no states of covariates.
        """
        rows = np.ones(self.n_rows, dtype=bool)
        for name, value in evidence.items():
            number = self.schema.index_of_name[name]
            if number >= len(self.schema.targets):
                return None
            variable = variable_at(self.schema, number)
            code = variable.codes_of(np.array([value]))[0] if variable.numeric else variable.code_of_label[value]
            rows &= self._positions(number) == _shown_positions(variable)[code]
        return rows

    def counts(self, name: str, rows: np.ndarray | None = None) -> np.ndarray | None:
        """Return (states,) the rows with each state of a column, of some rows or of all; None for a covariate."""
        number = self.schema.index_of_name[name]
        if number >= len(self.schema.targets):
            return None
        positions = self._positions(number)
        chosen = positions >= 0 if rows is None else rows & (positions >= 0)
        return np.bincount(positions[chosen], minlength=_n_shown(variable_at(self.schema, number)))

    def cross_counts(self, one: str, two: str) -> np.ndarray | None:
        """Return (states, states) the rows with each pair of states of two columns; None for a covariate."""
        numbers = self.schema.index_of_name[one], self.schema.index_of_name[two]
        if max(numbers) >= len(self.schema.targets):
            return None
        a, b = map(self._positions, numbers)
        sizes = [_n_shown(variable_at(self.schema, number)) for number in numbers]
        known = (a >= 0) & (b >= 0)
        return np.bincount(a[known] * sizes[1] + b[known], minlength=sizes[0] * sizes[1]).reshape(sizes)

    def _positions(self, number: int) -> np.ndarray:
        codes = np.asarray(self._codes[number])
        return np.where(codes >= 0, _shown_positions(variable_at(self.schema, number))[codes], -1)


def _n_shown(variable: Variable) -> int:
    return len(group_states(variable, np.zeros(len(variable.states)))[0])


def _shown_positions(variable: Variable) -> np.ndarray:
    """Return (codes,) the position of each code among the states, or the bins of a number."""
    positions = np.asarray(variable.position_of_code)
    return np.unique(variable.bins, return_inverse=True)[1][positions] if variable.bins else positions
