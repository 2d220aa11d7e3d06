"""A classifier takes one label column or several, of any type."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from small_tables import N, X

from sparsefield import CRFClassifier
from sparsefield.errors import DataError


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"])[np.nan_to_num(X[:, 0]).astype(int)],
        np.nan_to_num(X[:, 0]).astype(bool),
        pd.Series(np.nan_to_num(X[:, 0])).map({0.0: "no", 1.0: "yes"}).astype("category"),
        pl.Series("label", np.nan_to_num(X[:, 0]).astype(int)),
    ],
    ids=["words", "bools", "category", "polars"],
)
def test_labels_of_any_kind(labels) -> None:
    given = np.nan_to_num(X[:, 1:])
    model = CRFClassifier(l1=2.0, n_jobs=1).fit(given, labels)
    assert model.classes_.shape == (2,)
    predicted = model.predict(given)
    assert predicted.shape == (N,)
    assert set(predicted.tolist()) <= set(model.classes_.tolist())
    assert model.score(given, labels) == np.mean(predicted == np.asarray(labels))
    assert np.array_equal(model.classes_[model.predict_proba(given).argmax(axis=1)], predicted)


def test_labels_of_mixed_types_come_back_as_they_were() -> None:
    labels = np.array([1, "no"], dtype=object)[np.nan_to_num(X[:, 0]).astype(int)]
    model = CRFClassifier(l1=2.0, n_jobs=1).fit(X[:, 1:], labels)
    assert model.score(X[:, 1:], labels) > 0.5
    assert model.classes_.tolist() == [1, "no"]


def test_the_kinds_of_a_classifiers_columns_may_be_given_by_position() -> None:
    model = CRFClassifier(l1=2.0, kinds={1: "numeric"}, n_jobs=1).fit(X[:, 1:], np.nan_to_num(X[:, 0]))
    assert [v.numeric for v in model.field_.schema.observed] == [False, True]


def test_a_label_that_is_also_a_column_is_refused() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    with pytest.raises(DataError, match="'a' is in X and in y"):
        CRFClassifier(l1=2.0).fit(frame, frame["a"])


def test_rows_of_labels_and_columns_must_be_as_many() -> None:
    with pytest.raises(DataError, match=r"\[80, 79\]"):
        CRFClassifier(l1=2.0).fit(X, np.zeros(79))


def test_several_labels_inform_each_other_and_keep_their_types() -> None:
    labels = pd.DataFrame({"p": X[:, 0], "q": np.where(X[:, 1] == 1, "u", "v")})
    given = X[:, 2:]
    model = CRFClassifier(n_jobs=1, l1=0.5).fit(given, labels)
    assert [c.tolist() for c in model.classes_] == [[0, 1], ["u", "v"]]
    assert ("p", "q") in set(zip(model.edges_["variable_a"], model.edges_["variable_b"], strict=True))
    predicted = model.predict(given)
    assert predicted.shape == (N, 2)
    assert set(predicted[:, 1]) <= {"u", "v"}
    proba = model.predict_proba(given)
    assert [p.shape for p in proba] == [(N, 2), (N, 2)]
    full = labels.dropna()
    rows = full.index.to_numpy()
    right = (predicted[rows] == full.to_numpy(dtype=object)).all(axis=1)
    assert model.score(given[rows], full) == pytest.approx(right.mean())
    with pytest.raises(DataError, match="'p' has missing values"):
        model.score(given, labels)


@pytest.mark.parametrize("name", [None, ""])
def test_a_series_without_a_name_is_named_apart_from_the_columns(name) -> None:
    labels = pd.Series(np.nan_to_num(X[:, 0]), name=name)
    model = CRFClassifier(l1=2.0, n_jobs=1).fit(pd.DataFrame(X[:, 1:], columns=["y", "z"]), labels)
    assert set(model.states_) == {"label"}


def test_masked_and_sparse_labels_are_read() -> None:
    words = np.ma.masked_array(np.array(["no", "yes"])[np.nan_to_num(X[:, 0]).astype(int)], mask=np.arange(N) == 3)
    assert CRFClassifier(l1=2.0, n_jobs=1).fit(X[:, 1:], words).classes_.tolist() == ["no", "yes"]
    both = np.nan_to_num(X[:, :2]).astype(int)
    model = CRFClassifier(l1=2.0, n_jobs=1).fit(X[:, 2:], sp.csr_matrix(both))
    assert np.array_equal(
        model.predict(X[:, 2:]), CRFClassifier(l1=2.0, n_jobs=1).fit(X[:, 2:], both).predict(X[:, 2:])
    )
