"""Test log-likelihood of whole rows on binary tables of the density literature, exact or between two bounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import logsumexp

from benchmarks.command_line import Json, Row, Seed, print_rows
from benchmarks.measure import Report, climb
from reproduction.public_data import load_dataset
from sparsefield import Features, MarkovField
from sparsefield.app.cli.console import print_message
from sparsefield.model import Field

__all__ = ["ARMS", "CITED", "LogLinear", "bound_log_partition", "chow_liu_score", "run_density"]

Array = np.ndarray[Any, np.dtype[Any]]

MAX_ENUMERATED = 20
"""Columns up to which all rows are enumerated."""

CITED = {
    "nltcs": {"ACMN": -6.00, "best": -5.99},
    "plants": {"ACMN": -12.80, "best": -12.26},
    "dna": {"ACMN": -80.03, "best": -79.05},
}
"""Markov networks with conjunctive features (Lowd and Rooshenas, 2013), and the best of the models that papers on
probabilistic circuits list."""

ARMS: dict[str, dict[str, Any]] = {
    "pairs": {},
    "pairs, refit by ml": {"refit": "ml"},
    "three columns": {"features": Features(max_order=3)},
    **{f"latent, {k} states": {"latent": {"class": k}} for k in (4, 8, 16)},
}
TRACTABLE = ("nltcs",)
"""Tables whose likelihood can be summed exactly, so that `refit="ml"` is possible."""

GRIDS = {"nltcs": (0.5, 1.0, 2.0, 4.0, 8.0), "plants": (2.0, 3.0, 5.0, 7.0), "dna": (4.0, 8.0, 12.0, 16.0)}


class LogLinear(NamedTuple):
    """A field over one table as arrays: ln p(row) + ln Z = biases @ c + c @ weights @ c / 2 + conjunctions.

    c has the indicators of all states but a reference state of each column, latent variables included.
    """

    biases: Array
    """(indicators,)"""
    weights: Array
    """(indicators, indicators): symmetric, 0 within a column."""
    triples: Array
    """(conjunctions, 3) indicators"""
    triple_weights: Array
    variables: list[range]
    """The indicators of each column, visible ones first."""
    n_visible: int

    @classmethod
    def of(cls, field: Field) -> LogLinear:
        """Read a field whose visible columns are binary, without covariates."""
        schema = field.schema
        n, offsets = schema.n_columns, schema.target_offsets
        weights = np.zeros((n, n))
        weights[field.pairs[:, 0], field.pairs[:, 1]] = weights[field.pairs[:, 1], field.pairs[:, 0]] = field.weights
        variables = [range(*pair) for pair in pairwise(offsets)]
        visible = len(schema.targets) - len(schema.latent)
        return cls(field.biases, weights, field.conjunctions, field.conjunction_weights, variables, visible)

    def energy(self, c: Array) -> Array:
        """Return ln p + ln Z of indicators (rows, indicators)."""
        pairs = c @ self.biases + 0.5 * np.einsum("ij,ij->i", c @ self.weights, c)
        return pairs + c[:, self.triples].prod(axis=2) @ self.triple_weights

    def log_potential(self, c: Array) -> Array:
        """Return ln p + ln Z of visible indicators (rows, visible columns), with latent variables summed out."""
        latent = self.variables[self.n_visible :]
        hidden = []
        for states in product(*(range(-1, len(block)) for block in latent)):
            row = np.zeros(len(self.biases) - c.shape[1])
            for block, state in zip(latent, states, strict=True):
                if state >= 0:
                    row[block[state] - c.shape[1]] = 1.0
            hidden.append(self.energy(np.hstack([c, np.tile(row, (len(c), 1))])))
        return logsumexp(hidden, axis=0)

    def sweep(self, c: Array, base: Array, beta: float, rng: np.random.Generator) -> None:
        """Draw every column once, in place, from independent columns to the power 1 - beta times this field's."""
        for block in self.variables:
            columns = slice(block.start, block.stop)
            logits = self.biases[columns] + c @ self.weights[:, columns]
            for k in block:
                rows = np.flatnonzero((self.triples == k).any(axis=1))
                members = c[:, self.triples[rows]]
                members[:, self.triples[rows] == k] = 1.0
                logits[:, k - block.start] += members.prod(axis=2) @ self.triple_weights[rows]
            c[:, columns] = draw_states(beta * logits + (1.0 - beta) * base[columns], rng)


def draw_states(logits: Array, rng: np.random.Generator) -> Array:
    """Draw indicators (rows, states without the reference) of one column from their logits, that of the reference 0."""
    probabilities = np.exp(np.minimum(logits - logsumexp(np.pad(logits, ((0, 0), (1, 0))), axis=1, keepdims=True), 0.0))
    drawn = (rng.random((len(logits), 1)) > np.cumsum(probabilities, axis=1)).sum(axis=1)
    return (drawn[:, None] == np.arange(logits.shape[1])).astype(float)


@dataclass(frozen=True)
class LogPartition:
    """ln Z of a field: exact, or between two estimates, of which one is too low and one too high on average."""

    lower: float
    upper: float
    error: float
    """The larger standard error of the two; 0 where ln Z is exact."""


def bound_log_partition(
    model: LogLinear, rows: Array, *, chains: int = 64, steps: int = 1000, burn_in: int = 200, seed: int = 0
) -> LogPartition:
    """Return ln Z by enumeration of few columns, otherwise by annealed importance sampling in both directions.

    Forward chains go from independent columns to the field, reverse ones from the field to independent columns. Reverse
    chains must start from rows of the field; these do from ``rows`` (rows, visible columns) after ``burn_in`` Gibbs
    sweeps, so that the upper bound is as good as these sweeps mix.
    """
    n = len(model.biases)
    if model.n_visible <= MAX_ENUMERATED:
        every = (np.arange(2**model.n_visible)[:, None] >> np.arange(model.n_visible) & 1).astype(float)
        value = float(logsumexp(model.log_potential(every)))
        return LogPartition(value, value, 0.0)
    rng = np.random.default_rng(seed)
    shares = np.clip(rows.mean(axis=0), 1e-3, 1.0 - 1e-3)
    base = np.append(np.log(shares / (1.0 - shares)), np.zeros(n - model.n_visible))
    log_base = sum(
        float(np.logaddexp.reduce(np.append(0.0, base[block.start : block.stop]))) for block in model.variables
    )

    def anneal(c: Array, betas: Array) -> Array:
        logs = np.zeros(chains)
        for beta, following in pairwise(betas):
            logs += (following - beta) * (model.energy(c) - c @ base)
            model.sweep(c, base, following, rng)
        return logs

    def mean_of(logs: Array) -> tuple[float, float]:
        value = float(logsumexp(logs) - np.log(chains))
        return value, float(np.exp(logs - value).std(ddof=1) / np.sqrt(chains))

    betas = np.linspace(0.0, 1.0, steps + 1)
    c = np.zeros((chains, n))
    model.sweep(c, base, 0.0, rng)
    lower, lower_error = mean_of(anneal(c, betas))
    c[:, : model.n_visible] = rng.choice(rows, chains)
    for _ in range(burn_in):
        model.sweep(c, base, 1.0, rng)
    upper, upper_error = mean_of(anneal(c, betas[::-1]))
    return LogPartition(log_base + lower, log_base - upper, max(lower_error, upper_error))


def chow_liu_score(train: Array, test: Array) -> float:
    """Return the test log-likelihood per row of a tree of maximal mutual information, with counts increased by 1."""
    n = train.shape[1]
    joint = np.empty((2, 2, n, n))
    for a, b in product(range(2), range(2)):
        joint[a, b] = (train == a).T.astype(float) @ (train == b) + 1.0
    joint /= len(train) + 4.0
    single = joint.sum(axis=1)  # (2, n, n): of the first column
    gain = (joint * np.log(joint / (single[:, None] * np.swapaxes(single, 1, 2)[None]))).sum(axis=(0, 1))
    np.fill_diagonal(gain, 0.0)
    tree = minimum_spanning_tree(-gain).tocoo()
    shares = (train.sum(axis=0) + 1.0) / (len(train) + 2.0)
    score = (test * np.log(shares) + (1 - test) * np.log1p(-shares)).sum(axis=1)
    for a, b in zip(tree.row, tree.col, strict=True):
        score += np.log(joint[test[:, a], test[:, b], a, b])
        score -= np.log(single[test[:, a], a, b]) + np.log(single[test[:, b], b, a])
    return float(score.mean())


def run_density(
    data: Sequence[str] = ("nltcs", "dna"),
    arms: Sequence[str] | None = None,
    report: Report = print,
    *,
    seed: int = 0,
    n_jobs: int | None = None,
) -> Iterator[Row]:
    """Yield a row per table and model: its log-likelihood per test row, or the bounds between which it is.

    The l1 of each arm is the best on the validation rows, by the middle of the bounds.
    """
    for name in data:
        splits: Any = load_dataset(name)
        train, valid, test = (np.asarray(part).astype(np.int64) for part in (splits.train, splits.valid, splits.test))
        started = time.perf_counter()
        score = chow_liu_score(train, test)
        yield {"data": name, "method": "Chow-Liu", "test": score, "seconds": time.perf_counter() - started}
        for arm in arms or [arm for arm in ARMS if "ml" not in arm or name in TRACTABLE]:
            yield {"data": name, "method": arm, **_choose(name, ARMS[arm], (train, valid, test), seed, n_jobs, report)}
        for method, cited in CITED[name].items():
            yield {"data": name, "method": f"{method} (cited)", "test": cited}


def _choose(
    name: str,
    params: dict[str, Any],
    splits: tuple[Array, Array, Array],
    seed: int,
    n_jobs: int | None,
    report: Callable[[str], None],
) -> Row:
    train, valid, test = splits
    fits: dict[float, tuple[LogLinear, LogPartition, MarkovField, float]] = {}

    def validation_score(l1: float) -> float:
        started = time.perf_counter()
        field = MarkovField(l1=l1, random_state=seed, n_jobs=n_jobs, **params).fit(train)
        seconds = time.perf_counter() - started
        model = LogLinear.of(field.field_)
        fits[l1] = model, bound_log_partition(model, train.astype(float), seed=seed), field, seconds
        score = _score(model, fits[l1][1], valid)[1]
        report(f"{name}, {params}: l1 {l1:g}, validation {score:.4f}, {seconds:.1f} s")
        return score

    l1, _ = climb(GRIDS[name], validation_score)
    model, partition, field, seconds = fits[l1]
    lower, middle, upper = _score(model, partition, test)
    return {
        "l1": l1,
        "test": middle,
        "lower": lower,
        "upper": upper,
        "error": partition.error,
        "features": len(field.field_.features),
        "certified": field.converged_,
        "seconds": seconds,
    }


def _score(model: LogLinear, partition: LogPartition, rows: Array) -> tuple[float, float, float]:
    """Return the log-likelihood per row: a lower bound, the middle, and an upper bound."""
    own = float(model.log_potential(rows.astype(float)).mean())
    lower, upper = own - partition.upper, own - partition.lower
    return lower, 0.5 * (lower + upper), upper


def command(
    data: Annotated[list[str] | None, typer.Option("--data", help="nltcs, dna (the default), plants.")] = None,
    arm: Annotated[list[str] | None, typer.Option("--arm", help=f"{', '.join(ARMS)}; all of them by default.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Score whole test rows of binary tables, exactly or between bounds; l1 is chosen on validation rows."""
    rows = list(run_density(data or ("nltcs", "dna"), arm, print_message, seed=seed))
    shown = ("data", "method", "l1", "test", "lower", "upper", "error", "features", "certified", "seconds")
    print_rows(rows, shown, as_json)
