"""Tables that cannot be learned are refused in words, and fits that stop early warn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.exceptions import ConvergenceWarning
from small_tables import N, X

from sparsefield import CRFClassifier, MarkovField, Relational, RelationalField, Solver
from sparsefield.errors import DataError

# Some tables have observed columns with missing cells; what the warning says is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::sparsefield.errors.CovariateWarning")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pd.DataFrame({"a": [0, 1, 1], "gone": [None, None, None]}), "'gone' has no values"),
        (
            pd.DataFrame({"a": [0, 1] * 60, "id": [f"r{k}" for k in range(120)]}),
            "'id' has 120 different values in 120 cells",
        ),
        (pd.DataFrame({"a": [0.0, 1.0], "b": [np.inf, 0.0]}), "'b' holds infinity"),
        (np.array([[b"a", b"b"], [b"b", b"b"]]), "'x0' holds a bytes"),
        (np.empty((0, 3)), "^X has no rows: 0 sample"),
        (np.empty((3, 0)), "^X has no columns: 0 feature"),
        (np.array([[1j, 0], [0, 1]]), "Complex"),
        (pd.DataFrame({1: [0, 1], "1": [1, 0]}), "several columns named '1'"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_and_the_column_named(table, words) -> None:
    with pytest.raises(DataError, match=words):
        MarkovField(l1=2.0, n_jobs=1).fit(table)


def test_columns_of_one_name_are_refused() -> None:
    with pytest.raises(DataError, match="several columns named 'u'"):
        MarkovField(l1=2.0, n_jobs=1).fit(pd.DataFrame([[0, 1], [1, 0]], columns=["u", "u"]))
    with pytest.raises(DataError, match="several columns named 'u'"):
        MarkovField(l1=2.0, n_jobs=1).fit(pa.table([pa.array([0, 1]), pa.array([1, 0])], names=["u", "u"]))


@pytest.mark.parametrize("observed", [["nope"], [7], ["x0", "x1", "x2"]])
def test_observed_columns_that_are_not_there_or_leave_no_target_are_refused(observed) -> None:
    with pytest.raises(DataError, match=r"'nope'|Column 7|Every column"):
        MarkovField(l1=2.0, n_jobs=1).fit(X, observed=observed)


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (np.ones(3), r"expected \(80,\)"),
        (np.full(N, np.nan), "row 0"),
        (np.r_[np.ones(N - 1), -1.0], "row 79"),
        (np.zeros(N), "zero"),
    ],
)
def test_weights_that_cannot_be_are_refused(weight, words) -> None:
    with pytest.raises(DataError, match=words):
        MarkovField(l1=2.0, n_jobs=1).fit(X, sample_weight=weight)


def test_observed_columns_by_position_alone_are_refused_with_the_mend() -> None:
    with pytest.raises(DataError, match="observed="):
        MarkovField(l1=2.0, n_jobs=1).fit(X, ["x0"])


def test_tables_without_rows_are_refused_at_prediction_too() -> None:
    field = MarkovField(l1=2.0, n_jobs=1).fit(X)
    for ask in (field.transform, field.predict_proba, field.score):
        with pytest.raises(DataError, match="X has no rows"):
            ask(np.empty((0, 3)))


def table(n_rows: int = 80) -> np.ndarray:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, n_rows)
    return np.column_stack([np.where(rng.random(n_rows) < 0.8, first, 1 - first) for _ in range(4)])


@pytest.mark.parametrize(("kind", "certify"), [(MarkovField, False), (CRFClassifier, True), (RelationalField, True)])
def test_every_estimator_warns(kind, certify: bool) -> None:
    X, field = table(), kind(l1=0.1, solver=Solver(max_iter=2, certify=certify))
    linked = Relational({"a": pl.DataFrame(X, schema=list("abcd"))})
    given = {RelationalField: (linked,), CRFClassifier: (X[:, 1:], X[:, 0])}.get(kind, (X,))
    with pytest.warns(ConvergenceWarning, match="The fit stopped after 2 iterations"):
        field.fit(*given)
    assert not field.converged_
