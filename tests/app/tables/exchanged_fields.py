"""Fields with every kind of column, over one table and over linked tables."""

from __future__ import annotations

import numpy as np

from sparsefield.data import Layout, Schema, Template, Variable
from sparsefield.induction import all_pairs
from sparsefield.model import Field, FitRecord

SMOKES = Variable("smokes", "target", (0, 1), 0, (0.75, 0.25))
MOOD = Variable("mood", "target", ("glad", "odd & <so>", "sad"), 2, (0.2, 0.3, 0.5))
ALWAYS = Variable("always", "target", ("yes",), 0, (1.0,))
TOWN = Variable("town", "observed", (False, True), 0, (0.5, 0.5))
AGE = Variable("age", "observed", center=40.0, scale=10.0, kind="numeric")
KIND = Variable("kind", "target", ("bill", "love", "news"), 0, (0.5, 0.25, 0.25))

PERSON = Schema((SMOKES, MOOD, ALWAYS, TOWN, AGE), ("age", "smokes", "mood", "always", "town"))
LETTER = Schema((KIND,), ("kind",))

TEMPLATES = (
    Template("within", ("person",)),
    Template("across", ("sender",)),
    Template("across", ("next",)),
    Template("joined", ("who", "whom"), symmetric=True),
)


def one_table(*, learned: bool = True, triples: bool = True) -> Field:
    """Persons: columns smokes=1 (0), mood=glad, odd (1, 2), town=True (3) and age (4)."""
    pairs = np.array([[0, 1], [0, 2], [0, 3], [1, 4]])
    conjunctions = np.array([[0, 1, 3], [0, 2, 3]]) if triples else np.empty((0, 3), dtype=np.int64)
    return Field(
        Layout.single(PERSON), np.array([-1.0, 0.5, 0.0]), pairs, np.array([3.0, -4.0, 0.0, 0.25]), conjunctions,
        np.array([2.0, 0.0])[: len(conjunctions)], FitRecord(objective=1.0 if learned else None),
    )  # fmt: skip


def linked_tables(seed: int = 0) -> Field:
    """Persons and letters, with a weight on most candidates, the numbers of neighbors among them."""
    ends = ((0, 0), (1, 0), (1, 1), (0, 0))
    counted = ((False, False), (False, True), (False, False), (True, True))
    layout = Layout(("person", "letter"), (PERSON, LETTER), TEMPLATES, ends, counted)
    rng = np.random.default_rng(seed)
    pairs = all_pairs(layout)
    pairs = pairs[rng.random(len(pairs)) < 0.8]
    return Field(
        layout,
        rng.normal(size=layout.n_target_columns),
        pairs,
        rng.normal(size=len(pairs)),
        record=FitRecord(objective=1.0),
    )
