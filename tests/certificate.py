"""The optimality conditions of a fitted field, computed from nothing but its weights and the coded table.

Everything is plain NumPy over all candidates: no working set, no kernels, no penalty factors of the library. What it
shares with the library are the states of columns (with scores, bins and frequencies) and the codes of cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
from oracle import column_measures, column_values, log_base
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from sparsefield.data import as_source, compile_table


@dataclass(frozen=True)
class CodedTable:
    """A table of target variables, given by codes, and of covariates, given by the values of their columns."""

    coded: tuple[np.ndarray, ...]
    """Values of the columns of each target for each of its states, (states, width)."""
    log_base: tuple[np.ndarray, ...]
    """Logarithms of the base measures of the states of each target, (states,)."""
    codes: np.ndarray
    """(targets, rows): -1 for a missing cell."""
    covariates: np.ndarray
    """(rows, covariate columns)"""
    owner: np.ndarray
    """(columns,): number of the variable of each column, targets first."""
    measures: tuple[str, ...]
    """(columns,): "state", "score", "square", "level" of a target, or "given level"."""
    degrees: np.ndarray
    """(variables,): degrees of freedom."""
    weight: np.ndarray
    """(rows,)"""

    @property
    def n(self) -> int:
        """Number of columns of targets."""
        return sum(values.shape[1] for values in self.coded)

    def columns_of(self, v: int) -> slice:
        start = sum(values.shape[1] for values in self.coded[:v])
        return slice(start, start + self.coded[v].shape[1])

    def values(self) -> np.ndarray:
        """Return all columns of complete rows, and a column of ones, (rows, columns + 1)."""
        assert (self.codes >= 0).all(), "only the likelihood has a certificate with missing cells"
        targets = [values[codes] for values, codes in zip(self.coded, self.codes, strict=True)]
        return np.hstack([*targets, self.covariates, np.ones((len(self.weight), 1))])

    def unseen(self) -> np.ndarray:
        """Return which target columns indicate a state without an example, (target columns,)."""
        parts = []
        for v, values in enumerate(self.coded):
            seen = np.isin(np.arange(len(values)), self.codes[v][self.weight > 0.0])
            absent = ~values[seen].any(axis=0)
            has_reference = len(values) == values.shape[1] + 1
            parts.append(absent | (has_reference and not seen[0]))
        return np.concatenate(parts)


def code_table(schema: Any, table: Any, weight: np.ndarray | None = None) -> CodedTable:
    """Return a table as a schema codes it."""
    blocks = compile_table(as_source(table), schema, sample_weight=weight).blocks
    variables, n = schema.variables, sum(variable.width for variable in schema.targets)
    return CodedTable(
        tuple(
            np.array([column_values(v, code) for code in range(len(v.states))]).reshape(len(v.states), -1)
            for v in schema.targets
        ),
        tuple(np.array([log_base(v, code) for code in range(len(v.states))]) for v in schema.targets),
        np.concatenate([block.codes for block in blocks], axis=1).astype(np.int64),
        np.concatenate([block.beliefs[n:] for block in blocks], axis=1).T,
        np.repeat(np.arange(len(variables)), [variable.width for variable in variables]),
        tuple(measure for variable in variables for measure in column_measures(variable)),
        np.array([1 if v.kind != "nominal" else max(len(v.states) - 1, 1) for v in variables]),
        np.concatenate([block.weight for block in blocks]),
    )


def code_binary(X: np.ndarray, labels: int | None = None) -> CodedTable:
    """Return a matrix of 0/1 columns; those after the first ``labels`` are covariates, which may be any numbers."""
    count = X.shape[1] if labels is None else labels
    return CodedTable(
        (np.array([[0.0], [1.0]]),) * count, (np.zeros(2),) * count, X[:, :count].T.astype(np.int64), X[:, count:],
        np.arange(X.shape[1]), ("state",) * X.shape[1], np.ones(X.shape[1], dtype=np.int64), np.ones(len(X)),
    )  # fmt: skip


# -- candidates --------------------------------------------------------------------------------------------------------


def pair_factors(table: CodedTable) -> np.ndarray:
    """Return the factor of l1 of two columns, (columns, columns), infinite where they form no candidate.

    Features of levels have the factor 4, others 2 for each score of a target. The square of a score has no features;
    the score of one variable and a level of a target have none; nor have two covariates, unless one is nominal, which
    matters for features of three columns.
    """
    measures, target = np.array(table.measures), np.arange(len(table.owner)) < table.n
    level, score = np.isin(measures, ["level", "given level"]), measures == "score"
    scores = (score & target).astype(float)
    factors = np.where(level[:, None] | level, 4.0, 2.0 ** (scores[:, None] + scores))
    square, own_level, given = measures == "square", measures == "level", ~target & (level | score)
    none = square[:, None] | square | (table.owner[:, None] == table.owner) | (given[:, None] & given)
    none |= (score[:, None] & own_level) | (own_level[:, None] & score)
    return np.where(none, np.inf, factors)


def candidates(table: CodedTable, held: Sequence[tuple[int, ...]], order: int, expand: str) -> list[tuple[int, ...]]:
    """Return all pairs, and features of more columns if one column less has a weight, or ("all") for every pair."""
    factors, columns = pair_factors(table), range(len(table.owner))
    pairs = [(a, b) for a, b in combinations(columns, 2) if a < table.n and np.isfinite(factors[a, b])]
    features = set(pairs)
    for size in range(3, order + 1):
        expandable = pairs if size == 3 and expand == "all" else [f for f in held if len(f) == size - 1]
        features |= {
            tuple(sorted((*feature, c)))
            for feature in expandable
            for c in columns
            if np.isfinite(factors[c, list(feature)]).all()
        }
    return sorted(features | set(held))


# -- gradients ---------------------------------------------------------------------------------------------------------


def logits(table: CodedTable, theta: dict[tuple[int, ...], float], values: np.ndarray) -> np.ndarray:
    """Return the logits of all target columns given the values of the others, (rows, target columns)."""
    out = np.zeros((len(values), table.n))
    for feature, weight in theta.items():
        for c in feature:
            if c < table.n:
                out[:, c] += weight * values[:, [other for other in feature if other != c]].prod(axis=1)
    return out


def expectations(table: CodedTable, v: int, eta: np.ndarray) -> np.ndarray:
    """Return the expected columns of a target, (rows, width), given the logits of its columns."""
    return softmax(eta @ table.coded[v].T + table.log_base[v]) @ table.coded[v]


def softmax(z: np.ndarray) -> np.ndarray:
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def pl_gradient(table: CodedTable, theta: dict[tuple[int, ...], float], features: np.ndarray) -> np.ndarray:
    values = table.values()
    eta, errors = logits(table, theta, values), np.zeros_like(values)
    for v in range(len(table.coded)):
        own = table.columns_of(v)
        errors[:, own] = table.weight[:, None] * (expectations(table, v, eta[:, own]) - values[:, own])
    gradient = np.zeros(len(features))
    for k in range(features.shape[1]):
        others = np.delete(features, k, axis=1)
        gradient += (errors[:, features[:, k]] * values[:, others].prod(axis=2)).sum(axis=0)
    return gradient


def cd_gradient(table: CodedTable, theta: dict[tuple[int, ...], float], features: np.ndarray) -> np.ndarray:
    """Return <f> after one sweep of mean field, minus f in the data."""
    before = table.values()
    after = before.copy()
    for v in range(len(table.coded)):
        own = table.columns_of(v)
        after[:, own] = expectations(table, v, logits(table, theta, after)[:, own])
    return table.weight @ (after[:, features].prod(axis=2) - before[:, features].prod(axis=2))


def ml_gradient(table: CodedTable, theta: dict[tuple[int, ...], float], features: np.ndarray) -> np.ndarray:
    """Return E[f] minus E[f | observed cells], by enumeration of all states of all targets."""
    states, base, given = _joint_states(table)
    energy = _energies(table, theta, states, base)
    consistent = np.stack([((states == codes) | (codes < 0)).all(axis=1) for codes in table.codes.T])
    free, clamped = softmax(energy), softmax(np.where(consistent, energy, -np.inf))
    target = np.where(features < table.n, features, -1)
    covariate = np.where(features >= table.n, features, -1)
    change = (free - clamped) @ _columns(table, states)[:, target].prod(axis=2)
    return table.weight @ (change * given[:, covariate].prod(axis=2))


def bethe_gradient(table: CodedTable, theta: dict[tuple[int, ...], float], features: np.ndarray) -> np.ndarray:
    """Return the gradient of the Bethe likelihood of a forest: beliefs are exact, and variables without an edge have
    independent ones, however they are connected."""
    edges = {tuple(table.owner[list(feature)]) for feature in theta if len(feature) == 2}
    count = len(table.coded)
    graph = csr_matrix((np.ones(len(edges)), tuple(np.array(sorted(edges)).T)), shape=(count, count))
    assert len(edges) == count - connected_components(graph, directed=False)[0], "the field is no forest"
    states, base, _ = _joint_states(table)
    p = softmax(_energies(table, theta, states, base)[:1])[0]
    columns = _columns(table, states)
    expected, means = p @ columns[:, features].prod(axis=2), p @ columns
    for k, (a, b) in enumerate(features.tolist()):
        if b >= 0 and (table.owner[a], table.owner[b]) not in edges:
            expected[k] = means[a] * means[b]
    return table.weight @ (expected - table.values()[:, features].prod(axis=2))


def _joint_states(table: CodedTable) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return all joint states, their base measures, and (rows, columns + 1) with the values of covariates alone."""
    states = np.array(list(product(*(range(len(values)) for values in table.coded))))
    base = sum(logs[states[:, v]] for v, logs in enumerate(table.log_base))
    rows = len(table.weight)
    return states, base, np.hstack([np.zeros((rows, table.n)), table.covariates, np.ones((rows, 1))])


def _columns(table: CodedTable, states: np.ndarray) -> np.ndarray:
    """Return the columns of joint states, (states, columns + 1); those of covariates are 1."""
    own = [values[states[:, v]] for v, values in enumerate(table.coded)]
    return np.hstack([*own, np.ones((len(states), table.covariates.shape[1] + 1))])


def _energies(
    table: CodedTable, theta: dict[tuple[int, ...], float], states: np.ndarray, base: np.ndarray
) -> np.ndarray:
    columns, energy = _columns(table, states), np.tile(base, (len(table.weight), 1))
    for feature, weight in theta.items():
        given = [c - table.n for c in feature if c >= table.n]
        energy += weight * np.outer(table.covariates[:, given].prod(axis=1), columns[:, list(feature)].prod(axis=1))
    return energy


GRADIENTS = {"pl": pl_gradient, "cd": cd_gradient, "ml": ml_gradient, "bethe": bethe_gradient}


# -- the certificate ---------------------------------------------------------------------------------------------------


def true_violation(model: Any, table: CodedTable, field: Any = None) -> float:
    """Return the largest violation of the optimality conditions of a fitted model, or of another field for it.

    A weight that is not 0, or one of a group that is not, has to have the derivative 0. At 0 it is by how much the
    gradient is too long for the penalty; of a group, the largest part of that.
    """
    field, options = field or model.field_, model.get_params()
    order, expand = field.features.shape[1], options.get("features__expand", "active")
    order = max(order, options.get("features__max_order", 2))
    theta = {(s,): float(w) for s, w in enumerate(field.biases)}
    for feature, weight in zip(field.features.tolist(), field.theta[len(field.biases) :], strict=True):
        theta[tuple(c for c in feature if c >= 0)] = float(weight)
    held = [feature for feature in theta if len(feature) > 1]
    features = [(s,) for s in range(table.n)] + candidates(table, held, order, expand)
    padded = np.array([(*f, *[-1] * (order - len(f))) for f in features])
    weights = np.array([theta.get(feature, 0.0) for feature in features])
    l1, l2, groups = penalties(model, table, features)
    assert np.isfinite(l1).all(), "a feature of the field is no candidate"
    slope = GRADIENTS[model.objective](table, theta, padded) + l2 * weights
    worst = 0.0
    for members in groups:
        w, g, strength = weights[members], slope[members], l1[members]
        if w.any():
            g = g + strength**2 * w / np.linalg.norm(strength * w) if strength.any() else g
        elif strength.all():
            g = g * max(1.0 - 1.0 / max(np.linalg.norm(g / strength), 1e-300), 0.0)
        worst = max(worst, float(np.abs(g).max()))
    return worst


def penalties(model: Any, table: CodedTable, features: list[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray, list]:
    """Return l1 and l2 of each feature, biases included, and the lists of features that are penalized together."""
    factors, options = pair_factors(table), model.get_params()
    order_penalty, label_penalty = options.get("features__order_penalty", 2.0), options.get("label_penalty", 1.0)
    by_likelihood = model.objective in ("ml", "bethe")
    l1, l2 = np.full(len(features), float(model.l1_)), np.full(len(features), float(model.l2))
    free = ~table.unseen() & (not model.resolve("features").penalize_biases)
    l1[: table.n][free] = l2[: table.n][free] = 0.0
    edges: dict[tuple[int, ...], list[int]] = {}
    for k, feature in enumerate(features):
        key = feature
        if len(feature) > 1:
            n_targets = sum(c < table.n for c in feature)
            l1[k] *= max(factors[pair] for pair in combinations(feature, 2)) * order_penalty ** (len(feature) - 2)
            l1[k] *= label_penalty if n_targets == 2 else 1.0
            l1[k] /= n_targets if by_likelihood else 1
            l2[k] *= 0.01 if [table.measures[c] for c in feature] == ["score", "score"] else 1.0
        if len(feature) > 1 and model.penalty == "group":
            ends = tuple(table.owner[list(feature)].tolist())
            l1[k] *= np.sqrt(table.degrees[list(ends)].prod())
            key = (-1, *ends)
        edges.setdefault(key, []).append(k)
    return l1, l2, list(edges.values())
