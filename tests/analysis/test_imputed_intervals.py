"""Estimates from imputed tables are pooled by Rubin's rules."""

from __future__ import annotations

import itertools
import json
import subprocess

import numpy as np
import polars as pl
import pytest
from scipy import stats

from benchmarks.r_scripts import has_packages
from sparsefield import CRFClassifier, FixedGraph, MarkovField, centrality_stability, confidence_intervals, impute, pool
from sparsefield.analysis.imputation import pooled_wald_test
from sparsefield.app.datasets import make_markov_field
from sparsefield.errors import DataError, PenaltyWarning, UnknownStateWarning

pytestmark = pytest.mark.filterwarnings("ignore::sparsefield.errors.OtherTableWarning")


def make_incomplete(n_rows: int = 400, seed: int = 2) -> pl.DataFrame:
    samples = make_markov_field(4, n_rows, weights=(-2.0, 2.0), neighbors=3.0, burn_in=100, thin=5, seed=seed).samples
    holes = np.random.default_rng(seed).random(samples.shape) < 0.15
    return pl.DataFrame(np.where(holes, np.nan, samples), schema=["a", "b", "c", "d"]).fill_nan(None)


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    return make_incomplete()


@pytest.fixture(scope="module")
def field(table: pl.DataFrame) -> MarkovField:
    return MarkovField(l1=8.0).fit(table)


def test_intervals_are_pooled_as_those_of_each_imputed_table(table: pl.DataFrame, field: MarkovField) -> None:
    found = confidence_intervals(field, table, imputations=4, level=0.9, seed=3)
    each = [confidence_intervals(field, completed).weights for completed in impute(field, table, 4, seed=3)]
    expected = pool(*([frame[name].to_numpy() for frame in each] for name in ("estimate", "standard_error")))
    low, high = expected.interval(0.9)
    values = {"estimate": expected.estimate, "standard_error": expected.standard_error, "low": low, "high": high}
    for name, expected_values in values.items():
        assert np.allclose(found.weights[name].to_numpy(), expected_values, rtol=1e-6)
    assert found.n_incomplete == table.filter(pl.any_horizontal(pl.all().is_null())).height
    assert "4 imputations" in repr(found)


def test_edges_and_differences_have_the_variance_between_imputations(table: pl.DataFrame, field: MarkovField) -> None:
    found = confidence_intervals(field, table, imputations=5)
    assert (np.square(found.standard_errors) > found.covariance.diagonal()).all()
    edges = {(row["variable_a"], row["variable_b"]): row for row in found.edges.iter_rows(named=True)}
    for row in found.weights.iter_rows(named=True):  # an edge of two binary columns has one weight
        edge = edges[row["variable_a"], row["variable_b"]]
        assert edge["low"] == pytest.approx(row["low"])
        assert (edge["p_value"] < 0.05) == (row["low"] * row["high"] > 0.0)
    first = found.differences().row(0, named=True)
    assert first["low"] < first["difference"] < first["high"]
    assert (first["p_value"] < 0.05) == (first["low"] > 0.0)


def test_a_complete_table_has_the_usual_intervals(table: pl.DataFrame) -> None:
    complete = table.fill_null(0.0)
    field = MarkovField(l1=8.0).fit(complete)
    found = confidence_intervals(field, complete, imputations=5)
    assert found.imputed is None
    assert found.weights.equals(confidence_intervals(field, complete).weights)


def equal_columns() -> np.ndarray:
    """Return two columns that are equal, of which the penalty determines the weight, and missing cells."""
    rng = np.random.default_rng(0)
    rain = rng.integers(0, 2, 200)
    X = np.column_stack([rain, rain, rng.integers(0, 2, 200)]).astype(float)
    X[:20, 2] = np.nan
    return X


def test_a_warning_of_many_imputed_tables_is_given_once_and_points_to_the_caller() -> None:
    X = equal_columns()
    field = MarkovField(l1=4.0).fit(X)
    for one in impute(field, X, 3):
        with pytest.warns(PenaltyWarning) as caught:
            confidence_intervals(field, one)
        assert [one.filename for one in caught if one.category is PenaltyWarning] == [__file__]
    with pytest.warns(PenaltyWarning) as caught:
        confidence_intervals(field, X, imputations=3)
    assert [one.filename for one in caught if one.category is PenaltyWarning] == [__file__]


def test_too_few_rows_are_refused_also_if_cells_are_imputed() -> None:
    X = np.array([[0.0, 1.0, np.nan, 1.0], [1.0, 0.0, 1.0, 0.0]])
    field = MarkovField(l1=0.01).fit(X)
    with pytest.raises(DataError, match="at least 4 complete rows; there are 2"):
        confidence_intervals(field, X, imputations=3)


def test_tables_that_cannot_be_imputed_are_refused_with_options_that_there_are(
    table: pl.DataFrame, field: MarkovField
) -> None:
    with pytest.raises(DataError, match=r"399 rows, .* learned from 400.*pass the table of the fit") as refused:
        confidence_intervals(field, table[:-1], imputations=3)
    assert "learn_from" not in str(refused.value)
    unknown = table.with_columns(b=pl.when(pl.int_range(400) == 7).then(5.0).otherwise("b"))
    with pytest.raises(DataError, match=r"'b'.*correct or empty"), pytest.warns(UnknownStateWarning):
        confidence_intervals(field, unknown, imputations=3)


def test_refusals_name_the_ways_that_there_are(table: pl.DataFrame, field: MarkovField) -> None:
    with pytest.raises(DataError, match=r"rows have missing cells \(columns .*drop_incomplete=True.*imputations=20"):
        confidence_intervals(field, table)
    with pytest.raises(DataError, match="drop_incomplete=True"):
        centrality_stability(field, table)
    for options, what in (
        ({"imputations": 1}, "from 2"),
        ({"imputations": 5, "method": "bootstrap"}, "'godambe'"),
        ({"imputations": 5, "drop_incomplete": True}, "remove one"),
    ):
        with pytest.raises(ValueError, match=what):
            confidence_intervals(field, table, **options)
    complete = table.fill_null(0.0)
    labels = CRFClassifier(l1=8.0).fit(complete.drop("d"), complete["d"])
    with pytest.raises(ValueError, match="for a MarkovField"):
        confidence_intervals(labels, complete.drop("d"), complete["d"], imputations=5)


@pytest.mark.slow
def test_pooled_intervals_cover_the_truth_where_cells_are_missing_at_random() -> None:
    """Coverage of 5 weights in 120 tables of 300 rows, 15% of whose cells are missing; also that of a weight of 0."""
    rng, edges = np.random.default_rng(5), [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]
    weights, biases = np.array([1.2, -1.0, 0.8, 1.5, 0.0]), np.array([-0.5, 0.2, 0.0, -0.4, 0.1])
    states = np.array(list(itertools.product([0.0, 1.0], repeat=5)))
    logits = states @ biases + np.prod(states[:, edges], axis=2) @ weights
    shares = np.exp(logits) / np.exp(logits).sum()
    covered, widths, complete_widths = [], [], []
    for seed in range(120):
        X = states[rng.choice(len(states), 300, p=shares)]
        X[rng.random(X.shape) < 0.15] = np.nan
        field = MarkovField(l1=0.0, induction=FixedGraph(edges)).fit(X)
        found = confidence_intervals(field, X, imputations=10, seed=seed).weights
        for row in found.iter_rows(named=True):
            truth = weights[edges.index((int(row["variable_a"][1:]), int(row["variable_b"][1:])))]
            covered.append(row["low"] <= truth <= row["high"])
            widths.append(row["high"] - row["low"])
        dropped = confidence_intervals(field, X, drop_incomplete=True).weights
        complete_widths += (dropped["high"] - dropped["low"]).to_list()
    assert 0.92 <= np.mean(covered) <= 0.98  # the standard error of this share is about 0.9 percentage points
    assert np.mean(widths) < 0.9 * np.mean(complete_widths)  # incomplete rows have information


ESTIMATES, ERRORS = [1.0, 2.0, 3.0, 2.0], [0.5, 0.6, 0.5, 0.4]


def test_the_rules_agree_with_values_computed_by_hand() -> None:
    pooled = pool(ESTIMATES, ERRORS)
    within, between = (0.25 + 0.36 + 0.25 + 0.16) / 4, 2 / 3
    total = within + 1.25 * between
    df = 3 / (1.25 * between / total) ** 2
    assert pooled.estimate == pytest.approx([2.0])
    assert pooled.standard_error == pytest.approx([np.sqrt(total)])
    assert pooled.degrees_of_freedom == pytest.approx([df])
    assert pooled.p_value == pytest.approx([2.0 * stats.t.sf(2.0 / np.sqrt(total), df)])
    half = stats.t.ppf(0.95, df) * np.sqrt(total)
    assert np.concatenate(pooled.interval(0.9)) == pytest.approx([2.0 - half, 2.0 + half])


def test_complete_degrees_of_freedom_are_those_of_barnard_and_rubin() -> None:
    within, between = 0.255, 2 / 3
    share = 1.25 * between / (within + 1.25 * between)
    old, observed = 3 / share**2, 21 / 23 * 20 * (1 - share)
    assert pool(ESTIMATES, ERRORS, complete_df=20).degrees_of_freedom == pytest.approx(
        [old * observed / (old + observed)]
    )


def test_equal_estimates_have_the_interval_of_one_complete_table() -> None:
    pooled = pool([[2.0, 5.0, 0.0]] * 3, [[0.1, 0.0, 0.0]] * 3, complete_df=50)
    assert pooled.standard_error == pytest.approx([0.1, 0.0, 0.0])
    assert pooled.p_value[1:].tolist() == [0.0, 1.0]
    assert pooled.degrees_of_freedom == pytest.approx([48.1] * 3, abs=0.1)


def test_several_weights_are_tested_by_the_statistic_of_li_raghunathan_and_rubin() -> None:
    m, k, within = 6, 3, np.array([[1.0, 0.2, 0.0], [0.2, 2.0, 0.1], [0.0, 0.1, 0.5]])
    estimates = np.random.default_rng(0).normal(1.0, 0.5, (m, k))
    mean, between = estimates.mean(axis=0), np.cov(estimates.T)
    r = (1 + 1 / m) * np.trace(between @ np.linalg.inv(within)) / k
    statistic = mean @ np.linalg.inv(within) @ mean / (k * (1 + r))
    free = k * (m - 1)
    degrees = 4 + (free - 4) * (1 + (1 - 2 / free) / r) ** 2
    assert pooled_wald_test(estimates, within) == pytest.approx(stats.f.sf(statistic, k, degrees))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pool([1.0], [0.1]), "at least 2 imputations"),
        (lambda: pool([1.0, 2.0], [0.1, np.nan]), "finite"),
        (lambda: pool([1.0, 2.0], [0.1, 0.1, 0.1]), "shape"),
        (lambda: pool([1.0, 2.0], [0.1, 0.1], complete_df=0), "complete_df"),
        (lambda: pool([1.0, 2.0], [0.1, 0.1]).interval(95), "level"),
        (lambda: pool(3.0, 0.1), "a number or a row for each imputation"),
    ],
)
def test_bad_estimates_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.slow
@pytest.mark.skipif(not has_packages("mice", "jsonlite"), reason="R's mice is not installed")
def test_pooling_agrees_with_mice() -> None:
    script = (
        "p <- mice::pool.scalar(c(1, 2, 3, 2), c(.5, .6, .5, .4)^2, n = 21, k = 1);"
        "cat(jsonlite::toJSON(p[c('qbar', 't', 'df')], digits = NA, auto_unbox = TRUE))"
    )
    done = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True, check=True)
    theirs, ours = json.loads(done.stdout), pool(ESTIMATES, ERRORS, complete_df=20)
    assert ours.estimate == pytest.approx([theirs["qbar"]])
    assert np.square(ours.standard_error) == pytest.approx([theirs["t"]])
    assert ours.degrees_of_freedom == pytest.approx([theirs["df"]])
