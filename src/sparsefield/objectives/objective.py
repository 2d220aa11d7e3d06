"""Objectives, and the problems that they make of a dataset: loss, gradient, and errors and expectations of cells."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Arcs, Dataset, Layout
from sparsefield.inference.method import InferenceMethod
from sparsefield.objectives.em_options import EM
from sparsefield.options import OptionObject


@dataclass(frozen=True)
class Objective(OptionObject, ABC):
    """A loss over the rows of a dataset; its options are the fields of a dataclass."""

    name: ClassVar[str]

    @abstractmethod
    def make_problem(self, dataset: Dataset, engine: Engine, missing: EM | InferenceMethod | None = None) -> Problem:
        """Return the problem of this objective on a dataset.

        ``missing`` is the treatment of missing cells: `EM` replaces incomplete rows by completions; the beliefs of an
        inference method stand for missing cells.
        """


class PairQuery(NamedTuple):
    """A question for pairs whose gradient exceeds l1 times their penalty factor."""

    l1: float
    known: np.ndarray
    """Sorted keys of pairs that are left out."""
    limit: int | None = None
    """Number of pairs of the highest score that suffices."""
    edges: np.ndarray | None = None
    """Keys of the edges of known pairs, if edges are penalized as groups: the norm of an edge then counts, and all its
    other pairs are wanted."""


class ScoredFactors(Protocol):
    """The errors of the last evaluation, in a form of which an induction rule has a method of its own."""

    def propose(self, rule: Any, query: PairQuery, /) -> Any:
        """Return the answer of the method of a rule that scores these factors, `Proposals`."""
        ...


class Problem(Protocol):
    """An objective on a dataset, as the training loop uses it; ``graph`` is the result of `compile`."""

    keeps_errors: bool
    """Whether the errors of the last evaluation are kept, so that other gradients and scores cost little."""
    source: Any
    """The rows, a `sparsefield.objectives.training_rows.TrainingRows`."""
    layout: Layout

    @property
    def total_weights(self) -> Sequence[float]: ...
    def compile(self, arcs: Arcs) -> Any: ...
    def evaluate(self, graph: Any, theta: np.ndarray, /) -> tuple[float, np.ndarray]: ...
    def gradient(self, graph: Any, size: int, /) -> np.ndarray: ...
    def bias_hessian(self) -> np.ndarray: ...
    def arc_hessian(self, graph: Any, /) -> np.ndarray | None: ...
    def moments(self) -> tuple[np.ndarray, np.ndarray]: ...
    def moments_of(self, conjunctions: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...
    def hessian_cost(self, graph: Any, /) -> float: ...
    def regression_hessians(self, graph: Any, theta: np.ndarray, free: np.ndarray, /) -> list[Any]: ...
    def gradient_factors(self) -> ScoredFactors:
        """Return the errors of the last evaluation, by which candidates are scored."""
        ...

    def penalty_factors(self, features: np.ndarray, /) -> np.ndarray:
        """Return the factors of l1 for features, (features,)."""
        ...
