"""Objectives, and the problems that they make of a dataset: loss, gradient, and errors and expectations of cells."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Arcs, Dataset, Layout
from sparsefield.inference.method import InferenceMethod
from sparsefield.kernels.regression_hessians import NewtonSystem
from sparsefield.objectives.training_rows import EM
from sparsefield.options import OptionObject


@dataclass(frozen=True)
class Objective(OptionObject, ABC):
    """A loss over the rows of a dataset; its options are the fields of a dataclass."""

    name: ClassVar[str]
    is_pseudo_likelihood: ClassVar[bool] = False
    """Whether the loss is convex, and that of one regression per state, of which EBIC is a criterion."""
    is_likelihood: ClassVar[bool] = False
    """Whether the loss is that of whole rows, from which missing cells are summed out."""
    supports_completions: ClassVar[bool] = True
    """Whether missing cells may be completed by `EM`."""
    runs_on_devices: ClassVar[bool] = False
    """Whether an engine may have a device of torch."""

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


class Problem(Protocol):
    """An objective on a dataset, as the training loop uses it; ``graph`` is the result of `compile`.

    What a subclass does not define is that of an objective without Hessians and conjunctions.
    """

    layout: Layout
    has_wald_statistics: bool = False
    """Whether there is a method `wald_statistics`, by which EBIC drops weights."""
    missing_cells: str = "refused"
    """"replaced" between steps, as `sparsefield.solver.missing` does; "summed out" of the loss; or "refused"."""
    source: Any
    """The rows, a `sparsefield.objectives.training_rows.TrainingRows`."""
    total_weights: Sequence[float]
    """The weight of the rows of each table."""
    device: Any = None
    """The device of torch on which the loss is evaluated, if any."""
    keeps_errors: bool = True
    """Whether the errors of the last evaluation are kept, so that other gradients and scores cost little."""

    @property
    def memory(self) -> int:
        """How many steps the optimizer remembers."""
        return 10

    def compile(self, arcs: Arcs) -> Any:
        """Return arcs in the form that the other methods take."""
        ...

    def evaluate(self, graph: Any, theta: np.ndarray, /) -> tuple[float, np.ndarray]:
        """Return loss and gradient without penalties; the methods that follow refer to this point."""
        ...

    def gradient(self, graph: Any, size: int, /) -> np.ndarray:
        """Return the gradient of other arcs, with ``size`` parameters."""
        ...

    def gradient_factors(self) -> Any:
        """Return the errors of the last evaluation, by which candidates are scored.

        Its method ``propose(rule, query)`` returns what the method of a rule for such errors does, `Proposals`.
        """
        ...

    def bias_hessian(self) -> np.ndarray:
        """Return the sum over rows of the variance of each target column, the diagonal of the Hessian for biases."""
        ...

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the weighted mean and variance of each column over the rows, (columns of all tables,) each."""
        ...

    def moments_of(self, conjunctions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the weighted mean and variance of products of columns over the rows, (conjunctions,) each."""
        return np.empty(len(conjunctions)), np.empty(len(conjunctions))

    def preconditioner(self, graph: Any, l2: np.ndarray, /) -> Callable[[np.ndarray], np.ndarray] | None:
        """Return a function that multiplies a gradient by an inverse Hessian; None for that of the Hessians below."""
        return None

    def arc_hessian(self, graph: Any, /) -> np.ndarray | None:
        """Return the diagonal of the Hessian for the weights of arcs, or None where it would take too long."""
        return None

    def hessian_cost(self, graph: Any, /) -> float:
        """Return how many evaluations take as long as `newton_system`; infinite where there is none."""
        return np.inf

    def newton_system(self, graph: Any, theta: np.ndarray, free: np.ndarray, /) -> NewtonSystem:
        """Return the Hessians of all variables' regressions; ``free`` says which biases have no penalty."""
        raise ValueError(f"{type(self).__name__} has no Newton system; its hessian_cost has to be infinite.")

    def penalty_factors(self, features: np.ndarray, /) -> np.ndarray:
        """Return the factors of l1 for features, (features,)."""
        return self.layout.feature_factors(features)
