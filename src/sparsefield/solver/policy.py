"""Policy of the solver: the options of a fit, and constants that decide how much work is done when.

The optimum of complete rows does not depend on the constants, but for the factor of latent states.
`python -m benchmarks policy` leaves each of them out in turn; behind a constant stands how much longer fits then take,
as the geometric mean over its 19 cases and in the worst of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sparsefield import config

FEW_CANDIDATES = 0.02
"""Share of the working set below which candidates are so few that conjunctions join them, and that induction of
conjunctions ends. Pairs alone: 0.99, at worst 1.2 (20,000 sparse columns)."""

MAX_IDLE_STEPS = 3
"""The paper's rule: an optimization ends after this many steps in a row with little change. With a certificate: 1.0."""

INNER_TOLERANCE = 0.2
"""The working set need not be more exact than this share of the violation among the other candidates: 1.6, at worst
2.4 (Ising)."""

MAX_IDLE_ROUNDS, MIN_DECREASE = 4, 1e-7
"""Rounds of the certificate without progress, which `cd` may not make, since its gradient is not that of its loss. A
round makes progress by a smaller violation or, while violators remain, by an objective that is lower by this share.
Limits for fits that would not end, which no benchmark has chosen."""

MAX_INACTIVE = 0.1
"""Inactive features are dropped when they are more than this share of the working set: 1.06, at worst 1.9 (Nation)."""

MODEL_TOLERANCE = 0.03
"""A Newton model is minimized up to this share of the violation at its start: 0.98, but 3 for Full-L1 with 45,000
features (`python -m benchmarks paper --short`)."""

MIN_CONTRACTION = 0.1
"""The first step of a Newton model typically reduces the violation of optimality to this share: 1.01, at worst 1.4
(survey with missing cells)."""

LATENT_PENALTY_FACTOR = 0.1
"""Factor of l1 for weights of a latent state, each of which replaces many weights between columns. Of 0, 0.03, 0.1, 0.3
and 1 the small ones score about equally, and 0.1 drops states that the data do not support (`benchmarks latent`)."""

EM_ROUNDS, AVERAGED, ROUGH_ROUNDS, STEPS_PER_ROUND = 6, 4, 2, 2
"""Rounds of Monte Carlo EM, and the last of them, whose weights are averaged; rounds while candidates that would change
completions are left: 8 of these take 1.2 times as long on tables with missing cells; and steps of a round, which need
not end at an optimum."""


@dataclass(frozen=True)
class TrainingOptions:
    """The options of a fit; `MarkovField` explains each."""

    l1: float = 2.0
    l2: float = 1.0
    penalty: str = "l1"
    """"l1", or "group" for the norms of edges."""
    penalize_biases: bool = False
    stages: Literal[1, 2] = 1
    certify: bool = True
    max_iter: int = 1000
    tol: float = 1e-6
    kkt_tol: float = config.KKT_TOLERANCE
    max_order: int = 2
    expand: Literal["active", "all"] = "active"
    order_penalty: float = 2.0
    rough: bool = False
    """Whether the field is one of many on a path: missing cells need not have converged."""
    centered: bool = True
    """Centered coordinates; False serves to measure their effect."""
    min_batch: int = 0
    """Features of an automatic batch at least."""

    @property
    def allowed_violation(self) -> float:
        """Violation of the optimality conditions with which a fit counts as converged."""
        return self.kkt_tol * (self.l1 if self.l1 > 0 else 1.0)

    @property
    def inner_tolerance(self) -> float:
        """Violation with which an optimization is at its end; in centered coordinates violations look smaller."""
        return (0.5 if self.centered else 1.0) * self.allowed_violation
