"""Means over Gibbs chains agree with enumeration within standard errors, and chains that disagree are reported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t
from small_fields import Small, slow_of, small_field

from sparsefield import Gibbs
from sparsefield.inference.factor_graph import build_factors
from sparsefield.inference.gibbs import run_chains
from sparsefield.inference.missing_problem import compile_problem

CHAINS = 16
FALSE_ALARM = 1e-3
"""Probability of a false alarm of each test below, if half chains are independent with normal means."""


def deviations(small: Small, options: Gibbs) -> tuple[np.ndarray, np.ndarray]:
    """Return the distance from enumeration, and the standard error, of every state of every sampled cell."""
    compiled = compile_problem(small.sample, small.field.graphs, [(0, small.block)])
    graph = build_factors(compiled.problem, small.field.theta)
    means = run_chains(compiled.problem, small.field.theta, graph, options)
    _, variable, row = compiled.missing_cells
    exact = np.concatenate(
        [small.slow.marginals(small.codes(i), small.observed(i))[v] for v, i in zip(variable, row, strict=True)]
    )
    drawn = np.isfinite(means.value)
    return (means.value - exact)[drawn], means.error[drawn]


def too_far(distance: np.ndarray, error: np.ndarray) -> bool:
    """Student's t of 2 x CHAINS half chains, over all comparisons (Bonferroni)."""
    limit = t.isf(FALSE_ALARM / 2 / len(distance), 2 * CHAINS - 1)
    return bool((np.abs(distance) > limit * error + 1e-9).any())


@pytest.mark.parametrize(("structure", "triples"), [("tree", 5), ("all", 0)])
def test_means_are_within_their_standard_errors(structure, triples) -> None:
    small = small_field(21, structure=structure, triples=triples, size=0.8, rows=6, missing=0.8)
    distance, error = deviations(small, Gibbs(chains=CHAINS, burn_in=100, sweeps=2000))
    assert len(distance) > 20
    assert not too_far(distance, error)
    assert error.max() < 0.01


def test_equal_seeds_give_equal_beliefs_and_other_seeds_others() -> None:
    small = small_field(4, structure="all", rows=30, missing=0.9)
    one, same, other = (small.infer(Gibbs(sweeps=40, seed=seed)).marginals[0] for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    missing = np.repeat(small.table.codes() < 0, np.diff(small.field.schema.coding.state_offsets), axis=0)
    assert (one != other)[missing].mean() > 0.9


def locked(weight: float, rows: int) -> Small:
    """Return six binary columns that prefer to be equal: two modes, which large weights separate."""
    small = small_field(0, states=(2,) * 6, structure="all", rows=rows, missing=1.0)
    targets = small.field.pairs[:, 1] < 6
    pairs, weights = small.field.pairs[targets], np.full(int(targets.sum()), weight)
    field = replace(small.field, biases=np.full(6, -2.5 * weight), pairs=pairs, weights=weights)
    return replace(small, field=field, slow=slow_of(field))


def test_chains_in_different_modes_count_as_not_converged() -> None:
    assert locked(8.0, 5).infer(Gibbs()).unconverged == 5
    easy = locked(0.3, 5)
    answers = easy.infer(Gibbs())
    assert answers.unconverged == 0
    assert easy.worst(answers.marginals[0]) < 0.05
