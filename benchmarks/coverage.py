"""This module measures how often confidence intervals contain the true weights of known fields."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import numpy as np
import polars as pl
import typer

from benchmarks.command_line import Json, Row, Seed, choose_parts, print_rows
from benchmarks.measure import Report
from sparsefield import confidence_intervals
from sparsefield.analysis.confidence_intervals import ConfidenceIntervals, Method
from sparsefield.app.cli.console import print_message
from sparsefield.data import Layout
from sparsefield.data.coding import ColumnClass
from sparsefield.estimators import MarkovField
from sparsefield.induction import FixedGraph

__all__ = ["FIELDS", "run_coverage"]

METHODS = ("godambe", "bootstrap")
SWEEPS = 30
"""Gibbs sweeps before a row is taken; every row has a chain of its own, so rows are independent."""

Kind = Literal["binary", "nominal", "ordinal", "numeric"]
SEVERAL: tuple[Kind, ...] = ("binary", "ordinal", "numeric", "nominal")
VALUES = {"binary": np.arange(2.0), "ordinal": np.arange(5.0), "numeric": np.linspace(-4.0, 4.0, 41)}
IMPUTATIONS = 20
"""Imputations of a table with missing cells."""

STATES = 3
"""States of a nominal column."""


@dataclass(frozen=True)
class KnownField:
    """A field with known weights; every column has some states, and one or several values for each of them."""

    title: str
    kinds: tuple[Kind, ...]
    edges: tuple[tuple[int, int], ...]
    weights: tuple[np.ndarray, ...]
    """Of each edge, (values of the first column, values of the second)."""

    def draw(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return the states (columns, rows) of independent rows."""
        coded = [_coded(kind) for kind in self.kinds]
        states = np.stack([rng.integers(0, len(values), rows) for values in coded])
        for _ in range(SWEEPS):
            for k, values in enumerate(coded):
                logits = np.repeat(_base(self.kinds[k])[:, None], rows, axis=1)
                for (a, b), weights in zip(self.edges, self.weights, strict=True):
                    if k in (a, b):
                        matrix, other = (weights, b) if k == a else (weights.T, a)
                        logits += values @ matrix @ coded[other][states[other]].T
                sums = np.cumsum(np.exp(logits - logits.max(axis=0)), axis=0)
                states[k] = (sums < rng.random(rows) * sums[-1]).sum(axis=0)
        return states

    def frame(self, states: np.ndarray) -> pl.DataFrame:
        """Return rows as a table: nominal states are letters, others numbers."""
        columns = {}
        for k, (kind, own) in enumerate(zip(self.kinds, states, strict=True)):
            columns[f"x{k}"] = np.array(list("abc"))[own] if kind == "nominal" else VALUES[kind][own]
        frame = pl.DataFrame(columns)
        whole = [f"x{k}" for k, kind in enumerate(self.kinds) if kind in ("binary", "ordinal")]
        return frame.with_columns(pl.col(whole).cast(pl.Int64))

    def truth(self, frame: pl.DataFrame) -> dict[tuple[str, Any, str, Any], float]:
        """Return the true weights by the names of features, per standard deviation of a score in the table."""
        found = {}
        for (a, b), weights in zip(self.edges, self.weights, strict=True):
            left, right = self._scale(a, frame), self._scale(b, frame)
            for state_a, row in zip(left[0], left[1] @ weights @ right[1].T, strict=True):
                found |= {(f"x{a}", state_a, f"x{b}", s): float(w) for s, w in zip(right[0], row, strict=True)}
        return found

    def _scale(self, column: int, frame: pl.DataFrame) -> tuple[list[Any], np.ndarray]:
        """Return the states that features of a column have, and the matrix that turns its weights into theirs."""
        kind = self.kinds[column]
        if kind == "nominal":  # weights of all states, whose mean the biases absorb
            return ["a", "b", "c"], np.eye(STATES) - 1.0 / STATES
        if kind == "binary":
            return [1], np.eye(1)
        return [None], np.eye(1) * float(frame[f"x{column}"].drop_nulls().to_numpy().std())


def _coded(kind: Kind) -> np.ndarray:
    return np.eye(STATES) if kind == "nominal" else VALUES[kind][:, None]


def _base(kind: Kind) -> np.ndarray:
    """Return the logits of the states without any neighbor."""
    if kind == "numeric":
        return -0.5 * np.square(VALUES[kind])
    return -0.3 * np.square(VALUES[kind] - 2.0) if kind == "ordinal" else np.zeros(len(_coded(kind)))


def make_known_field(title: str, kinds: Sequence[Kind], size: float, seed: int = 1) -> KnownField:
    """Return a field in which every column depends on two others of a ring, and some on a third."""
    rng, n = np.random.default_rng(seed), len(kinds)
    pairs = [(k, (k + step) % n) for step in (1, 3) for k in range(0, n, step)]
    edges = sorted({(min(pair), max(pair)) for pair in pairs})
    weights = []
    for edge in edges:
        shape = tuple(STATES if kinds[k] == "nominal" else 1 for k in edge)
        scale = size * np.prod([{"ordinal": 0.6, "numeric": 0.6}.get(kinds[k], 1.0) for k in edge])
        weights.append(scale * rng.choice([-1.0, 1.0], shape) * rng.uniform(0.5, 1.0, shape))
    return KnownField(title, tuple(kinds), tuple(edges), tuple(weights))


FIELDS = {
    "ising": make_known_field("Ising", 10 * SEVERAL[0:1], 1.0),
    "nominal": make_known_field("nominal, 3 states", 6 * SEVERAL[3:4], 1.0),
    "ordinal": make_known_field("ordinal, 5 levels", 8 * SEVERAL[1:2], 0.5),
    "gaussian": make_known_field("Gaussian", 8 * SEVERAL[2:3], 0.5),
    "mixed": make_known_field("mixed kinds", 2 * SEVERAL, 0.6),
}


@dataclass(frozen=True)
class ScoreGraph(FixedGraph):
    """A fixed graph without features of levels: ordinal and numeric columns have their scores only."""

    def start(self, layout: Layout) -> np.ndarray:
        pairs = super().start(layout)
        return pairs[(layout.column_classes[pairs] != ColumnClass.LEVEL).all(axis=1)]


@dataclass(frozen=True)
class Setting:
    """How a field is learned before its intervals are computed."""

    title: str
    structure: Literal["true", "all", "selected"]
    rows: int
    l1: float = 0.0
    """In square roots of the number of rows."""
    refit: bool = False
    fields: tuple[str, ...] = tuple(FIELDS)
    missing: float = 0.0
    """Share of the cells that are missing, completely at random; intervals are pooled over `IMPUTATIONS`."""

    def remove(self, table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
        """Return a table with missing cells, if the setting has some."""
        if not self.missing:
            return table
        return table.with_columns(
            pl.when(pl.Series(rng.random(table.height) >= self.missing)).then(pl.col(name)) for name in table.columns
        )

    def intervals(
        self, field: MarkovField, table: pl.DataFrame, method: str, resamples: int, level: float, seed: int
    ) -> ConfidenceIntervals:
        """Return the intervals of a fitted field; those of a table with missing cells are pooled."""
        imputations = IMPUTATIONS if self.missing else None
        return confidence_intervals(
            field,
            table,
            method=cast(Method, method),
            n=resamples,
            level=level,
            seed=seed,
            imputations=imputations,
        )

    def estimator(self, known: KnownField) -> MarkovField:
        columns = range(len(known.kinds))
        edges = known.edges if self.structure == "true" else [(a, b) for b in columns for a in range(b)]
        rule = "cfi" if self.structure == "selected" else ScoreGraph(edges=[(f"x{a}", f"x{b}") for a, b in edges])
        l1 = self.l1 * float(np.sqrt(self.rows))
        kinds = {f"x{k}": kind for k, kind in enumerate(known.kinds) if kind != "binary"}
        return MarkovField(induction=rule, l1=l1, refit=self.refit, kinds=kinds, n_jobs=1)


SETTINGS = {
    "true": Setting("true edges", "true", 1000),
    "all": Setting("all pairs of columns", "all", 1000, fields=("ising", "mixed")),
    "l1": Setting("true edges, l1 fit", "true", 1000, 0.1, fields=("ising",)),
    "refit": Setting("true edges, l1 and refit", "true", 1000, 0.1, True, ("ising",)),
    "selected": Setting("selected edges", "selected", 1000, 0.6, fields=("ising",)),
    "small": Setting("true edges, few rows", "true", 60, fields=("ising", "gaussian")),
    "missing": Setting("true edges, 15% of the cells missing", "true", 1000, missing=0.15),
}


def run_coverage(
    fields: Sequence[str] | None = None,
    settings: Sequence[str] | None = None,
    *,
    methods: Sequence[str] | None = None,
    repeats: int = 200,
    resamples: int = 500,
    level: float = 0.95,
    seed: int = 0,
    report: Report = print,
) -> list[Row]:
    """Return a row for each field, setting and method: the share of intervals that contain the true weight.

    Returns
    -------
    list of dict
        data, setting, method, rows, weights (their mean number), coverage, its standard error, and seconds that the
        intervals of a table take.
    """
    rows, methods = [], choose_parts(methods, METHODS)
    for name in choose_parts(fields, FIELDS):
        for key in choose_parts(settings, SETTINGS):
            if name in SETTINGS[key].fields:
                own = [one for one in methods if one == "godambe" or not SETTINGS[key].missing]
                if not own:  # a bootstrap needs complete rows
                    continue
                rows += _measure(FIELDS[name], SETTINGS[key], own, repeats, resamples, level, seed)
                shown = ", ".join(f"{row['method']} {row['coverage']:.1%}" for row in rows[-len(own) :])
                report(f"  {FIELDS[name].title}, {SETTINGS[key].title}: {shown}")
    return rows


def _measure(
    known: KnownField,
    setting: Setting,
    methods: Sequence[str],
    repeats: int,
    resamples: int,
    level: float,
    seed: int,
) -> list[Row]:
    rng = np.random.default_rng(seed)
    shares: dict[str, list[float]] = {method: [] for method in methods}
    seconds, counts = dict.fromkeys(methods, 0.0), 0
    for number in range(repeats):
        table = setting.remove(known.frame(known.draw(setting.rows, rng)), rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            field = setting.estimator(known).fit(table)
        counts += len(field.field_.features)
        for method in methods if len(field.field_.features) else ():
            began = time.perf_counter()
            found = setting.intervals(field, table, method, resamples, level, number if setting.missing else 0)
            seconds[method] += time.perf_counter() - began
            shares[method].append(float(np.mean(list(_contained(found.weights, known.truth(table))))))
    head = {"data": known.title, "setting": setting.title, "rows": setting.rows, "status": "done"}
    return [
        {
            **head,
            "method": method,
            "weights": counts / repeats,
            "coverage": float(np.mean(found)),
            "error": float(np.std(found, ddof=1) / np.sqrt(len(found))),
            "seconds": seconds[method] / repeats,
        }
        for method, found in shares.items()
    ]


def _contained(weights: Any, truth: dict[tuple[str, Any, str, Any], float]) -> Iterator[bool]:
    """Yield for each weight whether its interval contains the true one; 0 for pairs without an edge."""
    names = ["variable_a", "state_a", "variable_b", "state_b"]
    for a, s, b, t, low, high in weights.select(*names, "low", "high").iter_rows():
        state_a, state_b = (_plain(state) for state in (s, t))
        found = truth.get((a, state_a, b, state_b), truth.get((b, state_b, a, state_a), 0.0))
        yield low <= found <= high


def _plain(state: Any) -> Any:
    """Return a state as `KnownField.truth` has it: a binary one is text where others are."""
    return 1 if state in ("1", 1) else state


def command(
    field: Annotated[list[str] | None, typer.Option("--field", help=f"One of {', '.join(FIELDS)}.")] = None,
    setting: Annotated[list[str] | None, typer.Option("--setting", help=f"One of {', '.join(SETTINGS)}.")] = None,
    method: Annotated[list[str] | None, typer.Option("--method", help="godambe or bootstrap; default both.")] = None,
    repeats: Annotated[int, typer.Option("--repeats", min=2, help="Tables that are drawn from each field.")] = 200,
    resamples: Annotated[int, typer.Option("--resamples", min=2, help="Bootstrap resamples of a table.")] = 500,
    level: Annotated[float, typer.Option("--level", help="Probability of the intervals.")] = 0.95,
    short: Annotated[bool, typer.Option("--short", help="The Ising field only, from 10 tables.")] = False,
    as_json: Json = False,
    seed: Seed = 0,
) -> None:
    """Count how often confidence intervals contain the true weights, in fields of several kinds."""
    found = run_coverage(
        ["ising"] if short else field,
        setting,
        methods=method,
        repeats=10 if short else repeats,
        resamples=resamples,
        level=level,
        seed=seed,
        report=print_message,
    )
    print_rows(found, ("data", "setting", "rows", "weights", "method", "coverage", "error", "seconds"), as_json)
