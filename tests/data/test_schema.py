"""Schemas number the columns of variables, also of a million binary ones."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from oracle import candidate_pairs
from plain import learn_plain_schema

from sparsefield.data import Schema, as_source, learn_schema
from sparsefield.data.labels import RawColumn, factorize
from sparsefield.errors import DataError


def test_yes_or_no_columns_have_the_papers_number_of_candidates() -> None:
    """Animal has 85 columns of 0 and 1: 85 + C(85, 2) = 3,655."""
    schema = learn_schema(as_source(np.random.default_rng(0).integers(0, 2, (50, 85))))
    assert schema.n_target_columns == 85
    assert schema.n_target_columns + schema.n_candidate_pairs == 3655


def test_every_column_of_a_variable_has_a_name() -> None:
    source = as_source([["u", 0, 5], ["v", 1, 6], ["u", 2, 7], ["w", 0, 7]])
    schema = learn_schema(source, observed=["x1"])
    assert [v.kind for v in schema.variables] == ["nominal", "ordinal", "ordinal"]
    ordinal = ("x2", None), ("x2", 5), ("x2", 6), ("x2", 7), ("x1", None), ("x1", 0), ("x1", 1), ("x1", 2)
    assert schema.column_names == (("x0", "u"), ("x0", "v"), ("x0", "w"), *ordinal)
    assert schema.offsets.tolist() == [0, 3, 7, 11]
    assert (schema.n_target_columns, schema.n_columns) == (7, 11)
    # x0 with all of x2 and x1; the scores of x2 and x1 with each other, their levels, and levels of x1 that shift x2.
    assert schema.n_candidate_pairs == len(candidate_pairs(schema)) == 3 * 4 + 3 * 4 + 1 + 9 + 3


def test_the_reference_state_is_the_most_frequent_one() -> None:
    schema = learn_schema(as_source([["a"], ["b"], ["b"], ["c"]]), symmetric=False)
    variable = schema.variables[0]
    assert variable.states == ("a", "b", "c")
    assert variable.reference == 1
    assert variable.position_of_code.tolist() == [1, 0, 2]
    assert variable.code_of_label == {"b": 0, "a": 1, "c": 2}
    assert variable.frequencies == (0.25, 0.5, 0.25)
    assert variable.column_means.tolist() == [0.25, 0.25]


def test_a_symmetric_variable_has_a_column_for_every_state() -> None:
    (variable,) = learn_schema(as_source([["a"], ["b"], ["b"], ["c"]])).variables
    assert not variable.has_reference
    assert variable.position_of_code.tolist() == [0, 1, 2]
    assert variable.column_labels == ("a", "b", "c")
    assert variable.column_means.tolist() == [0.25, 0.5, 0.25]
    assert np.array_equal(variable.coded, np.eye(3))


@pytest.mark.parametrize("yes", [1, True, 1.0])
def test_the_base_of_a_yes_or_no_column_is_no(yes) -> None:
    variable = learn_schema(as_source(np.array([[yes], [yes], [yes], [yes - yes]], dtype=object))).variables[0]
    assert variable.reference == 0
    assert variable.states == (0, 1)


@given(widths=st.lists(st.integers(1, 4), min_size=1, max_size=5), observed=st.integers(0, 3))
def test_candidates_are_counted_as_they_are_listed(widths, observed) -> None:
    columns = [np.arange(12) % width for width in widths] + [np.linspace(0.1, 1, 12) for _ in range(observed)]
    source = as_source(np.column_stack(columns))
    given = source.names[len(widths) :]
    plain = learn_plain_schema(source, observed=given)
    assert plain.n_candidate_pairs == len(candidate_pairs(plain))
    assert plain.n_columns == sum(width - 1 for width in widths) + observed
    for kind in ("auto", "nominal", "ordinal", "numeric"):
        kinds = "auto" if kind == "auto" else dict.fromkeys(source.names, kind)
        schema = learn_schema(source, observed=given, kinds=kinds)
        assert schema.n_candidate_pairs == len(candidate_pairs(schema))


@given(
    st.lists(
        st.one_of(
            st.integers(-5, 5), st.sampled_from(["a", "b", ""]), st.booleans(), st.sampled_from([0.5, 2.0, -1.0])
        ),
        min_size=1,
    )
)
def test_codes_lead_back_to_the_values_whatever_they_are(values) -> None:
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    labels, codes = factorize(RawColumn("c", cells, np.ones(len(values), dtype=bool)))
    assert [labels[code] for code in codes] == values
    assert len(set(labels)) == len(labels)
    numbers = [label for label in labels if not isinstance(label, str)]
    words = [label for label in labels if isinstance(label, str)]
    assert labels == sorted(numbers) + sorted(words)


@pytest.mark.parametrize("observed", [[], ["x0"]])
def test_what_to_do_about_an_identifier_is_said_for_every_kind_of_table(observed) -> None:
    with pytest.raises(
        DataError, match=r"'x0' .*drop it \(at the command line: --id; for linked tables: ignore=\)"
    ) as no:
        learn_schema(as_source([[f"r{k}"] for k in range(120)]), observed=observed)
    assert "numeric" not in str(no.value)


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
            for name in ("name", "role", "states", "reference", "width", "numeric", "code_of_label"):
                assert getattr(one, name) == getattr(other, name), name
            assert [type(state) for state in one.states] == [type(state) for state in other.states]
            assert one.frequencies == pytest.approx(other.frequencies, abs=1e-14)
    sizes = ("n_variables", "n_target_columns", "n_columns", "n_candidate_pairs")
    for name in (*sizes, "order", "index_of_name", "column_names"):
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
