"""This module defines what is known about the cells of a table after inference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from sparsefield.data import Table, Variable, make_frame
from sparsefield.data.column_types import family_of
from sparsefield.data.frame_building import Frame, make_column, with_index_of
from sparsefield.data.frames import Columns
from sparsefield.data.labels import as_numbers
from sparsefield.estimators.number_answers import deviation, has_numbers, mean, quantile, quantile_places
from sparsefield.inference import state_probabilities

SHOWN_COLUMNS = 6


class Posterior:
    """The distribution of every target cell of a table given all observed cells of its row.

    An observed cell has its value with certainty. Frames are of the library of the table, polars for arrays; those of
    pandas have its index.
    """

    def __init__(self, source: Columns, table: Table, marginals: np.ndarray, kind: str) -> None:
        self._source, self._table, self._marginals, self._kind = source, table, marginals, kind

    @cached_property
    def probabilities(self) -> dict[str, Frame]:
        """{column: frame with a column for each state} of the nominal and ordinal columns.

        If a column has both the number 1 and the text 1 as states, the name of the latter has quotes.
        """
        found = {}
        for k, variable in self._targets():
            if not variable.numeric:
                columns = zip(_column_names(variable), self._states(k).T, strict=True)
                found[variable.name] = self._make(dict(columns))
        return found

    def state_probabilities(self, column: str) -> np.ndarray:
        """Return the probabilities (rows, states) of the states of a column, or of the levels of a numeric one."""
        return self._states(self._table.schema.index_of_name[column])

    @cached_property
    def mean(self) -> Frame:
        """Means of the numeric columns, and of ordinal ones whose states are numbers; the mean of dates is a date."""
        return self._frame(self._typed(self._columns(mean, lambda values: values)))

    @cached_property
    def std(self) -> Frame:
        """Standard deviations of the columns of `mean`, of dates, times and durations in days; 0 for observed cells."""
        return self._frame(self._columns(deviation, np.zeros_like))

    def quantile(self, q: float) -> Frame:
        """Return a quantile of every cell of the numeric and ordinal columns: 0.5 is the median.

        Quantiles of dates are dates, and those of ordered categories have their type.
        """
        if not isinstance(q, Real) or not 0.0 <= float(q) <= 1.0:
            raise ValueError(
                f"q must be a number between 0 and 1, got {q!r}; for several quantiles, call it once for each."
            )
        q = float(q)
        columns = self._columns(lambda variable, p: quantile(variable, p, q), lambda values: values)
        for k, variable in self._targets():
            if variable.ordered and not has_numbers(variable):
                columns[variable.name] = [variable.states[place] for place in quantile_places(self._states(k), q)]
        return self._frame(self._typed(columns))

    def __repr__(self) -> str:
        names = [variable.name for _, variable in self._targets()]
        shown = ", ".join(names[:SHOWN_COLUMNS]) + (", ..." if len(names) > SHOWN_COLUMNS else "")
        return f"Posterior({self._table.n_rows} rows; {shown})"

    def _targets(self) -> list[tuple[int, Variable]]:
        """Return number and variable of each target column, in the order of the table."""
        schema = self._table.schema
        place = {name: k for k, name in enumerate(schema.order)}
        return sorted(enumerate(schema.targets), key=lambda item: place[item[1].name])

    def _states(self, target: int) -> np.ndarray:
        return state_probabilities(self._table.schema, target, self._marginals)

    def _frame(self, columns: dict[str, Any]) -> Frame:
        return self._make({name: columns[name] for name in self._table.schema.order if name in columns})

    def _make(self, columns: dict[str, Any]) -> Frame:
        """Return a frame with the index of the table, if it is of pandas."""
        return with_index_of(self._source, make_frame(columns, self._kind))

    def _typed(self, columns: dict[str, np.ndarray | list]) -> dict[str, Any]:
        """Return columns of dates as dates, and of ordered categories with their type."""
        found: dict[str, Any] = dict(columns)
        for k, variable in self._targets():
            dated = family_of(variable.dtype) != ""
            if variable.name in found and (dated or (variable.dtype and not has_numbers(variable))):
                labels, known = list(found[variable.name]), self._table.codes()[k] >= 0
                found[variable.name] = make_column(variable.name, labels, variable.column_type, self._kind, known)
        return found

    def _columns(
        self, summary: Callable[[Variable, np.ndarray], np.ndarray], of_known: Callable[[np.ndarray], np.ndarray]
    ) -> dict[str, np.ndarray | list]:
        """Return {column: numbers} of the columns with numbers: a summary of missing cells, a function of others."""
        found: dict[str, np.ndarray | list] = {}
        for k, variable in self._targets():
            if not has_numbers(variable):
                continue
            values = summary(variable, self._states(k))
            if variable.role == "target" and variable.name in self._source.names:
                column = self._source.column(variable.name)
                known = self._table.codes()[k] >= 0
                numbers = np.zeros(len(values))
                # Values that do not occur in training may be text.
                numbers[known] = as_numbers(replace(column, values=column.values[known[column.present]], present=known))
                values = np.where(known, of_known(numbers), values)
            found[variable.name] = values
        return found


def _column_names(variable: Variable) -> list[str]:
    """Return the states of a variable as names of columns; of 1 and "1", the text has quotes."""
    count = Counter(map(str, variable.states))
    names = [repr(state) if count[str(state)] > 1 else str(state) for state in variable.states]
    return names if len(set(names)) == len(names) else [repr(state) for state in variable.states]
