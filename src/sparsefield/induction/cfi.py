"""Contrastive feature induction (Algorithm 1): only large errors and large signals are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparsefield import policy
from sparsefield.data import Layout, Meeting
from sparsefield.engines import Threads
from sparsefield.induction.base import InductionRule
from sparsefield.induction.candidates import Scored
from sparsefield.induction.contrastive import large_errors, large_signals
from sparsefield.induction.dense import score_tiles
from sparsefield.induction.products import Margins, collect, score_meetings
from sparsefield.induction.resting import score_resting
from sparsefield.objectives import AnyContrast, SparseContrast
from sparsefield.objectives.evaluation import Contrast

__all__ = ["ContrastiveInduction", "PrintedInduction"]


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
    has_margins = True
    """Whether the rank-one term is kept."""

    @property
    def thresholds(self) -> tuple[float, float]:
        return self.error_threshold, self.signal_threshold

    def score(
        self,
        contrast: AnyContrast,
        layout: Layout,
        cut: float,
        known: np.ndarray,
        engine: Threads,
        limit: int | None = None,
    ) -> Scored:
        if isinstance(contrast, SparseContrast):
            # Signals are those of what is on, and large; at rest, errors and signals cost nothing to keep.
            return score_resting(contrast, layout, self.error_threshold, cut, known, engine, limit)
        errors = large_errors(contrast, self.error_threshold)
        signals = large_signals(contrast, self.signal_threshold)
        margins = [_margins(meeting, contrast, self.has_margins) for meeting in layout.meetings]
        errors_per_row = [large.count(engine) for large in errors]
        signals_per_row = [large.count(engine) for large in signals]
        sparse = _met(errors_per_row, signals_per_row) * policy.SPARSE_ADVANTAGE < _dense_work(contrast)
        if self.product == "sparse" or (self.product == "auto" and sparse):
            loud = [collect(*pair) for pair in zip(signals, signals_per_row, strict=True)]
            wrong = [collect(*pair) for pair in zip(errors, errors_per_row, strict=True)]
            return score_meetings(layout, wrong, loud, margins, cut, known, engine)

        def finish(
            meeting: Meeting, forth: np.ndarray, back: np.ndarray, i: slice, j: slice
        ) -> tuple[np.ndarray, None]:
            edge = margins[meeting.template]
            gradient = forth + back
            if not self.has_margins:
                return gradient, None
            gradient = gradient + np.outer(edge.unary_left[i], edge.mean_right[j])
            gradient = gradient + np.outer(edge.mean_left[i], edge.unary_right[j])
            return gradient, None

        # An estimate that has dropped its small terms loses nothing by half the digits, and is twice as fast.
        dtype = policy.FLOAT if self.error_threshold == self.signal_threshold == 0.0 else np.float32
        wrong, loud = ([large.dense(engine, dtype) for large in part] for part in (errors, signals))
        return score_tiles(layout, wrong, loud, finish, cut, known, engine)


class PrintedInduction(ContrastiveInduction):
    """Algorithm 1 as the paper prints it, without the rank-one term.

    That term vanishes where unary features have converged and carry no penalty. Where they carry one, it stays: a
    penalised unary weight has a gradient of l1 and more at its optimum, and lends it to pairs with frequent states.
    """

    name = "cfi-printed"
    sparse = False
    has_margins = False


def _margins(meeting: Meeting, contrast: Contrast, kept: bool) -> Margins:
    """The factors of the rank-one term; an end without targets adds nothing."""
    unary_left, unary_right = np.zeros(len(meeting.left_columns)), np.zeros(len(meeting.right_columns))
    unary_left[: meeting.left_states] = contrast.unary[meeting.left][meeting.left_columns[: meeting.left_states]]
    unary_right[: meeting.right_states] = contrast.unary[meeting.right][meeting.right_columns[: meeting.right_states]]
    mean_left, mean_right = np.zeros(len(meeting.left_columns)), np.zeros(len(meeting.right_columns))
    if len(meeting.seen_left) and kept:
        mean_left = contrast.means[meeting.right][meeting.seen_left]
    if len(meeting.seen_right) and kept:
        mean_right = contrast.means[meeting.left][meeting.seen_right]
    return Margins(unary_left, mean_right, mean_left, unary_right)


def _met(errors: Sequence[list[np.ndarray]], signals: Sequence[list[np.ndarray]]) -> float:
    """How often a large error meets a large signal in a row."""
    return sum(
        float(e @ s) for one, other in zip(errors, signals, strict=True) for e, s in zip(one, other, strict=True)
    )


def _dense_work(contrast: Contrast) -> float:
    """Multiply-adds of a dense product."""
    return sum(
        float(e.shape[0]) * m.shape[0] * m.shape[1]
        for errors, middles in zip(contrast.errors, contrast.middles, strict=True)
        for e, m in zip(errors, middles, strict=True)
    )
