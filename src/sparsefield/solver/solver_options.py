"""This module defines the options of the optimizer, and the criteria by which l1 is selected."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar, Literal

from sparsefield import config
from sparsefield.option_objects import OptionObject
from sparsefield.parameters import MAX_ITER, TOLERANCE

FOLDS, FOLDS_OF_SMALL_TABLES = 5, 10
ROWS_FOR_FEW_FOLDS = 500
"""A smaller table has more folds: each fit loses fewer of its rows, and takes little time."""


@dataclass(frozen=True)
class Solver(OptionObject):
    """Set the tolerances, the limits and the checkpoint of the optimizer.

    Parameters
    ----------
    tol : float
        An optimization ends when the objective changes by less than this share for three steps in a row.
    kkt_tol : float
        Largest violation of the optimality conditions, as a share of l1, with which a fit counts as converged.
    max_iter : int
        Optimizer steps at most.
    certify : bool
        Whether every candidate is checked against the optimality conditions, and violators are added.
    stages : 1 or 2
        2 optimizes the biases before any pair is added.
    checkpoint : path, optional
        A folder where the state of the fit is saved, so that an interrupted fit can be continued.

    Examples
    --------
    >>> Solver(tol=1e-8).max_iter
    1000
    """

    tol: float = TOLERANCE
    kkt_tol: float = config.KKT_TOLERANCE
    max_iter: int = MAX_ITER
    certify: bool = True
    stages: Literal[1, 2] = 1
    checkpoint: str | os.PathLike[str] | None = None


class SelectionCriterion(OptionObject):
    """A criterion for the choice of l1."""

    name: ClassVar[str]
    description: ClassVar[str]
    """Noun phrase for messages: "l1 was selected by ..."."""
    min_improvement: ClassVar[float]
    """Share by which a score must rise to count as better."""


@dataclass(frozen=True)
class HeldOut(SelectionCriterion):
    """Select l1 by the log-likelihood of rows, or of cells, that were held out (cross-validation).

    Of the fields that predict about as well as the best one, the sparsest is taken: its score is worse by at most one
    standard error of the difference, which is computed over held-out rows.

    Parameters
    ----------
    folds : "auto" or int
        Number of parts of the rows. The first is held out while l1 is searched; at values about which it leaves doubt,
        each is held out in turn, and the scores of all of them are pooled. "auto" is 5, and 10 for a table with fewer
        than 500 rows; a table with fewer than 50 rows, and linked tables, hold out cells once. 1 holds out a part once:
        faster, but l1 then depends strongly on ``random_state``.
    fraction : float
        Share of the rows or cells that is held out once.

    Examples
    --------
    >>> HeldOut().n_folds(n_rows=2000), HeldOut().n_folds(n_rows=300), HeldOut(folds=1).share_of(1)
    (5, 10, 0.2)
    """

    folds: int | Literal["auto"] = "auto"
    fraction: float = 0.2
    name = "heldout"
    description = "predictions of held-out cells"
    min_improvement = 1e-4

    def n_folds(self, n_rows: int) -> int:
        """Return the number of folds of a table."""
        if self.folds != "auto":
            return self.folds
        return FOLDS if n_rows >= ROWS_FOR_FEW_FOLDS else FOLDS_OF_SMALL_TABLES

    def share_of(self, n_folds: int) -> float:
        """Return the share that is held out at a time."""
        return self.fraction if n_folds == 1 else 1.0 / n_folds


@dataclass(frozen=True)
class EBIC(SelectionCriterion):
    """Select l1 by the extended Bayesian information criterion, summed over one regression per state.

    Parameters
    ----------
    gamma : float
        How much the number of candidates counts; 0 gives the BIC.
    """

    gamma: float = 0.5
    name = "ebic"
    description = "EBIC"
    min_improvement = 0.0


SELECTIONS: dict[str, type[SelectionCriterion]] = {criterion.name: criterion for criterion in (HeldOut, EBIC)}
"""Option objects of selection criteria by the strings that abbreviate them."""
