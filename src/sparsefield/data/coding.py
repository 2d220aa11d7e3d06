"""How the states of a variable are coded by columns, which features are made of.

A binary variable has one column, which is 1 in one state and 0 in the reference state. A nominal variable of more
states has an indicator column for every state, or for all but a reference state, as in the paper. An ordinal variable
has a score, and an indicator for every state; a numeric one a score, the square of the score, and indicators of bins of
levels. The logit of a state is its base measure plus the sum of its column values times the logits of the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np


class ColumnClass(IntEnum):
    """What a column measures, on which the penalty of its features depends."""

    PLAIN = 0
    """The indicator of a state of a nominal or binary variable."""
    SCORE = 1
    """The score of an ordinal or numeric target."""
    LEVEL = 2
    """The indicator of a level of an ordinal target, or of a bin of a numeric one."""
    SQUARE = 3
    """The square of a score, which has a bias but no features: it is the precision of a number."""
    OBSERVED_LEVEL = 4
    """The indicator of a level or bin of an observed variable."""
    OBSERVED_SCORE = 5
    """The score of an observed variable."""


SCORE_PENALTY = 2.0
"""Factor of l1 for each score of a target in a feature. A score has a standard deviation of 1, the indicator of a
balanced binary variable one of 1/2: with this factor, gradients of both exceed l1 by chance about equally often. The
gradient of an observed score has one part instead of two, and needs no factor, as in a logistic regression."""

LEVEL_PENALTY = 4.0
"""Factor of l1 for features of levels. On 25 ordinal items, 2, 4 and 6 had test losses of 1.3665, 1.3686 and 1.3679
with 1,200, 1,013 and 1,295 weights at the selected l1, and 4 had the best ones with about 700 weights."""

SCORE_RIDGE = 0.01
"""Factor of l2 for pairs of scores: such a weight is a precision, as large as 1 / (1 - R^2) where columns determine
each other, and l2 would make predictions of such numbers too wide."""

PENALTY_FACTORS = np.array(
    [
        [1.0, SCORE_PENALTY, LEVEL_PENALTY, np.inf, LEVEL_PENALTY, 1.0],
        [SCORE_PENALTY, SCORE_PENALTY**2, np.inf, np.inf, LEVEL_PENALTY, SCORE_PENALTY],
        [LEVEL_PENALTY, np.inf, LEVEL_PENALTY, np.inf, LEVEL_PENALTY, np.inf],
        [np.inf, np.inf, np.inf, np.inf, np.inf, np.inf],
        [LEVEL_PENALTY, LEVEL_PENALTY, LEVEL_PENALTY, np.inf, np.inf, np.inf],
        [1.0, SCORE_PENALTY, np.inf, np.inf, np.inf, np.inf],
    ]
)
"""Factor of l1 for a pair of columns by their classes; infinite for pairs that are no candidates.

The score of a target and a level of another one are none: two scores, or two levels, express the same dependence better
(on three tables with these pairs predictions of hidden cells were worse). A level of an observed variable may shift the
score of a target, which makes a regression on it nonlinear."""


class Coding(NamedTuple):
    """The states of all targets of a table, in the format of kernels."""

    state_offsets: np.ndarray
    """(targets + 1,): where the states of each target begin in lists of all states."""
    has_reference: np.ndarray
    """(targets,) bool: whether column k of a target is 1 for code k + 1 and 0 otherwise, and base measures are 0."""
    n_scores: np.ndarray
    """(targets,): number of columns that are scores; indicators follow."""
    indicator: np.ndarray
    """(states,): the column that is 1 for a state, among the columns of its target; -1 for none."""
    scores: np.ndarray
    """(states, 2): values of the score columns."""
    log_base: np.ndarray
    """(states,): logarithm of the base measure."""
    frequencies: np.ndarray
    """(states,): training frequencies."""
    most_states: int

    @classmethod
    def of(cls, targets: Sequence[Any]) -> Coding:
        """Return the coding of some variables."""
        counts = [len(variable.states) for variable in targets]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        scores = np.zeros((int(offsets[-1]), 2))
        for variable, start, stop in zip(targets, offsets[:-1], offsets[1:], strict=True):
            scores[start:stop, : variable.n_scores] = variable.coded[:, : variable.n_scores]
        return cls(
            offsets,
            np.array([variable.has_reference for variable in targets], dtype=bool),
            np.array([variable.n_scores for variable in targets], dtype=np.int64),
            np.concatenate([np.empty(0, dtype=np.int64), *(variable.indicators for variable in targets)]),
            scores,
            np.concatenate([np.empty(0), *(variable.log_base for variable in targets)]),
            np.concatenate([np.empty(0), *(variable.code_frequencies for variable in targets)]),
            max(counts, default=1),
        )

    @classmethod
    def binary(cls, widths: np.ndarray, shares: np.ndarray) -> Coding:
        """Return the coding of 0/1 variables, constant ones with width 0; ``shares`` are those of 1 of the others."""
        offsets = np.concatenate([[0], np.cumsum(widths + 1)]).astype(np.int64)
        n_states, first = int(offsets[-1]), offsets[:-1]
        indicator, frequencies = np.full(n_states, -1, dtype=np.int64), np.ones(n_states)
        ones = first[widths > 0] + 1
        indicator[ones], frequencies[ones], frequencies[ones - 1] = 0, shares, 1.0 - shares
        return cls(
            offsets,
            np.ones(len(widths), dtype=bool),
            np.zeros(len(widths), dtype=np.int64),
            indicator,
            np.zeros((n_states, 2)),
            np.zeros(n_states),
            frequencies,
            int(widths.max(initial=0)) + 1,
        )

    def joined(self, other: Coding) -> Coding:
        """Return the coding of the targets of two tables, one after the other."""
        return Coding(
            np.concatenate([self.state_offsets, self.state_offsets[-1] + other.state_offsets[1:]]),
            *(np.concatenate(pair) for pair in zip(self[1:-1], other[1:-1], strict=True)),
            most_states=max(self.most_states, other.most_states),
        )
