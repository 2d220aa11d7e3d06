"""Full-L1, which puts every candidate into the working set from the start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield import config
from sparsefield.data import Layout
from sparsefield.data.memory import refuse_beyond_memory
from sparsefield.induction.candidates import all_pairs
from sparsefield.induction.rule import FixedCandidatesRule


@dataclass(frozen=True)
class FullL1(FixedCandidatesRule):
    """Put all pairs into the working set at once; the L1 penalty selects."""

    name = "full"

    def start(self, layout: Layout) -> np.ndarray:
        count = layout.n_candidate_pairs
        refuse_beyond_memory(
            config.BYTES_OF_FEATURE * count,
            f"induction='full' with {count:,} candidates",
            lambda: "let induction='cfi' find those that matter.",
        )
        return all_pairs(layout)
