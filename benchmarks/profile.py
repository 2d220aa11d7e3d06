"""This module measures where the processor time of a fit goes, and how its iterations divide into phases."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Annotated, Any
from unittest import mock

import numpy as np
import typer
from threadpoolctl import threadpool_limits

import sparsefield
from benchmarks.command_line import Json, Row, Seed, print_rows
from benchmarks.dependent_data import Case, MissingDataError, find_cases
from benchmarks.measure import in_child
from sparsefield.app.cli.console import print_message, show, show_json
from sparsefield.estimators import MarkovField
from sparsefield.objectives.dense_evaluator import DenseEvaluator
from sparsefield.solver import fit, path

__all__ = ["FitProfile", "StackSampler", "count_calls", "count_operations", "profile_fit", "warm_up"]

EVALUATION, SCORING, COMPILING = "evaluation and gradient", "candidate scoring", "compiling graphs"
OPTIMIZER, TABLE, REST = "L-BFGS vectors", "reading the table", "rest"

Place = tuple[str | None, str | None]
"""Part and name of a function, or None."""

FUNCTIONS = {
    "compile": COMPILING,
    "compile_adjacency": COMPILING,
    "arcs": COMPILING,
    "gradient_factors": SCORING,
    "score": SCORING,
}
"""Functions that belong to a part wherever they are defined."""

FILES = {
    "objectives/": EVALUATION,
    "induction/": SCORING,
    "solver/owlqn": OPTIMIZER,
    "solver/parametrization": OPTIMIZER,
    "estimators/": TABLE,
}
"""Files and folders of the package that belong to a part; a file of the solver that is not listed is its own part."""

PACKAGE = str(Path(sparsefield.__file__).parent) + "/"
SHOWN_FUNCTIONS = 20
INTERVAL = 0.002
"""Seconds of processor time between two samples."""

WARM_UP_ROWS, WARM_UP_COLUMNS = 200, 60


@dataclass
class StackSampler:
    """A sampler divides the processor time of a call among the functions of the package that are running.

    Every other millisecond of processor time, the time since the last sample counts for the innermost running function
    of the package, with all that it calls outside: NumPy, compiled kernels. A compiled function is not interrupted: its
    time counts when it returns, for the function that called it. A part is decided by the innermost function that
    belongs to one, so that kernels and helpers count for the part that calls them.

    Attributes
    ----------
    parts, functions : dict
        Seconds by part and by function.
    """

    parts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    functions: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _places: dict[CodeType, Place] = field(default_factory=dict)
    _since: float = 0.0

    def run(self, function: Callable[[], Any]) -> Any:
        """Call a function in the main thread and sample it; return what it returns."""
        before = signal.signal(signal.SIGPROF, self._sample)
        self._since = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
        try:
            return function()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            signal.signal(signal.SIGPROF, before)

    def _sample(self, _: int, frame: FrameType | None) -> None:
        now = time.process_time()
        part = name = None
        while frame is not None and part is None:
            found = self._place(frame.f_code)
            part, name, frame = found[0], name or found[1], frame.f_back
        self.parts[part or REST] += now - self._since
        self.functions[name or REST] += now - self._since
        self._since = now

    def _place(self, code: CodeType) -> Place:
        if code not in self._places:
            self._places[code] = place_of(code.co_filename, code.co_qualname)
        return self._places[code]


def count_calls(function: Callable[[], Any]) -> Counter[str]:
    """Return how often each function of the package is called while another one runs."""
    calls: Counter[CodeType] = Counter()

    def hear(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            calls[frame.f_code] += 1

    sys.setprofile(hear)
    try:
        function()
    finally:
        sys.setprofile(None)
    named: Counter[str] = Counter()
    for code, count in calls.items():
        named[place_of(code.co_filename, code.co_qualname)[1] or REST] += count
    return named


def place_of(path: str, name: str) -> Place:
    """Return part and name of a function; None for the part, or both, where the caller decides.

    Examples
    --------
    >>> place_of(PACKAGE + "solver/owlqn.py", "OrthantLBFGS.step")
    ('L-BFGS vectors', 'solver/owlqn: OrthantLBFGS.step')
    >>> place_of("numpy/linalg.py", "norm")
    (None, None)
    """
    if not path.startswith(PACKAGE):
        return None, None
    file = path.removeprefix(PACKAGE).removesuffix(".py")
    short = name.replace(".<locals>", "")
    part = FUNCTIONS.get(short.rpartition(".")[2])
    part = part or next((found for start, found in FILES.items() if file.startswith(start)), None)
    if part is None and file.startswith("solver/"):
        part = file
    return part, f"{file}: {short}"


def count_operations(function: Callable[[], Any]) -> dict[str, float]:
    """Return the additions and multiplications, by part of a fit to one dense table, while another function runs.

    Those of an evaluation are four for each arc and row: logits and gradient. Those of scores are four for each
    candidate and row, since both of its columns have errors. Terms of all pairs count, whatever a rule leaves out.
    """
    counted = {EVALUATION: 0.0, SCORING: 0.0}
    methods = DenseEvaluator.evaluate, DenseEvaluator.gradient, fit.score

    def rows_of(evaluator: Any) -> int:
        return sum(evaluator.source.rows.map(lambda part: part.block.n_rows))

    def arcs_of(graphs: Any) -> int:
        return sum(len(graph.arc_source) for graph in graphs)

    def evaluate(self: Any, graphs: Any, theta: Any) -> Any:
        counted[EVALUATION] += 4.0 * arcs_of(graphs) * rows_of(self)
        return methods[0](self, graphs, theta)

    def gradient(self: Any, graphs: Any, size: int) -> Any:
        counted[EVALUATION] += 2.0 * arcs_of(graphs) * rows_of(self)
        return methods[1](self, graphs, size)

    def score(state: Any, *arguments: Any, **options: Any) -> Any:
        counted[SCORING] += 2.0 * state.layout.n_columns**2 * rows_of(state.problem)
        return methods[2](state, *arguments, **options)

    with (
        mock.patch.object(DenseEvaluator, "evaluate", evaluate),
        mock.patch.object(DenseEvaluator, "gradient", gradient),
        mock.patch.object(fit, "score", score),
        mock.patch.object(path, "score", score),
    ):
        function()
    return counted


def measure_products(seconds: float = 0.2) -> dict[str, float]:
    """Return the operations in a nanosecond of products of matrices on one thread, by their type."""
    found = {}
    with threadpool_limits(1):
        for dtype in (np.float64, np.float32):
            one, other = np.ones((256, 256), dtype=dtype), np.ones((256, 256), dtype=dtype)
            count, start = 0, time.process_time()
            while time.process_time() < start + seconds:
                one @ other
                count += 1
            found[np.dtype(dtype).name] = 2e-9 * 256**3 * count / (time.process_time() - start)
    return found


@dataclass(frozen=True)
class FitProfile:
    """A profile of one fit: seconds by part and function, calls, and counts of iterations and operations."""

    cpu_seconds: float
    wall_seconds: float
    parts: dict[str, float]
    functions: dict[str, float]
    calls: dict[str, int]
    phases: dict[str, int]
    operations: dict[str, float]
    """Of evaluations and of scores, as `count_operations` returns them."""
    products: dict[str, float]
    """What the machine does: see `measure_products`."""
    largest_working_set: int
    weights: int
    certified: bool

    def part_rows(self) -> list[Row]:
        """Return a row for each part of the fit, the longest first."""
        total = sum(self.parts.values())
        return [
            {"part": part, "cpu_seconds": seconds, "percent": 100.0 * seconds / total}
            for part, seconds in sorted(self.parts.items(), key=lambda item: -item[1])
        ]

    def function_rows(self, count: int = SHOWN_FUNCTIONS) -> list[Row]:
        """Return a row for each of the functions that took the longest."""
        longest = sorted(self.functions.items(), key=lambda item: -item[1])[:count]
        return [
            {"function": name, "calls": self.calls.get(name, 0), "cpu_seconds": seconds} for name, seconds in longest
        ]


def warm_up(train: Any, l1: float) -> None:
    """Fit a small part of a table, and all of it roughly, so that everything is compiled."""
    small = train[:WARM_UP_ROWS, :WARM_UP_COLUMNS]
    varying = np.flatnonzero(np.ptp(small, axis=0))
    MarkovField(l1=0.1 * l1, n_jobs=1).fit(small[:, varying])
    MarkovField(l1=10.0 * l1, n_jobs=1).fit(train)  # large tables are learned in single precision first


def profile_fit(case: Case, l1: float | None = None, seed: int = 0) -> FitProfile:
    """Fit a case on one thread to sample what is running, and again to count calls and operations, which takes time."""
    train = case.draw(seed).train
    l1 = case.l1 if l1 is None else l1
    warm_up(train, l1)
    fit = partial(MarkovField(l1=l1, n_jobs=1).fit, train)
    sampler = StackSampler()
    wall, cpu = time.perf_counter(), time.process_time()
    record = sampler.run(fit).field_.record
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return FitProfile(
        cpu_seconds=cpu,
        wall_seconds=wall,
        parts=dict(sampler.parts),
        functions=dict(sampler.functions),
        calls=dict(count_calls(fit)),
        phases=dict(Counter(row.phase for row in record.iterations)),
        operations=count_operations(fit),
        products=measure_products(),
        largest_working_set=max((row.features for row in record.iterations), default=0),
        weights=record.iterations[-1].active if record.iterations else 0,
        certified=record.converged,
    )


def describe(case: Case, found: FitProfile) -> str:
    """Return the figures of a profile that are no table, as lines of text."""
    phases = ", ".join(f"{phase} {count}" for phase, count in found.phases.items())
    work = "; ".join(
        f"{part}: {1e-9 * count:,.1f} billion operations, {1e-9 * count / max(found.parts.get(part, 0.0), 1e-9):.1f} "
        "in a nanosecond"
        for part, count in found.operations.items()
    )
    return (
        f"{case.name}: {case.words}\n"
        f"{found.cpu_seconds:.2f} CPU seconds, {found.wall_seconds:.2f} wall seconds, one thread\n"
        f"{sum(found.phases.values())} iterations ({phases}); largest working set {found.largest_working_set:,}, "
        f"{found.weights:,} weights, {'certified' if found.certified else 'NOT certified'}\n{work}\n"
        f"products of matrices on this machine: {found.products['float64']:.0f} operations in a nanosecond, in single "
        f"precision {found.products['float32']:.0f}"
    )


def command(
    case: Annotated[
        list[str] | None, typer.Option("--case", help="As in `dependent --cases`; by default factors-300.")
    ] = None,
    l1: Annotated[float | None, typer.Option("--l1", help="By default that of the case.")] = None,
    functions: Annotated[int, typer.Option("--functions", min=0, help="How many functions to list.")] = SHOWN_FUNCTIONS,
    short: Annotated[bool, typer.Option("--short", help="Small cases.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Show where the processor time of one fit goes: parts, functions, iterations, largest working set."""
    for one in find_cases(case or ["factors" if short else "factors-300"], short=short):
        try:
            found: FitProfile = in_child(profile_fit, one, l1, seed)
        except RuntimeError as error:
            if MissingDataError.__name__ not in str(error):
                raise
            print_message(str(error).strip().splitlines()[-1])
            continue
        if as_json:
            show_json([{"case": one.name, **vars(found)}])
            continue
        show(describe(one, found))
        print_rows(found.part_rows(), ("part", "cpu_seconds", "percent"))
        print_rows(found.function_rows(functions), ("function", "calls", "cpu_seconds"))
        show()
