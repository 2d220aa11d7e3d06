"""Evidence for edges: that of a slow computation, calibrated where nothing depends, precise where a graph is known."""

from __future__ import annotations

import warnings

import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2
from sklearn.exceptions import ConvergenceWarning

from sparsefield import CRFClassifier, MarkovField, load
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


def slow_p_value(codes: np.ndarray, theta: np.ndarray, pair: tuple[int, int], l2: float) -> float:
    """The test of one edge of a binary field, from loops over rows and numeric Hessians.

    ``theta`` is (columns, columns), biases on the diagonal; an entry beside it is the weight of the columns' product.
    """
    n, p = codes.shape
    score, parts = 0.0, np.zeros(n)
    for a, b in (pair, pair[::-1]):
        design = codes.copy()
        design[:, a] = 1.0

        def loss(beta: np.ndarray, design: np.ndarray = design, answers: np.ndarray = codes[:, a]) -> float:
            logits = design @ beta
            return float(np.sum(np.log1p(np.exp(logits)) - answers * logits))

        step, unit = 1e-3, np.eye(p)
        hessian = np.empty((p, p))
        for i in range(p):
            for j in range(p):
                corners = [
                    s * t * loss(theta[a] + step * (s * unit[i] + t * unit[j])) for s in (1, -1) for t in (1, -1)
                ]
                hessian[i, j] = sum(corners) / (4 * step**2)
        others = [k for k in range(p) if k != b]
        ridge = np.diag([0.0 if k == a else l2 for k in others])
        slopes = np.linalg.solve(hessian[np.ix_(others, others)] + ridge, hessian[others, b])
        errors = 1.0 / (1.0 + np.exp(-design @ theta[a])) - codes[:, a]
        own = np.array([errors[row] * (design[row, b] - slopes @ design[row, others]) for row in range(n)])
        score += (hessian[b, b] - hessian[b, others] @ slopes) * theta[a, b] - own.sum()
        parts += own
    return float(chi2.sf((1.0 - p / n) * score**2 / np.sum(parts**2), 1))


@pytest.mark.parametrize("weighted", [False, True])
def test_p_values_are_those_of_a_slow_computation(weighted: bool) -> None:
    X = draw_chain(150, 4, seed=3)
    times = np.random.default_rng(0).integers(1, 4, len(X)) if weighted else np.ones(len(X), dtype=int)
    field = MarkovField(l1=2.0, n_jobs=1).fit(X, sample_weight=times.astype(float))
    learned = field.field_
    codes = np.repeat(X, times, axis=0)
    on = np.array([variable.states[int(variable.position_of_code[1])] for variable in learned.schema.variables])
    codes = (codes[:, [int(name[1:]) for name in learned.schema.names]] == on).astype(float)
    theta = np.diag(learned.biases)
    for (a, b), weight in zip(learned.pairs, learned.weights, strict=True):
        theta[a, b] = theta[b, a] = weight
    record = learned.record.evidence
    assert record is not None
    assert record.tested == 6
    for ends, p_value in zip(record.edges, record.p_values, strict=True):
        assert p_value == pytest.approx(slow_p_value(codes, theta, ends, l2=1.0), rel=1e-3)


def test_no_edge_of_independent_columns_holds_in_nearly_all_tables() -> None:
    rng, n_holding, p_values = np.random.default_rng(0), 0, []
    for _ in range(40):
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
    assert n_holding <= 5
    assert len(p_values) > 500
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


def test_edges_outside_the_field_count_where_not_all_are_in_the_regressions(monkeypatch) -> None:
    X = draw_chain(600, 8, seed=2)
    every = evidence_of(MarkovField(l1=5.0, n_jobs=1).fit(X))
    monkeypatch.setattr(evidence, "MIN_ROWS", 1e9)
    selected = evidence_of(MarkovField(l1=5.0, n_jobs=1).fit(X))
    assert selected.keys() == every.keys()
    assert len(selected) < 28
    for ends, (p_value, _) in selected.items():
        assert np.log(p_value + 1e-12) == pytest.approx(np.log(every[ends][0] + 1e-12), abs=1.5)
    monkeypatch.setattr(evidence, "MAX_AT_FIXED_L1", 0.0)
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
