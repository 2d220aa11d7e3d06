"""Small problems whose fields have features of three and four columns, for tests in several folders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from oracle import SlowField, candidate_features

from sparsefield.compute import Threads
from sparsefield.data import Dataset, Layout, Schema
from sparsefield.model import Adjacency, Field, compile_adjacency, pad_features
from sparsefield.objectives import OBJECTIVES, DenseEvaluator


@dataclass(frozen=True)
class HigherProblem:
    """A problem with conjunctions among its features."""

    plain: Any
    """A result of `make_problem`."""
    field: Field
    slow: SlowField

    @property
    def schema(self) -> Schema:
        return self.plain.schema

    @property
    def layout(self) -> Layout:
        return self.field.layout

    @property
    def sample(self) -> Dataset:
        return self.plain.sample

    @property
    def rows(self):
        return self.plain.rows


def with_conjunctions(problem: Any, seed: int, orders: tuple[int, ...] = (3, 4), size: float = 1.0) -> HigherProblem:
    """Add eight random features of each given order to a problem."""
    rng = np.random.default_rng(seed)
    parts = []
    for order in orders:
        every = np.array(candidate_features(problem.schema, order)).reshape(-1, order)
        parts.append(pad_features(every[np.sort(rng.permutation(len(every))[:8])], max(orders)))
    conjunctions = np.concatenate(parts)
    weights = rng.normal(scale=size, size=len(conjunctions))
    biases, pair_weights = np.split(problem.theta, [problem.schema.n_target_columns])
    field = Field(Layout.single(problem.schema), biases, problem.pairs, pair_weights, conjunctions, weights)
    return HigherProblem(
        problem, field, SlowField(problem.schema, biases, problem.pairs, pair_weights, conjunctions, weights)
    )


def graphs_with(layout: Layout, features: np.ndarray) -> tuple[Adjacency, ...]:
    return compile_adjacency(layout, layout.arcs(features))


def evaluate(problem: HigherProblem, objective: str):
    """Return an evaluator, and its loss and gradient."""
    with Threads(1) as engine:
        evaluator = DenseEvaluator(problem.sample, OBJECTIVES[objective](), engine)
        return evaluator, *evaluator.evaluate(problem.field.graphs, problem.field.theta)


def exclusive(n_rows: int, seed: int, noise: float = 0.05, others: int = 2) -> np.ndarray:
    """Make rows where x2 is x0 xor x1 up to noise and all pairs of columns are independent."""
    rng = np.random.default_rng(seed)
    # All pairs of values are equally frequent, so that the sample has no pairwise effect either.
    x0, x1 = np.arange(n_rows) % 2, np.arange(n_rows) // 2 % 2
    flipped = (np.arange(n_rows) // 4 % round(1 / noise) == 0).astype(int)
    coins = rng.integers(0, 2, (n_rows, others))
    return np.column_stack([x0, x1, x0 ^ x1 ^ flipped, coins])


def triangle(n_rows: int, seed: int) -> np.ndarray:
    """Make rows with three columns of positive pair and triple weights, and two columns that copy one of them."""
    rng = np.random.default_rng(seed)
    states = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    a, b, c = states.T
    energy = -0.8 * (a + b + c) + 0.7 * (a * b + b * c + a * c) + 1.5 * a * b * c
    p = np.exp(energy) / np.exp(energy).sum()
    X = states[rng.choice(8, n_rows, p=p)]
    follow = [np.where(rng.random(n_rows) < 0.8, X[:, k], 1 - X[:, k]) for k in (0, 1)]
    return np.column_stack([X, *follow])
