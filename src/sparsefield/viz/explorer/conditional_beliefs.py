"""Beliefs about the variables of a field under evidence, and how evidence moves them."""

from __future__ import annotations

import copy
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsefield.data import DenseDataset, as_source, compile_table
from sparsefield.data.schema import Label, Variable
from sparsefield.errors import DataError, UnseenStateWarning
from sparsefield.estimators import CRFClassifier, MarkovField, RelationalField
from sparsefield.estimators.answer_tables import probabilities
from sparsefield.inference import InferenceMethod
from sparsefield.viz.explorer.subgraph import variable_at

__all__ = ["METHODS", "Answer", "Asker", "Change", "answerer", "changes", "default_method", "noted", "row_beliefs"]

METHODS = {
    "mean-field": "mean field (quick)",
    "bp": "belief propagation",
    "exact": "exact (where narrow)",
    "gibbs": "Gibbs sampling (slow)",
}
"""Inference methods, and what they are called on the page."""

REMEMBERED = 32
"""Answers that are kept, so that going back and forth costs nothing."""


@dataclass(frozen=True)
class Answer:
    """Beliefs about every predicted variable, and what the library had to say on the way."""

    beliefs: dict[str, np.ndarray]
    """{variable: (states,)}"""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """How evidence moved the belief about one variable."""

    name: str
    states: tuple[Label, ...]
    before: np.ndarray
    after: np.ndarray

    @property
    def moved(self) -> float:
        """Half the sum of absolute differences: the probability that went from some states to others."""
        return 0.5 * float(np.abs(self.after - self.before).sum())


def answerer(model: Any, method: str) -> Any:
    """The model with another inference method; its own options are kept where it is the method of the model."""
    if isinstance(model, CRFClassifier):
        # A classifier answers about labels alone; the same field over one table also takes labels as evidence.
        model = MarkovField.from_field(model.field_, inference=model.inference)
    elif not isinstance(model, (MarkovField, RelationalField)):
        raise DataError(f"A {type(model).__name__} cannot be explored.")
    if method == default_method(model):
        return model
    other = copy.copy(model)
    other.inference = method
    return other


def default_method(model: Any) -> str:
    """The name of the model's own inference method."""
    return model.inference.name if isinstance(model.inference, InferenceMethod) else str(model.inference)


@contextmanager
def noted() -> Iterator[list[str]]:
    """Warnings of the library as lines for the page."""
    lines: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        # Columns are named or not as the model's were; and a table may hold values that were told of at the start.
        warnings.filterwarnings("ignore", message="X (has|does not have valid) feature names")
        warnings.simplefilter("ignore", UnseenStateWarning)
        yield lines
    lines += dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)


class Asker:
    """Answers about a row of one table of which only the evidence is known.

    Parameters
    ----------
    model : MarkovField or CRFClassifier
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.schema = model.field_.schema
        self._answers: OrderedDict[tuple, Answer] = OrderedDict()

    def variable(self, name: str) -> Variable:
        return variable_at(self.schema, self.schema.index_of_name[name])

    def ask(self, given: Mapping[str, Any], method: str) -> Answer:
        """Beliefs given some cells, as `MarkovField.predict_proba` has them for a row with gaps elsewhere."""
        key = (method, *sorted((name, type(value).__name__, value) for name, value in given.items()))
        if key not in self._answers:
            self._answers[key] = self._ask(given, method)
            if len(self._answers) > REMEMBERED:
                self._answers.popitem(last=False)
        self._answers.move_to_end(key)
        return self._answers[key]

    def _ask(self, given: Mapping[str, Any], method: str) -> Answer:
        with noted() as notes:
            found = row_beliefs(answerer(self.model, method), [given.get(name) for name in self.schema.order])
        return Answer(found, tuple(notes))


def row_beliefs(model: MarkovField, values: Sequence[Any]) -> dict[str, np.ndarray]:
    """{variable: (states,)}: what `MarkovField.predict_proba` says of one row, None being a gap.

    A frame of ten thousand columns takes half a minute to read, so the row goes in as an array.
    """
    schema = model.field_.schema
    row = np.full((1, len(values)), None, dtype=object)
    row[0, :] = values
    table = compile_table(replace(as_source(row), names=schema.order), schema)
    (conditionals,) = model._infer(DenseDataset.single(table)).conditionals
    return {name: belief[0] for name, belief in probabilities(schema, conditionals).items()}


def changes(asker: Asker, given: Mapping[str, Any], method: str) -> tuple[list[Change], tuple[str, ...]]:
    """Beliefs before and after evidence about all variables but those that are given, what moved most first; and notes.

    What did not move stands in the order of the columns.
    """
    before, after = asker.ask({}, method), asker.ask(given, method)
    found = [
        Change(name, asker.variable(name).states, before.beliefs[name], after.beliefs[name])
        for name in asker.schema.order
        if name in after.beliefs and name not in given
    ]
    found.sort(key=lambda change: -change.moved)
    return found, tuple(dict.fromkeys((*before.notes, *after.notes)))
