"""Labels of classifiers: their forms, and the most probable combinations."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from small_tables import N, X

from sparsefield import CRFClassifier
from sparsefield.errors import DataError

COMBINATIONS = np.array(list(product((0, 1), repeat=3)))


@pytest.fixture(scope="module", params=["dense", "sparse"])
def fitted(request) -> tuple[CRFClassifier, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = (rng.random((200, 4)) < 0.5).astype(int)
    Y = np.zeros((200, 3), dtype=int)
    for k in range(3):
        logit = 1.5 * X[:, k] - 1.0 + (2.0 * Y[:, k - 1] - 1.0 if k else 0.0)
        Y[:, k] = rng.random(200) < 1.0 / (1.0 + np.exp(-logit))
    given = sp.csr_matrix(X) if request.param == "sparse" else X
    return CRFClassifier(l1=1.0).fit(given, Y), given, Y


def joint_probabilities(model: CRFClassifier, X) -> np.ndarray:
    """(rows, combinations), from the weights alone."""
    dense = X.toarray() if sp.issparse(X) else X
    columns = [*(f"y{k}" for k in range(3)), *(f"x{k}" for k in range(4))]
    values = np.stack([np.column_stack([np.tile(row, (len(dense), 1)), dense]) for row in COMBINATIONS], axis=1)
    logits = np.zeros(values.shape[:2])
    for name, weight in zip(model.biases_["variable"], model.biases_["weight"], strict=True):
        logits += weight * values[:, :, columns.index(name)]
    features = model.features_
    for a, b, weight in zip(features["variable_a"], features["variable_b"], features["weight"], strict=True):
        logits += weight * values[:, :, columns.index(a)] * values[:, :, columns.index(b)]
    found = np.exp(logits - logits.max(axis=1, keepdims=True))
    return found / found.sum(axis=1, keepdims=True)


def test_joint_predictions_are_the_most_probable_combinations(fitted) -> None:
    model, X, _ = fitted
    joint = joint_probabilities(model, X)
    np.testing.assert_array_equal(model.predict(X, decode="joint"), COMBINATIONS[joint.argmax(axis=1)])
    marginals = (joint @ COMBINATIONS > 0.5).astype(int)
    np.testing.assert_array_equal(model.predict(X), marginals)
    assert (model.predict(X, decode="joint") != marginals).any(), "otherwise this test says nothing"


def test_known_labels_condition_all_others(fitted) -> None:
    model, X, Y = fitted
    known = Y.astype(float)
    known[:, 1] = np.nan
    known[::2, 2] = np.nan
    joint = joint_probabilities(model, X)
    fits = (np.isnan(known)[:, None] | (known[:, None] == COMBINATIONS)).all(axis=2)
    joint = np.where(fits, joint, 0.0)
    joint /= joint.sum(axis=1, keepdims=True)
    expected = joint @ COMBINATIONS
    found = np.column_stack([p[:, 1] for p in model.predict_proba(X, known=known)])
    np.testing.assert_allclose(found, expected, atol=1e-8)
    np.testing.assert_array_equal(model.predict(X, known=known), (expected > 0.5).astype(int))
    np.testing.assert_array_equal(model.predict(X, known=known, decode="joint"), COMBINATIONS[joint.argmax(axis=1)])
    np.testing.assert_array_equal(model.predict(X, known=Y), Y)


def test_frames_of_known_labels_go_by_name_and_may_have_some(fitted) -> None:
    model, X, Y = fitted
    known = np.full(Y.shape, np.nan)
    known[:, 2] = Y[:, 2]
    wanted = model.predict_proba(X, known=known)
    frames = pd.DataFrame({"y2": Y[:, 2]}), pl.DataFrame({"y2": Y[:, 2]}), pd.Series(Y[:, 2], name="y2")
    for frame in frames:
        for one, other in zip(model.predict_proba(X, known=frame), wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    posterior = model.infer(X, known=frames[0].set_axis(range(5, 205)))
    np.testing.assert_array_equal(np.asarray(posterior.probabilities["y0"])[:, 1], wanted[0][:, 1])
    cells = [[None, None, value] for value in Y[:, 2].tolist()]
    np.testing.assert_array_equal(model.predict_proba(X, known=cells)[0], wanted[0])


def test_known_labels_of_another_form_are_refused(fitted) -> None:
    model, X, Y = fitted
    with pytest.raises(DataError, match=r"known= has 3 row\(s\) and 3 column\(s\), where X has 200"):
        model.predict(X, known=Y[:3])
    with pytest.raises(DataError, match=r"2 column\(s\), where X has 200 row\(s\) and the fit had 3 label"):
        model.predict(X, known=Y[:, :2])
    with pytest.raises(
        DataError, match=r"known= has the unknown column\(s\) 'z': .* label columns of the fit by name: y0, y1, y2"
    ):
        model.predict(X, known=pd.DataFrame({"z": Y[:, 0]}))
    with pytest.raises(ValueError, match="decode must be one of 'marginal', 'joint', got 'both'"):
        model.predict(X, decode="both")


def test_weights_of_zero_are_refused_where_labels_are_scored(fitted) -> None:
    model, X, Y = fitted
    with pytest.raises(DataError, match="all weights are zero, and at least one must be above"):
        model.score(X, Y, sample_weight=np.zeros(len(Y)))
    with pytest.raises(DataError, match=r"sample_weight of row 0 is -1\.0"):
        model.score(X, Y, sample_weight=np.full(len(Y), -1.0))
    with pytest.raises(DataError, match="one weight per row"):
        model.score(X, Y, sample_weight=np.ones(3))


def test_frames_of_true_labels_have_the_names_of_the_fit(fitted) -> None:
    model, X, Y = fitted
    frame = pd.DataFrame(Y, columns=["y0", "y1", "y2"])
    for table in (frame, frame[["y2", "y0", "y1"]], pl.DataFrame(frame[["y1", "y0", "y2"]])):
        assert model.score(X, table) == model.score(X, Y)
    renamed = frame[["y2", "y0", "y1"]].rename(columns={"y1": "z"})
    for ask in (model.score, model.log_likelihood):
        for odd in (renamed, pl.DataFrame(renamed)):
            with pytest.raises(DataError, match=r"y= lacks the label\(s\) 'y1' and has the unknown column\(s\) 'z'"):
                ask(X, odd)
        with pytest.raises(DataError, match=r"y= has the unknown column\(s\) 'w': a frame"):
            ask(X, frame.assign(w=0))
        with pytest.raises(DataError, match=r"y= lacks the label\(s\) 'y0', 'y2': a frame"):
            ask(X, frame[["y1"]])


def test_one_label_is_decoded_alike_and_known_numbers_stay_as_they_are() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.where(X[:, 0] + rng.normal(size=120) > 0, "high", "low")
    model = CRFClassifier(l1=1.0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X, decode="joint"), model.predict(X))
    labels = pd.DataFrame({"size": X[:, 0] + 0.1 * rng.normal(size=120), "name": y})
    both = CRFClassifier(l1=1.0, kinds={"size": "numeric"}).fit(X, labels)
    known = both.predict(X, known=labels[["size"]])
    np.testing.assert_array_equal(known[:, 0].astype(float), labels["size"])
    assert np.corrcoef(both.predict(X, decode="joint")[:, 0].astype(float), labels["size"])[0, 1] > 0.8


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
