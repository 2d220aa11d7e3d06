"""A schema in arrays says of 0/1 columns what the general one says of the same columns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from sparsefield.data import Schema, as_source, learn_schema

ON = np.array(
    [[0, 1, 1, 0, 0, 1], [1, 1, 0, 0, 0, 1], [0, 1, 1, 0, 1, 1], [0, 1, 0, 0, 1, 0], [1, 1, 1, 0, 0, 0]], dtype=np.int8
)
"""Columns 1 and 3 are constant."""


def both(on, **roles) -> tuple[Schema, Schema]:
    found = learn_schema(as_source(sp.csr_matrix(on)), **roles)
    assert found.is_binary
    general = learn_schema(as_source(on), **roles)
    assert not general.is_binary
    return found, general


def assert_alike(found: Schema, general: Schema) -> None:
    for part in ("variables", "targets", "observed"):
        ours, theirs = getattr(found, part), getattr(general, part)
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert (one.name, one.role, one.states, one.reference) == (
                other.name,
                other.role,
                other.states,
                other.reference,
            )
            assert [type(state) for state in one.states] == [type(state) for state in other.states]
            assert one.frequencies == pytest.approx(other.frequencies, abs=1e-14)
            assert (one.width, one.numeric, one.code_of_label) == (other.width, other.numeric, other.code_of_label)
    for name in (
        "n_variables",
        "n_target_columns",
        "n_columns",
        "n_candidate_pairs",
        "order",
        "index_of_name",
        "column_names",
    ):
        assert getattr(found, name) == getattr(general, name), name
    for name in ("widths", "offsets", "target_offsets", "variable_of_column"):
        assert np.array_equal(getattr(found, name), getattr(general, name)), name
        assert getattr(found, name).dtype == getattr(general, name).dtype
    np.testing.assert_allclose(found.initial_biases(0.01), general.initial_biases(0.01), rtol=0, atol=1e-12)
    assert np.array_equal(found.unseen, general.unseen)
    for one, other in zip(found.coding, general.coding, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-14)
    assert [found.column_name(c) for c in range(found.n_columns)] == list(general.column_names)


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 12), st.integers(1, 9)),
    density=st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]),
    weighted=st.booleans(),
    data=st.data(),
)
def test_it_equals_the_schema_of_the_dense_array(seed, shape, density, weighted, data) -> None:
    rng = np.random.default_rng(seed)
    on = (rng.random(shape) < density).astype(np.int8)
    observed = data.draw(st.lists(st.sampled_from([f"x{k}" for k in range(shape[1])]), unique=True))
    # Some rows of weight 0: a state that only they have is seen all the same.
    weight = np.append(0.7, rng.choice([0.0, 0.3, 2.5], shape[0] - 1)) if weighted else None
    assert_alike(*both(on, observed=observed, sample_weight=weight))


def test_states_that_are_known_make_a_general_schema() -> None:
    general = learn_schema(as_source(sp.csr_matrix(ON)), states={"x3": [0, 1]})
    assert not general.is_binary
    assert general == learn_schema(as_source(ON), states={"x3": [0, 1]})


def test_an_observed_column_that_is_given_as_numeric_is_a_number() -> None:
    roles = {"observed": ["x0"], "kinds": {"x0": "numeric"}}
    found, general = learn_schema(as_source(sp.csr_matrix(ON)), **roles), learn_schema(as_source(ON), **roles)
    assert general.variables[-1].numeric
    assert found.variables[-1] == general.variables[-1]
