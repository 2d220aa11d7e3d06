"""The "ideal parent" rule of Elidan et al., on the same signals and errors: the cosine ranks, not the product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparsefield.data import Layout, Meeting
from sparsefield.engines import Threads
from sparsefield.induction.base import InductionRule
from sparsefield.induction.candidates import Scored
from sparsefield.induction.contrastive import large_errors, large_signals
from sparsefield.induction.dense import score_tiles
from sparsefield.objectives import AnyContrast, SparseContrast

__all__ = ["IdealParent"]


@dataclass(frozen=True)
class IdealParent(InductionRule):
    """Ranks a pair by the larger of |cos(error_A, signal_B)| and |cos(signal_A, error_B)|.

    A pair may enter, as with the other rules, when its (estimated) gradient exceeds l1.
    """

    error_threshold: float = 0.2
    signal_threshold: float = 0.2
    name = "ideal-parent"
    sparse = False

    def score(
        self,
        contrast: AnyContrast,
        layout: Layout,
        cut: float,
        known: np.ndarray,
        engine: Threads,
        limit: int | None = None,
    ) -> Scored:
        assert not isinstance(contrast, SparseContrast)  # `sparse` says so
        errors = [large.dense(engine) for large in large_errors(contrast, self.error_threshold)]
        signals = [large.dense(engine) for large in large_signals(contrast, self.signal_threshold)]
        error_size = [_norms(part, width) for part, width in zip(errors, layout.widths, strict=True)]
        signal_size = [_norms(part, width) for part, width in zip(signals, layout.widths, strict=True)]

        def finish(
            meeting: Meeting, forth: np.ndarray, back: np.ndarray, i: slice, j: slice
        ) -> tuple[np.ndarray, np.ndarray]:
            left, right = meeting.left, meeting.right
            cosines = []
            if i.start < meeting.left_states:
                sizes = error_size[left][meeting.left_columns[i]], signal_size[left][meeting.seen_right[j]]
                cosines.append(np.abs(forth) / np.outer(*sizes))
            if j.start < meeting.right_states:
                sizes = signal_size[right][meeting.seen_left[i]], error_size[right][meeting.right_columns[j]]
                cosines.append(np.abs(back) / np.outer(*sizes))
            return forth + back, np.maximum.reduce(cosines)

        return score_tiles(layout, errors, signals, finish, cut, known, engine)


def _norms(parts: Sequence[np.ndarray], n_columns: int) -> np.ndarray:
    """(n_columns,): length of each column's vector over all rows; 1 where it is 0 or the column has none."""
    squares = np.sum([np.einsum("ci,ci->c", part, part) for part in parts], axis=0)
    norms = np.ones(n_columns)
    norms[: len(squares)] = np.where(squares > 0, np.sqrt(squares), 1.0)
    return norms
