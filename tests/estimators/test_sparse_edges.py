"""Where the sparse way could part from the dense one: rows of no weight, saved rows, very many pairs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from plain import learn_plain_schema
from sparse_tables import switches

from sparsefield import MarkovField, config
from sparsefield.compute import Threads
from sparsefield.data import DenseDataset, as_source, compile_sparse
from sparsefield.induction import Grafting, best_proposals
from sparsefield.objectives import SparseEvaluator


@pytest.mark.parametrize("seed", range(5))
def test_a_column_that_is_off_only_where_rows_weigh_nothing_is_held_as_ever(seed, monkeypatch) -> None:
    rng = np.random.default_rng(seed)
    on = (rng.random((300, 8)) < 0.05).astype(np.int8)
    on[:, 2] = 1
    on[:3, 2] = 0
    weight = rng.random(300)
    weight[:3] = 0.0
    objectives = []
    for density in (1.0, 0.0):
        monkeypatch.setattr(config, "SPARSE_DENSITY", density)
        objectives.append(MarkovField(l1=1.0).fit(sp.csr_matrix(on), sample_weight=weight).objective_)
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-5)


def test_a_sparse_matrix_comes_back_from_transform_as_it_was() -> None:
    matrix = switches(4, n_rows=100, n_columns=40, density=0.02)
    filled = MarkovField(l1=2.0).fit(matrix).transform(matrix)
    assert filled is not matrix
    assert (filled != matrix).nnz == 0


def test_of_very_many_pairs_the_best_are_kept(monkeypatch) -> None:
    monkeypatch.setattr("sparsefield.induction.sparse_scores.MANY_PAIRS", 20)
    source = as_source(switches(5, n_rows=300, n_columns=50, density=0.02))
    schema = learn_plain_schema(source)
    table = compile_sparse(source, schema)
    assert table is not None
    sample = DenseDataset.single(table)
    with Threads(1) as engine:
        evaluator = SparseEvaluator(sample, engine)
        nothing = np.empty((0, 2), dtype=np.int64)
        evaluator.evaluate(evaluator.compile(sample.layout.arcs(nothing)), np.full(schema.n_target_columns, -3.0))
        arguments = evaluator.gradient_factors(), sample.layout, 0.01, np.empty(0, dtype=np.int64)
        everyone, few = Grafting().score(*arguments), Grafting().score(*arguments, 30)
    assert len(everyone) > 500
    np.testing.assert_array_equal(few.features, best_proposals(everyone, 30).features)
