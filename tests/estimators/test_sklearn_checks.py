"""scikit-learn's own checks, and the places where its users put an estimator."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import calibration_curve
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsefield import (
    CFI,
    EBIC,
    EM,
    CRFClassifier,
    Features,
    FitCallbacks,
    Grafting,
    HeldOut,
    IdealParent,
    MarkovField,
    MeanField,
    RelationalField,
    Solver,
)
from sparsefield.errors import DataError

# Some tables have observed columns with missing cells; what the warning says is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::sparsefield.errors.CovariateWarning")

DICT = "predict_proba answers {column: array}; the check takes it for the one array of a classifier"
SPARSE = "a sparse matrix stands for 0/1 variables; the check passes other numbers"

EXEMPT = {
    MarkovField: {
        "check_estimators_pickle": DICT,
        "check_fit_idempotent": DICT,
        "check_methods_sample_order_invariance": DICT,
        "check_methods_subset_invariance": DICT,
        "check_sample_weight_equivalence_on_dense_data": DICT,
        "check_estimator_sparse_array": DICT,
        "check_estimator_sparse_matrix": DICT,
        "check_sample_weight_equivalence_on_sparse_data": SPARSE,
    },
    CRFClassifier: {},
}
"""Every check that an estimator does not pass, with the reason. Strict: one that passes has to go."""


# The checks predict from numbers that training never saw, which a field over categories says aloud.
@pytest.mark.filterwarnings("ignore::sparsefield.errors.UnknownStateWarning")
@parametrize_with_checks(
    [MarkovField(l1=2.0), CRFClassifier(l1=2.0)], expected_failed_checks=lambda e: EXEMPT[type(e)], xfail_strict=True
)
def test_scikit_learns_checks(estimator, check) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 150)
    b = np.where(rng.random(150) < 0.85, a, 1 - a)
    c = np.where(rng.random(150) < 0.7, b + rng.integers(0, 2, 150), 2)
    table = pd.DataFrame({"a": a.astype(float), "b": b.astype(float), "c": c.astype(float)})
    return table.mask(rng.random(table.shape) < 0.1)


@pytest.mark.parametrize("kind", [MarkovField, CRFClassifier, RelationalField])
def test_every_parameter_survives_clone_and_set_params(kind) -> None:
    options = {
        "induction": IdealParent(threshold=(0.1, 0.3), batch_size=7, steps_per_batch="converge"),
        "objective": "cd",
        "l1": 0.5,
        "l2": 0.25,
        "selection": EBIC(gamma=0.25),
        "refit": True,
        "features": Features(3, "all", order_penalty=3.0, coding="reference", penalize_biases=True),
        "penalty": "group",
        "missing": EM(max_error=0.05),
        "inference": MeanField(tolerance=1e-3),
        "kinds": {"a": "ordinal"},
        "solver": Solver(1e-3, 0.5, 11, False, 2, "folder", "dask://host:8786", FitCallbacks(on_iteration=print)),
        "n_jobs": 2,
        "random_state": 9,
    }
    if kind is MarkovField:
        options |= {"latent": {"topic": 2}, "observed": ["b"]}
    elif kind is CRFClassifier:
        options |= {"label_penalty": 3.0, "class_weight": {"a": 2.0}}
    else:
        options |= {"templates": ["across owner"]}
    assert kind().get_params(deep=False).keys() == options.keys()
    assert clone(kind(**options)).get_params(deep=False) == options
    assert kind().set_params(**options).get_params(deep=False) == options
    defaults = kind().get_params()
    assert not [name for name, value in options.items() if value == defaults[name]]


def test_parameters_of_abbreviated_option_objects_are_listed() -> None:
    params = MarkovField().get_params()
    assert params["induction"] == "cfi"
    assert params["induction__threshold"] == 0.2
    assert params["features__expand"] == "active"
    assert params["solver__max_iter"] == Solver().max_iter
    assert "induction__threshold" not in MarkovField(induction="grafting").get_params()
    assert "induction__threshold" not in MarkovField().get_params(deep=False)


def test_setting_an_option_replaces_the_abbreviation_by_an_object() -> None:
    given = CFI(batch_size=5)
    field = MarkovField(induction=given).set_params(
        induction__threshold=0.1, features__max_order=4, features__expand="all"
    )
    assert field.induction == CFI(threshold=0.1, batch_size=5)
    assert given == CFI(batch_size=5)
    assert field.features == Features(max_order=4, expand="all")
    changed = MarkovField().set_params(induction="grafting", induction__batch_size=3, selection__folds=2)
    assert changed.induction == Grafting(batch_size=3)
    assert changed.selection == HeldOut(folds=2)
    assert clone(changed).get_params() == changed.get_params()


def test_an_option_that_an_object_does_not_have_is_refused_with_those_it_has() -> None:
    with pytest.raises(ValueError, match=r"Grafting has no option 'threshold'.*batch_size, steps_per_batch"):
        MarkovField(induction="grafting").set_params(induction__threshold=0.1)
    with pytest.raises(ValueError, match="nonsense"):
        MarkovField().set_params(nonsense=1)


def test_observed_columns_may_be_given_to_the_constructor(frame) -> None:
    at_fit = MarkovField(l1=2.0, n_jobs=1).fit(frame, observed=["c"])
    at_start = MarkovField(l1=2.0, n_jobs=1, observed=["c"]).fit(frame)
    assert np.array_equal(at_start.field_.theta, at_fit.field_.theta)
    assert set(at_start.states_) == {"a", "b"}
    assert set(at_start.fit(frame, observed=["a"]).states_) == {"b", "c"}
    search = GridSearchCV(MarkovField(n_jobs=1, observed=["c"]), {"l1": [0.5, 40.0]}, cv=3).fit(frame)
    assert set(search.best_estimator_.states_) == {"a", "b"}


def test_a_fitted_field_survives_pickling(frame) -> None:
    field = MarkovField(l1=2.0, n_jobs=1).fit(frame)
    again = pickle.loads(pickle.dumps(field))
    assert again.score(frame) == field.score(frame)
    pd.testing.assert_frame_equal(again.features_, field.features_)


def test_refitting_forgets_the_columns_of_the_fit_before(frame) -> None:
    field = MarkovField(l1=2.0, n_jobs=1).fit(frame)
    field.fit(frame[["c", "a"]].to_numpy())
    fresh = MarkovField(l1=2.0, n_jobs=1).fit(frame[["c", "a"]].to_numpy())
    assert field.states_.keys() == {"x0", "x1"}
    assert not hasattr(field, "feature_names_in_")
    assert np.array_equal(field.field_.theta, fresh.field_.theta)


def test_grid_search_over_l1_and_threshold(frame) -> None:
    search = GridSearchCV(
        MarkovField(l1=2.0, n_jobs=1), {"l1": [0.5, 40.0], "induction__threshold": [0.1, (0.2, 0.3)]}, cv=3
    )
    search.fit(frame)
    assert search.best_params_["l1"] == 0.5
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_pipelines_with_a_field_at_the_end_and_in_the_middle(frame) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 3))
    X[:, 1] += X[:, 0]
    bins = KBinsDiscretizer(n_bins=4, encode="ordinal", quantile_method="averaged_inverted_cdf")
    at_end = make_pipeline(bins, MarkovField(l1=2.0, n_jobs=1)).fit(X)
    assert np.isfinite(at_end.score(X))
    y = (frame["a"].fillna(0) + frame["b"].fillna(0) > 1).astype(int)
    middle = make_pipeline(MarkovField(l1=2.0, n_jobs=1), StandardScaler(), CRFClassifier(l1=2.0, n_jobs=1))
    assert (cross_val_score(middle, frame, y, cv=3) > 0.8).all()


def test_set_output_gives_the_frame_that_was_asked_for(frame) -> None:
    array = frame.to_numpy()
    plain = MarkovField(l1=2.0, n_jobs=1).fit(array).transform(array)
    assert isinstance(plain, np.ndarray)
    as_pandas = MarkovField(l1=2.0, n_jobs=1).set_output(transform="pandas").fit(array).transform(array)
    assert isinstance(as_pandas, pd.DataFrame)
    assert list(as_pandas.columns) == ["x0", "x1", "x2"]
    assert np.array_equal(as_pandas.to_numpy().astype(float), plain)
    as_polars = MarkovField(l1=2.0, n_jobs=1).set_output(transform="polars").fit(frame).transform(frame)
    assert isinstance(as_polars, pl.DataFrame)
    assert as_polars.columns == ["a", "b", "c"]
    assert np.array_equal(as_polars.to_numpy().astype(float), plain)
    from_polars = MarkovField(l1=2.0, n_jobs=1).set_output(transform="pandas").fit(pl.from_pandas(frame))
    assert isinstance(from_polars.transform(pl.from_pandas(frame)), pd.DataFrame)


def test_a_class_in_place_of_an_object_is_refused() -> None:
    with pytest.raises(ValueError, match=r"got the class CFI: write CFI\(\.\.\.\)"):
        MarkovField(l1=2.0, induction=CFI).fit([[0, 1], [1, 0], [1, 1]])


def test_weights_and_groups_reach_an_estimator_through_pipelines_and_searches() -> None:
    rng = np.random.default_rng(0)
    X, groups, weight = rng.normal(size=(90, 3)), np.repeat(np.arange(30), 3), rng.integers(1, 4, 90).astype(float)
    y = (X[:, 0] + rng.normal(size=90) > 0).astype(int)
    roles = {"sample_weight": weight, "groups": groups}
    Z = StandardScaler().fit(X, sample_weight=weight).transform(X)
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        for model, labels in ((CRFClassifier(l1=1.0), (y,)), (MarkovField(l1=1.0), ())):
            model.set_fit_request(sample_weight=True, groups=True).set_score_request(sample_weight=True)
            pipeline = make_pipeline(scaler, model)
            direct = clone(model).fit(Z, *labels, **roles)
            assert pipeline.fit(X, *labels, **roles)[-1].objective_ == direct.objective_
            grid = {f"{type(model).__name__.lower()}__l1": [1.0, 50.0]}
            search = GridSearchCV(pipeline, grid, cv=GroupKFold(3)).fit(X, *labels, **roles)
            assert search.best_estimator_[-1].l1_ == search.best_params_[next(iter(grid))]
        found = make_pipeline(MarkovField().set_fit_request(groups=True)).fit(X > 0, groups=groups)[-1]
    assert found.l1_ == MarkovField().fit(X > 0, groups=groups).l1_


def test_probabilities_of_one_column_fit_metrics_and_calibration() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    X = pd.DataFrame({"y": y, "a": np.where(rng.random(300) < 0.8, y, 1 - y), "size": y + rng.normal(size=300)})
    field = MarkovField(l1=1.0).fit(X)
    p = field.predict_proba(X, column="y")
    np.testing.assert_array_equal(p, field.predict_proba(X)["y"])
    assert roc_auc_score(y, p[:, 1]) > 0.85
    assert log_loss(y, p) < 0.5
    shares, means = calibration_curve(y, p[:, 1], n_bins=3)
    assert np.abs(shares - means).max() < 0.15
    np.testing.assert_array_equal(field.predict_proba(X, column=0), p)

    def score(model, rows):
        return roc_auc_score(rows["y"], model.predict_proba(rows, column="y")[:, 1])

    search = GridSearchCV(MarkovField(), {"l1": [1.0, 1000.0]}, scoring=score, cv=3).fit(X)
    assert search.best_params_ == {"l1": 1.0}
    assert cross_val_score(MarkovField(l1=1.0), X, scoring=score, cv=3).min() > 0.8
    for column in ("size", "z"):
        with pytest.raises(DataError, match=f"Column '{column}' has no probabilities of states; .* y, a"):
            field.predict_proba(X, column=column)
