"""Options of a fit: its features, its optimizer, and the criterion by which l1 is selected."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from sparsefield import config
from sparsefield.options import OptionObject

if TYPE_CHECKING:
    from sparsefield.solver.state import FitCallbacks

FOLDS = 5


@dataclass(frozen=True)
class Features(OptionObject):
    """Say which features are candidates, and which of their weights are penalized.

    Parameters
    ----------
    max_order : int
        Largest number of columns in a feature. With 3 and more, conjunctions of that many states are candidates (Eq.
        14) if a feature of one column less has a weight. The table is stored densely then.
    expand : {"active", "all"}
        "active" extends features with a weight by one column. "all" extends every pair of states, too: for
        dependencies such as an exclusive or, which no pair shows. It scores all triples, so it is for tables of at most
        some hundred states.
    order_penalty : float
        Factor on l1 for each column beyond two: there are so many triples that some look useful by chance.
    coding : {"symmetric", "reference"}
        Features of nominal columns with more than two states: all states have them, or all but the most frequent one,
        as in the paper.
    penalize_biases : bool
        Apply the penalties to biases, too, as in the paper. False predicts better and is faster on all data that we
        measured. A state that is absent from the training data is penalized either way.

    Examples
    --------
    >>> Features(max_order=3).coding
    'symmetric'
    """

    max_order: int = 2
    expand: Literal["active", "all"] = "active"
    order_penalty: float = 2.0
    coding: Literal["symmetric", "reference"] = "symmetric"
    penalize_biases: bool = False


@dataclass(frozen=True)
class Solver(OptionObject):
    """Set the tolerances and limits of the optimizer, where it runs, and what it tells on the way.

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
    test_edges : bool
        Whether edges are tested after the fit (``edges_``), which can take longer than the fit.
    stages : 1 or 2
        2 optimizes the biases before any pair is added.
    checkpoint : path, optional
        A folder where the state of the fit is saved, so that an interrupted fit can be continued.
    engine : None, `distributed.Client` or str
        Where a fit runs: None is this machine; ``"cuda"``, or ``"cuda:1"``, is a GPU (extra ``gpu``), ``"torch"`` the
        same code on the CPU, and ``"auto"`` a GPU where there is one; a client, or the address of a scheduler such as
        ``"dask://host:8786"``, is a Dask cluster (extra ``cluster``). The optimum is the same. Inference runs here.
    callbacks : `FitCallbacks`, optional
        Functions that are called during a fit: at each iteration, and at each point of a regularization path.

    Examples
    --------
    >>> Solver(tol=1e-8).max_iter
    1000
    """

    tol: float = 1e-6
    kkt_tol: float = config.KKT_TOLERANCE
    max_iter: int = 1000
    certify: bool = True
    test_edges: bool = True
    stages: Literal[1, 2] = 1
    checkpoint: str | os.PathLike[str] | None = None
    engine: Any = None
    callbacks: FitCallbacks | None = None

    def __sklearn_clone__(self) -> Self:
        return replace(self)  # a client of a cluster and callbacks cannot be copied

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what belongs to one process: a client of a cluster, and callbacks."""
        engine = self.engine if isinstance(self.engine, str) else None
        return vars(self) | {"engine": engine, "callbacks": None}


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

    Where cells are missing, some known cells of each held-out row are hidden at a time, and predicted from the others.
    The best field is taken; the one without pairs if it is worse by at most one standard error of the difference, which
    is computed over held-out rows (2.5, where cells are missing). Of one dense table with more than two million
    target cells, and 10,000 rows, a sample of rows is used without ``groups``; l1 is scaled to all rows.

    Parameters
    ----------
    folds : "auto" or int
        Number of parts of the rows. The first is held out while l1 is searched; near its best value each is held out in
        turn, of 1,000 rows and more three of them, and their scores are pooled. "auto" is 5;
        a table with fewer than 50 rows, and linked tables, hold out cells once. 1 holds out a part once: faster, but l1
        then depends strongly on ``random_state``.
    fraction : float
        Share of the rows or cells that is held out once.

    Examples
    --------
    >>> HeldOut().n_folds(n_rows=2000), HeldOut().n_folds(n_rows=300), HeldOut(folds=1).share_of(1)
    (5, 5, 0.2)
    """

    folds: int | Literal["auto"] = "auto"
    fraction: float = 0.2
    name = "heldout"
    description = "predictions of held-out cells"
    min_improvement = 1e-4

    def n_folds(self, n_rows: int) -> int:
        """Return the number of folds of a table."""
        return min(FOLDS, n_rows) if self.folds == "auto" else self.folds

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
