"""Labeled sequences: tokens that are dictionaries, lists of strings, rows of arrays or of one frame; CoNLL files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsefield.data.frame_building import Frame, make_frame
from sparsefield.data.frames import Source, as_source
from sparsefield.data.labels import as_label, is_missing, is_valid_text
from sparsefield.data.sparse_matrix import SparseMatrix, cumulate
from sparsefield.errors import DataError
from sparsefield.options import number

DOCUMENT_START = "-DOCSTART-"
COMMENT = re.compile(r"# |#[^\t]*$|\d+[-.]\d+\t"), re.compile(r"# *\S+ = |# *(newdoc|newpar)\b")
"""How lines begin that are no tokens: with tabs, comments, CoNLL-U's ranges such as 1-2 and empty nodes such as 1.1;
with blanks, only comments of CoNLL-U, since # may be a token."""
LINE_END = re.compile(r"\r\n|\n|\r")
# str.splitlines would also divide lines at characters that tokens may have, such as U+2028.
SHOWN_LINES = 3
FINITE = number(-np.inf)


@dataclass(frozen=True)
class ReadSequences:
    """Sequences of any form as a table of tokens."""

    table: SparseMatrix
    numbers: Mapping[str, int]
    """The number of each attribute."""
    rows: np.ndarray | None = None
    """(tokens,): the row of the frame that each token is; None where the input was no frame."""
    kind: str = "array"
    """The kind of frames to answer with."""

    def arrange(self, values: np.ndarray) -> list[np.ndarray] | np.ndarray:
        """Return values of tokens as one array per sequence, or in the order of the rows of the frame."""
        if self.rows is None:
            return self.table.split(values)
        arranged = np.empty_like(values)
        arranged[self.rows] = values
        return arranged


def read_sequences(
    X: Any,
    known: Mapping[str, int] | None = None,
    n_attributes: int = 0,
    sequence: str | None = None,
    label_column: str | None = None,
) -> ReadSequences:
    """Return sequences as a table of tokens.

    Attributes other than the ``known`` ones, whose numbers are below ``n_attributes``, are left out; all are numbered
    where none are given. Of a frame, ``sequence`` names the column of sequences, and ``label_column`` that of labels.
    """
    order, places, kind = None, None, "array"
    if is_frame(X):
        source = as_source(X)
        kind = source.kind
        lengths, order = _frame_order(source, sequence)
        columns = [name for name in source.names if name not in (sequence, label_column)]
        counts, names, places, values = _frame_entries(source, columns, order)
    elif sequence is not None:
        raise DataError("sequence= names a column of a frame, and X is no frame: leave it out.")
    elif not isinstance(X, (list, tuple)) or not len(X):
        problem = "has no sequences" if isinstance(X, (list, tuple)) else f"is a {type(X).__name__}"
        raise DataError(f"X {problem}: pass a list of sequences, or a frame and sequence=.")
    else:
        wrong = [s for s, part in enumerate(X) if not isinstance(part, (list, tuple, np.ndarray))]
        if wrong:
            what = f"X[{wrong[0]}] is a {type(X[wrong[0]]).__name__}"
            raise DataError(f"{what}; a sequence is a list of tokens, dictionaries or lists of strings, or an array.")
        lengths = np.array([len(part) for part in X], dtype=np.int64)
        if all(isinstance(part, np.ndarray) for part in X):
            matrix = _stack_arrays(X)
            names, places = [f"x{k}" for k in range(matrix.shape[1])], matrix.indices
            counts, values = np.diff(matrix.indptr), matrix.data
        else:
            counts, names, values = _token_entries(list(chain.from_iterable(X)), lengths)
    if known is None:
        known = {name: k for k, name in enumerate(dict.fromkeys(names))}
        if wrong := [name for name in known if not is_valid_text(name)]:
            raise DataError(f"X has the attribute {wrong[0][:40]!r}, which is no valid Unicode: correct it.")
        n_attributes = len(known)
    numbers = np.fromiter(map(known.get, names, repeat(-1)), dtype=np.int32, count=len(names))
    numbers = numbers if places is None else numbers[places]
    tokens, there = cumulate(counts), numbers >= 0
    if not there.all():
        tokens, numbers = cumulate(there)[tokens], numbers[there]
        values = values[there] if len(values) else values
    if len(values) and (values == 1.0).all():
        values = np.empty(0)
    return ReadSequences(SparseMatrix(tokens, numbers, values, n_attributes, cumulate(lengths)), known, order, kind)


def is_frame(X: Any) -> bool:
    """Return whether X is one table with named columns."""
    return hasattr(X, "columns")


def _token_entries(tokens: list[Any], lengths: np.ndarray) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Return how many attributes each token has, their names, and their values; no values where all are 1."""
    kind = dict if tokens and isinstance(tokens[0], dict) else (list, tuple)
    if not all(issubclass(other, kind) for other in set(map(type, tokens))):
        t = next(t for t, token in enumerate(tokens) if not isinstance(token, kind))
        what = f"{_place(lengths, t)} is a {type(tokens[t]).__name__}"
        raise DataError(f"{what}; tokens are all dictionaries, or all lists of strings.")
    counts = np.fromiter(map(len, tokens), dtype=np.int64, count=len(tokens))
    names, values = list(chain.from_iterable(tokens)), np.empty(0)
    valid = all(issubclass(other, str) for other in set(map(type, names)))
    if kind is dict and valid:
        cells = list(chain.from_iterable(token.values() for token in tokens))
        try:
            values = np.array([1.0 if isinstance(value, str) else value for value in cells], dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            valid = False
        valid = valid and values.ndim == 1 and bool(np.isfinite(values).all())
        names = [f"{k}={value}" if isinstance(value, str) else k for k, value in zip(names, cells, strict=True)]
    if not valid:
        _refuse_attributes(tokens, lengths)
    return counts, names, values


def _refuse_attributes(tokens: list[Any], lengths: np.ndarray) -> None:
    """Raise an error about the first token with an attribute that cannot be used."""
    for t, token in enumerate(tokens):
        for name, value in token.items() if isinstance(token, dict) else zip(token, repeat(1.0)):
            if not isinstance(name, str):
                raise DataError(f"{_place(lengths, t)} has the attribute {name!r}; attributes are strings.")
            if not isinstance(value, (str, bool, np.bool_)) and not FINITE.accepts(value):
                raise DataError(
                    f"{_place(lengths, t)} has {name!r}: {value!r}; values are strings, finite numbers, True or False: "
                    "leave out what is missing."
                )


def _place(lengths: np.ndarray, token: int) -> str:
    """Return the place of a token in X, for messages."""
    s = int(np.searchsorted(np.cumsum(lengths), token, side="right"))
    return f"X[{s}][{token - int(lengths[:s].sum())}]"


def _stack_arrays(arrays: Sequence[np.ndarray]) -> Any:
    """Return arrays (tokens, attributes) as one sparse matrix."""
    for s, part in enumerate(arrays):
        if part.ndim != 2 or part.dtype.kind not in "biuf" or not np.isfinite(part).all():
            what = f"shape {part.shape}, {part.dtype}"
            raise DataError(f"X[{s}] is not an array (tokens, attributes) of finite numbers: {what}.")
        if part.shape[1] != arrays[0].shape[1]:
            raise DataError(f"X[{s}] has {part.shape[1]} attributes, and X[0] has {arrays[0].shape[1]}.")
    return sp.vstack([sp.csr_array(part) for part in arrays], format="csr", dtype=np.float64)


def _frame_order(source: Source, sequence: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths of the sequences of a frame, in order of their first rows, and the row of each token."""
    if not isinstance(sequence, str) or sequence not in source.names:
        remedy = "pass sequence=, the column that names the sequence of each row"
        problem = f"there is no column {sequence!r}" if isinstance(sequence, str) else remedy
        raise DataError(f"X is a frame: {problem}; its columns are {', '.join(source.names[:20])}.")
    column = source.column(sequence)
    if not column.present.all():
        row = int(np.flatnonzero(~column.present)[0])
        raise DataError(f"Column {sequence!r} has no value in row {row}: every row belongs to a sequence.")
    _, first, groups = np.unique(column.values, return_index=True, return_inverse=True)
    return np.bincount(groups)[np.argsort(first)], np.argsort(first[groups], kind="stable")


def _frame_entries(
    source: Source, columns: Sequence[str], order: np.ndarray
) -> tuple[np.ndarray, list[str], np.ndarray, np.ndarray]:
    """Return entries per token, names of attributes, and places in them and values of entries; missing cells have none.

    A number is a value of the attribute of its column; other cells make the attribute "column=value".
    """
    rank = np.empty(source.n_rows, dtype=np.int64)
    rank[order] = np.arange(source.n_rows)
    names: list[str] = []
    empty = np.empty(0, dtype=np.int64)
    tokens, places, values = [empty], [empty], [np.empty(0)]
    for name in columns:
        column = source.column(name)
        cells = column.values
        tokens.append(rank[np.flatnonzero(column.present)])
        if cells.dtype.kind in "biuf" and not column.categorical:
            values.append(cells.astype(np.float64))
            if not np.isfinite(values[-1]).all():
                raise DataError(f"Column {name!r} has infinite values: replace them.")
            places.append(np.full(len(cells), len(names)))
            names.append(name)
        else:
            number = {value: k for k, value in enumerate(dict.fromkeys(cells.tolist()), len(names))}
            places.append(np.array([number[value] for value in cells.tolist()], dtype=np.int64))
            values.append(np.ones(len(cells)))
            names += [f"{name}={value}" for value in number]
    token = np.concatenate(tokens)
    sorting = np.argsort(token, kind="stable")
    counts = np.bincount(token, minlength=source.n_rows)
    return counts, names, np.concatenate(places)[sorting], np.concatenate(values)[sorting]


def read_labels(y: Any, read: ReadSequences, X: Any = None) -> list[Any]:
    """Return the label of each token, None where it is not known, and check that they match the sequences.

    ``y`` has a list or array of labels per sequence; for a frame ``X`` the name of its column, or a label per row.
    """
    if read.rows is not None:
        labels = _frame_labels(y, X)
        if len(labels) != len(read.rows):
            raise DataError(f"y has {len(labels)} labels, and X has {len(read.rows)} rows.")
        labels = [labels[row] for row in read.rows]
    else:
        if isinstance(y, (str, bytes, Mapping)) or not hasattr(y, "__len__"):
            raise DataError("y must have a list of labels for each sequence.")
        lengths = np.diff(read.table.sequences)
        if len(y) != len(lengths):
            raise DataError(f"y has {len(y)} sequences, and X has {len(lengths)}.")
        sizes = [len(part) if hasattr(part, "__len__") else -1 for part in y]
        wrong = np.flatnonzero(np.array(sizes) != lengths)
        if len(wrong):
            s, more = wrong[0], f" ({len(wrong)} sequences do not match)" if len(wrong) > 1 else ""
            size = sizes[s] if sizes[s] >= 0 else "no"
            raise DataError(f"y[{s}] has {size} labels, and X[{s}] has {lengths[s]} tokens{more}.")
        labels = list(chain.from_iterable(part.tolist() if hasattr(part, "tolist") else part for part in y))
    try:
        distinct = set(labels)
    except TypeError:  # unhashable values, which are no labels
        distinct = labels
    valid = {label: None if is_missing(label) else as_label(label, "y") for label in distinct}
    return [valid[label] for label in labels]


def _frame_labels(y: Any, X: Any) -> list[Any]:
    if not isinstance(y, str):
        return y.to_list() if hasattr(y, "to_list") else list(np.asarray(y, dtype=object).ravel())
    source = as_source(X)
    if y not in source.names:
        raise DataError(f"X has no column {y!r}: y names the column of labels.")
    column = source.column(y)
    labels = np.full(source.n_rows, None, dtype=object)
    labels[column.present] = column.values.tolist()
    return labels.tolist()


def read_conll(path: str | os.PathLike[str], columns: Sequence[str] | None = None, *, encoding: str = "utf-8") -> Frame:
    """Read a CoNLL file: a token per line, columns between tabs, or else blanks, an empty line between sentences.

    The frame of polars has a row per token, with the number of its sentence. Left out are lines that begin with
    -DOCSTART-, and comments: with tabs, lines that begin with "# ", or with "#" and have no tab, and CoNLL-U's ranges
    such as 1-2 and empty nodes; with blanks, lines such as "# text = ...".

    ``columns`` are the names of the columns, in order; "0", "1" and so on when left out.

    Examples
    --------
    >>> tokens = read_conll("train.txt", columns=("word", "tag", "chunk"))  # doctest: +SKIP
    >>> chain = ChainCRF().fit(tokens, "chunk", sequence="sentence")  # doctest: +SKIP
    """
    try:
        text = Path(path).read_bytes().decode(encoding).removeprefix("\ufeff")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    except (UnicodeDecodeError, LookupError) as error:
        raise DataError(f"{path}: not {encoding} text ({error}): give its encoding.") from None
    tabs = "\t" in text
    tokens, places, sentences, new = [], [], [], True
    for place, line in enumerate(LINE_END.split(text), 1):
        if not line.strip(" \t") or line.startswith(DOCUMENT_START):
            new = True
        elif not COMMENT[not tabs].match(line):
            tokens.append(line.split("\t") if tabs else re.findall("[^ ]+", line))
            places.append(place)
            sentences.append((sentences[-1] if sentences else 0) + new)
            new = False
    if not tokens:
        raise DataError(f"{path}: there is no token in this file.")
    names = [str(k) for k in range(len(tokens[0]))] if columns is None else list(columns)
    if len({*names, "sentence"}) <= len(names):
        raise DataError(f"{path}: columns= names a column twice, or has a sentence, which is counted here.")
    wrong = [(line, len(token)) for line, token in zip(places, tokens, strict=True) if len(token) != len(names)]
    if wrong:
        shown = "; ".join(f"line {line} has {count} columns" for line, count in wrong[:SHOWN_LINES])
        more = f" (and {len(wrong) - SHOWN_LINES} more lines)" if len(wrong) > SHOWN_LINES else ""
        raise DataError(f"{path}: {len(names)} columns are expected, and {shown}{more}.")
    cells = zip(names, zip(*tokens, strict=True), strict=True)
    return make_frame({"sentence": sentences} | {name: list(part) for name, part in cells}, "polars")
