"""Finished runs on disk: what is done stays done, and nothing else is believed."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small import SMALL, but_times

import sparsefield
from reproduction import store as module
from reproduction.runs import Record, Run, Settings, perform
from reproduction.store import Results, Store, gather

RUNS = [Run(method, "pl", nodes=8, seed=seed) for seed in (1, 0) for method in ("cfi", "full", "grafting")]
ONE = RUNS[0]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "new" / "runs")


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Runs are not done but written down."""
    performed: list[Run] = []

    def write_down(run: Run, settings: Settings) -> list[Record]:
        performed.append(run)
        return [{"cll": -float(len(run.method)), "seed": float(run.seed)}] * settings.folds

    monkeypatch.setattr(module, "perform", write_down)
    return performed


def only_file(store: Store) -> Path:
    (name,) = os.listdir(store.folder)
    return store.folder / name


# -- a store ---------------------------------------------------------------------------------------------------------


def test_what_is_put_is_got(store: Store) -> None:
    records: list[Record] = [{"cll": -0.1234567890123456789, "induced": 30}, {"cll": math.nan, "active": 1e-300}]
    assert store.get(ONE, SMALL) is None
    store.put(ONE, SMALL, records)
    found = store.get(ONE, SMALL)
    assert found is not None
    assert found[0] == records[0]
    assert math.isnan(found[1]["cll"])
    assert found[1]["active"] == 1e-300
    assert json.loads(only_file(store).read_text("utf-8"))["records"][1]["cll"] is None


def test_other_settings_and_other_versions_are_other_runs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(ONE, SMALL, [{"cll": 1.0}])
    for other in (replace(SMALL, folds=3), replace(SMALL, l1=1.0), replace(SMALL, weights=(-1.0, 1.0))):
        assert store.get(ONE, other) is None
    for run in (*RUNS[1:], replace(ONE, batch=30), replace(ONE, stages=2), replace(ONE, complete=True)):
        assert store.get(run, SMALL) is None
    assert store.get(replace(ONE), replace(SMALL)) == [{"cll": 1.0}]
    monkeypatch.setattr(sparsefield, "__version__", "0.0.0.other")
    assert store.get(ONE, SMALL) is None


def test_equal_runs_have_one_file(store: Store) -> None:
    store.put(Run("cfi", "pl", nodes=8, threshold=0), SMALL, [{"cll": 1.0}])
    assert store.get(Run("cfi", "pl", nodes=8, threshold=0.0), SMALL) == [{"cll": 1.0}]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"\xff\xfe", b"[]", b"7", b'"records"', b"null", b'{"records": []}', b'{"records": [{"cll": 1.0}]}',
        b'{"key": {}, "records": [{"cll": 1.0}]}',
    ],
)  # fmt: skip
def test_damaged_and_foreign_files_are_not_believed(store: Store, done, content) -> None:
    store.put(ONE, SMALL, [{"cll": 1.0}])
    only_file(store).write_bytes(content)
    assert store.get(ONE, SMALL) is None
    again = gather([ONE], SMALL, store)
    assert done == [ONE]
    assert store.get(ONE, SMALL) == again[ONE]


@pytest.mark.parametrize(
    "records", [[], [1.0], [None], {"cll": 1.0}, "x", [{"cll": "x"}], [{"cll": [1]}], [{"a": True}]]
)
def test_a_file_of_this_run_with_odd_records_is_not_believed(store: Store, records: Any) -> None:
    store.put(ONE, SMALL, [{"cll": 1.0}])
    kept = json.loads(only_file(store).read_text("utf-8"))
    only_file(store).write_text(json.dumps(kept | {"records": records}))
    assert store.get(ONE, SMALL) is None


def test_a_file_of_another_run_at_the_same_place_is_not_believed(store: Store) -> None:
    store.put(ONE, SMALL, [{"cll": 1.0}])
    mine = only_file(store)
    Store(store.folder.parent / "other").put(RUNS[1], SMALL, [{"cll": 2.0}])
    (other,) = (store.folder.parent / "other").iterdir()
    mine.write_bytes(other.read_bytes())
    assert store.get(ONE, SMALL) is None


# -- results ---------------------------------------------------------------------------------------------------------


def test_means_are_over_the_folds_that_have_a_value() -> None:
    found = Results({ONE: [{"ap": 1.0, "edge": math.nan}, {"ap": 3.0}, {"ap": math.nan, "edge": math.nan}]})
    assert found.mean(ONE, "ap") == 2.0
    assert math.isnan(found.mean(ONE, "edge"))
    assert math.isnan(found.mean(ONE, "never measured"))
    with pytest.raises(KeyError):
        found.mean(RUNS[1], "ap")


# -- gathering -------------------------------------------------------------------------------------------------------


def test_only_what_is_missing_is_done(store: Store, done) -> None:
    first = gather([*RUNS[:2], RUNS[0]], SMALL, store)
    assert done == RUNS[:2]
    told: list[str] = []
    reported: list[str] = []
    found = gather(RUNS, SMALL, store, progress=told.append, report=reported.append)
    assert done == RUNS
    assert list(found) == RUNS
    assert {run: found[run] for run in first} == dict(first)
    assert reported == ["2 of 6 runs were done before"]
    assert told == [f"{k} of 6 runs done, last {RUNS[k - 1].words}" for k in range(3, 7)]
    assert gather(reversed(RUNS), SMALL, store) == found
    assert list(gather(reversed(RUNS), SMALL, store)) == RUNS[::-1]
    assert len(done) == 6


@pytest.mark.parametrize("stop_after", [1, 4])
def test_an_interrupted_study_goes_on_where_it_stood(store: Store, done, stop_after) -> None:
    heard = []

    def interrupt(line: str) -> None:
        heard.append(line)
        if len(heard) == stop_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gather(RUNS, SMALL, store, progress=interrupt)
    assert len(os.listdir(store.folder)) == stop_after
    found = gather(RUNS, SMALL, store)
    assert done == RUNS
    assert found == gather(RUNS, SMALL, Store(store.folder / "elsewhere"))


def test_a_run_that_fails_leaves_the_others(store: Store, done, monkeypatch: pytest.MonkeyPatch) -> None:
    well = module.perform

    def fail(run: Run, settings: Settings) -> list[Record]:
        if run == RUNS[2]:
            raise ValueError("no such luck")
        return well(run, settings)

    monkeypatch.setattr(module, "perform", fail)
    with pytest.raises(ValueError, match="no such luck"):
        gather(RUNS, SMALL, store)
    assert len(os.listdir(store.folder)) == 2


def test_other_processes_find_the_same(store: Store) -> None:
    runs = [Run("cfi", "pl", nodes=8), Run("grafting", "cd", nodes=8, seed=1)]
    found = gather(runs, SMALL, store, jobs=2)
    assert list(found) == runs
    for run in runs:
        assert but_times(found[run]) == but_times(perform(run, SMALL))
    assert gather(runs, SMALL, store) == found
