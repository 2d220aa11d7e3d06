"""The exact conditional log-likelihood of linear chains: a problem of the common solver, fits, and choice of l1.

The score of a pair of attribute and label is its expected count minus its observed count. A feature without a weight
improves the penalized likelihood exactly if its score is beyond l1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

import sparsefield
from sparsefield.chain.forward_backward import best_paths, chain_errors, chain_marginals
from sparsefield.chain.model import ChainFeatures, ChainWeights, features_of_keys
from sparsefield.compute import Engine, tree_sum
from sparsefield.config import refuse_beyond_memory
from sparsefield.data.layout import Arcs, Layout
from sparsefield.data.sparse_matrix import SparseMatrix, cumulate
from sparsefield.errors import DataError
from sparsefield.induction import InductionRule, Proposals
from sparsefield.induction.rules import FixedCandidatesRule
from sparsefield.kernels.chain_scores import feature_sums, padded_width
from sparsefield.model.fit_record import FitRecord, PathRow
from sparsefield.objectives.objective import PairQuery, Problem
from sparsefield.solver import EBIC, HeldOut, SelectionCriterion, Solver
from sparsefield.solver.fit import begin, fit
from sparsefield.solver.owlqn import Transform
from sparsefield.solver.policy import TrainingOptions
from sparsefield.solver.state import State, WarmStart

MOST_MEMORY, MEMORY_NUMBERS = 40, 10**7
"""Steps that the optimizer remembers, and numbers that it may hold for them; long vectors have fewer steps."""

PRECONDITIONER_POWER = 0.3
"""Power of the diagonal of the Hessian at 0 that scales the weights. Its full size, power 1, helps at the beginning and
slows down the end, because directions that all tokens share have far less curvature than their coordinates: with it,
and centered, a fit takes two to three times as many steps (`python -m benchmarks sequences`)."""

MIN_BATCH = 512
"""Features that join the working set at a time, at least."""
PATH_LENGTH, PATIENCE = 8, 2
"""Values of l1 at most, each a factor of the root of 10 apart, and how many without an improvement end the path."""
PATH_KKT_TOLERANCE = 0.1
"""Tolerance of fits that are scored on held-out sequences; EBIC counts features, so that its fits are exact."""


class ChainArcs(Arcs):
    """No arcs, since the weights of a chain are not centered; and the keys of its features."""

    keys: np.ndarray


@dataclass(frozen=True)
class ChainLayout(Layout):
    """The features of a chain: pairs of an attribute, or of the label before, or of "no column", and a label."""

    n_labels: int = 1

    def keys(self, features: np.ndarray) -> np.ndarray:
        """Return `ChainFeatures.keys`."""
        return features[:, 0] * np.int64(self.n_labels) + features[:, 1]

    def arcs(self, features: np.ndarray) -> ChainArcs:
        arcs = ChainArcs(*np.empty((3, 0), dtype=np.int64))
        arcs.keys = self.keys(features)
        return arcs


class ChainGraph:
    """Features of a chain, compiled for sums over tokens."""

    def __init__(self, table: SparseMatrix, keys: np.ndarray, n_labels: int) -> None:
        self.table, self._n_labels = table, n_labels
        self.order = np.argsort(keys, kind="stable")
        """The positions of the features in the order of their keys."""
        self.keys = keys[self.order]

    @cached_property
    def features(self) -> ChainFeatures:
        return features_of_keys(self.keys, self.table.n_columns, self._n_labels)


@dataclass(frozen=True)
class Candidates:
    """The features that may have a weight: pairs that occur in the data, or all; a label that is not known may be any.

    All labels have an intercept, or none.
    """

    all_states: bool = False
    all_transitions: bool = False
    intercept: bool = True

    def keys(self, table: SparseMatrix, codes: np.ndarray, m: int) -> np.ndarray:
        """Return the ascending `ChainFeatures.keys` of the candidates."""
        first = table.n_columns * m
        if self.all_states:
            refuse_beyond_memory(40.0 * first, f"The {first:,} weights of all states", lambda: "leave all_states out.")
            states = np.arange(first)
        else:
            owner = np.repeat(codes, np.diff(table.offsets))
            known, attributes = owner >= 0, table.columns.astype(np.int64)
            free = np.unique(attributes[~known])[:, None] * m + np.arange(m)
            states = np.union1d(attributes[known] * m + owner[known], free)
        steps = np.arange(m * m)
        if not self.all_transitions and (codes >= 0).all():
            follows = np.ones(len(codes), dtype=bool)
            follows[table.sequences[:-1][np.diff(table.sequences) > 0]] = False
            later = np.flatnonzero(follows)
            steps = np.unique(codes[later - 1] * m + codes[later])
        return np.concatenate([states, first + steps, first + m * m + np.arange(m if self.intercept else 0)])


class ChainProblem(Problem):
    """Minus the weighted log-likelihood of the labels of sequences; labels that are not known are summed out.

    ``codes`` has the number of the label of each token, -1 where it is not known; ``sequence_weights`` are 1 when left
    out, and ``candidates`` are the features that may have a weight.
    """

    missing_cells = "summed out"
    total_weights = ()

    def __init__(
        self,
        table: SparseMatrix,
        codes: np.ndarray,
        n_labels: int,
        engine: Engine,
        sequence_weights: np.ndarray | None = None,
        candidates: Candidates = Candidates(),  # noqa: B008
    ) -> None:
        self.source = self.table = table
        self.codes, self.n_labels, self.engine = codes, n_labels, engine
        self.sequence_weights = np.ones(table.n_sequences) if sequence_weights is None else sequence_weights
        self.layout, self._kinds = ChainLayout((), (), (), (), n_labels=n_labels), candidates
        self.errors = np.zeros((table.n_rows, padded_width(n_labels)))
        """Weight of the sequence x (p(label) - p(label | known labels)) of each token, at the last evaluation."""
        self.pair_errors = np.zeros((n_labels, n_labels))
        """The same of a label and the next one, summed over tokens."""

    @property
    def known_tokens(self) -> np.ndarray:
        """The number of known labels of each sequence, times its weight, (sequences,)."""
        return np.diff(cumulate(self.codes >= 0)[self.table.sequences]) * self.sequence_weights

    def select_sequences(self, chosen: np.ndarray) -> ChainProblem:
        """Return the problem of some sequences."""
        table, tokens = self.table.select_sequences(chosen)
        weights = self.sequence_weights[chosen]
        return ChainProblem(table, self.codes[tokens], self.n_labels, self.engine, weights, self._kinds)

    @cached_property
    def candidates(self) -> ChainGraph:
        """All features that may have a weight."""
        keys = self._kinds.keys(self.table, self.codes, self.n_labels)
        return ChainGraph(self.table, keys, self.n_labels)

    @property
    def memory(self) -> int:
        return int(np.clip(MEMORY_NUMBERS // max(len(self.candidates.keys), 1), 6, MOST_MEMORY))

    def compile(self, arcs: Any) -> ChainGraph:
        return ChainGraph(self.table, arcs.keys, self.n_labels)

    def evaluate(self, graph: ChainGraph, theta: np.ndarray, /) -> tuple[float, np.ndarray]:
        parameters, m = ChainWeights(graph.features, theta[graph.order]).parameters, self.n_labels

        def evaluate_block(block: tuple[int, int]) -> tuple[float, np.ndarray]:
            pairs, arrays, errors = np.empty((m, m)), self.table.arrays, self.errors.ravel()
            return chain_errors(arrays, parameters, self.codes, self.sequence_weights, *block, errors, pairs), pairs

        loss, self.pair_errors = tree_sum(self.engine.map(evaluate_block, self.table.sequence_blocks))
        return float(loss), self.gradient(graph, len(theta))

    def gradient(self, graph: ChainGraph, size: int, /) -> np.ndarray:
        """Return the sums over tokens of error x feature."""
        features, width, errors = graph.features, self.errors.shape[1], self.errors.ravel()
        states = np.empty(features.n_states)

        def sum_block(block: tuple[int, int]) -> None:
            feature_sums(graph.table.by_column, features.offsets, features.labels, errors, width, *block, states)

        self.engine.map(sum_block, graph.table.column_blocks)
        parts = [states, self.pair_errors.ravel()[features.steps]]
        if len(features.intercepts):
            parts.append(self.errors.sum(axis=0)[features.intercepts])
        gradient = np.empty(size)
        gradient[graph.order] = np.concatenate(parts)
        return gradient

    def gradient_factors(self) -> ChainProblem:
        return self

    def propose(self, rule: Any, query: PairQuery, /) -> Proposals:
        """Return the candidates whose gradient exceeds l1; every rule scores exactly."""
        keys = self.candidates.keys
        gradient = self.gradient(self.candidates, len(keys))
        large = np.flatnonzero(np.abs(gradient) > query.l1)
        large = large[~np.isin(keys[large], query.known, assume_unique=True)]
        return Proposals(self.pairs_of(keys[large]), gradient[large], np.abs(gradient[large]))

    def pairs_of(self, keys: np.ndarray) -> np.ndarray:
        """Return the features of some keys as pairs, (features, 2)."""
        return np.column_stack(np.divmod(keys, self.n_labels))

    def penalty_factors(self, features: np.ndarray, /) -> np.ndarray:
        """Return 0 for intercepts, which l1 would make a selection of labels, and 1 for other features."""
        return (features[:, 0] < self.table.n_columns + self.n_labels).astype(np.float64)

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        return np.empty(0), np.empty(0)

    def bias_hessian(self) -> np.ndarray:
        return np.empty(0)

    @cached_property
    def _curvatures(self) -> np.ndarray:
        """The diagonal of the Hessian at 0 by columns of features, (columns,); that of transitions is their mean."""
        table, m = self.table, self.n_labels
        weights, spread = np.repeat(self.sequence_weights, np.diff(table.sequences)), (m - 1) / m**2 if m > 1 else 1.0
        squares = np.repeat(weights, np.diff(table.offsets)) * (np.square(table.values) if len(table.values) else 1.0)
        states = np.bincount(table.columns, squares, minlength=table.n_columns) * spread
        steps = max(float(self.sequence_weights @ np.maximum(np.diff(table.sequences) - 1, 0)), 1.0) / m**2
        return np.concatenate([states, np.full(m, steps), [weights.sum() * spread]])

    def preconditioner(self, graph: ChainGraph, l2: np.ndarray, /) -> Transform:
        curvature = np.empty(len(l2))
        curvature[graph.order] = self._curvatures[graph.keys // self.n_labels]
        scale = (curvature + l2 + 1e-3) ** -PRECONDITIONER_POWER
        return lambda gradient: scale * gradient

    def log_likelihoods(self, weights: ChainWeights) -> np.ndarray:
        """Return ln p(known labels) of each sequence, whatever its weight, (sequences,)."""
        _, known = sum_chains(weights, self.table, self.engine, self.codes)
        return known - sum_chains(weights, self.table, self.engine)[1]


def sum_chains(
    weights: ChainWeights, table: SparseMatrix, engine: Engine, codes: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return marginals, (tokens, labels), and the logarithm of the sum over labelings, (sequences,).

    The sum is over all labelings, or over those with the known labels in ``codes``, (tokens,).
    """
    m = weights.features.n_labels
    known = np.full(table.n_rows, -1) if codes is None else codes
    marginals, log_sums = np.zeros((table.n_rows, padded_width(m))), np.zeros(table.n_sequences)

    def sum_block(block: tuple[int, int]) -> None:
        chain_marginals(table.arrays, weights.parameters, known, *block, marginals.ravel(), log_sums)

    engine.map(sum_block, table.sequence_blocks)
    return marginals[:, :m], log_sums


def best_labels(weights: ChainWeights, table: SparseMatrix, engine: Engine) -> np.ndarray:
    """Return the numbers of the labels of the most probable labeling of each sequence, (tokens,)."""
    paths = np.zeros(table.n_rows, dtype=np.int64)

    def label(block: tuple[int, int]) -> None:
        best_paths(table.arrays, weights.parameters, *block, paths)

    engine.map(label, table.sequence_blocks)
    return paths


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
