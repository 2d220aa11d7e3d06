"""This module runs cases in a child process, which may crash or hang, and starts a new one when it does."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Literal

from fuzz.recipes import CaseResult, Recipe

Variant = Literal["plain", "poison", "boundscheck"]
VARIANTS: tuple[Variant, ...] = ("plain", "poison", "boundscheck")

START_SECONDS, CASE_SECONDS = 300.0, 60.0
"""Wall clock that a start, and a case, may take; kernels are compiled within the first cases of a variant."""

SLOW_FACTOR = 10
"""Factor of the time of a case where kernels are compiled anew, with checks of bounds."""

COMMAND = ("-m", "fuzz.worker")

ROOT = Path(__file__).parents[1]


class Child:
    """A child process that answers recipes one by one."""

    def __init__(self, variant: Variant = "plain", seconds: float = CASE_SECONDS) -> None:
        self.variant: Variant = variant
        self.seconds = seconds * (SLOW_FACTOR if variant == "boundscheck" else 1)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def run(self, recipe: Recipe) -> CaseResult:
        """Run a case; a child that ends or exceeds its time is a failure."""
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write(recipe.to_json().encode() + b"\n")
            process.stdin.flush()
            answer = self._answer(self.seconds)
        except BrokenPipeError:
            answer = None
        if answer:
            return CaseResult(**json.loads(answer))
        hangs = process.poll() is None and answer is None
        self.close()
        return CaseResult("failure", "hang" if hangs else f"crash (exit code {process.returncode})")

    def close(self) -> None:
        """End the child."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, *COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_environment(self.variant),
                bufsize=0,
            )
            if not self._answer(START_SECONDS):
                raise RuntimeError("The child process of the campaign does not start: run python -m fuzz.worker.")
        return self._process

    def _answer(self, seconds: float) -> bytes | None:
        """Return the next line; None if none comes in time, empty if the child ended."""
        assert self._process is not None
        assert self._process.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self._process.stdout], [], [], seconds)[0]:
                return None
            part = os.read(self._process.stdout.fileno(), 2**16)
            if not part:
                self._process.wait()
                return b""
            line += part
        return line


def _environment(variant: Variant) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    found = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "2"}
    if variant == "poison":
        found["FUZZ_POISON"] = "1"
    if variant == "boundscheck":
        # Compiled kernels are kept apart: the cache does not tell those with checks from those without.
        found |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(ROOT / "build" / "fuzz" / "numba")}
    return found
