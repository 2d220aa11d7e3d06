"""Full-L1: every candidate from the start, and the penalty sorts them out."""

from __future__ import annotations

import numpy as np

from sparsefield.data import Layout
from sparsefield.induction.base import ClosedRule
from sparsefield.induction.candidates import all_pairs

__all__ = ["Full"]


class Full(ClosedRule):
    """All pairs at once."""

    name = "full"

    def start(self, layout: Layout) -> np.ndarray:
        return all_pairs(layout)
