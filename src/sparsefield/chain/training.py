"""Orthant-wise L-BFGS on the exact likelihood of linear chains over a growing working set, and the choice of l1.

With l1, a round scores all candidates, adds the largest scores beyond l1 to the working set, and optimizes the weights.
Training ends when no candidate violates the optimality conditions.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

import sparsefield
from sparsefield.chain.model import ChainFeatures, ChainWeights, features_of_keys
from sparsefield.chain.problem import ChainProblem, candidate_features
from sparsefield.errors import DataError
from sparsefield.induction import InductionRule
from sparsefield.model.fit_record import FitRecord, IterationRecord, PathRow
from sparsefield.solver import EBIC, HeldOut, SelectionCriterion, Solver
from sparsefield.solver.owlqn import OrthantLBFGS, Point
from sparsefield.solver.penalty import NonsmoothPenalty

MOST_MEMORY = 40
MEMORY_NUMBERS = 10**7
"""Numbers that the memory of the optimizer may hold; long vectors have fewer of them."""
PRECONDITIONER_POWER = 0.3
"""Power of the diagonal of the Hessian at 0 that scales the weights. Its full size, power 1, helps at the beginning and
slows down the end, because directions that all tokens share have far less curvature than their coordinates."""
MIN_BATCH = 512
ROUND_STEPS = 25
ROUND_SHARE = 0.1
"""Steps of a round with new features at most, and the share of the largest violation outside of the working set within
which the violation in it ends the round."""
PATH_LENGTH, PATIENCE = 8, 2
"""Values of l1 at most, each a factor of the root of 10 apart, and how many without an improvement end the path."""
PATH_KKT_TOLERANCE = 0.1


@dataclass(frozen=True)
class ChainTrainer:
    """Training of a chain on one problem, for any l1; the options are those of `ChainCRF`."""

    problem: ChainProblem
    l2: float
    solver: Solver
    rule: InductionRule
    all_states: bool = False
    all_transitions: bool = False
    intercept: bool = True

    @cached_property
    def candidates(self) -> ChainFeatures:
        """All features that may have a weight."""
        return candidate_features(self.problem, self.all_states, self.all_transitions, self.intercept)

    def fit(self, l1: float, start: ChainWeights | None = None) -> tuple[ChainWeights, FitRecord]:
        """Return the weights at the optimum, from zero or from other weights, and the record of the fit."""
        begin, log, limit = time.perf_counter(), list[IterationRecord](), self.solver.max_iter
        inducing = l1 > 0.0 and not self.rule.fixed_candidates
        working_set = self._first_working_set(l1, start, inducing)
        tolerance = self.solver.kkt_tol * (l1 if l1 > 0.0 else 1.0)
        steps = {"auto": ROUND_STEPS, "converge": limit}.get(str(self.rule.steps_per_batch), self.rule.steps_per_batch)
        while True:
            batch, outside = self._score(working_set, l1, tolerance) if inducing else (np.empty(0), 0.0)
            violation = max(working_set.violation(), outside)
            if violation <= tolerance or len(log) >= limit or (working_set.stuck and not len(batch)):
                break
            if len(batch):
                working_set = working_set.with_batch(batch)
            phase, enough = ("induce", max(ROUND_SHARE * outside, tolerance)) if len(batch) else ("optimize", tolerance)
            for _ in range(min(int(steps) if len(batch) else limit, limit - len(log))):
                if working_set.violation() <= enough or not working_set.step():
                    break
                log.append(working_set.record(len(log) + 1, phase, time.perf_counter() - begin))
                if self.solver.callbacks is not None:
                    self.solver.callbacks.iteration(log[-1])
        record = FitRecord(
            version=sparsefield.__version__,
            n_rows=self.problem.table.n_sequences,
            l1=l1,
            objective=working_set.point.value,
            kkt_violation=violation,
            converged=violation <= tolerance,
            iterations=tuple(log),
        )
        return working_set.active_weights(), record

    def l1_max(self) -> float:
        """Return the largest score of a state feature where all weights are 0."""
        self.problem.evaluate(ChainWeights(self.candidates, np.zeros(self.candidates.size)))
        return float(np.abs(self.problem.state_sums(self.candidates, self.problem.errors)).max(initial=0.0))

    def _first_working_set(self, l1: float, start: ChainWeights | None, inducing: bool) -> _WorkingSet:
        """Return all candidates, or, where others are added later, transitions, intercepts and those of ``start``."""
        candidates = self.candidates
        keys = candidates.keys[candidates.n_states :] if inducing else candidates.keys
        theta = np.zeros(len(keys))
        if start is not None:
            known = np.isin(start.features.keys, candidates.keys)
            started = start.features.keys[known]
            keys = np.union1d(keys, started)
            theta = np.zeros(len(keys))
            theta[np.searchsorted(keys, started)] = start.theta[known]
        return _WorkingSet(self.problem, keys, theta, l1, self.l2)

    def _score(self, working_set: _WorkingSet, l1: float, tolerance: float) -> tuple[np.ndarray, float]:
        """Return the keys of the candidates outside of the working set with the largest scores, and their violation."""
        scores = np.abs(self.problem.state_sums(self.candidates, working_set.errors))
        large = np.flatnonzero(scores > l1 + 0.5 * tolerance)
        large = large[~np.isin(self.candidates.keys[large], working_set.keys, assume_unique=True)]
        size = self.rule.batch_size
        most = max(MIN_BATCH, len(working_set.keys)) if size == "auto" else int(size)
        violation = float(scores[large].max(initial=l1) - l1)
        if len(large) > most:
            large = np.sort(large[np.argsort(-scores[large], kind="stable")[:most]])
        return self.candidates.keys[large], violation


class _WorkingSet:
    """Features, their weights, and the optimizer; other attributes are left out of the problem."""

    def __init__(
        self,
        whole: ChainProblem,
        keys: np.ndarray,
        theta: np.ndarray,
        l1: float,
        l2: float,
        optimizer: OrthantLBFGS | None = None,
    ) -> None:
        self._whole, self._l1, self._l2, self.keys = whole, l1, l2, keys
        n, m = whole.table.n_columns, whole.n_labels
        states, others = np.split(keys, [np.searchsorted(keys, n * m)])
        used = np.unique(states // m)
        self._problem = whole if len(used) == n else whole.select_attributes(used)
        places = np.searchsorted(used, states // m) * m + states % m
        self._features = features_of_keys(np.concatenate([places, others - (n - len(used)) * m]), len(used), m)
        strengths = np.full(len(keys), l1)
        strengths[self._features.n_pairs :] = 0.0  # intercepts
        self._penalty = NonsmoothPenalty(strengths)
        self.stuck = False
        memory = int(np.clip(MEMORY_NUMBERS // max(len(keys), 1), 6, MOST_MEMORY))
        self._optimizer = OrthantLBFGS(memory, subspace=True) if optimizer is None else optimizer
        self._scale = (self._problem.curvature(self._features) + l2 + 1e-3) ** -PRECONDITIONER_POWER
        self.point = Point(theta, *self._evaluate(theta))

    @property
    def errors(self) -> np.ndarray:
        """Errors of the labels of all tokens at the current point, (tokens, width)."""
        return self._problem.errors

    def violation(self) -> float:
        """Return the largest violation of the optimality conditions in the working set."""
        return float(np.abs(self._pseudo_gradient()).max(initial=0.0))

    def step(self) -> bool:
        """Take one step; return whether there was one that lowers the objective."""
        point = self._optimizer.step(
            self.point, self._penalty, lambda gradient: gradient * self._scale, self._evaluate, lambda theta: theta
        )
        if point is None:
            self._evaluate(self.point.coordinates)  # errors are those of the last trial
            self.stuck = True
            return False
        self.point = point
        return True

    def with_batch(self, batch: np.ndarray) -> _WorkingSet:
        """Return the working set with features added, and without state features that have no weight and no slope."""
        theta = self.point.coordinates
        stays = (theta != 0.0) | (self._pseudo_gradient() != 0.0)
        stays[self._features.n_states :] = True
        keys = np.union1d(self.keys[stays], batch)
        places = np.searchsorted(keys, self.keys[stays])

        def carry(values: np.ndarray) -> np.ndarray:
            carried = np.zeros(len(keys))
            carried[places] = values[stays]
            return carried

        self._optimizer.transform(carry, carry)
        return _WorkingSet(self._whole, keys, carry(theta), self._l1, self._l2, self._optimizer)

    def active_weights(self) -> ChainWeights:
        """Return the features that have a weight."""
        active = np.flatnonzero(self.point.coordinates)
        features = features_of_keys(self.keys[active], self._whole.table.n_columns, self._whole.n_labels)
        return ChainWeights(features, self.point.coordinates[active])

    def record(self, iteration: int, phase: str, seconds: float) -> IterationRecord:
        """Return the line of the training log at the current point."""
        theta, value = self.point.coordinates, self.point.value
        l1_norm, active = float(np.abs(theta).sum()), int(np.count_nonzero(theta))
        loss = value - self._penalty_value(theta)
        return IterationRecord(iteration, value, loss, l1_norm, len(theta), active, phase, seconds)

    def _pseudo_gradient(self) -> np.ndarray:
        return self._penalty.pseudo_gradient(self.point.coordinates, self.point.gradient)

    def _penalty_value(self, theta: np.ndarray) -> float:
        return 0.5 * self._l2 * float(theta @ theta) + self._penalty.value(theta)

    def _evaluate(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradient = self._problem.evaluate(ChainWeights(self._features, theta))
        return loss + self._penalty_value(theta), gradient + self._l2 * theta


def select_l1(
    trainer: ChainTrainer, criterion: SelectionCriterion, rng: np.random.Generator
) -> tuple[float, tuple[PathRow, ...], ChainWeights]:
    """Return the l1 of the best score along a path from large to small values, the path, and weights near the optimum.

    `HeldOut` scores by the log-likelihood of held-out sequences per token, pooled over folds; `EBIC` by minus half of
    the criterion per token. Both weigh sequences.
    """
    solver = replace(trainer.solver, kkt_tol=max(trainer.solver.kkt_tol, PATH_KKT_TOLERANCE))
    trainer, problem = replace(trainer, solver=solver), trainer.problem
    folds = [(trainer, problem)]
    if isinstance(criterion, HeldOut):
        parts = _divide(problem.table.n_sequences, criterion, rng)
        rest = [np.setdiff1d(np.arange(problem.table.n_sequences), part) for part in parts]
        training = [replace(trainer, problem=problem.select_sequences(part)) for part in rest]
        folds = list(zip(training, map(problem.select_sequences, parts), strict=True))
    first = trainer.l1_max() or 1.0
    fits: list[ChainWeights] = []
    rows: list[PathRow] = []
    best, near = 0, None
    for k in range(PATH_LENGTH):
        l1 = float(f"{first * 10.0 ** (-0.5 * (k + 1)):.2g}")
        starts = fits or [None] * len(folds)
        fits = [fold.fit(l1, weights)[0] for (fold, _), weights in zip(folds, starts, strict=True)]
        score, error = _pooled_score([(test, weights) for (_, test), weights in zip(folds, fits, strict=True)])
        size = fits[0].features.n_pairs
        if isinstance(criterion, EBIC):
            n_tokens, n_candidates = float(problem.known_tokens.sum()), trainer.candidates.n_pairs
            cost = size * (np.log(n_tokens) + 2.0 * criterion.gamma * np.log(n_candidates))
            score, error = score - 0.5 * float(cost) / n_tokens, None
        rows.append(PathRow(l1, size, score, error, selected=False))
        if near is None or score > rows[best].score:
            best, near = k, fits[0]
        if k - best == PATIENCE:
            break
    assert near is not None
    path = tuple(PathRow(r.l1, r.features, r.score, r.error, selected=k == best) for k, r in enumerate(rows))
    return path[best].l1, path, near


def _divide(n: int, criterion: HeldOut, rng: np.random.Generator) -> list[np.ndarray]:
    """Return the numbers of the sequences that each fold holds out."""
    if n < 2:
        raise DataError("l1 cannot be selected from one sequence: pass a number, or divide the sequence.")
    n_folds, order = min(criterion.n_folds(n), n), rng.permutation(n)
    count = int(np.clip(round(criterion.fraction * n), 1, n - 1))
    return [np.sort(part) for part in ([order[:count]] if n_folds == 1 else np.array_split(order, n_folds))]


def _pooled_score(folds: list[tuple[ChainProblem, ChainWeights]]) -> tuple[float, float | None]:
    """Return the weighted log-likelihood per known token, and its standard error over sequences (ratio estimator)."""
    sums = np.concatenate([problem.sequence_weights * problem.log_likelihoods(weights) for problem, weights in folds])
    tokens = np.concatenate([problem.known_tokens for problem, _ in folds])
    total, n = max(float(tokens.sum()), np.finfo(float).tiny), len(sums)
    score = float(sums.sum()) / total
    spread = np.sqrt(n / max(n - 1, 1) * np.square(sums - score * tokens).sum())
    return score, float(spread / total) if n > 1 else None
