"""This module learns small networks by each objective: `pl`, `cd`, the exact likelihood and the Bethe likelihood."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import typer
from threadpoolctl import threadpool_limits

from benchmarks.command_line import Json, Seed, print_rows
from benchmarks.ising import pseudo_log_likelihood
from benchmarks.measure import Report
from benchmarks.peers import read_field
from sparsefield import MarkovField
from sparsefield.app.cli.console import print_message
from sparsefield.app.datasets import SyntheticField, make_markov_field

__all__ = ["OBJECTIVES", "run_objectives"]

Row = dict[str, Any]
OBJECTIVES = ("pl", "cd", "ml", "bethe")


def run_objectives(
    nodes: Sequence[int] = (10, 25, 50),
    sizes: Sequence[float] = (2.0, 5.0),
    *,
    networks: int = 5,
    rows: int = 200,
    held_out: int = 500,
    l1: float = 2.0,
    seed: int = 0,
    report: Report = print,
) -> list[Row]:
    """Return a row per size of network, size of weights and objective; CFI selects features, at the same l1.

    Returns
    -------
    list of dict
        nodes, weights (uniform between minus and plus this), objective, seconds (processor time of a fit), features,
        cll (of a held-out cell given the rest of its row), log_likelihood (of a held-out row; NaN if not exact),
        unconverged (how many fits did not converge); means over the networks.
    """
    table = []
    for n in nodes:
        for size in sizes:
            drawn = [_draw(n, size, rows + held_out, seed + k) for k in range(networks)]
            for objective in OBJECTIVES if n <= LARGEST_EXACT else [name for name in OBJECTIVES if name != "ml"]:
                found = [_fit(objective, network, rows, l1) for network in drawn]
                means = {name: float(np.mean([one[name] for one in found])) for name in found[0] if name != "converged"}
                unconverged = sum(not one["converged"] for one in found)
                table.append({"nodes": n, "weights": size, "objective": objective, **means, "unconverged": unconverged})
                report(f"  {n} nodes, weights of up to {size:g}, {objective}: CLL {means['cll']:.4f}")
    return table


LARGEST_EXACT = 12
"""Nodes of the largest network that is learned by the exact likelihood."""


def _draw(nodes: int, size: float, rows: int, seed: int) -> SyntheticField:
    options = {"neighbors": min(5.0, nodes / 4), "burn_in": 2000, "thin": 100, "chains": 10}
    return make_markov_field(nodes, rows, weights=(-size, size), seed=seed, **options)


def _fit(objective: str, network: SyntheticField, rows: int, l1: float) -> Row:
    order = np.random.default_rng(0).permutation(len(network.samples))
    train, test = network.samples[order[:rows]], network.samples[order[rows:]]
    states = dict(network.field.states_)
    field = MarkovField(objective=objective, l1=l1, kinds=dict.fromkeys(states, "nominal"), n_jobs=1)
    with warnings.catch_warnings(), threadpool_limits(limits=1):
        warnings.simplefilter("ignore")  # not all fits by cd and by belief propagation converge
        started = time.process_time()
        field.fit(train, states=states)
        seconds = time.process_time() - started
        estimate = field.log_likelihood(test).mean() if len(states) <= LARGEST_EXACT else np.nan
    found = read_field(field)
    return {
        "seconds": seconds,
        "features": len(field.features_),
        "cll": pseudo_log_likelihood(test, found.bias, found.weights),
        "log_likelihood": float(estimate),
        "converged": field.converged_,
    }


def command(
    nodes: Annotated[list[int] | None, typer.Option("--nodes", min=4, help="Nodes; by default 10, 25 and 50.")] = None,
    networks: Annotated[int, typer.Option("--networks", min=1, help="Networks of each size.")] = 5,
    l1: Annotated[float, typer.Option("--l1", min=0, help="Penalty.")] = 2.0,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Learn small networks by pl, cd, the exact likelihood and the Bethe likelihood, with CFI."""
    found = run_objectives(nodes or (10, 25, 50), networks=networks, l1=l1, seed=seed, report=print_message)
    shown = ("nodes", "weights", "objective", "seconds", "features", "cll", "log_likelihood", "unconverged")
    print_rows(found, shown, as_json)
