"""This module compares inference methods on missing cells of synthetic fields with exact marginals."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command_line import Json, Seed, print_rows
from sparsefield.app.cli.console import print_message
from sparsefield.app.datasets import SyntheticField, make_markov_field
from sparsefield.compute import Threads
from sparsefield.data import Dataset, Table, as_source, compile_table
from sparsefield.errors import DataError
from sparsefield.estimators import MarkovField, RelationalField
from sparsefield.estimators.compiled_rows import compile_densely, infer_missing
from sparsefield.inference import INFERENCE, ExactInference, InferenceMethod, infer, state_probabilities

__all__ = ["FIELDS", "conditional_log_likelihood", "run_inference", "run_learned"]

Array = np.ndarray

BURN_IN = 500
"""Sweeps before each row, which has a chain of its own."""

MAX_CELLS = 2**24
"""Exact marginals are the reference of the others, so they may take long."""


@dataclass(frozen=True)
class Kind:
    """A kind of synthetic field."""

    neighbors: float
    weights: tuple[float, float]


FIELDS = {
    "tree-like": Kind(1.0, (-3.0, 3.0)),
    "weak loops": Kind(4.0, (-1.0, 1.0)),
    "strong loops": Kind(5.0, (-5.0, 5.0)),
}


def run_inference(
    fields: Sequence[str] = tuple(FIELDS),
    *,
    nodes: int = 24,
    rows: int = 300,
    states: int = 3,
    missing: float = 0.5,
    seed: int = 0,
    methods: Sequence[str] | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """Return a row per field and method: seconds, distance from exact marginals, CLL and share unconverged."""
    found = []
    names = list(methods or INFERENCE)
    for kind in (*fields, *names):
        if kind not in FIELDS and kind not in INFERENCE:
            raise ValueError(f"Unknown {kind!r}; fields: {', '.join(FIELDS)}; methods: {', '.join(INFERENCE)}.")
    for name in fields:
        made, incomplete = _make(name, nodes, rows, states, missing, seed)
        exact = _measure(made, incomplete, ExactInference(max_cells=MAX_CELLS))
        for method in names:
            report(f"{name}: {method}")
            answer = exact if method == "exact" else _measure(made, incomplete, INFERENCE[method]())
            found.append(
                {
                    "data": f"{name}, N = {nodes}, {states} states",
                    "method": method,
                    "seconds": answer["seconds"],
                    "off": _distance(answer["table"], answer["beliefs"], exact["beliefs"]),
                    "cll": answer["cll"],
                    "unconverged": answer["unconverged"],
                    "missing": int(np.isnan(incomplete).sum()),
                }
            )
    return found


def run_learned(
    fields: Sequence[str] = tuple(FIELDS),
    *,
    nodes: int = 12,
    rows: int = 400,
    states: int = 3,
    missing: float = 0.4,
    l1: float = 4.0,
    seed: int = 0,
    methods: Sequence[str] | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """Return a row per field and pair of methods for fit and inference: CLL of the cells that the fit missed."""
    found = []
    for name in fields:
        made, incomplete = _make(name, nodes, rows, states, missing, seed)
        for method in methods or ("em", "mean-field", "bp"):
            report(f"{name}: learning by {method}")
            start = time.perf_counter()
            field = MarkovField(l1=l1, missing=method, n_jobs=1, random_state=seed).fit(incomplete)
            seconds = time.perf_counter() - start
            for answered in ("auto", "mean-field", "bp"):
                field.inference = answered
                found.append(
                    {
                        "data": f"{name}, N = {nodes}, {states} states",
                        "method": f"fit: {method}, answers: {answered}",
                        "seconds": seconds,
                        "cll": conditional_log_likelihood(field, made.samples, incomplete),
                    }
                )
    return found


def _make(name: str, nodes: int, rows: int, states: int, missing: float, seed: int) -> tuple[SyntheticField, Array]:
    """Return a field, and its rows with missing cells."""
    kind = FIELDS[name]
    made = make_markov_field(
        nodes, rows, states=states, neighbors=kind.neighbors, weights=kind.weights, biases="balanced",
        burn_in=BURN_IN, chains=rows, seed=seed,
    )  # fmt: skip
    incomplete = made.samples.astype(float)
    incomplete[np.random.default_rng(seed).random(incomplete.shape) < missing] = np.nan
    return made, incomplete


def _measure(made: SyntheticField, incomplete: Array, method: InferenceMethod) -> dict[str, Any]:
    """Return a row of measurements; two rows are queried first, so that nothing is compiled while timing."""
    field = made.field.field_
    table, truth = (compile_table(as_source(X), field.schema) for X in (incomplete, made.samples))
    with Threads(1) as engine:
        infer(field, Dataset.single(compile_table(as_source(incomplete[:2]), field.schema)), method, engine)
        start = time.perf_counter()
        answers = infer(field, Dataset.single(table), method, engine)
        seconds = time.perf_counter() - start
    total, count = log_belief(table, truth, answers.marginals[0])
    return {
        "seconds": seconds,
        "table": table,
        "beliefs": answers.marginals[0],
        "cll": total / max(count, 1),
        "unconverged": answers.unconverged / table.n_rows,
    }


def _distance(table: Table, beliefs: Array, exact: Array) -> float:
    """Return the mean of |belief - exact| over all states of all missing cells."""
    offsets, total, count = table.schema.target_offsets, 0.0, 0
    codes = table.codes()
    for v in range(len(table.schema.targets)):
        missing_cells = codes[v] < 0
        apart = (beliefs - exact)[offsets[v] : offsets[v + 1]][:, missing_cells]
        total += float(np.abs(apart).sum() + np.abs(apart.sum(axis=0)).sum())
        count += apart.size + apart.shape[1]
    return total / max(count, 1)


def command(
    field: Annotated[
        list[str] | None, typer.Option("--field", help="tree-like, weak loops, strong loops; by default all.")
    ] = None,
    nodes: Annotated[int, typer.Option("--nodes", min=4, help="Columns; few enough for exact inference.")] = 24,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows with missing cells.")] = 300,
    states: Annotated[int, typer.Option("--states", min=2, help="States of a column.")] = 3,
    missing: Annotated[float, typer.Option("--missing", help="Share of cells made missing.")] = 0.5,
    method: Annotated[list[str] | None, typer.Option("--method", help="Only these methods.")] = None,
    learn: Annotated[
        bool,
        typer.Option("--learn", help="Learn from rows with missing cells, by mean field and by bp."),
    ] = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Predict missing cells of synthetic fields by each inference method: time, and distance from exact marginals."""
    if learn:
        print_rows(
            run_learned(tuple(field or FIELDS), seed=seed, report=print_message),
            ("data", "method", "seconds", "cll"),
            as_json,
        )
        return
    options = {"nodes": nodes, "rows": rows, "states": states, "missing": missing, "seed": seed}
    found = run_inference(tuple(field or FIELDS), **options, methods=method, report=print_message)
    print_rows(found, ("data", "method", "seconds", "off", "cll", "unconverged", "missing"), as_json)


def conditional_log_likelihood(field: MarkovField | RelationalField, X_true: Any, X_missing: Any) -> float:
    """Return the mean log-probability of the truth over cells missing in ``X_missing`` and known in ``X_true``.

    They are two tables with the same rows, or two `Relational` with the same tables.
    """
    hidden, truth = compile_densely(field, X_missing), compile_densely(field, X_true)
    for name, table, known in zip(hidden.layout.tables, hidden.tables, truth.tables, strict=True):
        if table.n_rows != known.n_rows:
            where = f"Table {name!r}: X_true" if name else "X_true"
            raise DataError(f"{where} has {known.n_rows} rows, X_missing {table.n_rows}.")
    total, count = 0.0, 0
    for table, known, belief in zip(hidden.tables, truth.tables, infer_missing(field, hidden).values, strict=True):
        part, cells = log_belief(table, known, belief)
        total, count = total + part, count + cells
    if count == 0:
        raise DataError("No cell is missing in X_missing and known in X_true: there is nothing to score.")
    return total / count


def log_belief(table: Table, truth: Table, missing: np.ndarray) -> tuple[float, int]:
    """Return the sum of the log-probabilities of the truth over cells that are missing in ``table`` and known in
    ``truth``, and the number of these cells."""
    hidden, known = table.codes() < 0, truth.codes()
    total, count = 0.0, 0
    for k, variable in enumerate(table.schema.targets):
        rows = np.flatnonzero(hidden[k] & (known[k] >= 0))
        states = state_probabilities(table.schema, k, missing[:, rows])
        right = states[np.arange(len(rows)), variable.position_of_code[known[k, rows]]]
        total += float(np.log(np.maximum(right, np.finfo(float).tiny)).sum())
        count += len(rows)
    return total, count
