"""This module computes beliefs about the variables of a field under evidence, and how evidence changes them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from sparsefield.analysis.network import variable_at
from sparsefield.app.pages.explorer.cell_beliefs import beliefs_by_column, group_states, number_range
from sparsefield.data import DenseDataset, as_source, compile_table
from sparsefield.data.schema import Label, Variable
from sparsefield.data.table import Table
from sparsefield.errors import DataError, UnknownStateWarning
from sparsefield.estimators import CRFClassifier, MarkovField, RelationalField
from sparsefield.estimators.compiled_rows import infer_cells, infer_missing
from sparsefield.inference import InferenceMethod

METHODS = {
    "auto": "automatic",
    "exact": "exact",
    "bp": "belief propagation",
    "gibbs": "Gibbs sampling",
    "mean-field": "mean field",
}
"""Inference methods and their names on the page; the first is the default."""

CACHE_SIZE = 32
"""Results that are kept, so that going back and forth costs nothing."""


@dataclass(frozen=True)
class RowBeliefs:
    """Beliefs about one row."""

    values: dict[str, np.ndarray]
    """{variable: (states,)} of every predicted variable."""
    methods: frozenset[str]
    """The inference methods that computed those of missing cells."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class BeliefChange:
    """The belief about one variable before and after evidence."""

    name: str
    states: tuple[Label, ...]
    """States of a nominal or ordinal variable, bins of a number."""
    before: np.ndarray
    after: np.ndarray
    means: tuple[float, float] | None = None
    """Means of a number before and after."""
    ordered: bool = False
    table: str = ""
    """Table of the variable; empty where there is only one."""
    row: int = -1
    """Row of a linked table; -1 for a row that is not in the data."""

    @property
    def direction(self) -> int:
        """1 or -1 where the states of an ordinal or numeric variable rise or fall on average; otherwise 0."""
        shift = float(np.arange(len(self.states)) @ (self.after - self.before)) if self.ordered else 0.0
        return int(np.sign(shift))

    @property
    def distance(self) -> float:
        """Total variation distance: the probability that moved from some states to others."""
        return 0.5 * float(np.abs(self.after - self.before).sum())


@dataclass(frozen=True)
class BeliefChanges:
    """Beliefs before and after evidence, the largest changes first, and how they were computed."""

    changes: list[BeliefChange]
    methods: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


def with_method(model: Any, method: str) -> Any:
    """Return the model with an inference method; the model's own method keeps its options."""
    if isinstance(model, CRFClassifier):
        # A classifier predicts only labels; the same field over one table also takes labels as evidence.
        model = MarkovField.from_field(model.field_, inference=model.inference)
    elif not isinstance(model, (MarkovField, RelationalField)):
        raise DataError(f"A {type(model).__name__} cannot be explored.")
    own = model.inference.name if isinstance(model.inference, InferenceMethod) else str(model.inference)
    if method == own:
        return model
    other = copy.copy(model)
    other.inference = method
    return other


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Collect the library's warnings as lines for the page."""
    lines: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        # Whether columns have names does not matter here, and unknown values were reported at the start.
        warnings.filterwarnings("ignore", message="X (has|does not have valid) feature names")
        warnings.simplefilter("ignore", UnknownStateWarning)
        yield lines
    lines += dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)


class ConditionalBeliefs:
    """Beliefs of a `MarkovField` or `CRFClassifier` about a row of one table in which only the evidence has values."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.schema = model.field_.schema
        self._infer = lru_cache(CACHE_SIZE, typed=True)(self._infer_row)
        self._compared = lru_cache(CACHE_SIZE, typed=True)(self._compare_row)

    def given(self, evidence: Mapping[str, Any], method: str) -> RowBeliefs:
        """Return the beliefs that `MarkovField.predict_proba` has for a row in which all other values are missing.

        Those about the evidence itself are certain.
        """
        names = tuple(sorted(evidence))
        return self._infer(method, names, *(evidence[name] for name in names))

    def compare(self, evidence: Mapping[str, Any], method: str) -> BeliefChanges:
        """Return the beliefs before and after evidence about all other variables.

        The largest changes come first; variables without a change are in column order.
        """
        names = tuple(sorted(evidence))
        return self._compared(method, names, *(evidence[name] for name in names))

    def _compare_row(self, method: str, names: tuple[str, ...], *values: Any) -> BeliefChanges:
        evidence = dict(zip(names, values, strict=True))
        before, after = self.given({}, method), self.given(evidence, method)
        found = []
        for name in self.schema.order:
            if name in after.values and name not in evidence:
                variable = variable_at(self.schema, self.schema.index_of_name[name])
                found.append(belief_change(variable, before.values[name], after.values[name]))
        found.sort(key=lambda change: -change.distance)
        lines = tuple(dict.fromkeys((*before.warnings, *after.warnings)))
        return BeliefChanges(found, before.methods | after.methods, lines)

    def _infer_row(self, method: str, names: tuple[str, ...], *values: Any) -> RowBeliefs:
        evidence = dict(zip(names, values, strict=True))
        with collect_warnings() as lines:
            row = [evidence.get(name) for name in self.schema.order]
            found = missing_in_row(with_method(self.model, method), row)
        return replace(found, warnings=tuple(lines))


def belief_change(
    variable: Variable, before: np.ndarray, after: np.ndarray, table: str = "", row: int = -1
) -> BeliefChange:
    """Return the change of the belief about a variable, from the probabilities (states,) of its states or levels."""
    means = None
    if variable.numeric:
        means = number_range(variable, before)[0], number_range(variable, after)[0]
    states, grouped = group_states(variable, np.array([before, after]))
    return BeliefChange(variable.name, states, grouped[0], grouped[1], means, variable.ordered, table, row)


def row_beliefs(model: MarkovField, values: Sequence[Any]) -> RowBeliefs:
    """Return beliefs as `MarkovField.predict_proba` has them for one row, with the levels of numbers.

    None is a missing value. An observed value is predicted from all others.
    """
    schema = model.field_.schema
    found = infer_cells(model, DenseDataset.single(_compile_row(model, values)))
    beliefs = beliefs_by_column(schema, found.conditionals[0])
    return RowBeliefs({name: belief[0] for name, belief in beliefs.items()}, found.methods)


def missing_in_row(model: MarkovField, values: Sequence[Any]) -> RowBeliefs:
    """Return beliefs about the missing values of one row, where None is a missing value; others are certain."""
    found = infer_missing(model, DenseDataset.single(_compile_row(model, values)))
    beliefs = beliefs_by_column(model.field_.schema, found.values[0])
    return RowBeliefs({name: belief[0] for name, belief in beliefs.items()}, found.methods)


def _compile_row(model: MarkovField, values: Sequence[Any]) -> Table:
    """Return a table of one row, made from an array, since reading a frame of ten thousand columns takes a minute."""
    schema = model.field_.schema
    row = np.full((1, len(values)), None, dtype=object)
    row[0, :] = values
    return compile_table(replace(as_source(row), names=schema.order), schema)
