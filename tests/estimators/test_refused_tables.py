"""Tables that cannot be learned are refused in words, fits that stop early warn, and extreme numbers stay finite."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from small_tables import N, X

from sparsefield import CRFClassifier, MarkovField, Relational, RelationalField, Solver
from sparsefield.errors import ClippedValueWarning, DataError

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


RNG = np.random.default_rng(0)
TINY = RNG.normal(size=60) * 1e-5
TINY_TABLE = pd.DataFrame({"y": (TINY > 0) ^ (RNG.random(60) < 0.1), "z": RNG.integers(0, 2, 60), "x": TINY})


def test_a_covariate_far_beyond_training_is_clipped_with_a_warning() -> None:
    field = MarkovField(l1=1.0).fit(TINY_TABLE, observed=["x"])
    far = pd.DataFrame({"y": [None, True, None], "z": [1, 0, 1], "x": [0.0, 1e304, -1.7e308]})
    with pytest.warns(ClippedValueWarning, match=r"'x' has 2 cell\(s\) more than 1,000,000 .* in row 1 \(1e\+304\)"):
        found = field.predict_proba(far)
    assert all(np.isfinite(values).all() for values in found.values())
    with pytest.warns(ClippedValueWarning):
        assert np.isfinite(field.score(far))


@pytest.mark.parametrize(
    ("make", "weight", "message"),
    [
        (np.asarray, 1e308, r"sample_weight of row 0 is 1e\+308: sums of weights beyond 1e\+30 overflow"),
        (sp.csr_matrix, 1e-320, "divisions by sums below 1e-30 overflow: multiply all by"),
    ],
)
def test_weights_whose_sums_overflow_are_refused(make, weight, message) -> None:
    data = make((RNG.random((20, 3)) < 0.4).astype(np.int8))
    with pytest.raises(DataError, match=message):
        MarkovField(l1=1.0).fit(data, sample_weight=np.full(20, weight))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_weights_near_the_largest_ones_give_finite_evidence() -> None:
    weight = np.where(np.arange(60) % 3 == 0, 1e29, 1.0)
    a = RNG.normal(size=60)
    table = pd.DataFrame({"a": a, "b": 2.0 * a, "c": 3.0 * a, "d": RNG.normal(size=60)})
    found = MarkovField(l1=3.0, solver=Solver(max_iter=30)).fit(table, sample_weight=weight)
    assert np.isfinite(found.edges_[["strength", "p_value"]].to_numpy()).all()


@pytest.mark.parametrize("size", [1e160, 10**400])
def test_numbers_that_cannot_be_squared_are_refused_with_the_column(size) -> None:
    cells: list = [size, *range(40)]
    with pytest.raises(DataError, match="Column 'big'"):
        MarkovField(l1=1.0).fit(pd.DataFrame({"big": pd.Series(cells, dtype=object), "a": [0, 1, *range(39)]}))
