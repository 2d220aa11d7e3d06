"""This module hands out cases to several child processes, and counts what they came to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from fuzz.campaign_state import Tallies, Tally, read_states, write_tallies
from fuzz.campaigns import CAMPAIGNS
from fuzz.child_process import HANG, PATIENCE, Child, Variant
from fuzz.recipes import Batch, CaseResult, Recipe

TURN_SECONDS = 20.0
"""Time of a campaign before it is the next one's turn."""


@dataclass(frozen=True)
class Turn:
    """A campaign and a variant of the child process that runs it."""

    campaign: str
    variant: Variant

    @property
    def key(self) -> str:
        return f"{self.campaign}/{self.variant}"


@dataclass(frozen=True)
class Failure:
    """A case that failed."""

    turn: Turn
    seed: int
    number: int
    result: CaseResult


@dataclass
class Schedule:
    """What is left to run; safe to use from several threads.

    Cases follow from the seed and their numbers, which are handed out in order: however many processes there are, and
    however often a run was interrupted, no number is left out and none is counted twice.
    """

    turns: Sequence[Turn]
    seed: int
    folder: Path
    end: float
    """Time of `time.monotonic` at which no batch starts any more."""
    cases: int | None = None
    """Number of cases of each campaign and variant; None for as many as there is time for."""
    tallies: Tallies = field(init=False)

    def __post_init__(self) -> None:
        self.tallies = read_states(self.folder).get(self.seed, {})
        self._waiting = {name: list(tally.unfinished) for name, tally in self.tallies.items()}
        self._lock = threading.Lock()

    def take(self, turn: Turn) -> list[int]:
        """Return numbers to run next; none at the end."""
        with self._lock:
            if time.monotonic() >= self.end:
                return []
            tally, waiting = self._tally(turn), self._waiting.setdefault(turn.key, [])
            size = CAMPAIGNS[turn.campaign].batch
            if not waiting:
                left = size if self.cases is None else min(size, self.cases - tally.next_number)
                return tally.take_new(max(left, 0))
            numbers, self._waiting[turn.key] = waiting[:size], waiting[size:]
            return numbers

    def put_back(self, turn: Turn, numbers: Sequence[int]) -> None:
        """Let cases that a child did not come to be run later."""
        with self._lock:
            self._waiting[turn.key] += numbers

    def count(self, turn: Turn, number: int, result: CaseResult) -> None:
        with self._lock:
            self._tally(turn).add(number, result.verdict)

    def save(self) -> None:
        """Write the tallies."""
        with self._lock:
            write_tallies(self.folder, self.seed, self.tallies)

    def stop(self) -> None:
        """Let no batch start any more."""
        self.end = 0.0

    @property
    def is_over(self) -> bool:
        with self._lock:
            return time.monotonic() >= self.end or not any(self._is_open(turn) for turn in self.turns)

    def _is_open(self, turn: Turn) -> bool:
        return self.cases is None or self._tally(turn).next_number < self.cases or bool(self._waiting.get(turn.key))

    def _tally(self, turn: Turn) -> Tally:
        return self.tallies.setdefault(turn.key, Tally())


def run_schedule(schedule: Schedule, processes: int, report: Callable[[Failure, Child], None]) -> None:
    """Run cases in child processes until the schedule is over; Ctrl-C ends it after the cases that have begun."""
    lock = threading.Lock()

    def report_alone(failure: Failure, child: Child) -> None:
        with lock:
            report(failure, child)

    with ThreadPoolExecutor(processes) as pool:
        starts = [slot * len(schedule.turns) // processes for slot in range(processes)]
        futures = [pool.submit(_work, schedule, start, report_alone) for start in starts]
        try:
            for future in futures:
                future.result()
        finally:
            schedule.stop()
    schedule.save()


def _work(schedule: Schedule, start: int, report: Callable[[Failure, Child], None]) -> None:
    """Take turns with one child, which is started anew only where the variant changes."""
    child: Child | None = None
    try:
        for turn in cycle([*schedule.turns[start:], *schedule.turns[:start]]):
            if schedule.is_over:
                break
            if child is None or child.variant != turn.variant:
                if child is not None:
                    child.close()
                child = Child(turn.variant, schedule.folder)
            _take_turn(schedule, turn, child, report)
            schedule.save()
    finally:
        if child is not None:
            child.close()


def _take_turn(schedule: Schedule, turn: Turn, child: Child, report: Callable[[Failure, Child], None]) -> None:
    end = time.monotonic() + TURN_SECONDS
    while time.monotonic() < end and (numbers := schedule.take(turn)):
        for failure in _run_numbers(schedule, turn, child, numbers):
            report(failure, child)


def _run_numbers(schedule: Schedule, turn: Turn, child: Child, numbers: list[int]) -> list[Failure]:
    """Run a batch, count its cases, and return those that failed."""
    failures, done = [], 0
    for number, found in zip(numbers, child.run_batch(Batch(turn.campaign, schedule.seed, numbers)), strict=False):
        result = _run_patiently(child, turn, schedule.seed, number) if found == HANG else found
        schedule.count(turn, number, result)
        done += 1
        if result.verdict == "failure":
            failures.append(Failure(turn, schedule.seed, number, result))
    schedule.put_back(turn, numbers[done:])
    return failures


def _run_patiently(child: Child, turn: Turn, seed: int, number: int) -> CaseResult:
    return child.run(Recipe.of(CAMPAIGNS[turn.campaign], seed, number), PATIENCE)
