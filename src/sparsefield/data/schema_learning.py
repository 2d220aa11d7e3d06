"""This module learns the schema of a table from its values."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sparsefield import config
from sparsefield.data.column_summaries import (
    Moments,
    NumberSummary,
    find_traits,
    find_types,
    sum_squared_deviations,
    summarize_columns,
    summarize_numbers,
)
from sparsefield.data.column_types import family_of
from sparsefield.data.frames import Columns, JoinedColumns, Source
from sparsefield.data.kinds import ColumnKind, Kinds, check_orders, given_kinds, in_given_order, kind_of
from sparsefield.data.labels import Label, as_label, label_sort_key
from sparsefield.data.number_levels import SMALL_DEVIATION, find_decimals, find_deviation, find_levels, standardize
from sparsefield.data.schema import Role, Schema, Transform, Variable
from sparsefield.errors import CovariateWarning, DataError

MOST_MISSING = 0.05
"""Share of the rows in which an observed column may be missing without a warning."""


def learn_schema(
    source: Columns,
    *,
    observed: Sequence[str] = (),
    kinds: Kinds = "auto",
    states: Mapping[str, Sequence[Label]] | None = None,
    symmetric: bool = True,
    sample_weight: np.ndarray | None = None,
) -> Schema:
    """Learn the kind, the states and the role of every column of ``source``.

    Parameters
    ----------
    kinds : {column: kind} of those for which it is not to be found out
    states : further states of columns, which need not occur
    symmetric : whether every state of a nominal column of more than two states has features, or all but one
    """
    check_roles(source.names, observed, kinds, states)
    _refuse_kinds_of_matrix(source, kinds)
    if isinstance(source, Source) and source.kind == "sparse" and not states and (kinds == "auto" or not kinds):
        matrix = source.native
        return learn_binary_schema(source.names, set(observed), matrix.indptr, matrix.indices, sample_weight)

    def summarize(function: Callable[..., list[Any]], *arguments: Any) -> list[Any]:
        return function(source, sample_weight, *arguments)

    return learn_from_parts(source.names, summarize, observed=observed, kinds=kinds, states=states, symmetric=symmetric)


def warn_incomplete_covariates(source: Columns, observed: Sequence[str]) -> None:
    """Warn about observed columns that are often missing: the mean in their place makes other columns dependent."""
    for name in observed:
        missing = source.n_rows - int(np.count_nonzero(source.column(name).present))
        warn_incomplete_covariate(name, missing, source.n_rows)


def warn_incomplete_covariate(name: str, missing: int, n_rows: int) -> None:
    """Warn about an observed column if many of its cells are missing."""
    if missing > MOST_MISSING * n_rows:
        warnings.warn(
            f"Observed column {name!r} has {missing / n_rows:.0%} of its cells missing, which get "
            "its mean: columns that depend on it may seem to depend on each other. Leave it out of observed= "
            "(--observed), so that it is learned like the others, or fill it in.",
            CovariateWarning,
            stacklevel=4,
        )


def learn_from_parts(
    names: tuple[str, ...],
    summarize: Callable[..., list[Any]],
    *,
    observed: Sequence[str] = (),
    kinds: Kinds = "auto",
    states: Mapping[str, Sequence[Label]] | None = None,
    symmetric: bool = True,
) -> Schema:
    """Learn a schema from summaries of partitions.

    ``summarize(function, *arguments)`` joins the results of ``function(partition, weight, *arguments)``.
    """
    covariates, known = set(observed), states or {}
    found_kinds = given_kinds(kinds, names)
    unsure = [name for name in names if name not in found_kinds]
    for name, traits in zip(unsure, summarize(find_traits, unsure) if unsure else [], strict=True):
        kind = kind_of(traits)
        found_kinds[name] = ColumnKind("nominal") if known.get(name) and kind.kind == "numeric" else kind
    numbers = [name for name in names if found_kinds[name].kind == "numeric"]
    found = dict(zip(names, summarize(summarize_columns, names, set(numbers)), strict=True))
    check_orders(found_kinds, found, known, summarize)
    means = {name: _mean(name, found[name]) for name in numbers}
    squares = dict(zip(means, summarize(sum_squared_deviations, means) if means else [], strict=True))
    values = dict(zip(numbers, summarize(summarize_numbers, numbers) if numbers else [], strict=True))

    types = dict(zip(names, summarize(find_types, names), strict=True))

    def typed_variable(name: str) -> Variable:
        dtype, categories = types[name]
        categories = tuple(as_label(label, name) for label in categories)
        found = variable(name)
        # Of times, which are numbers of days, only whole days are rounded values.
        decimals = found.decimals if found.whole or not family_of(dtype) else None
        if (dtype, categories, decimals) == (found.dtype, found.categories, found.decimals):
            return found
        return replace(found, dtype=dtype, categories=categories, decimals=decimals)

    def variable(name: str) -> Variable:
        summary, role = found[name], "observed" if name in covariates else "target"
        if name in means:
            deviation = math.sqrt(squares[name] / summary.weight)
            return make_numeric(name, role, means[name], deviation, values[name], found_kinds[name].transform)
        labels, totals = summary.in_order()
        made = make_categorical(name, role, labels, totals, summary.n_cells, known.get(name, ()))
        if found_kinds[name].kind == "ordinal":
            return make_ordinal(made, found_kinds[name].order)
        return replace(made, symmetric=True) if symmetric and len(made.states) > 2 else made

    order = sorted(names, key=covariates.__contains__)
    return Schema(tuple(typed_variable(name) for name in order), names)


def make_numeric(
    name: str,
    role: Role,
    mean: float,
    deviation: float,
    summary: NumberSummary,
    transform: Transform | None = None,
) -> Variable:
    """Return a numeric variable from its mean, its standard deviation, and its distinct values.

    Without a ``transform`` the skewness and the kurtosis of the values choose one.
    """
    values, totals = summary.values[summary.totals > 0.0], summary.totals[summary.totals > 0.0]
    if len(values) == 1:  # a sum may have been rounded
        mean, deviation = float(values[0]), 0.0
    levels = find_levels(values, totals, transform)
    if deviation < SMALL_DEVIATION:  # squares may have been rounded to 0
        deviation = find_deviation(values, totals / totals.sum())
    decimals = find_decimals(values)
    half = 0.5 if decimals == 0 else 0.0  # draws from the outermost levels are rounded
    return Variable(
        name,
        role,
        tuple(levels.values.tolist()),
        0,
        tuple(levels.frequencies.tolist()),
        center=mean,
        scale=deviation if deviation > 0 else 1.0,
        kind="numeric",
        scores=tuple(levels.scores.tolist()),
        cuts=tuple(levels.cuts.tolist()),
        bins=tuple(levels.bins.tolist()) if len(levels.values) > 2 else (),
        transform=levels.transform,
        limits=(float(values[0]) - half, float(values[-1]) + half) if len(levels.values) < len(values) else (),
        decimals=decimals,
    )


def make_ordinal(variable: Variable, order: Sequence[Label] = ()) -> Variable:
    """Return a nominal variable as an ordinal one, with its states in a given order, or sorted."""
    states = in_given_order(variable.name, order, variable.states) if order else list(variable.states)
    share = dict(zip(variable.states, variable.frequencies, strict=True))
    frequencies = np.array([share.get(state, 0.0) for state in states])
    scores = standardize(np.arange(len(states), dtype=float), frequencies)
    return replace(
        variable,
        states=tuple(states),
        reference=0,  # so that the weight of the other of two states has the sign of the order
        frequencies=tuple(frequencies.tolist()),
        kind="ordinal",
        symmetric=False,
        scores=tuple(scores.tolist()),
    )


def _mean(name: str, moments: Moments) -> float:
    if moments.weight <= 0:
        raise DataError(f"Column {name!r} has no values at all: drop it, or fill in known ones.")
    return moments.mean


def check_roles(
    names: Sequence[str],
    observed: Sequence[str],
    kinds: Kinds,
    states: Mapping[str, Sequence[Label]] | None,
) -> None:
    """Refuse unknown columns and kinds, and states of numbers."""
    _check_names(names, observed, "observed")
    _check_names(names, list(states or {}), "states")
    found = given_kinds(kinds, names)
    for name in states or {}:
        if name in found and found[name].kind == "numeric":
            raise DataError(
                f"states= has column {name!r}, which is numeric by kinds=: the levels of a number are found from its "
                "values. Leave it out of states=, or give it the kind 'nominal' or 'ordinal'."
            )


def _refuse_kinds_of_matrix(source: Columns, kinds: Kinds) -> None:
    """Refuse ordinal columns of a sparse matrix."""
    parts = source.parts if isinstance(source, JoinedColumns) else (source,)
    binary = {name for part in parts if isinstance(part, Source) and part.kind == "sparse" for name in part.names}
    for name, given in given_kinds(kinds, source.names).items():
        if name in binary and given.kind == "ordinal":
            raise DataError(
                f"kinds= has {given.kind!r} for column {name!r} of a sparse matrix, whose columns are 0/1: leave it "
                "out."
            )


def learn_binary_schema(
    names: tuple[str, ...], observed: Collection[str], offsets: np.ndarray, columns: np.ndarray, weight: Any = None
) -> Schema:
    """Learn the schema of 0/1 columns from sparse rows with (rows,) weights or None."""
    n_rows = len(offsets) - 1
    counts = np.bincount(columns, minlength=len(names))
    sums = counts if weight is None else np.bincount(columns, np.repeat(weight, np.diff(offsets)), len(names))
    shares = np.minimum(sums / (float(n_rows) if weight is None else float(weight.sum())), 1.0)
    # 1 in all rows with a weight: sums in two orders may differ in their last digits.
    shares[shares > 1.0 - 1e-12] = 1.0
    covariates = np.array([name in observed for name in names]) if observed else np.zeros(len(counts), dtype=bool)
    n_targets, order = int(np.count_nonzero(~covariates)), np.argsort(covariates, kind="stable")
    sorted_names = tuple(names[k] for k in order) if observed else names
    return Schema((), names, sorted_names, n_targets, shares[order], counts[order] < n_rows, counts[order] > 0)


def make_categorical(
    name: str, role: Role, labels: list[Label], totals: np.ndarray, n_cells: int, known: Sequence[Label] = ()
) -> Variable:
    """Return a variable from its sorted labels, the total weight of each, and the number of cells."""
    if not labels and not known:
        raise DataError(f"Column {name!r} has no values at all: drop it, or fill in known ones.")
    refuse_identifier(name, len(labels), n_cells)
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


def refuse_identifier(name: str, n_labels: int, n_cells: int) -> None:
    """Raise a DataError if a column has too many different values to be categorical."""
    if is_identifier(n_labels, n_cells):
        raise DataError(
            f"Column {name!r} has {n_labels:,} different values in {n_cells:,} cells: it looks like an identifier or a "
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
