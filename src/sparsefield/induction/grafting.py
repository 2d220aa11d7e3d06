"""Grafting, which computes the exact gradient of every candidate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.data import Layout
from sparsefield.induction.candidates import Proposals
from sparsefield.induction.dense_scores import score_pairs_dense
from sparsefield.induction.rule import InductionRule
from sparsefield.objectives import GradientFactors


@dataclass(frozen=True)
class Grafting(InductionRule):
    """Score every candidate by its exact gradient.

    That is g_AB = sum_i error_A expectation_B + error_B expectation_A, which the certificate uses, too.

    Parameters
    ----------
    batch_size, steps_per_batch : see `CFI`
    """

    batch_size: int | str = "auto"
    steps_per_batch: int | str = "auto"
    name = "grafting"

    def score(
        self,
        factors: GradientFactors,
        layout: Layout,
        min_gradient: float,
        known: np.ndarray,
        limit: int | None = None,
    ) -> Proposals:
        return score_pairs_dense(factors.parts, layout, min_gradient, known, limit=limit)
