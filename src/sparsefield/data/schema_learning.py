"""What the columns of a table are, found by looking at them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from sparsefield import config
from sparsefield.data.binary_variables import BinarySchema, BinaryVariables
from sparsefield.data.column_summaries import MANY_LABELS, Labels, Moments, describe, find_traits, sum_squares
from sparsefield.data.exact_sums import Weights, rounded
from sparsefield.data.frames import Columns, Source
from sparsefield.data.labels import Label, as_label, label_order
from sparsefield.data.schema import Role, Schema, Variable
from sparsefield.errors import DataError

__all__ = [
    "check_roles",
    "count_on",
    "is_identifier",
    "learn_from_parts",
    "learn_schema",
    "make_categorical",
    "make_switches",
    "pieces_of_rows",
]

PIECE = 2**20
"""Cells that are looked at together where all of them may lie on disk."""


def learn_schema(
    source: Columns,
    *,
    observed: Sequence[str] = (),
    numeric: Sequence[str] | Literal["auto"] = "auto",
    states: Mapping[str, Sequence[Label]] | None = None,
    sample_weight: np.ndarray | None = None,
) -> Schema:
    """Find the states and the role of every column of ``source``; ``states`` names some that need not occur in it."""
    check_roles(source.names, observed, numeric, states)
    as_they_are = not states and (numeric == "auto" or not numeric)
    if isinstance(source, Source) and source.kind == "sparse" and as_they_are:
        return _learn_switches(source, set(observed), sample_weight)
    weights = Weights(sample_weight)
    return learn_from_parts(
        source.names,
        lambda look, *asked: look(source, weights, *asked),
        observed=observed,
        numeric=numeric,
        states=states,
    )


def learn_from_parts(
    names: tuple[str, ...],
    ask: Callable[..., list[Any]],
    *,
    observed: Sequence[str] = (),
    numeric: Sequence[str] | Literal["auto"] = "auto",
    states: Mapping[str, Sequence[Label]] | None = None,
    most: int | None = None,
) -> Schema:
    """The schema of columns that ``ask(look, *asked)`` looks at: it joins what ``look(part, weights, *asked)`` says of
    each part of the rows.

    A column with more than ``most`` labels is refused.
    """
    given, known = set(observed), states or {}
    unsure = [name for name in names if name in given and not known.get(name)] if numeric == "auto" else []
    traits = ask(find_traits, unsure) if unsure else []
    numbers = {name for name, found in zip(unsure, traits, strict=True) if found.numeric}
    numbers = numbers if numeric == "auto" else set(numeric)
    found = dict(zip(names, ask(describe, names, numbers, most), strict=True))
    centres = {name: _centre(name, found[name]) for name in names if name in numbers}
    squares = dict(zip(centres, ask(sum_squares, centres) if centres else [], strict=True))

    def variable(name: str) -> Variable:
        if name not in centres:
            return _categorical(found[name], "observed" if name in given else "target", known.get(name, ()))
        deviation = found[name].deviation(squares[name])
        return Variable(name, "observed", centre=centres[name], scale=deviation if deviation > 0 else 1.0)

    order = sorted(names, key=given.__contains__)
    return Schema(tuple(variable(name) for name in order), names)


def _centre(name: str, moments: Moments) -> float:
    if moments.weight <= 0:
        raise DataError(f"Observed column {name!r} has no values at all: drop it, or fill in what is known of it.")
    return moments.centre


def _categorical(found: Labels, role: Role, known: Sequence[Label]) -> Variable:
    if found.too_many:
        raise DataError(_too_many(found.name, f"more than {MANY_LABELS:,}", found.seen))
    labels, totals = found.in_order()
    return make_categorical(found.name, role, labels, rounded(totals), found.seen, known)


def check_roles(
    names: Sequence[str],
    observed: Sequence[str],
    numeric: Sequence[str] | Literal["auto"],
    states: Mapping[str, Sequence[Label]] | None,
) -> None:
    """Refuse columns that are not there, and numbers that would have to be predicted."""
    _check_names(names, observed, "observed")
    _check_names(names, list(states or {}), "states")
    if numeric != "auto":
        _check_names(names, numeric, "numeric")
        wrong = [name for name in numeric if name not in observed]
        if wrong:
            raise DataError(
                f"Column {wrong[0]!r} is listed as numeric but is a target. Targets are categorical: list it in "
                "observed= as well, or cut it into classes first."
            )


def _learn_switches(source: Source, observed: set[str], weight: np.ndarray | None) -> BinarySchema:
    matrix = source.native
    counts, sums = count_on(matrix.indptr, matrix.indices, len(source.names), weight)
    mass = float(source.n_rows) if weight is None else float(weight.sum())
    return make_switches(source.names, observed, source.n_rows, counts, sums, mass)


def count_on(
    offsets: np.ndarray, columns: np.ndarray, n_columns: int, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(columns,) each: in how many rows a column is on, and their weight. Rows may lie on disk."""
    counts = np.zeros(n_columns, dtype=np.int64)
    sums = np.zeros(n_columns) if weight is not None else counts
    for start, stop in pieces_of_rows(offsets):
        piece = np.asarray(columns[offsets[start] : offsets[stop]], dtype=np.intp)
        counts += np.bincount(piece, minlength=n_columns)
        if weight is not None:
            # One by one, as `bincount` adds, so that the sums do not depend on where pieces end.
            np.add.at(sums, piece, np.repeat(weight[start:stop], np.diff(offsets[start : stop + 1])))
    return counts, sums


def pieces_of_rows(offsets: np.ndarray) -> Iterator[tuple[int, int]]:
    """(start, stop) of consecutive rows with about `PIECE` cells that are on, or so many rows."""
    start, n_rows, n_on = 0, len(offsets) - 1, int(offsets[-1])
    while start < n_rows:
        # A number of another type would make `searchsorted` copy all offsets.
        end = offsets.dtype.type(min(int(offsets[start]) + PIECE, n_on))
        stop = int(np.searchsorted(offsets, end, side="right")) - 1
        stop = min(max(stop, start + 1), start + PIECE, n_rows)
        yield start, stop
        start = stop


def make_switches(
    names: tuple[str, ...], observed: Collection[str], n_rows: int, counts: np.ndarray, sums: np.ndarray, mass: float
) -> BinarySchema:
    """The schema of 0/1 columns, from how often each is on: in ``counts`` of the rows, of weight ``sums``."""
    shares = np.minimum(sums / mass, 1.0)
    # On wherever a row weighs anything: sums of weights in two orders may differ in their last digits.
    shares[shares > 1.0 - 1e-12] = 1.0
    given = np.array([name in observed for name in names]) if observed else np.zeros(len(counts), dtype=bool)

    def part(which: np.ndarray, role: Role) -> BinaryVariables:
        mine = names if which.all() else tuple(names[k] for k in np.flatnonzero(which))
        return BinaryVariables(mine, shares[which], counts[which] < n_rows, counts[which] > 0, role)

    return BinarySchema(part(~given, "target"), part(given, "observed"), names)


def make_categorical(
    name: str, role: Role, labels: list[Label], totals: np.ndarray, seen: int, known: Sequence[Label] = ()
) -> Variable:
    """A variable from its labels in their order, the weight of the cells that hold each, and the number of cells."""
    if not labels and not known:
        raise DataError(f"Column {name!r} has no values at all: drop it, or fill in what is known of it.")
    if is_identifier(len(labels), seen):
        raise DataError(_too_many(name, f"{len(labels):,}", seen))
    labels, totals = _with_known(labels, totals, known, name)
    mass = totals.sum()
    frequencies = totals / mass if mass > 0 else np.full(len(labels), 1 / len(labels))
    # A yes/no column speaks of its yes, as in the paper (Animal measures better so); others of what is unusual.
    base = 0 if labels == [0, 1] else int(np.argmax(totals))
    return Variable(name, role, tuple(labels), base, tuple(frequencies.tolist()))


def _too_many(name: str, count: str, seen: int) -> str:
    return (
        f"Column {name!r} has {count} different values in {seen:,} cells: it looks like an identifier or a "
        "measurement. Cut it into classes, or drop it (at the command line: --id; for linked tables: ignore=)."
    )


def is_identifier(n_labels: int, seen: int) -> bool:
    """Whether a column of so many cells has too many different values to be one of categories."""
    return n_labels > config.IDENTIFIER_STATES and n_labels > config.IDENTIFIER_SHARE * seen


def _with_known(
    labels: list[Label], totals: np.ndarray, known: Sequence[Label], name: str
) -> tuple[list[Label], np.ndarray]:
    """Labels that were seen and labels that are known to exist, in one order, with their totals."""
    extra = sorted({as_label(v, name) for v in known} - set(labels), key=label_order)
    if not extra:
        return labels, totals
    merged = sorted(labels + extra, key=label_order)
    count = dict(zip(labels, totals, strict=True))
    return merged, np.array([count.get(label, 0.0) for label in merged])


def _check_names(columns: Sequence[str], names: Sequence[str], what: str) -> None:
    there = set(columns)
    for name in names:
        if name not in there:
            known = ", ".join(columns[:8]) + (", ..." if len(columns) > 8 else "")
            raise DataError(f"{what}= names the column {name!r}, which is not there. Columns: {known}.")
