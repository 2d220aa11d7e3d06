"""How good beliefs in hidden cells are: the measures of the paper's section 4, and one of relational learners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Answer", "Scores", "area_for_yes", "area_under_precision_recall", "error_rate", "mean_log_belief", "score"]

Array = np.ndarray[Any, np.dtype[Any]]

UNKNOWN = -1
"""The place of a true state that the field does not know."""


@dataclass(frozen=True)
class Answer:
    """Beliefs in the states of some hidden cells of one column, and what was behind them.

    Attributes
    ----------
    beliefs : array (cells, states)
        Each row sums to 1.
    truth : array (cells,) of int
        Which of the states is the true one; -1 where the true state is none of them.
    positive : int or None
        Which of the states says yes, for a column of 0 and 1 or False and True.
    """

    beliefs: Array
    truth: Array
    positive: int | None = None

    @property
    def in_truth(self) -> Array:
        """(cells,): the belief in the true state, 0 where it is unknown."""
        picked = self.beliefs[np.arange(len(self.truth)), self.truth]
        return np.where(self.truth == UNKNOWN, 0.0, picked)


@dataclass(frozen=True)
class Scores:
    """The paper's three measures over all hidden cells, and a fourth.

    Attributes
    ----------
    auc : float
        Area under the precision-recall curve, see `area_under_precision_recall`.
    cll : float
        Conditional log-likelihood per cell, see `mean_log_belief`.
    error_rate : float
        Share of cells whose most believed state is not the true one.
    auc_yes : float
        The same area for the question which cells of yes/no columns are yes: `area_for_yes`. NaN where there are none.
    """

    auc: float
    cll: float
    error_rate: float
    auc_yes: float


def score(answers: Sequence[Answer]) -> Scores:
    """All measures of the hidden cells of any number of columns.

    Examples
    --------
    >>> import numpy as np
    >>> score([Answer(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1]), positive=1)])
    Scores(auc=1.0, cll=-0.164252033486018, error_rate=0.0, auc_yes=1.0)
    """
    if not sum(len(answer.truth) for answer in answers):
        raise ValueError("There are no hidden cells to score.")
    return Scores(
        area_under_precision_recall(answers), mean_log_belief(answers), error_rate(answers), area_for_yes(answers)
    )


def area_under_precision_recall(answers: Sequence[Answer]) -> float:
    """Rank all states of all cells by belief; the true ones are relevant (the paper's section 4).

    The area is the average precision: the precision at each true state, in steps of recall. Straight lines
    between the points of the curve, the trapezoid rule, would promise more than a ranking can keep (Davis and
    Goadrich, 2006). States with the same belief share one place. A true state that the field does not know
    stands last.
    """
    from sklearn.metrics import average_precision_score

    beliefs, relevant = [], []
    for answer in answers:
        hits = np.arange(answer.beliefs.shape[1]) == answer.truth[:, None]
        strangers = np.count_nonzero(answer.truth == UNKNOWN)
        beliefs += [answer.beliefs.ravel(), np.zeros(strangers)]
        relevant += [hits.ravel(), np.ones(strangers, dtype=bool)]
    return float(average_precision_score(np.concatenate(relevant), np.concatenate(beliefs)))


def area_for_yes(answers: Sequence[Answer]) -> float:
    """Rank the hidden cells of yes/no columns by the belief in yes; those that are yes are relevant.

    Relational learners report this area: it asks for the true atoms alone, not for the false ones too.
    """
    from sklearn.metrics import average_precision_score

    asked = [answer for answer in answers if answer.positive is not None and len(answer.truth)]
    if not asked:
        return float("nan")
    beliefs = np.concatenate([answer.beliefs[:, answer.positive] for answer in asked])
    relevant = np.concatenate([answer.truth == answer.positive for answer in asked])
    return float(average_precision_score(relevant, beliefs)) if relevant.any() else float("nan")


def mean_log_belief(answers: Sequence[Answer]) -> float:
    """Mean over cells of the natural log of the belief in the true state, the paper's CLL.

    A belief of 0 counts as the smallest positive number, about -708 in logs.
    """
    beliefs = np.concatenate([answer.in_truth for answer in answers])
    return float(np.mean(np.log(np.maximum(beliefs, np.finfo(float).tiny))))


def error_rate(answers: Sequence[Answer]) -> float:
    """Share of cells whose most believed state is not the true one; of equals the first counts."""
    wrong = [answer.beliefs.argmax(axis=1) != answer.truth for answer in answers]
    return float(np.mean(np.concatenate(wrong)))
