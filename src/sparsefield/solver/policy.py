"""Policy of the solver: constants that decide how much work is done when.

The optimum of complete rows does not depend on them, but for the factor of latent states.
"""

MIN_BATCH = 50
"""Features in a batch, at least: the batch size J of the paper."""

MIN_USEFUL, LARGE_GROWTH = 0.9, 3.0
"""Where at least this share of the features that were added last have a weight, automatic batches are this many times
as large: on columns that depend on few others, nearly all candidates are needed, and each round costs a scoring."""

FEW_CANDIDATES = 0.02
"""Share of the working set below which candidates are so few that conjunctions join them, and that induction of
conjunctions ends."""

MAX_IDLE_STEPS = 3
"""The paper's rule: an optimization ends after this many steps in a row with little change."""

INNER_TOLERANCE = 0.2
"""The working set need not be more exact than this share of the violation among the other candidates."""

MANY_NEW, ROUGH_TOLERANCE, SMALL_CHANGES = 0.5, 5.0, 0.01
"""Where scoring all candidates takes as long as several steps, the working set should be at its optimum when the
certificate begins, and `SMALL_CHANGES` times the tolerance counts as little change. But where more than the share
`MANY_NEW` of the working set is new, others will follow: `ROUGH_TOLERANCE` times the allowed violation suffices."""

MAX_IDLE_ROUNDS, MIN_DECREASE = 4, 1e-7
"""Rounds of the certificate without progress, which `cd` may not make, since its gradient is not that of its loss. A
round makes progress by a smaller violation or, while violators remain, by an objective that is lower by this share."""

SINGLE_PRECISION_ERROR = 1e-6
"""Rounding errors of gradients in single precision, at most, as a share of the weight of all rows."""

MAX_INACTIVE = 0.1
"""Inactive features are dropped when they are more than this share of the working set."""

MIN_CONTRACTION, MODEL_TOLERANCE = 0.1, 0.03
"""The first step of a Newton model typically reduces the violation of optimality to the first share. The model is
minimized up to the second share of the violation at its start."""

LATENT_PENALTY_FACTOR = 0.1
"""Factor of l1 for weights of a latent state, each of which replaces many weights between columns. Of 0, 0.03, 0.1, 0.3
and 1 the small ones score about equally, and 0.1 drops states that the data do not support."""

EM_ROUNDS, ROUGH_ROUNDS = 8, 2
"""Rounds of Monte Carlo EM over which weights are averaged; and those while candidates that would change completions
are left, or on a path."""
