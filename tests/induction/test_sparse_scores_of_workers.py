"""However the rows of a sparse table are dealt out, its candidates get the same scores, to the bit."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from oracle import candidate_pairs
from plain import learn_plain_schema
from several_workers import SeveralWorkers
from sparse_tables import sparse_sample, switches

from sparsefield import config
from sparsefield.compute import Threads, threads
from sparsefield.data import DenseDataset, SparseBlock, SparseTable, as_source, compile_sparse
from sparsefield.induction import Grafting, sparse_scores
from sparsefield.induction.sparse_score_parts import unit_for
from sparsefield.induction.sparse_scores import score_sparse_pairs
from sparsefield.objectives import PseudoLikelihood, SparseEvaluator, make_evaluator

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
    evaluator = make_evaluator(sample, PseudoLikelihood(), engine)
    evaluator.evaluate(evaluator.compile(sample.layout.arcs(pairs)), theta)
    return evaluator.gradient_factors()


def bits(found) -> list[bytes]:
    return [part.tobytes() for part in (found.features, found.gradient, found.score)]


@pytest.mark.parametrize("shape", SHAPES)
@given(
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


@pytest.mark.parametrize("n_workers", [1, 3, 32])
def test_at_the_cut_the_last_bit_decides(make_problem, n_workers) -> None:
    """What places compute for themselves is rounded in ways of its own, and must not decide."""
    problem = make_problem(1, missing=0.0, numbers=0, n_rows=60, weighted=True, **SHAPES["binary"])
    with SeveralWorkers(lambda k: k % n_workers) as engine:
        factors = factors_at(sparse_sample(problem), engine, problem.pairs, problem.theta)
        everyone = score_sparse_pairs(factors, problem.layout, 0.0, 0.0, NOTHING)
        assert len(everyone) == 36
        for size in everyone.score.tolist():
            for cut in (np.nextafter(size, 0.0), size):
                found = score_sparse_pairs(factors, problem.layout, 0.0, cut, NOTHING)
                np.testing.assert_array_equal(found.features, everyone.features[everyone.score > cut])


@pytest.mark.parametrize("entries", [10**9, 300, 40])
def test_dealt_out_rows_may_be_scored_in_rounds(entries, monkeypatch) -> None:
    """Where errors of all columns do not fit into memory at once."""
    monkeypatch.setattr(threads, "machine_memory", lambda: entries * sparse_scores.ENTRY_BYTES / config.ERRORS_SHARE)
    source = as_source(switches(7, n_rows=200, n_columns=40, density=0.03))
    table = compile_sparse(source, learn_plain_schema(source))
    assert table is not None
    sample = DenseDataset.single(table)
    theta, nothing = np.full(table.schema.n_target_columns, -3.0), np.empty((0, 2), dtype=np.int64)
    outcomes = []
    for engine in (Threads(1), SeveralWorkers(lambda k: k % 4)):
        with engine:
            factors = factors_at(sample, engine, nothing, theta)
            outcomes.append(bits(score_sparse_pairs(factors, sample.layout, 0.0, 1.0, NOTHING)))
    assert len(outcomes[0][0]) > 0
    assert outcomes[0] == outcomes[1]
    assert (len(engine.computed) > 1) == (entries < 10**9)


def equal_blocks(table: SparseTable, count: int) -> tuple[SparseBlock, ...]:
    """Of as many rows each."""
    places = np.linspace(0, table.n_rows, count + 1).astype(int).tolist()
    blocks = []
    for start, stop in pairwise(places):
        offsets = table.offsets[start : stop + 1]
        columns = table.columns[offsets[0] : offsets[-1]]
        blocks.append(SparseBlock(start, offsets - offsets[0], columns, table.weight[start:stop]))
    return tuple(blocks)


def spread_and_heaped(n_workers: int, rows: int, often: int, heap: int) -> np.ndarray:
    """(workers, rows, columns). Columns 0 and 1 are on in the same row ``often`` times in every worker. Each worker has
    four other pairs, which are on ``heap`` times there, and nowhere else; more columns are on at random."""
    on = np.zeros((n_workers, rows, 2 + 8 * n_workers + 20), dtype=np.int8)
    on[:, :, -20:] = np.random.default_rng(0).random((n_workers, rows, 20)) < 0.05
    for worker in range(n_workers):
        on[worker, :often, :2] = 1
        for k in range(4):
            column, first = 2 + 8 * worker + 2 * k, often + k * heap
            on[worker, first : first + heap, column : column + 2] = 1
    return on


@pytest.mark.parametrize("limit", [None, 1])
@pytest.mark.parametrize("n_workers", [4, 8])
def test_a_pair_that_no_worker_ranks_high_is_found(monkeypatch, n_workers, limit) -> None:
    monkeypatch.setattr(config, "SPARSE_DENSITY", 1.0)
    monkeypatch.setattr(SparseTable, "blocks", property(lambda table: equal_blocks(table, n_workers)))
    often, heap = 3, 7
    on = spread_and_heaped(n_workers, 60, often, heap)
    for worker in on.astype(int):
        assert np.triu(worker.T @ worker > often, k=1).sum() >= 4
    source = as_source(sp.csr_matrix(on.reshape(-1, on.shape[2])))
    table = compile_sparse(source, learn_plain_schema(source))
    assert table is not None
    sample = DenseDataset.single(table)
    theta, nothing = np.full(table.schema.n_target_columns, -3.0), np.empty((0, 2), dtype=np.int64)
    with SeveralWorkers(lambda k: k) as engine:
        factors = factors_at(sample, engine, nothing, theta)
        found = Grafting().score(factors, sample.layout, 2.0 * often * n_workers - 4.0, NOTHING, limit)
    (workers,) = engine.computed
    assert len(workers) == n_workers
    assert found.features.tolist() == [[0, 1]]


def test_only_what_is_open_is_asked_for_again() -> None:
    source = as_source(switches(6, n_rows=2000, n_columns=60, density=0.02))
    table = compile_sparse(source, learn_plain_schema(source))
    assert table is not None
    sample = DenseDataset.single(table)
    theta, nothing = np.full(table.schema.n_target_columns, -3.0), np.empty((0, 2), dtype=np.int64)
    with SeveralWorkers(lambda k: k % 3) as engine:
        found = score_sparse_pairs(factors_at(sample, engine, nothing, theta), sample.layout, 0.0, 60.0, NOTHING)
    (workers,) = engine.computed
    reported = sum(len(part.b) for answers in workers.results["score_tile"] for part in answers)
    picked = sum(len(part) for answers in workers.results.get("sum_given_pairs", []) for part in answers)
    assert len(found) > 10
    assert reported < 3 * len(candidate_pairs(table.schema)) / 4
    assert picked < reported / 2


@pytest.mark.parametrize("power", [-900, -40, 40, 900])
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


@given(total=st.floats(1e-280, 1e300))
def test_no_sum_of_errors_overflows(total) -> None:
    """An error beyond rest is no larger than 2, and a pair adds up errors both ways."""
    unit = unit_for(total)
    assert np.log2(unit) == int(np.log2(unit))
    assert 2**61 <= 4 * int(total / unit) < 2**62


def test_sums_in_the_field_do_not_depend_on_the_workers_either(make_problem) -> None:
    """Blocks are added up by a tree of their own."""
    problem = make_problem(5, missing=0.0, numbers=0, n_rows=60, **SHAPES["many states"])
    outcomes = []
    for engine in (Threads(1), Threads(3), SeveralWorkers(lambda k: k % 3)):
        with engine:
            evaluator = SparseEvaluator(sparse_sample(problem), engine)
            loss, gradient = evaluator.evaluate(evaluator.compile(problem.layout.arcs(problem.pairs)), problem.theta)
            outcomes.append((loss, gradient.tobytes()))
    assert outcomes[0] == outcomes[1] == outcomes[2]
