"""Path: fits at falling values of l1, each from the weights of the last; and stability selection by fits to halves.

Halves are drawn in complementary pairs, which share no row (Shah and Samworth, 2013).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from sparsefield.compute import Engine
from sparsefield.data import Dataset, Layout, deduplicate_rows, weigh_rows
from sparsefield.induction import InductionRule
from sparsefield.inference import InferenceMethod, MeanField
from sparsefield.inference.method import PATH_TOLERANCE
from sparsefield.model import Field, pad_features
from sparsefield.objectives import EM, Objective
from sparsefield.parameters import CHECKPOINT_NAME
from sparsefield.solver.checkpoint import CheckpointFile, fingerprint, load_state, make_folder, save_state
from sparsefield.solver.fit import EXACT, add_features, add_start, begin, drop_inactive, fit, optimize, score
from sparsefield.solver.policy import TrainingOptions
from sparsefield.solver.state import FitCallbacks, FitResult, State, WarmStart

MAX_SPARSE_PAIRS = 1_000_000
"""Pairs of a sparse table that are added at one value of l1."""

MIN_L1 = 1e-6
"""Smaller gradients are rounding errors."""

MAX_COMPONENT = 0.1
"""Linked rows are halved by connected components, which are independent, unless one has more than this share of all
rows. Then rows are halved, and those of the other half remain as neighbors."""


class Path:
    """Fits of one dataset along l1, each from the weights of the last.

    Parameters
    ----------
    dataset : compiled tables
    rule, objective, missing, options : of the fits
    engine : where rows are evaluated
    callbacks : called after each step
    checkpoint : folder of the state of an interrupted fit, from which `run` goes on
    start : initial features and weights of `run`
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        rule: InductionRule,
        objective: Objective,
        missing: EM | InferenceMethod,
        options: TrainingOptions,
        engine: Engine,
        callbacks: FitCallbacks | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        start: WarmStart | None = None,
    ) -> None:
        self.rule, self._start = rule, start
        self._checkpoint = None
        if checkpoint is not None:
            mark = fingerprint(dataset, rule, objective, missing, options)
            self._checkpoint = CheckpointFile(make_folder(checkpoint) / CHECKPOINT_NAME, mark)
        if dataset.has_expected_sums and isinstance(missing, EM):
            missing = MeanField(tolerance=PATH_TOLERANCE)
        if dataset.is_sparse:
            options = replace(options, penalty="l1")  # an edge of binary variables is one pair
        problem = objective.make_problem(dataset, engine, missing)
        self.state = State(problem, options, callbacks, start, missing if dataset.has_missing else None)
        self.state.fixed = rule.fixed_candidates

    @property
    def options(self) -> TrainingOptions:
        return self.state.options

    @property
    def layout(self) -> Layout:
        return self.state.layout

    def run(self) -> FitResult:
        """Fit at the first l1, from the start, or from the checkpoint where there is one."""
        start, checkpoint = self._start, self._checkpoint
        if checkpoint is not None:
            saved = load_state(checkpoint)
            if saved is not None:
                start = replace(saved[0], latent=start is not None and start.latent)
                self.state.continue_log(saved[1])
            self.state.save = partial(save_state, checkpoint)
        begin(self.state, self.rule, start)
        result = fit(self.state, None if self.state.fixed else self.rule)
        if checkpoint is not None:
            self.state.save = None
            checkpoint.clear()
        return result

    def step_to(self, l1: float, start: WarmStart | None = None, *, ahead: bool = True) -> FitResult:
        """Fit approximately at another l1, from the last weights or from given ones: score all candidates once, add.

        Between two values of l1 gradients rarely change faster than l1 itself (the strong rule of Tibshirani et al.),
        so candidates within that distance of a smaller l1 are added, unless ``ahead`` is false: most of them are not
        needed, and weights that are about to leave 0 hardly matter. The next step adds what was missed.
        """
        state, last = self.state, self.options.l1
        self._go_on_from(start, l1)
        if self.options.max_order > 2:
            return fit(state)  # many conjunctions look useful until a few of them are added
        if not state.fixed:
            near = max(2.0 * l1 - last, 0.5 * l1) if ahead and l1 < last < 2.0 * l1 else l1
            proposals = score(state, EXACT, None if state.problem.keeps_errors else MAX_SPARSE_PAIRS, l1=near)
            drop_inactive(state)
            add_features(state, proposals.features, near)
        optimize(state, "path", exact=False)
        return state.result()

    def l1_max(self) -> float:
        """Return the smallest l1 that leaves every feature at 0, after a fit that did; 0 for independent columns."""
        state, working_set = self.state, self.state.working_set
        if state.fixed:
            penalty = replace(working_set.penalty, l1=1.0).nonsmooth
            return float(penalty.scaled_norms(working_set.loss_gradient)[working_set.n_biases :].max(initial=0.0))
        l1 = max(state.problem.total_weights, default=0.0)
        while l1 > MIN_L1:
            proposals = score(state, EXACT, 1, l1=l1)
            if len(proposals):
                return float(proposals.score.max())
            l1 *= 0.5
        return 0.0

    def refit_without_l1(self, mask: np.ndarray, l2: float) -> FitResult:
        """Fit some features of the working set, by a mask, with L2 alone, and nothing else from now on."""
        state = self.state
        state.fixed = True
        state.options = replace(state.options, kkt_tol=state.options.allowed_violation, certify=True)
        state.working_set.keep(mask)
        state.set_penalty(0.0, l2)
        return fit(state)

    def refitted(self, l2: float) -> Field:
        """Return the field with its features estimated again without L1, and go back to the point of the path."""
        state, options, fixed = self.state, self.options, self.state.fixed
        start = WarmStart.from_field(state.working_set.field)
        field = self.refit_without_l1(state.working_set.active, l2).field
        state.options, state.fixed = options, fixed
        self._go_on_from(start, options.l1, options.l2)
        return field

    def _go_on_from(self, start: WarmStart | None, l1: float, l2: float | None = None) -> None:
        self.state.set_penalty(l1, l2, start)
        if start is not None and self.state.fixed:
            add_start(self.state, self.rule)


@dataclass(frozen=True)
class Selections:
    """Counts of how often each feature was selected."""

    features: np.ndarray
    """(features, columns): features that were selected at least once, padded with -1."""
    keys: np.ndarray
    """(features,): ascending, from `Layout.keys`."""
    times: np.ndarray
    """(features,): number of resamples that selected each."""
    resamples: int
    mean_pairs: float
    """Mean number of pairs that a resample selects."""
    unconverged: int
    """Number of fits that did not converge."""

    def frequencies_of(self, keys: np.ndarray) -> np.ndarray:
        """Return the share of resamples that selected each feature, (keys,)."""
        if not len(self.keys):
            return np.zeros(len(keys))
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.times[place], 0) / self.resamples


def count_selections(
    dataset: Dataset,
    make: Callable[[Dataset], Path],
    *,
    pairs: int,
    seed: int,
    width: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> Selections:
    """Learn from both halves of the dataset, ``pairs`` times, and count the selected features.

    Parameters
    ----------
    make : returns a path for a half
    width : largest number of columns of a feature
    progress : called with the number of resamples done, and their total
    """
    parts, n_pairs, unconverged = [pad_features(np.empty((0, 2), dtype=np.int64), width)], 0, 0
    rng = np.random.default_rng(seed)
    halves = (rows for _ in range(pairs) for rows in draw_halves(dataset, rng))
    for done, rows in enumerate(halves, start=1):
        if dataset.is_single:
            half = deduplicate_rows(dataset.subset(rows))
        else:
            half = weigh_rows(dataset, np.bincount(rows, minlength=dataset.n_rows).astype(float))
        learned = make(half).run()
        parts.append(pad_features(learned.field.features, width))
        n_pairs += len(learned.field.weights)
        unconverged += not learned.converged
        if progress is not None:
            progress(done, 2 * pairs)
    every = np.concatenate(parts)
    keys, first, times = np.unique(dataset.layout.keys(every), return_index=True, return_counts=True)
    return Selections(every[first], keys, times, 2 * pairs, n_pairs / (2 * pairs), unconverged)


def halved_by(dataset: Dataset) -> Literal["rows", "components", "linked rows"]:
    """Return the unit that is halved: rows; of linked tables connected components, or "linked rows"."""
    if dataset.is_single:
        return "rows"
    largest = np.bincount(dataset.components).max()
    return "components" if largest <= MAX_COMPONENT * dataset.n_rows else "linked rows"


def draw_halves(dataset: Dataset, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the rows, ascending, of two disjoint halves; an odd row is in neither."""
    if halved_by(dataset) == "components":
        sizes = np.bincount(dataset.components)
        order = rng.permutation(len(sizes))
        first = np.isin(dataset.components, order[np.cumsum(sizes[order]) <= dataset.n_rows / 2])
        return np.flatnonzero(first), np.flatnonzero(~first)
    order, half = rng.permutation(dataset.n_rows), dataset.n_rows // 2
    return np.sort(order[:half]), np.sort(order[half : 2 * half])
