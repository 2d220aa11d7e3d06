"""Fits to blocks of rows: the same field as from all rows at once."""

from __future__ import annotations

import tempfile

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from plain import learn_plain_schema

from sparsefield import FitCallbacks, MarkovField, Solver, config, load
from sparsefield.app.tables.row_blocks import save_rows
from sparsefield.data import DenseDataset, SparseTable, as_source, compile_table
from sparsefield.errors import DataError
from sparsefield.estimators.field_estimator import TrainingData
from sparsefield.estimators.training import train

N = 400
rng = np.random.default_rng(0)
CAUSE = rng.integers(0, 4, N)
WEIGHT = rng.uniform(0.2, 2.0, N)
SWITCHES = sp.csr_matrix(((CAUSE[:, None] == np.arange(12) % 4) & (rng.random((N, 12)) < 0.4)).astype(np.int8))
FRAME = pl.DataFrame(
    {
        name: np.array(["none", "some", "lots"])[
            np.where(rng.random(N) < 0.7, np.minimum(CAUSE, 2), rng.integers(3, size=N))
        ]
        for name in "abcd"
    }
).with_columns(yes=pl.Series((CAUSE == 1) ^ (rng.random(N) < 0.1)), same=pl.lit("x"))


@pytest.fixture(autouse=True)
def everything_is_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables in memory are small and dense; they are to take the path that streams take."""
    monkeypatch.setattr(config, "SPARSE_DENSITY", 1.0)


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Where temporary files go; nothing is left there."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def cut(X, size: int):
    return (X[start : start + size] for start in range(0, X.shape[0], size))


def same_field(one: MarkovField, other: MarkovField) -> None:
    for name in ("biases", "pairs", "weights"):
        np.testing.assert_array_equal(getattr(one.field_, name), getattr(other.field_, name))
    assert one.field_.schema == other.field_.schema
    assert (one.objective_, one.kkt_violation_, one.n_iter_) == (other.objective_, other.kkt_violation_, other.n_iter_)
    assert (one.kind_, one.states_) == (other.kind_, other.states_)
    assert one.n_features_in_ == other.n_features_in_
    assert (
        getattr(one, "feature_names_in_", np.zeros(0)).tolist()
        == getattr(other, "feature_names_in_", np.zeros(0)).tolist()
    )


def fit_together(X, *, weight=None, observed=(), **options) -> MarkovField:
    """A fit of the sparse table of a whole frame."""
    source = as_source(X)
    schema = learn_plain_schema(source, observed=list(observed), sample_weight=weight)
    table = compile_table(source, schema, sample_weight=weight)
    on = np.concatenate([block.beliefs for block in table.blocks], axis=1).T > 0
    offsets = np.concatenate([[0], np.cumsum(on.sum(axis=1))])
    columns = np.nonzero(on)[1].astype(np.int32)
    weight = np.ones(N) if weight is None else weight
    field = MarkovField(l1=2.0).set_params(**options).fit(X, observed=observed, sample_weight=weight)
    train(field, TrainingData(DenseDataset.single(SparseTable(schema, offsets, columns, weight)), source.kind))
    return field


@pytest.mark.parametrize("size", [1, 90, N])
def test_sparse_blocks_give_the_bits_of_the_whole_matrix(size) -> None:
    options = {"observed": [2], "sample_weight": WEIGHT}
    same_field(MarkovField(l1=2.0).fit(cut(SWITCHES, size), **options), MarkovField(l1=2.0).fit(SWITCHES, **options))


@pytest.mark.parametrize("make", [pl.DataFrame.clone, pl.DataFrame.to_pandas, pl.DataFrame.to_arrow])
def test_blocks_of_frames_give_the_bits_of_the_whole_frame(make) -> None:
    field = MarkovField(l1=2.0).fit(map(make, cut(FRAME, 123)), observed=["b"], sample_weight=WEIGHT)
    same_field(field, fit_together(make(FRAME), observed=["b"], weight=WEIGHT))


def test_blocks_reach_the_optimum_of_the_dense_path() -> None:
    options = {"solver__tol": 1e-12, "solver__kkt_tol": 1e-6}
    codes = FRAME.drop("same").select(pl.all().cast(pl.String).rank("dense")).to_numpy().astype(int)
    kinds = {f"x{k}": "nominal" for k in range(codes.shape[1])}
    streamed, dense = (
        MarkovField(l1=2.0, kinds=kinds).set_params(**options).fit(cut(codes, 90)),
        MarkovField(l1=2.0, kinds=kinds, coding="reference").set_params(**options).fit(codes),
    )
    assert streamed.converged_
    assert streamed.objective_ == pytest.approx(dense.objective_, rel=1e-9)
    one, two = (
        field.features_.sort("variable_a", "state_a", "variable_b", "state_b")["weight"].to_numpy()
        for field in (streamed, dense)
    )
    np.testing.assert_allclose(one, two, atol=1e-5)
    one, two = (field.biases_.sort("variable", "state")["weight"].to_numpy() for field in (streamed, dense))
    np.testing.assert_allclose(one, two, atol=1e-5)
    assert streamed.score(codes) == pytest.approx(dense.score(codes), abs=1e-6)


def every_kind(missing: float = 0.0) -> pl.DataFrame:
    """Return numbers, ordered and other categories that depend on each other."""
    made, answers = np.random.default_rng(1), ["no", "maybe", "yes"]
    columns = {
        "height": np.round(170 + 5 * CAUSE + made.normal(0, 4, N), 1),
        "count": made.poisson(3 * CAUSE + 5),
        "level": np.clip(CAUSE + made.integers(0, 2, N) + 1, 1, 5),
        "answer": pl.Series(np.array(answers)[np.minimum(CAUSE, 2)], dtype=pl.Enum(answers)),
        "word": FRAME["a"],
        "yes": FRAME["yes"],
    }
    holes = made.random((N, len(columns))) < missing
    return pl.DataFrame(columns).with_columns(
        pl.when(pl.Series(~holes[:, k])).then(pl.col(name)).alias(name) for k, name in enumerate(columns)
    )


@pytest.mark.slow
@pytest.mark.grid(keep=1)
@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("make", [pl.DataFrame.clone, pl.DataFrame.to_pandas])
def test_blocks_of_every_kind_of_column_give_the_bits_of_the_whole_frame(make, missing) -> None:
    frame = make(every_kind(missing).with_columns(height=every_kind()["height"]))
    for options in ({}, {"observed": ["height"], "sample_weight": WEIGHT}):
        whole = MarkovField(l1=4.0, random_state=0).fit(frame, **options)
        kinds = {variable.name: variable.kind for variable in whole.field_.schema.variables}
        assert set(kinds.values()) == {"nominal", "ordinal", "numeric"}
        for size in (37, 250):
            same_field(MarkovField(l1=4.0, random_state=0).fit(cut(frame, size), **options), whole)


@pytest.mark.slow
def test_numbers_in_files_give_the_same_field(tmp_path) -> None:
    frame = every_kind(0.1)
    for k, part in enumerate(cut(frame, 150)):
        part.write_parquet(tmp_path / f"{k}.parquet")
    options = {"l1": "auto", "selection": "ebic", "random_state": 0, "kinds": {"level": "nominal", "count": "ordinal"}}
    same_field(MarkovField(**options).fit(tmp_path), MarkovField(**options).fit(frame))


@pytest.mark.slow
def test_files_give_the_same_field(tmp_path) -> None:
    wanted = MarkovField(l1=2.0).fit(cut(FRAME, N))
    (tmp_path / "parts").mkdir()
    for k, part in enumerate(cut(FRAME, 150)):
        part.write_parquet(tmp_path / "parts" / f"{k}.parquet")
    FRAME.write_parquet(tmp_path / "all.parquet")
    for X in (tmp_path / "all.parquet", str(tmp_path / "parts"), sorted((tmp_path / "parts").iterdir())):
        same_field(MarkovField(l1=2.0).fit(X), wanted)


def test_saved_rows_and_matrices_in_files_give_the_same_field(tmp_path) -> None:
    sp.save_npz(tmp_path / "m.npz", SWITCHES)
    rows = save_rows(cut(SWITCHES, 77), tmp_path / "rows")
    for observed in ([], ["x3"]):
        wanted = MarkovField(l1=2.0).fit(SWITCHES, observed=observed)
        for X in (rows, str(tmp_path / "m.npz")):
            same_field(MarkovField(l1=2.0).fit(X, observed=observed), wanted)
    for X in (rows, tmp_path / "m.npz"):
        assert wanted.score(X) == pytest.approx(wanted.score(SWITCHES), rel=1e-12)


def test_states_work_as_for_tables(tmp_path) -> None:
    states = {"a": ["lots", "never"]}
    field = MarkovField(l1=2.0).fit(cut(FRAME, 90), states=states)
    assert field.states_["a"] == ["lots", "never", "none", "some"]
    rows = save_rows(SWITCHES, tmp_path / "rows")
    assert MarkovField(l1=2.0).fit(rows, states={"x0": [0, 1, 2]}).states_["x0"] == [0, 1, 2]


def test_functions_and_things_to_iterate_over() -> None:
    class Blocks:
        def __iter__(self):
            return cut(FRAME, 90)

    field = MarkovField(l1=2.0).fit(Blocks())
    same_field(MarkovField(l1=2.0).fit(lambda: cut(FRAME, 31)), field)
    assert field.score(Blocks()) == pytest.approx(field.score(FRAME), rel=1e-12)


def test_a_streamed_field_answers_and_is_saved_like_any_other(tmp_path) -> None:
    field = MarkovField(l1=2.0).fit(cut(FRAME.to_pandas(), 90))
    assert field.feature_names_in_.tolist() == FRAME.columns
    incomplete = FRAME.to_pandas().mask(rng.random(FRAME.shape) < 0.2)
    filled = field.transform(incomplete)
    assert isinstance(filled, pd.DataFrame)
    assert not filled.isna().any().any()
    field.save(tmp_path / "m.safetensors")
    assert load(tmp_path / "m.safetensors").transform(incomplete).equals(filled)


def test_answers_are_refused_for_streams() -> None:
    field = MarkovField(l1=2.0).fit(cut(FRAME, 90))
    for ask in (field.transform, field.predict_proba, lambda X: field.sample(given=X)):
        with pytest.raises(DataError, match="pass block after block"):
            ask(cut(FRAME, 90))
    with pytest.raises(DataError, match="no rows"):
        field.score(iter([FRAME[:0]]))


@pytest.mark.parametrize(
    ("options", "words"), [({"objective": "cd"}, "objective='cd'"), ({"induction": "ideal-parent"}, "'ideal-parent'")]
)
def test_what_needs_all_rows_is_refused(options, words) -> None:
    with pytest.raises(DataError, match=f"{words} needs all rows in memory"):
        MarkovField(l1=2.0).set_params(**options).fit(cut(FRAME, 90))


@pytest.mark.slow
def test_bad_streams_leave_nothing_behind() -> None:
    def broken():
        yield FRAME
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        MarkovField(l1=2.0).fit(broken())
    with pytest.raises(DataError, match="without blocks"):
        MarkovField(l1=2.0).fit(iter([]))
    with pytest.raises(DataError, match="'a' holds numbers from row 400 on"):
        MarkovField(l1=2.0).fit(iter([FRAME, FRAME.with_columns(a=pl.lit(1))]))
    with pytest.raises(DataError, match=r"observed=.*'nothing', which is not there"):
        MarkovField(l1=2.0).fit(cut(FRAME, 90), observed=["nothing"])
    with pytest.raises(DataError, match="sample_weight"):
        MarkovField(l1=2.0).fit(cut(FRAME, 90), sample_weight=WEIGHT[:-1])
    with pytest.raises(DataError, match="sample_weight of row 3 is -1"):
        MarkovField(l1=2.0).fit(cut(FRAME, 90), sample_weight=np.where(np.arange(N) == 3, -1, 1))
    with pytest.raises(DataError, match="by keyword"):
        MarkovField(l1=2.0).fit(cut(FRAME, 90), ["a"])
    with pytest.raises(DataError, match="there is no such file"):
        MarkovField(l1=2.0).fit("no.parquet")


def test_reading_is_told() -> None:
    field, heard = MarkovField(l1=2.0), []
    field.callbacks = FitCallbacks(on_rows_read=heard.append)
    field.fit(cut(FRAME, 150))
    assert heard == [150, 300, 400]


def test_a_stream_goes_on_from_a_checkpoint(tmp_path, monkeypatch) -> None:
    wanted = MarkovField(l1=2.0).fit(cut(FRAME, 90))

    class StopError(Exception):
        pass

    def stop(step) -> None:
        if step.iteration == 4:
            raise StopError

    interrupted = MarkovField(l1=2.0, solver=Solver(checkpoint=tmp_path / "state"))
    interrupted.callbacks = FitCallbacks(on_iteration=stop)
    with pytest.raises(StopError):
        interrupted.fit(cut(FRAME, 90))
    same_field(MarkovField(l1=2.0, solver=Solver(checkpoint=tmp_path / "state")).fit(cut(FRAME, 41)), wanted)


@pytest.mark.slow
def test_matrices_on_disk_are_learned_as_they_are(tmp_path) -> None:
    """A matrix whose arrays lie in files is no stream, and gives the same field."""
    arrays = []
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{name}.npy", getattr(SWITCHES, name))
        arrays.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    on_disk = sp.csr_matrix(tuple(arrays), shape=SWITCHES.shape)
    assert np.shares_memory(as_source(on_disk).native.indices, arrays[1])
    same_field(MarkovField(l1=2.0).fit(on_disk), MarkovField(l1=2.0).fit(SWITCHES))


@pytest.mark.slow
def test_rows_of_a_stream_are_not_held_back() -> None:
    blocks = [np.random.default_rng(k).integers(0, 2, (50, 4)) for k in range(3)]
    with pytest.raises(DataError, match="selection='ebic'"):
        MarkovField(l1="auto").fit(iter(blocks))
    assert MarkovField(l1="auto", selection="ebic").fit(iter(blocks)).l1_ > 0
