"""Permutation tests of whether the networks of groups of rows differ, and the fits of groups that they need.

As in the NetworkComparisonTest (van Borkulo and others, 2022), each group is fitted by itself, at a fixed l1, and the
labels of the groups are permuted among rows, which are complete. Permuted groups differ from all rows by chance alone,
so a quadratic model of the loss of all rows, scaled to the size of the group, is where every fit begins. It is replaced
by a model of the fitted rows where its steps converge slowly. Every step has the exact gradients of all candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sparsefield.analysis.network import Network, sum_by_node
from sparsefield.analysis.refit import Progress
from sparsefield.compute import Engine
from sparsefield.data import Block, Layout
from sparsefield.inference.completions import rows_of_block
from sparsefield.kernels import proximal_newton as kernels
from sparsefield.kernels.regression_hessians import NewtonSystem
from sparsefield.model import Adjacency, Field, FitRecord, compile_adjacency
from sparsefield.objectives.curvature import SampledRows, newton_system

TOLERANCE = 0.002
"""Violation of the optimality conditions, as a share of l1, at which a fit ends; ..."""

NOISE_TOLERANCE = 2e-4
"""... or as a share of the square root of the weight of the rows, which is the size of the noise in a gradient."""

LIKELY, LIKELY_AGAIN = 0.5, 0.8
"""Candidates whose gradient has this share of their penalty are in the model: of all rows, and of fitted ones."""

MAX_STEPS = 80

SLACK = 1e-6
"""Difference of statistics below which they count as equal: relative, or in standard deviations. Those of permutations
are in single precision."""

ROUND, REACHED = 60, 10
"""Permutations between two looks at the p-values, with which the verdict on three kinds of tests can be significant;
and how many of them have to reach every statistic to end a test."""


@dataclass(frozen=True)
class SubsetFit:
    """The weights of a field that was fitted to some rows."""

    theta: np.ndarray
    """Biases, then the weights of all candidate pairs."""
    violation: float
    """Largest violation of the optimality conditions over all candidates."""
    converged: bool


@dataclass(frozen=True)
class LossModel:
    """A Newton model of the loss of some rows, over the biases and some candidates."""

    working: np.ndarray
    """Numbers of the candidates with a Hessian."""
    system: NewtonSystem
    free: np.ndarray
    """(biases,) bool: those that have no penalty."""
    share: float = 1.0
    """The weight of the fitted rows, as a share of the weight of the rows of the model."""


@dataclass(frozen=True)
class _Loss:
    """The penalized loss of some rows."""

    rows: Block
    free: np.ndarray
    strengths: np.ndarray
    ridge: np.ndarray
    tolerance: float


@dataclass(frozen=True)
class SubsetProblem:
    """The pseudo-likelihood of any subset of the rows of a table, with an L1 penalty on all candidate pairs."""

    rows: Block
    """Complete rows."""
    layout: Layout
    """Of one table."""
    pairs: np.ndarray
    """(pairs, 2): all candidates."""
    l2: float

    @property
    def n_biases(self) -> int:
        return self.layout.n_target_columns

    @cached_property
    def factors(self) -> tuple[np.ndarray, np.ndarray]:
        """(pairs,): factors of l1, and of l2."""
        return self.layout.feature_factors(self.pairs), self.layout.l2_factors(self.pairs)

    @cached_property
    def graph(self) -> Adjacency:
        """The arcs of all candidates."""
        return compile_adjacency(self.layout, self.layout.arcs(self.pairs))[0]

    @cached_property
    def network(self) -> Network:
        """The network of all candidates."""
        return Network(Field(self.layout, np.zeros(self.n_biases), self.pairs, np.ones(len(self.pairs))))

    def start_from(self, pairs: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Return the biases and weights of a field as those of all candidates, 0 for those that it does not have."""
        weights = dict(zip(self.layout.keys(pairs).tolist(), theta[self.n_biases :].tolist(), strict=True))
        candidates = self.layout.keys(self.pairs).tolist()
        return np.concatenate([theta[: self.n_biases], [weights.get(key, 0.0) for key in candidates]])

    def pooled(self, l1: float, share: float, start: np.ndarray) -> tuple[SubsetFit, LossModel]:
        """Return the fit of all rows that a random part of them has on average, and a model of the loss of the part.

        Parameters
        ----------
        l1 : penalty of the part
        share : of the weight of all rows that the part has
        start : parameters to start from
        """
        loss = self._loss(self.rows, l1 / share, self.l2 / share)
        fit = self._minimize(loss, start, None)
        return fit, self._model(loss, fit.theta, share)

    def fit(
        self, chosen: np.ndarray, l1: float, start: np.ndarray, model: LossModel | None, precision: float = 1.0
    ) -> SubsetFit:
        """Return the fit to the rows of a mask, (rows,), from given weights; ``precision`` divides the tolerance."""
        rows = rows_of_block(self.rows, np.flatnonzero(chosen))
        return self._minimize(self._loss(rows, l1, self.l2, precision), start, model)

    def field_of(self, fit: SubsetFit, record: FitRecord) -> Field:
        """Return the field of a fit, without the candidates that have no weight."""
        biases, weights = np.split(fit.theta, [self.n_biases])
        return Field(self.layout, biases.copy(), self.pairs[weights != 0.0], weights[weights != 0.0], record=record)

    def objective(self, chosen: np.ndarray, l1: float, theta: np.ndarray) -> float:
        """Return loss and penalties of the rows of a mask, (rows,), at given parameters."""
        loss = self._loss(rows_of_block(self.rows, np.flatnonzero(chosen)), l1, self.l2)
        errors = np.empty((self.n_biases, len(loss.rows.weight)))
        return float(kernels.penalized_loss(loss.rows, self.graph, theta, loss.strengths, loss.ridge, errors))

    def _loss(self, rows: Block, l1: float, l2: float, precision: float = 1.0) -> _Loss:
        free = ~undetermined_biases(rows.beliefs, self.layout)
        strengths = np.concatenate([np.where(free, 0.0, l1), l1 * self.factors[0]])
        ridge = np.concatenate([np.where(free, 0.0, l2), l2 * self.factors[1]])
        tolerance = max(TOLERANCE * l1, NOISE_TOLERANCE * float(np.sqrt(rows.weight.sum()))) / precision
        return _Loss(rows, free, strengths, ridge, tolerance)

    def _minimize(self, loss: _Loss, start: np.ndarray, model: LossModel | None) -> SubsetFit:
        if model is None or not np.array_equal(model.free, loss.free):
            model = self._model(loss, start)
        theta, gradient, left = start.copy(), np.empty(len(start)), MAX_STEPS
        working, system, share, is_own = model.working, model.system, model.share, False
        while left > 0:
            steps, converged = kernels.descend(
                loss.rows, self.graph, loss.strengths, loss.ridge, theta, gradient, working, system, share,
                loss.tolerance, left,
            )  # fmt: skip
            if converged or (is_own and steps == 0):
                break
            working, system = self._hessians(loss, theta, gradient, LIKELY_AGAIN)
            left, share, is_own = left - max(steps, 1), 1.0, True
        violation = kernels.largest_violation(theta, gradient, loss.strengths)
        return SubsetFit(theta, float(violation), bool(violation <= loss.tolerance))

    def _model(self, loss: _Loss, theta: np.ndarray, share: float = 1.0) -> LossModel:
        """Return a model at theta."""
        errors, gradient = np.empty((self.n_biases, len(loss.rows.weight))), np.empty(len(theta))
        kernels.penalized_loss(loss.rows, self.graph, theta, loss.strengths, loss.ridge, errors)
        kernels.gradient_of_pairs(loss.rows, self.graph, errors, theta, loss.ridge, gradient)
        return LossModel(*self._hessians(loss, theta, gradient, LIKELY), loss.free, share)

    def _hessians(
        self, loss: _Loss, theta: np.ndarray, gradient: np.ndarray, likely: float
    ) -> tuple[np.ndarray, NewtonSystem]:
        """Return candidates that have a weight or a gradient with the share ``likely`` of their penalty, and Hessians.

        The Hessians of the loss at theta are over these candidates.
        """
        n = self.n_biases
        working = np.flatnonzero((theta[n:] != 0.0) | (np.abs(gradient[n:]) > likely * loss.strengths[n:]))
        graphs = compile_adjacency(self.layout, self.layout.arcs(self.pairs[working]))
        at, free = theta[np.concatenate([np.arange(n), n + working])], loss.strengths[:n] == 0.0
        return working, newton_system([SampledRows(0, loss.rows)], graphs, at, free, lambda f, jobs: list(map(f, jobs)))


def undetermined_biases(columns: np.ndarray, layout: Layout) -> np.ndarray:
    """Return which biases, (states,), would diverge without a penalty: those of columns that never vary.

    Where the reference state of a variable has no example, these are the biases of all of its states. ``columns`` are
    the values (columns, rows) of rows of a table.
    """
    schema = layout.schemas[0]
    columns = columns[: layout.n_target_columns]
    undetermined = columns.min(axis=1, initial=np.inf) >= columns.max(axis=1, initial=-np.inf)
    for v, (first, last) in enumerate(zip(schema.target_offsets[:-1], schema.target_offsets[1:], strict=True)):
        if schema.targets[v].has_reference and last - first > 1:
            undetermined[first:last] |= bool((columns[first:last].sum(axis=0) > 0.0).all())
    return undetermined


def compare_networks(network: Network, weights: np.ndarray) -> np.ndarray:
    """Return how much the networks of two groups differ.

    Parameters
    ----------
    network : that of all candidate pairs
    weights : (2, pairs)

    Returns
    -------
    (2 + edges + variables,)
        Difference of the sums of the strengths of all edges (global strength); largest difference of an edge
        (structure); norms of the differences of the weights of each edge; and differences of the strength centrality of
        each variable, the sum of the strengths of its edges.
    """
    (differences,), (strengths, _) = network.norms(weights[:1] - weights[1:]), network.weigh(weights)
    nodes = np.array([sum_by_node(network.ends, part, network.n_variables) for part in strengths])
    whole = [np.ptp(strengths.sum(axis=1)), differences.max(initial=0.0)]
    return np.concatenate([whole, differences, np.ptp(nodes, axis=0)])


class PairTest:
    """A permutation test of two groups of rows.

    Parameters
    ----------
    groups : numbers of the two groups
    problem : the rows of all groups
    numbers : (rows,), the group of each row
    l1, fits : of each of all groups
    start : (parameters,): biases and weights of all candidates, near those of all rows
    """

    def __init__(
        self,
        groups: tuple[int, int],
        problem: SubsetProblem,
        numbers: np.ndarray,
        l1: Sequence[float],
        fits: Sequence[SubsetFit],
        start: np.ndarray,
    ) -> None:
        compared = np.isin(numbers, groups)
        self.groups, self.labels = groups, np.searchsorted(groups, numbers[compared])
        self.network = problem.network
        weights = np.array([fits[group].theta[problem.n_biases :] for group in groups])
        self.observed = compare_networks(self.network, weights)
        self.drawn = np.empty((0, len(self.observed)), dtype=np.float32)
        """(permutations, statistics), in single precision."""
        self.unconverged = 0
        self._l1, self._start = [l1[group] for group in groups], start
        self._part = replace(problem, rows=rows_of_block(problem.rows, np.flatnonzero(compared)))

    @cached_property
    def _models(self) -> list[tuple[SubsetFit, LossModel]]:
        """Every permuted group starts at the fit to both groups, scaled to its size, and has its model of the loss."""
        shares = [float(np.mean(self.labels == k)) for k in (0, 1)]
        return [self._part.pooled(l1, share, self._start) for l1, share in zip(self._l1, shares, strict=True)]

    def draw(self, seeds: Sequence[Sequence[int]], engine: Engine, progress: Callable[[], None]) -> None:
        """Add the statistics of permutations, each with its seed."""
        models, first = self._models, self._part.n_biases

        def permute(seed: Sequence[int]) -> tuple[np.ndarray, bool]:
            shuffled = np.random.default_rng(seed).permutation(self.labels)
            fits = [self._part.fit(shuffled == k, self._l1[k], fit.theta, loss) for k, (fit, loss) in enumerate(models)]
            weights = np.array([fit.theta[first:] for fit in fits])
            return compare_networks(self.network, weights).astype(np.float32), all(fit.converged for fit in fits)

        drawn = [self.drawn]
        for statistics, converged in engine.stream(permute, seeds):
            drawn.append(statistics[None])
            self.unconverged += not converged
            progress()
        self.drawn = np.concatenate(drawn)

    @property
    def p_values(self) -> np.ndarray:
        """(statistics,): (1 + permutations that reach the observed value) / (1 + permutations); NaN without any."""
        if not len(self.drawn):
            return np.full(len(self.observed), np.nan)
        reached = (self.drawn >= self.observed * (1.0 - SLACK)).sum(axis=0)
        return (1.0 + reached) / (1.0 + len(self.drawn))


def run_tests(
    tests: Sequence[PairTest], permutations: int, seed: int, engine: Engine, progress: Progress | None
) -> None:
    """Draw permutations of all pairs of groups, until no test can become significant.

    As many as `REACHED` permutations that reach a statistic decide about it: with all adjusted p-values above their
    share, more permutations would tell nothing (Besag and Clifford, 1991).
    """
    done, total = 0, permutations * len(tests)

    def count_one() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    if progress is not None and total:
        progress(0, total)  # the time before was that of the fit of all rows
    for first in range(0, permutations, ROUND):
        numbers = range(first, min(first + ROUND, permutations))
        for k, test in enumerate(tests):
            test.draw([(seed, k, number) for number in numbers], engine, count_one)
        smallest = min(float(adjusted.min()) for adjusted in adjust_p_values(tests))
        if smallest * (1 + numbers.stop) >= 1 + REACHED:
            break


def adjust_p_values(tests: Sequence[PairTest]) -> list[np.ndarray]:
    """Return the p-values of all statistics, adjusted for the edges, the nodes or the tests of all pairs of groups.

    Without permutations they are NaN.
    """
    adjusted = [test.p_values for test in tests]
    if not len(tests[0].drawn):
        return adjusted
    n_edges = len(tests[0].network.ends)
    for chosen in (slice(0, 1), slice(1, 2), slice(2, 2 + n_edges), slice(2 + n_edges, None)):
        parts = adjust_by_maximum(*zip(*((t.observed[chosen], t.drawn[:, chosen]) for t in tests), strict=True))
        for values, part in zip(adjusted, parts, strict=True):
            values[chosen] = part
    return adjusted


def adjust_by_maximum(observed: Sequence[np.ndarray], drawn: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return adjusted p-values: how often the largest statistic of a permutation reaches an observed one.

    This is the single-step maxT adjustment of Westfall and Young (1993). It takes account of how statistics go
    together, and its smallest p-value, 1 / (1 + permutations), does not depend on their number. Statistics are
    standardized over the permutations and the observed value. With several pairs of groups, the largest statistic is
    that of all pairs. Their permutations are independent, which is no less strict where statistics go together.

    Parameters
    ----------
    observed : of each pair of groups, (statistics,)
    drawn : of each pair of groups, (permutations, statistics)
    """
    scores, largest = [], []
    for statistics, permuted in zip(observed, drawn, strict=True):
        values = np.vstack([statistics.astype(permuted.dtype), permuted]).astype(float)
        variance = values.var(axis=0)
        # The variance of a statistic is averaged with the mean variance of all: an edge that has a weight in very few
        # permutations would otherwise have the largest statistic in each of these.
        scale = np.sqrt((variance + variance.mean()) / 2.0) if len(variance) else variance
        values = (values - values.mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)
        scores.append(values[0] - SLACK)
        largest.append(values[1:].max(axis=1, initial=-np.inf))
    maxima = np.sort(np.max(largest, axis=0))
    reached = [len(maxima) - np.searchsorted(maxima, values, side="left") for values in scores]
    return [(1.0 + counts) / (1.0 + len(maxima)) for counts in reached]
