"""This module performs one run of the study: a method on one dataset, fold by fold."""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.nodewise import SOLVERS, fit_nodewise
from reproduction.printed import PrintedOptions
from reproduction.printed_folds import records_as_printed
from reproduction.recovery import compare_edges, nodewise_strengths, strengths_of
from reproduction.signals import share_looked_at
from reproduction.table1 import DATA, PAPER, SETTINGS, configure
from sparsefield.analysis.hold_out import Fold, evaluate
from sparsefield.app.datasets import SyntheticField, make_markov_field
from sparsefield.estimators import MarkovField
from sparsefield.induction import FixedGraph

__all__ = [
    "METHODS", "NODEWISE", "OBJECTIVES", "TOLERANCES", "Record", "Run", "Settings", "estimator_of", "load_real", "made",
    "perform",
]  # fmt: skip

Record = dict[str, float]

METHODS = {
    "full": "Full-L1", "grafting": "Grafting", "cfi-paper": "CFI", "cfi": "CFI with margins", "graph": "TrueGraph",
}  # fmt: skip
"""CFI is Algorithm 1 as printed; "with margins" keeps the rank-one term of the decomposition, as this library does by
default."""

CFI = ("cfi-paper", "cfi")
NODEWISE = {"nodewise-and": "nodewise, AND", "nodewise-or": "nodewise, OR"}
OBJECTIVES = ("pl", "cd")
TOLERANCES = PrintedOptions().tolerances
MAX_PRINTED_STEPS = 5_000
"""The paper has no limit; convergence after each batch takes thousands of steps."""
THRESHOLD, BATCH = PAPER["induction__threshold"], PAPER["induction__batch_size"]


@dataclass(frozen=True)
class Settings:
    """Settings are shared by all runs of a study; the defaults are those of the paper's section 4.

    Attributes
    ----------
    rows, neighbors, weights, states, burn_in, thin, chains
        Of `make_markov_field`.
    folds : int
        Number of parts of the cells; each fold holds out one.
    l1, l2 : float
        On synthetic data; Animal and Nation have the paper's own.
    penalize_biases : bool
        Eq. 5 penalizes every weight.
    folds_run : int
        How many of the folds are performed in fits as printed; 0 for all.
    tolerances : sequence of float
        At which fits as printed are scored.
    """

    rows: int = 200
    neighbors: float = 5.0
    weights: tuple[float, float] = (-5.0, 5.0)
    states: int = 2
    burn_in: int = 10_000
    thin: int = 1_000
    chains: int = 1
    folds: int = 10
    l1: float = 2.0
    l2: float = 1.0
    penalize_biases: bool = True
    folds_run: int = 0
    tolerances: tuple[float, ...] = TOLERANCES


@dataclass(frozen=True)
class Run:
    """A run is a method, its options and its data.

    Attributes
    ----------
    method : one of `METHODS`; on a complete table also one of `NODEWISE`
    objective : "pl" or "cd"; "" for `NODEWISE`
    data : "synthetic", "animals" or "nations"
    nodes : int
        Size of a synthetic network.
    seed : int
        Seed of the network, its rows and the split into folds.
    threshold, batch, stages
        Options of the fit. Those that a method does not use are 0, so that equal runs are equal.
    complete : bool
        Whether there is one fit to the whole table, without held-out cells, to compare structures.
    converge : bool
        Whether the optimizer goes on to an optimum after each batch, instead of one step.
    tolerance : float
        0 for a fit to near convergence. Otherwise the fit is as printed (see `reproduction.printed`), up to this
        tolerance, with a record for each fold and each tolerance of the settings that is not smaller.
    log_odds : bool
        Whether biases of a fit as printed start at the log-odds of the frequencies, instead of 0.
    """

    method: str
    objective: str
    data: str = "synthetic"
    nodes: int = 0
    seed: int = 0
    threshold: float = THRESHOLD
    batch: int = BATCH
    stages: int = 1
    complete: bool = False
    converge: bool = False
    tolerance: float = 0.0
    log_odds: bool = False

    def __post_init__(self) -> None:
        idle = {"threshold": self.method not in CFI, "batch": self.method not in (*CFI, "grafting")}
        for name, useless in idle.items():
            if useless:
                object.__setattr__(self, name, 0)
        if self.method in CFI:
            object.__setattr__(self, "threshold", float(self.threshold))  # 0 and 0.0 have one place in a store

    @property
    def words(self) -> str:
        """Return a description for progress messages."""
        name = (METHODS | NODEWISE)[self.method]
        place = f"N = {self.nodes}, seed {self.seed}" if self.data == "synthetic" else f"{self.data}, split {self.seed}"
        more = [f"threshold {self.threshold:g}"] if self.method in CFI and self.threshold != THRESHOLD else []
        more += [f"batch {self.batch}"] if self.batch not in (0, BATCH) else []
        more += ["two stages"] if self.stages == 2 else []
        more += ["complete table"] if self.complete else []
        more += ["convergence after each batch"] if self.converge else []
        more += [f"as printed to {self.tolerance:g}"] if self.tolerance else []
        more += ["from log-odds"] if self.log_odds else []
        return ", ".join([place, f"{name} {self.objective}".strip(), *more])


def perform(run: Run, settings: Settings) -> list[Record]:
    """Return a record per fold, or one for a complete table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cells of a fold may hide every example of a state, and cd has no certificate
        if run.tolerance:
            return _as_printed(run, settings)
        if run.data != "synthetic":
            return _on_real_data(run, settings)
        network = made(run.nodes, run.seed, settings)
        if run.method in NODEWISE:
            return [_nodewise(run, network, settings)]
        return [_whole(run, network, settings)] if run.complete else _on_folds(run, network, settings)


@lru_cache(maxsize=2)
def made(nodes: int, seed: int, settings: Settings) -> SyntheticField:
    """Return the network of a run, and its rows."""
    names = ("rows", "neighbors", "weights", "states", "burn_in", "thin", "chains")
    options = {name: getattr(settings, name) for name in names}
    return make_markov_field(nodes, **{**options, "neighbors": min(settings.neighbors, nodes - 1.0)}, seed=seed)


def estimator_of(run: Run, settings: Settings, network: SyntheticField | None = None) -> Any:
    """Return the estimator of a run."""
    changes: dict[str, Any] = {"solver__stages": run.stages, "n_jobs": 1}
    changes |= {"features__penalize_biases": settings.penalize_biases}
    changes |= {"induction__threshold": run.threshold} if run.method in CFI else {}
    changes |= {"induction__batch_size": run.batch} if run.batch else {}
    changes |= {"induction__steps_per_batch": "converge"} if run.converge else {}
    changes |= {"solver__max_iter": MAX_PRINTED_STEPS} if run.tolerance else {}
    if run.data != "synthetic":
        paper = replace(SETTINGS[0], changes={**changes, "induction": run.method})
        return paper.estimator(DATA[run.data], "CFI", run.objective)
    changes |= {"l1": settings.l1, "l2": settings.l2, "induction": run.method, "objective": run.objective}
    if run.method == "graph" and network is not None:
        changes["induction"] = FixedGraph(edges=network.edges)
    if network is not None:
        changes["kinds"] = dict.fromkeys(network.field.states_, "nominal")
    return configure(MarkovField(), {**PAPER, **changes})


@dataclass
class _Watching:
    """This class records facts about each fold's fit that the protocol does not need."""

    run: Run
    true_edges: np.ndarray | None = None
    notes: list[Record] = field(default_factory=list)

    def __call__(self, estimator: Any, incomplete: Any) -> None:
        history = estimator.field_.record.iterations
        note: Record = {"scoring_seconds": float(history[-1].scoring_seconds) if history else 0.0}
        if self.run.method in CFI:
            note["looked_at"] = share_looked_at(estimator, incomplete, self.run.threshold)
        elif self.run.method == "grafting":
            note["looked_at"] = 1.0
        if self.true_edges is not None:
            note |= compare_edges(strengths_of(estimator.field_), self.true_edges)
        self.notes.append(note)


def _on_folds(run: Run, network: SyntheticField, settings: Settings) -> list[Record]:
    watching = _Watching(run, network.edge_mask())
    estimator = estimator_of(run, settings, network)
    # Nodes of a made field have their states by declaration, whether or not a row shows them.
    states = network.field.states_
    found = evaluate(network.samples, estimator, settings.folds, seed=run.seed, states=states, on_fit=watching)
    return _records(found.folds, watching.notes)


def _on_real_data(run: Run, settings: Settings) -> list[Record]:
    watching = _Watching(run)
    table = load_real(run.data)
    found = evaluate(table, estimator_of(run, settings), settings.folds, seed=run.seed, on_fit=watching)
    return _records(found.folds, watching.notes)


def _as_printed(run: Run, settings: Settings) -> list[Record]:
    tolerances = tuple(tolerance for tolerance in settings.tolerances if tolerance >= run.tolerance)
    start: Any = "log-odds" if run.log_odds else "zero"
    how = PrintedOptions(tolerances, stages=run.stages, start=start, converge=run.converge)
    folds: dict[str, Any] = {"folds": settings.folds, "folds_run": settings.folds_run, "seed": run.seed}
    if run.data != "synthetic":
        return records_as_printed(load_real(run.data), lambda: estimator_of(run, settings), how, **folds)
    network = made(run.nodes, run.seed, settings)
    known: dict[str, Any] = {"states": network.field.states_, "true_edges": network.edge_mask()}
    return records_as_printed(network.samples, lambda: estimator_of(run, settings, network), how, **folds, **known)


@lru_cache(maxsize=2)
def load_real(name: str) -> Any:
    """Return Animal or Nation, in the paper's closed world."""
    return DATA[name].load()


def _records(folds: tuple[Fold, ...], notes: list[Record]) -> list[Record]:
    kept = ("cells", "ap", "cll", "error_rate", "seconds", "cpu_seconds", "induced", "active", "iterations")
    return [
        {**{name: value for name, value in asdict(fold).items() if name in kept}, **note}
        for fold, note in zip(folds, notes, strict=True)
    ]


def _whole(run: Run, network: SyntheticField, settings: Settings) -> Record:
    field = estimator_of(run, settings, network)
    states = network.field.states_
    field.set_params(solver__max_iter=1).fit(network.samples, states=states)  # compiles what is compiled
    field.set_params(solver__max_iter=estimator_of(run, settings, network).get_params()["solver__max_iter"])
    started = time.process_time()
    field.fit(network.samples, states=states)
    seconds = time.process_time() - started
    return {"cpu_seconds": seconds, **compare_edges(strengths_of(field.field_), network.edge_mask())}


def _nodewise(run: Run, network: SyntheticField, settings: Settings) -> Record:
    fit_nodewise(network.samples[:, :2], settings.l1, SOLVERS["liblinear"])  # imports what is imported
    # A pair has two weights here, one in the regression of either node: together they are penalized as one of ours.
    started = time.process_time()
    found = fit_nodewise(network.samples, 0.5 * settings.l1, SOLVERS["liblinear"])
    seconds = time.process_time() - started
    strengths = nodewise_strengths(found.weights, both=run.method == "nodewise-and")
    return {"cpu_seconds": seconds, **compare_edges(strengths, network.edge_mask())}
