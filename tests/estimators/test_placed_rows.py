"""Fits to rows that lie on the workers of a cluster end with the bytes of fits here."""

from __future__ import annotations

import shutil

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

from sparsefield import CRFClassifier, FitCallbacks, MarkovField, Solver, config, load, regularization_path
from sparsefield.app.cli import app
from sparsefield.errors import DataError

pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")


@pytest.fixture
def client(dask_client):
    return dask_client


def frame(n_rows: int, seed: int = 0, missing: float = 0.0) -> pd.DataFrame:
    """Three columns that depend on each other, one that does not, and an observed number."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 3, n_rows)
    second = np.where(rng.random(n_rows) < 0.8, first, rng.integers(0, 3, n_rows))
    third = np.where(rng.random(n_rows) < 0.7, second > 0, rng.random(n_rows) < 0.5)
    table = pd.DataFrame(
        {
            "mood": np.array(["low", "fair", "high"], dtype=object)[first],
            "sleep": second,
            "works": third.astype(int),
            "coin": rng.integers(0, 2, n_rows),
            "age": rng.normal(40, 10, n_rows).round(1),
        }
    )
    for name in ("mood", "coin"):
        table.loc[rng.random(n_rows) < missing, name] = None
    return table


def saved(field: MarkovField, path) -> bytes:
    field.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("n_partitions", [1, 5])
def test_dask_frames(client, tmp_path, missing, n_partitions) -> None:
    table = frame(3000, missing=missing)
    here = MarkovField(l1=5.0).fit(table, observed=["age"])
    parts = dd.from_pandas(table, npartitions=n_partitions)
    there = MarkovField(l1=5.0, engine=client).fit(parts, observed=["age"])
    assert saved(there, tmp_path / "there") == saved(here, tmp_path / "here")
    assert len(there.features_)
    pd.testing.assert_frame_equal(there.transform(table), here.transform(table))


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_columns_of_every_kind(client, tmp_path, missing) -> None:
    """Numbers, ordered categories and levels, found out or given, with the bytes of a fit here."""
    table = frame(1500, seed=11, missing=missing)
    order = pd.CategoricalDtype(["low", "fair", "high"], ordered=True)
    table = table.assign(mood=table["mood"].astype(order), steps=table["sleep"] * 7 + np.arange(1500) % 30)
    parts = dd.from_pandas(table, npartitions=4)
    for kinds in ("auto", {"sleep": "nominal", "coin": "ordinal", "steps": "numeric", "mood": ["low", "high", "fair"]}):
        here = MarkovField(l1=5.0, kinds=kinds).fit(table)
        there = MarkovField(l1=5.0, kinds=kinds, engine=client).fit(parts)
        assert saved(there, tmp_path / "there") == saved(here, tmp_path / "here")
        assert {variable.kind for variable in here.field_.schema.variables} == {"nominal", "ordinal", "numeric"}


def test_dask_arrays_with_equal_rows(client, tmp_path) -> None:
    rows = frame(4000, seed=1)[["sleep", "works", "coin"]].to_numpy().astype(float)
    weight = np.random.default_rng(2).random(4000)
    here = MarkovField(l1=2.0, selection="ebic", refit=True).fit(rows, sample_weight=weight)
    there = MarkovField(l1=2.0, selection="ebic", refit=True, engine=client)
    there.fit(da.from_array(rows, chunks=(1500, 2)), sample_weight=da.from_array(weight, chunks=700))
    assert saved(there, tmp_path / "there") == saved(here, tmp_path / "here")
    assert here.field_.record.n_rows == there.field_.record.n_rows == 4000


def test_tables_that_are_sparse_stay_so(client, tmp_path, monkeypatch) -> None:
    """As they would here, where they are large enough for it to pay."""
    monkeypatch.setattr(config, "CELLS_FOR_SPARSE", 1000)
    rng = np.random.default_rng(8)
    rows = (rng.random((3000, 30)) < 0.03).astype(int)
    rows[:, 1] |= rows[:, 0] & (rng.random(3000) < 0.8)
    here = MarkovField(l1=3.0).fit(rows)
    there = MarkovField(l1=3.0, engine=client).fit(da.from_array(rows, chunks=(700, 30)))
    assert saved(there, tmp_path / "there") == saved(here, tmp_path / "here")
    assert ("x0", "x1") in set(zip(there.edges_["variable_a"], there.edges_["variable_b"], strict=True))


def test_l1_is_chosen_on_the_cluster(client, tmp_path) -> None:
    table = frame(3000, seed=3)
    options = {"l1": "auto", "selection": "ebic", "refit": True}
    here = MarkovField(l1=2.0).set_params(**options).fit(table, observed=["age"])
    there = (
        MarkovField(l1=2.0)
        .set_params(**options, engine=client)
        .fit(dd.from_pandas(table, npartitions=3), observed=["age"])
    )
    assert saved(there, tmp_path / "there") == saved(here, tmp_path / "here")


def test_a_path_of_placed_rows(client) -> None:
    table = frame(1500, seed=9)
    here = regularization_path(MarkovField(l1=2.0, selection="ebic"), table, observed=["age"])
    parts = dd.from_pandas(table, npartitions=3)
    there = regularization_path(MarkovField(l1=2.0, selection="ebic", engine=client), parts, observed=["age"])
    pd.testing.assert_frame_equal(there, here, check_exact=True)


def test_checkpoints_of_placed_rows(client, tmp_path) -> None:
    """A fit that is interrupted goes on, there or here, and only with the rows that it knows."""

    class StopError(Exception):
        pass

    table = frame(3000, seed=4, missing=0.1)
    parts, folder = dd.from_pandas(table, npartitions=3), tmp_path / "checkpoint"

    def stop(step) -> None:
        if step.iteration == 12:
            raise StopError

    undisturbed = MarkovField(l1=2.0, engine=client).fit(parts, observed=["age"])
    field = MarkovField(l1=2.0, engine=client, solver=Solver(checkpoint=folder))
    field.callbacks = FitCallbacks(on_iteration=stop)
    with pytest.raises(StopError):
        field.fit(parts, observed=["age"])
    with pytest.raises(DataError, match="other data"):
        MarkovField(l1=2.0, engine=client, solver=Solver(checkpoint=folder)).fit(
            dd.from_pandas(frame(3000, seed=5), npartitions=3), observed=["age"]
        )
    (elsewhere := tmp_path / "elsewhere").mkdir()
    shutil.copy(next(folder.iterdir()), elsewhere)
    parted = dd.from_pandas(table, npartitions=2)
    for X, engine, place in ((parted, client, folder), (table, None, elsewhere)):
        heard: list[int] = []
        again = MarkovField(l1=2.0, engine=engine, solver=Solver(checkpoint=place))
        again.callbacks = FitCallbacks(on_iteration=lambda step, heard=heard: heard.append(step.iteration))
        again.fit(X, observed=["age"])
        assert heard[0] > 1
        assert saved(again, tmp_path / "again") == saved(undisturbed, tmp_path / "undisturbed")


def test_parquet_that_workers_read(client, tmp_path) -> None:
    table = pl.from_pandas(frame(2500, seed=6, missing=0.1)).with_columns(who=pl.int_range(2500))
    folder = tmp_path / "rows"
    folder.mkdir()
    for k, start in enumerate(range(0, 2500, 900)):
        table[start : start + 900].write_parquet(folder / f"part{k}.parquet")
    here = MarkovField(l1=5.0).fit(table.drop("who"), observed=["age"])
    drop_who = tmp_path / "less"
    drop_who.mkdir()
    table.drop("who").write_parquet(drop_who / "all.parquet")
    there = MarkovField(l1=5.0, engine=client).fit(drop_who, observed=["age"])
    assert saved(there, tmp_path / "there") == saved(here, tmp_path / "here")
    address = client.scheduler.address.removeprefix("tcp://")
    model = tmp_path / "model.safetensors"
    asked = [
        "fit",
        str(folder),
        "-o",
        str(model),
        "--id",
        "who",
        "--observed",
        "age",
        "--l1",
        "5",
        "--cluster",
        address,
    ]
    told = CliRunner().invoke(app, asked)
    assert told.exit_code == 0, told.output
    assert "dashboard" in told.output
    assert "MB an iteration" in told.output
    read = load(model).field_
    assert read.theta.tobytes() == here.field_.theta.tobytes()
    assert np.array_equal(read.features, here.field_.features)


def test_a_csv_is_read_here_and_sent(client, tmp_path) -> None:
    data, address = tmp_path / "survey.csv", client.scheduler.address
    frame(600, seed=7).drop(columns="age").to_csv(data, index=False)
    files = {}
    for name, more in {"here": [], "there": ["--cluster", address]}.items():
        files[name] = tmp_path / f"{name}.safetensors"
        told = CliRunner().invoke(app, ["fit", str(data), "-o", str(files[name]), "--no-check", *more])
        assert told.exit_code == 0, told.output
    assert files["here"].read_bytes() == files["there"].read_bytes()


def test_what_cannot_be_done_is_said(client) -> None:
    table = dd.from_pandas(frame(600), npartitions=2)
    with pytest.raises(DataError, match="engine=client"):
        MarkovField(l1=2.0).fit(table)
    with pytest.raises(DataError, match="selection='ebic'"):
        MarkovField(l1="auto", engine=client).fit(table)
    with pytest.raises(DataError, match="in parts"):
        MarkovField(l1=2.0, latent={"topic": 2}, engine=client).fit(table)
    field = MarkovField(l1=2.0).fit(frame(600), observed=["age"])
    for ask in (field.score, field.transform, field.predict_proba, CRFClassifier(l1=2.0, engine=client).fit):
        with pytest.raises(DataError, match=r"of Dask.*compute\(\)"):
            ask(table, *([np.zeros(600)] if ask.__name__ == "fit" else []))
    with pytest.raises(DataError, match="'nobody'"):
        MarkovField(l1=2.0, engine=client).fit(table, observed=["nobody"])
