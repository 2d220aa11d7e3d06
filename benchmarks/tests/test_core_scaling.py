"""Fits with several threads are timed, and their bits compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import core_scaling
from benchmarks.core_scaling import CoreFit, find_core_cases, print_scaling, thread_counts


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls functions in this process: one of their own takes seconds to start."""
    monkeypatch.setattr(core_scaling, "in_child", lambda function, *args, time_limit=None: function(*args))


def test_threads_double_up_to_all_cores() -> None:
    assert thread_counts(1) == [1]
    assert thread_counts(16) == [1, 2, 4, 8, 16]
    assert thread_counts(6) == [1, 2, 4, 6]
    assert thread_counts()[0] == 1


@pytest.mark.usefixtures("here")
def test_each_number_of_threads_has_a_row_and_the_same_bits() -> None:
    lines: list[str] = []
    assert print_scaling(find_core_cases(short=True), [1, 2], write=lines.append)
    assert [line.split(" | ")[:2] for line in lines[2:]] == [
        ["| factors", "1"], ["| factors", "2"], ["| sparse", "1"], ["| sparse", "2"]
    ]  # fmt: skip
    assert len({line.count("|") for line in lines}) == 1
    assert all("yes (" in line for line in lines[2:])


def test_other_bits_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = CoreFit(8.0, 8.0, 5, "aaaaaaaaaa", certified=True)
    found = [(1, fit), (2, replace(fit, wall_seconds=4.0, digest="bbbbbbbbbb", certified=False))]
    monkeypatch.setattr(core_scaling, "measure_scaling", lambda *_: iter(found))
    lines: list[str] = []
    assert not print_scaling(find_core_cases(["factors"], short=True), [1, 2], write=lines.append)
    assert lines[-1] == "| factors | 2 | 4.00 | 2.00 | 8.00 | 5 (not certified) | NO (bbbbbbbb) |"
