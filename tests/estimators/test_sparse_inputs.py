"""A CRFClassifier learns from sparse matrices of real numbers as from dense columns, without making them dense."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sparsefield import CRFClassifier, HeldOut, Solver, findings, load, plot_network, stability, write_report
from sparsefield.errors import DataError, ModelFileError

EXACT = Solver(kkt_tol=1e-6, tol=1e-12)


def make_rows(
    n_rows: int = 300, n_columns: int = 40, n_labels: int = 3, seed: int = 0
) -> tuple[sp.csr_matrix, np.ndarray]:
    """Sparse real rows, and labels that depend on them and each on the one before."""
    rng = np.random.default_rng(seed)
    X = sp.random(n_rows, n_columns, 0.15, format="csr", random_state=seed, data_rvs=lambda k: rng.normal(size=k))
    weights = np.zeros((n_columns, n_labels))
    weights[:6] = 2.0 * rng.normal(size=(6, n_labels))
    logits, Y = X @ weights, np.zeros((n_rows, n_labels), dtype=int)
    for k in range(n_labels):
        logit = logits[:, k] + (2.0 * Y[:, k - 1] - 1.0 if k else 0.0)
        Y[:, k] = rng.random(n_rows) < 1.0 / (1.0 + np.exp(-logit))
    return X, Y


def coefficients(model: CRFClassifier, n_columns: int) -> np.ndarray:
    found, features = np.zeros(n_columns), model.features_
    for name, weight in zip(features["variable_b"], features["weight"], strict=True):
        found[int(name[1:])] = weight
    return found


def test_one_label_is_a_logistic_regression_with_l1() -> None:
    X, Y = make_rows()
    model = CRFClassifier(l1=2.0, l2=0.0, solver=EXACT).fit(X, Y[:, 0])
    peer = LogisticRegression(l1_ratio=1.0, C=0.5, solver="saga", tol=1e-8, max_iter=20000).fit(X, Y[:, 0])
    assert model.converged_
    np.testing.assert_allclose(coefficients(model, X.shape[1]), peer.coef_[0], atol=1e-3)
    np.testing.assert_allclose(model.biases_["weight"][0], peer.intercept_[0], atol=1e-3)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-3)


def test_a_pipeline_with_tfidf_learns_several_labels_of_any_form() -> None:
    texts = ["cats purr and sleep", "dogs bark at cats", "the dogs sleep", "a fish swims", "fish and cats", "bark"] * 10
    Y = np.array([[("cats" in text), ("dogs" in text)] for text in texts], dtype=int)
    model = make_pipeline(TfidfVectorizer(), CRFClassifier(l1=0.5)).fit(texts, Y)
    np.testing.assert_array_equal(model.predict(texts), Y)
    assert model.score(texts, Y) == 1.0
    other = make_pipeline(TfidfVectorizer(), CRFClassifier(l1=0.5)).fit(texts, sp.csr_matrix(Y))
    np.testing.assert_array_equal(other.predict(["cats bark"]), model.predict(["cats bark"]))


def test_l1_is_chosen_by_held_out_rows_and_by_ebic() -> None:
    X, Y = make_rows(n_rows=150, n_columns=12, n_labels=2)
    model = CRFClassifier(selection="ebic", refit=True).fit(X, Y)
    assert model.path_["criterion"][0] == "ebic"
    held_out = CRFClassifier(random_state=0, selection=HeldOut(folds=2)).fit(X, Y)
    assert held_out.l1_ < held_out.path_["l1"][0]
    assert len(held_out.features_)


def test_saved_models_are_loaded_with_their_covariates(tmp_path: Path) -> None:
    X, Y = make_rows()
    model = CRFClassifier(l1=3.0).fit(X, Y)
    path = tmp_path / "model.safetensors"
    model.save(path)
    loaded = load(path)
    for one, other in zip(loaded.predict_proba(X), model.predict_proba(X), strict=True):
        np.testing.assert_array_equal(one, other)
    assert loaded.field_.schema == model.field_.schema
    assert loaded.n_features_in_ == X.shape[1]
    path.write_bytes(path.read_bytes().replace(b'"x39"', b'"x38"'))
    with pytest.raises(ModelFileError, match="covariates are inconsistent"):
        load(path)


def test_what_is_no_matrix_of_the_same_width_is_refused() -> None:
    X, Y = make_rows()
    model = CRFClassifier(l1=3.0).fit(X, Y)
    with pytest.raises(ValueError, match="X has 7 features, but CRFClassifier is expecting 40 features"):
        model.predict(X[:, :7])
    with pytest.raises(DataError, match="learned from a sparse matrix: pass one, or an array of numbers"):
        model.predict(X.toarray().tolist())
    np.testing.assert_array_equal(model.predict(X.toarray()), model.predict(X))


def test_values_structure_and_labels_are_checked() -> None:
    X, Y = make_rows()
    for value in (np.nan, np.inf, 1e80):
        odd = X.copy()
        odd.data[5] = value
        with pytest.raises(DataError, match=r"sparse matrix with 1 value\(s\) that are missing, infinite or beyond 1e"):
            CRFClassifier(l1=3.0).fit(odd, Y)
    damaged = X.copy()
    damaged.indices[0] = 99
    with pytest.raises(DataError, match="damaged structure"):
        CRFClassifier(l1=3.0).fit(damaged, Y)
    with pytest.raises(DataError, match=r"Label column 'y1' has missing values, first in row 4: with a sparse X"):
        CRFClassifier(l1=3.0).fit(X, np.where((np.arange(len(Y)) == 4)[:, None] & [False, True, False], np.nan, Y))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"objective": "cd"}, "objective is 'pl', not 'cd'"),
        ({"induction": "full"}, "induction is 'cfi' or .*, not 'full'"),
        ({"kinds": {"x1": "ordinal"}}, "kinds= has 'x1', which is no label"),
    ],
)
def test_parameters_that_need_dense_columns_are_refused(parameters, words) -> None:
    X, Y = make_rows(n_rows=20)
    with pytest.raises(ValueError, match=words):
        CRFClassifier(l1=3.0, **parameters).fit(X, Y)


def test_nominal_labels_of_many_classes_and_weights_of_rows_are_learned() -> None:
    X, Y = make_rows()
    classes = np.array(["a", "b", "c", "d"])[Y[:, 0] + 2 * Y[:, 1]]
    twice = CRFClassifier(l1=3.0, solver=EXACT).fit(sp.vstack([X, X[:50]]), np.concatenate([classes, classes[:50]]))
    weight = np.where(np.arange(len(Y)) < 50, 2.0, 1.0)
    weighted = CRFClassifier(l1=3.0, solver=EXACT).fit(X, classes, sample_weight=weight)
    np.testing.assert_allclose(weighted.predict_proba(X), twice.predict_proba(X), atol=1e-4)
    assert weighted.predict(X).dtype.kind == "U"


def test_findings_stability_and_pictures_work_with_covariates() -> None:
    X, Y = make_rows()
    model = CRFClassifier(l1=6.0).fit(X, Y)
    assert "pairs of columns go together" in findings(model, X, Y)[0]
    assert len(stability(model, X, 2, y=Y, random_state=0))
    assert "y0" in {text.get_text() for text in plot_network(model).texts}
    with pytest.raises(DataError, match="leave the table out"):
        write_report(model, X, "report.html")
