"""Sparse rows in pieces have the blocks of the sparse table in memory."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odd_frames import runs, weights
from plain import learn_plain_schema

from sparsefield import config
from sparsefield.data import SparseBlock, as_source, compile_sparse
from sparsefield.data.shards import overlaps
from sparsefield.data.sparse_table import block_ends, block_ends_within, compile_sparse_piece, concatenate_sparse


@given(data=st.data(), density=st.sampled_from([0.0, 0.02, 0.3]), cells=st.sampled_from([1, 4, 1000]))
def test_pieces_have_the_blocks_of_the_table(data, density, cells) -> None:
    n_rows = data.draw(st.integers(1, 60))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    X = (rng.random((n_rows, 8)) < density) * rng.integers(1, 3, (n_rows, 8))
    X[0] = np.arange(8) % 3
    weight, parted = data.draw(weights(n_rows)), data.draw(runs(n_rows))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in [("CELLS_FOR_SPARSE", 0), ("SPARSE_DENSITY", 1.0), ("CELLS_OF_SPARSE_BLOCK", cells)]:
            patch.setattr(config, name, value)
        schema = learn_plain_schema(as_source(X), observed=["x3"], sample_weight=weight)
        table = compile_sparse(as_source(X), schema, weight)
        assert table is not None
        pieces, places, before = [], {0, n_rows}, 0
        for run in parted:
            source = as_source(X[run], may_be_empty=True)
            piece = compile_sparse_piece(source, schema, None if weight is None else weight[run])
            assert piece is not None
            places.update(block_ends_within(piece, block_ends(table.n_nonzero), before, run.start))
            pieces.append(piece)
            before += piece.n_nonzero
        blocks = table.blocks
        assert table.total_weight == sum(float(block.weight.sum()) for block in blocks)
    rows = list(pairwise(sorted(places)))
    made = []
    for run, found in zip(rows, overlaps([p.n_rows for p in pieces], rows), strict=True):
        together = concatenate_sparse([pieces[k].slice(*part) for k, *part in found], run[0])
        made += together.cut(run)
    assert len(made) == len(blocks)
    for one, other in zip(made, blocks, strict=True):
        assert one.start == other.start
        for name in SparseBlock._fields[1:]:
            a, b = getattr(one, name), getattr(other, name)
            assert (a.dtype, a.tobytes()) == (b.dtype, b.tobytes()), name
        assert one.digest() == other.digest()


def test_a_piece_with_a_gap_is_none() -> None:
    schema = learn_plain_schema(as_source([[0, 1], [1, 0]]))
    assert compile_sparse_piece(as_source([[0, None], [1, 0]]), schema) is None
    assert compile_sparse_piece(as_source([[0, 7], [1, 0]]), schema) is None


def test_a_digest_tells_rows_columns_and_weights_apart() -> None:
    schema = learn_plain_schema(as_source(np.eye(4, dtype=int)))
    marks = set()
    for X, weight in [(np.eye(4), 1.0), (np.eye(4), 2.0), (np.eye(4)[::-1], 1.0), (np.tri(4), 1.0)]:
        piece = compile_sparse_piece(as_source(X.astype(int)), schema, np.full(4, weight))
        assert piece is not None
        marks.add(piece.digest())
    assert len(marks) == 4
