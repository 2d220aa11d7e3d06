"""Orthant-wise L-BFGS on the exact likelihood of linear chains, over a growing working set.

With l1, a round scores all candidates that are not in the working set, adds the largest scores beyond l1, and optimizes
the weights. Training ends when no candidate violates the optimality conditions.

The likelihood stays the same if a constant is added to the weights of an attribute with all labels, or to all
transitions. An optimizer makes little progress in these directions, which only the penalties curve, and their best
constant is known in closed form: `center` moves the weights by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sparsefield import config
from sparsefield.chain.likelihood import ChainLikelihood, score_candidates
from sparsefield.chain.model import ChainFeatures, features_of_keys
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
MAX_ROUNDS = 100


@dataclass(frozen=True)
class ChainOptions:
    """Options of the training of a chain."""

    l1: float
    l2: float
    max_iter: int = 1000
    kkt_tol: float = config.KKT_TOLERANCE

    @property
    def tolerance(self) -> float:
        """The violation with which a fit has converged: a share of l1, or of one count without l1."""
        return self.kkt_tol * (self.l1 if self.l1 > 0.0 else 1.0)


@dataclass(frozen=True)
class ChainProgress:
    """What a callback gets after each step."""

    iteration: int
    objective: float
    """Minus the log-likelihood, and penalties."""
    violation: float
    """Largest violation of the optimality conditions in the working set."""
    n_features: int
    """Features with a weight."""


@dataclass(frozen=True)
class ChainFit:
    """The result of training."""

    features: ChainFeatures
    theta: np.ndarray
    objective: float
    kkt_violation: float
    """Largest violation over all candidates."""
    converged: bool
    n_iter: int


Listener = Callable[[ChainProgress], None]
Groups = tuple[np.ndarray, ...]


class ChainTrainer:
    """Training of one chain.

    Parameters
    ----------
    likelihood : ChainLikelihood
    candidates : ChainFeatures
        With ``all_states``, only its transitions are used.
    all_states : bool
        Whether all pairs of an attribute and a label are candidates.
    """

    def __init__(
        self,
        likelihood: ChainLikelihood,
        candidates: ChainFeatures,
        *,
        all_states: bool = False,
        listener: Listener | None = None,
    ) -> None:
        self._likelihood, self._candidates, self._all_states = likelihood, candidates, all_states
        self._listener, self._iterations = listener, 0

    def fit(self, options: ChainOptions, start: ChainFit | None = None) -> ChainFit:
        """Return the weights at the optimum, from zero or from those of another fit."""
        self._iterations = 0
        keys, theta = self._first_working_set(options, start)
        problem = _WorkingProblem(self._likelihood, keys, theta, options)
        for _ in range(MAX_ROUNDS):
            newcomers, outside = self._newcomers(problem, options)
            worst = max(problem.violation(), outside)
            if worst <= options.tolerance or self._iterations >= options.max_iter or problem.stuck:
                break
            if len(newcomers):
                problem = problem.with_newcomers(newcomers)
                self._optimize(problem, options, ROUND_STEPS, ROUND_SHARE * outside)
            else:
                self._optimize(problem, options, options.max_iter)
        return problem.result(worst, self._iterations)

    def _first_working_set(self, options: ChainOptions, start: ChainFit | None) -> tuple[np.ndarray, np.ndarray]:
        """Return keys and weights: all candidates without l1, otherwise transitions and what ``start`` has."""
        steps = self._candidates.keys[self._candidates.n_states :]
        if options.l1 == 0.0:
            n, m = self._likelihood.table.n_attributes, self._likelihood.n_labels
            keys = np.concatenate([np.arange(n * m), steps]) if self._all_states else self._candidates.keys
        else:
            keys = steps if start is None else np.union1d(start.features.keys, steps)
        theta = np.zeros(len(keys))
        if start is not None:
            theta[np.searchsorted(keys, start.features.keys)] = start.theta
        return keys, theta

    def _optimize(self, problem: _WorkingProblem, options: ChainOptions, limit: int, enough: float = 0.0) -> None:
        """Take at most ``limit`` steps, until the violation in the working set is within the tolerance or enough."""
        enough = max(enough, options.tolerance)
        for _ in range(limit):
            if problem.violation() <= enough or self._iterations >= options.max_iter or not problem.step():
                break
            self._iterations += 1
            if self._listener is not None:
                n_features = int(np.count_nonzero(problem.point.coordinates))
                self._listener(ChainProgress(self._iterations, problem.point.value, problem.violation(), n_features))

    def _newcomers(self, problem: _WorkingProblem, options: ChainOptions) -> tuple[np.ndarray, float]:
        """Return the keys of the candidates with the largest scores, and their largest violation."""
        if options.l1 == 0.0:
            return np.empty(0, dtype=np.int64), 0.0
        candidates = None if self._all_states else self._candidates
        found = score_candidates(self._likelihood, problem.errors, candidates, options.l1 + 0.5 * options.tolerance)
        new = ~np.isin(found.keys, problem.keys, assume_unique=True)
        keys, sizes = found.keys[new], np.abs(found.scores[new])
        most = max(LEAST_NEWCOMERS, len(problem.keys))
        if len(keys) > most:
            keys = keys[np.sort(np.argsort(-sizes, kind="stable")[:most])]
        return keys, float(sizes.max(initial=options.l1) - options.l1)


class _WorkingProblem:
    """The features in the working set, their weights, and the optimizer."""

    def __init__(
        self,
        whole: ChainLikelihood,
        keys: np.ndarray,
        theta: np.ndarray,
        options: ChainOptions,
        optimizer: OrthantLBFGS | None = None,
    ) -> None:
        self._whole, self._options, self.keys = whole, options, keys
        n, m = whole.table.n_attributes, whole.n_labels
        used = np.unique(keys[: np.searchsorted(keys, n * m)] // m)
        if len(used) == n:
            self._likelihood, self._features = whole, features_of_keys(keys, n, m)
        else:
            table = whole.table.select_attributes(used)
            self._likelihood = ChainLikelihood(table, whole.codes, m, whole.engine)
            self._features = features_of_keys(_renumber(keys, used, n, m), len(used), m)
        self._penalty = NonsmoothPenalty(np.full(len(keys), options.l1))
        self._groups = constant_groups(self._features) if options.l1 > 0.0 else ()
        self.stuck = False
        memory = int(np.clip(MEMORY_NUMBERS // max(len(keys), 1), 6, MOST_MEMORY))
        self._optimizer = OrthantLBFGS(memory, subspace=True) if optimizer is None else optimizer
        self._scale = self._curvature() ** -PRECONDITIONER_POWER
        self.point = Point(theta, *self._evaluate(theta))

    @property
    def errors(self) -> np.ndarray:
        """Errors of the labels of all tokens at the current point, (tokens, width)."""
        return self._likelihood.errors

    def violation(self) -> float:
        """Return the largest violation of the optimality conditions in the working set."""
        slope = self._penalty.pseudo_gradient(self.point.coordinates, self.point.gradient)
        return float(np.abs(slope).max(initial=0.0))

    def step(self) -> bool:
        """Take one step; return whether there was one that lowers the objective."""
        found = self._optimizer.step(self.point, self._penalty, self._precondition, self._evaluate, self._center)
        if found is None:
            self._likelihood.update_errors(self._features, self.point.coordinates)
            self.stuck = True
            return False
        self.point = found
        return True

    def with_newcomers(self, newcomers: np.ndarray) -> _WorkingProblem:
        """Return the problem with features added, and without those that have no weight and no slope."""
        slope = self._penalty.pseudo_gradient(self.point.coordinates, self.point.gradient)
        kept = (self.point.coordinates != 0.0) | (slope != 0.0)
        kept[self._features.n_states :] = True
        keys = np.union1d(self.keys[kept], newcomers)
        places = np.searchsorted(keys, self.keys[kept])

        def carry(values: np.ndarray) -> np.ndarray:
            found = np.zeros(len(keys))
            found[places] = values[kept]
            return found

        self._optimizer.transform(carry, carry)
        return _WorkingProblem(self._whole, keys, carry(self.point.coordinates), self._options, self._optimizer)

    def result(self, violation: float, n_iter: int) -> ChainFit:
        """Return the features that have a weight."""
        active = np.flatnonzero(self.point.coordinates)
        table, m = self._whole.table, self._whole.n_labels
        features = features_of_keys(self.keys[active], table.n_attributes, m)
        theta, value = self.point.coordinates[active], self.point.value
        return ChainFit(features, theta, value, violation, violation <= self._options.tolerance, n_iter)

    def _evaluate(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        l2 = self._options.l2
        loss, gradient = self._likelihood.evaluate(self._features, theta)
        return loss + 0.5 * l2 * float(theta @ theta) + self._penalty.value(theta), gradient + l2 * theta

    def _center(self, theta: np.ndarray) -> np.ndarray:
        return center(theta, self._groups, self._options.l1, self._options.l2)

    def _precondition(self, gradient: np.ndarray) -> np.ndarray:
        return gradient * self._scale

    def _curvature(self) -> np.ndarray:
        """Return the diagonal of the Hessian where all weights are 0, transitions by their mean."""
        table, m = self._likelihood.table, self._likelihood.n_labels
        spread = (m - 1) / m**2 if m > 1 else 1.0
        squares = np.square(table.values) if len(table.values) else np.ones(len(table.attributes))
        sizes = np.bincount(table.attributes, squares, minlength=table.n_attributes)
        states = np.repeat(sizes, np.diff(self._features.offsets)) * spread
        steps = np.full(len(self._features.steps), max(table.n_tokens - table.n_sequences, 1) / m**2)
        return np.concatenate([states, steps]) + self._options.l2 + 1e-3


def _renumber(keys: np.ndarray, used: np.ndarray, n: int, m: int) -> np.ndarray:
    """Return keys for a table that has only the attributes in ``used``."""
    states = np.searchsorted(keys, n * m)
    place = np.searchsorted(used, keys[:states] // m)
    return np.concatenate([place * m + keys[:states] % m, keys[states:] - (n - len(used)) * m])


def constant_groups(features: ChainFeatures) -> Groups:
    """Return arrays (groups, size) of numbers of features to whose weights a constant may be added."""
    m, n_states = features.n_labels, features.n_states
    if m < 2:
        return ()
    starts = features.offsets[:-1][np.diff(features.offsets) == m]
    found = [starts[:, None] + np.arange(m)] if len(starts) else []
    if len(features.steps) == m * m:
        found.append(n_states + np.arange(m * m)[None, :])
    return tuple(found)


def center(theta: np.ndarray, groups: Groups, l1: float, l2: float) -> np.ndarray:
    """Return weights with the constants that make the penalties smallest.

    Examples
    --------
    >>> center(np.array([3.0, 1.0, 1.5]), (np.array([[0, 1, 2]]),), 1.0, 0.0)
    array([ 1.5, -0.5,  0. ])
    """
    found = theta.copy()
    for members in groups:
        found[members] = _shift(theta[members], l1, l2)
    return found


def _shift(weights: np.ndarray, l1: float, l2: float) -> np.ndarray:
    """Add to each row the c that minimizes the sum of l1 x abs(w + c) + l2 / 2 x (w + c)^2.

    The slope in c rises along the breakpoints -w, by 2 x l1 at each. Either it changes its sign at a breakpoint, where
    a weight becomes exactly 0, or between two.
    """
    n, m = weights.shape
    rows, total = np.arange(n), weights.sum(axis=1)
    order = np.argsort(-weights, axis=1, kind="stable")
    breaks = -np.take_along_axis(weights, order, axis=1)
    smooth = l2 * (total[:, None] + m * breaks)
    below = l1 * (2.0 * np.arange(m) - m) + smooth
    first = np.minimum((below + 2.0 * l1 < 0.0).sum(axis=1), m - 1)
    at_break = below[rows, first] <= 0.0
    inner = -(l1 * (2.0 * first - m) / l2 + total) / m if l2 > 0.0 else np.zeros(n)
    shifted = weights + np.where(at_break, breaks[rows, first], inner)[:, None]
    zero = order[rows, first]
    shifted[rows[at_break], zero[at_break]] = 0.0
    return shifted
