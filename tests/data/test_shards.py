"""Pieces of rows, put together in any way, make the blocks of the table in memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odd_frames import OBSERVED, frames, runs, weights
from plain import learn_plain_schema

from sparsefield import config
from sparsefield.data import Block, as_source, compile_table
from sparsefield.data.shards import (
    combine_digests,
    compile_piece,
    concatenate,
    cut_piece,
    has_missing,
    overlaps,
    runs_of_rows,
    shard_rows,
    writable_blocks,
)


def assert_same_bits(ours: list[Block], theirs: tuple[Block, ...]) -> None:
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        for name in Block._fields:
            a, b = getattr(one, name), getattr(other, name)
            if isinstance(b, np.ndarray):
                assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), name
            else:
                assert a == b, name


@pytest.mark.filterwarnings("ignore::sparsefield.errors.ClippedValueWarning")
@given(data=st.data(), blocks=st.sampled_from([1, 2, 4]))
def test_shards_have_the_blocks_of_the_table(data, blocks) -> None:
    frame = data.draw(frames())
    weight, parted = data.draw(weights(len(frame))), data.draw(runs(len(frame)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "MIN_BLOCK_ROWS", 3)
        schema = learn_plain_schema(as_source(frame), observed=OBSERVED, sample_weight=weight)
        table = compile_table(as_source(frame), schema, sample_weight=weight)
        pieces = []
        for run in parted:
            source = as_source(frame.iloc[run], may_be_empty=True)
            piece, unseen = compile_piece(source, schema, None if weight is None else weight[run])
            assert unseen == {}
            pieces.append(piece)
        assert any(has_missing(piece, schema) for piece in pieces) == table.has_missing
        size, made = config.block_rows(table.n_rows), []
        rows = shard_rows(table.n_rows, blocks)
        for (start, _), found in zip(rows, overlaps([p.n_rows for p in pieces], rows), strict=True):
            together = concatenate([pieces[k].slice(*part) for k, *part in found])
            shard = cut_piece(schema, together, start, size)
            assert len(shard) == blocks or start == rows[-1][0]
            made += writable_blocks(shard)
    assert_same_bits(made, table.blocks)
    assert combine_digests(b.digest() for b in made) == combine_digests(b.digest() for b in table.blocks)
    assert sum(float(block.weight.sum()) for block in made) == table.total_weight


def test_values_that_training_never_saw_are_counted_with_an_example() -> None:
    schema = learn_plain_schema(as_source([["a", "u"], ["b", "v"]]), observed=["x1"])
    piece, unseen = compile_piece(as_source([["c", "w"], ["a", "u"], [None, "w"], ["b", None]]), schema)
    assert unseen == {"x0": (1, "c"), "x1": (2, "w")}
    assert piece.codes.tolist() == [[-1, 0, -1, 1]]
    assert piece.covariates.tolist() == [[0.5, 0.0, 0.5, 0.5]]


@given(
    counts=st.lists(st.integers(0, 6), min_size=1).filter(sum),
    size=st.integers(1, 9),
)
def test_every_row_goes_where_it_belongs(counts, size) -> None:
    numbers = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])
    rows = runs_of_rows(sum(counts), size)
    for (start, stop), found in zip(rows, overlaps(counts, rows), strict=True):
        assert all(last > first for _, first, last in found)
        cells = [numbers[k][first:last] for k, first, last in found]
        assert np.concatenate(cells).tolist() == list(range(start, stop))


@pytest.mark.parametrize("blocks", [0, 3, -2])
def test_shards_are_powers_of_two(blocks) -> None:
    with pytest.raises(ValueError, match="power of two"):
        shard_rows(1000, blocks)


def test_a_digest_tells_codes_numbers_and_weights_apart() -> None:
    X = np.column_stack([np.arange(40) % 2, np.linspace(0, 1, 40)])
    schema = learn_plain_schema(as_source(X), observed=["x1"])
    marks = set()
    for column, weight in [(0, 1.0), (0, 2.0), (1, 1.0), (2, 1.0)]:
        other = X.copy()
        other[3, 0] = 1 - other[3, 0] if column == 1 else other[3, 0]
        other[3, 1] = 0.25 if column == 2 else other[3, 1]
        (block,) = compile_table(as_source(other), schema, sample_weight=np.full(40, weight)).blocks
        marks.add(block.digest())
    assert len(marks) == 4


def test_arrays_that_can_only_be_read_are_copied() -> None:
    source = as_source(np.arange(300).reshape(-1, 1) % 3)
    table = compile_table(source, learn_plain_schema(source))
    for block in table.blocks:
        block.codes.flags.writeable = block.weight.flags.writeable = False
    made = writable_blocks(table.blocks)
    assert all(a.flags.writeable and a.flags.owndata for b in made for a in b if isinstance(a, np.ndarray))
    assert_same_bits(list(made), table.blocks)
