"""Grafting: the exact gradient of every candidate."""

from __future__ import annotations

import numpy as np

from sparsefield.data import Layout
from sparsefield.induction.candidates import Scored
from sparsefield.induction.dense_scores import score_pairs_dense
from sparsefield.induction.rule import InductionRule
from sparsefield.induction.sparse_scores import score_sparse_pairs
from sparsefield.objectives import AnyContrast, SparseGradientFactors

__all__ = ["Grafting"]


class Grafting(InductionRule):
    """Exhaustive evaluation: g_AB = sum_i error_A middle_B + error_B middle_A. The certificate uses it too."""

    name = "grafting"

    def score(
        self,
        contrast: AnyContrast,
        layout: Layout,
        cut: float,
        known: np.ndarray,
        limit: int | None = None,
    ) -> Scored:
        if isinstance(contrast, SparseGradientFactors):
            return score_sparse_pairs(contrast, layout, 0.0, cut, known, limit)

        return score_pairs_dense(contrast.parts, layout, cut, known, limit=limit)
