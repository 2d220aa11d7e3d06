"""Comparisons of groups: how often they find differences that are there, and differences that are not."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command_line import Json, Seed, print_rows
from sparsefield import GroupComparison, MarkovField, compare
from sparsefield.app.cli.console import print_message

__all__ = ["draw_chain", "draw_incomplete", "run_comparison", "run_missing"]

COLUMNS = 8
COPIES = 0.45
"""How often a column repeats the one before; otherwise it is 0 or 1 by chance."""

CHANGED = 4
"""The column that does not repeat the one before in the second group, where groups differ."""

LEVEL = 0.05

MISSING = {
    "none": (0.0, 0.0, {"l1": 4.0}),
    "5% and 40%": (0.05, 0.4, {"l1": 4.0}),
    "0 and 60%": (0.0, 0.6, {"l1": 4.0}),
    "0 and 50%, l1 = auto": (0.0, 0.5, {"l1": "auto"}),
    "0 and 40% of rows in blocks": (0.0, 0.4, {"l1": 4.0}),
}
"""Shares of missing cells in two groups of one distribution, and options of the fit."""


def draw_chain(rows: int, rng: np.random.Generator, *, without: int | None = None) -> np.ndarray:
    """Draw rows of 0/1 columns, each of which depends on the one before, except for the column ``without``.

    Examples
    --------
    >>> draw_chain(5, np.random.default_rng(0)).shape
    (5, 8)
    """
    X = rng.integers(0, 2, (rows, COLUMNS))
    for k in range(1, COLUMNS):
        if k != without:
            X[:, k] = np.where(rng.random(rows) < COPIES, X[:, k - 1], X[:, k])
    return X


def draw_incomplete(rows: int, shares: tuple[float, float], rng: np.random.Generator, *, blocks: bool) -> np.ndarray:
    """Draw two groups of one distribution, (2 rows, 5), with shares of missing cells.

    With ``blocks``, the first three cells of a row are missing together.

    Examples
    --------
    >>> X = draw_incomplete(400, (0.0, 0.5), np.random.default_rng(0), blocks=False)
    >>> np.isnan(X[:400]).mean().item(), np.isnan(X[400:]).mean().round(1).item()
    (0.0, 0.5)
    """
    X = (0.8 * rng.normal(size=(2 * rows, 1)) + rng.normal(size=(2 * rows, 5)) > 0.0).astype(float)
    for group, share in zip((X[:rows], X[rows:]), shares, strict=True):
        if blocks:
            group[rng.random(rows) < share, :3] = np.nan
        else:
            group[rng.random(group.shape) < share] = np.nan
    return X


def _smallest_p(comparison: GroupComparison) -> float:
    return comparison.edges["p_adjusted"].min() if len(comparison.edges) else 1.0


def run_missing(
    *,
    repeats: int = 200,
    rows: int = 150,
    permutations: int = 199,
    seed: int = 0,
    n_jobs: int | None = None,
    report: Callable[[str], None] = print,
) -> list[dict[str, Any]]:
    """Return for each test how often it finds a difference between groups that differ in their missing cells only."""
    table = []
    for name, (first, second, options) in MISSING.items():
        hits = []
        for repeat in range(repeats):
            X = draw_incomplete(rows, (first, second), np.random.default_rng([seed, repeat]), blocks="blocks" in name)
            comparison = compare(
                X, np.repeat([0, 1], rows), permutations=permutations, seed=repeat, n_jobs=n_jobs, **options
            )
            hits.append([p <= LEVEL for p in (*comparison.tests["p"].to_list(), _smallest_p(comparison))])
        strength, structure, edge = np.mean(hits, axis=0).tolist()
        table.append(
            {"missing": name, "global_strength": strength, "structure": structure, "any_edge": edge, "tables": repeats}
        )
        report(f"missing cells: {name}, {repeats} tables")
    return table


def run_comparison(
    *,
    repeats: int = 50,
    rows: int = 250,
    permutations: int = 599,
    seed: int = 0,
    n_jobs: int | None = None,
    report: Callable[[str], None] = print,
) -> list[dict[str, Any]]:
    """Return for each way of comparing two groups how often it finds a difference, without one and with one."""
    found: dict[str, dict[str, list[float]]] = {}
    for difference in ("none", "one edge"):
        for repeat in range(repeats):
            rng = np.random.default_rng([seed, repeat])
            without = CHANGED if difference == "one edge" else None
            groups = np.concatenate([draw_chain(rows, rng), draw_chain(rows, rng, without=without)])
            for method, hit in _compare(groups, rows, permutations, repeat, n_jobs).items():
                found.setdefault(method, {}).setdefault(difference, []).append(hit)
        report(f"difference: {difference}, {repeats} tables")
    return [
        {
            "method": method,
            "found_without": float(np.mean(hits["none"])),
            "found_with": float(np.mean(hits["one edge"])),
            "tables": repeats,
        }
        for method, hits in found.items()
    ]


def _compare(X: np.ndarray, rows: int, permutations: int, seed: int, n_jobs: int | None) -> dict[str, float]:
    """Return {way of comparing: whether it finds a difference, or the seconds that it takes}."""
    group = np.repeat([0, 1], rows)
    started = time.perf_counter()
    comparison = compare(X, group, selection="ebic", permutations=permutations, seed=seed, n_jobs=n_jobs)
    seconds = time.perf_counter() - started
    strength, structure = comparison.tests["p"].to_list()
    alone = [
        {frozenset(edge) for edge in field.edges_.select("variable_a", "variable_b").rows()}
        for field in (MarkovField(selection="ebic", n_jobs=n_jobs).fit(X[group == g]) for g in (0, 1))
    ]
    return {
        "test of global strength": float(strength <= LEVEL),
        "test of structure": float(structure <= LEVEL),
        "tests of edges (adjusted), any": float(_smallest_p(comparison) <= LEVEL),
        "two separate fits, any edge in one only": float(alone[0] != alone[1]),
        "seconds of a comparison": seconds,
    }


def command(
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Tables of each kind.")] = 50,
    rows: Annotated[int, typer.Option("--rows", min=20, help="Rows of a group.")] = 250,
    permutations: Annotated[int, typer.Option("--permutations", min=19, help="Permutations of a test.")] = 599,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Count how often a difference is found: between equal groups, where one edge differs, and where cells are missing.

    Groups that differ in their missing cells only have four times as many tables.
    """
    found = run_comparison(repeats=repeats, rows=rows, permutations=permutations, seed=seed, report=print_message)
    print_rows(found, ("method", "found_without", "found_with", "tables"), as_json)
    incomplete = run_missing(repeats=4 * repeats, seed=seed, report=print_message)
    print_rows(incomplete, ("missing", "global_strength", "structure", "any_edge", "tables"), as_json)
