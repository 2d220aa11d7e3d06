"""Contrastive feature induction (Algorithm 1), which ignores small errors and signals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sparsefield import config
from sparsefield.data import CandidateBlock, Layout
from sparsefield.induction.candidates import Proposals
from sparsefield.induction.dense_scores import ScoreFunction, score_pairs_dense
from sparsefield.induction.rule import ThresholdRule
from sparsefield.induction.thresholding import Thresholds, count_products, gather_large_values, keep_large_values
from sparsefield.objectives.dense_evaluator import GradientFactors

NEGLIGIBLE = 1e-6
"""Thresholds that nearly all errors and signals exceed, so that there is no need to count those that do."""


@dataclass(frozen=True)
class CFI(ThresholdRule):
    """Score a pair by the sum of signal x error over entries above thresholds (contrastive feature induction).

    The score is h_AB = sum_i signal_A error_B + signal_B error_A.
    The rank-one term E[B] g_A + E[A] g_B of the decomposition (Eq. 13) is kept, so that with thresholds 0 the estimate
    is the exact gradient whether or not biases have converged.

    Parameters
    ----------
    threshold : float, or a pair of floats
        t_err and t_sig of Algorithm 1; one number stands for both.
    batch_size : int or "auto"
        Features that are added at a time; "auto" grows with the working set.
    steps_per_batch : int, "auto" or "converge"
        Optimizer steps after each batch; "auto" brings the features near their optimum where a certificate follows and
        takes one step otherwise, "converge" goes on to the optimum.

    Examples
    --------
    >>> CFI(threshold=0.1).thresholds
    (0.1, 0.1)
    """

    name = "cfi"
    keeps_rank_one_term: ClassVar[bool] = True
    """Whether the rank-one term is kept."""
    product: ClassVar[Literal["auto", "dense", "sparse"]] = "auto"
    """The matrix product; "auto" takes the one with fewer operations. Both agree up to rounding errors."""

    def score(
        self,
        factors: GradientFactors,
        layout: Layout,
        min_gradient: float,
        known: np.ndarray,
        limit: int | None = None,
    ) -> Proposals:
        errors, signals = self.thresholds
        thresholds = Thresholds(errors, signals, factors.means)
        function = ScoreFunction(_rank_one_gradient(factors)) if self.keeps_rank_one_term else ScoreFunction()
        sparse = self.product == "sparse"
        if self.product == "auto" and max(errors, signals) > NEGLIGIBLE:
            products, dense_products = factors.parts.sum(count_products, thresholds)
            sparse = products * config.SPARSE_ADVANTAGE < dense_products
        if sparse:
            parts, _ = factors.parts.map_update(gather_large_values, thresholds)
            return score_pairs_dense(parts, layout, min_gradient, known, function=function, limit=limit, sparse=True)
        # An estimate without the small terms loses nothing by single precision, and is twice as fast.
        dtype = config.FLOAT if errors == signals == 0.0 else np.float32
        parts, _ = factors.parts.map_update(keep_large_values, thresholds, dtype)
        return score_pairs_dense(parts, layout, min_gradient, known, function=function, limit=limit)


class PaperCFI(CFI):
    """Score pairs as Algorithm 1 of the paper does, without the rank-one term, with the options of `CFI`.

    That term vanishes where biases have converged and have no penalty. A penalized bias has a gradient
    of up to l1 at its optimum, which then also contributes to the gradients of pairs with frequent states.
    """

    name = "cfi-paper"
    supports_sparse = False
    keeps_rank_one_term = False


def _rank_one_gradient(factors: GradientFactors) -> Callable[..., np.ndarray]:
    """Return a `ScoreFunction.gradient` with the rank-one term: bias gradient x mean, of A and B and of B and A."""
    rank_one_factors = [_rank_one_factors(block, factors) for block in factors.layout.candidate_blocks]

    def gradient(block: CandidateBlock, sums: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        (bias_left, mean_left), (bias_right, mean_right) = rank_one_factors[block.template]
        total = sums.sum(axis=0) + bias_left[a] * mean_right[b]
        return total + mean_left[a] * bias_right[b]

    return gradient


def _rank_one_factors(block: CandidateBlock, factors: GradientFactors) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the bias gradients and the means of the left columns, and of the right ones; 0 where there are none."""
    found = []
    for side, other in ((block.left, block.right), (block.right, block.left)):
        bias_gradient, mean = np.zeros(len(side.columns)), np.zeros(len(side.columns))
        bias_gradient[: side.n_target_columns] = factors.bias_gradient[side.table][
            side.columns[: side.n_target_columns]
        ]
        if len(side.neighbor_columns):
            mean = factors.means[other.table][side.neighbor_columns]
        found.append((bias_gradient, mean))
    return found
