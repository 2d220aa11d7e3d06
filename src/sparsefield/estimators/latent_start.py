"""This module prepares a fit with latent variables: initial weights at which their states differ."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from sparsefield import config
from sparsefield.data import DenseDataset, Layout, Schema, Source, Table, Variable, compile_table
from sparsefield.errors import DataError, UnknownStateWarning
from sparsefield.estimators.training import TrainingData
from sparsefield.inference import state_probabilities
from sparsefield.model import Field
from sparsefield.model.latent_features import joint_states
from sparsefield.solver import WarmStart

ROWS = 20_000
"""Number of rows, drawn at random, from which the start is computed."""

RESTARTS = 4
REFINEMENTS = 30
"""Steps of expectation maximization that turn clusters into latent classes."""


def check_latent(latent: Any) -> dict[str, int]:
    """Return {name: number of states} after checking it."""
    if latent is None:
        return {}
    if not isinstance(latent, Mapping):
        raise ValueError(f"latent must map names to numbers of states, such as {{'topic': 8}}; got {latent!r}.")
    for name, count in latent.items():
        if not isinstance(name, str) or not name:
            raise ValueError(f"latent names a variable {name!r}: names are text.")
        if not isinstance(count, Integral) or isinstance(count, bool) or count < 2:
            raise ValueError(f"latent variable {name!r} must have 2 states or more, got {count!r}.")
    joint = math.prod(int(count) for count in latent.values())
    if joint > config.MAX_LATENT_STATES:
        raise ValueError(
            f"latent variables have {joint:,} joint states, and {config.MAX_LATENT_STATES:,} at most are possible: use "
            "fewer variables, or fewer states."
        )
    return {name: int(count) for name, count in latent.items()}


def latent_training_data(
    source: Source, schema: Schema, weight: np.ndarray | None, latent: Mapping[str, int], seed: int
) -> TrainingData:
    """Return the tables with and without latent variables, and initial weights."""
    if source.kind == "sparse":
        raise DataError("latent= needs a dense table; X is a sparse matrix: pass X.toarray().")
    table = compile_table(source, schema, sample_weight=weight)
    schema, start = start_latent(table, latent, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownStateWarning)  # the first table has given it already
        extended = compile_table(source, schema, sample_weight=weight)
    without = DenseDataset.single(table)
    return TrainingData(DenseDataset.single(extended), source.kind, start=start, without_latent=without)


def start_latent(table: Table, latent: Mapping[str, int], seed: int | None) -> tuple[Schema, WarmStart]:
    """Return the schema with latent variables, and initial weights, the same for any number of threads."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # sums over rows have one order then
        return _start(table, latent, np.random.default_rng(seed))


def _start(table: Table, latent: Mapping[str, int], rng: np.random.Generator) -> tuple[Schema, WarmStart]:
    """Cluster the rows and refine the clusters to latent classes, the states of the first latent variable.

    Each further variable gets the clusters of the residuals that the ones before it leave, so that all start different.
    """
    given = table.schema
    taken = set(given.index_of_name)
    for name in latent:
        if name in taken:
            raise DataError(f"latent names {name!r}, which is a column of X: choose another name.")
    sizes = [variable.width + 1 for variable in given.targets if variable.width]
    if not sizes:
        raise DataError("No column of X varies: there is nothing that a latent variable could explain.")
    cells, weight = _draw_rows(table, sizes, rng)
    expected = np.broadcast_to(np.average(cells, axis=0, weights=weight), cells.shape)
    logits = _log_ratios(expected[:1], sizes)[0]
    shares, shifts = [], []
    for number, count in enumerate(latent.values()):
        q = _clusters(cells - expected, weight, count, rng)
        if number == 0:
            q = _refine(cells, weight, q, sizes)
        mass = (q * weight[:, None]).T
        found, before = _smooth(mass @ cells, cells, weight, sizes), _smooth(mass @ expected, cells, weight, sizes)
        shift = _log_ratios(found, sizes) - _log_ratios(before, sizes)
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
    schema = Schema((*given.targets, *variables, *given.observed), (*given.order, *latent))
    return schema, _as_start(schema, logits, shifts, sizes)


def _draw_rows(table: Table, sizes: Sequence[int], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return (rows, states) 0/1 cells, missing ones as frequencies of the states; and the weights of the rows."""
    schema, codes = table.schema, table.codes()
    weight = np.concatenate([block.weight for block in table.blocks])
    rows = np.flatnonzero(weight > 0)
    if len(rows) > ROWS:
        rows = np.sort(rng.choice(rows, ROWS, replace=False))
    cells, at = np.zeros((len(rows), sum(sizes))), 0
    for v, variable in enumerate(schema.targets):
        if not variable.width:
            continue
        shares = np.asarray(variable.frequencies)[variable.position_of_code]
        mine = codes[v, rows]
        for code in range(variable.width + 1):
            cells[:, at + code] = np.where(mine >= 0, mine == code, shares[code])
        at += variable.width + 1
    return cells, weight[rows]


def _clusters(cells: np.ndarray, weight: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return the clusters of the rows, (rows, clusters) 0/1."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    if len(cells) < count:
        raise DataError(f"A latent variable of {count} states needs as many rows, or more; there are {len(cells)}.")
    seed = int(rng.integers(2**31))
    means = KMeans(count, n_init=RESTARTS, random_state=seed)  # pyright: ignore[reportArgumentType]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than clusters: some stay empty
        labels = means.fit(cells, sample_weight=weight).labels_
    return np.eye(count)[labels]


def _refine(cells: np.ndarray, weight: np.ndarray, q: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Run expectation maximization of a mixture whose columns are independent within a class."""
    for _ in range(REFINEMENTS):
        mass = (q * weight[:, None]).T
        chances = _smooth(mass @ cells, cells, weight, sizes)
        log_q = cells @ np.log(chances).T + np.log(mass.sum(axis=1) + 1.0)
        q = np.exp(log_q - log_q.max(axis=1, keepdims=True))
        q /= q.sum(axis=1, keepdims=True)
    return q


def _smooth(sums: np.ndarray, cells: np.ndarray, weight: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Return (classes, states) probabilities from weighted counts, smoothed by one average row."""
    average = np.average(cells, axis=0, weights=weight)
    starts = np.cumsum([0, *sizes[:-1]])
    counts = np.maximum(sums, 0.0) + np.maximum(average, 1e-6)
    return counts / np.repeat(np.add.reduceat(counts, starts, axis=1), sizes, axis=1)


def _log_ratios(chances: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Return (classes, states without reference states): ln of each probability over that of its reference state."""
    starts = np.cumsum([0, *sizes[:-1]])
    logs = np.log(np.maximum(chances, 1e-9))
    ratios = logs - np.repeat(logs[:, starts], sizes, axis=1)
    return np.delete(ratios, starts, axis=1)


def _as_start(schema: Schema, logits: np.ndarray, shifts: list[np.ndarray], sizes: Sequence[int]) -> WarmStart:
    """Return a start with all pairs of a latent state, and biases that give the latent states their shares."""
    first, last = len(logits), schema.n_states
    weights = np.zeros((last - first, schema.n_columns))
    at = 0
    for shift in shifts:
        weights[at : at + len(shift) - 1, :first] = shift[1:]
        at += len(shift) - 1
    members = joint_states(tuple(variable.width for variable in schema.latent))
    # ln of the sum over the table's columns, for each joint state.
    exponents = np.exp(np.clip(logits[:, None] + weights[:, :first].T @ members, -30.0, 30.0))
    starts = np.cumsum([0, *(size - 1 for size in sizes[:-1])])
    inside = np.log1p(np.add.reduceat(exponents, starts, axis=0)).sum(axis=0)
    biases = [logits]
    chance = np.ones(members.shape[1])
    shape = [len(shift) for shift in shifts]
    share_of = [np.asarray(v.frequencies)[v.position_of_code] for v in schema.latent]
    for k, share in enumerate(share_of):
        across = share.reshape([-1 if j == k else 1 for j in range(len(shape))])
        chance = chance * np.broadcast_to(across, shape).ravel()
    for k, share in enumerate(share_of):
        mean = np.moveaxis((chance * inside).reshape(shape), k, 0).reshape(shape[k], -1).sum(axis=1) / share
        level = np.log(share) - mean
        biases.append(level[1:] - level[0])
    owner = schema.variable_of_column
    latent, column = np.divmod(np.arange(weights.size), schema.n_columns)
    latent += first
    wanted = (owner[latent] != owner[column]) & ((column < first) | (column > latent))
    pairs = np.sort(np.column_stack([column, latent])[wanted], axis=1)
    return WarmStart(np.concatenate(biases), pairs, weights.ravel()[wanted])


def with_shares(field: Field, table: Table, beliefs: np.ndarray) -> Field:
    """Return the field with the mean beliefs over the training rows as frequencies of its latent states."""
    schema = field.schema
    weight = np.concatenate([block.weight for block in table.blocks])
    first, variables = len(schema.targets) - len(schema.latent), []
    for k, variable in enumerate(schema.latent, start=first):
        columns = beliefs[schema.state_offsets[k] : schema.state_offsets[k + 1]]
        shares = np.average(state_probabilities(variable, columns), axis=0, weights=weight)
        variables.append(replace(variable, frequencies=tuple(shares.tolist())))
    known = Schema((*schema.targets[:first], *variables, *schema.observed), schema.order)
    return replace(field, layout=Layout.single(known))
