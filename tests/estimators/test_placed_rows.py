"""Fits to rows on the workers of a cluster have the optimum and the certificate of fits here."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sparsefield import CRFClassifier, FitCallbacks, MarkovField, Solver
from sparsefield.errors import DataError

pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")


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


def assert_same_optimum(there: MarkovField, here: MarkovField) -> None:
    assert there.converged_
    assert there.field_.record.n_rows == here.field_.record.n_rows
    assert there.field_.schema.input_names == here.field_.schema.input_names
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-6)
    weights = [
        dict(zip(map(tuple, field.field_.features.tolist()), field.field_.weights.tolist(), strict=True))
        for field in (there, here)
    ]
    for feature in weights[0].keys() | weights[1].keys():
        assert weights[0].get(feature, 0.0) == pytest.approx(weights[1].get(feature, 0.0), abs=1e-3)


@pytest.mark.parametrize(("missing", "n_partitions"), [(0.0, 1), (0.2, 5)])
def test_dask_frames(dask_client, missing, n_partitions) -> None:
    table = frame(3000, missing=missing)
    here = MarkovField(l1=5.0).fit(table, observed=["age"])
    parts = dd.from_pandas(table, npartitions=n_partitions)
    there = MarkovField(l1=5.0, solver=Solver(engine=dask_client)).fit(parts, observed=["age"])
    assert_same_optimum(there, here)
    assert len(there.features_)
    assert there.score(table) == pytest.approx(here.score(table), rel=1e-5)


def test_columns_of_every_kind(dask_client) -> None:
    """Numbers, ordered categories and levels, found out or given, with the optimum of a fit here."""
    table = frame(1500, seed=11, missing=0.1)
    order = pd.CategoricalDtype(["low", "fair", "high"], ordered=True)
    table = table.assign(mood=table["mood"].astype(order), steps=table["sleep"] * 7 + np.arange(1500) % 30)
    parts = dd.from_pandas(table, npartitions=4)
    for kinds in ("auto", {"sleep": "nominal", "coin": "ordinal", "steps": "numeric", "mood": ["low", "high", "fair"]}):
        here = MarkovField(l1=5.0, kinds=kinds).fit(table)
        there = MarkovField(l1=5.0, kinds=kinds, solver=Solver(engine=dask_client)).fit(parts)
        assert_same_optimum(there, here)
        assert {variable.kind for variable in here.field_.schema.variables} == {"nominal", "ordinal", "numeric"}


def test_dask_arrays_with_equal_rows(dask_client) -> None:
    rows = frame(4000, seed=1)[["sleep", "works", "coin"]].to_numpy().astype(float)
    weight = np.random.default_rng(2).random(4000)
    here = MarkovField(l1=2.0, selection="ebic", refit=True).fit(rows, sample_weight=weight)
    there = MarkovField(l1=2.0, selection="ebic", refit=True, solver=Solver(engine=dask_client))
    there.fit(da.from_array(rows, chunks=(1500, 2)), sample_weight=da.from_array(weight, chunks=700))
    assert_same_optimum(there, here)
    assert here.field_.record.n_rows == there.field_.record.n_rows == 4000


def test_l1_is_chosen_on_the_cluster(dask_client) -> None:
    table = frame(3000, seed=3)
    options = {"l1": "auto", "selection": "ebic", "refit": True}
    here = MarkovField(l1=2.0).set_params(**options).fit(table, observed=["age"])
    there = (
        MarkovField(l1=2.0)
        .set_params(**options, solver__engine=dask_client)
        .fit(dd.from_pandas(table, npartitions=3), observed=["age"])
    )
    assert_same_optimum(there, here)


def test_a_fit_to_placed_rows_continues_from_its_checkpoint(dask_client, tmp_path) -> None:
    class StopError(Exception):
        pass

    def stop(step) -> None:
        if step.iteration == 6:
            raise StopError

    parts = dd.from_pandas(frame(3000, seed=4), npartitions=3)
    undisturbed = MarkovField(l1=2.0, solver=Solver(engine=dask_client)).fit(parts, observed=["age"])
    field = MarkovField(l1=2.0, solver=Solver(checkpoint=tmp_path, engine=dask_client))
    field.set_params(solver__callbacks=FitCallbacks(on_iteration=stop))
    with pytest.raises(StopError):
        field.fit(parts, observed=["age"])
    with pytest.raises(DataError, match="other data"):
        MarkovField(l1=2.0, solver=Solver(checkpoint=tmp_path, engine=dask_client)).fit(
            dd.from_pandas(frame(3000, seed=5), npartitions=3), observed=["age"]
        )
    heard: list[int] = []
    field.set_params(solver__callbacks=FitCallbacks(on_iteration=lambda step: heard.append(step.iteration)))
    field.fit(parts, observed=["age"])
    assert heard[0] > 1
    assert_same_optimum(field, undisturbed)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: da.from_array(np.zeros((0, 3)), chunks=(1, 3)), "no rows"),
        (lambda: da.from_array(np.zeros(300), chunks=100), "Expected 2D array, got 1D"),
        (lambda: partitions(frame(90), frame(90).rename(columns={"coin": "dime"})), "Partition 1 .*such as 'coin'"),
        (lambda: partitions(frame(90), frame(90).assign(coin="a")), "'coin' holds numbers in some partitions and text"),
        (lambda: da.from_array(np.arange(600).reshape(-1, 2) * 0.5, chunks=100).astype(str), "different values in 300"),
    ],
)
def test_partitions_that_make_no_table_are_refused(dask_client, made, words) -> None:
    with pytest.raises(DataError, match=words):
        MarkovField(l1=2.0, solver=Solver(engine=dask_client)).fit(made())


def partitions(*parts: pd.DataFrame):
    return dd.from_map(lambda part: part, list(parts), meta=parts[0].iloc[:0], enforce_metadata=False)


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (np.ones(301), r"\(301,\)"),
        (da.ones(299, chunks=50), r"\(299,\)"),
        (da.from_array(np.where(np.arange(300) == 123, np.nan, 1.0), chunks=100), "of row 123 is nan"),
        (da.zeros(300, chunks=50), "all weights are zero"),
    ],
)
def test_weights_that_do_not_fit_are_refused(dask_client, weight, words) -> None:
    rows = da.from_array(np.arange(900).reshape(300, 3) % 2, chunks=(70, 3))
    with pytest.raises(ValueError, match=words):
        MarkovField(l1=2.0, solver=Solver(engine=dask_client)).fit(rows, sample_weight=weight)


def test_what_cannot_be_done_is_said(dask_client) -> None:
    table = dd.from_pandas(frame(600), npartitions=2)
    with pytest.raises(DataError, match="engine=client"):
        MarkovField(l1=2.0).fit(table)
    with pytest.raises(DataError, match="selection='ebic'"):
        MarkovField(l1="auto", solver=Solver(engine=dask_client)).fit(table)
    with pytest.raises(DataError, match="in parts"):
        MarkovField(l1=2.0, latent={"topic": 2}, solver=Solver(engine=dask_client)).fit(table)
    field = MarkovField(l1=2.0).fit(frame(600), observed=["age"])
    for ask in (
        field.score,
        field.transform,
        field.predict_proba,
        CRFClassifier(l1=2.0, solver=Solver(engine=dask_client)).fit,
    ):
        with pytest.raises(DataError, match=r"of Dask.*compute\(\)"):
            ask(table, *([np.zeros(600)] if ask.__name__ == "fit" else []))
    with pytest.raises(DataError, match="'nobody'"):
        MarkovField(l1=2.0, solver=Solver(engine=dask_client)).fit(table, observed=["nobody"])
