"""Constant columns, empty rows, unseen states and numbers: each has a defined behavior."""

from __future__ import annotations

import warnings

import numpy as np
import polars as pl
import pytest
from small_tables import N, X, cells

from sparsefield import Features, MarkovField
from sparsefield.errors import UnknownStateWarning

# Some tables have observed columns with missing cells; what the warning says is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::sparsefield.errors.CovariateWarning")


def test_a_constant_column_carries_no_features_and_is_filled_with_its_value() -> None:
    table = np.column_stack([X, np.full(N, 7.0)])
    table[3, 3] = np.nan
    field = MarkovField(l1=2.0, n_jobs=1).fit(table)
    assert field.states_["x3"] == [7]
    assert field.transform(table)[3, 3] == 7.0
    assert np.array_equal(field.predict_proba(table)["x3"], np.ones((N, 1)))
    assert np.array_equal(field.field_.theta, MarkovField(l1=2.0, n_jobs=1).fit(X).field_.theta)


def test_a_row_without_any_value_is_filled_and_adds_nothing_to_the_score() -> None:
    table = np.vstack([X, np.full((1, 3), np.nan)])
    field = MarkovField(l1=2.0, n_jobs=1).fit(table)
    assert not np.isnan(field.transform(table)).any()
    assert field.score(table) * (N + 1) == pytest.approx(field.score(X) * N, rel=1e-12)


def present(table: np.ndarray) -> list[str]:
    """Return the values of a table as text: the categories of an Enum are states, even if they do not occur."""
    return sorted({str(value) for value in table.ravel()})


@pytest.mark.parametrize("kind", ["array", "enum"])
def test_a_state_that_training_never_saw_is_said_aloud_and_left_alone(kind) -> None:
    table = np.nan_to_num(X[:6]).astype(int)
    table[2, 2] = 9
    make = {
        "array": lambda t: t.astype(float),
        "enum": lambda t: pl.DataFrame(t, schema=["a", "b", "c"]).cast(pl.String).cast(pl.Enum(present(t))),
    }[kind]
    field = MarkovField(l1=2.0, n_jobs=1).fit(make(np.nan_to_num(X).astype(int)))
    odd = make(table)
    with pytest.warns(UnknownStateWarning, match=r"'(x2|c)' has 1 cell.*9"):
        filled = field.transform(odd)
    assert np.array_equal(np.asarray(filled, dtype=object), np.asarray(odd, dtype=object))
    with pytest.warns(UnknownStateWarning):
        answers = field.predict_proba(odd)
    if kind == "array":
        cell = odd.copy()
        cell[2, 2] = np.nan
        for column, p in field.predict_proba(cell).items():
            assert np.array_equal(p, answers[column])


def test_gaps_next_to_an_unseen_state_are_filled() -> None:
    table = X[:6].copy()
    table[2] = [np.nan, 1.0, 9.0]
    field = MarkovField(l1=2.0, n_jobs=1).fit(X)
    with pytest.warns(UnknownStateWarning):
        filled = field.transform(table)
    assert filled[2, 2] == 9.0
    assert filled[2, 0] in (0.0, 1.0)


def test_an_unseen_state_of_an_observed_column_carries_no_signal() -> None:
    table = cells(missing=0.0)
    field = MarkovField(l1=2.0, n_jobs=1).fit(table, observed=[2])
    odd, cell = table[:4].copy(), table[:4].copy()
    odd[:, 2], cell[:, 2] = 9.0, np.nan
    with pytest.warns(UnknownStateWarning, match="'x2'"):
        answers = field.predict_proba(odd)
    assert np.array_equal(answers["x0"], field.predict_proba(cell)["x0"])


def test_states_known_to_exist_need_no_example() -> None:
    field = MarkovField(l1=2.0, n_jobs=1).fit(X, states={"x2": [0, 1, 2, 5]})
    assert field.states_["x2"] == [0, 1, 2, 5]
    p = field.predict_proba(X)["x2"]
    assert p.shape == (N, 4)
    assert (p[:, 3] < 0.1).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        field.score(np.array([[0.0, 0.0, 5.0]]))


@pytest.mark.parametrize(("states", "penalize_biases"), [([0, 1], True), (["no", "yes"], False)])
def test_a_state_without_an_example_is_held_by_the_penalty_whichever_it_is(states, penalize_biases) -> None:
    """Unpenalized, the weight against it would run off without end."""
    for seen in states:
        column = np.array([seen] * N, dtype=object)
        table = np.column_stack([column, cells(missing=0.0)[:, 1:].astype(object)])
        field = MarkovField(l1=2.0, features=Features(penalize_biases=penalize_biases), n_jobs=1).fit(
            table, states={"x0": states}
        )
        assert field.converged_
        assert np.abs(field.field_.theta).max() < 8
        assert field.predict_proba(table)["x0"][0, states.index(seen)] > 0.9
