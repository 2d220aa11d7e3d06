"""This module implements the "ideal parent" rule of Elidan et al., which ranks pairs by a cosine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.data import CandidateBlock, Layout
from sparsefield.induction.candidates import Scored
from sparsefield.induction.dense_scores import ScoreFunction, score_pairs_dense
from sparsefield.induction.rule import ThresholdRule
from sparsefield.induction.thresholding import Thresholds, keep_large_ones
from sparsefield.objectives import AnyContrast, SparseGradientFactors
from sparsefield.objectives.block_evaluation import EvaluatedBlock

__all__ = ["IdealParent"]


@dataclass(frozen=True)
class IdealParent(ThresholdRule):
    """A rule that ranks a pair by the larger of ``|cos(error_A, signal_B)|`` and ``|cos(signal_A, error_B)|``.

    A pair may enter, as with the other rules, when its (estimated) gradient exceeds l1. Options are those of `CFI`.
    """

    name = "ideal-parent"
    sparse = False

    def score(
        self,
        contrast: AnyContrast,
        layout: Layout,
        cut: float,
        known: np.ndarray,
        limit: int | None = None,
    ) -> Scored:
        assert not isinstance(contrast, SparseGradientFactors)  # `sparse` says so
        thresholds = Thresholds(*self.thresholds, contrast.means)
        parts, (errors, signals) = contrast.parts.map_update(_keep_and_measure, thresholds, layout)
        error_size, signal_size = _lengths(errors), _lengths(signals)

        def rank(meeting: CandidateBlock, sums: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
            forth, back = np.abs(sums)
            left, right = layout.column_starts[meeting.left.table], layout.column_starts[meeting.right.table]
            cosines = [np.zeros(forth.shape)]
            if meeting.left.n_states:
                own = error_size[left + meeting.left.columns[np.minimum(a, meeting.left.n_states - 1)]]
                cosines.append(forth / (own * signal_size[left + meeting.right.neighbor_columns[b]]))
            if meeting.right.n_states:
                own = error_size[right + meeting.right.columns[np.minimum(b, meeting.right.n_states - 1)]]
                cosines.append(back / (own * signal_size[right + meeting.left.neighbor_columns[a]]))
            return np.maximum.reduce(cosines)

        return score_pairs_dense(parts, layout, cut, known, measure=ScoreFunction(rank=rank, layers=2), limit=limit)


def _keep_and_measure(
    part: EvaluatedBlock, thresholds: Thresholds, layout: Layout
) -> tuple[EvaluatedBlock, tuple[np.ndarray, np.ndarray]]:
    """The part with large errors and signals; (columns of all tables,) each: sums of their squares."""
    part, _ = keep_large_ones(part, thresholds)
    found, start = [], layout.column_starts[part.table]
    for values in (part.errors, part.expectations):
        squares = np.zeros(layout.n_columns)
        squares[start : start + len(values)] = np.einsum("ci,ci->c", values, values)
        found.append(squares)
    return part, (found[0], found[1])


def _lengths(squares: np.ndarray) -> np.ndarray:
    """(columns,): of each column's vector over all rows; 1 where it is 0 or the column has none."""
    return np.where(squares > 0, np.sqrt(squares), 1.0)
