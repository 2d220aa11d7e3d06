"""pl with latent variables summed out: its loss is what enumeration finds, and its gradient the derivative of that."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from oracle import SlowField
from plain import evaluated, learn_plain_schema

from sparsefield.compute import Threads
from sparsefield.data import Dataset, as_source, compile_table
from sparsefield.data.schema import Schema, Variable
from sparsefield.objectives import LatentEvaluator, PseudoLikelihood

COUNTS = (2, 3, 2, 4)
"""States of the columns that a table has; the last one is observed."""


class Problem:
    """A table with missing cells, a categorical observed column and latent variables, and random weights."""

    def __init__(self, seed: int, *, latent: tuple[int, ...], missing: float = 0.0, n_rows: int = 12) -> None:
        rng = np.random.default_rng(seed)
        self.cells = np.column_stack([rng.integers(0, count, n_rows) for count in COUNTS]).astype(float)
        self.cells[: max(COUNTS)] = np.array([[k % count for count in COUNTS] for k in range(max(COUNTS))])
        holes = rng.random((n_rows, len(COUNTS) - 1)) < missing
        holes[: max(COUNTS)] = False
        self.cells[:, :-1][holes] = np.nan
        source = as_source(self.cells)
        known = learn_plain_schema(source, observed=[source.names[-1]], numeric=())
        extra = [Variable(f"h{k}", "latent", tuple(range(c)), 0, (1 / c,) * c) for k, c in enumerate(latent)]
        names = (*known.order, *(variable.name for variable in extra))
        self.schema = Schema((*known.targets, *extra, *known.observed), names)
        self.weight = rng.uniform(0.5, 2.0, n_rows)
        self.table = compile_table(source, self.schema, sample_weight=self.weight)
        self.sample = Dataset.single(self.table)
        owner, n = self.schema.variable_of_column, self.schema.n_target_columns
        pairs = itertools.combinations(range(self.schema.n_columns), 2)
        self.pairs = np.array([(a, b) for a, b in pairs if owner[a] != owner[b] and min(a, b) < n])
        self.theta = rng.normal(0.0, 0.8, n + len(self.pairs))
        self.arcs = self.sample.layout.arcs(self.pairs)

    def slow_loss(self) -> float:
        """Sum over latent states one by one, for rows without missing cells."""
        n, schema = self.schema.n_target_columns, self.schema
        slow = SlowField(schema, self.theta[:n], self.pairs, self.theta[n:])
        (block,) = self.table.blocks
        n_seen = len(schema.targets) - len(schema.latent)
        states = [range(variable.width + 1) for variable in schema.latent]
        loss = 0.0
        for row in range(block.n_rows):
            codes, given = block.codes[:n_seen, row].tolist(), block.beliefs[n:, row].tolist()

            def mass(cells: list[int], given: list[float] = given) -> float:
                every = itertools.product(*states)
                return sum(math.exp(energy(slow, slow.one_hot([*cells, *h], given))) for h in every)

            for v in range(n_seen):
                others = [[*codes[:v], s, *codes[v + 1 :]] for s in range(schema.targets[v].width + 1)]
                loss -= self.weight[row] * math.log(mass(codes) / sum(mass(cells) for cells in others))
        return loss


def energy(slow: SlowField, q: list[float]) -> float:
    return sum(w * q[s] for s, w in enumerate(slow.biases)) + sum(w * q[a] * q[b] for a, b, w in slow.pairs)


@pytest.mark.parametrize("latent", [(4,), (2, 3)])
def test_loss_is_the_pseudo_likelihood_by_enumeration(latent) -> None:
    problem = Problem(0, latent=latent)
    evaluator = LatentEvaluator(problem.sample, PseudoLikelihood(), Threads(1))
    loss, _ = evaluator.evaluate(evaluator.compile(problem.arcs), problem.theta)
    assert loss == pytest.approx(problem.slow_loss(), rel=1e-10)


@pytest.mark.parametrize(("latent", "missing"), [((4,), 0.0), ((2, 3), 0.3)])
def test_gradient_is_the_derivative_of_the_loss(latent, missing) -> None:
    problem = Problem(1, latent=latent, missing=missing)
    evaluator = LatentEvaluator(problem.sample, PseudoLikelihood(), Threads(1))
    graphs, step = evaluator.compile(problem.arcs), 1e-5
    _, gradient = evaluator.evaluate(graphs, problem.theta)
    for k in range(len(problem.theta)):
        there, back = problem.theta.copy(), problem.theta.copy()
        there[k] += step
        back[k] -= step
        slope = (evaluator.evaluate(graphs, there)[0] - evaluator.evaluate(graphs, back)[0]) / (2 * step)
        assert gradient[k] == pytest.approx(slope, rel=1e-5, abs=1e-6), k


def test_errors_times_beliefs_are_the_gradient_of_pairs_of_seen_columns() -> None:
    """What induction and certificate rely on, for candidates that are not in the field."""
    problem = Problem(2, latent=(3,))
    evaluator = LatentEvaluator(problem.sample, PseudoLikelihood(), Threads(1))
    _, gradient = evaluator.evaluate(evaluator.compile(problem.arcs), problem.theta)
    factors, n = evaluator.gradient_factors(), problem.schema.n_target_columns
    errors, expectations = evaluated(factors)
    latent = range(problem.schema.target_offsets[-2], n)
    for k, (a, b) in enumerate(problem.pairs):
        if a in latent or b in latent:
            continue
        expected = errors[a] @ expectations[b] + (errors[b] @ expectations[a] if b < n else 0.0)
        assert gradient[n + k] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_weights_too_large_to_be_told_apart_give_a_finite_loss() -> None:
    problem = Problem(4, latent=(2,))
    evaluator = LatentEvaluator(problem.sample, PseudoLikelihood(), Threads(1))
    loss, gradient = evaluator.evaluate(evaluator.compile(problem.arcs), 1e4 * problem.theta)
    assert np.isfinite(loss)
    assert np.isfinite(gradient).all()
