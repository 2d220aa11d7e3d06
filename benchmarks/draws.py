"""Imputations of real tables as distributions: energy scores of hidden cells, and coverage, beside other tools.

TabImpute has no row: it loads the weights of TabPFN from a server that may not be reached where benchmarks run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
from scipy.stats import rankdata
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from benchmarks.command_line import Row
from benchmarks.measure import Report
from benchmarks.mixed import Method, MixedTable, fill_iteratively, hide_cells, run_methods
from benchmarks.mixed_peers import TimedByR, draw_with_mice
from reproduction.public_data import load_dataset, load_mixed
from sparsefield import MarkovField, impute

__all__ = ["PATTERNS", "TABLES", "energy_score", "run_draws"]

Array = np.ndarray[Any, np.dtype[Any]]

TABLES = ("survey", "Chile", "bfi", "nltcs", "plants")
PATTERNS = ("mcar", "mar", "block")
SHARE, MOST_ROWS = 0.2, 500
"""Share of the cells that are hidden, and rows of a table, at most."""

DRAWS = 19
"""Imputations of a table: 90% of the truths are between the smallest and the largest draw if these are right."""


def hide(frame: pl.DataFrame, pattern: str, seed: int) -> MixedTable:
    """Return a table with hidden cells.

    "mcar" hides cells at random. "mar" hides more of them in rows with a large value of the column that lacks the
    fewest cells, which is never hidden. "block" hides a third of the columns together, in more than half of the rows.
    """
    table, rng = hide_cells(frame, SHARE, seed), np.random.default_rng([seed, PATTERNS.index(pattern)])
    if pattern == "mcar":
        return table
    (n, p), known = table.truth.shape, ~np.isnan(table.truth)
    if pattern == "mar":
        driver = int(known.sum(axis=0).argmax())
        ranks = rankdata(np.nan_to_num(table.truth[:, driver], nan=-1.0)) / n
        hidden = rng.random((n, p)) < (2.0 * SHARE * ranks)[:, None]
        hidden[:, driver] = False
    else:
        block = rng.permutation(p) % 3
        hidden = (rng.random(n) < 3.0 * SHARE)[:, None] & (block == rng.integers(0, 3, n)[:, None])
    hidden &= known
    shown = frame.with_columns(
        pl.when(pl.Series(~hidden[:, k])).then(pl.col(name)).alias(name) for k, name in enumerate(frame.columns)
    )
    return replace(table, hidden=hidden, frame=shown)


def energy_score(table: MixedTable, draws: Array) -> float:
    """Return the mean energy score of the hidden cells of a row, given draws (imputations, rows, columns).

    It is E|X - x| - E|X - X'| / 2 for the cells x of a row and its draws X, in standard deviations of numbers and
    levels; two states of a nominal column have the distance 1. Only the true joint distribution has the least
    (Gneiting and Raftery, 2007).
    """
    nominal = np.array([kind == "nominal" for kind in table.kinds])
    spread = np.where(nominal, 1.0, np.maximum(np.nanstd(table.truth, axis=0), 1e-12))

    def distance(a: Array, b: Array) -> Array:
        apart = np.where(nominal, a != b, (a - b) / spread)
        return np.sqrt(np.square(np.where(table.hidden, apart, 0.0)).sum(axis=-1))

    m = len(draws)
    to_truth = np.mean([distance(draw, table.truth) for draw in draws], axis=0)
    between = sum(distance(draw, draws).sum(axis=0) for draw in draws) / (m * (m - 1))
    return float((to_truth - 0.5 * between)[table.hidden.any(axis=1)].mean())


def coverage(table: MixedTable, draws: Array) -> float:
    """Return the share of hidden numbers between the smallest and the largest draw; NaN without numbers."""
    numbers = table.hidden & [kind == "numeric" for kind in table.kinds]
    inside = (draws.min(axis=0) <= table.truth) & (table.truth <= draws.max(axis=0))
    return float(inside[numbers].mean()) if numbers.any() else float("nan")


def _draw_by_field(table: MixedTable) -> Array:
    completed = impute(MarkovField(random_state=0).fit(table.frame), table.frame, DRAWS)
    return np.array([table.as_numbers(each) for each in completed])


def _draw_iteratively(table: MixedTable) -> Array:
    return np.array([fill_iteratively(table, sample_posterior=True, random_state=k) for k in range(DRAWS)])


def _draw_by_boosting(table: MixedTable) -> Array:
    """Draw each column from gradient boosting (depth 3, 50 rounds) on the others, numbers with a random residual."""
    shown, rng = table.shown, np.random.default_rng(0)
    draws = np.repeat(shown[None], DRAWS, axis=0)
    for k, kind in enumerate(table.kinds):
        others, known, wanted = np.delete(shown, k, axis=1), ~np.isnan(shown[:, k]), table.hidden[:, k]
        categories = [other == "nominal" for other in np.delete(table.kinds, k)]
        model: Any = HistGradientBoostingRegressor if kind == "numeric" else HistGradientBoostingClassifier
        fitted = model(max_depth=3, max_iter=50, categorical_features=categories).fit(others[known], shown[known, k])
        if not wanted.any():
            continue
        if kind == "numeric":
            residuals = shown[known, k] - fitted.predict(others[known])
            draws[:, wanted, k] = fitted.predict(others[wanted]) + rng.choice(residuals, (DRAWS, wanted.sum()))
        else:
            below = fitted.predict_proba(others[wanted]).cumsum(axis=1)
            place = (rng.random((DRAWS, wanted.sum(), 1)) > below[:, :-1]).sum(axis=2)
            draws[:, wanted, k] = fitted.classes_[place]
    return draws


def _draw_with_mice(table: MixedTable) -> TimedByR:
    """Ordinal columns are numbers: ordered logistic regressions of many items take hours."""
    return draw_with_mice(table.shown, ["levels" if kind == "ordinal" else kind for kind in table.kinds], DRAWS)


def _draw_with_miceforest(table: MixedTable) -> Array:
    """Draw by chained LightGBM with predictive mean matching (five iterations); ordinal columns are numbers."""
    import lightgbm  # pyright: ignore[reportMissingImports]
    import miceforest  # pyright: ignore[reportMissingImports]
    import pandas as pd

    nominal = [k for k, kind in enumerate(table.kinds) if kind == "nominal"]
    frame = pd.DataFrame(table.shown, columns=[f"x{k}" for k in range(len(table.kinds))])
    frame = frame.astype({f"x{k}": "category" for k in nominal})
    kernel = miceforest.ImputationKernel(frame, num_datasets=DRAWS, random_state=0)
    private = "_Booster__inner_predict"  # lightgbm 4.7 takes its number by name, miceforest 6.0.5 passes it by position
    by_name = getattr(lightgbm.Booster, private)
    with patch.object(lightgbm.Booster, private, lambda booster, data_idx: by_name(booster, data_idx=data_idx)):
        kernel.mice(5, num_threads=1, verbose=False)
    return np.array([kernel.complete_data(k).astype(float).to_numpy() for k in range(DRAWS)])


def _draw_by_missforest(table: MixedTable) -> Array:
    """Fill by chained random forests, which draw nothing: all imputations are alike; ordinal columns are numbers."""
    import pandas as pd
    from missforest import MissForest  # pyright: ignore[reportMissingImports]
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    names = [f"x{k}" for k in range(len(table.kinds))]
    nominal = [name for name, kind in zip(names, table.kinds, strict=True) if kind == "nominal"]
    forests = RandomForestClassifier(random_state=0), RandomForestRegressor(random_state=0)
    filled = MissForest(*forests, categorical=nominal, verbose=0).fit_transform(
        pd.DataFrame(table.shown, columns=names)
    )
    return np.repeat(filled[names].astype(float).to_numpy()[None], DRAWS, axis=0)  # it sorts columns by kind


def _draw_from_columns(table: MixedTable) -> Array:
    shown, rng = table.shown, np.random.default_rng(0)
    draws = np.repeat(shown[None], DRAWS, axis=0)
    for k in range(shown.shape[1]):
        hidden = table.hidden[:, k]
        draws[:, hidden, k] = rng.choice(shown[~np.isnan(shown[:, k]), k], (DRAWS, hidden.sum()))
    return draws


METHODS = (
    Method("sparsefield", _draw_by_field),
    Method("IterativeImputer, posterior", _draw_iteratively),
    Method("boosting per column", _draw_by_boosting),
    Method("mice (R), levels as numbers", _draw_with_mice, "mice"),
    Method("miceforest", _draw_with_miceforest, module="miceforest"),
    Method("missforest", _draw_by_missforest, module="missforest"),
    Method("values of the column", _draw_from_columns),
)


def run_draws(
    tables: Sequence[str] = TABLES,
    patterns: Sequence[str] = PATTERNS,
    seed: int = 0,
    report: Report = print,
    *,
    methods: Sequence[str] | None = None,
) -> list[Row]:
    """Return a row per table, pattern of missing cells and method, with its rank by the energy score."""
    chosen = [method for method in METHODS if not methods or method.name in methods]
    rows: list[Row] = []
    for data in tables:
        binary = data in ("nltcs", "plants")
        frame = pl.DataFrame(load_dataset(data).train.astype(int)) if binary else load_mixed(data)
        frame = frame.sample(min(MOST_ROWS, len(frame)), seed=seed)
        for pattern in patterns:
            table, first = hide(frame, pattern, seed), len(rows)
            for method, draws, seconds in run_methods(data, chosen, table, report):
                score = {"energy": energy_score(table, draws), "coverage": coverage(table, draws), "seconds": seconds}
                rows.append({"data": data, "pattern": pattern, "method": method, **score})
                report(f"{data}, {pattern}: {method}: energy {score['energy']:.4f}, {seconds:.1f} s")
            ranks = rankdata([row["energy"] for row in rows[first:]]).tolist()
            for row, rank in zip(rows[first:], ranks, strict=True):
                row["rank"] = rank
    return rows


def mean_ranks(rows: Sequence[Row]) -> list[Row]:
    """Return a row per method: its mean rank, energy score and coverage over all tables and patterns."""
    means = []
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        names = ("rank", "energy", "coverage", "seconds")
        means.append({"method": method, **{name: float(np.nanmean([row[name] for row in own])) for name in names}})
    return means
