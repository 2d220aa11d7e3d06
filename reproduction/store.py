"""This module stores finished runs on disk, so that an interrupted study can continue."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread
from typing import Any

import sparsefield
from reproduction.runs import Record, Run, Settings, perform
from sparsefield.atomic_write import write_atomically

__all__ = ["Results", "Store", "gather"]

FORMAT = 1
"""Increased whenever a change of the library, within a version, changes the results of a run."""


class Store:
    """A store is a folder with a JSON file for each run; another version or other settings make another run.

    Examples
    --------
    >>> import tempfile
    >>> store, run = Store(Path(tempfile.mkdtemp())), Run("cfi", "pl", nodes=5)
    >>> store.put(run, Settings(), [{"cll": -0.5}])
    >>> store.get(run, Settings())
    [{'cll': -0.5}]
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def get(self, run: Run, settings: Settings) -> list[Record] | None:
        """Return the records of a run, or None if it was not performed or its file is damaged."""
        key = _key(run, settings)
        try:
            kept = json.loads(self._path(run, key).read_text(encoding="utf-8"))
            records = kept["records"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if kept.get("key") != key or not _sound(records):
            return None
        return [{name: math.nan if value is None else value for name, value in one.items()} for one in records]

    def put(self, run: Run, settings: Settings, records: list[Record]) -> None:
        key = _key(run, settings)
        plain = [{name: _finite(value) for name, value in record.items()} for record in records]
        self.folder.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"key": key, "records": plain}, indent=1, allow_nan=False)
        write_atomically(self._path(run, key), content.encode("utf-8"))

    def _path(self, run: Run, key: dict[str, Any]) -> Path:
        mark = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]
        words = [run.data, str(run.nodes), f"seed{run.seed}", run.method, run.objective]
        return self.folder / f"{'-'.join(word for word in words if word)}-{mark}.json"


class Results(Mapping[Run, list[Record]]):
    """Results hold finished runs, and answer common queries about them."""

    def __init__(self, found: Mapping[Run, list[Record]]) -> None:
        self._found = dict(found)

    def __getitem__(self, run: Run) -> list[Record]:
        return self._found[run]

    def __iter__(self):
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def at(self, tolerance: float) -> Results:
        """Return the records of fits as printed at a tolerance; of runs that have none, nothing."""
        kept = {run: [one for one in found if one.get("tolerance") == tolerance] for run, found in self._found.items()}
        return Results({run: found for run, found in kept.items() if found})

    def mean(self, run: Run, measure: str) -> float:
        """Return the mean over the folds of a run; NaN if it was not measured."""
        values = [record.get(measure, math.nan) for record in self._found[run]]
        kept = [value for value in values if not math.isnan(value)]
        return sum(kept) / len(kept) if kept else math.nan


def gather(
    runs: Iterable[Run],
    settings: Settings,
    store: Store,
    *,
    jobs: int = 1,
    progress: Callable[[str], None] | None = None,
    report: Callable[[str], None] | None = None,
) -> Results:
    """Return the records of all runs; those that are not in the store are performed now and stored.

    With several ``jobs``, as many processes run in parallel. Their results are the same; their seconds are those of
    a busier machine. ``progress`` is called for every run that ends, ``report`` once with the number of stored runs.
    """
    wanted = list(dict.fromkeys(runs))
    found = {run: records for run in wanted if (records := store.get(run, settings)) is not None}
    missing = [run for run in wanted if run not in found]
    if report is not None and found:
        report(f"{len(found)} of {len(wanted)} runs were done before")

    def done(run: Run, records: list[Record]) -> None:
        store.put(run, settings, records)
        found[run] = records
        if progress is not None:
            progress(f"{len(found)} of {len(wanted)} runs done, last {run.words}")

    if jobs == 1 or len(missing) < 2:
        for run in missing:
            done(run, perform(run, settings))
    else:
        waiting: dict[Future[list[Record]], Run] = {}
        pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_end_with_parent)
        try:
            waiting |= {pool.submit(perform, run, settings): run for run in missing}
            for future in as_completed(waiting):
                done(waiting[future], future.result())
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            for future, run in waiting.items():  # what ended while an error or an interrupt was on its way
                if run not in found and not future.cancelled() and future.exception() is None:
                    store.put(run, settings, future.result())
    return Results({run: found[run] for run in wanted})


def _end_with_parent() -> None:
    """End this worker if its parent is killed; otherwise it would wait forever."""
    parent = parent_process()
    if parent is not None:
        Thread(target=lambda: (wait([parent.sentinel]), os._exit(1)), daemon=True).start()


LATER = {"converge": False, "tolerance": 0.0, "log_odds": False}
"""Fields of a run that came later; they are left out where they have these values, as in files from before."""
OF_PRINTED = ("folds_run", "tolerances")
"""Settings that only fits as printed have."""


def _key(run: Run, settings: Settings) -> dict[str, Any]:
    own = {name: value for name, value in asdict(run).items() if name not in LATER or value != LATER[name]}
    shared = {name: value for name, value in asdict(settings).items() if run.tolerance or name not in OF_PRINTED}
    header = {"format": FORMAT, "version": sparsefield.__version__, "run": own, "settings": shared}
    return json.loads(json.dumps(header))


def _sound(records: Any) -> bool:
    """Return whether these are records as `Store.put` writes them."""
    return (
        isinstance(records, list)
        and len(records) > 0
        and all(isinstance(one, dict) and all(_is_number(v) for v in one.values()) for one in records)
    )


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
