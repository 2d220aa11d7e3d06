"""However the rows of a sparse table are dealt out, its candidates get the same scores, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from several_workers import SeveralWorkers
from sparse_tables import sparse_sample

from sparsefield import config
from sparsefield.compute import Threads
from sparsefield.data import DenseDataset, SparseTable
from sparsefield.induction import sparse_scores
from sparsefield.induction.sparse_scores import score_sparse_pairs
from sparsefield.objectives import PseudoLikelihood, make_evaluator

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
    evaluator = make_evaluator(sample, PseudoLikelihood(), engine)
    evaluator.evaluate(evaluator.compile(sample.layout.arcs(pairs)), theta)
    return evaluator.gradient_factors()


def bits(found) -> list[bytes]:
    return [part.tobytes() for part in (found.features, found.gradient, found.score)]


@given(
    shape=st.sampled_from(list(SHAPES)),
    seed=st.integers(0, 2**32 - 1),
    deal=st.lists(st.integers(0, 7), min_size=32, max_size=32),
    cut=st.sampled_from([0.0, 0.3, 1.0, 2.5, 6.0]),
    threshold=st.sampled_from([0.0, 0.2]),
    share=st.sampled_from([0.0, 0.3]),
    limit=st.sampled_from([None, 1, 5, 20]),
    weighted=st.booleans(),
    untold=st.sampled_from([0.0, 0.7, 1.0]),
)
def test_any_way_to_deal_rows_out_gives_the_same_bits(
    make_problem, shape, seed, deal, cut, threshold, share, limit, weighted, untold
) -> None:
    problem = make_problem(seed, missing=0.0, numbers=0, n_rows=40, share=share, weighted=weighted, **SHAPES[shape])
    sample, known = sparse_sample(problem), np.sort(problem.layout.keys(problem.pairs))
    outcomes = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_scores, "UNREPORTED_SHARE", untold)
        for engine in (Threads(1), SeveralWorkers(lambda k: deal[k]), SeveralWorkers(lambda k: k)):
            with engine:
                factors = factors_at(sample, engine, problem.pairs, problem.theta)
                outcomes.append(bits(score_sparse_pairs(factors, problem.layout, threshold, cut, known, limit)))
    assert len(sample.table.blocks) > 2
    assert outcomes[0] == outcomes[1] == outcomes[2]


@pytest.mark.parametrize("power", [-900, 900])
def test_weights_of_any_size_give_the_same_scores(make_problem, power) -> None:
    """Errors are multiples of a unit that goes with the total weight: sums neither overflow nor lose digits."""
    problem = make_problem(3, missing=0.0, numbers=0, n_rows=40, **SHAPES["observed"])
    table, outcomes = sparse_sample(problem).table, []
    for scale in (1.0, 2.0**power):
        weighed = SparseTable(table.schema, table.offsets, table.columns, table.weight * scale)
        with Threads(1) as engine:
            factors = factors_at(DenseDataset.single(weighed), engine, problem.pairs, problem.theta)
            found = score_sparse_pairs(factors, problem.layout, 0.0, 0.5 * scale, NOTHING)
            outcomes.append((found.features.tolist(), (found.gradient / scale).tolist()))
    assert outcomes[0][0]
    assert outcomes[0] == outcomes[1]
