"""Cases are handed out to several child processes, none twice and none left out."""

from __future__ import annotations

import time

import pytest

from fuzz.child_process import Child
from fuzz.scheduling import Schedule, Turn, run_schedule

TURNS = [Turn("sql", "plain"), Turn("text", "plain")]

ANSWERING = """
import json, os
print("ready", flush=True)
while True:
    batch = json.loads(input())
    for number in batch.get("numbers", [7]):
        if number == 5:
            os._exit(3)
        print(json.dumps({"verdict": "refused" if number % 2 else "fine", "detail": ""}), flush=True)
"""
"""A child whose case 5 crashes, and whose other odd cases are refused."""


@pytest.fixture(autouse=True)
def _answering(monkeypatch) -> None:
    monkeypatch.setattr("fuzz.child_process.COMMAND", ("-c", ANSWERING))


def make_schedule(folder, cases: int | None = None, seconds: float = 60.0) -> Schedule:
    return Schedule(TURNS, 0, folder, time.monotonic() + seconds, cases)


def run_cases(folder, cases: int, processes: int = 1) -> tuple[dict, list[int]]:
    schedule, failures = make_schedule(folder, cases), []
    run_schedule(schedule, processes, lambda failure, child: failures.append(failure.number))
    return schedule.tallies, failures


@pytest.mark.parametrize("processes", [1, 3])
def test_every_case_is_counted_once_whatever_the_number_of_processes(tmp_path, processes) -> None:
    tallies, failures = run_cases(tmp_path, 40, processes)
    assert failures == [5, 5]
    for tally in tallies.values():
        assert (tally.fine, tally.refused, tally.failed, tally.unfinished) == (20, 19, [5], [])


def test_a_run_continues_where_the_last_one_ended(tmp_path) -> None:
    run_cases(tmp_path, 10)
    tallies, failures = run_cases(tmp_path, 30)
    assert failures == []
    assert [tally.cases for tally in tallies.values()] == [30, 30]


def test_cases_of_a_run_that_was_killed_are_run_again(tmp_path) -> None:
    killed = make_schedule(tmp_path)
    assert killed.take(TURNS[0]) == list(range(16))
    killed.save()
    assert make_schedule(tmp_path).take(TURNS[0]) == list(range(16))


def test_no_batch_starts_after_the_end(tmp_path) -> None:
    schedule = make_schedule(tmp_path, seconds=0.0)
    assert schedule.is_over
    assert schedule.take(TURNS[0]) == []


def test_ending_a_child_also_ends_what_its_case_has_forked(monkeypatch) -> None:
    code = "import os, time; os.fork(); print('ready', flush=True); time.sleep(600)"
    monkeypatch.setattr("fuzz.child_process.COMMAND", ("-c", code))
    with Child() as child:
        child.start()  # closing waits until nobody can write answers any more
