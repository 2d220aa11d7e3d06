"""Candidates of a sparse table get the same scores, to the bit, on any number of threads and in rounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sparse_tables import sparse_sample

from sparsefield import config
from sparsefield.compute import Threads
from sparsefield.data import Dataset, Table
from sparsefield.induction import sparse_scores
from sparsefield.induction.sparse_scores import score_sparse_pairs, unit_for
from sparsefield.objectives import PseudoLikelihood

pytestmark = pytest.mark.grid(keep=1)

NOTHING = np.empty(0, dtype=np.int64)
SHAPES = {
    "binary": {"states": (2,) * 9, "observed_states": ()},
    "many states": {"states": (2, 3, 5, 2), "observed_states": ()},
    "observed": {"states": (3, 2, 2), "observed_states": (2, 4)},
}


@pytest.fixture(autouse=True)
def blocks_for_small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "CELLS_OF_SPARSE_BLOCK", 9)


def factors_at(sample, engine, pairs, theta):
    evaluator = PseudoLikelihood().make_problem(sample, engine)
    evaluator.evaluate(evaluator.compile(sample.layout.arcs(pairs)), theta)
    return evaluator.gradient_factors()


def bits(found) -> list[bytes]:
    return [part.tobytes() for part in (found.features, found.gradient, found.score)]


@pytest.mark.parametrize("shape", SHAPES)
@given(
    seed=st.integers(0, 2**32 - 1),
    cut=st.sampled_from([0.0, 0.3, 1.0, 2.5, 6.0]),
    threshold=st.sampled_from([0.0, 0.2]),
    share=st.sampled_from([0.0, 0.3]),
    limit=st.sampled_from([None, 1, 5, 20]),
    weighted=st.booleans(),
)
def test_threads_and_rounds_give_the_same_bits(
    make_problem, shape, seed, cut, threshold, share, limit, weighted
) -> None:
    problem = make_problem(seed, missing=0.0, numbers=0, n_rows=40, share=share, weighted=weighted, **SHAPES[shape])
    sample, known = sparse_sample(problem), np.sort(problem.layout.keys(problem.pairs))
    assert len(sample.tables[0].sparse_blocks) > 2
    outcomes = []
    for engine, entries in ((Threads(1), 10**9), (Threads(3), 10**9), (Threads(2), 40)):
        with engine, pytest.MonkeyPatch.context() as patch:
            memory = entries * sparse_scores.ENTRY_BYTES / config.ERRORS_SHARE
            patch.setattr(sparse_scores, "machine_memory", lambda memory=memory: memory)
            factors = factors_at(sample, engine, problem.pairs, problem.theta)
            outcomes.append(bits(score_sparse_pairs(factors, problem.layout, threshold, cut, known, limit)))
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_at_the_cut_the_last_bit_decides(make_problem) -> None:
    """Bounds that leave columns out are rounded in ways of their own, and must not decide."""
    problem = make_problem(1, missing=0.0, numbers=0, n_rows=60, weighted=True, **SHAPES["binary"])
    with Threads(1) as engine:
        factors = factors_at(sparse_sample(problem), engine, problem.pairs, problem.theta)
        everyone = score_sparse_pairs(factors, problem.layout, 0.0, 0.0, NOTHING)
        assert len(everyone) == 36
        for size in everyone.score.tolist():
            for cut in (np.nextafter(size, 0.0), size):
                found = score_sparse_pairs(factors, problem.layout, 0.0, cut, NOTHING)
                np.testing.assert_array_equal(found.features, everyone.features[everyone.score > cut])


@pytest.mark.parametrize("power", [-900, -40, 40, 900])
def test_weights_of_any_size_give_the_same_scores(make_problem, power) -> None:
    """Errors are multiples of a unit that goes with the total weight: sums neither overflow nor lose digits."""
    problem = make_problem(3, missing=0.0, numbers=0, n_rows=40, **SHAPES["observed"])
    table, outcomes = sparse_sample(problem).tables[0], []
    for scale in (1.0, 2.0**power):
        weighed = Table.of_cells(table.schema, table.cells.offsets, table.cells.columns, table.weight() * scale)
        with Threads(1) as engine:
            factors = factors_at(Dataset.single(weighed), engine, problem.pairs, problem.theta)
            found = score_sparse_pairs(factors, problem.layout, 0.0, 0.5 * scale, NOTHING)
            outcomes.append((found.features.tolist(), (found.gradient / scale).tolist()))
    assert outcomes[0][0]
    assert outcomes[0] == outcomes[1]


@given(total=st.floats(1e-280, 1e300))
def test_no_sum_of_errors_overflows(total) -> None:
    """An error beyond rest is no larger than 2, and a pair adds up errors both ways."""
    unit = unit_for(total)
    assert np.log2(unit) == int(np.log2(unit))
    assert 2**61 <= 4 * int(total / unit) < 2**62
