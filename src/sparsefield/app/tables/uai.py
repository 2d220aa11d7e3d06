"""UAI files, the text format of the UAI inference competitions.

A file has the word MARKOV or BAYES, the number of variables, the number of states of each, the number of factors, the
variables of each factor, and the tables, in which the last variable changes fastest. It has no names: variables are
x0, x1, ... and states 0, 1, ... unless a mapping of names is given.
"""

from __future__ import annotations

import json
import math
import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparsefield.app.tables.field_factors import FieldFactors, moebius_transform, to_factors
from sparsefield.data.layout import Layout
from sparsefield.data.schema import Label, Schema
from sparsefield.errors import DataError, ModelFileError
from sparsefield.estimators.field_estimator import FieldEstimator, fitted_field
from sparsefield.model.atomic_write import write_atomically
from sparsefield.model.field import Field, pad_features

Place = str | os.PathLike[str]
Names = Mapping[str, list[Label]]

LOG_ZERO = -50.0
"""The substitute for log 0, relative to the smallest nonzero entry of the table, because a field gives every assignment
a positive probability. exp(-50) is 2e-22, below the rounding error of a probability."""

ROUNDING = 1e-12
"""Weights below this fraction of the largest logarithm of their table are rounding errors."""

MAX_LOG = 700.0
"""The largest logarithm whose exponential is finite."""


def write_uai(
    field: FieldEstimator | Field, path: Place, *, given: Mapping[str, Any] | None = None, names: Place | None = None
) -> dict[str, list[Label]]:
    """Write the exact distribution of a field over one table as a UAI file.

    There is a factor for each variable and for each set of variables that share features. Entries of reference states
    are 1, so without ``given`` the partition function of the file is that of the field. The states of a number are its
    levels, which are named by their mean values.

    Parameters
    ----------
    field : fitted estimator, or its field
    path : path of the file, which is replaced atomically
    given : {column: state or number}
        Values of observed columns, and optionally of others; the distribution is conditioned on them.
    names : path, optional
        Path of a JSON file for the names, which the UAI format cannot hold.

    Returns
    -------
    dict of column to its states
        In the order in which the file numbers them; `read_uai` takes it back.

    Examples
    --------
    >>> import tempfile
    >>> from sparsefield.app.datasets import make_markov_field
    >>> field = make_markov_field(3, 1, neighbors=2.0, burn_in=1).field.field_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     names = write_uai(field, folder + "/net.uai")
    ...     same = read_uai(folder + "/net.uai", names=names)
    >>> names
    {'x0': [0, 1], 'x1': [0, 1], 'x2': [0, 1]}
    >>> bool(np.allclose(same.weights, field.weights))
    True
    """
    found = to_factors(fitted_field(field), given)
    write_atomically(path, _as_text(found).encode("ascii"))
    if names is not None:
        write_atomically(names, (json.dumps(found.names, ensure_ascii=False, indent=1) + "\n").encode())
    return found.names


def read_uai(path: Place, *, names: Names | Place | None = None) -> Field:
    """Read a UAI file with factors of any order as a field with weights relative to state 0.

    ``MarkovField.from_field(read_uai(path))`` is an estimator of that network.

    Tables of BAYES files are treated as factors. Factors over the same variables are added, and constants are dropped.
    A zero is replaced by exp(-50) times the smallest nonzero entry of its table (`LOG_ZERO`), and a warning gives the
    number of zeros. Lines that begin with ``c`` or ``#`` are comments.

    Parameters
    ----------
    path : path of the file
    names : {column: states} or the path of a JSON file that `write_uai` wrote
        With None, columns are x0, x1, ... and states are 0, 1, ...

    Raises
    ------
    ModelFileError
        If the file is not a complete UAI file; the message names the error.
    """
    model = parse_uai(path)
    schema = _schema(model, _names(names), path)
    parts, zeros = _weights(model, schema.offsets)
    if zeros:
        warnings.warn(
            f"{path}: {zeros:,} table entries are 0; each is replaced by exp({LOG_ZERO:g}) times the smallest nonzero "
            "entry of its table.",
            UserWarning,
            stacklevel=2,
        )
    biases = np.zeros(schema.n_target_columns)
    pairs, weights = np.empty((0, 2), dtype=np.int64), np.empty(0)
    higher = []
    for order, found in sorted(parts.items()):
        columns, sums = _sum_by_feature(found)
        if order == 1:
            biases[columns[:, 0]] = sums
        elif order == 2:
            pairs, weights = columns, sums
        else:
            higher.append((columns, sums))
    layout = Layout.single(schema)
    if not higher:
        return Field(layout, biases, pairs, weights)
    widest = higher[-1][0].shape[1]
    conjunctions = np.concatenate([pad_features(columns, widest) for columns, _ in higher])
    return Field(layout, biases, pairs, weights, conjunctions, np.concatenate([sums for _, sums in higher]))


def _as_text(found: FieldFactors) -> str:
    lines = ["MARKOV", str(len(found.variables)), " ".join(str(len(v.states)) for v in found.variables)]
    lines.append(str(len(found.factors)))
    lines += [" ".join(map(str, (len(factor.scope), *factor.scope))) for factor in found.factors]
    for factor in found.factors:
        if np.abs(factor.logs).max() > MAX_LOG:
            scope = ", ".join(found.variables[k].name for k in factor.scope)
            raise DataError(
                f"The weights of {scope} add up to {factor.logs.flat[np.abs(factor.logs).argmax()]:.4g}, whose "
                "exponential is too large for a table."
            )
        numbers = np.exp(factor.logs)
        lines += ["", str(numbers.size)]
        lines += [" ".join(map(repr, row)) for row in numbers.reshape(-1, numbers.shape[-1]).tolist()]
    return "\n".join(lines) + "\n"


def _weights(model: UAIModel, offsets: np.ndarray) -> tuple[dict[int, list[tuple[np.ndarray, np.ndarray]]], int]:
    """Return {order: [(columns, ascending, and weights)]}, and the number of zeros in the tables."""
    parts: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
    zeros = 0
    alike: dict[tuple[int, ...], list[int]] = {}
    for k, table in enumerate(model.tables):
        if table.ndim:  # skip constants
            alike.setdefault(table.shape, []).append(k)
    for members in alike.values():
        logs, few = _logs(np.stack([model.tables[k] for k in members]))
        zeros += few
        weights = moebius_transform(logs, first=1)
        size = np.abs(logs).max(axis=tuple(range(1, logs.ndim)), keepdims=True)
        places = np.argwhere(np.abs(weights) > ROUNDING * np.maximum(1.0, size))
        found = weights[tuple(places.T)]
        scopes, states = np.array([model.scopes[k] for k in members])[places[:, 0]], places[:, 1:]
        columns = np.where(states > 0, offsets[scopes] + states - 1, offsets[-1])
        columns.sort(axis=1)  # reference states are last
        orders = (states > 0).sum(axis=1)
        for order in set(orders.tolist()) - {0}:
            mine = orders == order
            parts.setdefault(order, []).append((columns[mine, :order], found[mine]))
    return parts, zeros


def _logs(tables: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the logarithms of tables of one shape, and the number of their zeros."""
    off = tables == 0.0
    few = int(off.sum())
    if not few:
        return np.log(tables), 0
    least = np.where(off, np.inf, tables).min(axis=tuple(range(1, tables.ndim)), keepdims=True)
    return np.where(off, np.log(least) + LOG_ZERO, np.log(np.where(off, 1.0, tables))), few


def _sum_by_feature(found: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return each feature once, with the sum of its weights."""
    columns, weights = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.lexsort(columns.T[::-1])
    columns, weights = columns[order], weights[order]
    first = np.flatnonzero(np.concatenate([[True], (columns[1:] != columns[:-1]).any(axis=1)]))
    sums = np.add.reduceat(weights, first)
    return columns[first][sums != 0.0], sums[sums != 0.0]


def _schema(model: UAIModel, names: Names | None, path: Place) -> Schema:
    known = {f"x{k}": list(range(count)) for k, count in enumerate(model.states)} if names is None else names
    if tuple(len(states) for states in known.values()) != model.states:
        raise DataError(
            f"{path}: the names are for {len(known)} variables with {_shown([len(s) for s in known.values()])} "
            f"states, but the file has {len(model.states)} variables with {_shown(model.states)}."
        )
    return Schema.uniform(known)


def _names(names: Names | Place | None) -> Names | None:
    if names is None or isinstance(names, Mapping):
        return names
    try:
        known = json.loads(Path(names).read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{names}: this is not a JSON file ({error}).") from None
    except RecursionError:
        raise DataError(f"{names}: values are nested too deeply; a mapping of columns to states is expected.") from None
    if not isinstance(known, dict) or not all(
        isinstance(states, list)
        and all(isinstance(state, (str, int, float)) for state in states)
        and len(set(states)) == len(states)
        for states in known.values()
    ):
        raise DataError(f"{names}: this is not a mapping of columns to lists of distinct states.")
    return known


def _shown(counts: Any) -> str:
    return ", ".join(map(str, counts[:6])) + (", ..." if len(counts) > 6 else "")


MAX_LOOSE_STATES = 1_000_000
"""The most states of all variables, unless the file has more numbers: a short file must not allocate much memory."""

COMMENT = re.compile(r"^[ \t]*c.*$|#.*$", re.MULTILINE)


@dataclass(frozen=True)
class UAIModel:
    """The content of a UAI file: numbers of states, and the scope and table of each factor."""

    states: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    """The variables of each factor that have more than one state."""
    tables: tuple[np.ndarray, ...]


class TokenReader:
    """A reader of the whitespace-separated tokens of a text file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise ModelFileError(f"{self.path}: there is no such file.")
        try:
            text = self.path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise self.error("this is not a text file") from None
        if "#" in text or "c" in text:
            text = COMMENT.sub("", text)
        if "_" in text or not text.isascii():  # Python would accept 1_000 and digits of other scripts as numbers
            odd = next((word for word in text.split() if "_" in word or not word.isascii()), None)
            if odd is not None:  # others have only spaces that are not ASCII, such as U+2028 and U+0085
                raise self.error(f"{odd[:20]!r} is not a number")
        self.tokens = text.split()
        self.position = 0

    def error(self, what: str) -> ModelFileError:
        return ModelFileError(f"{self.path}: {what}.")

    @property
    def remaining(self) -> int:
        return len(self.tokens) - self.position

    def take(self, count: int, what: str) -> list[str]:
        """Return the next tokens."""
        if count > self.remaining:
            raise self.error(f"the file ends too early: {what}: {count:,} number(s) expected, {self.remaining:,} left")
        self.position += count
        return self.tokens[self.position - count : self.position]

    def integer(self, what: str) -> int:
        return self.integers(1, what)[0]

    def integers(self, count: int, what: str) -> list[int]:
        """Return the next tokens as nonnegative integers."""
        words = self.take(count, what)
        for word in words:
            if not (word.isascii() and word.isdecimal() and len(word) < 19):
                raise self.error(f"{what}: {word!r} is not a nonnegative integer")
        return [int(word) for word in words]

    def numbers(self, count: int, what: str) -> np.ndarray:
        """Return the next tokens as finite nonnegative numbers."""
        words = self.take(count, what)
        try:
            found = np.fromiter(map(float, words), dtype=float, count=count)
        except ValueError as error:
            raise self.error(f"{what}: {str(error).split(': ', 1)[1]} is not a finite nonnegative number") from None
        odd = ~(np.isfinite(found) & (found >= 0.0))
        if odd.any():
            raise self.error(f"{what}: {words[int(odd.argmax())]!r} is not a finite nonnegative number")
        return found


def parse_uai(path: str | os.PathLike[str]) -> UAIModel:
    """Parse a UAI file into a `UAIModel`; raise ModelFileError if it is malformed."""
    tokens = TokenReader(path)
    kind = tokens.take(1, "the kind of network")[0] if tokens.remaining else ""
    if kind.upper() not in ("MARKOV", "BAYES"):
        raise tokens.error(f"a UAI file must start with MARKOV or BAYES, not with {kind[:20]!r}")
    states = tokens.integers(tokens.integer("the number of variables"), "numbers of states")
    if 0 in states:
        raise tokens.error(f"variable {states.index(0)} has 0 states; it needs at least one")
    if sum(states) > max(MAX_LOOSE_STATES, len(tokens.tokens)):
        raise tokens.error(f"{sum(states):,} states in total, more than the tables of this file can cover")
    count = tokens.integer("the number of factors")
    if count > tokens.remaining:
        raise tokens.error(f"the file ends too early: {count:,} factors are declared")
    scopes = tuple(_scope(tokens, k, len(states)) for k in range(count))
    tables = tuple(_table(tokens, k, tuple(states[v] for v in scope), scope) for k, scope in enumerate(scopes))
    if tokens.remaining:
        raise tokens.error(
            f"{tokens.remaining:,} unexpected token(s) after the last table, from {tokens.tokens[tokens.position]!r}"
        )
    # A variable of one state has no columns, and numpy's arrays have at most 64 dimensions.
    varied = tuple(tuple(v for v in scope if states[v] > 1) for scope in scopes)
    shapes = [tuple(states[v] for v in scope) for scope in varied]
    tables = tuple(table.reshape(shape) for table, shape in zip(tables, shapes, strict=True))
    return UAIModel(tuple(states), varied, tables)


def _scope(tokens: TokenReader, k: int, n_variables: int) -> tuple[int, ...]:
    what = f"variables of factor {k}"
    scope = tuple(tokens.integers(tokens.integer(f"number of {what}"), what))
    if any(v >= n_variables for v in scope):
        raise tokens.error(f"factor {k} contains variable {max(scope)}, but there are {n_variables}, counted from 0")
    if len(set(scope)) < len(scope):
        raise tokens.error(f"factor {k} names a variable twice")
    return scope


def _table(tokens: TokenReader, k: int, shape: tuple[int, ...], scope: tuple[int, ...]) -> np.ndarray:
    """Read the numbers of a factor, (numbers,), after checking how many there are."""
    count, size = tokens.integer(f"size of table {k}"), math.prod(shape)
    if count != size:
        sides = " x ".join(map(str, shape))
        raise tokens.error(f"table {k} has {count:,} numbers, but its variables {scope} have {sides} = {size:,} states")
    table = tokens.numbers(count, f"table {k}")
    if not table.any():
        raise tokens.error(f"all entries of table {k} are 0, so no assignment has positive probability")
    return table
