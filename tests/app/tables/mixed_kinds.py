"""A field with columns of every kind, small enough to list all of its assignments."""

from __future__ import annotations

import itertools
import math

import numpy as np

from sparsefield.data import Layout, Schema, Variable
from sparsefield.induction import all_pairs
from sparsefield.model import Field, FitRecord

SEX = Variable("sex", "target", ("f", "m"), 1, (0.4, 0.6))
CITY = Variable("city", "target", ("a", "b", "c"), 2, (0.2, 0.3, 0.5), symmetric=True)
ANSWER = Variable(
    "answer", "target", ("never", "rarely", "often"), 1, (0.3, 0.5, 0.2), kind="ordinal", scores=(-1.2, 0.1, 1.5)
)
INCOME = Variable(
    "income", "target", (1.0, 2.0, 4.0, 8.0), 0, (0.4, 0.3, 0.2, 0.1), 2.5, 2.2, kind="numeric",
    scores=(-0.8, -0.2, 0.6, 1.9), cuts=(1.5, 3.0, 6.0), bins=(0, 0, 1, 1), limits=(0.5, 9.0),
)  # fmt: skip
FLAG = Variable(
    "flag", "target", (10.0, 20.0), 0, (0.5, 0.5), 15.0, 5.0, kind="numeric", scores=(-1.0, 1.0), cuts=(15.0,)
)
TARGETS = (SEX, CITY, ANSWER, INCOME, FLAG)


def mixed_field() -> Field:
    """Return a field with a weight on every bias and every pair of columns."""
    layout = Layout.single(Schema(TARGETS, tuple(v.name for v in TARGETS)))
    rng, pairs = np.random.default_rng(0), all_pairs(layout)
    biases = rng.normal(size=layout.n_target_columns)
    return Field(layout, biases, pairs, rng.normal(size=len(pairs)), record=FitRecord(objective=1.0))


def exponentials(field: Field) -> dict[tuple[int, ...], float]:
    """Return {numbers of states: exp of all weights times the values of their columns} times the base measures."""
    targets = field.schema.targets
    found = {}
    for way in itertools.product(*(range(len(v.states)) for v in targets)):
        values, total = [], 0.0
        for variable, state in zip(targets, way, strict=True):
            code = variable.position_of_code.tolist().index(state)
            values += variable.coded[code].tolist()
            if variable.kind == "numeric" and len(variable.states) > 2:
                total += math.log(variable.frequencies[state])
        total += sum(w * values[c] for c, w in enumerate(field.biases.tolist()))
        weights = [*field.weights, *field.conjunction_weights]
        for columns, w in zip([*field.pairs.tolist(), *field.conjunctions.tolist()], weights, strict=True):
            total += w * math.prod(values[c] for c in columns if c >= 0)
        found[way] = math.exp(total)
    return found
