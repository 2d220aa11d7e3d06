"""A trainer that goes on after its fit: to other values of l1, and to a fit without L1."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np

from sparsefield.model import Field
from sparsefield.solver.fit_state import FitResult, FitState
from sparsefield.solver.trainer import Trainer

__all__ = ["PathTrainer"]

MANY_PAIRS = 1_000_000
"""Of a sparse table: pairs that join at one look at most."""

SMALLEST_L1 = 1e-6
"""Gradients below it are nothing but rounding."""


class PathTrainer(Trainer):
    """Its methods are for after `run`."""

    def step_to(self, l1: float) -> FitResult:
        """Roughly the field of a smaller l1, from where the last one ended, by one look at all candidates.

        Between two values of l1 gradients hardly change faster than l1 itself does (the strong rule of Tibshirani et
        al.), so candidates join that are within that distance of the new l1. What is missed is let in by the next look.
        """
        if self.options.max_order > 2:
            return self.refit_at(l1)  # many conjunctions look useful until a few are in
        near = max(2.0 * l1 - self.options.l1, 0.5 * l1) if self.options.l1 < 2.0 * l1 else l1
        self._turn_to(l1)
        if not self.closed:
            self.options = replace(self.options, l1=near)
            found = self._violators(None if self.evaluator.keeps_errors else MANY_PAIRS)
            self.options = replace(self.options, l1=l1)
            self._drop_inactive()
            if len(found):
                self._add_features(found.features, least=near)
        self.slack = 0.5 * self._allowed_violation
        self._go_optimize("path", then="end")
        return self._play()

    def refit_at(self, l1: float) -> FitResult:
        """The field of another l1, from where the last one ended, with its certificate."""
        self._turn_to(l1)
        self.plot = FitState(stage="certify")
        return self._play()

    def _turn_to(self, l1: float) -> None:
        self.options = replace(self.options, l1=l1)
        self.penalty = self.penalty.with_l1(l1)
        self.calm, self.tol, self.steps = 0, self.options.tol, []
        self._evaluate_at(self.point.theta)
        self._recenter()

    def l1_max(self) -> float:
        """After a `run` that left every feature at 0: the smallest l1 that does; 0 where nothing depends on another."""
        if self.closed:
            n = self.layout.n_states
            return float(np.abs(self.plain[n:] / self.penalty.with_l1(1.0).l1_of(len(self.plain))[n:]).max(initial=0.0))
        l1, asked = max(self.evaluator.total_weights, default=0.0), self.options
        try:
            while l1 > SMALLEST_L1:
                self.options = replace(asked, l1=l1)
                found = self._violators(1)
                if len(found):
                    return float(found.rank.max())
                l1 *= 0.5
            return 0.0
        finally:
            self.options = asked

    def branch(self) -> PathTrainer:
        """A trainer that stands where this one does; what is done with it leaves this one as it was.

        They share the evaluator, whose errors are those of whoever evaluated last; a path evaluates before it goes on.
        """
        twin = copy(self)
        twin.optimizer, twin.plot, twin.checkpoint = self.optimizer.branch(), replace(self.plot), None
        return twin

    def refit(self, kept: np.ndarray, l2: float) -> Field:
        """Some of the features with a weight, estimated anew without L1, and nothing else."""
        allowed = self._allowed_violation
        self.closed, self.checkpoint = True, None  # which has the state of the fit with L1
        self._keep_features(kept)
        self.options = replace(self.options, l1=0.0, l2=l2, kkt_tol=allowed, certify=True)
        self.penalty = replace(self.penalty, l1=0.0, l2=l2)
        return self.refit_at(0.0).field
