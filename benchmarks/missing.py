"""This module measures learning from rows with missing values: known fields, coins, nltcs, and the paper's Table 1.

Fields are compared by how they were learned: all of them predict by exact inference, or by that of Table 1.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.exceptions import ConvergenceWarning

from benchmarks.command_line import Json, Row, choose_parts, print_rows
from benchmarks.enumerated import EnumeratedField, random_field
from benchmarks.fill import fill_with_frequencies, filled_scores, make_missing
from benchmarks.inference import conditional_log_likelihood
from benchmarks.measure import Report
from benchmarks.mice import has_mice, impute_with_mice
from benchmarks.peers import read_field
from reproduction.public_data import load_dataset
from reproduction.table1 import DATA, SETTINGS
from sparsefield.analysis.hold_out import Evaluation, Fold, evaluate
from sparsefield.app.cli.console import print_message, show, show_json
from sparsefield.errors import DataError
from sparsefield.estimators import MarkovField

__all__ = ["METHODS", "PARTS", "run_coins", "run_mar", "run_nltcs", "run_simulation", "run_table1"]

Array = np.ndarray[Any, np.dtype[Any]]

METHODS: tuple[tuple[str, dict[str, Any]], ...] = (("default", {}), ("mean-field", {"missing": "mean-field"}))
"""Labels and parameters of what is compared; "default" is what a user gets."""

SHARES = (0.2, 0.4, 0.5, 0.6)
SMALL_L1 = 0.5
"""So small that the weights of 2,000 complete rows are hardly shrunk."""


@dataclass(frozen=True)
class Fit:
    """A fit is a learned field, with the seconds that it took."""

    field: MarkovField
    seconds: float

    @classmethod
    def of(cls, X: Array, **params: Any) -> Fit:
        """Learn from rows on one thread; a table says which fits did not converge."""
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            field = MarkovField(**{"n_jobs": 1, "random_state": 0, **params}).fit(X)
        return cls(field, time.perf_counter() - started)

    @property
    def weights(self) -> Array:
        """Return the log odds ratio (columns, columns) of each pair given the other columns."""
        return read_field(self.field).weights

    @property
    def record(self) -> dict[str, float]:
        """Return the numbers of a fit that every table has."""
        mc_error = getattr(self.field, "mc_error_", None)
        found = {"seconds": self.seconds, "converged": float(self.field.converged_)}
        return found if mc_error is None else found | {"mc_error": float(mc_error)}

    def log_likelihood(self, truth: Array, incomplete: Array) -> float:
        """Return the mean log-likelihood of the missing cells, by exact inference."""
        return conditional_log_likelihood(self.field.set_params(inference="exact"), truth, incomplete)

    def completed_means(self, incomplete: Array) -> Array:
        """Return column means of rows whose missing cells count as their probability of a 1, by exact inference."""
        found = self.field.set_params(inference="exact").predict_proba(incomplete)
        ones = [found[name] @ np.asarray(states, dtype=np.float64) for name, states in self.field.states_.items()]
        return np.where(np.isnan(incomplete), np.column_stack(ones), incomplete).mean(axis=0)


# -- a known field, cells missing completely at random --------------------------------------------------------------


def run_simulation(seeds: int = 20, report: Report = print, *, quick: bool = False) -> list[Row]:
    """Return a row per l1, share of missing cells and method.

    Each seed has a field of 12 nodes and 17 edges, 2,000 rows to learn from and 500 rows of which 20% of the cells
    are predicted. The slope is that of learned on true weights of the true edges, through the origin.
    """
    rows, test_rows, shares = (1000, 200, (0.4,)) if quick else (2000, 500, SHARES)
    found: dict[tuple[float, float, str], list[dict[str, float]]] = {}
    _compile(auto=False)
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 1])
        field = random_field(12, 17, rng)
        train, truth = field.draw(rows, rng), field.draw(test_rows, rng)
        test, chance = make_missing(truth, 0.2, rng), rng.random(train.shape)
        for l1 in (SMALL_L1,) if quick else (SMALL_L1, 5.0):
            complete = Fit.of(train, l1=l1)
            fits = {(0.0, "complete rows"): complete, (0.0, "complete rows, cd"): Fit.of(train, l1=l1, objective="cd")}
            for share in shares:
                incomplete = np.where(chance < share, np.nan, train)
                fits |= {(share, label): Fit.of(incomplete, l1=l1, **params) for label, params in METHODS}
            for (share, label), fit in fits.items():
                scores = {"slope": _slope(field, fit), "log_likelihood": fit.log_likelihood(truth, test)}
                ratio = {"times_complete": fit.seconds / complete.seconds}
                found.setdefault((l1, share, label), []).append(fit.record | scores | ratio)
        report(f"simulation: seed {seed + 1} of {seeds} done")
    keys = sorted(found, key=lambda key: key[:2])
    return [
        {"l1": l1, "missing": share, "method": label, **_means(found[l1, share, label])} for l1, share, label in keys
    ]


def _slope(field: EnumeratedField, fit: Fit) -> float:
    true, learned = (weights[np.triu(field.weights) != 0.0] for weights in (field.weights, fit.weights))
    return float(true @ learned / (true @ true))


# -- coins ----------------------------------------------------------------------------------------------------------


def run_coins(seeds: int = 10, report: Report = print, *, quick: bool = False) -> list[Row]:
    """Return a row per pattern of missing cells, selection and method: the edges of 20 fair coins, 600 times thrown."""
    rows, coins = (200, 6) if quick else (600, 20)
    even = np.full(coins, 0.5)
    patterns = {"50%": even, "80% of three, 50%": np.where(np.arange(coins) < 3, 0.8, even)}
    table: list[Row] = []
    _compile(auto=True)
    for pattern, shares in patterns.items():
        for selection in ("heldout", "ebic"):
            for label, params in METHODS:
                fits = []
                for seed in range(seeds):
                    rng = np.random.default_rng([seed, 2])
                    throws = rng.integers(0, 2, (rows, coins)).astype(np.float64)
                    throws[rng.random(throws.shape) < shares] = np.nan
                    fits.append(Fit.of(throws, selection=selection, **params))
                edges = [len(fit.field.edges_) for fit in fits]
                head = {"missing": pattern, "selection": selection, "method": label}
                ends = {"edges_median": float(np.median(edges)), "edges_max": max(edges)}
                table.append(head | ends | _means([fit.record for fit in fits]))
                report(f"coins: {', '.join(head.values())}: edges {edges}")
    return table


# -- nltcs ----------------------------------------------------------------------------------------------------------


def run_nltcs(seeds: int = 1, report: Report = print, *, quick: bool = False) -> list[Row]:
    """Return a row per method: half of the cells of nltcs are missing, in training and in test rows.

    A field learned from the complete rows predicts the same test cells; ``l1="auto"``.
    """
    splits = load_dataset("nltcs")
    train, truth = (part.astype(np.float64) for part in (splits.train, splits.test))
    if quick:
        train, truth = train[:300], truth[:200]
    found: dict[str, list[dict[str, float]]] = {}
    _compile(auto=True)
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 3])
        incomplete, test = make_missing(train, 0.5, rng), make_missing(truth, 0.5, rng)
        losses = filled_scores(fill_with_frequencies(incomplete, test), truth, np.isnan(test))
        found.setdefault("column frequencies", []).append({"log_likelihood": -losses[1]})
        tables: list[tuple[str, Array, Mapping[str, Any]]] = [("complete rows", train, {})]
        for label, X, params in tables + [(label, incomplete, params) for label, params in METHODS]:
            fit = Fit.of(X, **params)
            scores = {"l1": fit.field.l1_, "log_likelihood": fit.log_likelihood(truth, test)}
            found.setdefault(label, []).append(fit.record | scores)
            report(f"nltcs: {label}: {scores['log_likelihood']:.4f}, {fit.seconds:.1f} s")
    return [{"method": label, **_means(records)} for label, records in found.items()]


# -- missing at random ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """An estimate of a field has column means and pair weights, one of each pair."""

    means: Array
    weights: Array
    seconds: float


def run_mar(seeds: int = 20, report: Report = print, *, quick: bool = False) -> list[Row]:
    """Return a row per method: the bias of means and weights where the first column decides what is missing.

    One field of 10 columns and 14 edges; each seed has 2,000 rows. Cells of the other columns are missing with
    probability 0.1 or 0.6, by the value of the first. A bias is the difference between the mean over seeds and the
    truth; "sd" columns have it in standard deviations of the estimate over seeds, on average and at the worst.
    """
    nodes, edges, rows, imputations = (5, 5, 500, 3) if quick else (10, 14, 2000, 20)
    field = random_field(nodes, edges, np.random.default_rng(4))
    found: dict[str, list[Estimate]] = {}
    _compile(auto=False)
    if not has_mice():
        report("mar: mice skipped: no Rscript with the package mice here")
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 4])
        train = field.draw(rows, rng)
        incomplete = make_missing_at_random(train, rng)
        for label, estimate in _estimates(train, incomplete, imputations, seed):
            found.setdefault(label, []).append(estimate)
        report(f"mar: seed {seed + 1} of {seeds} done")
    truth = Estimate(field.means()[1:], field.weights[np.triu_indices(nodes, 1)], 0.0)
    return [_bias_row(label, estimates, found["no cell missing"], truth) for label, estimates in found.items()]


def make_missing_at_random(values: Array, rng: np.random.Generator) -> Array:
    """Return a copy in which cells are NaN with probability 0.1, or 0.6 where the first column, which stays, is 1."""
    missing = rng.random(values.shape) < np.where(values[:, :1] == 1.0, 0.6, 0.1)
    missing[:, 0] = False
    return np.where(missing, np.nan, values)


def _estimates(train: Array, incomplete: Array, imputations: int, seed: int) -> Iterator[tuple[str, Estimate]]:
    """Yield the label and the estimate of every method; the first column's mean, which is observed, is left out."""
    pairs = np.triu_indices(train.shape[1], 1)
    tables = {"no cell missing": train, "complete cases": incomplete[~np.isnan(incomplete).any(axis=1)]}
    for label, X in tables.items():
        fit = Fit.of(X, l1=SMALL_L1)
        yield label, Estimate(X.mean(axis=0)[1:], fit.weights[pairs], fit.seconds)
    for label, params in METHODS:
        fit = Fit.of(incomplete, l1=SMALL_L1, **params)
        yield label, Estimate(fit.completed_means(incomplete)[1:], fit.weights[pairs], fit.seconds)
    if has_mice():
        pooled = impute_with_mice(incomplete, imputations, seed=seed)
        yield "mice (R)", Estimate(pooled.means[1:], pooled.weights[pairs], pooled.seconds)


def _bias_row(label: str, estimates: Sequence[Estimate], reference: Sequence[Estimate], truth: Estimate) -> Row:
    row: Row = {"method": label}
    for name, of in (("mean", lambda one: one.means), ("weight", lambda one: one.weights)):
        values, known = np.array([of(one) for one in estimates]), np.array([of(one) for one in reference])
        bias, spread = np.abs(values.mean(axis=0) - of(truth)), values.std(axis=0, ddof=1)
        # In complete cases the first column may never change, and its weights are always 0.
        spread = np.where(spread > 0.0, spread, known.std(axis=0, ddof=1))
        relative = bias / spread
        row |= {f"{name}_bias": float(bias.mean())}
        row |= {f"{name}_bias_sd": float(relative.mean()), f"{name}_worst_sd": float(relative.max())}
    return row | {"seconds": float(np.mean([one.seconds for one in estimates]))}


# -- the paper's Table 1 --------------------------------------------------------------------------------------------


def run_table1(seeds: int = 1, report: Report = print, *, quick: bool = False) -> list[Row]:
    """Return a row per data set, setting and method: ten folds over cells, CFI and pseudo-likelihood.

    The settings are those of ``python -m reproduction table1``, with mean field in learning and in predictions; the
    default replaces both. Each seed is another split into folds.
    """
    table: list[Row] = []
    settings = {setting.name: setting for setting in SETTINGS}
    for data in list(DATA.values())[:1] if quick else DATA.values():
        X = data.load()
        for setting in [settings["paper"]] if quick else [settings["paper"], settings["certified"]]:
            for label, params in METHODS:
                params = params or {"missing": "em", "inference": "auto"}  # the settings have the paper's ways
                estimator: Any = setting.estimator(data, "CFI", "pl")
                if "inference" in params:
                    estimator.set_params(**params)
                folds: list[Fold] = []
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    for seed in range(seeds):
                        folds += evaluate(X, estimator, 2 if quick else 10, seed=seed).folds
                spread = Evaluation(tuple(folds)).spread
                row: Row = {"data": data.title, "setting": setting.label, "method": label}
                for measure in ("ap", "cll"):
                    row |= {measure: spread(measure).mean, f"{measure}_sd": spread(measure).sd}
                table.append(row | {name: spread(name).mean for name in ("seconds", "converged", "frequency_cll")})
                report(f"table1: {data.title}, {setting.label}, {label}: AP {row['ap']:.3f}, CLL {row['cll']:.3f}")
    return table


# -- all of them ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A part is one of the tables."""

    run: Callable[..., list[Row]]
    shown: tuple[str, ...]
    seeds: int


_BIASES = ("mean_bias", "mean_bias_sd", "mean_worst_sd", "weight_bias", "weight_bias_sd", "weight_worst_sd")
_SLOPES = ("slope", "slope_min", "slope_max")
_COSTS = ("seconds", "converged", "mc_error")
PARTS = {
    "simulation": Part(
        run_simulation, ("l1", "missing", "method", *_SLOPES, "log_likelihood", "times_complete", *_COSTS), 20
    ),
    "coins": Part(run_coins, ("missing", "selection", "method", "edges_median", "edges_max", *_COSTS), 10),
    "nltcs": Part(run_nltcs, ("method", "log_likelihood", "l1", *_COSTS), 1),
    "mar": Part(run_mar, ("method", *_BIASES, "seconds"), 20),
    "table1": Part(run_table1, ("data", "setting", "method", "ap", "ap_sd", "cll", "cll_sd", "seconds"), 1),
}
QUICK_SEEDS = 2


def command(
    part: Annotated[list[str] | None, typer.Option("--part", help=f"{', '.join(PARTS)}; by default all.")] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", min=2, help="Repetitions; each part has its own.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny data, two repetitions: only to see it run.")] = False,
    as_json: Json = False,
) -> None:
    """Learn from rows with missing values: weights, predictions, edges and biases beside the complete rows'."""
    names = choose_parts(part, PARTS)
    found: dict[str, list[Row]] = {}
    for name in names:
        repetitions = seeds or (QUICK_SEEDS if quick else PARTS[name].seeds)
        try:
            found[name] = PARTS[name].run(repetitions, print_message, quick=quick)
        except DataError as error:
            print_message(f"{name}: skipped: {error}")
            continue
        if not as_json:
            show(f"\n{name}, seeds: {repetitions}")
            print_rows(found[name], PARTS[name].shown)
    if as_json:
        show_json(found)


def _compile(*, auto: bool) -> None:
    """Run every kind of fit once on a few rows, so that no compilation is timed."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (60, 4)).astype(np.float64)
    for share in (0.0, 0.2):
        for _, params in METHODS:
            Fit.of(make_missing(rows, share, rng), l1="auto" if auto else 1.0, **params)


def _means(records: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of every number over the seeds, and the extremes of slopes."""
    found = {name: float(np.mean([record[name] for record in records])) for name in records[0]}
    slopes = [record["slope"] for record in records if "slope" in record]
    return found | ({"slope_min": min(slopes), "slope_max": max(slopes)} if slopes else {})
