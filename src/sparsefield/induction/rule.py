"""This module defines induction rules: an option object that decides which features enter the working set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from sparsefield.data import Layout
from sparsefield.induction.candidates import Proposals, concatenate_proposals
from sparsefield.objectives import AnyGradientFactors
from sparsefield.option_objects import OptionObject
from sparsefield.parameters import THRESHOLD


class InductionRule(OptionObject, ABC):
    """A rule starts with some pairs and proposes more while the fit proceeds."""

    name: ClassVar[str]
    fixed_candidates: ClassVar[bool] = False
    """True when the starting pairs are all candidates; the certificate then covers only those."""
    supports_sparse: ClassVar[bool] = True
    """Whether the rule can score the candidates of a sparse table."""
    batch_size: int | str = "auto"
    """Features that are added at a time."""
    steps_per_batch: int | str = "auto"
    """Optimizer steps after each batch."""

    @property
    def thresholds(self) -> tuple[float, float]:
        """Errors and signals below these two values are ignored."""
        return 0.0, 0.0

    def start(self, layout: Layout) -> np.ndarray:
        """Return the pairs, (pairs, 2), that are in the working set from the beginning."""
        return np.empty((0, 2), dtype=np.int64)

    @abstractmethod
    def score(
        self,
        factors: AnyGradientFactors,
        layout: Layout,
        min_gradient: float,
        known: np.ndarray,
        limit: int | None = None,
    ) -> Proposals:
        """Return pairs whose gradient exceeds ``min_gradient`` in size and whose key is not in ``known`` (sorted).

        With a ``limit``, only that many of the highest score are returned.
        """


@dataclass(frozen=True)
class ThresholdRule(InductionRule):
    """A rule that ignores small errors and small signals.

    Parameters
    ----------
    threshold : float, or a pair of floats
        t_err and t_sig of Algorithm 1; one number stands for both.
    batch_size : int or "auto"
        Features that are added at a time; "auto" grows with the working set.
    steps_per_batch : int, "auto" or "converge"
        Optimizer steps after each batch; "auto" brings the features near their optimum where a certificate follows and
        takes one step otherwise, "converge" goes on to the optimum.
    """

    threshold: float | tuple[float, float] = THRESHOLD
    batch_size: int | str = "auto"
    steps_per_batch: int | str = "auto"

    @property
    def thresholds(self) -> tuple[float, float]:
        """(t_err, t_sig)."""
        if isinstance(self.threshold, Real):
            return float(self.threshold), float(self.threshold)
        error, signal = self.threshold  # pyright: ignore[reportGeneralTypeIssues]
        return error, signal


class FixedCandidatesRule(InductionRule):
    """A rule that proposes nothing after its starting pairs."""

    fixed_candidates = True

    def score(
        self,
        factors: AnyGradientFactors,
        layout: Layout,
        min_gradient: float,
        known: np.ndarray,
        limit: int | None = None,
    ) -> Proposals:
        return concatenate_proposals([])
