"""Schemas learned from the values of a table: kinds of columns, their states and roles."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np

from sparsefield import config
from sparsefield.data.column_summaries import (
    ColumnTraits,
    LabelSummary,
    Moments,
    NumberSummary,
    find_traits,
    find_types,
    read_categories,
    sum_squared_deviations,
    summarize_columns,
    summarize_numbers,
)
from sparsefield.data.column_types import family_of
from sparsefield.data.frames import Columns, JoinedColumns, Source
from sparsefield.data.labels import Label, as_label, label_sort_key, plain_labels
from sparsefield.data.number_levels import SMALL_DEVIATION, find_decimals, find_deviation, find_levels, standardize
from sparsefield.data.schema import Kind, Role, Schema, Transform, Variable
from sparsefield.errors import CovariateWarning, DataError

MOST_MISSING = 0.05
"""Share of the rows in which an observed column may be missing without a warning."""

Kinds = Mapping[str, Kind | Transform | Sequence[Label]] | Literal["auto"]
"""{column: kind}, where a list of labels in ascending order means an ordinal column, and the name of a transform a
numeric one with such scores; "auto" for columns without one."""

SHOWN_LABELS, SHOWN_ORDER = 5, 12


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


@dataclass(frozen=True)
class ColumnKind:
    """The kind of a column."""

    kind: Kind
    order: tuple[Label, ...] = ()
    """The labels of an ordinal column in ascending order, if these are given; otherwise they are sorted."""
    transform: Transform | None = None
    """How the numbers of a numeric column become scores, if this is given; otherwise their distribution decides."""


def given_kinds(kinds: Kinds, names: Sequence[str]) -> dict[str, ColumnKind]:
    """Return the kinds that are given, and refuse unknown columns and kinds, all at once."""
    if isinstance(kinds, str) and kinds == "auto":
        return {}
    if not isinstance(kinds, Mapping):
        raise DataError(f"kinds must be 'auto' or {{column: kind}}, got {kinds!r}.")
    found, problems, existing = {}, [], set(names)
    for name, kind in kinds.items():
        if name not in existing:
            known = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            problems.append(f"kinds= names the column {name!r}, which is not there. Columns: {known}.")
            continue
        try:
            found[name] = _given_kind(name, kind)
        except DataError as error:
            problems.append(str(error))
    if problems:
        raise DataError(" ".join(problems))
    return found


def _given_kind(name: str, kind: Any) -> ColumnKind:
    if isinstance(kind, str) and kind in get_args(Kind):
        return ColumnKind(cast(Kind, kind))
    if isinstance(kind, str) and kind in get_args(Transform):
        return ColumnKind("numeric", transform=cast(Transform, kind))
    if isinstance(kind, str) and "<" in kind:
        order = [label.strip() for label in kind.split("<")]
    elif isinstance(kind, (str, bytes, Mapping, Set)) or not isinstance(kind, Iterable):
        raise DataError(
            f"kinds= has {kind!r} for column {name!r}: a kind is 'nominal', 'ordinal', 'numeric', 'linear-scores' "
            "or 'normal-scores' (numeric with such scores), or the list of all labels in ascending order."
        )
    else:
        order = plain_labels(name, list(kind))
    if not order:
        raise DataError(f"kinds= has no labels for column {name!r}: list them in ascending order, or say 'ordinal'.")
    if not all(isinstance(label, (str, int, float, bool, np.generic)) for label in order):
        raise DataError(f"kinds= has {kind!r} for column {name!r}: labels are text, numbers or booleans.")
    order = [as_label(label, name) for label in order]
    if len(set(order)) < len(order):
        raise DataError(f"kinds= has a label twice for column {name!r}: {', '.join(map(repr, order))}.")
    return ColumnKind("ordinal", tuple(order))


def kind_of(traits: ColumnTraits) -> ColumnKind:
    """Return the kind of a column for which none is given."""
    if traits.order:
        return ColumnKind("ordinal", traits.order)
    if traits.numeric:
        return ColumnKind("numeric")
    if traits.numbers and 3 <= len(traits.distinct) <= config.NUMERIC_STATES:
        return ColumnKind("ordinal")
    return ColumnKind("nominal")


def in_given_order(name: str, order: Sequence[Any], labels: Sequence[Label]) -> list[Label]:
    """Return the labels of an ordinal column in their given order, with the types that they have in the column.

    Labels are compared as text and as numbers, too, since those of the command line are text.
    """
    by_value: dict[Any, Label] = {label: label for label in labels}
    by_text = {str(label): label for label in labels}
    number = _number_type(labels)

    def find(label: Any) -> Label:
        if label in by_value:
            return by_value[label]
        if str(label) in by_text:
            return by_text[str(label)]
        try:
            return as_label(number(label), name)
        except ValueError:
            return as_label(label, name)

    found = [find(label) for label in order]
    if len(set(found)) < len(found):
        shown = ", ".join(map(repr, order))
        raise DataError(f"The given order of column {name!r} has a label twice, once as text: {shown}.")
    return found


def _number_type(labels: Sequence[Label]) -> Callable[[Any], Any]:
    """Return the function that makes a text one of the labels: the type of all, if they are numbers."""
    if not labels or any(isinstance(label, (str, bool)) for label in labels):
        return lambda text: text
    if any(isinstance(label, float) for label in labels):
        return float
    return lambda text: int(float(text)) if float(text).is_integer() else float(text)


class FirstRows(NamedTuple):
    """The first rows of some labels of a column, in a partition of the rows."""

    rows: dict[Label, int]
    """{label: row} of the labels that occur."""
    n_rows: int

    @classmethod
    def join(cls, parts: Sequence[FirstRows]) -> FirstRows:
        rows: dict[Label, int] = {}
        before = 0
        for part in parts:
            for label, row in part.rows.items():
                rows.setdefault(label, before + row)
            before += part.n_rows
        return cls(rows, before)


def check_orders(
    kinds: Mapping[str, ColumnKind],
    found: Mapping[str, Any],
    states: Mapping[str, Sequence[Label]],
    summarize: Callable[..., list[Any]],
) -> None:
    """Raise a DataError about labels that the given orders of ordinal columns do not have, of all columns at once.

    Parameters
    ----------
    kinds : kind of each column
    found : summary of each column
    states : further states of columns, which need not occur
    summarize : as for `learn_from_parts`
    """
    unordered: dict[str, list[Label]] = {}
    for name, summary in found.items():
        order = kinds[name].order
        if order and isinstance(summary, LabelSummary):
            labels = [*summary.in_order()[0], *(as_label(state, name) for state in states.get(name, ()))]
            ordered = in_given_order(name, order, labels)
            missing = [label for label in dict.fromkeys(labels) if label not in ordered]
            unordered |= {name: missing} if missing else {}
    if unordered:
        rows = summarize(_find_first_rows, unordered)
        problems = map(_problem, unordered.items(), (kinds[name].order for name in unordered), rows)
        raise DataError(
            f"{' '.join(problems)} Add what is missing to the order (kinds=, at the command line --ordinal), or "
            "correct the cells. Rows are counted from 0."
        )


def _find_first_rows(source: Columns, weights: Any, wanted: Mapping[str, Sequence[Label]]) -> list[FirstRows]:
    """Return the first rows of the ``wanted`` labels of each column; ``weights`` are not used."""
    found = []
    for name, labels in wanted.items():
        cells = read_categories(source, name)
        places = {label: k for k, label in enumerate(cells.labels) if label in labels}
        rows = {label: int(np.argmax(cells.codes == k)) for label, k in places.items()}
        found.append(FirstRows(rows, source.n_rows))
    return found


def _problem(unordered: tuple[str, Sequence[Label]], order: Sequence[Label], found: FirstRows) -> str:
    name, labels = unordered
    places = [(label, found.rows.get(label)) for label in labels[:SHOWN_LABELS]]
    shown = [f"{label!r} (given by states=)" if row is None else f"{label!r} (row {row:,})" for label, row in places]
    shown += ["..."] if len(labels) > SHOWN_LABELS else []
    listed = [str(label) for label in order[:SHOWN_ORDER]] + (["..."] if len(order) > SHOWN_ORDER else [])
    return (
        f"Column {name!r} holds {', '.join(shown)}, which its given order of labels does not have: "
        f"{' < '.join(listed)}."
    )
