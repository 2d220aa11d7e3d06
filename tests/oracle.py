"""A slow, obvious field of plain loops and enumeration, with which every fast path is compared.

It shares nothing with the library but the numbering of the schema. A row is a vector q over all columns of that
numbering (those of the targets, then the observed columns) and a weight; q holds the columns that code observed cells,
and any beliefs for missing cells.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Row:
    """A row: the code of each target cell (-1 if missing), the beliefs of all columns, and a weight."""

    codes: tuple[int, ...]
    q: tuple[float, ...]
    weight: float = 1.0


class SlowField:
    """A field (schema, biases, pairs, weights) that computes everything by enumeration or plain loops.

    ``conjunctions`` are features of three or more columns, padded with -1.
    """

    def __init__(self, schema, biases, pairs, weights, conjunctions=(), conjunction_weights=()) -> None:
        self.schema = schema
        together = zip(conjunctions, conjunction_weights, strict=True)
        self.conjunctions = [(columns_of(feature), float(w)) for feature, w in together]
        self.biases = [float(w) for w in biases]
        self.pairs = [(int(a), int(b), float(w)) for (a, b), w in zip(pairs, weights, strict=True)]

    # -- positions in the flat numbering -----------------------------------------------------------

    @property
    def n_targets(self) -> int:
        return len(self.schema.targets)

    @property
    def n_target_columns(self) -> int:
        return sum(variable.width for variable in self.schema.targets)

    @property
    def n_columns(self) -> int:
        return sum(variable.width for variable in self.schema.variables)

    def columns(self, v: int) -> range:
        start = sum(variable.width for variable in self.schema.variables[:v])
        return range(start, start + self.schema.variables[v].width)

    def one_hot(self, codes: Sequence[int], observed: Sequence[float] = ()) -> list[float]:
        """Return the columns of a row in which no cell is missing."""
        q = []
        for variable, code in zip(self.schema.targets, codes, strict=True):
            q += column_values(variable, code)
        return q + [float(value) for value in observed]

    # -- exact results by enumeration ------------------------------------------------------------

    def energy(self, q: Sequence[float]) -> float:
        """Return sum_s b_s q_s + sum_ab w_ab q_a q_b, the exponent of Eq. 1."""
        total = 0.0
        for s in range(self.n_target_columns):
            total += self.biases[s] * q[s]
        for a, b, w in self.pairs:
            total += w * q[a] * q[b]
        for columns, w in self.conjunctions:
            total += w * math.prod(q[c] for c in columns)
        return total

    def base_measure(self, codes: Sequence[int]) -> float:
        """Return the sum of the logarithms of the base measures of some states."""
        return sum(log_base(variable, code) for variable, code in zip(self.schema.targets, codes, strict=True))

    def assignments(self, codes: Sequence[int]) -> list[tuple[int, ...]]:
        """Return all assignments of the missing cells of ``codes``."""
        choices = [range(len(self.schema.targets[v].states)) if code < 0 else (code,) for v, code in enumerate(codes)]
        return list(itertools.product(*choices))

    def joint(self, codes: Sequence[int], observed: Sequence[float] = ()) -> dict[tuple[int, ...], float]:
        """Return the probability of every assignment of the missing cells given the observed ones."""
        assignments = self.assignments(codes)
        logs = [self.energy(self.one_hot(each, observed)) + self.base_measure(each) for each in assignments]
        top = max(logs)
        total = sum(math.exp(x - top) for x in logs)
        return {assignment: math.exp(x - top) / total for assignment, x in zip(assignments, logs, strict=True)}

    def marginals(self, codes: Sequence[int], observed: Sequence[float] = ()) -> list[list[float]]:
        """Return, for each target, the exact probability of each code, reference state first."""
        found = [[0.0] * len(variable.states) for variable in self.schema.targets]
        for assignment, p in self.joint(codes, observed).items():
            for v, code in enumerate(assignment):
                found[v][code] += p
        return found

    def conditional(self, v: int, codes: Sequence[int], observed: Sequence[float] = ()) -> list[float]:
        """Return p(v | all other cells) by enumerating v."""
        return self.marginals([-1 if u == v else code for u, code in enumerate(codes)], observed)[v]

    # -- updates -----------------------------------------------------

    def logit(self, s: int, q: Sequence[float]) -> float:
        total = self.biases[s]
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
        """Return the probabilities of the codes of v given all other beliefs (Eq. 3)."""
        variable, logits = self.schema.targets[v], [self.logit(s, q) for s in self.columns(v)]
        z = [
            log_base(variable, code) + sum(x * y for x, y in zip(logits, column_values(variable, code), strict=True))
            for code in range(len(variable.states))
        ]
        top = max(z)
        total = sum(math.exp(x - top) for x in z)
        return [math.exp(x - top) / total for x in z]

    def expected_columns(self, v: int, q: Sequence[float]) -> list[float]:
        """Return the expectations of the columns of v given all other beliefs."""
        found = [0.0] * len(self.columns(v))
        for code, p in enumerate(self.update(v, q)):
            for k, value in enumerate(column_values(self.schema.targets[v], code)):
                found[k] += p * value
        return found

    def sweep(self, q: Sequence[float]) -> list[float]:
        """Update every target once, in order; each update uses the ones before it."""
        new = list(q)
        for v in range(self.n_targets):
            for s, p in zip(self.columns(v), self.expected_columns(v, new), strict=True):
                new[s] = p
        return new

    def mean_field(self, row: Row, sweeps: int = 2000) -> list[float]:
        """Update the missing cells of a row sequentially, ``sweeps`` times."""
        q = list(row.q)
        for _ in range(sweeps):
            for v, code in enumerate(row.codes):
                if code < 0:
                    for s, p in zip(self.columns(v), self.expected_columns(v, q), strict=True):
                        q[s] = p
        return q

    def free_energy(self, q: Sequence[float]) -> float:
        """Return F = - <energy> + sum q ln q over the targets."""
        total = -self.energy(q)
        for v in range(self.n_targets):
            states = [q[s] for s in self.columns(v)]
            for p in [1.0 - sum(states), *states]:
                if p > 1e-300:
                    total += p * math.log(p)
        return total

    # -- objectives --------------------------------------------------------------------------------

    def pl_loss(self, rows: Iterable[Row]) -> float:
        """Return minus the sum over rows and observed cells of ln q1(code)."""
        total = 0.0
        for row in rows:
            for v, code in enumerate(row.codes):
                if code >= 0:
                    total -= row.weight * math.log(self.update(v, row.q)[code])
        return total

    def cd_loss(self, rows: Iterable[Row]) -> float:
        """Return F0 - F1."""
        total = 0.0
        for row in rows:
            total += row.weight * (self.free_energy(row.q) - self.free_energy(self.sweep(row.q)))
        return total

    def pl_gradient(self, rows: Iterable[Row], pairs: Iterable[Sequence[int]]) -> np.ndarray:
        """Return the gradient of pl: biases first, then ``pairs``, which may have any number of columns."""
        pairs = [columns_of(feature) for feature in pairs]
        out = [0.0] * (self.n_target_columns + len(pairs))
        for row in rows:
            error = [0.0] * self.n_columns
            for v, code in enumerate(row.codes):
                if code >= 0:
                    for s, p in zip(self.columns(v), self.expected_columns(v, row.q), strict=True):
                        error[s] = row.weight * (p - row.q[s])
            for s in range(self.n_target_columns):
                out[s] += error[s]
            for k, columns in enumerate(pairs):
                for c in columns:
                    out[self.n_target_columns + k] += error[c] * math.prod(
                        row.q[other] for other in columns if other != c
                    )
        return np.array(out)

    def cd_gradient(self, rows: Iterable[Row], pairs: Iterable[Sequence[int]]) -> np.ndarray:
        """Return <f>_q1 - <f>_q0 (Eq. 10 and 14)."""
        pairs = [columns_of(feature) for feature in pairs]
        out = [0.0] * (self.n_target_columns + len(pairs))
        for row in rows:
            q1 = self.sweep(row.q)
            for s in range(self.n_target_columns):
                out[s] += row.weight * (q1[s] - row.q[s])
            for k, columns in enumerate(pairs):
                change = math.prod(q1[c] for c in columns) - math.prod(row.q[c] for c in columns)
                out[self.n_target_columns + k] += row.weight * change
        return np.array(out)


def column_values(variable, code: int) -> list[float]:
    """Return the columns that code a state, given by its code."""
    count = len(variable.states)
    if count <= 2 or (variable.kind == "nominal" and not variable.symmetric):
        return [1.0 if code == k else 0.0 for k in range(1, count)]
    if variable.kind == "nominal":
        return [1.0 if code == k else 0.0 for k in range(count)]
    score = variable.scores[code]
    if variable.kind == "ordinal":
        return [score, *(1.0 if code == k else 0.0 for k in range(count))]
    return [score, score**2 - 1.0, *(1.0 if variable.bins[code] == k else 0.0 for k in range(max(variable.bins) + 1))]


def log_base(variable, code: int) -> float:
    """Return the logarithm of the base measure of a state."""
    return math.log(variable.frequencies[code]) if variable.kind == "numeric" and len(variable.states) > 2 else 0.0


def columns_of(feature: Sequence[int]) -> tuple[int, ...]:
    """Return the columns of a feature without its padding."""
    return tuple(int(column) for column in feature if column >= 0)


def candidate_pairs(schema) -> list[tuple[int, int]]:
    """Return every pair of columns of two variables, at least one of them a target, that is a candidate."""
    owner, target, measure = [], [], []
    for k, variable in enumerate(schema.variables):
        owner += [k] * variable.width
        target += [variable.role == "target"] * variable.width
        measure += column_measures(variable)
    return [
        (a, b)
        for a in range(len(owner))
        for b in range(a + 1, len(owner))
        if owner[a] != owner[b]
        and (target[a] or target[b])
        and "square" not in (measure[a], measure[b])
        and {measure[a], measure[b]} != {"score", "level"}
    ]


def column_measures(variable) -> list[str]:
    """Return what each column of a variable measures."""
    if not variable.width:
        return []
    if variable.kind == "nominal" or (variable.width <= 1 and len(variable.states) == 2):
        return ["score" if variable.kind == "numeric" and variable.role == "observed" else "state"] * variable.width
    scores = ["score", "square"] if variable.kind == "numeric" and variable.role != "observed" else ["score"]
    level = "given level" if variable.role == "observed" else "level"
    return [*scores, *[level] * (variable.width - len(scores))]


def candidate_features(schema, order: int) -> list[tuple[int, ...]]:
    """Return every choice of ``order`` columns of as many variables, at least one of them a target."""
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
    """Return the rows of a compiled table."""
    return [
        Row(tuple(int(c) for c in block.codes[:, i]), tuple(block.beliefs[:, i].tolist()), float(block.weight[i]))
        for block in table.blocks
        for i in range(block.codes.shape[1])
    ]


def violation(theta: float, gradient: float, l1: float) -> float:
    """Return the violation of the optimality conditions by a weight; the gradient excludes l1 |theta|."""
    if theta > 0:
        return abs(gradient + l1)
    if theta < 0:
        return abs(gradient - l1)
    return max(abs(gradient) - l1, 0.0)
