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

from sparsefield.data import DenseDataset, as_source, compile_table
from sparsefield.data.schema import Label, Variable
from sparsefield.errors import DataError, UnknownStateWarning
from sparsefield.estimators import CRFClassifier, MarkovField, RelationalField
from sparsefield.inference import InferenceMethod
from sparsefield.viz.explorer.cell_beliefs import beliefs_by_column, group_states, number_range
from sparsefield.viz.network import variable_at

METHODS = {
    "mean-field": "mean field (fast)",
    "auto": "automatic (exact where possible)",
    "bp": "belief propagation",
    "exact": "exact (small treewidth)",
    "gibbs": "Gibbs sampling (slow)",
}
"""Inference methods and their names on the page."""

CACHE_SIZE = 32
"""Results that are kept, so that going back and forth costs nothing."""

Beliefs = tuple[dict[str, np.ndarray], tuple[str, ...]]
"""{variable: (states,)} of every predicted variable, and the warnings of the inference."""


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

    @property
    def direction(self) -> int:
        """1 or -1 where the states of an ordinal or numeric variable rise or fall on average; otherwise 0."""
        shift = float(np.arange(len(self.states)) @ (self.after - self.before)) if self.ordered else 0.0
        return int(np.sign(shift))

    @property
    def distance(self) -> float:
        """Total variation distance: the probability that moved from some states to others."""
        return 0.5 * float(np.abs(self.after - self.before).sum())


def with_method(model: Any, method: str) -> Any:
    """Return the model with an inference method; the model's own method keeps its options."""
    if isinstance(model, CRFClassifier):
        # A classifier predicts only labels; the same field over one table also takes labels as evidence.
        model = MarkovField.from_field(model.field_, inference=model.inference)
    elif not isinstance(model, (MarkovField, RelationalField)):
        raise DataError(f"A {type(model).__name__} cannot be explored.")
    if method == default_method(model):
        return model
    other = copy.copy(model)
    other.inference = method
    return other


def default_method(model: Any) -> str:
    """Return the name of the model's own inference method."""
    return model.inference.name if isinstance(model.inference, InferenceMethod) else str(model.inference)


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

    def given(self, evidence: Mapping[str, Any], method: str) -> Beliefs:
        """Return the beliefs that `MarkovField.predict_proba` has for a row in which all other values are missing."""
        names = tuple(sorted(evidence))
        return self._infer(method, names, *(evidence[name] for name in names))

    def compare(self, evidence: Mapping[str, Any], method: str) -> tuple[list[BeliefChange], tuple[str, ...]]:
        """Return the beliefs before and after evidence about all other variables, and the warnings.

        The largest changes come first; variables without a change are in column order.
        """
        (before, warned), (after, also) = self.given({}, method), self.given(evidence, method)
        found = []
        for name in self.schema.order:
            if name in after and name not in evidence:
                variable = variable_at(self.schema, self.schema.index_of_name[name])
                found.append(_change(variable, before[name], after[name]))
        found.sort(key=lambda change: -change.distance)
        return found, tuple(dict.fromkeys((*warned, *also)))

    def _infer_row(self, method: str, names: tuple[str, ...], *values: Any) -> Beliefs:
        evidence = dict(zip(names, values, strict=True))
        with collect_warnings() as lines:
            row = [evidence.get(name) for name in self.schema.order]
            found = row_beliefs(with_method(self.model, method), row)
        return found, tuple(lines)


def _change(variable: Variable, before: np.ndarray, after: np.ndarray) -> BeliefChange:
    means = None
    if variable.numeric:
        means = number_range(variable, before)[0], number_range(variable, after)[0]
    states, grouped = group_states(variable, np.array([before, after]))
    return BeliefChange(variable.name, states, *grouped, means=means, ordered=variable.ordered)


def row_beliefs(model: MarkovField, values: Sequence[Any]) -> dict[str, np.ndarray]:
    """Return {variable: (states,)} as `MarkovField.predict_proba` has it for one row, with the levels of numbers.

    None is a missing value.

    The row is passed as an array, since reading a frame of ten thousand columns takes half a minute.
    """
    schema = model.field_.schema
    row = np.full((1, len(values)), None, dtype=object)
    row[0, :] = values
    table = compile_table(replace(as_source(row), names=schema.order), schema)
    (conditionals,) = model._infer(DenseDataset.single(table)).conditionals
    return {name: belief[0] for name, belief in beliefs_by_column(schema, conditionals).items()}
