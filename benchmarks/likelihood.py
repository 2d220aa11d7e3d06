"""This module compares weights by pseudo-likelihood with those by the exact likelihood, on trees with a known field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command_line import Json, Seed, print_rows
from benchmarks.measure import Report
from sparsefield import FixedGraph, MarkovField
from sparsefield.app.cli.console import print_message

__all__ = ["OBJECTIVES", "Row", "describe", "draw_tree", "run_likelihood"]

Row = dict[str, Any]

OBJECTIVES = ("pl", "ml")
L2 = 0.01
"""So small that it only keeps weights finite."""


def draw_tree(
    rows: int, columns: int, weight: float, rng: np.random.Generator
) -> tuple[np.ndarray, list[tuple[int, int]], np.ndarray]:
    """Return rows of a random tree of 0/1 columns, its edges, and the weight of the feature (1, 1) of each edge.

    A column equals its parent with probability 1 / (1 + exp(-weight / 2)), or differs from it, at random.
    """
    signs = rng.choice([-1.0, 1.0], columns - 1)
    edges = [(int(rng.integers(k)), k) for k in range(1, columns)]
    X = np.empty((rows, columns), dtype=np.int64)
    X[:, 0] = rng.integers(0, 2, rows)
    for (parent, k), sign in zip(edges, signs, strict=True):
        same = rng.random(rows) < 1.0 / (1.0 + np.exp(-0.5 * sign * weight))
        X[:, k] = np.where(same, X[:, parent], 1 - X[:, parent])
    return X, edges, signs * weight


def run_likelihood(
    rows: Sequence[int] = (100, 400),
    weights: Sequence[float] = (2.0, 4.0),
    columns: int = 10,
    trees: int = 40,
    seed: int = 0,
    report: Report = print,
) -> list[Row]:
    """Learn the weights of trees whose edges are known, by each objective.

    Parameters
    ----------
    rows : numbers of rows
    weights : sizes of the true weights
    columns : columns of a tree
    trees : trees for each setting
    seed : of all draws
    report : called with a line of text after each setting

    Returns
    -------
    list of dict
        One per setting and objective: rows, weight, objective, rmse (of the weights), log_likelihood (mean over as many
        new rows, exact), closer (share of the trees with a smaller error than by pseudo-likelihood).
    """
    table = []
    for n in rows:
        for weight in weights:
            errors, scores = _compare(n, weight, columns, trees, seed)
            for k, objective in enumerate(OBJECTIVES):
                closer = float((errors[:, k] < errors[:, 0]).mean()) if k else None
                table.append(
                    {
                        "rows": n,
                        "weight": weight,
                        "objective": objective,
                        "rmse": float(np.sqrt(errors[:, k].mean())),
                        "log_likelihood": float(scores[:, k].mean()),
                        "closer": closer,
                    }
                )
                report(describe(table[-1]))
    return table


def describe(row: Row) -> str:
    """Return one row of :func:`run_likelihood` as a line of text."""
    closer = "" if row["closer"] is None else f", closer to the truth in {row['closer']:.0%} of the trees"
    return (
        f"{row['rows']} rows, weights {row['weight']:g}, {row['objective']}: RMSE {row['rmse']:.3f}, log-likelihood "
        f"{row['log_likelihood']:.3f}{closer}"
    )


def _compare(n: int, weight: float, columns: int, trees: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return mean squared errors of weights, and log-likelihoods of new rows, (trees, objectives) each."""
    errors, scores = np.empty((trees, len(OBJECTIVES))), np.empty((trees, len(OBJECTIVES)))
    for tree in range(trees):
        rng = np.random.default_rng([seed, tree])
        X, edges, truth = draw_tree(2 * n, columns, weight, rng)
        rule = FixedGraph(edges=edges)
        for k, objective in enumerate(OBJECTIVES):
            field = MarkovField(objective=objective, induction=rule, l1=0.0, l2=L2, n_jobs=1).fit(X[:n])
            found = dict(zip(map(tuple, field.field_.pairs.tolist()), field.field_.weights, strict=True))
            errors[tree, k] = np.mean([(found.get(edge, 0.0) - w) ** 2 for edge, w in zip(edges, truth, strict=True)])
            scores[tree, k] = field.log_likelihood(X[n:]).mean()
    return errors, scores


def command(
    trees: Annotated[int, typer.Option("--trees", min=2, help="Trees for each setting.")] = 40,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compare weights by pseudo-likelihood with those by the exact likelihood, on trees with known weights."""
    found = run_likelihood(trees=trees, seed=seed, report=print_message)
    print_rows(found, ("rows", "weight", "objective", "rmse", "log_likelihood", "closer"), as_json)
