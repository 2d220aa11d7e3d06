"""Features of a field with readable names and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sparsefield.data.schema import Label
from sparsefield.model import Field


class Term(NamedTuple):
    """One state of one column, a bin such as "12 to 18.5", or the score of an ordinal or numeric one: no state."""

    table: str
    variable: str
    state: Label | None

    @property
    def column(self) -> str:
        """Name of the column, with its table where there are several."""
        return f"{self.table}.{self.variable}" if self.table else self.variable

    @property
    def text(self) -> str:
        """``rain=1``, or the name of a column for its score."""
        return self.column if self.state is None else f"{self.column}={self.state}"


@dataclass(frozen=True)
class Feature:
    """A feature of two or more columns that has a weight."""

    template: str
    """Template that joins the rows of the columns; empty within one plain table."""
    terms: tuple[Term, ...]
    weight: float
    columns: tuple[int, ...]
    """Numbers of the terms in the field's layout."""
    number: int
    """Position of the feature in the field: pairs first, then conjunctions."""

    @property
    def name(self) -> str:
        """``rain=1 & wet=1``; over a link ``across who: visit.fun=1 & pupil.mood=glad``."""
        over = f"{self.template}: " if self.over_link else ""
        return over + " & ".join(term.text for term in self.terms)

    @property
    def over_link(self) -> bool:
        """Whether the feature joins columns of linked rows."""
        return not (self.template == "" or self.template.startswith("within"))

    @property
    def sentence(self) -> str:
        """The feature as a sentence: which states occur together, or which columns are high or low together."""
        categories = [term.text for term in self.terms if term.state is not None]
        numbers = [term.text for term in self.terms if term.state is None]
        over = f", {self.template}" if self.over_link else ""
        if not categories:
            *others, last = numbers
            if len(others) > 1:
                return f"the product {' x '.join(numbers)} is {'high' if self.weight > 0 else 'low'}{over}"
            if others[0] == last:
                does = "alike" if self.weight > 0 else "unlike each other"
                return f"{last} of two rows are {does}{over}"
            return f"{others[0]} is {'high' if self.weight > 0 else 'low'} where {last} is high{over}"
        what = " and ".join(filter(None, [", ".join(categories[:-1]), categories[-1]]))
        if not numbers:
            return f"{what} {'go together' if self.weight > 0 else 'rarely go together'}{over}"
        does = "is more likely" if len(categories) == 1 else "go together"
        return f"{what} {does} where {' x '.join(numbers)} is {'high' if self.weight > 0 else 'low'}{over}"

    def as_dict(self) -> dict[str, Any]:
        """Return template, terms and weight as plain values, for JSON."""
        terms = [term._asdict() for term in self.terms]
        return {"template": self.template, "terms": terms, "weight": self.weight}


def list_features(field: Field, most: int | None = None) -> list[Feature]:
    """Return the features of two or more columns, strongest first; all, or the ``most`` strongest.

    Examples
    --------
    >>> from sparsefield.app.datasets import make_markov_field
    >>> made = make_markov_field(3, 1, neighbors=1.0, burn_in=1, seed=1).field.field_
    >>> [feature.name for feature in list_features(made)]
    ['x0=1 & x2=1']
    """
    weights = np.concatenate([field.weights, field.conjunction_weights])
    used = np.flatnonzero(weights)
    order = used[np.argsort(-np.abs(weights[used]), kind="stable")]
    return name_features(field, order[:most].tolist())


def name_features(field: Field, numbers: Sequence[int]) -> list[Feature]:
    """Return features by their numbers: pairs are numbered first, then conjunctions."""
    layout, n_pairs = field.layout, len(field.weights)
    found = []
    for k in numbers:
        if k < n_pairs:
            a, b = field.pairs[k].tolist()
            name = layout.feature_name(a, b)
            terms, template = (Term(*name[1:4]), Term(*name[4:7])), name.template
            columns: tuple[int, ...] = (a, b)
            weight = float(field.weights[k])
        else:
            columns = tuple(column for column in field.conjunctions[k - n_pairs].tolist() if column >= 0)
            terms = tuple(Term(*layout.own_column_name(column)) for column in columns)
            template, weight = layout.within_label(terms[0].table), float(field.conjunction_weights[k - n_pairs])
        found.append(Feature(template if layout.tables != ("",) else "", terms, weight, columns, k))
    return found
