"""This module lists the runs that the figures and the claims need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from reproduction.runs import METHODS, NODEWISE, OBJECTIVES, Run, Settings
from reproduction.table1 import DATA

__all__ = ["QUICK", "Plan"]


@dataclass(frozen=True)
class Plan:
    """A plan has the sizes of a study; its runs are ordered by seed, so that an interrupted one has whole seeds.

    Attributes
    ----------
    nodes : sequence of int
        Sizes of networks, figure 3.
    size : int
        Of the networks over which thresholds and batches vary, figures 1 and 2.
    thresholds, batches : sequence
    seeds : int
        How many networks of each size; on real data, how many splits into folds.
    objectives : sequence of str
    real : sequence of str
        Real data sets that the claims speak of.
    as_printed : bool
        Whether fits are as printed (`reproduction.printed`), instead of to near convergence.
    log_odds : bool
        Whether biases of fits as printed start at the log-odds of the frequencies, instead of 0.
    least : sequence of (nodes, tolerance)
        Smallest tolerance of fits as printed to networks of so many nodes and more, where Full-L1 takes minutes.
    settings : Settings
    """

    nodes: tuple[int, ...] = (25, 50, 100, 200, 400)
    size: int = 200
    thresholds: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
    batches: tuple[int, ...] = (30, 50, 100)
    seeds: int = 5
    objectives: tuple[str, ...] = OBJECTIVES
    real: tuple[str, ...] = ("animals", "nations")
    as_printed: bool = False
    log_odds: bool = False
    least: tuple[tuple[int, float], ...] = ((400, 1e-3), (1_000, 1e-2))
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        for name in self.objectives:
            if name not in OBJECTIVES:
                raise ValueError(f"objective must be one of {', '.join(OBJECTIVES)}; got {name!r}.")
        for name in self.real:
            if name not in DATA:
                raise ValueError(f"data must be one of {', '.join(DATA)}; got {name!r}.")
        if min((self.size, *self.nodes)) < 2 or self.seeds < 1:
            raise ValueError("a network has at least 2 nodes, and a study at least 1 seed.")

    def run(self, method: str, objective: str, *, nodes: int = 0, **options: Any) -> Run:
        """Return a run, to convergence or as printed; ``nodes`` is the size of its network, by default ``size``."""
        if "data" not in options:
            options["nodes"] = nodes or self.size
        if self.as_printed:
            tolerance = self.tolerances_at(options.get("nodes", 0))[-1]
            options |= {"tolerance": tolerance, "log_odds": self.log_odds}
        return Run(method, objective, **options)

    def tolerances_at(self, nodes: int) -> tuple[float, ...]:
        """Return the tolerances of fits as printed to networks of a size, from large to small."""
        least = max((tolerance for size, tolerance in self.least if nodes >= size), default=0.0)
        known = sorted(self.settings.tolerances, reverse=True)
        return tuple(tolerance for tolerance in known if tolerance >= least) or (known[0],)

    def over_thresholds(self, objective: str, threshold: float, seed: int) -> Run:
        """Return the run of a point of figure 2."""
        return self.run("cfi-paper", objective, seed=seed, threshold=threshold)

    def over_sizes(self, method: str, objective: str, nodes: int, seed: int) -> Run:
        """Return the run of a point of figure 3."""
        return self.run(method, objective, nodes=nodes, seed=seed)

    def figure_2(self) -> Iterator[Run]:
        for seed, objective in product(range(self.seeds), self.objectives):
            yield self.run("grafting", objective, seed=seed)
            for threshold in self.thresholds:
                yield self.over_thresholds(objective, threshold, seed)

    def figure_3(self) -> Iterator[Run]:
        for seed, nodes, objective, method in product(range(self.seeds), self.nodes, self.objectives, METHODS):
            yield self.over_sizes(method, objective, nodes, seed)

    def structure(self) -> Iterator[Run]:
        """Return the fits to complete tables, and regressions of each node."""
        for seed, nodes, (method, objective) in product(range(self.seeds), self.nodes, self.structure_methods()):
            yield Run(method, objective, nodes=nodes, seed=seed, complete=True)

    def structure_methods(self) -> list[tuple[str, str]]:
        """Return (method, objective) of the fits to complete tables; nodewise regressions need nodes of two states."""
        ours = [(method, objective) for objective in self.objectives for method in METHODS]
        return ours + [(method, "") for method in NODEWISE if self.settings.states == 2]


QUICK = Plan(
    nodes=(15, 30, 60),
    size=30,
    thresholds=(0.0, 0.2, 0.4, 0.6, 0.8),
    batches=(30, 100),
    seeds=3,
    real=("animals",),
    settings=Settings(folds=3),
)
"""A couple of minutes."""
