"""Signals and errors of a contrast (Definitions 1 and 2), less the small ones: what cfi and ideal-parent share."""

from __future__ import annotations

import numpy as np

from sparsefield.induction.sparse import Large
from sparsefield.objectives.evaluation import Contrast

__all__ = ["large_errors", "large_signals"]


def large_errors(contrast: Contrast, threshold: float) -> Large:
    """Errors beyond t_err. They carry their row's weight, so the threshold does too."""
    limits = tuple(threshold * weight for weight in contrast.weights)
    return Large(contrast.errors, np.zeros(len(contrast.unary)), limits)


def large_signals(contrast: Contrast, threshold: float) -> Large:
    """Deviations of the middles from their means, beyond t_sig."""
    limits = tuple(np.full(len(weight), threshold) for weight in contrast.weights)
    return Large(contrast.middles, contrast.means, limits)
