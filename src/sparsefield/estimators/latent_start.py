"""Initial weights of latent variables, at which their states differ."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sparsefield import config
from sparsefield.data import Dataset, Layout, Schema, Source, Table, Variable, compile_table
from sparsefield.data.labels import is_valid_text
from sparsefield.errors import DataError, UnknownStateWarning
from sparsefield.estimators.field_estimator import TrainingData
from sparsefield.inference import state_probabilities
from sparsefield.model import Field
from sparsefield.model.field import joint_states
from sparsefield.options import whole
from sparsefield.solver import WarmStart

ROWS = 20_000
"""Number of rows, drawn at random, from which the start is computed."""

RESTARTS = 4
REFINEMENTS = 30
"""Steps of expectation maximization that turn clusters into latent classes."""


def latent_problems(latent: Any) -> list[str]:
    """Return a sentence for each thing that is wrong with {name: number of states}."""
    if not isinstance(latent, Mapping):
        return [f"latent must be None or a dict such as {{'topic': 8}}, got {latent!r}."]
    unnamed = [name for name in latent if not isinstance(name, str) or not is_valid_text(name) or not name]
    problems = [f"latent names a variable {name!r}: names are text." for name in unnamed]
    counts = {name: n for name, n in latent.items() if not whole(2).accepts(n)}
    problems += [f"latent variable {name!r} must have 2 states or more, got {n!r}." for name, n in counts.items()]
    joint = 1 if problems else math.prod(map(int, latent.values()))
    if joint > config.MAX_LATENT_STATES:
        problems.append(
            f"latent variables have {joint:,} joint states, and {config.MAX_LATENT_STATES:,} at most are possible: use "
            "fewer variables, or fewer states."
        )
    return problems


def latent_training_data(
    source: Source, schema: Schema, weight: np.ndarray | None, latent: Mapping[str, int], seed: int
) -> TrainingData:
    """Return the tables with and without latent variables, and initial weights."""
    if source.kind == "sparse":
        raise DataError("latent= needs a dense table; X is a sparse matrix: pass X.toarray().")
    table = compile_table(source, schema, sample_weight=weight)
    with threadpool_limits(1):  # sums over rows have one order then, whatever the number of threads
        schema, start = _start(table, latent, np.random.default_rng(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownStateWarning)  # the first table has given it already
        extended = compile_table(source, schema, sample_weight=weight)
    without = Dataset.single(table)
    return TrainingData(Dataset.single(extended), source.kind, start=start, without_latent=without)


def _start(table: Table, latent: Mapping[str, int], rng: np.random.Generator) -> tuple[Schema, WarmStart]:
    """Cluster the rows and refine the clusters to latent classes, the states of the first latent variable.

    Each further variable gets the clusters of the residuals that the ones before it leave, so that all start different.
    """
    plain = table.schema
    for name in latent:
        if name in plain.index_of_name:
            raise DataError(f"latent names {name!r}, which is a column of X: choose another name.")
    varying = [variable for variable in plain.targets if variable.width]
    if not varying:
        raise DataError("No column of X varies: there is nothing that a latent variable could explain.")
    sizes = [int(_groups(variable).max()) + 1 for variable in varying]
    cells, weight = _draw_rows(table, sizes, rng)
    expected = np.broadcast_to(np.average(cells, axis=0, weights=weight), cells.shape)
    logits = _log_ratios(expected[:1], sizes)[0]
    shares, shifts = [], []
    for number, count in enumerate(latent.values()):
        q = _clusters(cells - expected, weight, count, rng)
        for _ in range(0 if number else REFINEMENTS):  # of a mixture whose columns are independent within a class
            mass = (q * weight[:, None]).T
            chances = _smooth(mass @ cells, cells, weight, sizes)
            log_q = cells @ np.log(chances).T + np.log(mass.sum(axis=1) + 1.0)
            q = np.exp(log_q - log_q.max(axis=1, keepdims=True))
            q /= q.sum(axis=1, keepdims=True)
        mass = (q * weight[:, None]).T
        after, before = (_smooth(mass @ values, cells, weight, sizes) for values in (cells, expected))
        shift = _log_ratios(after, sizes) - _log_ratios(before, sizes)
        share = (mass.sum(axis=1) + 1.0) / (mass.sum() + count)
        base = int(np.argmax(share))
        order = [base, *(k for k in range(count) if k != base)]
        shares.append(share)
        logits = logits + shift[base]
        shifts.append(shift[order] - shift[base])
        expected = expected + q @ ((mass @ (cells - expected)) / (mass.sum(axis=1)[:, None] + 1.0))
    variables = tuple(
        Variable(name, "latent", tuple(range(count)), int(np.argmax(share)), tuple(share.tolist()))
        for (name, count), share in zip(latent.items(), shares, strict=True)
    )
    schema = Schema((*plain.targets, *variables, *plain.observed), (*plain.order, *latent))
    return schema, _as_start(schema, varying, logits, shifts, sizes)


def _groups(variable: Variable) -> np.ndarray:
    """Return the group of each code, (states,): its bin if the variable is a number, otherwise each code is a group."""
    in_bins = variable.numeric and not variable.has_reference
    return np.asarray(variable.bins) if in_bins else np.arange(len(variable.states))


def _draw_rows(table: Table, sizes: Sequence[int], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return (rows, groups) 0/1 cells, missing ones as frequencies of the groups; and the weights of the rows."""
    codes = table.codes()
    weight = table.weight()
    rows = np.flatnonzero(weight > 0)
    if len(rows) > ROWS:
        rows = np.sort(rng.choice(rows, ROWS, replace=False))
    cells, at = np.zeros((len(rows), sum(sizes))), 0
    for v, variable in enumerate(table.schema.targets):
        if variable.width:
            groups = _groups(variable)
            for group, share in enumerate(np.bincount(groups, variable.code_frequencies)):
                cells[:, at] = np.where(codes[v, rows] >= 0, groups[codes[v, rows]] == group, share)
                at += 1
    return cells, weight[rows]


def _clusters(cells: np.ndarray, weight: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return the clusters of the rows, (rows, clusters) 0/1."""
    from sklearn.cluster import KMeans  # whose import takes long

    if len(cells) < count:
        raise DataError(f"A latent variable of {count} states needs as many rows, or more; there are {len(cells)}.")
    seed = int(rng.integers(2**31))
    means = KMeans(count, n_init=RESTARTS, random_state=seed)  # pyright: ignore[reportArgumentType]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than clusters: some stay empty
        labels = means.fit(cells, sample_weight=weight).labels_
    return np.eye(count)[labels]


def _smooth(sums: np.ndarray, cells: np.ndarray, weight: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Return (classes, groups) probabilities from weighted counts, smoothed by one average row."""
    average = np.average(cells, axis=0, weights=weight)
    starts = np.cumsum([0, *sizes[:-1]])
    counts = np.maximum(sums, 0.0) + np.maximum(average, 1e-6)
    return counts / np.repeat(np.add.reduceat(counts, starts, axis=1), sizes, axis=1)


def _log_ratios(chances: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Return (classes, groups): ln of each probability over that of the first group, such as the reference state."""
    starts = np.cumsum([0, *sizes[:-1]])
    logs = np.log(np.maximum(chances, 1e-9))
    return logs - np.repeat(logs[:, starts], sizes, axis=1)


def _column_weights(variable: Variable, logits: np.ndarray, *, linear: bool) -> np.ndarray:
    """Return the weights of the columns of a variable, (classes, width), that give (classes, groups) logits.

    If ``linear``, the score of an ordered variable gets what is linear in it, and the indicators the rest.
    """
    if variable.has_reference:
        return logits[:, 1:]
    scores = np.zeros((len(logits), variable.n_scores))
    if linear and variable.ordered:
        frequencies = np.maximum(variable.code_frequencies, 1e-12)
        shares = np.bincount(_groups(variable), frequencies)
        score = np.bincount(_groups(variable), frequencies * variable.coded[:, 0]) / shares
        score -= shares @ score / shares.sum()
        scores[:, 0] = logits @ (shares * score) / (shares @ score**2)
        logits = logits - np.outer(scores[:, 0], score)
    return np.hstack([scores, logits - logits.mean(axis=1, keepdims=True)])


def _as_start(
    schema: Schema, varying: Sequence[Variable], logits: np.ndarray, shifts: list[np.ndarray], sizes: Sequence[int]
) -> WarmStart:
    """Return a start with all pairs of a latent state, and biases that give the latent states their shares."""
    shift = np.concatenate([part[1:] for part in shifts])
    ends = np.cumsum(sizes)[:-1]
    parts = zip(varying, np.split(shift, ends, axis=1), strict=True)
    visible = np.hstack([_column_weights(variable, part, linear=True) for variable, part in parts])
    first, last = visible.shape[1], schema.n_target_columns
    weights = np.hstack([visible, np.zeros((last - first, schema.n_columns - first))])
    members = joint_states(tuple(variable.width for variable in schema.latent))
    # ln of the sum over the table's columns, for each joint state.
    exponents = np.exp(np.clip(logits[:, None] + shift.T @ members, -30.0, 30.0))
    inside = np.log(np.add.reduceat(exponents, [0, *ends], axis=0)).sum(axis=0)
    biases = []
    for variable, part in zip(varying, np.split(logits, ends), strict=True):
        # The logits of a number without any weight are its base measure.
        base = np.bincount(_groups(variable), np.exp(variable.log_base))
        biases.append(_column_weights(variable, (part - np.log(base))[None], linear=False)[0])
    shares = [np.asarray(v.frequencies)[v.position_of_code] for v in schema.latent]
    joint = reduce(np.multiply.outer, shares) * inside.reshape([len(share) for share in shares])
    for k, share in enumerate(shares):
        level = np.log(share) - joint.sum(axis=tuple(j for j in range(len(shares)) if j != k)) / share
        biases.append(level[1:] - level[0])
    owner = schema.variable_of_column
    latent, column = np.divmod(np.arange(weights.size), schema.n_columns)
    latent += first
    wanted = (owner[latent] != owner[column]) & ((column < first) | (column > latent))
    pairs, weights = np.sort(np.column_stack([column, latent])[wanted], axis=1), weights.ravel()[wanted]
    candidate = np.isfinite(Layout.single(schema).feature_factors(pairs))
    return WarmStart(np.concatenate(biases), pairs[candidate], weights[candidate], latent=True)


def with_shares(field: Field, table: Table, beliefs: np.ndarray) -> Field:
    """Return the field with the mean beliefs over the training rows as frequencies of its latent states."""
    schema = field.schema
    weight = table.weight()
    first, variables = len(schema.targets) - len(schema.latent), []
    for k, variable in enumerate(schema.latent, start=first):
        shares = np.average(state_probabilities(schema, k, beliefs), axis=0, weights=weight)
        variables.append(replace(variable, frequencies=tuple(shares.tolist())))
    known = Schema((*schema.targets[:first], *variables, *schema.observed), schema.order)
    return replace(field, layout=Layout.single(known))
