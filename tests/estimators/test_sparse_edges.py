"""Where the sparse way could part from the dense one: rows of no weight, saved rows, very many pairs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sparse_tables import switches

from sparsefield import MarkovField, config


def test_a_column_that_is_off_only_where_rows_weigh_nothing_is_held_as_ever(monkeypatch) -> None:
    rng = np.random.default_rng(0)
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
