"""What the columns of a table are, found by looking at them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from sparsefield import policy
from sparsefield.data.frames import Columns, RawColumn, Source
from sparsefield.data.labels import Label, as_label, as_numbers, factorize, label_order
from sparsefield.data.schema import Role, Schema, Variable
from sparsefield.data.switches import Switches, SwitchSchema
from sparsefield.errors import DataError

__all__ = ["learn_schema"]


def learn_schema(
    source: Columns,
    *,
    observed: Sequence[str] = (),
    numeric: Sequence[str] | Literal["auto"] = "auto",
    states: Mapping[str, Sequence[Label]] | None = None,
    sample_weight: np.ndarray | None = None,
) -> Schema:
    """Find the states and the role of every column of ``source``; ``states`` names some that need not occur in it."""
    _check_names(source, observed, "observed")
    _check_names(source, list(states or {}), "states")
    if numeric != "auto":
        _check_names(source, numeric, "numeric")
        wrong = [name for name in numeric if name not in observed]
        if wrong:
            raise DataError(
                f"Column {wrong[0]!r} is listed as numeric but is a target. Targets are categorical: list it in "
                "observed= as well, or cut it into classes first."
            )
    if isinstance(source, Source) and source.kind == "sparse" and not states:
        return _learn_switches(source, set(observed), sample_weight)
    given = set(observed)
    weight = np.ones(source.n_rows) if sample_weight is None else sample_weight
    known = states or {}
    targets = [
        _learn_categorical(source.column(n), "target", weight, known.get(n, ())) for n in source.names if n not in given
    ]
    givens = [_learn_observed(source.column(n), numeric, weight, known.get(n, ())) for n in source.names if n in given]
    return Schema(tuple(targets + givens), source.names)


def _learn_switches(source: Source, observed: set[str], weight: np.ndarray | None) -> SwitchSchema:
    """The schema of a sparse 0/1 matrix, from how often each column is on."""
    matrix = source.native
    counts = np.bincount(matrix.indices, minlength=len(source.names))
    sums, mass = counts, float(source.n_rows)
    if weight is not None:
        mass = float(weight.sum())
        sums = np.bincount(matrix.indices, np.repeat(weight, np.diff(matrix.indptr)), len(source.names))
    shares = np.minimum(sums / mass, 1.0)
    given = np.array([name in observed for name in source.names]) if observed else np.zeros(len(counts), dtype=bool)

    def part(which: np.ndarray, role: Role) -> Switches:
        names = source.names if which.all() else tuple(source.names[k] for k in np.flatnonzero(which))
        return Switches(names, shares[which], counts[which] < source.n_rows, counts[which] > 0, role)

    return SwitchSchema(part(~given, "target"), part(given, "observed"), source.names)


def _learn_categorical(column: RawColumn, role: Role, weight: np.ndarray, known: Sequence[Label] = ()) -> Variable:
    labels, codes = factorize(column)
    if not labels and not known:
        raise DataError(f"Column {column.name!r} has no values at all: drop it, or fill in what is known of it.")
    seen = int(column.seen.sum())
    if len(labels) > policy.IDENTIFIER_STATES and len(labels) > policy.IDENTIFIER_SHARE * seen:
        raise DataError(
            f"Column {column.name!r} has {len(labels):,} different values in {seen:,} cells: it looks like an "
            "identifier or a measurement. Cut it into classes, or drop it (at the command line: --id; for linked "
            "tables: ignore=)."
        )
    totals = np.bincount(codes[column.seen], weights=weight[column.seen], minlength=len(labels))
    labels, totals = _with_known(labels, totals, known, column.name)
    mass = totals.sum()
    frequencies = totals / mass if mass > 0 else np.full(len(labels), 1 / len(labels))
    # A yes/no column speaks of its yes, as in the paper (Animal measures better so); others of what is unusual.
    base = 0 if labels == [0, 1] else int(np.argmax(totals))
    return Variable(column.name, role, tuple(labels), base, tuple(frequencies.tolist()))


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


def _learn_observed(
    column: RawColumn, numeric: Sequence[str] | Literal["auto"], weight: np.ndarray, known: Sequence[Label]
) -> Variable:
    wanted = _looks_numeric(column) and not known if numeric == "auto" else column.name in numeric
    if not wanted:
        return _learn_categorical(column, "observed", weight, known)
    values = as_numbers(column)
    w = weight[column.seen]
    if values.size == 0 or w.sum() <= 0:
        raise DataError(
            f"Observed column {column.name!r} has no values at all: drop it, or fill in what is known of it."
        )
    centre = float(np.average(values, weights=w))
    deviation = float(np.sqrt(np.average((values - centre) ** 2, weights=w)))
    return Variable(column.name, "observed", centre=centre, scale=deviation if deviation > 0 else 1.0)


def _looks_numeric(column: RawColumn) -> bool:
    """Fractions, or more than a few whole numbers; text and booleans never."""
    values = column.values
    if values.dtype.kind == "O":
        if not all(isinstance(v, (int, float, np.number)) and not isinstance(v, bool) for v in values):
            return False
        values = values.astype(policy.FLOAT)
    if values.dtype.kind not in "iuf":
        return False
    distinct = np.unique(values)
    if not np.isfinite(distinct).all():
        return True  # a number, which `as_numbers` will refuse
    return len(distinct) > policy.NUMERIC_STATES or not np.equal(np.mod(distinct, 1), 0).all()


def _check_names(source: Columns, names: Sequence[str], what: str) -> None:
    for name in names:
        if name not in source.names:
            known = ", ".join(source.names[:8]) + (", ..." if len(source.names) > 8 else "")
            raise DataError(f"{what}= names the column {name!r}, which is not there. Columns: {known}.")
