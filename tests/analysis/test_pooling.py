"""Rubin's rules agree with values computed by hand and with mice, and bad input is refused."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest
from scipy import stats

from benchmarks.r_scripts import has_packages
from sparsefield import pool
from sparsefield.analysis.imputation import pooled_wald_test

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
