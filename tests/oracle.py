"""A slow, obvious field: plain loops and enumeration, against which every fast path is held.

It shares nothing with the library but the schema's numbering. A row is a vector q over all columns of that
numbering (the states of the targets less their base, then the observed columns) and a weight; q holds one-hot
codes where cells are seen, and any beliefs where they are gaps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Row:
    """One row: the code of each target cell (-1 for a gap), the beliefs in all columns, and a weight."""

    codes: tuple[int, ...]
    q: tuple[float, ...]
    weight: float = 1.0


class SlowField:
    """A field (schema, unary, pairs, weights) that answers by enumeration or by plain loops.

    ``conjunctions`` are features of three columns and more; where features have -1 for a column, they have fewer.
    """

    def __init__(self, schema, unary, pairs, weights, conjunctions=(), conjunction_weights=()) -> None:
        self.schema = schema
        together = zip(conjunctions, conjunction_weights, strict=True)
        self.conjunctions = [(columns_of(feature), float(w)) for feature, w in together]
        self.unary = [float(w) for w in unary]
        self.pairs = [(int(a), int(b), float(w)) for (a, b), w in zip(pairs, weights, strict=True)]

    # -- places in the flat numbering --------------------------------------------------------------

    @property
    def n_targets(self) -> int:
        return len(self.schema.targets)

    @property
    def n_states(self) -> int:
        return sum(variable.width for variable in self.schema.targets)

    @property
    def n_columns(self) -> int:
        return sum(variable.width for variable in self.schema.variables)

    def columns(self, v: int) -> range:
        start = sum(variable.width for variable in self.schema.variables[:v])
        return range(start, start + self.schema.variables[v].width)

    def one_hot(self, codes: Sequence[int], observed: Sequence[float] = ()) -> list[float]:
        q = [0.0] * self.n_states
        for v, code in enumerate(codes):
            if code > 0:
                q[self.columns(v)[code - 1]] = 1.0
        return q + [float(value) for value in observed]

    # -- exact answers, by enumeration -------------------------------------------------------------

    def energy(self, q: Sequence[float]) -> float:
        """sum_s b_s q_s + sum_ab w_ab q_a q_b: what the exponent of Eq. 1 holds."""
        total = 0.0
        for s in range(self.n_states):
            total += self.unary[s] * q[s]
        for a, b, w in self.pairs:
            total += w * q[a] * q[b]
        for columns, w in self.conjunctions:
            total += w * math.prod(q[c] for c in columns)
        return total

    def assignments(self, codes: Sequence[int]) -> list[tuple[int, ...]]:
        """All ways to fill the gaps of ``codes``."""
        choices = [range(self.schema.targets[v].width + 1) if code < 0 else (code,) for v, code in enumerate(codes)]
        return list(itertools.product(*choices))

    def joint(self, codes: Sequence[int], observed: Sequence[float] = ()) -> dict[tuple[int, ...], float]:
        """Probability of every way to fill the gaps, given the seen cells."""
        ways = self.assignments(codes)
        logs = [self.energy(self.one_hot(way, observed)) for way in ways]
        top = max(logs)
        total = sum(math.exp(x - top) for x in logs)
        return {way: math.exp(x - top) / total for way, x in zip(ways, logs, strict=True)}

    def marginals(self, codes: Sequence[int], observed: Sequence[float] = ()) -> list[list[float]]:
        """Per target, the exact probability of each of its codes, base first."""
        found = [[0.0] * (variable.width + 1) for variable in self.schema.targets]
        for way, p in self.joint(codes, observed).items():
            for v, code in enumerate(way):
                found[v][code] += p
        return found

    def conditional(self, v: int, codes: Sequence[int], observed: Sequence[float] = ()) -> list[float]:
        """p(v | all other cells), by enumerating v."""
        return self.marginals([-1 if u == v else code for u, code in enumerate(codes)], observed)[v]

    # -- one update, and what is made of it --------------------------------------------------------

    def logit(self, s: int, q: Sequence[float]) -> float:
        total = self.unary[s]
        for a, b, w in self.pairs:
            if a == s:
                total += w * q[b]
            if b == s:
                total += w * q[a]
        for columns, w in self.conjunctions:
            if s in columns:
                total += w * math.prod(q[c] for c in columns if c != s)
        return total

    def update(self, v: int, q: Sequence[float]) -> list[float]:
        """Beliefs in the codes of v, base first, given the beliefs in everything else (Eq. 3)."""
        z = [0.0] + [self.logit(s, q) for s in self.columns(v)]
        top = max(z)
        total = sum(math.exp(x - top) for x in z)
        return [math.exp(x - top) / total for x in z]

    def sweep(self, q: Sequence[float]) -> list[float]:
        """Every target updated once, one after another: each sees the updates before it."""
        new = list(q)
        for v in range(self.n_targets):
            for s, p in zip(self.columns(v), self.update(v, new)[1:], strict=True):
                new[s] = p
        return new

    def mean_field(self, row: Row, sweeps: int = 2000) -> list[float]:
        """Sequential updates of the gaps of a row, many times over."""
        q = list(row.q)
        for _ in range(sweeps):
            for v, code in enumerate(row.codes):
                if code < 0:
                    for s, p in zip(self.columns(v), self.update(v, q)[1:], strict=True):
                        q[s] = p
        return q

    def free_energy(self, q: Sequence[float]) -> float:
        """F = - <energy> + sum q ln q, over the targets."""
        total = -self.energy(q)
        for v in range(self.n_targets):
            states = [q[s] for s in self.columns(v)]
            for p in [1.0 - sum(states), *states]:
                if p > 1e-300:
                    total += p * math.log(p)
        return total

    # -- objectives --------------------------------------------------------------------------------

    def pl_loss(self, rows: Iterable[Row]) -> float:
        """- sum over rows and seen cells of ln q1(the cell's code)."""
        total = 0.0
        for row in rows:
            for v, code in enumerate(row.codes):
                if code >= 0:
                    total -= row.weight * math.log(self.update(v, row.q)[code])
        return total

    def cd_loss(self, rows: Iterable[Row]) -> float:
        """F0 - F1."""
        total = 0.0
        for row in rows:
            total += row.weight * (self.free_energy(row.q) - self.free_energy(self.sweep(row.q)))
        return total

    def pl_gradient(self, rows: Iterable[Row], pairs: Iterable[Sequence[int]]) -> np.ndarray:
        """Gradient of pl: unary features first, then ``pairs``, which may be any two or more columns."""
        pairs = [columns_of(feature) for feature in pairs]
        out = [0.0] * (self.n_states + len(pairs))
        for row in rows:
            error = [0.0] * self.n_columns
            for v, code in enumerate(row.codes):
                if code >= 0:
                    for s, p in zip(self.columns(v), self.update(v, row.q)[1:], strict=True):
                        error[s] = row.weight * (p - row.q[s])
            for s in range(self.n_states):
                out[s] += error[s]
            for k, columns in enumerate(pairs):
                for c in columns:
                    out[self.n_states + k] += error[c] * math.prod(row.q[other] for other in columns if other != c)
        return np.array(out)

    def cd_gradient(self, rows: Iterable[Row], pairs: Iterable[Sequence[int]]) -> np.ndarray:
        """Eq. 10 and 14: <f>_q1 - <f>_q0."""
        pairs = [columns_of(feature) for feature in pairs]
        out = [0.0] * (self.n_states + len(pairs))
        for row in rows:
            q1 = self.sweep(row.q)
            for s in range(self.n_states):
                out[s] += row.weight * (q1[s] - row.q[s])
            for k, columns in enumerate(pairs):
                change = math.prod(q1[c] for c in columns) - math.prod(row.q[c] for c in columns)
                out[self.n_states + k] += row.weight * change
        return np.array(out)


def columns_of(feature: Sequence[int]) -> tuple[int, ...]:
    """The columns of a feature, less the -1 behind them."""
    return tuple(int(column) for column in feature if column >= 0)


def candidate_pairs(schema) -> list[tuple[int, int]]:
    """Every pair of columns of two variables, at least one of them a target's, by looking at all pairs."""
    owner, target = [], []
    for k, variable in enumerate(schema.variables):
        owner += [k] * variable.width
        target += [variable.role == "target"] * variable.width
    return [
        (a, b)
        for a in range(len(owner))
        for b in range(a + 1, len(owner))
        if owner[a] != owner[b] and (target[a] or target[b])
    ]


def candidate_features(schema, order: int) -> list[tuple[int, ...]]:
    """Every choice of ``order`` columns of as many variables, at least one of them a target's, by looking at all."""
    owner, target = [], []
    for k, variable in enumerate(schema.variables):
        owner += [k] * variable.width
        target += [variable.role == "target"] * variable.width
    return [
        columns
        for columns in itertools.combinations(range(len(owner)), order)
        if len({owner[c] for c in columns}) == order and any(target[c] for c in columns)
    ]


def rows_of(table) -> list[Row]:
    """The rows of a compiled table."""
    return [
        Row(
            tuple(int(c) for c in block.codes[:, i]),
            tuple(block.beliefs[:, i].tolist()),
            float(block.weight[i]),
        )
        for block in table.blocks
        for i in range(block.codes.shape[1])
    ]


def violation(theta: float, gradient: float, l1: float) -> float:
    """By how much a weight misses the optimality conditions; the gradient is that of all but l1 |theta|."""
    if theta > 0:
        return abs(gradient + l1)
    if theta < 0:
        return abs(gradient - l1)
    return max(abs(gradient) - l1, 0.0)
