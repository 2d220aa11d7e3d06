"""This module implements contrastive feature induction (Algorithm 1), which ignores small errors and signals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.data import CandidateBlock, Layout
from sparsefield.induction.candidates import Scored
from sparsefield.induction.dense_scores import ScoreFunction, score_pairs_dense
from sparsefield.induction.rule import ThresholdRule
from sparsefield.induction.sparse_scores import score_sparse_pairs
from sparsefield.induction.thresholding import Thresholds, count_meetings, gather_large_ones, keep_large_ones
from sparsefield.objectives import AnyContrast, SparseGradientFactors
from sparsefield.objectives.dense_evaluator import GradientFactors

__all__ = ["CFI", "PaperCFI"]


@dataclass(frozen=True)
class CFI(ThresholdRule):
    """Contrastive feature induction: h_AB = sum_i signal_A error_B + signal_B error_A over entries above thresholds.

    The rank-one term E[B] g_A + E[A] g_B of the decomposition (Eq. 13) is kept, so that with thresholds 0 the estimate
    is the exact gradient whether or not unary features have converged.

    Parameters
    ----------
    threshold : float, or a pair of floats
        t_err and t_sig of Algorithm 1; one number stands for both.
    batch_size : int or "auto"
        Features that are added at a time; "auto" grows with the working set.
    steps_per_batch : int, "auto" or "converge"
        Optimizer steps after each batch.

    Examples
    --------
    >>> CFI(threshold=0.1).thresholds
    (0.1, 0.1)
    """

    name = "cfi"
    has_margins: ClassVar[bool] = True
    """Whether the rank-one term is kept."""
    product: ClassVar[Literal["auto", "dense", "sparse"]] = "auto"
    """The matrix product; "auto" takes the one with less counted work. They agree to rounding."""

    def score(
        self,
        contrast: AnyContrast,
        layout: Layout,
        cut: float,
        known: np.ndarray,
        limit: int | None = None,
    ) -> Scored:
        errors, signals = self.thresholds
        if isinstance(contrast, SparseGradientFactors):
            # Signals are those of cells that are 1, and large; baseline errors and signals cost nothing to keep.
            return score_sparse_pairs(contrast, layout, errors, cut, known, limit)
        thresholds = Thresholds(errors, signals, contrast.means)
        measure = ScoreFunction(_gradient_with(contrast)) if self.has_margins else ScoreFunction()
        met, dense = contrast.parts.sum(count_meetings, thresholds)
        if self.product == "sparse" or (self.product == "auto" and met * config.SPARSE_ADVANTAGE < dense):
            parts, _ = contrast.parts.map_update(gather_large_ones, thresholds)
            return score_pairs_dense(parts, layout, cut, known, measure=measure, limit=limit, sparse=True)
        # An estimate that has dropped its small terms loses nothing by half the digits, and is twice as fast.
        dtype = config.FLOAT if errors == signals == 0.0 else np.float32
        parts, _ = contrast.parts.map_update(keep_large_ones, thresholds, dtype)
        return score_pairs_dense(parts, layout, cut, known, measure=measure, limit=limit)


class PaperCFI(CFI):
    """Algorithm 1 as printed in the paper, without the rank-one term, with the options of `CFI`.

    That term vanishes where unary features have converged and carry no penalty. Where they carry one, it stays: a
    penalized unary weight has a gradient of l1 and more at its optimum, and lends it to pairs with frequent states.
    """

    name = "cfi-paper"
    sparse = False
    has_margins = False


def _gradient_with(
    contrast: GradientFactors,
) -> Callable[[CandidateBlock, np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """Sums with the rank-one term: unary of A x mean of B + mean of A x unary of B."""
    margins = [_margins(meeting, contrast) for meeting in contrast.layout.candidate_blocks]

    def gradient(meeting: CandidateBlock, sums: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        edge = margins[meeting.template]
        total = sums.sum(axis=0) + edge.unary_left[a] * edge.mean_right[b]
        return total + edge.mean_left[a] * edge.unary_right[b]

    return gradient


class Margins(NamedTuple):
    """Over the left and right columns of a meeting."""

    unary_left: np.ndarray
    mean_right: np.ndarray
    mean_left: np.ndarray
    unary_right: np.ndarray


def _margins(meeting: CandidateBlock, contrast: GradientFactors) -> Margins:
    """The factors of the rank-one term; an end without targets adds nothing."""
    unary_left, unary_right = np.zeros(len(meeting.left.columns)), np.zeros(len(meeting.right.columns))
    unary_left[: meeting.left.n_states] = contrast.unary[meeting.left.table][
        meeting.left.columns[: meeting.left.n_states]
    ]
    unary_right[: meeting.right.n_states] = contrast.unary[meeting.right.table][
        meeting.right.columns[: meeting.right.n_states]
    ]
    mean_left, mean_right = np.zeros(len(meeting.left.columns)), np.zeros(len(meeting.right.columns))
    if len(meeting.left.neighbor_columns):
        mean_left = contrast.means[meeting.right.table][meeting.left.neighbor_columns]
    if len(meeting.right.neighbor_columns):
        mean_right = contrast.means[meeting.left.table][meeting.right.neighbor_columns]
    return Margins(unary_left, mean_right, mean_left, unary_right)
