"""Log-partition functions: exact by elimination, and within their standard error by annealed importance sampling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from small_fields import small_field

from sparsefield.compute import Threads
from sparsefield.inference import AIS
from sparsefield.objectives import log_likelihood
from sparsefield.objectives.log_likelihood import log_likelihood_of_rows, log_partition_of_rows

OPTIONS = AIS(chains=48, steps=100)


@pytest.fixture
def too_wide(monkeypatch) -> None:
    """Let every component be too wide for elimination."""
    monkeypatch.setattr(log_likelihood, "largest_table", lambda n_rows: 1)


def slow_log_partition(small, row: int) -> float:
    slow, covariates = small.slow, small.observed(row)
    states = slow.assignments([-1] * slow.n_targets)
    return float(logsumexp([slow.energy(slow.one_hot(s, covariates)) + slow.base_measure(s) for s in states]))


def sampled(small, options: AIS = OPTIONS, threads: int = 1):
    with Threads(threads) as engine:
        return log_partition_of_rows(small.field, small.block.covariates, engine, options)


@pytest.mark.parametrize("structure", ["loop", "none"])
def test_narrow_fields_have_an_exact_partition_function(structure) -> None:
    small = small_field(1, structure=structure, rows=3)
    found = sampled(small)
    assert found.method == "exact"
    assert not found.standard_error.any()
    assert found.value == pytest.approx([slow_log_partition(small, row) for row in range(3)], rel=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_the_likelihood_of_a_row_sums_over_its_missing_cells(missing) -> None:
    small = small_field(2, structure="loop", rows=4, missing=missing, triples=2)
    wanted = []
    for row in range(4):
        slow, codes = small.slow, small.codes(row)
        states = slow.assignments(codes)
        energies = [slow.energy(slow.one_hot(s, small.observed(row))) + slow.base_measure(s) for s in states]
        wanted.append(logsumexp(energies) - slow_log_partition(small, row))
    with Threads(1) as engine:
        found = log_likelihood_of_rows(small.field, small.sample, engine, OPTIONS)
    assert found.value == pytest.approx(wanted, abs=1e-11)


@pytest.mark.usefixtures("too_wide")
@pytest.mark.parametrize("structure", ["loop", "all"])
def test_annealed_importance_sampling_is_within_its_error(structure) -> None:
    small = small_field(3, structure=structure, rows=8, size=0.7)
    found = sampled(small)
    assert found.method == "ais"
    exact = np.array([slow_log_partition(small, row) for row in range(8)])
    deviation = (found.value - exact) / found.standard_error
    assert (found.standard_error < 0.1).all()
    assert np.abs(deviation).max() < 4.0
    assert np.sqrt(np.mean(np.square(deviation))) < 2.0


@pytest.mark.usefixtures("too_wide")
def test_more_chains_lower_the_error_and_seeds_and_threads_determine_the_draws() -> None:
    small = small_field(4, structure="all", rows=2)
    found = [sampled(small, threads=threads) for threads in (1, 3)]
    assert found[0].value.tobytes() == found[1].value.tobytes()
    other = sampled(small, AIS(chains=48, steps=100, seed=1))
    assert (other.value != found[0].value).all()
    assert (sampled(small, AIS(chains=480, steps=100)).standard_error < found[0].standard_error).all()
