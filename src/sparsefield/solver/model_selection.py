"""This module chooses l1: it compares the scores of fields along the regularization path."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Arcs, Dataset
from sparsefield.errors import SelectionWarning
from sparsefield.inference import InferenceMethod
from sparsefield.model import PathRow
from sparsefield.objectives import DenseEvaluator
from sparsefield.solver.l1_search import FoldGrid, SearchResult, search_l1
from sparsefield.solver.path import (
    EMPTY_FIELD_L1,
    Learner,
    OpenFold,
    Path,
    PathFold,
    Scorer,
    ebic_costs,
    follow_path,
    open_path_fold,
    open_pool,
    path_values,
)
from sparsefield.solver.score_comparison import standard_error
from sparsefield.solver.selection_folds import (
    PATH_LENGTH,
    PATIENCE,
    SelectionFold,
    SelectionOptions,
    SelectionPlan,
    make_folds,
)
from sparsefield.solver.solver_options import EBIC, SelectionCriterion
from sparsefield.solver.state import FitCallbacks, FitResult, PathPoint, State


class MakePath(Protocol):
    """A function that returns a path; callbacks hear of the iterations of the first fold."""

    def __call__(self, dataset: Dataset, l1: float, kkt_tol: float, *, first: bool) -> Path: ...


SMALLEST_RATIO = 1e-4
"""The last value of l1 as a share of the first; each value is three quarters of the one before."""
STEP = SMALLEST_RATIO ** (1.0 / (PATH_LENGTH - 1))
EXTENSION = 16
"""Values of l1 at most that follow, by the same factor, while the score still rises at the end of the path."""
LONG_PATIENCE = 8
"""Patience for a view of the path beyond the choice."""

SEARCH_KKT_TOLERANCE = 0.2
"""Violation, as a share of l1, that is allowed for a field that is only compared on held-out data. Its score differs
from that of the exact field by far less than a standard error of the comparison."""

EMPTY_STANDARD_ERRORS = 2.0
"""How much worse than the best the empty field may be if cells are missing, in standard errors; otherwise one. Such
rows say less: with half of the cells of 20 fair coins missing, one standard error selects dozens of edges in some
tables."""

EMPTY_MARGIN = 4.0 / 3.0
"""Factor on the smallest l1 that selects nothing, if it is chosen: with other completions it would select something."""

MAX_PRUNINGS = 5


@dataclass(frozen=True)
class PathSelection:
    """The selected l1, and the path from which it was selected."""

    l1: float
    """For all rows."""
    selected: int
    """Index of the selected point on the path."""
    path: tuple[PathPoint, ...]
    criterion: str
    """Name of the criterion that was used: EBIC also where too few cells could be held out."""
    scale: float = 1.0
    """Factor from l1 on the path, which had fewer rows, to l1 for all rows."""

    def rows(self) -> tuple[PathRow, ...]:
        """Return a row for each value of l1."""
        found = []
        for k, point in enumerate(self.path):
            l1, features = float(point.l1 * self.scale), len(point.fit.field.features)
            error = standard_error(point.scores, point.weights)
            found.append(
                PathRow(l1, features, point.score, None if np.isnan(error) else error, selected=k == self.selected)
            )
        return tuple(found)


def select_l1(
    sample: Dataset,
    make: MakePath,
    inference: InferenceMethod,
    engine: Engine,
    options: SelectionOptions,
    callbacks: FitCallbacks | None = None,
    groups: np.ndarray | None = None,
    open_fold: OpenFold = open_path_fold,
) -> PathSelection:
    """Choose l1 on the regularization path.

    Parameters
    ----------
    make : ``make(dataset, l1, kkt_tol, first)`` returns a path; ``first`` is true for the first fold
    callbacks : ``on_path_point`` is called after each value of l1
    groups : (rows,) numbers of groups, whose rows are held out together
    open_fold : returns a fold, as `SelectionCheckpoint.open_fold` does for one that can be continued
    """
    plan = make_folds(sample, inference, engine, options, groups)
    learners = [partial(_learn, fold, make, first=k == 0) for k, fold in enumerate(plan.folds)]

    def hear(point: PathPoint) -> None:
        if callbacks is not None:
            callbacks.path_point(replace(point, l1=point.l1 * plan.scale))

    if plan.criterion.name == "heldout":
        weight, tolerated = max(sample.total_weights), EMPTY_STANDARD_ERRORS if sample.has_missing else 1.0
        found = _search(learners, plan, options, open_fold, hear, weight, tolerated)
    else:
        found = _follow(learners, plan, options, open_fold, hear)
    scale = plan.scale if len(found.path) > 1 else 1.0  # all columns are independent, at any l1
    l1 = found.path[found.selected].l1 * scale
    if found.rises_at_the_end:
        _warn_still_rising(l1)
    if found.selected == 0 and sample.has_missing:
        l1 *= EMPTY_MARGIN
    return PathSelection(l1, found.selected, found.path, plan.criterion.name, scale)


def _learn(
    make_fold: Callable[[], SelectionFold], make: MakePath, kkt_tol: float, *, first: bool
) -> tuple[Path, Scorer]:
    fold = make_fold()
    return make(fold.dataset, EMPTY_FIELD_L1, kkt_tol, first=first), fold.score


# -- held-out data -----------------------------------------------------------------------------------------------------


def _search(
    learners: Sequence[Learner],
    plan: SelectionPlan,
    options: SelectionOptions,
    open_fold: OpenFold,
    hear: Callable[[PathPoint], None],
    weight: float,
    empty_standard_errors: float,
) -> SearchResult:
    """Search the path for the best score of held-out data; a longer view of the path follows where it is asked for."""

    def open_number(k: int) -> PathFold:
        return open_fold(k, *learners[k](max(options.kkt_tol, SEARCH_KKT_TOLERANCE)), ahead=False)

    first = open_number(0)
    values = _lattice(first.begin(), weight / plan.scale, options.path_length + EXTENSION)
    with open_pool(min(options.n_threads, len(learners)) - 1) as pool:
        grid = FoldGrid(first, len(learners), open_number, values, pool, hear)
        found = search_l1(grid, empty_standard_errors, plan.criterion.min_improvement)
    if options.patience == PATIENCE:
        return found
    selected = int(np.searchsorted(-values, -found.path[found.selected].l1))
    path = _view(learners, plan.criterion, options, hear, float(values[0]), selected + 1)
    return replace(found, path=path, selected=selected)


def _lattice(l1_max: float, unit: float, count: int) -> np.ndarray:
    """Return values of l1, (count,), from the last one that selects nothing: a unit times powers of the step.

    The unit is that of all rows, so that the values are the same for all divisions into folds: which of them is
    selected depends less on the seed than a value would that varies itself.
    """
    if l1_max <= 0.0:
        return np.ones(1)
    first = math.floor(math.log(l1_max / unit) / math.log(STEP))
    return path_values(unit * STEP**first, count, STEP)


# -- the whole path ----------------------------------------------------------------------------------------------------


def _follow(
    learners: Sequence[Learner],
    plan: SelectionPlan,
    options: SelectionOptions,
    open_fold: OpenFold,
    hear: Callable[[PathPoint], None],
) -> SearchResult:
    """Follow the path, and choose the best score of EBIC."""
    path = _view(learners, plan.criterion, options, hear, open_fold=open_fold)
    best = int(np.argmax([point.score for point in path[: _length(path, PATIENCE, plan.criterion)]]))
    at_the_end = len(path) == options.path_length + EXTENSION and _rises_at_the_end(path, plan.criterion)
    return SearchResult(path, best, at_the_end)


def _view(
    learners: Sequence[Learner],
    criterion: SelectionCriterion,
    options: SelectionOptions,
    hear: Callable[[PathPoint], None],
    first: float | None = None,
    min_length: int = 1,
    open_fold: OpenFold = open_path_fold,
) -> tuple[PathPoint, ...]:
    """Return the points of all folds, value by value, until scores fall; ``first`` is the first value, if given."""
    path = []
    points = follow_path(
        learners,
        first=first,
        count=options.path_length + EXTENSION,
        step=STEP,
        kkt_tol=options.kkt_tol,
        ends=partial(_ends, criterion=criterion, options=options, min_length=min_length),
        n_threads=options.n_threads,
        open_fold=open_fold,
    )
    for point in points:
        path.append(point)
        hear(point)
    return tuple(path)


def _ends(path: Sequence[PathPoint], criterion: SelectionCriterion, options: SelectionOptions, min_length: int) -> bool:
    """Return whether a path ends here, because scores fall or because its last value of l1 is reached."""
    if len(path) < min_length:
        return False
    if options.patience is None:
        return len(path) >= options.path_length
    if _length(path, options.patience, criterion) is not None:
        return True
    return len(path) >= options.path_length and not _rises_at_the_end(path, criterion)


def _rises_at_the_end(path: Sequence[PathPoint], criterion: SelectionCriterion) -> bool:
    """Return whether the last points of a path are better than all before, and so may be those that would follow."""
    return len(path) > 1 and _length(path, PATIENCE, criterion) is None


def _length(path: Sequence[PathPoint], patience: int, criterion: SelectionCriterion) -> int | None:
    """Return after how many points ``patience`` in a row were no better than the best before; None if never."""
    best, worse = path[0], 0
    for k, point in enumerate(path):
        better = k == 0 or point.score > best.score + criterion.min_improvement * abs(best.score)
        best, worse = (point, 0) if better else (best, worse + 1)
        if worse >= patience:
            return k + 1
    return None


def _warn_still_rising(l1: float) -> None:
    warnings.warn(
        f"The score still rises at the end of the regularization path, l1 = {l1:.3g}: the data support a smaller l1. "
        f"Pass one as a number, such as l1={0.1 * l1:.1g} (--l1), and compare the scores of other rows.",
        SelectionWarning,
        stacklevel=6,
    )


# -- pruning -----------------------------------------------------------------------------------------------------------


def prune_by_wald(path: Path, l2: float, gamma: float = EBIC().gamma) -> FitResult:
    """Refit the active features without L1, and drop those that EBIC does not support, repeatedly.

    A feature is kept when its Wald statistic exceeds the EBIC cost of one of its ends; the smaller cost counts. Where
    edges are penalized as groups, all features of an edge are tested together.
    """
    state, working_set = path.state, path.state.working_set
    if not isinstance(state.problem, DenseEvaluator):
        raise TypeError("weights of a sparse table have no Wald statistics")
    refitted = path.refit_without_l1(working_set.active, l2)
    costs = ebic_costs(state.layout, state.missing.observed_weights(), gamma)
    for _ in range(MAX_PRUNINGS):
        weights, arcs = working_set.theta[working_set.n_biases :], working_set.arcs
        required = np.full(len(weights), np.inf)
        np.minimum.at(required, arcs.feature, costs[arcs.target])
        statistics, degrees = state.problem.wald_statistics(arcs, weights, working_set.numbered_edges())
        supported = statistics * _observed_shares(state, arcs, len(weights)) > degrees * required
        if supported.all():
            break
        refitted = path.refit_without_l1(supported, l2)
    return refitted


def _observed_shares(state: State, arcs: Arcs, n_features: int) -> np.ndarray:
    """Return the share of the rows with an observed target in which the other columns of a feature are observed too.

    The data say about a weight what these rows say, and hardly more: completed rows would say too much. That the target
    is observed, Wald statistics take into account already. Shares are geometric means over the targets of a feature.
    """
    sizes = [schema.n_target_columns for schema in state.layout.schemas]
    totals = np.repeat(np.maximum(state.problem.total_weights, np.finfo(float).tiny), sizes)
    logs = np.log(np.maximum(state.missing.observed_weights() / totals, np.finfo(float).tiny))[arcs.target]
    ends = np.maximum(np.bincount(arcs.feature, minlength=n_features), 1)
    return np.exp(np.bincount(arcs.feature, logs, minlength=n_features) * (ends - 1) / ends)
