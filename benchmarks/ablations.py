"""This module measures single decisions of the design: the same fit with and without each of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl

from benchmarks.command_line import Json, Seed, print_rows
from benchmarks.ising import draw_ising
from reproduction.public_data import load_dataset
from sparsefield.analysis.hold_out import evaluate
from sparsefield.app.cli.console import print_message
from sparsefield.compute import Threads
from sparsefield.data import Dataset, Table, as_source, compile_table, learn_schema
from sparsefield.errors import DataError
from sparsefield.estimators import MarkovField
from sparsefield.induction import CFI
from sparsefield.inference import MeanField
from sparsefield.objectives import PseudoLikelihood
from sparsefield.solver import Features, Path, TrainingOptions

__all__ = ["run_ablations"]

Row = dict[str, Any]


def run_ablations(
    report: Callable[[str], None] = print, *, nodes: int = 200, rows: int = 2000, seed: int = 0
) -> list[Row]:
    """Return a row per decision and setting: optimizer steps, seconds, and the held-out score where it may change."""
    source = as_source(draw_ising(nodes, rows, seed=seed).samples)
    table = compile_table(source, learn_schema(source))
    found = []
    for row in (*_steps(table, nodes), *_on_animals(report)):
        report(", ".join(f"{name} {value}" for name, value in row.items() if value is not None))
        found.append(row)
    return found


def _steps(table: Table, nodes: int) -> Iterator[Row]:
    """Return optimizer steps and seconds with and without centering and batches, which lead to the same optimum."""
    free = {"l1": 30.0, "l2": 0.0, "penalize_biases": False}
    settings: list[tuple[str, str, int | str, TrainingOptions]] = [
        ("coordinates", "centered", "auto", TrainingOptions(**free)),
        ("coordinates", "plain", "auto", TrainingOptions(**free, centered=False)),
        ("batches", "auto", "auto", TrainingOptions(**free)),
        ("batches", "one per state", nodes, TrainingOptions(**free)),
        ("batches", "50, as in the paper", 50, TrainingOptions(**free)),
    ]
    for decision, setting, batch_size, options in settings:
        started = time.perf_counter()
        with Threads() as engine:
            learned = Path(
                Dataset.single(table),
                rule=CFI(batch_size=batch_size),
                objective=PseudoLikelihood(),
                missing=MeanField(),
                options=options,
                engine=engine,
            ).run()
        seconds = round(time.perf_counter() - started, 2)
        yield _row(
            decision, setting, steps=len(learned.iterations), seconds=seconds, objective=round(learned.objective, 1)
        )


def _on_animals(report: Callable[[str], None]) -> Iterator[Row]:
    """Return held-out scores on Animal with and without biases penalties, for two kinds of reference states.

    As 0/1 its columns have the reference state 0; as text, no and yes, they have the most frequent state.
    """
    try:
        animals = load_dataset("animals").frame
    except DataError as error:
        report(f"biases, reference state: left out, {error}")
        return
    words = animals.select(pl.all().replace_strict({0: "no", 1: "yes"}, return_dtype=pl.String))
    settings: list[tuple[str, str, pl.DataFrame, bool]] = [
        ("biases", "free", animals, False),
        ("biases", "penalized", animals, True),
        ("reference state, biases penalized", "0 of 0 and 1", animals, True),
        ("reference state, biases penalized", "the most frequent", words, True),
        ("reference state, biases free", "the most frequent", words, False),
    ]
    for decision, setting, frame, penalized in settings:
        result = evaluate(frame, MarkovField(l1=0.5, l2=1.0, features=Features(penalize_biases=penalized)), folds=10)
        ap, cll, seconds = (float(np.round(result.spread(name).mean, 4)) for name in ("ap", "cll", "seconds"))
        yield _row(decision, setting, ap=ap, cll=cll, seconds=round(seconds, 2))


def _row(decision: str, setting: str, **measured: Any) -> Row:
    names = ("steps", "seconds", "objective", "ap", "cll")
    return {"decision": decision, "setting": setting} | {name: measured.get(name) for name in names}


def command(seed: Seed = 0, as_json: Json = False) -> None:
    """Measure the effect of single design decisions: centering, batches, reference states."""
    found = run_ablations(print_message, seed=seed)
    print_rows(found, ("decision", "setting", "steps", "seconds", "objective", "ap", "cll"), as_json)
