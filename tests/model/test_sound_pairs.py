"""Only valid pairs of columns are accepted from a file, because kernels trust them."""

from __future__ import annotations

import numpy as np
from plain import learn_plain_schema

from sparsefield.data import Layout, as_source
from sparsefield.data.layout import are_valid_pairs
from sparsefield.data.links import Template
from sparsefield.induction import all_pairs


def linked(left: tuple[str, ...] | None, right: tuple[str, ...] | None) -> Layout:
    """A table of words x0, x1, x2 (the last observed) whose rows follow each other."""
    schema = learn_plain_schema(as_source(np.arange(12)[:, None] // (1, 2, 3) % (2, 3, 2)), observed=["x2"])
    templates = Template("within", ("t",)), Template("across", ("next",), left=left, right=right)
    return Layout(("t",), (schema,), templates, ((0, 0), (0, 0)))


def test_every_candidate_is_valid_and_has_an_arc_to_each_target() -> None:
    for left, right in ((None, None), (("x0",), None), (None, ("x2",)), (("x0",), ("x1",)), (("x2",), ("x1",))):
        layout = linked(left, right)
        pairs = all_pairs(layout)
        assert are_valid_pairs(layout, pairs)
        assert len(np.unique(layout.keys(pairs))) == len(pairs) == layout.n_candidate_pairs
        arcs = layout.arcs(pairs)
        assert (arcs.target < layout.n_target_columns).all()
        assert (arcs.source < layout.n_columns).all()


def test_pairs_without_a_template_are_invalid() -> None:
    layout = linked(("x0",), ("x1",))
    pairs = all_pairs(layout)
    n = layout.n_target_columns
    for a in range(layout.n_columns):
        for b in range(layout.schemas[0].n_columns, layout.n_columns):
            allowed = [a, b] in pairs.tolist() or [a, b] in backward(layout, pairs).tolist()
            assert are_valid_pairs(layout, np.array([[a, b]])) == allowed
    assert not are_valid_pairs(layout, np.array([[n, 0]]))
    assert not are_valid_pairs(layout, np.array([[0, layout.n_columns]]))
    assert not are_valid_pairs(layout, np.array([[-1, 0]]))


def backward(layout: Layout, pairs: np.ndarray) -> np.ndarray:
    """The same features from their other end."""
    arcs = layout.arcs(pairs)
    return np.column_stack([layout.column_of_target[arcs.target], arcs.source])
