"""Constants of the solver, removed one at a time: what each of them saves.

A constant of `sparsefield.solver.policy` is worth its line where fits take longer without it.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command_line import Json, Row, choose_parts, print_rows
from benchmarks.dependent_data import CASES as DEPENDENT
from benchmarks.measure import Report
from benchmarks.planted import draw_planted
from benchmarks.scale import default_l1
from benchmarks.small import CASES as SMALL
from reproduction.public_data import load_mixed
from sparsefield.app.cli.console import print_message
from sparsefield.estimators import MarkovField

Fit = Callable[[], Any]

WITHOUT: dict[str, dict[str, float]] = {
    "FEW_CANDIDATES": {"FEW_CANDIDATES": 0.0},
    "MAX_IDLE_STEPS": {"MAX_IDLE_STEPS": 1},
    "INNER_TOLERANCE": {"INNER_TOLERANCE": 0.0},
    "MAX_INACTIVE": {"MAX_INACTIVE": np.inf},
    "MODEL_TOLERANCE": {"MODEL_TOLERANCE": 0.0},
    "MIN_CONTRACTION": {"MIN_CONTRACTION": 1.0},
    "EM_ROUNDS, AVERAGED, ROUGH_ROUNDS": {"ROUGH_ROUNDS": 8},
}
"""What stands for each constant's absence."""


@contextmanager
def replaced(values: dict[str, float]) -> Iterator[None]:
    """Replace constants in every module of the library that imported them."""
    before = [
        (module, name, getattr(module, name))
        for key, module in list(sys.modules.items())
        for name in values
        if key.startswith("sparsefield.") and hasattr(module, name)
    ]
    try:
        for module, name, _ in before:
            setattr(module, name, values[name])
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def _small(name: str) -> Fit:
    data, estimator = SMALL[name].make()
    return lambda: estimator.fit(data)


def _dependent(case: Any) -> Fit:
    data = case.draw(0)
    return lambda: MarkovField(l1=case.l1, n_jobs=1).fit(data.train)


def _planted(columns: int, rows: int) -> Fit:
    matrix = draw_planted(columns, rows).matrix
    return lambda: MarkovField(l1=default_l1(matrix), n_jobs=1).fit(matrix)


def _missing(name: str) -> Fit:
    frame = load_mixed(name)
    return lambda: MarkovField(l1=5.0, n_jobs=1).fit(frame)


CASES: dict[str, Callable[[], Fit]] = (
    {f"small: {name}": partial(_small, name) for name in SMALL}
    | {f"dependent: {case.name}": partial(_dependent, case) for case in DEPENDENT}
    | {"scale: 4,000 columns": partial(_planted, 4_000, 4_000), "scale: 20,000": partial(_planted, 20_000, 10_000)}
    | {"missing: survey": partial(_missing, "survey"), "missing: Chile": partial(_missing, "Chile")}
)


def run_policy(names: Sequence[str] | None = None, *, repeats: int = 3, report: Report = print) -> list[Row]:
    """Return a row per case and constant: CPU time without it, as a share of that with it, and steps likewise.

    Both are measured in turn in one process, on one thread; the least of ``repeats`` counts.
    """
    rows: list[Row] = []
    for name in choose_parts(names, CASES):
        fit = CASES[name]()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit()
            for constant, values in WITHOUT.items():
                measured = [(_measure(fit, {}), _measure(fit, values)) for _ in range(repeats)]
                (base, steps, value), (other, other_steps, other_value) = (
                    min(pair[i] for pair in measured) for i in (0, 1)
                )
                rows.append(
                    {
                        "data": name,
                        "method": constant,
                        "status": "done",
                        "seconds": base,
                        "time_without": other / base,
                        "steps_without": other_steps / max(steps, 1),
                        "objective_without": other_value / value - 1.0,
                    }
                )
                report(f"  {name}, {constant}: {rows[-1]['time_without']:.2f} of {base:.3f} s")
    return rows


def _measure(fit: Fit, values: dict[str, float]) -> tuple[float, int, float]:
    with replaced(values):
        started = time.process_time()
        record = fit().field_.record
        return time.process_time() - started, record.n_iter, record.objective


def command(
    case: Annotated[list[str] | None, typer.Option("--case", help=f"One of {', '.join(CASES)}; else all.")] = None,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Fits of which the fastest counts.")] = 3,
    json: Json = False,
) -> None:
    """Leave out each constant of the solver's policy in turn, and measure fits with and without it."""
    rows = run_policy(case, repeats=repeats, report=print_message)
    print_rows(rows, ("data", "method", "seconds", "time_without", "steps_without", "objective_without"), json)
