"""What the columns are: their states, roles and places in one flat numbering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from sparsefield import policy
from sparsefield.data.frames import Columns, RawColumn
from sparsefield.errors import DataError

__all__ = ["Label", "Role", "Schema", "Variable", "factorize", "learn_schema"]

Label = str | int | float | bool
Role = Literal["target", "observed"]


@dataclass(frozen=True)
class Variable:
    """A column: a categorical one with sorted states, or a numeric observed one with a centre and a scale.

    The *base* state carries no feature (its logit is 0), so a variable of K states takes K - 1 places in the flat
    numbering; a numeric one takes one place, its standardised value. The base is the most frequent state, but 0 or
    False where the states are 0 and 1 or False and True.
    """

    name: str
    role: Role
    states: tuple[Label, ...] = ()
    base: int = 0
    frequencies: tuple[float, ...] = ()
    centre: float = 0.0
    scale: float = 1.0

    @property
    def numeric(self) -> bool:
        return not self.states

    @property
    def width(self) -> int:
        return 1 if self.numeric else len(self.states) - 1

    @cached_property
    def position_of_code(self) -> np.ndarray:
        """(K,): index into ``states`` of code 0 (the base), 1, ..., K - 1."""
        others = [k for k in range(len(self.states)) if k != self.base]
        return np.array([self.base, *others], dtype=np.int64)

    @cached_property
    def code_of_label(self) -> dict[Label, int]:
        return {self.states[position]: code for code, position in enumerate(self.position_of_code)}

    @cached_property
    def column_frequencies(self) -> np.ndarray:
        """(width,): how often each state but the base was seen in training; 0 for a numeric variable."""
        if self.numeric:
            return np.zeros(1)
        return np.asarray(self.frequencies)[self.position_of_code[1:]]


@dataclass(frozen=True)
class Schema:
    """All variables, targets first, so that target states are numbered 0 .. n_states - 1 and observed ones follow."""

    variables: tuple[Variable, ...]
    order: tuple[str, ...]
    """Column names in the order in which they came."""

    @cached_property
    def targets(self) -> tuple[Variable, ...]:
        return tuple(v for v in self.variables if v.role == "target")

    @cached_property
    def observed(self) -> tuple[Variable, ...]:
        return tuple(v for v in self.variables if v.role == "observed")

    @cached_property
    def offsets(self) -> np.ndarray:
        """(variables + 1,): variable v has columns offsets[v] .. offsets[v + 1] of the flat numbering."""
        return np.concatenate([[0], np.cumsum([v.width for v in self.variables])]).astype(np.int64)

    @cached_property
    def state_offsets(self) -> np.ndarray:
        """(targets + 1,): the same for the targets alone."""
        return self.offsets[: len(self.targets) + 1]

    @property
    def n_states(self) -> int:
        """Number of target states that carry a unary feature."""
        return int(self.state_offsets[-1])

    @property
    def n_columns(self) -> int:
        """Target states and observed columns together."""
        return int(self.offsets[-1])

    @cached_property
    def variable_of_column(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.variables)), np.diff(self.offsets))

    @cached_property
    def index_of_name(self) -> dict[str, int]:
        return {v.name: k for k, v in enumerate(self.variables)}

    @cached_property
    def column_names(self) -> tuple[tuple[str, Label | None], ...]:
        """(variable, state) of each place in the flat numbering; the state of a numeric column is None."""
        names: list[tuple[str, Label | None]] = []
        for variable in self.variables:
            if variable.numeric:
                names.append((variable.name, None))
            else:
                names += [(variable.name, variable.states[k]) for k in variable.position_of_code[1:]]
        return tuple(names)

    @property
    def n_candidate_pairs(self) -> int:
        """Pairs of columns of two variables, at least one of them a target."""
        states, columns = self.n_states, self.n_columns
        widths = np.diff(self.state_offsets)
        within = int((widths * (widths - 1) // 2).sum())
        return states * (states - 1) // 2 - within + states * (columns - states)


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
    given = set(observed)
    weight = np.ones(source.n_rows) if sample_weight is None else sample_weight
    known = states or {}
    targets = [
        _learn_categorical(source.column(n), "target", weight, known.get(n, ())) for n in source.names if n not in given
    ]
    givens = [_learn_observed(source.column(n), numeric, weight, known.get(n, ())) for n in source.names if n in given]
    return Schema(tuple(targets + givens), source.names)


def factorize(column: RawColumn) -> tuple[list[Label], np.ndarray]:
    """Distinct labels in sorted order, and (rows,) their index per cell, -1 for a gap."""
    values = _whole(column.values)
    codes = np.full(len(column.seen), -1, dtype=np.int64)
    if values.dtype.kind in "iu" and _small_range(values):
        labels, inverse = _factorize_small_range(values)
    elif values.dtype.kind in "biufU":
        distinct, inverse = np.unique(values, return_inverse=True)
        labels = [_label(v, column.name) for v in distinct.tolist()]
    else:
        labels, inverse = _factorize_objects(values, column.name)
    codes[column.seen] = inverse
    return labels, codes


def _whole(values: np.ndarray) -> np.ndarray:
    """Floats that are all whole numbers as integers: pandas turns 0/1 with gaps into floats."""
    if values.dtype.kind == "f" and np.isfinite(values).all() and (np.abs(values) < 2**53).all():
        integers = values.astype(np.int64)
        if (integers == values).all():
            return integers
    return values


def _small_range(values: np.ndarray) -> bool:
    """Whether counting integers is cheaper than sorting them."""
    if not len(values):
        return False
    # Python's integers, since the distance between hashes of 64 bits does not fit into NumPy's.
    low, high = int(values.min()), int(values.max())
    return high - low < 4 * len(values) + 1024 and high <= np.iinfo(np.int64).max


def _factorize_small_range(values: np.ndarray) -> tuple[list[Label], np.ndarray]:
    """Integers close together, by counting instead of sorting."""
    low = int(values.min())
    shifted = values.astype(np.int64) - low
    present = np.bincount(shifted) > 0
    rank = np.cumsum(present) - 1
    return list((np.flatnonzero(present) + low).tolist()), rank[shifted]


def _factorize_objects(values: np.ndarray, name: str) -> tuple[list[Label], np.ndarray]:
    index: dict[Label, int] = {}
    met = np.fromiter(
        (index.setdefault(_label(v, name), len(index)) for v in values), dtype=np.int64, count=len(values)
    )
    labels: list[Label] = sorted(index, key=_label_order)
    if all(isinstance(v, float) and v.is_integer() for v in labels):
        labels = [int(v) for v in labels]
    rank = np.empty(len(index), dtype=np.int64)
    rank[[index[v] for v in labels]] = np.arange(len(labels))
    return labels, rank[met] if len(met) else met


def _label_order(label: Label) -> tuple[bool, Label]:
    """Numbers before words, so that a column that mixes them still has one order."""
    return isinstance(label, str), label


def _label(value: Any, name: str) -> Label:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (str, int, float, bool)):
        if isinstance(value, float) and not np.isfinite(value):
            raise DataError(f"Column {name!r} holds infinity: replace it by a number or a gap.")
        return value
    if isinstance(value, dict):
        raise DataError(f"Column {name!r} holds dict values: argument must be a string or a number as a category.")
    raise DataError(
        f"Column {name!r} holds a {type(value).__name__}; categories are strings, numbers or booleans. "
        f"Convert it first, for instance with astype(str)."
    )


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
    extra = sorted({_label(v, name) for v in known} - set(labels), key=_label_order)
    if not extra:
        return labels, totals
    merged = sorted(labels + extra, key=_label_order)
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


def as_numbers(column: RawColumn) -> np.ndarray:
    """The seen values of a numeric column as floats."""
    try:
        values = column.values.astype(policy.FLOAT)
    except (TypeError, ValueError):
        raise DataError(
            f"Column {column.name!r} is read as numeric but holds text: argument must be a string or a number that "
            "converts. List the numeric columns yourself with numeric=[...]."
        ) from None
    if not np.isfinite(values).all():
        raise DataError(f"Observed column {column.name!r} holds infinity: replace it by a number or a gap.")
    return values


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
