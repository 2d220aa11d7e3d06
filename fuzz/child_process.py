"""This module runs cases in a child process, which may crash or hang, and starts a new one when it does."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal

from fuzz.recipes import Batch, CaseResult, Recipe

Variant = Literal["plain", "poison", "boundscheck"]
VARIANTS: tuple[Variant, ...] = ("plain", "poison", "boundscheck")

START_SECONDS, CASE_SECONDS = 300.0, 60.0
"""Wall clock that a start, and a case, may take."""

PATIENCE = 10
"""Factor of the time of a case that is run again after a hang: kernels are compiled within the first cases."""

COMMAND = ("-X", "faulthandler", "-m", "fuzz.worker")

ROOT = Path(__file__).parents[1]

OUTPUT = Path("build/fuzz")
"""Folder of the results of a run, unless one is named."""

HANG = CaseResult("failure", "hang")


class Child:
    """A child process that answers recipes one by one."""

    def __init__(self, variant: Variant = "plain", folder: Path = OUTPUT, seconds: float = CASE_SECONDS) -> None:
        self.variant: Variant = variant
        self.seconds = seconds
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._lines = b""

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def run(self, recipe: Recipe, patience: float = 1) -> CaseResult:
        """Run a case; a child that ends or exceeds its time is a failure."""
        return next(self._results(recipe.to_json(), 1, patience * self.seconds))

    def run_batch(self, batch: Batch) -> Iterator[CaseResult]:
        """Yield the results of cases in turn; a failure of the child itself is the last one."""
        return self._results(batch.to_json(), len(batch.numbers), self.seconds)

    def _results(self, line: str, count: int, seconds: float) -> Iterator[CaseResult]:
        process = self.start()
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(line.encode() + b"\n")
        for _ in range(count):
            answer = self._answer(seconds)
            if not answer:
                self.close()
                yield HANG if answer is None else CaseResult("failure", f"crash (exit code {process.returncode})")
                return
            yield CaseResult(**json.loads(answer))

    def close(self) -> None:
        """End the child."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # also what a case has forked
            self._process.communicate()
            self._process, self._lines = None, b""

    def start(self) -> subprocess.Popen[bytes]:
        """Return the process, which is started unless it runs."""
        if self._process is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / "errors.txt").open("ab") as errors:  # where a crash was
                self._process = subprocess.Popen(
                    [sys.executable, *COMMAND],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=_environment(self.variant, self._folder),
                    start_new_session=True,  # Ctrl-C ends the campaign, which ends its children
                    bufsize=0,
                )
            if not self._answer(START_SECONDS):
                raise RuntimeError("The child process of the campaign does not start: run python -m fuzz.worker.")
        return self._process

    def _answer(self, seconds: float) -> bytes | None:
        """Return the next line; None if none comes in time, empty if the child ended."""
        assert self._process is not None
        assert self._process.stdout is not None
        while b"\n" not in self._lines:
            if not select.select([self._process.stdout], [], [], seconds)[0]:
                return None
            part = os.read(self._process.stdout.fileno(), 2**16)
            if not part:
                self._process.wait()
                return b""
            self._lines += part
        line, _, self._lines = self._lines.partition(b"\n")
        return line


def _environment(variant: Variant, folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    threads = {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "2"}
    found = {**os.environ, **threads, "PYTHONPATH": path, "RUST_BACKTRACE": "0"}
    if variant == "poison":
        found["FUZZ_POISON"] = "1"
    if variant == "boundscheck":
        # Compiled kernels are kept apart: the cache does not tell those with checks from those without.
        found |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(folder.absolute() / "numba")}
    return found
