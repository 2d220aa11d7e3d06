"""Contrastive feature induction (Algorithm 1): only large errors and large signals are looked at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield import policy
from sparsefield.data import Schema
from sparsefield.engines import Threads
from sparsefield.induction.base import InductionRule
from sparsefield.induction.candidates import Scored
from sparsefield.induction.contrastive import large_errors, large_signals
from sparsefield.induction.dense import score_tiles
from sparsefield.induction.sparse import collect, score_meetings
from sparsefield.objectives.evaluation import Contrast

__all__ = ["ContrastiveInduction"]


@dataclass(frozen=True)
class ContrastiveInduction(InductionRule):
    """Estimates h_AB = sum_i signal_A error_B + signal_B error_A over entries beyond the thresholds.

    The rank-one term E[B] g_A + E[A] g_B of the decomposition (Eq. 13) is kept, so that with thresholds 0 the estimate
    is the exact gradient whether or not unary features have converged.

    Parameters
    ----------
    error_threshold, signal_threshold : t_err and t_sig
    product : "auto" takes the cheaper of a "dense" and a "sparse" product, by counted work; they agree to rounding
    """

    error_threshold: float = 0.2
    signal_threshold: float = 0.2
    product: str = "auto"
    name = "cfi"

    def score(self, contrast: Contrast, schema: Schema, cut: float, known: np.ndarray, engine: Threads) -> Scored:
        means = contrast.means
        unary = np.concatenate([contrast.unary, np.zeros(schema.n_columns - schema.n_states)])
        errors = large_errors(contrast, self.error_threshold)
        signals = large_signals(contrast, self.signal_threshold)
        errors_per_row, signals_per_row = errors.count(engine), signals.count(engine)
        met = sum(float(e @ s) for e, s in zip(errors_per_row, signals_per_row, strict=True))
        sparse = met * policy.SPARSE_ADVANTAGE < self.work(contrast, schema)
        if self.product == "sparse" or (self.product == "auto" and sparse):
            loud, wrong = collect(signals, signals_per_row), collect(errors, errors_per_row)
            return score_meetings(schema, wrong, loud, means, unary, cut, known, engine)

        def finish(forth: np.ndarray, back: np.ndarray, i: slice, j: slice) -> tuple[np.ndarray, np.ndarray]:
            gradient = forth + back + np.outer(unary[i], means[j]) + np.outer(means[i], unary[j])
            return gradient, np.abs(gradient)

        # An estimate that has dropped its small terms loses nothing by half the digits, and is twice as fast.
        dtype = policy.FLOAT if self.error_threshold == self.signal_threshold == 0.0 else np.float32
        loud, wrong = signals.dense(engine, dtype), errors.dense(engine, dtype)
        return score_tiles(schema, wrong, loud, finish, cut, known, engine)
