"""Kinds of columns are found, or given; what cannot be is refused with the column, all problems at once."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from sparsefield import MarkovField
from sparsefield.data import Schema, Variable, as_source, compile_table, learn_schema
from sparsefield.data.column_summaries import ColumnSummary
from sparsefield.data.schema_learning import given_kinds, learn_from_summaries, summarize_columns
from sparsefield.errors import DataError

WORDS = ["often", "never", "rarely", "never"]
ORDER = ["never", "rarely", "often"]


def schema_of(X, **options) -> Schema:
    return learn_schema(as_source(X), **options)


def kinds_of(X, **options) -> dict[str, str]:
    return {variable.name: variable.kind for variable in schema_of(X, **options).variables}


def only(X, **options) -> Variable:
    (variable,) = schema_of(X, **options).variables
    return variable


def column(values, dtype=None) -> np.ndarray:
    return np.array(list(values), dtype=dtype).reshape(-1, 1)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, 1, 0, 1], "nominal"),
        ([3, 8, 3, 8], "nominal"),
        ([5, 5, 5], "nominal"),
        ([1, 2, 3, 1], "ordinal"),
        (range(10), "ordinal"),
        (range(11), "numeric"),
        ([0.0, 1.0, 2.0], "ordinal"),
        ([0.0, 1.0, np.nan, 2.0], "ordinal"),
        ([0.0, 1.0], "nominal"),
        ([0.5, 1.0, 0.5], "numeric"),
        ([0.5, 0.5, 0.5], "numeric"),
        ([-3, 0, 3], "ordinal"),
        (["a", "b", "c"], "nominal"),
        (["1", "2", "3"], "nominal"),
        (["0.5", "1.5", "2.5"], "nominal"),
        ([True, False, True], "nominal"),
    ],
)
def test_cells_decide_about_the_kind_of_a_column(values, kind) -> None:
    assert only(column(values)).kind == kind
    cells = column([None if value != value else value for value in values], object)
    assert only(cells).kind == kind
    assert only(pd.DataFrame({"a": list(values)})).kind == kind
    assert only(pl.DataFrame({"a": list(values)}, strict=False)).kind == kind


def test_numbers_beside_text_are_nominal() -> None:
    assert only(column([0.5, 1.5, "many", 3], object)).kind == "nominal"
    assert only(column([1, 2, 3, True], object)).kind == "nominal"


def test_ordered_categoricals_are_ordinal_and_others_are_nominal() -> None:
    ordered = pd.DataFrame({"a": pd.Categorical(WORDS, categories=ORDER, ordered=True)})
    enum = pl.DataFrame({"a": pl.Series(WORDS, dtype=pl.Enum(ORDER))})
    for frame in (ordered, enum):
        variable = only(frame)
        assert (variable.kind, variable.states) == ("ordinal", ("never", "rarely", "often"))
        assert variable.frequencies == (0.5, 0.25, 0.25)
        assert compile_table(as_source(frame), schema_of(frame)).codes().tolist() == [[2, 0, 1, 0]]
    plain = pd.DataFrame({"a": pd.Categorical(WORDS, categories=ORDER)})
    assert only(plain).kind == "nominal"
    assert only(pl.DataFrame({"a": pl.Series(WORDS, dtype=pl.Categorical)})).kind == "nominal"


def test_an_ordered_categorical_of_numbers_keeps_its_order() -> None:
    frame = pd.DataFrame({"a": pd.Categorical([10, 2, 30, 2], categories=[30, 2, 10], ordered=True)})
    variable = only(frame)
    assert (variable.kind, variable.states) == ("ordinal", (30, 2, 10))
    assert np.diff(variable.scores).min() > 0


def test_categories_that_do_not_occur_are_states() -> None:
    frame = pd.DataFrame({"a": pd.Categorical(["b", "b"], categories=["a", "b", "c"], ordered=True)})
    variable = only(frame)
    assert variable.states == ("a", "b", "c")
    assert variable.frequencies == (0.0, 1.0, 0.0)
    assert np.isfinite(variable.coded).all()


def test_given_states_make_a_column_nominal_unless_it_is_ordered() -> None:
    assert only(column([0.5, 1.5, 2.5]), states={"x0": [4]}).kind == "nominal"
    ordinal = only(column([1, 2, 3]), states={"x0": [4]})
    assert (ordinal.kind, ordinal.states) == ("ordinal", (1, 2, 3, 4))
    assert only(column([1, 2, 3]), states={"x0": [4]}, kinds={"x0": "ordinal"}) == ordinal


@pytest.mark.parametrize("kind", ["numeric", "normal-scores", "linear-scores"])
def test_states_of_a_numeric_column_are_refused(kind) -> None:
    message = (
        "states= has column 'x0', which is numeric by kinds=.*Leave it out of states=, or give it the kind 'nominal'"
    )
    with pytest.raises(DataError, match=message):
        only(column(range(20)), states={"x0": [40]}, kinds={"x0": kind})


def test_given_kinds_override_what_is_found() -> None:
    X = np.column_stack([np.arange(24) % 2, np.arange(24) % 3, np.arange(24) % 12])
    given = {"x0": "numeric", "x1": "nominal", "x2": "ordinal"}
    assert kinds_of(X, kinds=given) == given
    assert kinds_of(X, kinds={"x2": "nominal"}) == {"x0": "nominal", "x1": "ordinal", "x2": "nominal"}
    assert only(column(["b", "a", "c"]), kinds={"x0": "ordinal"}).states == ("a", "b", "c")


def test_scores_of_a_numeric_column_are_chosen_or_given() -> None:
    skewed = column(np.random.default_rng(0).lognormal(sigma=2.0, size=500))
    even = column(np.arange(30))
    assert only(skewed, kinds={"x0": "numeric"}).transform == "normal-scores"
    assert only(even, kinds={"x0": "numeric"}).transform == "linear-scores"
    assert only(skewed, kinds={"x0": "normal-scores"}) == only(skewed)
    for table in (skewed, even):
        for transform in ("linear-scores", "normal-scores"):
            variable = only(table, kinds={"x0": transform})
            assert (variable.kind, variable.transform) == ("numeric", transform)
    linear = only(skewed, kinds={"x0": "linear-scores"})
    states = np.array(linear.states)
    np.testing.assert_allclose(np.diff(linear.scores) / np.diff(states), 1.0 / linear.scale, rtol=0.05)


@pytest.mark.parametrize("order", [ORDER, tuple(ORDER), "never<rarely<often", "never < rarely < often"])
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_a_list_of_labels_is_an_order(order, make) -> None:
    variable = only(make({"a": WORDS}), kinds={"a": order})
    assert (variable.kind, variable.states) == ("ordinal", ("never", "rarely", "often"))
    assert variable.frequencies == (0.5, 0.25, 0.25)
    scores, shares = np.array(variable.scores), np.array(variable.frequencies)
    np.testing.assert_allclose([shares @ scores, shares @ scores**2], [0.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(np.diff(scores, 2), 0.0, atol=1e-12)


def test_an_order_of_text_applies_to_numbers_and_keeps_their_type() -> None:
    variable = only(column([3, 1, 2, 1]), kinds={"x0": "3<1<2"})
    assert variable.states == (3, 1, 2)
    assert all(isinstance(state, int) for state in variable.states)


def test_an_order_may_have_labels_that_do_not_occur() -> None:
    schema = schema_of(pd.DataFrame({"a": ["lo", "hi"]}), kinds={"a": ["lo", "mid", "hi"]})
    (variable,) = schema.variables
    assert variable.states == ("lo", "mid", "hi")
    assert variable.frequencies == (0.5, 0.0, 0.5)
    assert variable.column_labels == (None, "lo", "mid", "hi")
    assert schema.unseen.tolist() == [False, False, True, False]


def test_an_order_replaces_that_of_an_ordered_categorical() -> None:
    frame = pd.DataFrame({"a": pd.Categorical(WORDS, categories=ORDER, ordered=True)})
    assert only(frame, kinds={"a": ORDER[::-1]}).states == ("often", "rarely", "never")
    assert only(frame, kinds={"a": "nominal"}).kind == "nominal"


def test_labels_that_orders_lack_are_refused_with_columns_rows_and_remedy_all_at_once() -> None:
    frame = pd.DataFrame({"a": WORDS, "b": [3, 1, 2, None], "c": list("abcd"), "d": ["u", "v", "u", "v"]})
    kinds = {"a": "never<rarely", "b": [2, 1], "c": list("abcd"), "d": ["v"]}
    with pytest.raises(DataError) as error:
        schema_of(frame, kinds=kinds)
    assert str(error.value) == (
        "Column 'a' holds 'often' (row 0), which its given order of labels does not have: never < rarely. Column 'b' "
        "holds 3 (row 0), which its given order of labels does not have: 2 < 1. Column 'd' holds 'u' (row 0), which "
        "its given order of labels does not have: v. Add what is missing to the order (kinds=, at the command line "
        "--ordinal), or correct the cells. Rows are counted from 0."
    )
    wanted = (
        r"Column 'a' holds 'b' \(row 1\), 'c' \(row 2\), 'd' \(row 3\), 'e' \(row 4\), 'f' \(row 5\) and 1 more, which"
    )
    with pytest.raises(DataError, match=wanted):
        only(pd.DataFrame({"a": list("abcdefg")}), kinds={"a": ["a"]})
    with pytest.raises(DataError, match=r"'a' holds 'well' \(given by states=\), which"):
        only(pd.DataFrame({"a": WORDS}), kinds={"a": ORDER}, states={"a": ["well"]})


def test_rows_of_labels_that_orders_lack_are_counted_over_all_partitions() -> None:
    blocks = [pl.DataFrame({"a": ["lo", "hi"] * 5, "b": ["x"] * 10}) for _ in range(12)]
    blocks[10] = blocks[10].with_columns(a=pl.Series(["lo"] * 7 + ["mid"] * 3), b=pl.Series(["x"] * 9 + ["y"]))
    for parts in (blocks, [pl.concat(blocks)]):
        sources = [as_source(part) for part in parts]
        given = given_kinds({"a": "lo<hi", "b": ["x"]}, ("a", "b"))
        columns = zip(*(summarize_columns(source, None, given, {}) for source in sources), strict=True)
        summaries = [ColumnSummary.join(column) for column in columns]
        with pytest.raises(DataError, match=r"'a' holds 'mid' \(row 107\).*'b' holds 'y' \(row 109\)"):
            learn_from_summaries(summaries, given, {})


def test_all_problems_with_kinds_are_told_at_once() -> None:
    kinds = {"z": "nominal", "x0": "number", "x1": 3, "x2": ["u", "v", "u"], "x3": "a<b<a", "x4": "ordinal"}
    X = np.arange(10).reshape(2, 5)
    with pytest.raises(DataError) as error:
        schema_of(X, kinds=kinds)
    told = str(error.value)
    assert "names the column 'z', which is not there. Columns: x0, x1, x2, x3, x4." in told
    assert (
        "'number' for column 'x0': a kind is 'nominal', 'ordinal', 'numeric', 'linear-scores' or 'normal-scores'"
        in told
    )
    assert "3 for column 'x1'" in told
    assert "a label twice for column 'x2': 'u', 'v', 'u'" in told
    assert "a label twice for column 'x3': 'a', 'b', 'a'" in told
    assert "'x4'" not in told


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([[1], [2]], "labels are text, numbers or booleans"),
        ([], "has no labels for column 'a'"),
        ({1, 2}, "ascending order"),
        ([1, True], "a label twice"),
    ],
)
def test_orders_that_are_none_are_refused(order, message) -> None:
    with pytest.raises(DataError, match=message):
        given_kinds({"a": order}, ["a"])


def test_a_label_as_number_and_as_text_is_one_label() -> None:
    with pytest.raises(DataError, match="has a label twice, once as text: 1, 2, 3, 4, '1'"):
        only(column([1, 2, 3, 4]), kinds={"x0": [1, 2, 3, 4, "1"]})


def test_orders_may_be_arrays_and_numbers_in_other_spellings() -> None:
    for order in (np.array([3, 1, 2]), (3, 1, 2), pd.Index([3, 1, 2]), "3<1<2", "3.0<1<2.0", [3.0, "1", 2]):
        assert only(column([1, 2, 3, 1]), kinds={"x0": order}).states == (3, 1, 2)
    halves = column([1.0, 1.5, 2.0])
    assert only(halves, kinds={"x0": "2<1.5<1.0"}).states == (2.0, 1.5, 1.0)
    states = only(halves, kinds={"x0": "3<2<1.5<1"}).states
    assert states == (3.0, 2.0, 1.5, 1.0)
    assert all(isinstance(state, float) for state in states)
    days = [dt.date(2024, 3, 1), dt.date(2024, 1, 1)]
    assert only(pd.DataFrame({"a": days * 3}), kinds={"a": days}).states == (19783, 19723)


def test_two_names_of_one_column_are_refused() -> None:
    with pytest.raises(DataError, match="names the column 'x0' twice"):
        MarkovField(kinds={0: "nominal", "x0": "ordinal"}).fit(column([1, 2, 3] * 5))


@pytest.mark.parametrize("kind", ["ordinal", [1, 0]])
def test_columns_of_a_sparse_matrix_are_not_ordinal(kind) -> None:
    matrix = sp.csr_matrix(np.eye(3, dtype=int))
    with pytest.raises(DataError, match="'x0' of a sparse 0/1 matrix"):
        schema_of(matrix, kinds={"x0": kind})
    assert kinds_of(matrix, kinds={"x0": "nominal"})["x0"] == "nominal"
