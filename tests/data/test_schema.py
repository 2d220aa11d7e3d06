"""States, bases, roles and the flat numbering."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import candidate_pairs
from plain import learn_plain_schema

from sparsefield.data import as_source, learn_schema
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
            st.integers(-5, 5),
            st.sampled_from(["a", "b", ""]),
            st.booleans(),
            st.sampled_from([0.5, 2.0, -1.0]),
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
