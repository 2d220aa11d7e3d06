"""What must hold for any data: names, order and repetition carry no meaning."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sparsefield import Features, MarkovField, Solver

# Some tables have observed columns with missing cells; what the warning says is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::sparsefield.errors.CovariateWarning")

TIGHT = {"l1": 0.7, "solver__kkt_tol": 1e-5, "solver__tol": 1e-10, "solver__max_iter": 3000, "n_jobs": 1}


@st.composite
def tables(draw, min_rows: int = 2, max_rows: int = 14, min_columns: int = 2, max_columns: int = 4):
    """Small tables of small whole numbers, without gaps."""
    shape = draw(st.tuples(st.integers(min_rows, max_rows), st.integers(min_columns, max_columns)))
    return draw(hnp.arrays(np.int64, shape, elements=st.integers(0, 3)))


def weights_by_name(field: MarkovField, rename=lambda column, state: (column, state)) -> dict:
    """{frozenset of (column, state)}: weight}."""
    learned = field.field_
    names = [rename(*name) for name in learned.schema.column_names]
    found = {frozenset([names[s]]): w for s, w in enumerate(learned.biases)}
    found |= {frozenset([names[a], names[b]]): w for (a, b), w in zip(learned.pairs, learned.weights, strict=True)}
    return found


def weights_of_pairs(field: MarkovField) -> dict:
    return {key: w for key, w in weights_by_name(field).items() if len(key) == 2}


def nominal(X: np.ndarray) -> dict[str, str]:
    return {f"x{k}": "nominal" for k in range(X.shape[1])}


def assert_same(one: dict, other: dict, tolerance: float = 2e-4) -> None:
    for key in one.keys() | other.keys():
        assert one.get(key, 0.0) == pytest.approx(other.get(key, 0.0), abs=tolerance), key


def base(column: np.ndarray) -> int | None:
    """The state without a feature: 0 of 0 and 1, else the most frequent; None where two are equally frequent,
    because then their order settles it."""
    states, counts = np.unique(column, return_counts=True)
    if states.tolist() == [0, 1]:
        return 0
    return int(states[counts.argmax()]) if (counts == counts.max()).sum() == 1 else None


@given(X=tables(), shuffle=st.permutations(range(4)))
def test_relabeling_states_permutes_the_outcome(X, shuffle) -> None:
    labels = np.array(shuffle)
    for column in X.T:
        assume(base(column) is not None and labels[base(column)] == base(labels[column]))
    one = MarkovField(kinds=nominal(X)).set_params(**TIGHT).fit(X)
    other = MarkovField(kinds=nominal(X)).set_params(**TIGHT).fit(labels[X])
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-6)
    assert_same(weights_by_name(one, lambda c, s: (c, labels[s])), weights_by_name(other))
    for column, states in one.states_.items():
        p, q = one.predict_proba(X)[column], other.predict_proba(labels[X])[column]
        order = [other.states_[column].index(labels[s]) for s in states]
        np.testing.assert_allclose(p, q[:, order], atol=1e-4)


@given(X=tables(), seed=st.integers(0, 2**32 - 1), missing=st.booleans())
def test_the_order_of_rows_does_not_matter(X, seed, missing) -> None:
    rng = np.random.default_rng(seed)
    X = X.astype(float)
    if missing:
        X[:-1][rng.random(X[:-1].shape) < 0.2] = np.nan
    order = rng.permutation(len(X))
    one, other = MarkovField(l1=2.0).set_params(**TIGHT).fit(X), MarkovField(l1=2.0).set_params(**TIGHT).fit(X[order])
    if missing:
        # Hidden cells are filled between steps, until they settle to 1e-3.
        assert other.objective_ == pytest.approx(one.objective_, rel=1e-2, abs=1e-2)
        return
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-6)
    assert_same(weights_by_name(one), weights_by_name(other))


@given(X=tables(), seed=st.integers(0, 2**32 - 1))
def test_the_order_of_columns_does_not_matter_to_pl(X, seed) -> None:
    order = np.random.default_rng(seed).permutation(X.shape[1])
    one, other = (
        MarkovField(l1=2.0).set_params(**TIGHT).fit(X),
        MarkovField(l1=2.0).set_params(**TIGHT).fit(X[:, order]),
    )
    names = {f"x{new}": f"x{old}" for new, old in enumerate(order)}
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-6)
    assert_same(weights_by_name(one), weights_by_name(other, lambda c, s: (names[c], s)))


@given(X=tables(), seed=st.integers(0, 2**32 - 1))
def test_a_row_twice_is_a_row_of_weight_2(X, seed) -> None:
    count = np.random.default_rng(seed).integers(1, 4, len(X))
    one = MarkovField(l1=2.0).set_params(**TIGHT).fit(np.repeat(X, count, axis=0))
    other = MarkovField(l1=2.0).set_params(**TIGHT).fit(X, sample_weight=count)
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-6)
    assert_same(weights_by_name(one), weights_by_name(other))


@given(X=tables(), factor=st.sampled_from([0.25, 3.0, 100.0]))
def test_weights_and_penalties_scale_together(X, factor) -> None:
    one = MarkovField(l1=2.0).set_params(**TIGHT).fit(X)
    other = (
        MarkovField()
        .set_params(**{**TIGHT, "l1": 0.7 * factor, "l2": factor})
        .fit(X, sample_weight=np.full(len(X), factor))
    )
    assert other.objective_ == pytest.approx(factor * one.objective_, rel=1e-6)
    # Different biases of an ordinal column may be equivalent.
    assert_same(weights_of_pairs(one), weights_of_pairs(other), 1e-3)
    found, again = one.predict_proba(X), other.predict_proba(X)
    for column, probabilities in found.items():
        np.testing.assert_allclose(again[column], probabilities, rtol=0, atol=1e-3)


@pytest.mark.parametrize(("induction", "objective"), [("cfi", "pl"), ("full", "cd")])
@given(X=tables(min_rows=2), l1=st.sampled_from([0.0, 0.3, 2.0]), penalize_biases=st.booleans())
def test_without_gaps_the_objective_never_rises(induction, objective, X, l1, penalize_biases) -> None:
    field = MarkovField(
        induction=induction,
        objective=objective,
        l1=l1,
        features=Features(penalize_biases=penalize_biases),
        solver=Solver(max_iter=60),
        n_jobs=1,
        l2=0.5,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        field.fit(X)
    assume(field.n_iter_ > 0)
    values = field.history_["objective"].to_numpy()
    assert (np.diff(values) <= 1e-9 * np.abs(values[:-1])).all()
    assert field.objective_ == values[-1]


@st.composite
def wild_tables(draw):
    """Any small table: constant columns, rare states, empty rows, two rows or one column, many states."""
    n_rows, n_columns = draw(st.integers(2, 8)), draw(st.integers(1, 4))
    columns = []
    for _ in range(n_columns):
        states = draw(st.sampled_from([1, 2, 3, 50]))
        cell = st.one_of(st.none(), st.integers(0, states - 1)) if draw(st.booleans()) else st.integers(0, states - 1)
        column = draw(st.lists(cell, min_size=n_rows, max_size=n_rows))
        columns.append(column if any(v is not None for v in column) else [0] * n_rows)
    X = np.empty((n_rows, n_columns), dtype=object)
    for c, column in enumerate(columns):
        X[:, c] = column
    return X


@pytest.mark.parametrize(("objective", "l1"), [("pl", 0.0), ("cd", 0.5)])
@given(X=wild_tables(), l2=st.sampled_from([0.0, 1.0]), penalize_biases=st.booleans(), observe=st.booleans())
def test_no_table_brings_a_number_that_is_none(objective, l1, X, l2, penalize_biases, observe) -> None:
    observed = [0] if observe and X.shape[1] > 1 else None
    field = MarkovField(
        objective=objective,
        l1=l1,
        l2=l2,
        features=Features(penalize_biases=penalize_biases),
        solver=Solver(max_iter=80),
        n_jobs=1,
    )
    with warnings.catch_warnings():
        # Without penalties, separable data have no optimum: the fit may say that it did not get there.
        warnings.filterwarnings("ignore", message="The fit stopped after")
        field.fit(X, observed=observed)
    assert np.isfinite(field.field_.theta).all()
    assert np.isfinite([field.objective_, field.kkt_violation_, field.score(X)]).all()
    for column, p in field.predict_proba(X).items():
        assert np.isfinite(p).all(), column
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)
    filled = field.transform(X)
    targets = [c for c in range(X.shape[1]) if observed is None or c not in observed]
    assert all(v is not None for v in filled[:, targets].ravel())
    seen = np.array([[v is not None for v in row] for row in X]).reshape(X.shape)
    assert (filled[seen] == X[seen]).all()
    if field.n_iter_:
        assert field.history_["objective"].is_finite().all()
