"""This module measures wall time and peak memory of a fit, with a time limit, each in a process of its own."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.util
import multiprocessing
import re
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

QUICK_SECONDS = 15.0
"""A fit that takes less than this is repeated, and the best time counts."""

Report = Callable[[str], None]


class CutOffError(RuntimeError):
    """This error says that a child process exceeded its time limit and was ended."""


@dataclass(frozen=True)
class Measured:
    """A measurement holds the time and memory of one method.

    Attributes
    ----------
    seconds : tuple of float
        Wall time of each repetition.
    peak_bytes : int
        How far the process's memory rose during the first of them.
    result : object
        What the last repetition returned.
    total_bytes : int
        Highest memory of the whole process during the first repetition: interpreter, data and fit.
    """

    seconds: tuple[float, ...]
    peak_bytes: int
    result: Any
    total_bytes: int = 0

    @property
    def best(self) -> float:
        """Return the shortest of the wall times."""
        return min(self.seconds)


def installed(module: str) -> bool:
    """Return whether ``module`` could be imported; it is not imported."""
    return importlib.util.find_spec(module) is not None


def measure(fit: Callable[[], Any], *, repeats: int = 3, threads: int = 1) -> Measured:
    """Run ``fit`` and measure its time and memory; repeat it if it is fast.

    Parameters
    ----------
    fit : callable
        Takes nothing. Whatever must be compiled should have run before, on something small.
    repeats : int
        How often a quick fit runs.
    threads : int
        Threads that BLAS and OpenMP may use.
    """
    seconds: list[float] = []
    peak, total, result = 0, 0, None
    with threadpool_limits(limits=threads):
        while len(seconds) < repeats and (not seconds or seconds[0] < QUICK_SECONDS):
            before = _settled_memory()
            start = time.perf_counter()
            result = fit()
            seconds.append(time.perf_counter() - start)
            if len(seconds) == 1:
                total = _peak_memory()
                peak = total - before
    return Measured(seconds=tuple(seconds), peak_bytes=max(peak, 0), result=result, total_bytes=total)


def in_child(function: Callable[..., Any], *args: Any, time_limit: float | None = None) -> Any:
    """Call ``function(*args)`` in a fresh process and return what it returns.

    Parameters
    ----------
    function : callable
        A function of a module (it is sent by name).
    *args
        Anything that can be pickled.
    time_limit : float, optional
        Seconds after which the process is ended.

    Raises
    ------
    CutOffError
        When the limit is reached.
    RuntimeError
        When the function raised, or the process died; the message holds the child's own words.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_answer, args=(sender, function, args), daemon=True)
    child.start()
    sender.close()
    try:
        if not receiver.poll(time_limit):
            raise CutOffError(f"cut off after {time_limit:.0f} s")
        try:
            failed, answer = receiver.recv()
        except EOFError:
            child.join()
            raise RuntimeError(f"the process ended early with exit code {child.exitcode}") from None
    finally:
        child.terminate()
        child.join()
        receiver.close()
    if failed:
        raise RuntimeError(answer)
    return answer


def climb(grid: Sequence[float], score: Callable[[float], float]) -> tuple[float, float]:
    """Find the best point of an ordered grid by walking uphill from its middle.

    Needs fewer calls than the whole grid, and finds the best point when the scores have one peak.

    Parameters
    ----------
    grid : sequence of float
        Ordered candidates.
    score : callable
        Higher is better.

    Returns
    -------
    best, score : float

    Examples
    --------
    >>> climb([1, 2, 4, 8, 16], lambda x: -abs(x - 5))
    (4, -1)
    """
    at = len(grid) // 2
    scores = {at: score(grid[at])}
    while True:
        for beside in (at - 1, at + 1):
            if 0 <= beside < len(grid) and beside not in scores:
                scores[beside] = score(grid[beside])
                if scores[beside] > scores[at]:
                    break
        best = max(scores, key=lambda place: scores[place])
        if best == at:
            return grid[at], scores[at]
        at = best


def growth(sizes: Sequence[float], costs: Sequence[float | None]) -> float | None:
    """Return the exponent k in cost ~ size^k, by least squares on logarithms; None with fewer than two points.

    Examples
    --------
    >>> growth([10, 100, 1000], [3.0, 30.0, 300.0])
    1.0
    """
    points = [(size, cost) for size, cost in zip(sizes, costs, strict=True) if cost is not None and cost > 0]
    if len({size for size, _ in points}) < 2:
        return None
    across, up = np.log(np.array(points, dtype=np.float64)).T
    across = across - across.mean()
    return round(float(across @ (up - up.mean()) / (across @ across)), 3)


def last_line(error: BaseException) -> str:
    """Return the last line of an error's text, without the traceback."""
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


def _answer(sender: Connection, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        sender.send((False, function(*args)))
    except Exception:
        sender.send((True, traceback.format_exc()))


def _settled_memory() -> int:
    """Return the memory of this process, after freed memory is released and the recorded peak is reset."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
        # Where this is refused, the earlier peak is subtracted, and the figure is a lower bound.
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return _peak_memory()


def _peak_memory() -> int:
    """Return the highest resident size of this process in bytes.

    ``ru_maxrss`` outlives a fork and exec, so a child starts with its parent's; Linux's own record does not.
    """
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    except OSError:
        found = None
    if found:
        return int(found.group(1)) * 1024
    import resource  # not on every platform

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
