"""This module compares the automatic l1 with a path of L1 regressions per node, EBIC, the AND rule and a refit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.binary_data import DRAW, BinaryData
from benchmarks.command_line import Json, Seed, print_rows
from benchmarks.measure import installed
from benchmarks.mixed import edges_of, holding_edges
from benchmarks.nodewise import SOLVERS, assemble, fit_nodes
from sparsefield.app.cli.console import print_message
from sparsefield.estimators import MarkovField
from sparsefield.induction import FixedGraph
from sparsefield.solver import Solver

__all__ = ["run_selection"]

Array = np.ndarray
Row = dict[str, Any]

VALUES = 20
RATIO = 0.02
"""Values of a peer's path, and the last of them as a share of the first."""

GAMMA = 0.25
"""IsingFit's, of EBIC in the regressions of nodes."""

OURS: dict[str, dict[str, Any]] = {
    "auto, ebic, refit": {"selection": "ebic", "refit": True},
    "auto, ebic": {"selection": "ebic"},
    "auto, heldout": {"selection": "heldout"},
}


def run_selection(
    nodes: Sequence[int] = (100, 400),
    rows: int = 2000,
    seed: int = 0,
    peers: Sequence[str] = ("skglm",),
    report: Callable[[str], None] = print,
    *,
    n_jobs: int = 1,
) -> list[Row]:
    """Return a row per size and method: seconds, precision and recall of the true edges, and the held-out score.

    The score is the pseudo-log-likelihood per cell, on the Ising data of `peers`.

    A peer is one L1 logistic regression per node along a path of 20 values, the best by EBIC (gamma 0.25) for each
    node; an edge is one that both ends select; the edges are refitted without L1, which is not timed.
    """
    unknown = sorted(set(peers) - set(SOLVERS))
    if unknown:
        raise ValueError(f"no such peer: {', '.join(unknown)}; there are {', '.join(SOLVERS)}")
    table: list[Row] = []
    for count in nodes:
        data = DRAW["dense"](count, (rows, 0, rows), seed)
        report(f"{data.name}: {rows:,} rows, {int(np.count_nonzero(np.triu(data.weights)))} edges")
        MarkovField(l1="auto", selection="ebic", refit=True, n_jobs=n_jobs).fit(data.train[:200, :20])  # compiles
        for name, options in OURS.items():
            started = time.perf_counter()
            field = MarkovField(l1="auto", random_state=seed, n_jobs=n_jobs, **options).fit(data.train)
            table.append(_row(data, f"sparsefield, {name}", field, time.perf_counter() - started))
            report(_words(table[-1]))
            if name == "auto, heldout":
                hold = holding_edges(field)
                table.append(table[-1] | {"method": "sparsefield, edges that hold", **_accuracy(data, hold)})
                report(_words(table[-1]))
        for name in peers:
            if installed(SOLVERS[name].module):
                edges, seconds = _nodewise(data.train, name)
                field = MarkovField(
                    induction=FixedGraph(edges=edges), l1=0.0, l2=0.01, solver=Solver(kkt_tol=0.1), n_jobs=n_jobs
                )
                table.append(_row(data, f"{name} per node, ebic, AND, refit", field.fit(data.train), seconds))
                report(_words(table[-1]))
            else:
                report(f"  {name}: not installed")
    return table


def _nodewise(samples: Array, name: str) -> tuple[list[tuple[str, str]], float]:
    """Return edges by the AND rule, and the seconds of all regressions of the path."""
    rows, nodes = samples.shape
    centered = samples - samples.mean(axis=0)
    products = np.abs(centered.T @ centered)
    np.fill_diagonal(products, 0.0)
    best, chosen, seconds = np.full(nodes, np.inf), np.zeros((nodes, nodes), dtype=bool), 0.0
    for l1 in np.geomspace(products.max(), RATIO * products.max(), VALUES):
        started = time.perf_counter()
        fits = assemble(fit_nodes(samples, float(l1), SOLVERS[name]), nodes)
        seconds += time.perf_counter() - started
        logits = fits.bias + samples @ fits.weights.T
        likelihood = (samples * logits - np.logaddexp(0.0, logits)).sum(axis=0)
        size = np.count_nonzero(fits.weights, axis=1)
        ebic = size * (np.log(rows) + 2.0 * GAMMA * np.log(nodes - 1)) - 2.0 * likelihood
        better = ebic < best
        best[better], chosen[better] = ebic[better], fits.weights[better] != 0.0
    return [(f"x{a}", f"x{b}") for a, b in np.argwhere(np.triu(chosen & chosen.T))], seconds


def _row(data: BinaryData, method: str, field: MarkovField, seconds: float) -> Row:
    return {
        "data": data.name,
        "method": method,
        "seconds": seconds,
        "l1": field.l1_,
        **_accuracy(data, edges_of(field)),
        "score": field.score(data.held_out) / len(data.weights),
    }


def _accuracy(data: BinaryData, edges: set[tuple[int, int]]) -> Row:
    truth = {(int(a), int(b)) for a, b in np.argwhere(np.triu(data.weights != 0.0, 1))}
    right = len(truth & edges)
    return {"edges": len(edges), "precision": right / max(len(edges), 1), "recall": right / len(truth)}


def _words(row: Row) -> str:
    figures = f"precision {row['precision']:.3f}, recall {row['recall']:.3f}, score {row['score']:.4f}"
    return f"  {row['method']}: {row['seconds']:.2f} s, {row['edges']:,} edges, {figures}"


def command(
    nodes: Annotated[list[int] | None, typer.Option("--nodes", min=10, help="Columns; by default 100 and 400.")] = None,
    rows: Annotated[int, typer.Option("--rows", min=100, help="Rows to learn from, and to score.")] = 2000,
    peer: Annotated[list[str] | None, typer.Option("--peer", help="skglm, celer, liblinear; by default skglm.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Choose l1 automatically: time, edges and scores beside a path of regressions per node with EBIC."""
    found = run_selection(tuple(nodes or (100, 400)), rows, seed, tuple(peer or ("skglm",)), report=print_message)
    print_rows(found, ("data", "method", "seconds", "l1", "edges", "precision", "recall", "score"), as_json)
