"""Test log-likelihood of whole rows on binary tables of the density literature, exact or between two bounds.

PyJuice has no row: it compiles circuits on a GPU alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise, product
from typing import Annotated, Any

import numpy as np
import typer
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import expit

from benchmarks.command_line import Json, Row, Seed, choose_parts, print_rows
from benchmarks.measure import Report, climb
from reproduction.public_data import SPLIT_TABLES, load_dataset
from sparsefield import Features, MarkovField, Solver
from sparsefield.app.cli.console import print_message
from sparsefield.data import Variable
from sparsefield.model import Field

__all__ = ["ARMS", "CITED", "LogLinear", "bound_log_partition", "chow_liu_score", "run_density"]

Array = np.ndarray[Any, np.dtype[Any]]

MAX_ENUMERATED = 20
"""Binary columns up to which all rows are enumerated."""

LEAST_EXPECTED = 50.0
"""Rows in which two columns must be expected to be on together, for their exclusion to be no matter of chance."""

MAX_ERROR = 0.02
"""Standard error of ln Z of a chosen field beyond which annealing is repeated with more steps."""

CITED = {
    "nltcs": {"ACMN": -6.00, "best": -5.99},
    "plants": {"ACMN": -12.80, "best": -12.26},
    "dna": {"ACMN": -80.03, "best": -79.05},
}
"""Markov networks with conjunctive features (Lowd and Rooshenas, 2013), and the best of the models that papers on
probabilistic circuits list."""


@dataclass(frozen=True)
class Arm:
    """A model of rows: settings of a field, the best of which on the validation rows is taken."""

    settings: Sequence[dict[str, Any]]
    only: str = ""
    """The table that it is for."""
    exclusive: bool = False
    """Whether columns of which at most one is on are one nominal column: see `find_exclusive`."""


LATENT = [{"latent": {"class": k}} for k in (4, 8, 12, 16, 24)]
SHORT = Solver(max_iter=300)
"""For fields with many latent states and conjunctions, which gain little afterwards and are not certified."""

ARMS = {
    "pairs": Arm([{}]),
    "pairs, refit by ml": Arm([{"refit": "ml"}], only="nltcs"),  # whose likelihood can be summed exactly
    "three columns": Arm([{"features": Features(max_order=3)}]),
    "latent": Arm(LATENT),
    "latent, three columns": Arm(
        [
            {"latent": {"class": k}, "features": Features(max_order=3, order_penalty=2.0), "solver": SHORT}
            for k in (4, 8, 16, 32)
        ]
    ),
    "exclusive": Arm([{"penalty": "group"}], only="dna", exclusive=True),
    "exclusive, three columns": Arm([{"features": Features(max_order=3)}], only="dna", exclusive=True),
    "exclusive, latent, three columns": Arm(
        [{**setting, "features": Features(max_order=3)} for setting in LATENT[:2]], only="dna", exclusive=True
    ),
}
PEER = "hidden Chow-Liu tree (SPFlow)"
"""16 states of each hidden variable; where SPFlow is installed."""

GRIDS = {"nltcs": (0.5, 1.0, 2.0, 4.0, 8.0), "plants": (2.0, 3.0, 5.0, 7.0), "dna": (8.0, 12.0, 16.0, 20.0, 28.0)}
OTHER_GRID = (2.0, 4.0, 8.0, 16.0, 32.0)


@dataclass(frozen=True)
class LogLinear:
    """A field over one table as arrays: ln p(row) + ln Z = biases @ c + c @ weights @ c / 2 + conjunctions.

    c has the target columns of a row, latent variables included: indicators of states.
    """

    biases: Array
    """(columns,)"""
    weights: Array
    """(columns, columns): symmetric, 0 within a variable."""
    triples: Array
    """(conjunctions, 3) columns"""
    triple_weights: Array
    variables: list[Variable]
    """Visible ones first."""
    n_visible: int

    @classmethod
    def of(cls, field: Field) -> LogLinear:
        """Read a field over nominal columns, without covariates."""
        schema = field.schema
        weights = np.zeros((schema.n_columns, schema.n_columns))
        weights[field.pairs[:, 0], field.pairs[:, 1]] = weights[field.pairs[:, 1], field.pairs[:, 0]] = field.weights
        visible = len(schema.targets) - len(schema.latent)
        variables = list(schema.targets)
        return cls(field.biases, weights, field.conjunctions, field.conjunction_weights, variables, visible)

    @cached_property
    def columns(self) -> list[slice]:
        """The columns of each variable."""
        ends = np.cumsum([0, *(variable.width for variable in self.variables)]).tolist()
        return [slice(*pair) for pair in pairwise(ends)]

    @cached_property
    def partners(self) -> list[tuple[Array, Array]]:
        """The others of the conjunctions of each column, (conjunctions, 2), and their weights."""
        partners = []
        for k in range(len(self.biases)):
            rows = np.flatnonzero((self.triples == k).any(axis=1))
            others = self.triples[rows]
            partners.append((others[others != k].reshape(-1, 2), self.triple_weights[rows]))
        return partners

    def encode(self, rows: Array) -> Array:
        """Return the columns of rows of labels, (rows, columns that are not latent)."""
        parts = []
        for variable, labels in zip(self.variables[: self.n_visible], rows.T, strict=True):
            known, place = np.unique(labels, return_inverse=True)
            parts.append(variable.coded[[variable.code_of_label[label] for label in known.tolist()]][place])
        return np.hstack(parts)

    def energy(self, c: Array) -> Array:
        """Return ln p + ln Z of rows with all columns."""
        pairs = c @ self.biases + 0.5 * np.einsum("ij,ij->i", c @ self.weights, c)
        first, second, third = self.triples.T
        return pairs + self.triple_weights @ (c.T[first] * c.T[second] * c.T[third])

    def log_potential(self, c: Array) -> Array:
        """Return ln p + ln Z of encoded rows, with latent variables summed out."""
        hidden = []
        for states in product(*(variable.coded for variable in self.variables[self.n_visible :])):
            row = np.concatenate([np.empty(0), *states])
            hidden.append(self.energy(np.hstack([c, np.tile(row, (len(c), 1))])))
        return np.logaddexp.reduce(hidden, axis=0)

    def sweep(self, c: Array, base: LogLinear, beta: float, rng: np.random.Generator) -> None:
        """Draw every variable once, in place, from a base to the power 1 - beta times this field to the power beta."""
        biases = (1.0 - beta) * base.biases + beta * self.biases
        pairs = (1.0 - beta) * base.weights + beta * self.weights
        for variable, columns in zip(self.variables, self.columns, strict=True):
            logits = biases[columns] + c @ pairs[columns].T
            for k in range(columns.start, columns.stop):
                others, weights = self.partners[k]
                if len(weights):
                    logits[:, k - columns.start] += beta * weights @ (c.T[others[:, 0]] * c.T[others[:, 1]])
            if len(variable.coded) == 2 and variable.width == 1:  # half of the time
                c[:, columns] = rng.random(logits.shape) < expit(logits)
            elif variable.width:
                logits = logits @ variable.coded.T
                chances = np.exp(logits - logits.max(axis=1, keepdims=True)).cumsum(axis=1)
                drawn = (rng.random((len(c), 1)) * chances[:, -1:] > chances[:, :-1]).sum(axis=1)
                c[:, columns] = variable.coded[drawn]


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
    """Return ln Z by enumeration of few rows, otherwise by annealed importance sampling in both directions.

    Forward chains go from columns that are independent, or so given a latent variable, to the field, and reverse chains
    back. These must start from rows of the field; they do from ``rows`` (rows, visible variables) after ``burn_in``
    Gibbs sweeps, so that the upper bound is as good as these sweeps mix.
    """
    visible = model.variables[: model.n_visible]
    counts = [len(variable.coded) for variable in visible]
    if np.log2(counts).sum() <= MAX_ENUMERATED:
        codes = np.indices(counts).reshape(len(counts), -1)
        every = np.hstack([variable.coded[code] for variable, code in zip(visible, codes, strict=True)])
        value = float(np.logaddexp.reduce(model.log_potential(every)))
        return LogPartition(value, value, 0.0)
    rng, known = np.random.default_rng(seed), model.encode(rows)
    base, log_base, classes, shares = _latent_classes(model, known)

    def anneal(c: Array, betas: Array) -> Array:
        logs = np.zeros(chains)
        for beta, following in pairwise(betas):
            logs += (following - beta) * (model.energy(c) - base.energy(c))
            model.sweep(c, base, following, rng)
        return logs

    def mean_of(logs: Array) -> tuple[float, float]:
        value = float(np.logaddexp.reduce(logs) - np.log(chains))
        return value, float(np.exp(logs - value).std(ddof=1) / np.sqrt(chains))

    betas = np.linspace(0.0, 1.0, steps + 1)
    c = np.zeros((chains, len(model.biases)), order="F")
    c[:, known.shape[1] :] = classes[rng.choice(len(shares), chains, p=shares)]  # on which all others depend
    model.sweep(c, base, 0.0, rng)
    lower, lower_error = mean_of(anneal(c, betas))
    c[:, : known.shape[1]] = rng.choice(known, chains)
    for _ in range(burn_in):
        model.sweep(c, base, 1.0, rng)
    upper, upper_error = mean_of(anneal(c, betas[::-1]))
    return LogPartition(log_base + lower, log_base - upper, max(lower_error, upper_error))


def _latent_classes(model: LogLinear, known: Array) -> tuple[LogLinear, float, Array, Array]:
    """Return a field whose columns are independent within a class, as they are in the rows, and its ln Z.

    The classes are the joint states of the latent variables, or a single one. Their columns (classes, latent columns)
    and shares follow.
    """
    n, blocks = known.shape[1], [variable.coded for variable in model.variables[model.n_visible :]]
    classes = np.array([np.concatenate([np.empty(0), *states]) for states in product(*blocks)])
    if len(blocks) > 1:
        raise ValueError("annealing starts from the classes of at most one latent variable.")
    logits = classes @ (model.biases[n:] + known @ model.weights[:n, n:]).T  # (classes, rows)
    belief = np.exp(logits - np.logaddexp.reduce(logits, axis=0))
    mass = belief.sum(axis=1) + 1.0
    shares, biases = mass / mass.sum(), np.zeros(len(model.biases))
    constants, slopes = np.log(shares), np.zeros((len(classes), n))
    for variable, columns in zip(model.variables[: model.n_visible], model.columns, strict=False):
        states = (known[:, None, columns] == variable.coded).all(axis=2)
        means = np.maximum(states.mean(axis=0), 1e-3)
        logs = np.log((belief @ states + means) / mass[:, None])
        logs -= np.logaddexp.reduce(logs, axis=1)[:, None]
        design = np.column_stack([variable.coded, np.ones(len(means))])
        solved = np.linalg.lstsq(design, logs.T)[0].T
        slopes[:, columns], constants = solved[:, :-1], constants + solved[:, -1]
    weights = np.zeros_like(model.weights)
    biases[:n] = slopes[0]
    if len(classes) > 1:  # the first class has no column
        biases[n:] = constants[1:] - constants[0]
        weights[n:, :n] = slopes[1:] - slopes[0]
        weights[:n, n:] = weights[n:, :n].T
    base = replace(model, biases=biases, weights=weights, triples=model.triples[:0], triple_weights=np.empty(0))
    return base, -float(constants[0]), classes, shares


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


def find_exclusive(rows: Array) -> list[list[int]]:
    """Return the columns in groups of which at most one is on in every row; most groups are a single column.

    Two columns exclude each other if they are never on together where `LEAST_EXPECTED` rows were expected to have both.
    The pair of which most were expected begins a group.
    """
    together, ons = rows.T @ rows, rows.sum(axis=0)
    expected = np.outer(ons, ons) / len(rows)
    exclude = (together == 0) & (expected >= LEAST_EXPECTED)
    groups, free = [], set(range(rows.shape[1]))
    for a, b in zip(*np.unravel_index(np.argsort(-expected, axis=None), expected.shape), strict=True):
        if a in free and b in free and exclude[a, b]:
            group = [int(a), int(b)]
            while more := [k for k in sorted(free - set(group)) if exclude[k, group].all()]:
                group.append(more[0])
            free -= set(group)
            groups.append(sorted(group))
    return sorted([*groups, *([k] for k in free)])


def merge_exclusive(rows: Array, groups: Sequence[Sequence[int]]) -> Array:
    """Return a column per group: 0, or the place in its group, from 1 on, of the column that is on."""
    if any((rows[:, group].sum(axis=1) > 1).any() for group in groups):
        raise ValueError("two columns that exclude each other in the training rows are on together")
    return np.column_stack([rows[:, group] @ np.arange(1, len(group) + 1) for group in groups])


def fit_hidden_tree(
    train: Array, valid: Array, test: Array, *, states: int = 16, epochs: int = 40, seed: int = 0
) -> tuple[float, float]:
    """Return the scores of validation and test rows of SPFlow's hidden Chow-Liu tree, at the best epoch of Adam.

    Weights that all begin alike would stay alike, so they begin at random; SPFlow's own EM ends at NaN here.
    """
    import torch  # pyright: ignore[reportMissingImports]
    from spflow.zoo.hclt.learn import learn_hclt_binary  # pyright: ignore[reportMissingImports]

    torch.manual_seed(seed)
    rows, *others = (torch.tensor(part, dtype=torch.float32) for part in (train, valid, test))
    circuit = learn_hclt_binary(rows, num_hidden_cats=states)
    for weights in circuit.parameters():
        torch.nn.init.normal_(weights)
    optimizer, best = torch.optim.Adam(circuit.parameters(), lr=0.05), (-np.inf, -np.inf)
    for _ in range(epochs):
        for batch in torch.randperm(len(rows)).split(500):
            optimizer.zero_grad()
            (-circuit.log_likelihood(rows[batch]).mean()).backward()
            optimizer.step()
        with torch.no_grad():
            scores = [float(circuit.log_likelihood(part).mean()) for part in others]
        best = max(best, (scores[0], scores[1]))
    return best


def run_density(
    data: Sequence[str] = ("nltcs", "dna"),
    arms: Sequence[str] | None = None,
    report: Report = print,
    *,
    seed: int = 0,
    n_jobs: int | None = None,
    l1: Sequence[float] | None = None,
    states: Sequence[int] | None = None,
) -> Iterator[Row]:
    """Yield a row per table and model: its log-likelihood per test row, or the bounds between which it is.

    The settings and the l1 of each arm, of a grid, are the best on the validation rows, by the middle of the bounds.
    """
    for name in data:
        splits: Any = load_dataset(name)
        grid = l1 or GRIDS.get(name, OTHER_GRID)
        train, valid, test = (np.asarray(part).astype(np.int64) for part in (splits.train, splits.valid, splits.test))
        started = time.perf_counter()
        score = chow_liu_score(train, test)
        yield {"data": name, "method": "Chow-Liu", "test": score, "seconds": time.perf_counter() - started}
        if find_spec("spflow") and (not arms or PEER in arms):
            started = time.perf_counter()
            validation, score = fit_hidden_tree(train, valid, test, seed=seed)
            seconds = time.perf_counter() - started
            yield {"data": name, "method": PEER, "validation": validation, "test": score, "seconds": seconds}
        for arm in [arm for arm in arms or ARMS if arm != PEER and (arms or ARMS[arm].only in ("", name))]:
            settings = [
                each
                for each in ARMS[arm].settings
                if not states or "latent" not in each or each["latent"]["class"] in states
            ]
            if not settings:
                raise ValueError(f"the arm {arm!r} has no setting with {', '.join(map(str, states or ()))} states")
            chosen = _choose(name, arm, settings, (train, valid, test), grid, seed, n_jobs, report)
            yield {"data": name, "method": arm, **chosen}
        for method, cited in CITED.get(name, {}).items():
            yield {"data": name, "method": f"{method} (cited)", "test": cited}


def _choose(
    name: str,
    arm: str,
    settings: Sequence[dict[str, Any]],
    splits: tuple[Array, Array, Array],
    grid: Sequence[float],
    seed: int,
    n_jobs: int | None,
    report: Callable[[str], None],
) -> Row:
    """Choose the settings at the middle of the grid of l1, then l1."""
    (train, valid, test), kinds = splits, "auto"
    if ARMS[arm].exclusive:
        groups = find_exclusive(train)
        train, valid, test = (merge_exclusive(rows, groups) for rows in splits)
        kinds = dict.fromkeys(range(len(groups)), "nominal")
    fits: dict[tuple[int, float], tuple[float, LogLinear, LogPartition, MarkovField, float]] = {}

    def validation_score(number: int, l1: float) -> float:
        if (number, l1) not in fits:
            started = time.perf_counter()
            field = MarkovField(l1=l1, kinds=kinds, random_state=seed, n_jobs=n_jobs, **settings[number]).fit(train)
            seconds = time.perf_counter() - started
            model = LogLinear.of(field.field_)
            partition = bound_log_partition(model, train, seed=seed)
            score = _score(model, partition, valid)[1]
            fits[number, l1] = score, model, partition, field, seconds
            states = settings[number].get("latent", {})
            report(f"{name}, {arm} {states or ''}: l1 {l1:g}, validation {score:.4f}, {seconds:.1f} s")
        return fits[number, l1][0]

    best = int(climb(range(len(settings)), lambda number: validation_score(int(number), grid[len(grid) // 2]))[0])
    l1, _ = climb(grid, lambda value: validation_score(best, value))
    score, model, partition, field, seconds = fits[best, l1]
    if partition.error > MAX_ERROR:
        partition = bound_log_partition(model, train, steps=6000, burn_in=1000, seed=seed)
    lower, middle, upper = _score(model, partition, test)
    return {
        "l1": l1,
        "states": settings[best].get("latent", {}).get("class"),
        "validation": score,
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
    own = float(model.log_potential(model.encode(rows)).mean())
    lower, upper = own - partition.upper, own - partition.lower
    return lower, 0.5 * (lower + upper), upper


def command(
    data: Annotated[
        list[str] | None, typer.Option("--data", help=f"{', '.join(SPLIT_TABLES)}; by default nltcs, dna.")
    ] = None,
    arm: Annotated[list[str] | None, typer.Option("--arm", help=f"{', '.join((*ARMS, PEER))}; by default all.")] = None,
    l1: Annotated[list[float] | None, typer.Option("--l1", help="Only these, in ascending order.")] = None,
    states: Annotated[list[int] | None, typer.Option("--states", help="Only these numbers of latent states.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Score whole test rows of binary tables, exactly or between bounds; l1 is chosen on validation rows."""
    arms = arm and choose_parts(arm, (*ARMS, PEER))
    rows = list(
        run_density(
            choose_parts(data or ("nltcs", "dna"), SPLIT_TABLES), arms, print_message, seed=seed, l1=l1, states=states
        )
    )
    shown = (
        "data",
        "method",
        "l1",
        "states",
        "validation",
        "test",
        "lower",
        "upper",
        "error",
        "features",
        "certified",
        "seconds",
    )
    print_rows(rows, shown, as_json)
