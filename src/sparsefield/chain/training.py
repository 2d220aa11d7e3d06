"""Orthant-wise L-BFGS on the exact likelihood of linear chains over a growing working set, and the choice of l1.

With l1, a round scores all candidates that are not in the working set, adds the largest scores beyond l1, and optimizes
the weights. Training ends when no candidate violates the optimality conditions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

import sparsefield
from sparsefield.chain.model import ChainFeatures, ChainWeights, features_of_keys
from sparsefield.chain.problem import ChainProblem, seen_features
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
LEAST_NEWCOMERS = 512
ROUND_STEPS = 25
ROUND_SHARE = 0.1
"""Steps of a round with new features at most, and the share of the largest violation outside of the working set within
which the violation in it ends the round."""
MOST_CANDIDATES = 2 * 10**8
"""Weights that fit into memory."""
PATH_LENGTH, PATIENCE = 8, 2
"""Values of l1 at most, each a factor of the root of 10 apart, and how many without an improvement end the path."""
PATH_KKT_TOLERANCE = 0.1


@dataclass(frozen=True)
class ChainTrainer:
    """Training of a chain on one problem, for any l1."""

    problem: ChainProblem
    l2: float
    solver: Solver
    rule: InductionRule
    all_states: bool = False
    """Whether all pairs of an attribute and a label are candidates."""
    all_transitions: bool = False
    intercept: bool = True
    callback: Callable[[IterationRecord], None] | None = None

    @cached_property
    def candidates(self) -> ChainFeatures:
        """The candidates; with ``all_states``, only its transitions and intercepts are used."""
        return seen_features(self.problem, all_transitions=self.all_transitions, intercept=self.intercept)

    @property
    def n_candidates(self) -> int:
        """Number of state and transition features that may have a weight."""
        n_states = self.problem.table.n_attributes * self.problem.n_labels
        return len(self.candidates.steps) + (n_states if self.all_states else self.candidates.n_states)

    def fit(self, l1: float, start: ChainWeights | None = None) -> tuple[ChainWeights, FitRecord]:
        """Return the weights at the optimum, from zero or from other weights, and the record of the fit."""
        begin, log = time.perf_counter(), list[IterationRecord]()
        keys, theta = self._first_working_set(l1, start)
        working = _WorkingSet(self.problem, keys, theta, l1, self.l2)
        tolerance = self.solver.kkt_tol * (l1 if l1 > 0.0 else 1.0)
        words = {"auto": ROUND_STEPS, "converge": self.solver.max_iter}
        steps = int(words.get(str(self.rule.steps_per_batch), self.rule.steps_per_batch))
        while True:
            newcomers, outside = self._newcomers(working, l1, tolerance)
            violation = max(working.violation(), outside)
            stuck = working.stuck and not len(newcomers)
            if violation <= tolerance or len(log) >= self.solver.max_iter or stuck:
                break
            working = working.with_newcomers(newcomers) if len(newcomers) else working
            limit, share = (steps, ROUND_SHARE) if len(newcomers) else (self.solver.max_iter, 0.0)
            for _ in range(min(limit, self.solver.max_iter - len(log))):
                if working.violation() <= max(share * outside, tolerance) or not working.step():
                    break
                phase, seconds = "induce" if len(newcomers) else "optimize", time.perf_counter() - begin
                log.append(working.record(len(log) + 1, phase, seconds))
                if self.callback is not None:
                    self.callback(log[-1])
        record = FitRecord(
            version=sparsefield.__version__,
            n_rows=self.problem.table.n_sequences,
            l1=l1,
            objective=working.point.value,
            kkt_violation=violation,
            converged=violation <= tolerance,
            iterations=tuple(log),
        )
        return working.active_weights(), record

    def largest_score(self) -> float:
        """Return the largest score of a pair of attribute and label that occur together, where all weights are 0."""
        candidates = self.candidates
        self.problem.evaluate(ChainWeights(candidates, np.zeros(candidates.size)))
        return float(np.abs(self.problem.state_sums(candidates, self.problem.errors)).max(initial=0.0))

    def _first_working_set(self, l1: float, start: ChainWeights | None) -> tuple[np.ndarray, np.ndarray]:
        """Return keys and weights.

        Without l1, or by a rule with fixed candidates, these are all candidates; otherwise transitions, intercepts and
        what ``start`` has.
        """
        candidates, n_pairs = self.candidates, self.problem.table.n_attributes * self.problem.n_labels
        keys = candidates.keys[candidates.n_states :]
        if l1 == 0.0 or self.rule.fixed_candidates:
            if self.all_states and n_pairs > MOST_CANDIDATES:
                raise DataError(f"{n_pairs:,} weights are too many: set l1 above 0, or all_states=False.")
            keys = np.concatenate([np.arange(n_pairs), keys]) if self.all_states else candidates.keys
        if start is None:
            return keys, np.zeros(len(keys))
        there = np.isin(start.features.keys, candidates.keys)
        if self.all_states:
            there[: start.features.n_states] = True
        chosen = start.features.keys[there]
        keys = np.union1d(keys, chosen)
        theta = np.zeros(len(keys))
        theta[np.searchsorted(keys, chosen)] = start.theta[there]
        return keys, theta

    def _newcomers(self, working: _WorkingSet, l1: float, tolerance: float) -> tuple[np.ndarray, float]:
        """Return the keys of the candidates with the largest scores, and their largest violation."""
        if l1 == 0.0 or self.rule.fixed_candidates:
            return np.empty(0, dtype=np.int64), 0.0
        threshold = l1 + 0.5 * tolerance
        if self.all_states:
            keys, scores = self.problem.large_scores(working.errors, threshold)
        else:
            scores = self.problem.state_sums(self.candidates, working.errors)
            large = np.flatnonzero(np.abs(scores) > threshold)
            keys, scores = self.candidates.keys[large], scores[large]
        new = ~np.isin(keys, working.keys, assume_unique=True)
        keys, sizes = keys[new], np.abs(scores[new])
        size = self.rule.batch_size
        most = max(LEAST_NEWCOMERS, len(working.keys)) if size == "auto" else int(size)
        if len(keys) > most:
            keys = keys[np.sort(np.argsort(-sizes, kind="stable")[:most])]
        return keys, float(sizes.max(initial=l1) - l1)


class _WorkingSet:
    """The features in the working set, their weights, and the optimizer."""

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
        n, m = whole.table.n_attributes, whole.n_labels
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
        slope = self._penalty.pseudo_gradient(self.point.coordinates, self.point.gradient)
        return float(np.abs(slope).max(initial=0.0))

    def step(self) -> bool:
        """Take one step; return whether there was one that lowers the objective."""
        point = self._optimizer.step(self.point, self._penalty, self._precondition, self._evaluate, lambda theta: theta)
        if point is None:
            self._evaluate(self.point.coordinates)  # errors are those of the last trial
            self.stuck = True
            return False
        self.point = point
        return True

    def with_newcomers(self, newcomers: np.ndarray) -> _WorkingSet:
        """Return the working set with features added, and without state features that have no weight and no slope."""
        slope = self._penalty.pseudo_gradient(self.point.coordinates, self.point.gradient)
        stays = (self.point.coordinates != 0.0) | (slope != 0.0)
        stays[self._features.n_states :] = True
        keys = np.union1d(self.keys[stays], newcomers)
        places = np.searchsorted(keys, self.keys[stays])

        def carry(values: np.ndarray) -> np.ndarray:
            carried = np.zeros(len(keys))
            carried[places] = values[stays]
            return carried

        self._optimizer.transform(carry, carry)
        theta = carry(self.point.coordinates)
        return _WorkingSet(self._whole, keys, theta, self._l1, self._l2, self._optimizer)

    def active_weights(self) -> ChainWeights:
        """Return the features that have a weight."""
        active = np.flatnonzero(self.point.coordinates)
        features = features_of_keys(self.keys[active], self._whole.table.n_attributes, self._whole.n_labels)
        return ChainWeights(features, self.point.coordinates[active])

    def record(self, iteration: int, phase: str, seconds: float) -> IterationRecord:
        """Return the line of the training log at the current point."""
        theta, value = self.point.coordinates, self.point.value
        l1_norm, active = float(np.abs(theta).sum()), int(np.count_nonzero(theta))
        loss = value - self._penalty_value(theta)
        return IterationRecord(iteration, value, loss, l1_norm, len(theta), active, phase, seconds)

    def _penalty_value(self, theta: np.ndarray) -> float:
        return 0.5 * self._l2 * float(theta @ theta) + self._penalty.value(theta)

    def _evaluate(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradient = self._problem.evaluate(ChainWeights(self._features, theta))
        return loss + self._penalty_value(theta), gradient + self._l2 * theta

    def _precondition(self, gradient: np.ndarray) -> np.ndarray:
        return gradient * self._scale


def select_l1(
    trainer: ChainTrainer, criterion: SelectionCriterion, rng: np.random.Generator
) -> tuple[float, tuple[PathRow, ...], ChainWeights]:
    """Return the l1 of the best score along a path from large to small values, the path, and weights near the optimum.

    `HeldOut` scores by the log-likelihood of held-out sequences per token, pooled over folds; `EBIC` by minus half of
    the criterion per token. Both weigh sequences.
    """
    solver = replace(trainer.solver, kkt_tol=max(trainer.solver.kkt_tol, PATH_KKT_TOLERANCE))
    trainer = replace(trainer, solver=solver)
    folds = [(trainer, trainer.problem)]
    if isinstance(criterion, HeldOut):
        folds = [
            (replace(trainer, problem=trainer.problem.select_sequences(train)), trainer.problem.select_sequences(test))
            for train, test in _split(trainer.problem.table.n_sequences, criterion, rng)
        ]
    largest = trainer.largest_score() or 1.0
    fits: list[ChainWeights] = []
    rows: list[PathRow] = []
    best, start = 0, None
    for k in range(PATH_LENGTH):
        l1 = float(f"{largest * 10.0 ** (-0.5 * (k + 1)):.2g}")
        starts = fits or [None] * len(folds)
        fits = [fold.fit(l1, weights)[0] for (fold, _), weights in zip(folds, starts, strict=True)]
        score, error = _pooled_score([(test, weights) for (_, test), weights in zip(folds, fits, strict=True)])
        size = fits[0].features.n_pairs
        if isinstance(criterion, EBIC):
            n_tokens, n_candidates = float(trainer.problem.known_tokens.sum()), trainer.n_candidates
            cost = size * (np.log(n_tokens) + 2.0 * criterion.gamma * np.log(n_candidates))
            score, error = score - 0.5 * float(cost) / n_tokens, None
        rows.append(PathRow(l1, size, score, error, selected=False))
        if start is None or score > rows[best].score:
            best, start = k, fits[0]
        if k - best == PATIENCE:
            break
    assert start is not None
    path = tuple(PathRow(r.l1, r.features, r.score, r.error, selected=k == best) for k, r in enumerate(rows))
    return path[best].l1, path, start


def _split(n: int, criterion: HeldOut, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the numbers of the sequences to train with and to hold out, for each fold."""
    if n < 2:
        raise DataError("l1 cannot be selected from one sequence: pass a number, or divide the sequence.")
    n_folds, order = min(criterion.n_folds(n), n), rng.permutation(n)
    count = int(np.clip(round(criterion.fraction * n), 1, n - 1))
    parts = [order[:count]] if n_folds == 1 else np.array_split(order, n_folds)
    return [(np.setdiff1d(order, part), np.sort(part)) for part in parts]


def _pooled_score(folds: list[tuple[ChainProblem, ChainWeights]]) -> tuple[float, float | None]:
    """Return the weighted log-likelihood per known token, and its standard error over sequences (ratio estimator)."""
    sums = np.concatenate([problem.sequence_weights * problem.log_likelihoods(weights) for problem, weights in folds])
    tokens = np.concatenate([problem.known_tokens for problem, _ in folds])
    total, n = max(float(tokens.sum()), np.finfo(float).tiny), len(sums)
    score = float(sums.sum()) / total
    spread = np.sqrt(n / max(n - 1, 1) * np.square(sums - score * tokens).sum())
    return score, float(spread / total) if n > 1 else None
