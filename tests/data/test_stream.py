"""Rows that come in blocks make the table that they would have made together."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from sparsefield.data import as_source, compile_table, learn_schema
from sparsefield.data.disk_arrays import BinaryCSR, GrowingArray, map_rows, mapped, temporary_folder
from sparsefield.data.schema_learning import PIECE, count_active, pieces_of_rows
from sparsefield.data.sparse_table import SparseTable
from sparsefield.errors import DataError
from sparsefield.io.out_of_core import ColumnRoles, check_blocks, open_table_writer, table_from_rows

pytestmark = pytest.mark.grid(keep=3)

N = 60
rng = np.random.default_rng(0)
WEIGHT = rng.uniform(0.1, 3.0, N)
FRAME = pl.DataFrame(
    {
        "word": rng.choice(["b", "a", "c"], N, p=[0.2, 0.7, 0.1]),
        "yes": rng.integers(0, 2, N),
        "same": ["x"] * N,
        "half": rng.choice([0.5, 1.0, 2.0], N),
        "whole": rng.choice([3.0, 1.0], N),
        "truth": rng.random(N) < 0.3,
        "many": rng.integers(0, 20, N),
    }
)
SWITCHES = sp.csr_matrix((rng.random((N, 7)) < [0.1, 0.5, 0.0, 1.0, 0.2, 0.9, 0.3]).astype(np.int8))
KINDS = {
    "polars": lambda frame: frame,
    "pandas": lambda frame: frame.to_pandas(),
    "categories": lambda frame: frame.to_pandas().astype({"word": "category"}),
    "arrow": lambda frame: frame.to_arrow(),
    "array": lambda frame: frame.drop("word", "same").to_numpy(),
    "objects": lambda frame: np.array(frame.rows(), dtype=object),
}


def spooled(blocks, folder, **roles) -> SparseTable:
    asked = {"observed": [], "numeric": "auto", "states": {}, "weight": None} | roles
    found = check_blocks(blocks)
    _, first = next(found)
    spool = open_table_writer(folder, first, ColumnRoles(**asked))
    try:
        spool.add(first)
        for _, source in found:
            spool.add(source)
        return spool.finish()
    finally:
        spool.close()


def together(X, *, weight=None, **roles) -> SparseTable:
    """The same by way of the dense table of all rows."""
    source = as_source(X)
    schema = learn_schema(source, sample_weight=weight, **roles)
    table = compile_table(source, schema, sample_weight=weight)
    on = np.concatenate([block.beliefs for block in table.blocks], axis=1).T > 0
    offsets = np.concatenate([[0], np.cumsum(on.sum(axis=1))])
    return SparseTable(schema, offsets, np.nonzero(on)[1], np.ones(len(on)) if weight is None else weight)


def same(one: SparseTable, other: SparseTable) -> None:
    assert one.schema == other.schema
    assert [[type(state) for state in v.states] for v in one.schema.variables] == [
        [type(state) for state in v.states] for v in other.schema.variables
    ]
    for name in ("offsets", "columns", "weight"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.offsets.dtype, one.columns.dtype) == (np.int64, np.int32)


def cut(X, size: int):
    return (X[start : start + size] for start in range(0, N, size))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 17, N])
def test_blocks_of_any_kind_and_size_make_the_table_of_all_rows(kind, size, tmp_path) -> None:
    blocks = (KINDS[kind](part) for part in cut(FRAME, size))
    same(spooled(blocks, tmp_path), together(KINDS[kind](FRAME)))


def test_weights_states_and_observed_columns_count_as_in_memory(tmp_path) -> None:
    roles = {"observed": ["word", "yes"], "states": {"word": ["d"], "same": ["y"], "many": [-1]}, "weight": WEIGHT}
    same(spooled(cut(FRAME, 7), tmp_path, **roles), together(FRAME, **roles))


@given(ends=st.lists(st.integers(0, N), max_size=6), weighted=st.booleans(), observed=st.sampled_from([[], ["x1"]]))
def test_sparse_blocks_make_the_table_of_all_rows(ends, weighted, observed) -> None:
    places = [0, *sorted(ends), N]
    blocks = (SWITCHES[start:stop] for start, stop in pairwise(places))
    roles = {"observed": observed, "weight": WEIGHT if weighted else None}
    with temporary_folder() as folder:
        same(spooled(blocks, folder, **roles), together(SWITCHES, **roles))


def test_sparse_blocks_take_states_too(tmp_path) -> None:
    roles = {"states": {"x2": [0, 1], "x4": [2]}}
    same(spooled(cut(SWITCHES, 13), tmp_path, **roles), together(SWITCHES, **roles))


def test_rows_on_disk_are_not_copied_where_no_column_moves(tmp_path) -> None:
    moving = SWITCHES[:, [0, 1, 4]].tocsr()
    rows = BinaryCSR(3, moving.indptr.astype(np.int64), moving.indices)
    table = table_from_rows(tmp_path, rows, ColumnRoles([], "auto", {}, None))
    assert table.columns is rows.columns
    assert list(tmp_path.iterdir()) == []
    same(table, together(moving))
    same(table_from_rows(tmp_path, rows, ColumnRoles(["x0"], "auto", {}, None)), together(moving, observed=["x0"]))


def test_a_column_with_more_labels_than_a_byte_holds(tmp_path) -> None:
    X = np.column_stack([np.arange(N * 12) % 350, np.arange(N * 12) % 2])
    same(spooled((X[k : k + 100] for k in range(0, len(X), 100)), tmp_path), together(X))


def test_one_weight_for_all_rows(tmp_path) -> None:
    same(spooled(cut(FRAME, 7), tmp_path, weight=0.3), together(FRAME, weight=np.full(N, 0.3)))


def test_blocks_without_rows_are_passed_over(tmp_path) -> None:
    same(spooled([FRAME[:0], FRAME, FRAME[:0]], tmp_path), together(FRAME))


def test_batches_of_arrow(tmp_path) -> None:
    table = FRAME.to_arrow()
    same(spooled(table.to_batches(max_chunksize=9), tmp_path), together(table))


@pytest.mark.parametrize("make", [pl.DataFrame.to_pandas, pl.DataFrame.to_arrow, lambda frame: frame])
def test_gaps_are_refused_with_column_and_row(make, tmp_path) -> None:
    incomplete = FRAME.with_columns(word=pl.when(pl.int_range(pl.len()) != 44).then("word"))
    with pytest.raises(DataError, match=r"'word' has a missing value in row 44 .*: impute them, or fit in memory"):
        spooled(map(make, cut(incomplete, 10)), tmp_path)


def test_gaps_among_numbers_are_refused(tmp_path) -> None:
    X = np.zeros((N, 2))
    X[31, 1] = np.nan
    with pytest.raises(DataError, match="'x1' has a missing value in row 31"):
        spooled(cut(X, 30), tmp_path)


def test_observed_numbers_are_refused(tmp_path) -> None:
    with pytest.raises(DataError, match=r"'half' is numeric \(row \d+, .* has a fraction\).*: bin it"):
        spooled(cut(FRAME, 10), tmp_path, observed=["half"])
    with pytest.raises(DataError, match=r"'many' is numeric, .* numeric=\[\]"):
        spooled(cut(FRAME, 3), tmp_path, observed=["many"])
    with pytest.raises(DataError, match="'many' is numeric"):
        spooled(cut(FRAME, 3), tmp_path, observed=["many"], numeric=["many"])
    roles = {"observed": ["half", "many"], "numeric": []}
    same(spooled(cut(FRAME, 3), tmp_path, **roles), together(FRAME, **roles))


def test_other_columns_and_kinds_are_refused_with_the_block() -> None:
    for odd, words in [
        (FRAME.rename({"yes": "no"}), "Block 1 .* has the column 'no' where the first block has 'yes'"),
        (FRAME.drop("yes"), "Block 1 .* has 6 columns, the first block 7"),
        (FRAME.to_pandas(), "Block 1 .* is of another kind"),
    ]:
        with pytest.raises(DataError, match=words):
            list(check_blocks([FRAME, odd]))
    with pytest.raises(DataError, match=r"block 2 .* is a sparse matrix with values other than 0 and 1"):
        list(check_blocks([SWITCHES, SWITCHES, 2 * SWITCHES]))


def test_numbers_here_and_text_there_are_refused(tmp_path) -> None:
    """As read_csv finds types chunk by chunk: 1 and "1" would be two states."""
    chunks = [pd.DataFrame({"a": [1, 2], "b": ["u", "v"]}), pd.DataFrame({"a": ["1", "z"], "b": ["u", "v"]})]
    with pytest.raises(DataError, match=r"'a' holds text or objects from row 2 on .*, but numbers in earlier blocks"):
        spooled(chunks, tmp_path)


def test_nothing_is_refused(tmp_path) -> None:
    with pytest.raises(DataError, match="without blocks"):
        list(check_blocks([]))
    with pytest.raises(DataError, match="no rows"):
        spooled([FRAME[:0]], tmp_path)


def test_weights_of_another_length_are_refused(tmp_path) -> None:
    with pytest.raises(DataError, match="50 weights, but there are more rows"):
        spooled(cut(FRAME, 7), tmp_path, weight=WEIGHT[:50])
    with pytest.raises(DataError, match=r"\(61,\), expected \(60,\)"):
        spooled(cut(FRAME, 7), tmp_path, weight=np.ones(61))


def test_identifiers_are_refused(tmp_path, monkeypatch) -> None:
    X = np.arange(300).reshape(-1, 1)
    with pytest.raises(DataError, match="looks like an identifier"):
        spooled((X[k : k + 50] for k in range(0, 300, 50)), tmp_path)
    monkeypatch.setattr("sparsefield.io.out_of_core.MANY_LABELS", 120)
    with pytest.raises(DataError, match="150 different values in 150 cells"):
        spooled((X[k : k + 50] for k in range(0, 300, 50)), tmp_path)


def test_a_file_that_grows_is_an_array_of_numpy(tmp_path) -> None:
    file = GrowingArray(tmp_path / "a.npy", np.int32)
    for k in range(30):
        file.append(np.arange(k))
    file.close()
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.concatenate([np.arange(k) for k in range(30)]))
    empty = GrowingArray(tmp_path / "b.npy", np.int64)
    assert empty.map().shape == (0,)
    mapped(tmp_path / "a.npy")[0] = 7
    assert np.load(tmp_path / "a.npy")[0] == 0


@pytest.mark.parametrize(
    ("offsets", "columns"),
    [([0, 2, 1, 3], [0, 1, 2]), ([0, 3], [0, 2, 1]), ([0, 2], [1, 1]), ([0, 1], [5]), ([0, 1], [-1]), ([0, 4], [1])],
)
def test_damaged_rows_are_refused(offsets, columns, tmp_path) -> None:
    np.save(tmp_path / "o.npy", np.array(offsets))
    np.save(tmp_path / "c.npy", np.array(columns, dtype=np.int32))
    with pytest.raises(DataError, match="do not hold rows of 5 columns"):
        map_rows(5, tmp_path / "o.npy", tmp_path / "c.npy")


def test_counts_do_not_depend_on_pieces(monkeypatch) -> None:
    offsets, columns = SWITCHES.indptr, SWITCHES.indices
    counts, sums = count_active(offsets, columns, 7, WEIGHT)
    np.testing.assert_array_equal(sums, np.bincount(columns, np.repeat(WEIGHT, np.diff(offsets)), 7))
    monkeypatch.setattr("sparsefield.data.schema_learning.PIECE", 5)
    pieces = list(pieces_of_rows(offsets))
    assert len(pieces) > 10
    assert [stop for _, stop in pieces[:-1]] == [start for start, _ in pieces[1:]]
    assert (pieces[0][0], pieces[-1][1]) == (0, N)
    again = count_active(offsets, columns, 7, WEIGHT)
    np.testing.assert_array_equal(again, (counts, sums))
    assert PIECE == 2**20


def test_the_temporary_folder_goes_and_a_full_disk_is_told() -> None:
    with pytest.raises(DataError, match="TMPDIR"), temporary_folder() as folder:
        raise OSError(28, "No space left on device")
    assert not folder.exists()
