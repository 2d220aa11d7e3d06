"""Evidence for edges: that of a slow computation, calibrated where nothing depends, precise where a graph is known."""

from __future__ import annotations

import warnings

import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2
from sklearn.exceptions import ConvergenceWarning

from sparsefield import CRFClassifier, MarkovField, Solver, load
from sparsefield.errors import SelectionWarning
from sparsefield.solver import evidence


def draw_chain(n_rows: int, n_columns: int, seed: int, weight: float = 1.0) -> np.ndarray:
    """Columns of 0 and 1, each of which depends on the one before."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n_rows, n_columns))
    for k in range(1, n_columns):
        X[:, k] = rng.random(n_rows) < 1.0 / (1.0 + np.exp(-weight * (2.0 * X[:, k - 1] - 1.0)))
    return X.astype(float)


def evidence_of(field: MarkovField) -> dict[frozenset[str], tuple[float, float]]:
    return {frozenset(row[:2]): row[-2:] for row in field.edges_.rows()}


def slow_p_value(codes: np.ndarray, weight: np.ndarray, pair: tuple[int, int]) -> float:
    """The test of one edge of a binary table: logistic regressions of its ends, with a ridge of 1."""
    estimate, information, scores, (n_rows, n_columns) = 0.0, 0.0, np.zeros(len(codes)), codes.shape
    for a, b in (pair, pair[::-1]):
        design = codes.copy()
        design[:, a] = 1.0
        ridge = np.diag([0.0 if k == a else 1.0 for k in range(n_columns)])
        theta = np.zeros(n_columns)
        for _ in range(30):
            p = 1.0 / (1.0 + np.exp(-design @ theta))
            hessian = (design.T * (weight * p * (1.0 - p))) @ design + ridge
            theta -= np.linalg.solve(hessian, design.T @ (weight * (p - codes[:, a])) + ridge @ theta)
        inverse = np.linalg.inv(hessian)
        estimate += theta[b] / inverse[b, b]
        information += 1.0 / inverse[b, b]
        scores += weight * (p - codes[:, a]) * (design @ inverse[b]) / inverse[b, b]
    variance = max(2.0 * information, np.sum(scores**2) / (1.0 - n_columns / n_rows))
    return float(chi2.sf(estimate**2 / variance, 1))


@pytest.mark.parametrize("weighted", [False, True])
def test_p_values_are_those_of_a_slow_computation(weighted: bool) -> None:
    X = draw_chain(150, 4, seed=3)
    weight = np.random.default_rng(0).integers(1, 4, len(X)).astype(float) if weighted else np.full(len(X), 5.0)
    learned = MarkovField(l1=2.0, n_jobs=1).fit(X, sample_weight=weight).field_
    on = np.array([variable.states[int(variable.position_of_code[1])] for variable in learned.schema.variables])
    codes = (X[:, [int(name[1:]) for name in learned.schema.names]] == on).astype(float)
    record = learned.record.evidence
    assert record is not None
    assert record.tested == 6
    for ends, p_value in zip(record.edges, record.p_values, strict=True):
        if p_value <= evidence.SCREEN:
            assert p_value == pytest.approx(slow_p_value(codes, weight / weight.mean(), ends), rel=0.05)


def test_weights_are_no_numbers_of_rows_unless_rows_were_merged() -> None:
    X = draw_chain(300, 5, seed=0)
    p_values = [
        MarkovField(l1=5.0 * size, n_jobs=1).fit(X, sample_weight=np.full(300, size)).edges_["p_value"].to_numpy()
        for size in (1.0, 10.0)
    ]
    np.testing.assert_allclose(np.log(p_values[1][:4]), np.log(p_values[0][:4]), rtol=0.01)
    rows, counts = np.unique(X, axis=0, return_counts=True)
    merged = MarkovField(l1=5.0, n_jobs=1).fit(rows, sample_weight=counts.astype(float)).edges_["p_value"].to_numpy()
    assert merged[0] > 1e3 * p_values[0][0]


def test_rows_of_a_group_are_no_independent_evidence() -> None:
    rng, p_values = np.random.default_rng(0), []
    for _ in range(20):
        person = np.repeat(np.arange(60), 8)
        X = rng.integers(0, 2, (60, 5))[person] ^ (rng.random((480, 5)) < 0.1)
        p_values += evidence_of(MarkovField(l1=1.0, n_jobs=1).fit(X.astype(float), groups=person)).values()
    assert len(p_values) > 150
    assert np.mean(np.array(p_values)[:, 0] < 0.05) < 0.1


def test_few_rows_make_few_false_edges() -> None:
    shares, n_true = [], 0
    for seed in range(15):
        tests = evidence_of(MarkovField(l1=0.5, n_jobs=1).fit(draw_chain(100, 8, seed, weight=2.0)))
        hold = {ends for ends, (_, q_value) in tests.items() if q_value <= 0.05}
        true = {frozenset((f"x{k}", f"x{k + 1}")) for k in range(7)}
        shares.append(len(hold - true) / max(len(hold), 1))
        n_true += len(hold & true)
    assert np.mean(shares) <= 0.05
    assert n_true >= 0.85 * 15 * 7


def test_edges_of_columns_that_are_seldom_on_are_true() -> None:
    rng, n_false, n_true = np.random.default_rng(0), 0, 0
    for _ in range(3):
        rates = np.exp(rng.uniform(np.log(0.004), np.log(0.05), 40))
        X = rng.random((1500, 40)) < rates
        for k in range(0, 20, 2):
            X[rng.random(1500) < 0.5 * rates[k : k + 2].min(), k : k + 2] = True
        tests = evidence_of(MarkovField(l1=3.0, n_jobs=1).fit(X.astype(float)))
        hold = {ends for ends, (_, q_value) in tests.items() if q_value <= 0.05}
        true = {frozenset((f"x{k}", f"x{k + 1}")) for k in range(0, 20, 2)}
        n_false += len(hold - true)
        n_true += len(hold & true)
    assert n_false <= 1
    assert n_true >= 15


def test_a_mediator_with_missing_cells_makes_no_edge() -> None:
    n_false = n_true = 0
    for seed in range(10):
        X = draw_chain(800, 4, seed, weight=2.0)
        X[np.random.default_rng(seed).random(800) < 0.5, 1] = np.nan
        tests = evidence_of(MarkovField(l1=5.0, n_jobs=1).fit(X))
        n_false += tests.get(frozenset(("x0", "x2")), (1.0, 1.0))[1] <= 0.05
        n_true += tests[frozenset(("x1", "x2"))][1] <= 0.05
    assert n_false <= 1
    assert n_true == 10


def test_edges_that_are_not_monotone_hold() -> None:
    rng = np.random.default_rng(0)
    x, o = rng.normal(size=500), rng.integers(1, 6, 500)
    table = pl.DataFrame(
        {
            "x": x,
            "y": x**2 + rng.normal(size=500),
            "o": o,
            "ends": ((np.abs(o - 3) == 2) ^ (rng.random(500) < 0.1)).astype(int),
            "turned": np.where(rng.random(500) < 0.8, np.abs(o - 3) + 1, rng.integers(1, 4, 500)),
        }
    )
    tests = evidence_of(MarkovField(l1=5.0, n_jobs=1).fit(table))
    hold = {ends for ends, (_, q_value) in tests.items() if q_value <= 0.05}
    assert hold >= {frozenset("xy"), frozenset(("o", "ends")), frozenset(("o", "turned"))}
    assert not any(len(ends & {"x", "y"}) == 1 for ends in hold)


def test_no_edge_of_independent_columns_holds_in_nearly_all_tables() -> None:
    rng, n_holding, p_values = np.random.default_rng(0), 0, []
    for _ in range(24):
        table = pl.DataFrame(
            {
                **{f"b{k}": rng.integers(0, 2, 300) for k in range(3)},
                "c": rng.choice(list("abc"), 300),
                "o": rng.integers(1, 6, 300),
                "n": rng.normal(size=300),
            }
        )
        field = MarkovField(l1=0.1, n_jobs=1).fit(table)
        tests = evidence_of(field)
        n_holding += any(q_value <= 0.05 for _, q_value in tests.values())
        p_values += [p_value for p_value, _ in tests.values()]
    assert n_holding <= 3
    assert len(p_values) > 300
    assert np.mean(np.array(p_values) < 0.05) < 0.07
    assert np.mean(np.array(p_values) < 0.3) == pytest.approx(0.3, abs=0.08)


def test_true_edges_hold_beside_many_that_only_help_predictions() -> None:
    X = draw_chain(1500, 12, seed=1)
    true = {frozenset((f"x{k}", f"x{k + 1}")) for k in range(11)}
    tests = evidence_of(MarkovField(l1=5.0, n_jobs=1).fit(X))
    hold = {ends for ends, (_, q_value) in tests.items() if q_value <= 0.05}
    assert len(tests) > 2 * len(hold)
    assert hold >= true
    assert len(hold - true) <= 2
    untested = MarkovField(l1=5.0, solver=Solver(test_edges=False), n_jobs=1).fit(X)
    assert np.isnan(list(evidence_of(untested).values())).all()
    assert evidence_of(untested).keys() == tests.keys()


def test_edges_outside_the_field_count_where_not_all_are_in_the_regressions(monkeypatch) -> None:
    X = draw_chain(600, 8, seed=2)
    every = evidence_of(MarkovField(l1=5.0, n_jobs=1).fit(X))
    monkeypatch.setattr(evidence, "MIN_ROWS", 1e9)
    selected = evidence_of(MarkovField(l1=5.0, n_jobs=1).fit(X))
    assert selected.keys() == every.keys()
    assert len(selected) < 28
    for ends, (p_value, _) in selected.items():
        assert np.log(p_value + 1e-12) == pytest.approx(np.log(every[ends][0] + 1e-12), abs=1.5)
    monkeypatch.setattr(evidence, "MIN_ROWS", 0.0)
    monkeypatch.setattr(evidence, "MAX_AT_FIXED_L1", 0.0)
    assert evidence_of(MarkovField(l1=5.0, n_jobs=1).fit(X)) == selected
    monkeypatch.setattr(evidence, "MAX_OPERATIONS", 0.0)
    monkeypatch.setattr(evidence, "MAX_ADDED", 0.0)
    with pytest.warns(SelectionWarning, match="too wide for tests of edges"):
        assert MarkovField(l1=5.0, n_jobs=1).fit(X).field_.record.evidence is None


def test_missing_cells_make_edges_less_sure() -> None:
    X = draw_chain(800, 4, seed=4, weight=0.4)
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.4, np.nan, X)
    whole, part = (evidence_of(MarkovField(l1=1.0, n_jobs=1).fit(table)) for table in (X, gaps))
    true = [frozenset((f"x{k}", f"x{k + 1}")) for k in range(3)]
    assert sum(np.log(part[ends][0]) for ends in true) > sum(np.log(whole[ends][0]) for ends in true)


def test_evidence_is_the_same_with_any_threads_and_saved(tmp_path) -> None:
    X = draw_chain(3000, 6, seed=5)
    field = MarkovField(l1=5.0, n_jobs=1).fit(X)
    assert field.edges_.equals(MarkovField(l1=5.0, n_jobs=2).fit(X).edges_)
    field.save(tmp_path / "model")
    assert load(tmp_path / "model").edges_.equals(field.edges_)


def test_labels_given_covariates_are_tested_and_other_objectives_are_not() -> None:
    X = draw_chain(500, 4, seed=6)
    tests = evidence_of(CRFClassifier(l1=1.0, n_jobs=1).fit(X[:, 1:], X[:, 0].astype(int)))
    assert tests[frozenset(("y", "x0"))][1] < 1e-6
    for options in ({"objective": "cd"}, {"objective": "ml"}, {"latent": {"z": 2}}, {"missing": "mean-field"}):
        table = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            edges = MarkovField(l1=3.0, n_jobs=1, **options).fit(table).edges_
        assert edges["q_value"].is_nan().all()
