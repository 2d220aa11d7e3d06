"""Fits of linear chains by the common solver, and the choice of l1."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import sparsefield
from sparsefield.chain.model import ChainWeights, features_of_keys
from sparsefield.chain.problem import ChainProblem
from sparsefield.errors import DataError
from sparsefield.induction import InductionRule
from sparsefield.induction.rules import FixedCandidatesRule
from sparsefield.model.fit_record import FitRecord, PathRow
from sparsefield.solver import EBIC, HeldOut, SelectionCriterion, Solver
from sparsefield.solver.fit import begin, fit
from sparsefield.solver.policy import TrainingOptions
from sparsefield.solver.state import State, WarmStart

MIN_BATCH = 512
"""Features that join the working set at a time, at least."""
PATH_LENGTH, PATIENCE = 8, 2
"""Values of l1 at most, each a factor of the root of 10 apart, and how many without an improvement end the path."""
PATH_KKT_TOLERANCE = 0.1
"""Tolerance of fits that are scored on held-out sequences; EBIC counts features, so that its fits are exact."""


@dataclass(frozen=True)
class ChainTrainer:
    """Training of a chain on one problem, for any l1; the options are those of `ChainCRF`."""

    problem: ChainProblem
    l2: float
    solver: Solver
    rule: InductionRule

    def fit(self, l1: float, start: ChainWeights | None = None) -> tuple[ChainWeights, FitRecord]:
        """Return the weights at the optimum, from zero or from other weights, and the record of the fit."""
        problem, solver = self.problem, self.solver
        table, m, candidates = problem.table, problem.n_labels, problem.candidates.keys
        rule = FixedCandidatesRule() if l1 == 0.0 or self.rule.fixed_candidates else self.rule
        # Transitions and intercepts are in the working set from the start.
        keys = candidates if rule.fixed_candidates else candidates[np.searchsorted(candidates, table.n_columns * m) :]
        weights = np.zeros(len(keys))
        if start is not None:
            known = np.isin(start.features.keys, candidates)
            keys = np.union1d(keys, start.features.keys[known])
            weights = np.zeros(len(keys))
            weights[np.searchsorted(keys, start.features.keys[known])] = start.theta[known]
        limits = {"kkt_tol": solver.kkt_tol, "max_iter": solver.max_iter, "tol": 0.0, "min_batch": MIN_BATCH}
        state = State(problem, TrainingOptions(l1=l1, l2=self.l2, centered=False, **limits), solver.callbacks)
        begin(state, rule, WarmStart(np.empty(0), problem.pairs_of(keys), weights))
        result = fit(state, None if state.fixed else rule)
        record = FitRecord(
            version=sparsefield.__version__,
            n_rows=table.n_sequences,
            l1=l1,
            objective=result.objective,
            kkt_violation=result.kkt_violation,
            converged=result.converged,
            iterations=result.iterations,
        )
        features = features_of_keys(problem.layout.keys(result.field.pairs), table.n_columns, m)
        return ChainWeights(features, result.field.weights), record

    def l1_max(self) -> float:
        """Return the largest score of a state feature where all weights are 0."""
        graph = self.problem.candidates
        gradient = self.problem.evaluate(graph, np.zeros(len(graph.keys)))[1]
        return float(np.abs(gradient[: graph.features.n_states]).max(initial=0.0))


def select_l1(
    trainer: ChainTrainer, criterion: SelectionCriterion, rng: np.random.Generator
) -> tuple[float, tuple[PathRow, ...], ChainWeights]:
    """Return the l1 of the best score along a path from large to small values, the path, and weights near the optimum.

    `HeldOut` scores by the log-likelihood of held-out sequences per token, pooled over folds; `EBIC` by minus half of
    the criterion per token. Both weigh sequences.
    """
    problem, folds = trainer.problem, [(trainer, trainer.problem)]
    if isinstance(criterion, HeldOut):
        solver = replace(trainer.solver, kkt_tol=max(trainer.solver.kkt_tol, PATH_KKT_TOLERANCE))
        trainer = replace(trainer, solver=solver)
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
            n_tokens, n_candidates = float(problem.known_tokens.sum()), trainer.problem.candidates.features.n_pairs
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
