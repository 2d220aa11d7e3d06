"""This module learns the schema of a table from its values."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from sparsefield import config
from sparsefield.data.column_summaries import (
    MANY_LABELS,
    Moments,
    find_numeric_traits,
    sum_squared_deviations,
    summarize_columns,
)
from sparsefield.data.exact_sums import Weights, rounded
from sparsefield.data.frames import Columns, Source
from sparsefield.data.labels import Label, as_label, label_sort_key
from sparsefield.data.schema import BinarySchema, BinaryVariables, Role, Schema, Variable
from sparsefield.errors import CovariateWarning, DataError

MOST_MISSING = 0.05
"""Share of the rows in which an observed column may be missing without a warning."""

PIECE = 2**20
"""Number of cells that are processed together, since all of them may be on disk."""


def learn_schema(
    source: Columns,
    *,
    observed: Sequence[str] = (),
    numeric: Sequence[str] | Literal["auto"] = "auto",
    states: Mapping[str, Sequence[Label]] | None = None,
    sample_weight: np.ndarray | None = None,
) -> Schema:
    """Learn the states and the role of every column of ``source``; ``states`` has further ones that need not occur."""
    check_roles(source.names, observed, numeric, states)
    defaults = not states and (numeric == "auto" or not numeric)
    if isinstance(source, Source) and source.kind == "sparse" and defaults:
        matrix = source.native
        return learn_binary_schema(source.names, set(observed), matrix.indptr, matrix.indices, sample_weight)
    weights = Weights(sample_weight)

    def summarize(function: Callable[..., list[Any]], *arguments: Any) -> list[Any]:
        return function(source, weights, *arguments)

    return learn_from_parts(source.names, summarize, observed=observed, numeric=numeric, states=states)


def warn_incomplete_covariates(source: Columns, observed: Sequence[str]) -> None:
    """Warn about observed columns that are often missing: the mean in their place makes other columns dependent."""
    for name in observed:
        missing = source.n_rows - int(np.count_nonzero(source.column(name).present))
        if missing > MOST_MISSING * source.n_rows:
            warnings.warn(
                f"Observed column {name!r} has {missing / source.n_rows:.0%} of its cells missing, which get "
                "its mean: columns that depend on it may seem to depend on each other. Leave it out of observed= "
                "(--observed), so that it is learned like the others, or fill it in.",
                CovariateWarning,
                stacklevel=3,
            )


def learn_from_parts(
    names: tuple[str, ...],
    summarize: Callable[..., list[Any]],
    *,
    observed: Sequence[str] = (),
    numeric: Sequence[str] | Literal["auto"] = "auto",
    states: Mapping[str, Sequence[Label]] | None = None,
    most: int | None = None,
) -> Schema:
    """Learn a schema from summaries of partitions.

    ``summarize(function, *arguments)`` joins the results of ``function(partition, weights, *arguments)``. A column with
    more than ``most`` labels is refused.
    """
    covariates, known = set(observed), states or {}
    unsure = [name for name in names if name in covariates and not known.get(name)] if numeric == "auto" else []
    traits = summarize(find_numeric_traits, unsure) if unsure else []
    numbers = {name for name, found in zip(unsure, traits, strict=True) if found.numeric}
    numbers = numbers if numeric == "auto" else set(numeric)
    found = dict(zip(names, summarize(summarize_columns, names, numbers, most), strict=True))
    means = {name: _mean(name, found[name]) for name in names if name in numbers}
    squares = dict(zip(means, summarize(sum_squared_deviations, means) if means else [], strict=True))

    def variable(name: str) -> Variable:
        summary, role = found[name], "observed" if name in covariates else "target"
        if name in means:
            deviation = summary.deviation(squares[name])
            return Variable(name, role, center=means[name], scale=deviation if deviation > 0 else 1.0)
        if summary.too_many:
            raise DataError(_too_many_labels(name, f"more than {MANY_LABELS:,}", summary.n_cells))
        labels, totals = summary.in_order()
        return make_categorical(name, role, labels, rounded(totals), summary.n_cells, known.get(name, ()))

    order = sorted(names, key=covariates.__contains__)
    return Schema(tuple(variable(name) for name in order), names)


def _mean(name: str, moments: Moments) -> float:
    if moments.weight <= 0:
        raise DataError(f"Observed column {name!r} has no values at all: drop it, or fill in known ones.")
    return moments.mean


def check_roles(
    names: Sequence[str],
    observed: Sequence[str],
    numeric: Sequence[str] | Literal["auto"],
    states: Mapping[str, Sequence[Label]] | None,
) -> None:
    """Refuse unknown columns, and numeric targets."""
    _check_names(names, observed, "observed")
    _check_names(names, list(states or {}), "states")
    if numeric != "auto":
        _check_names(names, numeric, "numeric")
        wrong = [name for name in numeric if name not in observed]
        if wrong:
            raise DataError(
                f"Column {wrong[0]!r} is listed as numeric but is a target. Targets are categorical: list it in "
                "observed= as well, or group its values first."
            )


def count_active(
    offsets: np.ndarray, columns: np.ndarray, n_columns: int, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the number and the weight of the rows in which each column is 1, (columns,) each; rows may be on disk."""
    counts = np.zeros(n_columns, dtype=np.int64)
    sums = np.zeros(n_columns) if weight is not None else counts
    for start, stop in pieces_of_rows(offsets):
        piece = np.asarray(columns[offsets[start] : offsets[stop]], dtype=np.intp)
        counts += np.bincount(piece, minlength=n_columns)
        if weight is not None:
            # One by one, as in `bincount`, so that the sums do not depend on the pieces.
            np.add.at(sums, piece, np.repeat(weight[start:stop], np.diff(offsets[start : stop + 1])))
    return counts, sums


def pieces_of_rows(offsets: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of consecutive rows with about `PIECE` nonzero cells, or with `PIECE` rows."""
    start, n_rows, n_nonzero = 0, len(offsets) - 1, int(offsets[-1])
    while start < n_rows:
        # With a number of another type, `searchsorted` would copy all offsets.
        end = offsets.dtype.type(min(int(offsets[start]) + PIECE, n_nonzero))
        stop = int(np.searchsorted(offsets, end, side="right")) - 1
        stop = min(max(stop, start + 1), start + PIECE, n_rows)
        yield start, stop
        start = stop


def learn_binary_schema(
    names: tuple[str, ...], observed: Collection[str], offsets: np.ndarray, columns: np.ndarray, weight: Any = None
) -> BinarySchema:
    """Learn the schema of 0/1 columns from sparse rows with (rows,) weights or None; they may be on disk."""
    n_rows = len(offsets) - 1
    counts, sums = count_active(offsets, columns, len(names), weight)
    shares = np.minimum(sums / (float(n_rows) if weight is None else float(weight.sum())), 1.0)
    # 1 in all rows with a weight: sums in two orders may differ in their last digits.
    shares[shares > 1.0 - 1e-12] = 1.0
    covariates = np.array([name in observed for name in names]) if observed else np.zeros(len(counts), dtype=bool)

    def part(which: np.ndarray, role: Role) -> BinaryVariables:
        mine = names if which.all() else tuple(names[k] for k in np.flatnonzero(which))
        return BinaryVariables(mine, shares[which], counts[which] < n_rows, counts[which] > 0, role)

    return BinarySchema(part(~covariates, "target"), part(covariates, "observed"), names)


def make_categorical(
    name: str, role: Role, labels: list[Label], totals: np.ndarray, n_cells: int, known: Sequence[Label] = ()
) -> Variable:
    """Return a variable from its sorted labels, the total weight of each, and the number of cells."""
    if not labels and not known:
        raise DataError(f"Column {name!r} has no values at all: drop it, or fill in known ones.")
    if is_identifier(len(labels), n_cells):
        raise DataError(_too_many_labels(name, f"{len(labels):,}", n_cells))
    extra = sorted({as_label(v, name) for v in known} - set(labels), key=label_sort_key)
    if extra:
        total_of = dict(zip(labels, totals, strict=True))
        labels = sorted(labels + extra, key=label_sort_key)
        totals = np.array([total_of.get(label, 0.0) for label in labels])
    mass = totals.sum()
    frequencies = totals / mass if mass > 0 else np.full(len(labels), 1 / len(labels))
    # Features of a 0/1 column are about 1, as in the paper (this scores better on Animal); others about rare states.
    base = 0 if labels == [0, 1] else int(np.argmax(totals))
    return Variable(name, role, tuple(labels), base, tuple(frequencies.tolist()))


def _too_many_labels(name: str, count: str, n_cells: int) -> str:
    return (
        f"Column {name!r} has {count} different values in {n_cells:,} cells: it looks like an identifier or a "
        "measurement. Group its values, or drop it (at the command line: --id; for linked tables: ignore=)."
    )


def is_identifier(n_labels: int, n_cells: int) -> bool:
    """Return whether a column has too many different values to be categorical."""
    return n_labels > config.IDENTIFIER_STATES and n_labels > config.IDENTIFIER_SHARE * n_cells


def _check_names(columns: Sequence[str], names: Sequence[str], what: str) -> None:
    existing = set(columns)
    for name in names:
        if name not in existing:
            known = ", ".join(columns[:8]) + (", ..." if len(columns) > 8 else "")
            raise DataError(f"{what}= names the column {name!r}, which is not there. Columns: {known}.")
