"""Refits of the features of a field without L1: the pseudo-likelihood, its optimum, and the sandwich covariance of it.

The pseudo-likelihood is no likelihood: rows enter it once for each variable. So the inverse Hessian is not the
covariance of the weights; the covariance of the scores of the rows stands between two of them (Godambe).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from sklearn.exceptions import ConvergenceWarning

from sparsefield.compute import Threads
from sparsefield.data import Arcs, Block, Dataset, Layout, Table, compile_table
from sparsefield.data.table import join_blocks
from sparsefield.errors import DataError, OtherTableWarning, list_first
from sparsefield.estimators import FieldEstimator
from sparsefield.estimators.compiled_rows import compile_rows, read_by_name
from sparsefield.estimators.training import refit_l2
from sparsefield.inference.completions import rows_of_block
from sparsefield.kernels.mean_field_sweep import predict_states
from sparsefield.kernels.regression_hessians import make_designs, variable_hessians
from sparsefield.model import Adjacency, Field
from sparsefield.objectives import PseudoLikelihood
from sparsefield.objectives.block_evaluation import EvaluatedBlock, gradient
from sparsefield.objectives.curvature import split_hessians

ABSENT = 1e-6
"""Number of rows that a state is given at a start where it has none, whose bias would go to minus infinity."""

MIN_CURVATURE = 1e-9
"""Share of the largest curvature, below which a combination of parameters is not determined: of the biases of all
states of a variable, only the differences are."""

NO_CURVATURE = 1e-12
"""Share of the largest curvature of a parameter, below which a parameter has none: rounding errors are its gradient."""

NEWTON_TOLERANCE = 1e-6
"""Newton steps end where their decrement, about the distance in standard errors, is below this."""

MAX_STEPS, MAX_HALVINGS = 50, 30

MAX_SHARED_STEPS, MIN_PROGRESS = 30, 0.8
"""Steps with the Hessian of other rows, which also end where one is longer than this share of the one before."""

ROWS_AT_A_TIME = 4096

MAX_PARAMETERS = 8000
"""Largest number of biases and weights whose joint covariance is computed: a matrix of half a gigabyte."""

RESAMPLE_TOLERANCE = 0.004
"""Steps for a resample end where about this distance from the optimum is left, in standard errors."""

MIN_THREADED = 300_000
"""Rows times parameters, below which resamples run on one thread: several would wait for the interpreter."""

FEWEST_ROWS = 4

SAME_FREQUENCY = 1e-6
"""Frequencies that differ by less are equal but for rounding."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class RefitProblem:
    """The loss of a refit of fixed features: minus the pseudo-log-likelihood of rows, plus a ridge around a center.

    Parameters theta are the biases of all target columns, then the weights of the features.
    """

    layout: Layout
    rows: Block
    """Complete rows of the one table."""
    arcs: Arcs
    graph: Adjacency
    """The arcs of the features, as kernels take them."""
    l2: np.ndarray
    """(parameters,)"""
    center: np.ndarray | float = 0.0

    @classmethod
    def of(cls, estimator: FieldEstimator, table: Table) -> RefitProblem:
        """Return the refit of the features of a fitted estimator to complete rows; too few are refused."""
        if table.n_rows < FEWEST_ROWS:
            raise DataError(f"The weights need at least {FEWEST_ROWS} complete rows; there are {table.n_rows}.")
        field, l2 = estimator.field_, refit_l2(estimator)
        on_biases = table.schema.unseen | estimator.resolve("features").penalize_biases
        strengths = l2 * np.concatenate([on_biases, field.layout.l2_factors(field.features)])
        arcs = field.layout.arcs(field.features)
        return cls(field.layout, join_blocks(table.blocks), arcs, field.graphs[0], strengths)

    @property
    def n_rows(self) -> int:
        return len(self.rows.weight)

    @property
    def n_biases(self) -> int:
        """Number of biases, which are the first parameters."""
        return self.layout.n_target_columns

    def subset(self, chosen: np.ndarray) -> RefitProblem:
        """Return the refit of the same features to some rows."""
        return replace(self, rows=rows_of_block(self.rows, chosen))

    def evaluate(self, theta: np.ndarray, weight: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss and its gradient at theta with weights of the rows, (rows,)."""
        block = self.rows._replace(weight=weight)
        loss, errors, expectations = PseudoLikelihood().sweep(block, self.graph, theta)
        slope = gradient(EvaluatedBlock(0, block, errors, expectations), False, (self.graph,), len(theta))
        apart = theta - self.center
        return float(loss + 0.5 * self.l2 @ np.square(apart)), slope + self.l2 * apart

    def hessian(self, theta: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the Hessian of the loss without its penalty, (parameters, parameters)."""
        block, coding = self.rows._replace(weight=weight), self.layout.schemas[0].coding
        states, hessian = np.zeros((int(coding.state_offsets[-1]), self.n_rows)), np.zeros((len(theta), len(theta)))
        predict_states(block, self.graph, theta, 0, len(block.codes), states)
        designs = make_designs(self.graph, len(block.beliefs))
        flat = variable_hessians(block, coding, states, block.beliefs, designs)
        for parameters, part in split_hessians(designs, flat):
            hessian[np.ix_(parameters, parameters)] += part
        return hessian

    def scores(self, theta: np.ndarray, chosen: slice) -> np.ndarray:
        """Return the gradients of the losses of single rows of weight 1, without the penalty, (parameters, rows)."""
        part = self.subset(np.arange(self.n_rows)[chosen])
        _, errors, _ = PseudoLikelihood().sweep(part.rows._replace(weight=np.ones(part.n_rows)), self.graph, theta)
        columns = part.rows.beliefs
        columns = np.vstack([columns, *(columns[None, w[w >= 0]].prod(axis=1) for w in self.arcs.conjunctions)])
        scores = np.zeros((len(theta), part.n_rows))
        scores[: self.n_biases] = errors
        for target, source, feature in zip(*self.arcs[:3], strict=True):
            scores[self.n_biases + feature] += errors[target] * columns[source]
        return scores

    def start(self, theta: np.ndarray, weight: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return a point near the optimum for weights that are multiplied by factors, from the optimum theta.

        Free biases of states change by the logarithms of how much more frequent their states are. Newton steps would
        take many iterations to move a bias to where the probability of an absent state is negligible.
        """
        point, weights, schema = theta.copy(), np.column_stack([weight, weight * factors]), self.layout.schemas[0]
        for k, variable in enumerate(schema.targets):
            states = slice(schema.target_offsets[k] + variable.n_scores, schema.target_offsets[k + 1])
            counts, total = self.rows.beliefs[states] @ weights, weights.sum(axis=0)
            # Frequencies are relative to that of the reference state, or to all rows where there is none.
            others = np.maximum(total - counts.sum(axis=0), 0.0) if variable.has_reference else total
            logs = np.log(counts + ABSENT) - np.log(others + ABSENT)
            point[states] += (self.l2[states] == 0.0) * (logs[:, 1] - logs[:, 0])
        return point


@dataclass(frozen=True)
class Estimate:
    """The optimum of a refit."""

    theta: np.ndarray
    """(parameters,)"""
    hessian: np.ndarray
    """(parameters, parameters), without the penalty."""
    converged: bool


def minimize(
    problem: RefitProblem, start: np.ndarray, weight: np.ndarray, tolerance: float = NEWTON_TOLERANCE
) -> Estimate:
    """Return the optimum of a refit with given weights of the rows, by Newton steps with step halving."""
    theta, (value, gradient) = start, problem.evaluate(start, weight)
    for _ in range(MAX_STEPS):
        hessian = problem.hessian(theta, weight)
        step = newton_solver(hessian + np.diag(problem.l2))(gradient)
        decrement = slope = float(gradient @ step)
        if decrement <= tolerance**2:
            return Estimate(theta, hessian, True)
        for _ in range(MAX_HALVINGS):
            new, new_gradient = problem.evaluate(theta - step, weight)
            if new <= value - 1e-4 * slope:
                break
            step, slope = 0.5 * step, 0.5 * slope
        else:  # rounding errors are larger than what a step would gain
            return Estimate(theta, hessian, decrement <= 1e-6 * abs(value))
        theta, value, gradient = theta - step, new, new_gradient
    return Estimate(theta, problem.hessian(theta, weight), False)


def minimize_nearby(
    problem: RefitProblem,
    start: np.ndarray,
    weight: np.ndarray,
    solve: Callable[[np.ndarray], np.ndarray],
    tolerance: float,
) -> np.ndarray:
    """Return the optimum for weights whose Hessian is about that of ``solve``.

    Steps with this Hessian cost a gradient each. Where they shorten slowly, as along directions that are flatter for
    these weights, steps with the own Hessian follow.
    """
    theta, (value, gradient), before = start, problem.evaluate(start, weight), np.inf
    for _ in range(MAX_SHARED_STEPS):
        step = solve(gradient)
        length = float(np.sqrt(max(gradient @ step, 0.0)))
        new, new_gradient = problem.evaluate(theta - step, weight)
        if new > value or length > MIN_PROGRESS * before:
            break
        theta, value, gradient = theta - step, new, new_gradient
        rate = length / before if np.isfinite(before) else 0.5
        if length * rate <= tolerance * (1.0 - rate):  # the sum of the steps that would follow
            return theta
        before = length
    return minimize(problem, theta, weight, tolerance).theta


def newton_solver(hessian: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function from a gradient to its Newton step.

    The step is small, but arbitrary, for combinations of parameters that are not determined.
    """
    if not len(hessian):
        return lambda gradient: gradient
    least = max(NO_CURVATURE * hessian.diagonal().max(), np.finfo(float).tiny)
    scale = 1.0 / np.sqrt(np.maximum(hessian.diagonal(), least))
    scaled = hessian * np.outer(scale, scale)
    scaled.flat[:: len(scaled) + 1] += MIN_CURVATURE
    try:
        factor = cho_factor(scaled)
    except LinAlgError:  # a state has nearly all of the probability: rounding errors exceed its curvature
        values, directions = np.linalg.eigh(scaled)
        values = np.maximum(values, MIN_CURVATURE * values[-1])
        return lambda gradient: scale * (directions @ (directions.T @ (scale * gradient) / values))
    return lambda gradient: scale * cho_solve(factor, scale * gradient)


def sandwich(problem: RefitProblem, estimate: Estimate) -> np.ndarray:
    """Return the covariance of the estimates, (parameters, parameters).

    It is H^-1 J H^-1: H the Hessian with the L2 penalty, and J the covariance of the gradient, from the scores of the
    rows, which are independent of each other. The inverse is 0 for combinations of parameters that are not determined.
    """
    count, size = problem.n_rows, len(estimate.theta)
    products, total = np.zeros((size, size)), np.zeros(size)
    for start in range(0, count, ROWS_AT_A_TIME):
        chosen = slice(start, start + ROWS_AT_A_TIME)
        scores = problem.rows.weight[chosen] * problem.scores(estimate.theta, chosen)
        products += scores @ scores.T
        total += scores.sum(axis=1)
    between = (products - np.outer(total, total) / count) * (count / max(count - 1, 1))
    hessian = estimate.hessian + np.diag(problem.l2)
    scale = 1.0 / np.sqrt(np.maximum(hessian.diagonal(), np.finfo(float).tiny))
    values, directions = np.linalg.eigh(hessian * np.outer(scale, scale))
    known = values > MIN_CURVATURE * values[-1]
    inverse = ((directions[:, known] / values[known]) @ directions[:, known].T) * np.outer(scale, scale)
    return inverse @ between @ inverse


def refit_field(field: FieldEstimator, problem: RefitProblem) -> Estimate:
    """Return the refit of a field to all rows of a problem; warn if it does not converge."""
    with Threads(1):  # products of matrices that run on several threads differ in their last bits
        estimate = minimize(problem, field.field_.theta, problem.rows.weight)
    if not estimate.converged:
        warnings.warn(
            "The estimates without L1 did not converge, so their intervals are not reliable: raise l2 or l1.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return estimate


def row_factors(n_rows: int, seed: int, number: int, dropped: float = 0.0) -> np.ndarray:
    """Return how often each row is in a resample: drawn with replacement, or, if a share is dropped, once or not."""
    rng = np.random.default_rng((seed, number))
    if not dropped:
        return np.bincount(rng.integers(0, n_rows, n_rows), minlength=n_rows).astype(float)
    factors = np.ones(n_rows)
    factors[rng.choice(n_rows, round(dropped * n_rows), replace=False)] = 0.0
    return factors


def draw_weights(
    problem: RefitProblem,
    estimate: Estimate,
    count: int,
    n_jobs: int | None,
    *,
    seed: int,
    dropped: float = 0.0,
    progress: Progress | None = None,
) -> np.ndarray:
    """Return the weights (count, features) that are estimated from resamples 0, 1, ...

    A resample is a weighting of the rows, with an optimum near that of all rows, whose Hessian makes steps fast.
    ``estimate`` is the optimum for all rows; ``dropped`` the share of the rows that resamples lack.
    """
    solve = newton_solver((1.0 - dropped) * estimate.hessian + np.diag(problem.l2))

    def solve_resample(number: int) -> tuple[np.ndarray, bool]:
        factors = row_factors(problem.n_rows, seed, number, dropped)
        start, rows = problem.start(estimate.theta, problem.rows.weight, factors), np.flatnonzero(factors)
        part = problem.subset(rows)
        weight = part.rows.weight * factors[rows]
        # Rows that were not drawn can leave directions flat, which only the own Hessian shows.
        near = minimize_nearby(part, start, weight, solve, RESAMPLE_TOLERANCE)
        optimum = minimize(part, near, weight, RESAMPLE_TOLERANCE)
        return optimum.theta, optimum.converged

    draws, unfinished = np.empty((count, len(estimate.theta) - problem.n_biases)), 0
    with Threads(n_jobs if problem.n_rows * len(estimate.theta) > MIN_THREADED else 1) as engine:
        for number, (theta, converged) in enumerate(engine.stream(solve_resample, range(count))):
            draws[number] = theta[problem.n_biases :]
            unfinished += not converged
            if progress is not None:
                progress(number + 1, count)
    if unfinished:
        warnings.warn(
            f"The estimates from {unfinished:,} of {count:,} resamples did not converge: raise l2 or l1.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return draws


def compile_refit(
    estimator: FieldEstimator, X: Any, y: Any, sample_weight: Any, drop_incomplete: bool = False
) -> tuple[RefitProblem, int]:
    """Return the refit of the features to the rows, and the number of incomplete rows that were left out.

    What has no uncertainty is refused, and so are missing cells unless their rows are dropped.
    """
    dataset = dense_rows(estimator, X, y, sample_weight)
    (table,) = dataset.tables
    complete = (table.codes() >= 0).all(axis=0)
    if not complete.all() and not drop_incomplete:
        names = [
            variable.name
            for variable, codes in zip(table.schema.targets, table.codes(), strict=True)
            if (codes < 0).any()
        ]
        raise DataError(
            f"{int((~complete).sum()):,} of {table.n_rows:,} rows have missing cells (columns "
            f"{list_first(names, form=repr)}): drop_incomplete=True (--drop-incomplete) uses the complete rows alone, "
            "and intervals of a MarkovField can be pooled over imputed tables with imputations=20 (--imputations 20)."
        )
    warn_of_other_table(estimator.field_, table)
    if not complete.all():
        (table,) = dataset.subset(np.flatnonzero(complete)).tables
    return RefitProblem.of(estimator, table), int((~complete).sum())


def dense_rows(estimator: FieldEstimator, X: Any, y: Any, sample_weight: Any) -> Dataset:
    """Return the compiled rows; fields for which the intervals are not valid are refused, with all reasons."""
    field, problems = estimator.field_, []
    if not field.record.is_learned:
        problems.append("The field was given, not learned: fit it to the table.")
    if field.layout.has_latent:
        problems.append("The field has latent variables, whose uncertainty is not known: fit without latent=.")
    if estimator.resolve("objective").name != "pl" or estimator.refit == "ml":
        problems.append(
            "Intervals are those of the pseudo-likelihood, but the weights were estimated otherwise: fit with "
            "objective='pl', and refit=True or False."
        )
    if not len(field.theta):
        problems.append("No column of the field varies, so it has no weights whose uncertainty could be estimated.")
    if len(field.theta) > MAX_PARAMETERS:
        problems.append(
            f"The field has {len(field.theta):,} parameters, and the joint covariance of at most {MAX_PARAMETERS:,} is "
            "computed: use fewer columns, or a larger l1."
        )
    if problems:
        raise DataError(" ".join(problems))
    dataset = compile_rows(estimator, X, y, sample_weight=sample_weight)
    if dataset.tables[0].cells is not None:  # a field with few parameters has few columns
        source = read_by_name(estimator, X)
        dataset = Dataset.single(compile_table(source, field.schema, sample_weight=dataset.row_weights))
    if not dataset.is_dense:
        raise DataError("The covariates are a sparse matrix of numbers: pass them as a table or an array.")
    return dataset


def warn_of_other_table(field: Field, table: Table) -> None:
    """Warn of a table in which the values of a column are not as frequent as in the table of the fit."""
    weight, different = table.weight(), []
    for variable, codes in zip(table.schema.targets, table.codes(), strict=True):
        counts = np.bincount(codes[codes >= 0], weight[codes >= 0], len(variable.states))
        if np.abs(counts / max(counts.sum(), 1e-300) - variable.code_frequencies).max(initial=0.0) > SAME_FREQUENCY:
            different.append(variable.name)
    if different:
        known, rows = field.record.n_rows, table.n_rows
        sizes = f" ({rows:,} rows, and {known:,} in training)" if known != rows else ""
        warnings.warn(
            f"This is not the table that the field was learned from{sizes}, or rows have other weights (sample_weight, "
            f"class_weight): the values of {list_first(different, form=repr)} are not as frequent. Intervals hold for "
            "the rows that are given.",
            OtherTableWarning,
            stacklevel=4,
        )
