"""Rubin's rules agree with values computed by hand and with mice, and bad input is refused."""

from __future__ import annotations

import json
import subprocess
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

from benchmarks.r_scripts import has_packages
from sparsefield import pool
from sparsefield.analysis.pooling import pool_results

ESTIMATES, ERRORS = [1.0, 2.0, 3.0, 2.0], [0.5, 0.6, 0.5, 0.4]


def test_the_rules_agree_with_values_computed_by_hand() -> None:
    found = pool(ESTIMATES, ERRORS)
    within, between = (0.25 + 0.36 + 0.25 + 0.16) / 4, 2 / 3
    total = within + 1.25 * between
    share = 1.25 * between / total
    assert found.estimate == pytest.approx([2.0])
    assert found.standard_error == pytest.approx([np.sqrt(total)])
    assert found.degrees_of_freedom == pytest.approx([3 / share**2])
    assert found.relative_increase == pytest.approx([1.25 * between / within])
    increase, df = 1.25 * between / within, 3 / share**2
    assert found.missing_information == pytest.approx([(increase + 2 / (df + 3)) / (increase + 1)])
    half = stats.t.ppf(0.975, df) * np.sqrt(total)
    assert (found.low[0], found.high[0]) == pytest.approx((2.0 - half, 2.0 + half))


def test_complete_degrees_of_freedom_are_those_of_barnard_and_rubin() -> None:
    found = pool(ESTIMATES, ERRORS, complete_df=20)
    within, between = 0.255, 2 / 3
    share = 1.25 * between / (within + 1.25 * between)
    old, observed = 3 / share**2, 21 / 23 * 20 * (1 - share)
    df = old * observed / (old + observed)
    assert found.degrees_of_freedom == pytest.approx([df])
    statistic = 2.0 / np.sqrt(within + 1.25 * between)
    assert found.statistic == pytest.approx([statistic])
    assert found.p_value == pytest.approx([2.0 * stats.t.sf(statistic, df)])


def test_equal_estimates_have_the_interval_of_one_complete_table() -> None:
    found = pool([[2.0, 5.0]] * 3, [[0.1, 0.0]] * 3, complete_df=50)
    assert found.standard_error == pytest.approx([0.1, 0.0])
    assert found.relative_increase.tolist() == [0.0, 0.0]
    assert (found.statistic[1], found.p_value[1]) == (np.inf, 0.0)
    assert found.degrees_of_freedom == pytest.approx([48.1, 48.1], abs=0.1)


def test_variances_and_standard_errors_say_the_same() -> None:
    values, errors = [[1.0, 2.0], [1.5, 2.5]], [[0.1, 0.2], [0.1, 0.3]]
    pooled = pool(values, errors, names=["a", "b"])
    assert pooled.names == ("a", "b")
    assert pooled.estimate == pytest.approx([1.25, 2.25])
    assert pool(values, variances=np.square(errors), names=["a", "b"]).to_frame().equals(pooled.to_frame())
    assert pool(values, errors).names == ("x0", "x1")


def test_frames_have_a_row_for_each_imputation() -> None:
    values, errors = np.array([[1.0, 2.0], [1.5, 2.5], [2.0, 2.0]]), np.full((3, 2), 0.1)
    errors[:, 1] = 0.2
    frame = pd.DataFrame({"a": values[:, 0], "b": values[:, 1]})
    others = pd.DataFrame({"a": errors[:, 0], "b": errors[:, 1]})
    expected = pool(values, errors, names=["a", "b"]).to_frame()
    assert pool(frame, others).to_frame("polars").equals(expected)
    assert pool(frame, variances=np.square(errors)).to_frame("polars").equals(expected)
    with pytest.raises(ValueError, match="columns of the estimates, a, b"):
        pool(frame, pd.DataFrame({"b": [0.1] * 3, "c": [0.1] * 3}))


def test_frames_come_back_in_the_library_that_was_given() -> None:
    for library in (pl, pd):
        estimates = library.DataFrame({"a": ESTIMATES})
        found = pool(estimates, library.DataFrame({"a": ERRORS}))
        assert isinstance(found.to_frame(), library.DataFrame)
        assert {"statistic", "p_value"} <= set(found.to_frame().columns)
    assert isinstance(pool(ESTIMATES, ERRORS).to_frame(), pl.DataFrame)
    assert isinstance(pool(ESTIMATES, ERRORS).to_frame("pandas"), pd.DataFrame)


def test_fitted_models_and_pairs_are_results_of_an_analysis() -> None:
    results = [({"a": 1.0, "b": 2.0}, [0.1, 0.2]), ({"a": 1.5, "b": 2.5}, [0.1, 0.3])]
    expected = pool([[1.0, 2.0], [1.5, 2.5]], [[0.1, 0.2], [0.1, 0.3]], complete_df=20, names=["a", "b"])
    assert pool_results(results, complete_df=20).to_frame().equals(expected.to_frame())
    models = [SimpleNamespace(params=pd.Series(params), bse=bse, df_resid=20) for params, bse in results]
    assert pool_results(models).to_frame().equals(expected.to_frame())
    assert pool_results([(3.0, 0.5), (2.0, 0.5)]).names == ("estimate",)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pool([1.0], [0.1]), "at least 2 imputations"),
        (lambda: pool([1.0, 2.0], [0.1, np.nan]), "finite"),
        (lambda: pool([1.0, 2.0], [0.1, 0.1, 0.1]), "shape"),
        (lambda: pool([1.0, 2.0], [0.1, 0.1], complete_df=0), "complete_df"),
        (lambda: pool([1.0, 2.0], [0.1, 0.1], confidence=95), "confidence"),
        (lambda: pool_results([({"a": 1.0}, {"a": 0.1}), ({"b": 1.0}, {"b": 0.1})]), "same names"),
        (lambda: pool([1.0, 2.0]), "standard_errors or variances"),
        (lambda: pool(3.0, 0.1), "a number or a row for each imputation"),
        (lambda: pool(["high", "low"], [0.1, 0.1]), "of numbers"),
        (lambda: pool_results([3.0, 3.0]), "params and bse"),
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
        "cat(jsonlite::toJSON(p[c('qbar', 't', 'df', 'r', 'fmi')], digits = NA, auto_unbox = TRUE))"
    )
    done = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True, check=True)
    theirs, ours = json.loads(done.stdout), pool(ESTIMATES, ERRORS, complete_df=20)
    assert ours.estimate == pytest.approx([theirs["qbar"]])
    assert np.square(ours.standard_error) == pytest.approx([theirs["t"]])
    assert ours.degrees_of_freedom == pytest.approx([theirs["df"]])
    assert ours.relative_increase == pytest.approx([theirs["r"]])
    assert ours.missing_information == pytest.approx([theirs["fmi"]])
