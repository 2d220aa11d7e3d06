"""Interrupts end commands as such, versions agree, and loading runs no code."""

from __future__ import annotations

import signal
import time
import tomllib
from typing import Any

import pytest
from other_versions import ROOT, TESTS, oldest_versions
from package_audit import conclude

from sparsefield import FitCallbacks, MarkovField, Solver
from sparsefield.errors import interrupts_as_such

ROWS = [[0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 1, 1], [0, 0, 0]] * 20


def interrupt_like_compiled_code(record: object) -> None:
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        raise SystemError("returned a result with an exception set") from error


def test_an_interruption_of_compiled_code_is_one_of_the_fit() -> None:
    field = MarkovField(l1=1.0, solver=Solver(callbacks=FitCallbacks(on_iteration=interrupt_like_compiled_code)))
    with pytest.raises(KeyboardInterrupt):
        field.fit(ROWS)


def test_other_system_errors_stay() -> None:
    def fail(record: object) -> None:
        raise SystemError("a bug")

    with pytest.raises(SystemError, match="a bug"):
        MarkovField(l1=1.0, solver=Solver(callbacks=FitCallbacks(on_iteration=fail))).fit(ROWS)


def test_an_interruption_waits_until_a_kernel_is_loaded() -> None:
    """An exception in the middle of LLVM can end the process."""
    space: dict[str, Any] = {"__name__": "numba.core.loading", "signal": signal, "steps": []}
    exec("def load():\n    signal.raise_signal(signal.SIGINT)\n    steps.append('loaded')", space)

    def use_kernels() -> None:
        with interrupts_as_such():
            space["load"]()
            for _ in range(500):
                time.sleep(0.01)
            space["steps"].append("not interrupted")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its background jobs ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            use_kernels()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert space["steps"] == ["loaded"]


PROJECT = {
    "name": "field",
    "dependencies": ["numpy>=2.0", "llvmlite"],
    "optional-dependencies": {
        "test": ["field[sql,test]", "pytest>=8.3", "dash>=4.4,<5"],
        "sql": ["duckdb>=1.2", "dask[array]>=2026.3"],
        "docs": ["sphinx>=8"],
    },
}


def test_lower_bounds_are_those_of_an_extra_and_all_that_it_includes() -> None:
    expected = {"numpy": "2.0", "pytest": "8.3", "dash": "4.4", "duckdb": "1.2", "dask": "2026.3"}
    assert oldest_versions(PROJECT, "test") == expected


def test_every_dependency_but_llvmlite_has_a_lower_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {one.split(">=")[0] for one in project["dependencies"]}
    assert names - set(oldest_versions(project, "test")) == {"llvmlite"}


def test_the_tests_for_other_versions_exist() -> None:
    assert [path for path in TESTS if not (ROOT / path).exists()] == []


AUDITED, SKIPPED = {"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "not found"}
VULNERABLE = {"name": "c", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"]}]}


@pytest.mark.parametrize(
    ("packages", "may_be_offline", "code", "words"),
    [
        ([AUDITED, SKIPPED], False, 0, "1 packages have no known vulnerability. 1 are unknown to the service: b."),
        ([SKIPPED, SKIPPED], False, 1, "cannot be reached"),
        ([], True, 0, "cannot be reached"),
        ([AUDITED, SKIPPED, VULNERABLE], True, 1, "c 2: PYSEC-1, fixed in 2.1\n1 known"),
    ],
)
def test_an_audit_that_asked_nobody_succeeds_only_where_that_is_permitted(
    packages, may_be_offline, code, words
) -> None:
    text, found = conclude(packages, may_be_offline=may_be_offline)
    assert found == code
    assert words in text
