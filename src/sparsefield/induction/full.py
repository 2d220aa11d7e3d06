"""Full-L1: every candidate from the start, and the penalty sorts them out."""

from __future__ import annotations

import numpy as np

from sparsefield import config
from sparsefield.data import Layout
from sparsefield.data.memory import refuse_beyond_memory
from sparsefield.induction.candidates import all_pairs
from sparsefield.induction.rule import ClosedRule

__all__ = ["Full"]


class Full(ClosedRule):
    """All pairs at once."""

    name = "full"

    def start(self, layout: Layout) -> np.ndarray:
        count = layout.n_candidate_pairs
        refuse_beyond_memory(
            config.BYTES_OF_FEATURE * count,
            f"induction='full' with {count:,} candidates",
            lambda: "let induction='cfi' find those that matter.",
        )
        return all_pairs(layout)
