"""This module continues a fit at other values of l1, and without L1."""

from __future__ import annotations

import numpy as np

from sparsefield.model import Field
from sparsefield.solver.fit_state import FitResult
from sparsefield.solver.trainer import Trainer

__all__ = ["PathTrainer"]

MAX_SPARSE_PAIRS = 1_000_000
"""Pairs of a sparse table that are added at one value of l1."""

MIN_L1 = 1e-6
"""Smaller gradients are rounding errors."""


class PathTrainer:
    """Continues a trainer after its `Trainer.run`, from the weights that it has reached.

    Parameters
    ----------
    trainer : the trainer, which this one changes
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def step_to(self, l1: float) -> FitResult:
        """Fit approximately at a smaller l1: score all candidates once, add, optimize.

        Between two values of l1 gradients rarely change faster than l1 itself (the strong rule of Tibshirani et al.),
        so candidates within that distance of the new l1 are added. The next step adds what was missed.
        """
        trainer = self.trainer
        if trainer.options.max_order > 2:
            return self.refit_at(l1)  # many conjunctions look useful until a few of them are added
        last = trainer.options.l1
        near = max(2.0 * l1 - last, 0.5 * l1) if last < 2.0 * l1 else l1
        trainer.set_l1(l1)
        if trainer.closed:
            return trainer.optimize_with(np.empty((0, 2), dtype=np.int64), near)
        found = trainer.violators(None if trainer.evaluator.keeps_errors else MAX_SPARSE_PAIRS, l1=near)
        return trainer.optimize_with(found.features, near)

    def refit_at(self, l1: float) -> FitResult:
        """Fit at another l1, with a certificate."""
        self.trainer.set_l1(l1)
        return self.trainer.certify()

    def l1_max(self) -> float:
        """Return the smallest l1 that leaves every feature at 0, after a fit that did; 0 for independent columns."""
        trainer = self.trainer
        if trainer.closed:
            gradient, n = trainer.problem.loss_gradient, trainer.layout.n_states
            strength = trainer.problem.penalty.with_l1(1.0).l1_of(len(gradient))
            return float(np.abs(gradient[n:] / strength[n:]).max(initial=0.0))
        l1 = max(trainer.evaluator.total_weights, default=0.0)
        while l1 > MIN_L1:
            found = trainer.violators(1, l1=l1)
            if len(found):
                return float(found.rank.max())
            l1 *= 0.5
        return 0.0

    def refit_without_l1(self, kept: np.ndarray, l2: float) -> Field:
        """Fit some features of the working set, a mask, by L2 alone, and nothing else."""
        self.trainer.drop_l1(kept, l2)
        return self.refit_at(0.0).field

    def branch(self) -> PathTrainer:
        """Return a copy whose steps leave this one unchanged."""
        return PathTrainer(self.trainer.branch())
