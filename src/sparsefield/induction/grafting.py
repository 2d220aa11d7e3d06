"""Grafting: the exact gradient of every candidate."""

from __future__ import annotations

import numpy as np

from sparsefield.data import Layout
from sparsefield.induction.candidates import Scored
from sparsefield.induction.dense_scores import score_tiles
from sparsefield.induction.rule import InductionRule
from sparsefield.induction.sparse_scores import score_resting
from sparsefield.objectives import AnyContrast, SparseContrast

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
        if isinstance(contrast, SparseContrast):
            return score_resting(contrast, layout, 0.0, cut, known, limit)

        return score_tiles(contrast.parts, layout, cut, known, limit=limit)
