"""Sequences of tokens with attributes: dictionaries, lists of strings, arrays, or one frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress, repeat
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsefield.data.frames import Source, as_source
from sparsefield.data.sparse_checks import as_checked_csr
from sparsefield.data.token_table import TokenTable, cumulate
from sparsefield.errors import DataError

NOTHING: dict[str, int] = {}


@dataclass(frozen=True)
class Vocabulary:
    """The number of each attribute that matters."""

    numbers: Mapping[str, int]
    size: int
    """Numbers are below it."""

    @classmethod
    def of(cls, names: Iterable[str]) -> Vocabulary:
        """Number attributes in the order of their first occurrence."""
        numbers = {name: k for k, name in enumerate(dict.fromkeys(names))}
        return cls(numbers, len(numbers))

    @cached_property
    def by_key(self) -> dict[str, dict[str, int]]:
        """{key: {value: number}} of the attributes "key=value", so that tokens that are dictionaries need no names.

        A name with several equals signs is there for each of them, since either part may have one.

        Examples
        --------
        >>> Vocabulary.of(["word=a", "x", "word=a=b"]).by_key
        {'word': {'a': 0, 'a=b': 2}, 'word=a': {'b': 2}}
        """
        found: dict[str, dict[str, int]] = {}
        for name, number in self.numbers.items():
            place = name.find("=")
            while place >= 0:
                found.setdefault(name[:place], {})[name[place + 1 :]] = number
                place = name.find("=", place + 1)
        return found


@dataclass(frozen=True)
class ReadSequences:
    """Sequences of any form as a table of tokens."""

    table: TokenTable
    vocabulary: Vocabulary
    rows: np.ndarray | None = None
    """(tokens,): the row of the frame that each token is; None where the input was no frame."""
    kind: str = "array"
    """The kind of frames to answer with."""

    def arrange(self, values: np.ndarray) -> list[np.ndarray] | np.ndarray:
        """Return values of tokens as one array per sequence, or in the order of the rows of the frame."""
        if self.rows is None:
            return self.table.split(values)
        found = np.empty_like(values)
        found[self.rows] = values
        return found


@dataclass(frozen=True)
class _Entries:
    """Attributes of tokens, one after another."""

    counts: np.ndarray
    """(tokens,): how many entries each token has."""
    names: Sequence[str]
    """Names of attributes: one per entry, or, with ``numbers``, one per attribute."""
    values: np.ndarray
    """(entries,), or empty where all are 1."""
    numbers: np.ndarray | None = None
    """(entries,): numbers of the attributes."""
    known: bool = False
    """Whether the numbers are those of the vocabulary, with -1 for attributes that it does not have."""


def read_sequences(X: Any, known: Vocabulary | None = None, sequence: str | None = None) -> ReadSequences:
    """Return sequences as a table of tokens.

    Parameters
    ----------
    X : sequences of dictionaries or of lists of strings, of arrays (tokens, attributes), or one frame
    known : the numbers of the attributes of a fit; others are left out. Without it, all attributes are numbered.
    sequence : the column of a frame that names the sequence of each row
    """
    if is_frame(X):
        return _read_frame(as_source(X), known, sequence)
    if sequence is not None:
        raise DataError("sequence= names a column of a frame, and X is no frame: leave it out.")
    sequences = _as_list(X)
    lengths = np.array([_length(tokens) for tokens in sequences], dtype=np.int64)
    first = sequences[int(np.argmax(lengths > 0))]
    if sp.issparse(first) or isinstance(first, np.ndarray):
        entries = _matrix_entries(sequences)
    else:
        entries = _token_entries(list(chain.from_iterable(sequences)), lengths, known)
    return _number_entries(lengths, entries, known)


def is_frame(X: Any) -> bool:
    """Return whether X is one table with named columns."""
    return hasattr(X, "columns") and not sp.issparse(X)


def _as_list(X: Any) -> list[Any]:
    if isinstance(X, (str, bytes, Mapping)) or sp.issparse(X) or not isinstance(X, Iterable):
        raise DataError(f"X is a {type(X).__name__}; pass a list of sequences, or a frame and sequence=.")
    sequences = list(X)
    if not sequences:
        raise DataError("X has no sequences: pass at least one.")
    if set(map(type, sequences)) <= {list, tuple}:
        return sequences
    for s, tokens in enumerate(sequences):
        wrong = isinstance(tokens, (str, bytes, Mapping)) or not (hasattr(tokens, "__len__") or sp.issparse(tokens))
        if wrong:
            raise DataError(
                f"X[{s}] is a {type(tokens).__name__}; a sequence is a list of tokens, each a "
                "dictionary or a list of strings, or an array."
            )
    return sequences


def _length(tokens: Any) -> int:
    return len(tokens) if type(tokens) is list else tokens.shape[0] if sp.issparse(tokens) else len(tokens)


def _place(lengths: np.ndarray, token: int) -> str:
    """Return the place of a token in X, for messages."""
    s = int(np.searchsorted(np.cumsum(lengths), token, side="right"))
    return f"X[{s}][{token - int(lengths[:s].sum())}]"


def _token_entries(tokens: list[Any], lengths: np.ndarray, known: Vocabulary | None) -> _Entries:
    kinds = set(map(type, tokens))
    if all(issubclass(kind, Mapping) for kind in kinds):
        found = None if known is None else _known_entries(tokens, known)
        return _mapping_entries(tokens, lengths) if found is None else found
    if not all(issubclass(kind, (list, tuple, set, frozenset)) for kind in kinds):
        t, token = next((t, one) for t, one in enumerate(tokens) if not isinstance(one, (list, tuple, set, frozenset)))
        raise DataError(
            f"{_place(lengths, t)} is a {type(token).__name__}; tokens are all dictionaries, or all lists of strings."
        )
    counts = np.fromiter(map(len, tokens), dtype=np.int64, count=len(tokens))
    return _Entries(counts, list(chain.from_iterable(tokens)), np.empty(0))


def _keys_and_values(tokens: list[Mapping[str, Any]]) -> tuple[np.ndarray, list[Any], list[Any]]:
    counts = np.fromiter(map(len, tokens), dtype=np.int64, count=len(tokens))
    return counts, list(chain.from_iterable(tokens)), list(chain.from_iterable(token.values() for token in tokens))


def _known_entries(tokens: list[Mapping[str, Any]], known: Vocabulary) -> _Entries | None:
    """Return the attributes of dictionaries by keys and values, without making their names.

    Only entries that are not found can be anything but strings; None if some of them are no plain numbers.
    """
    counts, keys, values = _keys_and_values(tokens)
    tables = map(known.by_key.get, keys, repeat(NOTHING))
    try:
        numbers = np.fromiter(map(dict.get, tables, values, repeat(-1)), dtype=np.int32, count=len(keys))
    except TypeError:  # a value that cannot be hashed, such as a list
        return None
    absent = numbers < 0
    if not _are_strings(keys, absent):
        return None
    if _are_strings(values, absent):
        return _Entries(counts, (), np.empty(0), numbers, known=True)
    others = [k for k in np.flatnonzero(absent).tolist() if not isinstance(values[k], str)]
    if not {type(values[k]) for k in others} <= {bool, int, float}:
        return None
    sizes = np.ones(len(keys))
    sizes[others] = [values[k] for k in others]
    numbers[others] = [known.numbers.get(keys[k], -1) for k in others]
    return _Entries(counts, (), sizes, numbers, known=True) if np.isfinite(sizes).all() else None


def _mapping_entries(tokens: list[Mapping[str, Any]], lengths: np.ndarray) -> _Entries:
    """Return the attributes of dictionaries; in the common case of strings and flags without a loop over entries."""
    counts, keys, values = _keys_and_values(tokens)
    kinds = set(map(type, values))
    if set(map(type, keys)) <= {str} and kinds <= {str, bool, int, float}:
        if kinds <= {str}:
            return _Entries(counts, [f"{key}={value}" for key, value in zip(keys, values, strict=True)], np.empty(0))
        names = [f"{k}={v}" if type(v) is str else k for k, v in zip(keys, values, strict=True)]
        numbers = np.array([1.0 if type(v) is str else v for v in values], dtype=np.float64)
        if np.isfinite(numbers).all():
            return _Entries(counts, names, np.empty(0) if (numbers == 1.0).all() else numbers)
    parts = [list(_flatten(token, "", lambda t=t: _place(lengths, t))) for t, token in enumerate(tokens)]
    pairs = list(chain.from_iterable(parts))
    counts = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
    return _Entries(counts, [name for name, _ in pairs], np.array([value for _, value in pairs], dtype=np.float64))


def _flatten(token: Mapping[Any, Any], prefix: str, place: Any) -> Iterator[tuple[str, float]]:
    """Yield the attributes of a dictionary; names within lists and dictionaries get its key as a prefix.

    python-crfsuite does the same, but writes "key:value" where this has "key=value".
    """
    for key, value in token.items():
        if not isinstance(key, str):
            raise DataError(f"{place()} has the key {key!r}; keys of attributes are strings.")
        name = prefix + key
        if isinstance(value, str):
            yield f"{name}={value}", 1.0
        elif isinstance(value, (Real, np.bool_)) and np.isfinite(float(value)):
            yield name, float(value)
        elif isinstance(value, Mapping):
            yield from _flatten(value, f"{name}:", place)
        elif isinstance(value, (list, tuple, set, frozenset)) and all(isinstance(part, str) for part in value):
            yield from ((f"{name}:{part}", 1.0) for part in value)
        else:
            raise DataError(
                f"{place()} has {name!r}: {value!r}; values are strings, finite numbers, True or False, or "
                "lists of strings: leave out what is missing."
            )


def _matrix_entries(sequences: list[Any]) -> _Entries:
    parts: list[Any] = []
    for s, tokens in enumerate(sequences):
        part: Any = tokens if sp.issparse(tokens) else np.asarray(tokens)
        if part.ndim != 2 or part.dtype.kind not in "biuf":
            raise DataError(f"X[{s}] is not a numeric array (tokens, attributes): shape {part.shape}, {part.dtype}.")
        if parts and part.shape[1] != parts[0].shape[1]:
            raise DataError(f"X[{s}] has {part.shape[1]} attributes, and X[0] has {parts[0].shape[1]}.")
        parts.append(as_checked_csr(part, f"X[{s}]") if sp.issparse(part) else sp.csr_array(part))
    matrix: Any = sp.vstack(parts, format="csr", dtype=np.float64)
    if not np.isfinite(matrix.data).all():
        raise DataError("X has values that are NaN or infinite: replace them, or leave the attributes out.")
    names = [f"x{k}" for k in range(matrix.shape[1])]
    return _Entries(np.diff(matrix.indptr).astype(np.int64), names, matrix.data, matrix.indices)


def _number_entries(
    lengths: np.ndarray,
    entries: _Entries,
    known: Vocabulary | None,
    rows: np.ndarray | None = None,
    kind: str = "array",
) -> ReadSequences:
    vocabulary = _new_vocabulary(lengths, entries) if known is None else known
    numbers = entries.numbers
    if numbers is None:
        numbers = _look_up(lengths, entries, vocabulary)
    elif known is not None and not entries.known:
        numbers = np.array([known.numbers.get(name, -1) for name in entries.names], dtype=np.int32)[numbers]
    tokens, values = cumulate(entries.counts), entries.values
    kept = numbers >= 0
    if not kept.all():
        tokens, numbers = cumulate(kept)[tokens], numbers[kept]
        values = values[kept] if len(values) else values
    if len(values) and (values == 1.0).all():
        values = np.empty(0)
    table = TokenTable(cumulate(lengths), tokens, numbers.astype(np.int32), values, vocabulary.size)
    return ReadSequences(table, vocabulary, rows, kind)


def _new_vocabulary(lengths: np.ndarray, entries: _Entries) -> Vocabulary:
    """Number all attributes, in the order of their first occurrence."""
    try:
        found = Vocabulary.of(entries.names)
    except TypeError:  # a name that cannot be hashed, such as a list
        _refuse_other_names(lengths, entries)
        raise
    if not all(isinstance(name, str) for name in found.numbers):
        _refuse_other_names(lengths, entries)
    return found


def _look_up(lengths: np.ndarray, entries: _Entries, vocabulary: Vocabulary) -> np.ndarray:
    """Return the number of the attribute of each entry, -1 where it has none.

    Only names without a number can be no strings, so that all others need no check.
    """
    names = entries.names
    try:
        numbers = np.fromiter(map(vocabulary.numbers.get, names, repeat(-1)), dtype=np.int32, count=len(names))
    except TypeError:
        _refuse_other_names(lengths, entries)
        raise
    if not _are_strings(names, numbers < 0):
        _refuse_other_names(lengths, entries)
    return numbers


def _are_strings(values: Sequence[Any], chosen: np.ndarray) -> bool:
    """Return whether all chosen values are strings, without a loop over them in Python."""
    return all(issubclass(kind, str) for kind in set(map(type, compress(values, chosen.tolist()))))


def _refuse_other_names(lengths: np.ndarray, entries: _Entries) -> None:
    """Refuse the first attribute that is no string."""
    for k, name in enumerate(entries.names):
        if not isinstance(name, str):
            t = int(np.searchsorted(np.cumsum(entries.counts), k, side="right"))
            raise DataError(f"{_place(lengths, t)} has the attribute {name!r}; attributes are strings.")


def _read_frame(source: Source, known: Vocabulary | None, sequence: str | None) -> ReadSequences:
    if sequence is None or sequence not in source.names:
        wanted = (
            "pass sequence=, the column that names the sequence of each row"
            if sequence is None
            else (f"there is no column {sequence!r}")
        )
        raise DataError(f"X is a frame: {wanted}; its columns are {', '.join(source.names[:20])}.")
    column = source.column(sequence)
    if not column.present.all():
        row = int(np.flatnonzero(~column.present)[0])
        raise DataError(f"Column {sequence!r} has no value in row {row}: every row belongs to a sequence.")
    _, first, groups = np.unique(column.values, return_index=True, return_inverse=True)
    order = np.argsort(first[groups], kind="stable")
    lengths = np.bincount(groups)[np.argsort(first)]
    parts = [_column_entries(source, name) for name in source.names if name != sequence]
    starts = np.cumsum([0, *(len(names) for names, *_ in parts)])
    names = [name for part in parts for name in part[0]]
    places = np.concatenate([np.empty(0, dtype=np.int64), *(part[1] for part in parts)])
    numbers = np.concatenate(
        [np.empty(0, dtype=np.int64), *(part[2] + start for part, start in zip(parts, starts, strict=False))]
    )
    values = np.concatenate([np.empty(0), *(part[3] for part in parts)])
    rank = np.empty(source.n_rows, dtype=np.int64)
    rank[order] = np.arange(source.n_rows)
    sorting = np.argsort(rank[places], kind="stable")
    counts = np.bincount(rank[places], minlength=source.n_rows)
    entries = _Entries(counts, names, values[sorting], numbers[sorting])
    return _number_entries(lengths, entries, known, order, source.kind)


def _column_entries(source: Source, name: str) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
    """Return names of attributes, and rows, numbers and values of entries; missing cells have none."""
    column = source.column(name)
    rows = np.flatnonzero(column.present)
    if column.values.dtype.kind in "biuf" and not column.categorical:
        values = column.values.astype(np.float64)
        if not np.isfinite(values).all():
            raise DataError(f"Column {name!r} has infinite values: replace them.")
        return [name], rows, np.zeros(len(rows), dtype=np.int64), values
    texts = {value: k for k, value in enumerate(dict.fromkeys(column.values.tolist()))}
    numbers = np.fromiter((texts[value] for value in column.values.tolist()), dtype=np.int64, count=len(rows))
    return [f"{name}={value}" for value in texts], rows, numbers, np.ones(len(rows))
