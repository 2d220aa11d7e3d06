"""Signals and errors of a contrast (Definitions 1 and 2), less the small ones: what cfi and ideal-parent share."""

from __future__ import annotations

import numpy as np

from sparsefield.induction.products import Large
from sparsefield.objectives.evaluation import Contrast

__all__ = ["large_errors", "large_signals"]


def large_errors(contrast: Contrast, threshold: float) -> list[Large]:
    """Per table, errors beyond t_err. They carry their row's weight, so the threshold does too."""
    return [
        Large(errors, np.zeros(len(unary)), tuple(threshold * weight for weight in weights))
        for errors, unary, weights in zip(contrast.errors, contrast.unary, contrast.weights, strict=True)
    ]


def large_signals(contrast: Contrast, threshold: float) -> list[Large]:
    """Per table, deviations of the middles from their means, beyond t_sig."""
    return [
        Large(middles, means, tuple(np.full(len(weight), threshold) for weight in weights))
        for middles, means, weights in zip(contrast.middles, contrast.means, contrast.weights, strict=True)
    ]
