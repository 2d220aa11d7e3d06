"""Ways of fitting reach the same optimum, and threads the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import Row, SlowField, candidate_pairs, rows_of, violation
from plain import fill

from sparsefield import CFI, EM, CRFClassifier, MarkovField, Solver, config
from sparsefield.data import as_source, compile_table
from sparsefield.inference import MeanField

ALL_COMPLETIONS = EM(copies=96, max_copies=384, max_error=2e-3)
"""No row of `correlated` has more completions than 96: none is drawn."""

RULES = ("cfi", "grafting", "ideal-parent", "full")


def correlated(seed: int, n_rows: int = 120, missing: float = 0.0) -> np.ndarray:
    """Columns of 2, 3, 2, 4 and 2 states, each leaning on the one before, and a number."""
    rng = np.random.default_rng(seed)
    columns = [rng.choice(2, n_rows, p=[0.6, 0.4])]
    for count in (3, 2, 4, 2):
        fresh = rng.choice(count, n_rows, p=np.arange(count, 0, -1) / np.arange(count, 0, -1).sum())
        columns.append(np.where(rng.random(n_rows) < 0.5, columns[-1] % count, fresh))
    X = np.column_stack(columns).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return np.column_stack([X, rng.normal(size=n_rows) + 0.7 * np.nan_to_num(X[:, 0])])


def candidates_violation(field: MarkovField, X: np.ndarray, weight: np.ndarray | None = None) -> float:
    """The largest violation over all candidates, by the oracle; gaps as the field fills or completes them now."""
    learned, schema = field.field_, field.field_.schema
    table = compile_table(as_source(X), schema, sample_weight=weight)
    slow = SlowField(schema, learned.biases, learned.pairs, learned.weights)
    if isinstance(field.missing, EM):
        rows = [row for incomplete in rows_of(table) for row in completions(slow, incomplete)]
    else:
        fill(schema, list(table.blocks), MeanField(tolerance=1e-10, max_sweeps=5000), learned.graphs, learned.theta)
        rows = rows_of(table)
    pairs = candidate_pairs(schema)
    gradient = slow.pl_gradient(rows, pairs)
    held = {(a, b): w for a, b, w in slow.pairs}
    theta = np.array([*slow.biases, *(held.get(pair, 0.0) for pair in pairs)])
    n = schema.n_target_columns
    factors = np.append(np.ones(n), learned.layout.feature_factors(np.array(pairs)))
    ridge = field.l2 * np.append(np.ones(n), learned.layout.l2_factors(np.array(pairs)))
    worst = 0.0
    for k, (w, g) in enumerate(zip(theta, gradient, strict=True)):
        free = k < n and not field.resolve("features").penalize_biases
        l1, l2 = (0.0, 0.0) if free else (field.l1 * factors[k], ridge[k])
        worst = max(worst, violation(w, g + l2 * w, l1))
    return worst


def completions(slow: SlowField, row: Row) -> list[Row]:
    """All completions of a row, weighted by their probabilities; its gaps are not predicted."""
    given = row.q[slow.n_target_columns :]
    joint = slow.joint(row.codes, given).items()
    return [Row(row.codes, tuple(slow.one_hot(cells, given)), p * row.weight) for cells, p in joint]


def objective_by_oracle(field: MarkovField, X: np.ndarray, weight: np.ndarray | None = None) -> float:
    learned = field.field_
    table = compile_table(as_source(X), learned.schema, sample_weight=weight)
    slow = SlowField(learned.schema, learned.biases, learned.pairs, learned.weights)
    theta, factors = learned.weights, learned.layout.feature_factors(learned.pairs)
    ridge = 0.5 * field.l2 * learned.layout.l2_factors(learned.pairs) @ np.square(theta)
    if field.resolve("features").penalize_biases:
        theta, factors = np.append(learned.biases, theta), np.append(np.ones(len(learned.biases)), factors)
        ridge += 0.5 * field.l2 * np.square(learned.biases).sum()
    return slow.pl_loss(rows_of(table)) + field.l1 * factors @ np.abs(theta) + ridge


@pytest.mark.parametrize(("l1", "l2", "penalize_biases"), [(2.0, 1.0, True), (0.0, 0.5, False), (3.0, 0.0, False)])
def test_all_rules_reach_the_same_certified_optimum(l1, l2, penalize_biases) -> None:
    X = correlated(1)
    options = {"l1": l1, "l2": l2, "features__penalize_biases": penalize_biases, "n_jobs": 1}
    options |= {"solver__kkt_tol": 1e-4, "solver__tol": 1e-9, "solver__max_iter": 4000}
    fields = {rule: MarkovField(l1=2.0).set_params(induction=rule, **options).fit(X, observed=[5]) for rule in RULES}
    best = min(field.objective_ for field in fields.values())
    reference = dense_weights(fields["full"])
    for rule, field in fields.items():
        assert field.converged_, rule
        assert field.objective_ == pytest.approx(objective_by_oracle(field, X), rel=1e-10)
        assert field.objective_ == pytest.approx(best, rel=1e-6)
        np.testing.assert_allclose(dense_weights(field), reference, atol=5e-3)
        allowed = 1e-4 * (l1 or 1.0)
        assert field.kkt_violation_ <= allowed
        assert candidates_violation(field, X) == pytest.approx(field.kkt_violation_, abs=1e-9)


def dense_weights(field: MarkovField) -> np.ndarray:
    """All pair weights, and the logits of states without them, which biases determine up to a constant per variable."""
    learned, schema = field.field_, field.field_.schema
    W = np.zeros((schema.n_columns, schema.n_columns))
    W[tuple(learned.pairs.T)] = learned.weights
    parts = [W.ravel()]
    for k, variable in enumerate(schema.targets):
        logits = variable.coded @ learned.biases[schema.target_offsets[k] : schema.target_offsets[k + 1]]
        parts.append(logits - logits.mean())
    return np.concatenate(parts)


@pytest.mark.parametrize(
    ("rule", "penalize_biases", "missing"), [("cfi", False, ALL_COMPLETIONS), ("grafting", True, "mean-field")]
)
def test_with_gaps_all_rules_end_certified_and_close_together(rule, penalize_biases, missing) -> None:
    """Beliefs of hidden cells move until they change by less than 1e-3, so the certificate, taken with cells that have
    come all the way, is off by about that much per hidden cell. Completions, here all of them, are nearer to theirs."""
    X = correlated(4, missing=0.15)
    latent = np.isnan(X).sum()
    options = {"features__penalize_biases": penalize_biases, "missing": missing, "n_jobs": 1}
    field = MarkovField(l1=2.0).set_params(induction=rule, **options).fit(X, observed=[5])
    full = MarkovField(l1=2.0).set_params(induction="full", **options).fit(X, observed=[5])
    assert field.converged_
    assert field.objective_ == pytest.approx(full.objective_, rel=2e-3)
    assert candidates_violation(field, X) <= 0.02 + 1e-3 * latent


def test_without_certificate_a_fit_stops_where_its_rule_does_and_says_how_far_off_it_is() -> None:
    X = correlated(5)
    field = MarkovField(solver=Solver(certify=False, tol=1e-8), induction=CFI(threshold=0.6), l1=1.0, n_jobs=1).fit(
        X, observed=[5]
    )
    certified = MarkovField(solver=Solver(certify=True), induction=CFI(threshold=0.6), l1=1.0, n_jobs=1).fit(
        X, observed=[5]
    )
    assert field.kkt_violation_ > 0.1
    assert not field.converged_
    assert candidates_violation(field, X) == pytest.approx(field.kkt_violation_, abs=1e-9)
    assert certified.kkt_violation_ <= 0.01
    assert certified.objective_ < field.objective_


@pytest.mark.parametrize(
    "options",
    [
        {
            "solver__stages": 2,
            "induction__batch_size": 7,
            "induction": "grafting",
            "induction__steps_per_batch": "converge",
        },
        {"induction__threshold": (0.5, 0.05)},
    ],
)
def test_the_way_there_does_not_change_where_a_certified_fit_ends(options) -> None:
    X = correlated(6)
    tight = {"solver__kkt_tol": 1e-4, "solver__tol": 1e-9, "solver__max_iter": 4000, "n_jobs": 1}
    there = MarkovField(l1=2.0).set_params(**tight, **options).fit(X, observed=[5])
    plain = MarkovField(l1=2.0).set_params(induction="full", **tight).fit(X, observed=[5])
    assert there.converged_
    assert there.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    np.testing.assert_allclose(dense_weights(there), dense_weights(plain), atol=5e-3)


def table(n_rows: int = 900, missing: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 2, n_rows)]
    for count in (2, 3, 2, 4, 2, 2, 3):
        columns.append(np.where(rng.random(n_rows) < 0.5, columns[-1] % count, rng.integers(0, count, n_rows)))
    X = np.column_stack(columns).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return X


@pytest.mark.parametrize(("induction", "objective", "missing"), [("cfi", "pl", 0.1), ("grafting", "cd", 0.0)])
def test_any_number_of_threads_gives_the_same_file(tmp_path, objective, induction, missing) -> None:
    X = table(missing=missing)
    assert len(X) > 2 * config.block_rows(len(X))
    outcomes = []
    for n_jobs in (1, 3):
        field = MarkovField(
            l1=2.0,
            objective=objective,
            induction=induction,
            n_jobs=n_jobs,
            solver=Solver(certify=False, max_iter=40),
            random_state=5,
        ).fit(X)
        field.save(tmp_path / "field")
        answers = (field.score(X), field.predict_proba(X)["x4"].tobytes(), field.sample(600, burn_in=5).rows())
        outcomes.append(((tmp_path / "field").read_bytes(), *answers))
    assert outcomes[0] == outcomes[1]


def test_a_classifier_gives_the_same_bits_on_any_number_of_threads() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(900, 4))
    Y = (X[:, :3] + rng.normal(size=(900, 3)) > 0).astype(int)
    fits = [CRFClassifier(l1=2.0, n_jobs=n_jobs).fit(X, Y) for n_jobs in (1, 2, 3)]
    for fit in fits[1:]:
        assert np.array_equal(fits[0].field_.theta, fit.field_.theta)
        assert np.array_equal(np.array(fits[0].predict_proba(X)), np.array(fit.predict_proba(X)))
