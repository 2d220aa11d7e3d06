"""How all tests run, and the fixtures that those of the package share with those of benchmarks, study and fuzzing."""

from __future__ import annotations

import fcntl
import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from sparsefield import config
from sparsefield.compute import Threads

settings.register_profile(
    "suite", deadline=None, derandomize=True, max_examples=30, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("deep", settings.get_profile("suite"), derandomize=False, max_examples=300)
settings.register_profile("quick", settings.get_profile("suite"), max_examples=10)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


compile_alone = Dispatcher.compile


def compile_once(kernel: Dispatcher, signature: object) -> object:
    """Compile a kernel while other workers that need it wait; they then load it from the cache."""
    folder = kernel.stats.cache_path
    if folder is None:
        return compile_alone(kernel, signature)
    with global_compiler_lock, Path(folder, f"{kernel.__name__}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return compile_alone(kernel, signature)


Dispatcher.compile = compile_once


MARK_OF_FOLDER = {"benchmarks": "benchmark", "reproduction": "benchmark", "browser": "browser"}


@pytest.hookimpl(tryfirst=True)  # before pytest selects tests by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of some folders and of a Dask cluster, and as slow most cases of a wide grid."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        for folder in set(item.path.relative_to(Path(__file__).parent).parts) & set(MARK_OF_FOLDER):
            item.add_marker(MARK_OF_FOLDER[folder])
        if "dask_client" in getattr(item, "fixturenames", ()):
            item.add_marker("cluster")
        if item.get_closest_marker("grid"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for grid in cases.values():
        keep = grid[0].get_closest_marker("grid").kwargs["keep"]
        kept = {round(i * (len(grid) - 1) / max(keep - 1, 1)) for i in range(keep)}
        for i, item in enumerate(grid):
            if i not in kept:
                item.add_marker("slow")


@given(strategies.none())
def make_an_example(_: None) -> None:
    """Let Hypothesis set up its random numbers: it asks who refers to them, and no frozen object is found then."""


def pytest_collection_finish() -> None:
    """Leave imported modules and collected tests to no garbage collection, and collect less often.

    A tenth of the time of the tests went into collections, which passed over all of these objects again and again.
    """
    make_an_example()
    gc.freeze()
    gc.set_threshold(20_000, 20, 10)


@pytest.fixture
def matplotlib():
    return pytest.importorskip("matplotlib", reason="charts are drawn by matplotlib")


@pytest.fixture(scope="session")
def public_data() -> Path:
    """Return the folder of public data, which SPARSEFIELD_DATA names."""
    folder = os.environ.get("SPARSEFIELD_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("no folder of public data: set SPARSEFIELD_DATA")
    return Path(folder)


@pytest.fixture(scope="session")
def engine():
    with Threads(1) as threads:
        yield threads


@pytest.fixture(autouse=True)
def threads_for_small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use threads for the small tables of the tests, too."""
    monkeypatch.setattr(config, "CELLS_FOR_THREADS", 0)
