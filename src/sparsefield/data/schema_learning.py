"""Schemas learned from the values of a table: kinds of columns, their states and roles."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

import numpy as np

from sparsefield import config
from sparsefield.data import number_levels
from sparsefield.data.column_summaries import ColumnSummary, ColumnTraits
from sparsefield.data.column_types import family_of
from sparsefield.data.frames import Columns, JoinedColumns, Source
from sparsefield.data.labels import Label, as_label, as_numbers, label_sort_key, plain_labels
from sparsefield.data.schema import Kind, Role, Schema, Transform, Variable
from sparsefield.errors import CovariateWarning, DataError, DateTextWarning, NumberTextWarning, list_first

DATE_TEXT = re.compile(r"\s*\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])([T ]\d|\s*$)")
"""Dates as text, such as "2024-02-29" or "2024-02-29 12:30"."""

NUMBER_TEXT = re.compile(r"\s*[+-]?(0|[1-9]\d*)([.,]\d+)?\s*$")
"""Numbers as text; those that begin with more zeros are codes."""

TEXTS: tuple[tuple[re.Pattern[str], int, str, str, type[UserWarning]], ...] = (
    (DATE_TEXT, 1, "dates", "pandas.to_datetime", DateTextWarning),
    (NUMBER_TEXT, config.NUMERIC_STATES, "numbers", "pandas.to_numeric", NumberTextWarning),
)

MOST_MISSING = 0.05
"""Share of the rows in which an observed column may be missing without a warning."""

Kinds = Mapping[str, Kind | Transform | Sequence[Label]] | Literal["auto"]
"""{column: kind}, where a list of labels in ascending order means an ordinal column, and the name of a transform a
numeric one with such scores; "auto" for columns without one."""

States = Mapping[str, Sequence[Label]]
"""Further states of columns, which need not occur."""

SHOWN_ORDER = 12


def learn_schema(
    source: Columns,
    *,
    observed: Sequence[str] = (),
    kinds: Kinds = "auto",
    states: States | None = None,
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
    given, known = check_roles(source, observed, kinds, states)
    if isinstance(source, Source) and source.kind == "sparse" and not known and not given:
        matrix = source.native
        return learn_binary_schema(source.names, set(observed), matrix.indptr, matrix.indices, sample_weight)
    summaries = summarize_columns(source, sample_weight, given, known)
    numeric = [summary for summary in summaries if kind_of_column(summary, given, known).kind == "numeric"]
    names = [summary.name for summary in numeric]
    numbers = np.full((source.n_rows, len(names)), np.nan)
    for name, cells in zip(names, numbers.T, strict=True):
        column = source.column(name)
        cells[column.present] = as_numbers(column)
    levels = dict(zip(names, number_levels.count_levels(numbers).tolist(), strict=True)) if names else {}
    return learn_from_summaries(summaries, given, known, observed=observed, symmetric=symmetric, levels=levels)


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


def summarize_columns(
    source: Columns, weight: np.ndarray | None, given: Mapping[str, ColumnKind], known: States
) -> list[ColumnSummary]:
    """Return the summaries of all columns in a partition of the rows."""
    summaries = []
    for name in source.names:
        kind = given[name].kind if name in given else "nominal" if known.get(name) else None
        categorical = kind in ("nominal", "ordinal")
        summaries.append(ColumnSummary.of(source, name, weight, numeric=kind == "numeric", categorical=categorical))
    return summaries


def learn_from_summaries(
    summaries: Sequence[ColumnSummary],
    given: Mapping[str, ColumnKind],
    known: States,
    *,
    observed: Sequence[str] = (),
    symmetric: bool = True,
    levels: Mapping[str, int] | None = None,
) -> Schema:
    """Learn a schema from the summaries of all rows; kinds and states are those that `check_roles` returns.

    ``levels`` are those of `count_levels`, of the numbers whose joint distribution is known.
    """
    kinds = {summary.name: kind_of_column(summary, given, known) for summary in summaries}
    _check_orders(summaries, kinds, known)
    variables, problems = {}, []
    for summary in summaries:
        name, role, kind = summary.name, "observed" if summary.name in observed else "target", kinds[summary.name]
        if kind.kind == "numeric":
            variable = make_numeric(role, summary, kind.transform, (levels or {}).get(name, number_levels.MAX_LEVELS))
        else:
            try:
                variable = make_categorical(role, summary, known.get(name, ()))
            except DataError as error:
                problems.append(str(error))
                continue
            states = list(variable.states)
            are_text = len(states) > 1 and all(isinstance(state, str) for state in states)
            unordered = name not in given and name not in known and are_text and not summary.column_type[0]
            for pattern, least, what, function, warning in TEXTS if unordered else ():
                if len(states) > least and all(map(pattern.match, map(str, states))):
                    warnings.warn(
                        f"Column {name!r} holds {what} as text, such as {states[0]!r}, whose order is lost: convert "
                        f"it, as with {function}, or confirm it with kinds={{{name!r}: 'nominal'}}.",
                        warning,
                        stacklevel=3,
                    )
            if kind.kind == "ordinal":
                variable = make_ordinal(variable, kind.order)
            elif symmetric and len(variable.states) > 2:
                variable = replace(variable, symmetric=True)
        dtype, categories = summary.column_type
        # Of times, which are numbers of days, only whole days are rounded values.
        decimals = variable.decimals if variable.whole or not family_of(dtype) else None
        categories = tuple(as_label(label, name) for label in categories)
        variables[name] = replace(variable, dtype=dtype, categories=categories, decimals=decimals)
    if problems:
        raise DataError(" ".join(problems))
    ordered = sorted(variables.values(), key=lambda variable: variable.role == "observed")
    return Schema(tuple(ordered), tuple(variables))


def kind_of_column(summary: ColumnSummary, given: Mapping[str, ColumnKind], known: States) -> ColumnKind:
    """Return the kind that is given for a column, or that its values have."""
    kind = given.get(summary.name) or kind_of(summary.traits)
    is_found = summary.name not in given and bool(known.get(summary.name))
    return ColumnKind("nominal") if is_found and kind.kind == "numeric" else kind


def make_numeric(
    role: Role, summary: ColumnSummary, transform: Transform | None = None, most: int = number_levels.MAX_LEVELS
) -> Variable:
    """Return a numeric variable; without a ``transform`` the skewness and the kurtosis of the values choose one."""
    moments = summary.find_moments()
    if moments.weight <= 0:
        raise DataError(f"Column {summary.name!r} has no values at all: drop it, or fill in known ones.")
    (values, totals), mean, deviation = summary.numbers(), moments.mean, math.sqrt(moments.squares / moments.weight)
    if len(values) == 1:  # a sum may have been rounded
        mean, deviation = float(values[0]), 0.0
    levels = number_levels.find_levels(values, totals, transform, most)
    if deviation < number_levels.SMALL_DEVIATION:  # squares may have been rounded to 0
        deviation = number_levels.find_deviation(values, totals / totals.sum())
    decimals = number_levels.find_decimals(values)
    half = 0.5 if decimals == 0 else 0.0  # draws from the outermost levels are rounded
    return Variable(
        summary.name,
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
    scores = number_levels.standardize(np.arange(len(states), dtype=float), frequencies)
    return replace(
        variable,
        states=tuple(states),
        reference=0,  # so that the weight of the other of two states has the sign of the order
        frequencies=tuple(frequencies.tolist()),
        kind="ordinal",
        symmetric=False,
        scores=tuple(scores.tolist()),
    )


def check_roles(
    source: Columns, observed: Sequence[str], kinds: Kinds, states: Any
) -> tuple[dict[str, ColumnKind], States]:
    """Return the kinds and the states that are given; refuse unknown columns and kinds, and states of numbers."""
    _check_names(source.names, observed, "observed")
    if states is not None and not isinstance(states, Mapping):
        raise DataError(f"states is a {type(states).__name__}; it must be {{column: labels}}.")
    for name, labels in (states or {}).items():
        is_list = isinstance(labels, Iterable) and getattr(labels, "ndim", 1) == 1
        if isinstance(labels, (str, bytes, Mapping)) or not is_list:
            raise DataError(f"states= has {labels!r} for column {name!r}: give a list of labels.")
    known = {name: [as_label(label, name) for label in labels] for name, labels in (states or {}).items()}
    _check_names(source.names, list(known), "states")
    given = given_kinds(kinds, source.names)
    parts = source.parts if isinstance(source, JoinedColumns) else (source,)
    binary = {name for part in parts if part.kind == "sparse" for name in part.names}
    for name, kind in given.items():
        if name in known and kind.kind == "numeric":
            raise DataError(
                f"states= has column {name!r}, which is numeric by kinds=: the levels of a number are found from its "
                "values. Leave it out of states=, or give it the kind 'nominal' or 'ordinal'."
            )
        if name in binary and kind.kind == "ordinal":
            raise DataError(f"kinds= has {kind.kind!r} for {name!r} of a sparse 0/1 matrix: leave it out.")
    return given, known


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


def make_categorical(role: Role, summary: ColumnSummary, known: Sequence[Label] = ()) -> Variable:
    """Return a nominal variable with the labels of a column, and further ``known`` ones, as states."""
    name, (labels, totals) = summary.name, summary.in_order()
    if not labels and not known:
        raise DataError(f"Column {name!r} has no values at all: drop it, or fill in known ones.")
    if is_identifier(len(labels), summary.n_cells):
        raise DataError(
            f"Column {name!r} has {len(labels):,} different values in {summary.n_cells:,} cells: it looks like an "
            "identifier or a measurement. Group its values, or drop it (at the command line: --id; for linked tables: "
            "ignore=)."
        )
    extra = sorted(set(known) - set(labels), key=label_sort_key)
    if extra:
        total_of = dict(zip(labels, totals, strict=True))
        labels = sorted(labels + extra, key=label_sort_key)
        totals = np.array([total_of.get(label, 0.0) for label in labels])
    mass = totals.sum()
    frequencies = totals / mass if mass > 0 else np.full(len(labels), 1 / len(labels))
    # Features of a 0/1 column are about 1, as in the paper (this scores better on Animal); others about rare states.
    base = 0 if labels == [0, 1] else int(np.argmax(totals))
    return Variable(name, role, tuple(labels), base, tuple(frequencies.tolist()))


def is_identifier(n_labels: int, n_cells: int) -> bool:
    """Return whether a column has too many different values to be categorical."""
    return n_labels > config.IDENTIFIER_STATES and n_labels > config.IDENTIFIER_SHARE * n_cells


def _check_names(columns: Sequence[str], names: Sequence[str], what: str) -> None:
    existing = set(columns)
    for name in (name for name in names if name not in existing):
        raise DataError(_unknown_column(name, columns, what))


def _unknown_column(name: Any, columns: Sequence[str], what: str) -> str:
    return f"{what}= names the column {name!r}, which is not there. Columns: {list_first(columns, 8)}."


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
    given, problems, existing = {}, [], set(names)
    for name, kind in kinds.items():
        if name not in existing:
            problems.append(_unknown_column(name, names, "kinds"))
            continue
        try:
            given[name] = _given_kind(name, kind)
        except DataError as error:
            problems.append(str(error))
    if problems:
        raise DataError(" ".join(problems))
    return given


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
    if traits.numbers and 3 <= traits.n_distinct <= config.NUMERIC_STATES:
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

    ordered = [find(label) for label in order]
    if len(set(ordered)) < len(ordered):
        shown = ", ".join(map(repr, order))
        raise DataError(f"The given order of column {name!r} has a label twice, once as text: {shown}.")
    return ordered


def _number_type(labels: Sequence[Label]) -> Callable[[Any], Any]:
    """Return the function that makes a text one of the labels: the type of all, if they are numbers."""
    if not labels or any(isinstance(label, (str, bool)) for label in labels):
        return lambda text: text
    if any(isinstance(label, float) for label in labels):
        return float
    return lambda text: int(float(text)) if float(text).is_integer() else float(text)


def _check_orders(summaries: Sequence[ColumnSummary], kinds: Mapping[str, ColumnKind], known: States) -> None:
    """Raise a DataError about labels that the given orders of ordinal columns do not have, of all columns at once."""
    problems = []
    for summary in summaries:
        name, order = summary.name, kinds[summary.name].order
        labels = [*summary.in_order()[0], *known.get(name, ())] if order else []
        ordered = in_given_order(name, order, labels)
        unordered = [label for label in dict.fromkeys(labels) if label not in ordered]
        if not unordered:
            continue
        rows = dict(zip(summary.labels, summary.first_rows.tolist(), strict=True))
        places = {label: f"row {rows[label]:,}" if label in rows else "given by states=" for label in unordered}
        shown = list_first([f"{label!r} ({place})" for label, place in places.items()])
        listed = [str(label) for label in order[:SHOWN_ORDER]] + ["..."] * (len(order) > SHOWN_ORDER)
        problems.append(
            f"Column {name!r} holds {shown}, which its given order of labels does not have: {' < '.join(listed)}."
        )
    if problems:
        raise DataError(
            f"{' '.join(problems)} Add what is missing to the order (kinds=, at the command line --ordinal), or "
            "correct the cells. Rows are counted from 0."
        )
