"""The "ideal parent" rule of Elidan et al., which ranks pairs by a cosine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.data import CandidateBlock, Layout
from sparsefield.induction.candidates import Proposals
from sparsefield.induction.dense_scores import ScoreFunction, score_pairs_dense
from sparsefield.induction.rule import ThresholdRule
from sparsefield.induction.thresholding import Thresholds, keep_large_values
from sparsefield.objectives import GradientFactors
from sparsefield.objectives.block_evaluation import EvaluatedBlock


@dataclass(frozen=True)
class IdealParent(ThresholdRule):
    """Rank pairs by the larger of ``|cos(error_A, signal_B)|`` and ``|cos(signal_A, error_B)|``.

    A pair may enter, as with the other rules, when its (estimated) gradient exceeds l1. Options are those of `CFI`.
    """

    name = "ideal-parent"
    supports_sparse = False

    def score(
        self,
        factors: GradientFactors,
        layout: Layout,
        min_gradient: float,
        known: np.ndarray,
        limit: int | None = None,
    ) -> Proposals:
        thresholds = Thresholds(*self.thresholds, factors.means)
        parts, (errors, signals) = factors.parts.map_update(_keep_large_and_sum_squares, thresholds, layout)
        error_norm, signal_norm = (np.where(sums > 0, np.sqrt(sums), 1.0) for sums in (errors, signals))

        def score(block: CandidateBlock, sums: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
            left_errors, right_errors = np.abs(sums)
            left, right = layout.column_starts[block.left.table], layout.column_starts[block.right.table]
            cosines = [np.zeros(left_errors.shape)]
            if block.left.n_target_columns:
                own = error_norm[left + block.left.columns[np.minimum(a, block.left.n_target_columns - 1)]]
                cosines.append(left_errors / (own * signal_norm[left + block.right.neighbor_columns[b]]))
            if block.right.n_target_columns:
                own = error_norm[right + block.right.columns[np.minimum(b, block.right.n_target_columns - 1)]]
                cosines.append(right_errors / (own * signal_norm[right + block.left.neighbor_columns[a]]))
            return np.maximum.reduce(cosines)

        return score_pairs_dense(
            parts, layout, min_gradient, known, function=ScoreFunction(score=score, layers=2), limit=limit
        )


def _keep_large_and_sum_squares(
    part: EvaluatedBlock, thresholds: Thresholds, layout: Layout
) -> tuple[EvaluatedBlock, tuple[np.ndarray, np.ndarray]]:
    """Drop small errors and signals, and sum the squares of the others, (columns of all tables,) each."""
    part, _ = keep_large_values(part, thresholds)
    found, start = [], layout.column_starts[part.table]
    for values in (part.errors, part.expectations):
        squares = np.zeros(layout.n_columns)
        squares[start : start + len(values)] = np.einsum("ci,ci->c", values, values)
        found.append(squares)
    return part, (found[0], found[1])
