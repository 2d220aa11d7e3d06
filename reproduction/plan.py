"""This module lists the runs that the figures and the claims need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from reproduction.runs import METHODS, NODEWISE, OBJECTIVES, Run, Settings

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
    settings : Settings
    """

    nodes: tuple[int, ...] = (25, 50, 100, 200, 400)
    size: int = 200
    thresholds: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
    batches: tuple[int, ...] = (30, 50, 100)
    seeds: int = 5
    objectives: tuple[str, ...] = OBJECTIVES
    real: tuple[str, ...] = ("animals", "nations")
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        for name in self.objectives:
            if name not in OBJECTIVES:
                raise ValueError(f"objective must be one of {', '.join(OBJECTIVES)}; got {name!r}.")
        if min((self.size, *self.nodes)) < 2 or self.seeds < 1:
            raise ValueError("a network has at least 2 nodes, and a study at least 1 seed.")

    def over_thresholds(self, objective: str, threshold: float, seed: int) -> Run:
        """Return the run of a point of figure 2."""
        return Run("cfi-paper", objective, nodes=self.size, seed=seed, threshold=threshold)

    def over_sizes(self, method: str, objective: str, nodes: int, seed: int) -> Run:
        """Return the run of a point of figure 3."""
        return Run(method, objective, nodes=nodes, seed=seed)

    def figure_2(self) -> Iterator[Run]:
        for seed, objective in product(range(self.seeds), self.objectives):
            yield Run("grafting", objective, nodes=self.size, seed=seed)
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

    def claims(self) -> Iterator[Run]:
        """Return the runs of the claims about networks of one size, and about real data."""
        yield from self.figure_2()
        for seed, objective in product(range(self.seeds), self.objectives):
            for method in ("full", "grafting", "cfi-paper", "graph"):
                yield Run(method, objective, nodes=self.size, seed=seed)
            yield Run("cfi-paper", objective, nodes=self.size, seed=seed, stages=2)
            for method, batch in product(("grafting", "cfi-paper"), self.batches):
                yield Run(method, objective, nodes=self.size, seed=seed, batch=batch)
        for seed, data, objective in product(range(self.seeds), self.real, self.objectives):
            for method in ("full", "grafting", "cfi-paper"):
                yield Run(method, objective, data=data, seed=seed)


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
