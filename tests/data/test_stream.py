"""Rows that come in blocks make the table that they would have made together."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from plain import learn_plain_schema

from sparsefield.app.tables.out_of_core import ColumnRoles, check_blocks, open_table_writer, table_from_rows
from sparsefield.data import Table, as_source, compile_table, learn_schema
from sparsefield.data.array_files import map_array
from sparsefield.data.disk_arrays import BinaryCSR, GrowingArray, map_rows, temporary_folder
from sparsefield.data.schema_learning import PIECE, count_active, pieces_of_rows
from sparsefield.data.sparse_table import SparseTable
from sparsefield.errors import CovariateWarning, DataError

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
NUMBERS = ("half", "many")
"""Columns that are numeric in memory."""
NOMINAL = {
    "array": {"kinds": {"x1": "nominal", "x4": "nominal"}},
    "objects": {"kinds": {"x3": "nominal", "x6": "nominal"}},
}
"""The kinds of these columns in arrays, whose columns have no names."""


def spooled(blocks, folder, **roles) -> Any:
    found = check_blocks(blocks)
    _, first = next(found)
    kinds = {name: "nominal" for name in first.names if name in NUMBERS} or "auto"
    asked = {"observed": [], "kinds": kinds, "states": {}, "weight": None} | roles
    spool = open_table_writer(folder, first, ColumnRoles(**asked))
    try:
        spool.add(first)
        for _, source in found:
            spool.add(source)
        return spool.finish()
    finally:
        spool.close()


def together(X, *, weight=None, **roles) -> SparseTable:
    """The same by way of the dense table of all rows, in which every column is nominal."""
    source = as_source(X)
    schema = learn_plain_schema(source, sample_weight=weight, numeric=[], **roles)
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
    same(spooled(blocks, tmp_path, **NOMINAL.get(kind, {})), together(KINDS[kind](FRAME)))


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
    blocks = (X[k : k + 100] for k in range(0, len(X), 100))
    same(spooled(blocks, tmp_path, kinds={"x0": "nominal"}), together(X))


def test_one_weight_for_all_rows(tmp_path) -> None:
    same(spooled(cut(FRAME, 7), tmp_path, weight=0.3), together(FRAME, weight=np.full(N, 0.3)))


def test_blocks_without_rows_are_passed_over(tmp_path) -> None:
    same(spooled([FRAME[:0], FRAME, FRAME[:0]], tmp_path), together(FRAME))


def test_batches_of_arrow(tmp_path) -> None:
    table = FRAME.to_arrow()
    same(spooled(table.to_batches(max_chunksize=9), tmp_path), together(table))


# -- dense tables ---------------------------------------------------------------------------------------------------

EVERY = FRAME.with_columns(
    height=pl.Series(np.round(rng.normal(170, 10, N), 1)),
    grade=pl.Series(rng.choice(["low", "mid", "high"], N), dtype=pl.Enum(["low", "mid", "high"])),
    day=pl.Series(np.datetime64("2020-01-01") + rng.integers(0, 400, N)),
    level=pl.Series(rng.integers(1, 6, N)),
)
"""Every kind of column."""


def with_gaps(frame: pl.DataFrame) -> pl.DataFrame:
    missing = np.random.default_rng(1).random(frame.shape) < 0.15
    return frame.with_columns(
        pl.when(pl.Series(~missing[:, k])).then(pl.col(name)).alias(name) for k, name in enumerate(frame.columns)
    )


def same_dense(one: Any, X: Any, *, weight=None, **roles) -> None:
    """Check that a table has the bits of the table of all rows in memory."""
    source = as_source(X)
    schema = learn_schema(source, sample_weight=weight, **roles)
    other = compile_table(source, schema, sample_weight=weight)
    assert isinstance(one, Table)
    assert repr(one.schema) == repr(schema)
    assert one.n_rows == other.n_rows
    for mine, theirs in zip(one.blocks, other.blocks, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert (a.tobytes(), a.dtype) == (b.tobytes(), b.dtype) if isinstance(a, np.ndarray) else a == b


@pytest.mark.parametrize("make", [pl.DataFrame.clone, pl.DataFrame.to_pandas, pl.DataFrame.to_arrow])
@pytest.mark.parametrize("size", [1, 17, N])
@pytest.mark.parametrize("frame", [EVERY, with_gaps(EVERY)], ids=["complete", "incomplete"])
def test_ordinal_and_numeric_columns_make_the_dense_table_of_all_rows(make, size, frame, tmp_path) -> None:
    blocks = map(make, cut(frame, size))
    same_dense(spooled(blocks, tmp_path, kinds="auto"), make(frame))


def test_kinds_are_found_out_as_in_memory(tmp_path) -> None:
    schema = spooled(cut(EVERY, 7), tmp_path, kinds="auto").schema
    kinds = {variable.name: variable.kind for variable in schema.variables}
    numeric = ("half", "many", "height", "day")
    assert {name for name, kind in kinds.items() if kind == "numeric"} == set(numeric)
    assert {name for name, kind in kinds.items() if kind == "ordinal"} == {"grade", "level"}
    assert schema.variables[schema.index_of_name["grade"]].states == ("low", "mid", "high")


@pytest.mark.parametrize("size", [7, N])
def test_types_of_columns_decide_about_kinds_as_in_memory(size, tmp_path) -> None:
    codes = rng.integers(1, 6, N)
    days = np.array(["2020-01-01", "2020-02-01", "2021-01-01"], dtype="M8[D]")[codes % 3]
    frame = pd.DataFrame({"code": pd.Categorical(codes), "day": days.astype("M8[s]"), "date": days.tolist()})
    found = spooled(cut(frame, size), tmp_path, kinds="auto")
    same_dense(found, frame)
    assert [variable.kind for variable in found.schema.variables] == ["nominal", "numeric", "numeric"]


@given(ends=st.lists(st.integers(0, N), max_size=6), weighted=st.booleans(), observed=st.booleans())
def test_a_dense_table_does_not_depend_on_the_blocks(ends, weighted, observed) -> None:
    frame = with_gaps(EVERY).with_columns(height=EVERY["height"], word=EVERY["word"])
    blocks = (frame[start:stop] for start, stop in pairwise([0, *sorted(ends), N]))
    roles = {
        "observed": ["height", "word"] if observed else [],
        "weight": WEIGHT if weighted else None,
        "kinds": {"many": "nominal", "word": ["c", "a", "b"]},
        "states": {"level": [7]},
    }
    with temporary_folder() as folder:
        same_dense(spooled(blocks, folder, **roles), frame, **roles)


def test_levels_of_a_sample_of_values_do_not_depend_on_the_blocks(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("sparsefield.data.column_summaries.SAMPLED_VALUES", 100)
    X = np.random.default_rng(3).normal(size=(900, 2)) ** 3
    for size in (40, 333):
        blocks = (X[k : k + size] for k in range(0, 900, size))
        same_dense(spooled(blocks, tmp_path, weight=np.arange(900.0)), X, weight=np.arange(900.0))


def test_missing_values_make_a_dense_table(tmp_path) -> None:
    X = np.zeros((N, 2))
    X[::3, 0] = 1
    X[31, 1] = np.nan
    X[:30, 1] = 1
    same_dense(spooled(cut(X, 30), tmp_path), X)
    words = with_gaps(FRAME.select("word", "yes", "truth"))
    for make in (pl.DataFrame.clone, pl.DataFrame.to_pandas):
        same_dense(spooled(map(make, cut(words, 13)), tmp_path), make(words))


def test_observed_columns_with_many_missing_cells_are_reported(tmp_path) -> None:
    frame = EVERY.with_columns(height=pl.when(pl.int_range(N) % 2 == 0).then("height"))
    with pytest.warns(CovariateWarning, match="'height' has 50% of its cells missing"):
        spooled(cut(frame, 7), tmp_path, kinds="auto", observed=["height"])


def test_a_dense_table_beyond_memory_is_refused_with_the_columns_to_change(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("sparsefield.data.memory.machine_memory", lambda: 1000.0)
    frame = with_gaps(EVERY.select("word", "height")).with_columns(height=EVERY["height"])
    with pytest.raises(DataError, match=r"60 rows x .*column 'height' is numeric, column 'word' has missing values"):
        spooled(cut(frame, 7), tmp_path)


def test_the_paper_s_coding_is_kept(tmp_path) -> None:
    frame = EVERY.select("word", "height")
    same_dense(spooled(cut(frame, 7), tmp_path, symmetric=False), frame, symmetric=False)


def test_kinds_of_sparse_rows_are_refused_all_at_once(tmp_path) -> None:
    kinds = {"x1": "numeric", "x2": "ordinal", "x3": "nominal"}
    wanted = r"'x1' is numeric, but the columns of sparse 0/1 rows are nominal: .* Column 'x2' is ordinal, "
    with pytest.raises(DataError, match=wanted):
        spooled(cut(SWITCHES, 13), tmp_path, kinds=kinds)
    rows = BinaryCSR(7, SWITCHES.indptr.astype(np.int64), SWITCHES.indices)
    with pytest.raises(DataError, match=wanted):
        table_from_rows(tmp_path, rows, ColumnRoles([], kinds, {}, None))
    same(spooled(cut(SWITCHES, 13), tmp_path, kinds={"x1": "nominal"}), together(SWITCHES))


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
    for cells in (X, X.astype(str)):
        with pytest.raises(DataError, match="looks like an identifier"):
            spooled((cells[k : k + 50] for k in range(0, 300, 50)), tmp_path, kinds={"x0": "nominal"})
    monkeypatch.setattr("sparsefield.app.tables.row_spool.MANY_LABELS", 120)
    with pytest.raises(DataError, match="150 different values in 150 cells"):
        spooled((X[k : k + 50].astype(str) for k in range(0, 300, 50)), tmp_path)


def test_objects_of_several_types_are_labels(tmp_path) -> None:
    X = np.array([[1, "u"], ["a", 2.0], [True, None], [2, "u"]] * 15, dtype=object)
    same_dense(spooled(cut(X, 1), tmp_path), X)


def test_a_file_that_grows_is_an_array_of_numpy(tmp_path) -> None:
    file = GrowingArray(tmp_path / "a.npy", np.int32)
    for k in range(30):
        file.append(np.arange(k))
    file.close()
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.concatenate([np.arange(k) for k in range(30)]))
    empty = GrowingArray(tmp_path / "b.npy", np.int64)
    assert empty.map().shape == (0,)
    map_array(tmp_path / "a.npy")[0] = 7
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
