"""The "ideal parent" rule of Elidan et al., on the same signals and errors: the cosine ranks, not the product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.data import Schema
from sparsefield.engines import Threads
from sparsefield.induction.base import InductionRule
from sparsefield.induction.candidates import Scored
from sparsefield.induction.contrastive import large_errors, large_signals
from sparsefield.induction.dense import score_tiles
from sparsefield.objectives.evaluation import Contrast

__all__ = ["IdealParent"]


@dataclass(frozen=True)
class IdealParent(InductionRule):
    """Ranks a pair by the larger of |cos(error_A, signal_B)| and |cos(signal_A, error_B)|.

    A pair may enter, as with the other rules, when its (estimated) gradient exceeds l1.
    """

    error_threshold: float = 0.2
    signal_threshold: float = 0.2
    name = "ideal-parent"

    def score(self, contrast: Contrast, schema: Schema, cut: float, known: np.ndarray, engine: Threads) -> Scored:
        errors = large_errors(contrast, self.error_threshold).dense(engine)
        signals = large_signals(contrast, self.signal_threshold).dense(engine)
        error_size = _norms(errors, schema.n_columns)
        signal_size = _norms(signals, schema.n_columns)

        def finish(forth: np.ndarray, back: np.ndarray, i: slice, j: slice) -> tuple[np.ndarray, np.ndarray]:
            one = np.abs(forth) / np.outer(error_size[i], signal_size[j])
            other = np.abs(back) / np.outer(signal_size[i], error_size[j])
            return forth + back, np.maximum(one, other)

        return score_tiles(schema, errors, signals, finish, cut, known, engine)


def _norms(parts: list[np.ndarray], n_columns: int) -> np.ndarray:
    """(n_columns,): length of each column's vector over all rows; 1 where it is 0 or the column has none."""
    squares = np.sum([np.einsum("ci,ci->c", part, part) for part in parts], axis=0)
    norms = np.ones(n_columns)
    norms[: len(squares)] = np.where(squares > 0, np.sqrt(squares), 1.0)
    return norms
