"""Fits by likelihoods: optima against enumeration, narrow and wide components, and belief propagation."""

from __future__ import annotations

import itertools
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from oracle import SlowField
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

from sparsefield import (
    AIS,
    CRFClassifier,
    Features,
    FixedGraph,
    HeldOut,
    MarkovField,
    OffsetLink,
    Relational,
    RelationalField,
    Solver,
    load,
)
from sparsefield.app.datasets import make_markov_field
from sparsefield.data import as_source, compile_table
from sparsefield.errors import EstimateWarning, WideComponentWarning
from sparsefield.induction import all_pairs
from sparsefield.objectives import likelihood_evaluator, log_likelihood

EXACT = Solver(tol=1e-12, kkt_tol=1e-5)


def chain_rows(n_rows: int = 150, n_columns: int = 4, seed: int = 0, states: int = 2) -> np.ndarray:
    """Rows whose columns form a chain; the second column has three states."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, states, (n_rows, n_columns))
    for k in range(1, n_columns):
        X[:, k] = np.where(rng.random(n_rows) < 0.6, X[:, k - 1], X[:, k])
    X[:, 1] += rng.random(n_rows) < 0.3
    return X


def as_text(X: np.ndarray, missing: float = 0.0) -> pl.DataFrame:
    """Return nominal columns a, b, ... with some cells missing."""
    hidden = np.random.default_rng(1).random(X.shape) < missing
    cells = {
        "abcdefgh"[k]: [None if gone else "uvw"[code] for code, gone in zip(X[:, k], hidden[:, k], strict=True)]
        for k in range(X.shape[1])
    }
    return pl.DataFrame(cells)


def n_targets(field) -> np.ndarray:
    """Return how many columns of each pair are targets, by their names."""
    layout = field.field_.layout
    targets = {variable.name for schema in layout.schemas for variable in schema.targets}
    names = [layout.feature_name(*pair) for pair in field.field_.pairs.tolist()]
    return np.array([(name.variable_a in targets) + (name.variable_b in targets) for name in names])


class Enumerated:
    """The likelihood of a fitted field as a function of the weights of given pairs, by enumeration of all states."""

    def __init__(self, field, table: pl.DataFrame, pairs: np.ndarray) -> None:
        self.schema = field.field_.schema
        compiled = compile_table(as_source(table), self.schema)
        (self.block,), self.pairs = compiled.blocks, pairs
        slow = SlowField(self.schema, [], [], [])
        self.n = self.schema.n_target_columns
        self.states = np.array(slow.assignments([-1] * slow.n_targets))
        columns = np.array([slow.one_hot(state) for state in self.states])
        self.consistent = [
            ((self.states == codes) | (codes < 0)).all(axis=1) for codes in self.block.codes.T.astype(np.int64)
        ]
        own = np.ones((len(columns), len(self.block.covariates)))
        values = np.hstack([columns, own])
        self.features = np.hstack([columns, values[:, pairs[:, 0]] * values[:, pairs[:, 1]]])

    def row_features(self, row: int) -> np.ndarray:
        scale = np.ones(self.features.shape[1])
        outside = self.pairs[:, 1] >= self.n
        scale[self.n :][outside] = self.block.covariates[self.pairs[outside, 1] - self.n, row]
        return self.features * scale

    def loss(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return minus the log-likelihood, and its gradient."""
        total, gradient = 0.0, np.zeros(len(theta))
        for row, consistent in enumerate(self.consistent):
            features = self.row_features(row)
            energies = features @ theta
            for sign, which in ((1.0, np.ones(len(energies), dtype=bool)), (-1.0, consistent)):
                log_sum = logsumexp(energies[which])
                total += sign * log_sum
                gradient += sign * np.exp(energies[which] - log_sum) @ features[which]
        return total, gradient

    def theta_of(self, field) -> np.ndarray:
        """Return the weights of a field for these pairs, 0 for those that it does not have."""
        known = {tuple(pair): w for pair, w in zip(field.field_.pairs.tolist(), field.field_.weights, strict=True)}
        return np.concatenate([field.field_.biases, [known.get(tuple(pair), 0.0) for pair in self.pairs.tolist()]])


CASES = {"complete": ({}, 0.0), "missing": ({}, 0.2), "covariate": ({"observed": ["d"]}, 0.0)}


@pytest.mark.parametrize("case", CASES)
def test_the_optimum_of_a_graph_is_that_of_a_general_optimizer(case) -> None:
    options, missing = CASES[case]
    table = as_text(chain_rows(24), missing)
    if case == "covariate":
        table = table.with_columns(pl.Series("d", np.random.default_rng(2).normal(size=24).round(1)))
    edges = [("a", "b"), ("c", "d"), ("a", "c")]
    rule = FixedGraph(edges=edges)
    field = MarkovField(objective="ml", induction=rule, l1=0.0, l2=0.5, solver=EXACT).fit(table, **options)
    assert field.converged_
    assert field.field_.record.likelihood.selected_by == "ml"
    slow = Enumerated(field, table, rule.start(field.field_.layout))

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradient = slow.loss(theta)
        shrunk = np.where(np.arange(len(theta)) < slow.n, 0.0, 0.5 * theta)
        return loss + 0.5 * float(shrunk @ theta), gradient + shrunk

    found = minimize(objective, np.zeros(slow.n + len(slow.pairs)), jac=True, method="BFGS", options={"gtol": 1e-6})
    assert field.objective_ == pytest.approx(found.fun, rel=1e-9)
    assert slow.theta_of(field)[slow.n :] == pytest.approx(found.x[slow.n :], abs=1e-3)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_a_refit_keeps_the_features_and_has_the_weights_of_the_likelihood(missing) -> None:
    table = as_text(chain_rows(80), missing)
    before = MarkovField(l1=4.0).fit(table)
    field = MarkovField(l1=4.0, refit="ml", solver=EXACT).fit(table)
    record = field.field_.record
    assert record.refit
    assert record.likelihood.selected_by == "pl"
    assert field.mc_error_ == 0.0
    assert set(map(tuple, field.field_.pairs.tolist())) <= set(map(tuple, all_pairs(field.field_.layout).tolist()))
    if not missing:
        np.testing.assert_array_equal(field.field_.pairs, before.field_.pairs)
    slow = Enumerated(field, table, field.field_.pairs)
    theta = slow.theta_of(field)
    gradient = slow.loss(theta)[1]
    gradient[slow.n :] += theta[slow.n :]
    assert gradient == pytest.approx(np.zeros(len(gradient)), abs=2e-3)


@pytest.mark.parametrize("options", [{"objective": "ml"}, {"refit": "ml", "features": Features(3)}])
def test_labels_of_a_classifier_have_the_conditional_likelihood(options) -> None:
    X = np.random.default_rng(3).normal(size=(80, 2)).round(1)
    Y = chain_rows(80, 3)
    field = CRFClassifier(l1=1.0, solver=EXACT, **options).fit(X, Y)
    assert field.converged_
    each = field.log_likelihood(X, Y)
    states = np.array(list(itertools.product(*field.classes_)))
    total = sum(np.exp(field.log_likelihood(X, np.tile(state, (80, 1)))) for state in states)
    assert total == pytest.approx(np.ones(80))
    if "objective" in options:
        weights = field.field_.weights
        factors = field.field_.layout.feature_factors(field.field_.pairs) / n_targets(field)
        assert field.objective_ == pytest.approx(-each.sum() + factors @ np.abs(weights) + 0.5 * weights @ weights)


# -- wide components ---------------------------------------------------------------------------------------------------


def test_a_wide_component_keeps_the_weights_of_the_pseudo_likelihood(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(likelihood_evaluator, "MAX_CELLS", 6)
    X = np.hstack([chain_rows(150, 3, seed=5), chain_rows(150, 3, seed=6)])
    X[:, 4] = np.minimum(X[:, 4], 1)
    table = as_text(X)
    loop, chain = [("d", "e"), ("e", "f"), ("d", "f")], [("a", "b"), ("b", "c")]
    rule = FixedGraph(edges=[*chain, *loop])
    by_pairs = MarkovField(induction=rule, l1=1.0).fit(table)
    with pytest.warns(WideComponentWarning, match=r"3 of 6 columns.*\('d', 'e', 'f'\).*8 joint states.*limit is 6"):
        field = MarkovField(objective="ml", induction=rule, l1=1.0).fit(table)
    narrow = MarkovField(objective="ml", induction=FixedGraph(edges=chain), l1=1.0).fit(table)

    def weights(one, columns: str) -> dict:
        rows = one.features_.filter(pl.col("variable_a").is_in(list(columns))).rows()
        biases = one.biases_.filter(pl.col("variable").is_in(list(columns.replace("b", "")))).rows()
        return {row[:-1]: row[-1] for row in [*rows, *biases]}  # biases of three states have a free constant

    assert weights(field, "def") == weights(by_pairs, "def")
    assert weights(field, "abc") == pytest.approx(weights(narrow, "abc"), abs=1e-2)
    assert weights(field, "abc") != weights(by_pairs, "abc")
    (wide,) = field.field_.record.likelihood.wide
    assert wide.columns == ("d", "e", "f")
    field.save(tmp_path / "m.safetensors")
    assert load(tmp_path / "m.safetensors").field_.record.likelihood == field.field_.record.likelihood


# -- linked tables -----------------------------------------------------------------------------------------------------


def sentences(seed: int = 0, n: int = 20, length: int = 4) -> Relational:
    rng = np.random.default_rng(seed)
    place = np.tile(np.arange(length), n)
    tag = rng.integers(0, 2, n * length)
    for k in range(1, n * length):
        tag[k] = tag[k - 1] if place[k] and rng.random() < 0.6 else tag[k]
    word = np.where(rng.random(n * length) < 0.7, tag, 1 - tag)
    columns = {"sentence": np.repeat(np.arange(n), length), "place": place, "tag": tag, "word": word}
    link = OffsetLink("word", "place", within=("sentence",))
    return Relational({"word": pl.DataFrame(columns)}, links={"next": link}, observed={"word": ["word"]})


@pytest.mark.parametrize("options", [{"objective": "ml"}, {"refit": "ml"}])
def test_linked_rows_have_an_exact_likelihood_where_components_are_narrow(options) -> None:
    data = sentences()
    exact = RelationalField(l1=0.5, **options).fit(data)
    assert exact.converged_
    found, weights = exact.log_likelihood(data), exact.field_.weights
    if "objective" in options:
        penalty = 0.5 * float((np.abs(weights) / n_targets(exact)).sum()) + 0.5 * weights @ weights
        assert exact.objective_ == pytest.approx(-found + penalty)
    else:
        other = RelationalField(l1=0.5, refit=True).fit(data)
        penalties = 0.5 * weights @ weights, 0.5 * other.field_.weights @ other.field_.weights
        assert found - penalties[0] > other.log_likelihood(data) - penalties[1]


# -- likelihoods of rows -----------------------------------------------------------------------------------------------


def test_probabilities_of_all_joint_states_sum_to_one_and_missing_cells_to_marginals() -> None:
    table = as_text(chain_rows(100, 3))
    field = MarkovField(l1=1.0).fit(table)
    states = pl.DataFrame(list(itertools.product("uv", "uvw", "uv")), schema=list("abc"), orient="row")
    p = np.exp(field.log_likelihood(states))
    assert p.sum() == pytest.approx(1.0)
    some = pl.DataFrame({"a": ["u"], "b": [None], "c": ["v"]}, schema_overrides={"b": pl.String})
    wanted = p[(states["a"] == "u").to_numpy() & (states["c"] == "v").to_numpy()].sum()
    assert field.log_likelihood(some) == pytest.approx(np.log([wanted]))


def test_a_wide_field_is_sampled_with_a_warning(monkeypatch) -> None:
    table = as_text(chain_rows(60, 4))
    field = MarkovField(l1=0.5).fit(table)
    exact = field.log_likelihood(table)
    monkeypatch.setattr(log_likelihood, "largest_table", lambda n_rows: 2)
    options = AIS(chains=64, steps=200)
    with pytest.warns(EstimateWarning, match="annealed importance sampling") as caught:
        found = field.log_likelihood(table, ais=options)
    error = float(str(caught[0].message).partition("standard error of up to ")[2].partition(":")[0])
    assert 0.0 < np.abs(found - exact).max() < 4.0 * error


# -- parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"objective": "ml", "missing": "mean-field"}, "sums missing cells out: leave missing='auto'"),
        ({"objective": "ml", "features": Features(3)}, "use objective='pl' with refit='ml' for max_order=3"),
        ({"objective": "ml", "latent": {"h": 2}}, "objective='ml' has no latent variables"),
    ],
)
def test_what_excludes_the_likelihood_is_refused(options, words) -> None:
    with pytest.raises(ValueError, match=words):
        MarkovField(**options).fit(as_text(chain_rows(20)))


def test_options_of_importance_sampling_are_checked() -> None:
    table = as_text(chain_rows(60, 3))
    field = MarkovField(l1=1.0, observed=["c"]).fit(table)
    with pytest.raises(ValueError, match="ais must be None or an AIS"):
        field.log_likelihood(table, ais=5)
    with pytest.raises(ValueError, match="chains must be a whole number of at least 2"):
        field.log_likelihood(table, ais=AIS(chains=1))


def test_l1_is_selected_under_the_likelihood() -> None:
    table = as_text(chain_rows(52, 2))
    field = MarkovField(objective="ml", selection=HeldOut(folds=2)).fit(table)
    assert field.converged_
    assert field.l1_ > 0.0
    assert field.path_["selected"].sum() == 1


def binary_rows(n_rows: int = 200) -> np.ndarray:
    return make_markov_field(7, n_rows, neighbors=2.0, weights=(-1.5, 1.5), burn_in=200, thin=10, seed=2).samples


def test_a_tree_has_the_weights_of_the_exact_likelihood() -> None:
    X, edges = binary_rows(), [(0, 1), (1, 2), (2, 3), (3, 4), (3, 5), (5, 6)]
    options = {"induction": FixedGraph(edges=edges), "l1": 0.5, "n_jobs": 1}
    exact = MarkovField(objective="ml", **options).fit(X)
    found = MarkovField(objective="bethe", **options).fit(X)
    assert found.converged_
    assert np.array_equal(found.field_.pairs, exact.field_.pairs)
    assert np.allclose(found.field_.theta, exact.field_.theta, atol=1e-3)
    assert found.objective_ == pytest.approx(exact.objective_, rel=1e-6)


@pytest.mark.parametrize(("induction", "penalty"), [("cfi", "l1"), ("grafting", "group")])
def test_all_rules_reach_the_optimum_of_all_pairs(induction: str, penalty: str) -> None:
    X, options = binary_rows(), {"objective": "bethe", "l1": 3.0, "penalty": penalty, "n_jobs": 1}
    full = MarkovField(induction="full", **options).fit(X)
    found = MarkovField(induction=induction, **options).fit(X)
    assert full.converged_
    assert found.converged_
    assert 0 < len(found.edges_) < 21
    assert found.objective_ == pytest.approx(full.objective_, rel=1e-5)


def test_missing_cells_and_several_states_are_learned_from() -> None:
    rng = np.random.default_rng(3)
    common = rng.integers(0, 3, 150)
    X = np.column_stack([np.where(rng.random(150) < 0.45, common, rng.integers(0, 3, 150)) for _ in range(4)]).astype(
        float
    )
    X[rng.random(X.shape) < 0.1] = np.nan
    options = {"kinds": dict.fromkeys(range(4), "nominal"), "l1": 3.0, "n_jobs": 1}
    exact = MarkovField(objective="ml", **options).fit(X)
    found = MarkovField(objective="bethe", **options).fit(X)
    one, two = (field.log_likelihood(X).mean() for field in (exact, found))
    assert two == pytest.approx(one, abs=0.05)


def test_contradictions_and_failures_are_named() -> None:
    X = binary_rows()
    with pytest.raises(ValueError, match="objective='bethe' learns pairs"):
        MarkovField(objective="bethe", features=Features(max_order=3)).fit(X)
    with pytest.raises(ValueError, match="use refit=True with objective='bethe'"):
        MarkovField(objective="bethe", refit="ml").fit(X)
    field = MarkovField(objective="bethe", l1=1.0, n_jobs=1).set_params(solver__max_iter=2)
    with pytest.warns(ConvergenceWarning, match="Raise solver=Solver"):
        field.fit(X)
    assert not field.converged_


N_ROWS = 60


def make_rows() -> tuple[sp.csr_matrix, np.ndarray]:
    """Real numbers that are not 0 or 1, and three labels, the last of three classes."""
    rng = np.random.default_rng(0)
    Z = np.round(rng.normal(size=(N_ROWS, 2)), 2)
    first = (Z[:, 0] + 0.5 * rng.normal(size=N_ROWS) > 0).astype(int)
    second = np.where(rng.random(N_ROWS) < 0.8, first, 1 - first)
    return sp.csr_matrix(Z), np.column_stack([first, second, second + (Z[:, 1] > 0)])


@pytest.fixture(scope="module")
def fitted() -> tuple[CRFClassifier, sp.csr_matrix, np.ndarray]:
    X, Y = make_rows()
    return CRFClassifier(l1=0.3).fit(X, Y), X, Y


def test_probabilities_of_all_combinations_of_labels_sum_to_one(fitted) -> None:
    model, X, Y = fitted
    assert (model.field_.pairs[:, 1] < model.field_.schema.n_target_columns).any(), "a pair of labels"
    states = list(product(*model.classes_))
    total = sum(np.exp(model.log_likelihood(X, np.tile(state, (N_ROWS, 1)))) for state in states)
    np.testing.assert_allclose(total, 1.0, atol=1e-8)
    last = Y.astype(float)
    last[:, 2] = np.nan
    parts = [model.log_likelihood(X, np.column_stack([Y[:, :2], np.full(N_ROWS, c)])) for c in model.classes_[2]]
    np.testing.assert_allclose(model.log_likelihood(X, last), np.logaddexp.reduce(parts), atol=1e-8)
