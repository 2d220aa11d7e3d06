"""Labeled sequences: tokens that are dictionaries, lists of strings, rows of arrays or of one frame; CoNLL files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsefield.data.cell_values import is_missing
from sparsefield.data.frames import Source, as_source
from sparsefield.data.sparse_checks import as_checked_csr
from sparsefield.data.token_table import TokenTable, cumulate
from sparsefield.errors import DataError

DOCUMENT_START = "-DOCSTART-"
BLANKS = " \t"
COMMENT = "# "
PART_OF_TOKEN = re.compile(r"\d+[-.]\d+\t")
"""How lines of CoNLL-U begin that are no tokens: ranges such as 1-2, and empty nodes such as 1.1."""
CELL = re.compile(r"[^ \t]+")
LINE_END = re.compile(r"\r\n|\n|\r")
# str.splitlines would also divide lines at characters that tokens may have, such as U+2028.
SHOWN_LINES = 3

Token = tuple[str, ...]


@dataclass(frozen=True)
class ReadSequences:
    """Sequences of any form as a table of tokens."""

    table: TokenTable
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

    Parameters
    ----------
    X : sequences of dictionaries or of lists of strings, of arrays (tokens, attributes), or one frame
    known : the numbers of the attributes of a fit; others are left out. Without it, all attributes are numbered.
    n_attributes : where ``known`` is given, what its numbers are below
    sequence, label_column : the columns of a frame that name the sequence of each row and, where it has one, its label
    """
    order, kind = None, "array"
    if is_frame(X):
        source = as_source(X)
        kind = source.kind
        lengths, order = _frame_order(source, sequence)
        columns = [name for name in source.names if name not in (sequence, label_column)]
        counts, names, places, values = _frame_entries(source, columns, order)
    elif sequence is not None:
        raise DataError("sequence= names a column of a frame, and X is no frame: leave it out.")
    else:
        sequences = _as_list(X)
        lengths = np.array([part.shape[0] if sp.issparse(part) else len(part) for part in sequences], dtype=np.int64)
        first = sequences[int(np.argmax(lengths > 0))]
        if sp.issparse(first) or isinstance(first, np.ndarray):
            matrix = _stack_arrays(sequences)
            names, places = [f"x{k}" for k in range(matrix.shape[1])], matrix.indices
            counts, values = np.diff(matrix.indptr), matrix.data
        else:
            counts, names, values = _token_entries(list(chain.from_iterable(sequences)), lengths)
            places = None
    if known is None:
        known = {name: k for k, name in enumerate(dict.fromkeys(names))}
        n_attributes = len(known)
    numbers = np.fromiter(map(known.get, names, repeat(-1)), dtype=np.int32, count=len(names))
    numbers = numbers if places is None else numbers[places]
    tokens, there = cumulate(counts), numbers >= 0
    if not there.all():
        tokens, numbers = cumulate(there)[tokens], numbers[there]
        values = values[there] if len(values) else values
    if len(values) and (values == 1.0).all():
        values = np.empty(0)
    return ReadSequences(TokenTable(cumulate(lengths), tokens, numbers, values, n_attributes), known, order, kind)


def is_frame(X: Any) -> bool:
    """Return whether X is one table with named columns."""
    return hasattr(X, "columns") and not sp.issparse(X)


def _as_list(X: Any) -> list[Any]:
    if isinstance(X, (str, bytes, Mapping)) or sp.issparse(X) or not isinstance(X, Iterable):
        raise DataError(f"X is a {type(X).__name__}; pass a list of sequences, or a frame and sequence=.")
    sequences = list(X)
    if not sequences:
        raise DataError("X has no sequences: pass at least one.")
    for s, tokens in enumerate(sequences):
        if isinstance(tokens, (str, bytes, Mapping)) or not (hasattr(tokens, "__len__") or sp.issparse(tokens)):
            raise DataError(
                f"X[{s}] is a {type(tokens).__name__}; a sequence is a list of tokens, each a "
                "dictionary or a list of strings, or an array."
            )
    return sequences


def _place(lengths: np.ndarray, token: int) -> str:
    """Return the place of a token in X, for messages."""
    s = int(np.searchsorted(np.cumsum(lengths), token, side="right"))
    return f"X[{s}][{token - int(lengths[:s].sum())}]"


def _token_entries(tokens: list[Any], lengths: np.ndarray) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Return how many attributes each token has, their names, and their values; no values where all are 1."""
    kinds = set(map(type, tokens))
    if all(issubclass(kind, Mapping) for kind in kinds):
        return _mapping_entries(tokens, lengths)
    for t, token in enumerate(tokens if not all(issubclass(kind, (list, tuple, set)) for kind in kinds) else ()):
        if not isinstance(token, (list, tuple, set)):
            place = _place(lengths, t)
            raise DataError(
                f"{place} is a {type(token).__name__}; tokens are all dictionaries, or all lists of strings."
            )
    names = list(chain.from_iterable(tokens))
    if not all(issubclass(kind, str) for kind in set(map(type, names))):
        t, name = next((t, name) for t, token in enumerate(tokens) for name in token if not isinstance(name, str))
        raise DataError(f"{_place(lengths, t)} has the attribute {name!r}; attributes are strings.")
    return np.fromiter(map(len, tokens), dtype=np.int64, count=len(tokens)), names, np.empty(0)


def _mapping_entries(tokens: list[Mapping[str, Any]], lengths: np.ndarray) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Return the attributes of dictionaries; in the common case of strings and numbers by comprehensions."""
    counts = np.fromiter(map(len, tokens), dtype=np.int64, count=len(tokens))
    keys, values = list(chain.from_iterable(tokens)), list(chain.from_iterable(token.values() for token in tokens))
    kinds = set(map(type, values))
    if set(map(type, keys)) <= {str} and kinds <= {str, bool, int, float}:
        if kinds <= {str}:
            return counts, [f"{key}={value}" for key, value in zip(keys, values, strict=True)], np.empty(0)
        names = [f"{key}={value}" if type(value) is str else key for key, value in zip(keys, values, strict=True)]
        sizes = np.array([1.0 if type(value) is str else value for value in values], dtype=np.float64)
        if np.isfinite(sizes).all():
            return counts, names, sizes
    parts = [list(_flatten(token, "", lengths, t)) for t, token in enumerate(tokens)]
    pairs = list(chain.from_iterable(parts))
    counts = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
    return counts, [name for name, _ in pairs], np.array([value for _, value in pairs], dtype=np.float64)


def _flatten(token: Mapping[Any, Any], prefix: str, lengths: np.ndarray, t: int) -> Iterator[tuple[str, float]]:
    """Yield the attributes of a dictionary; names within lists and dictionaries get its key as a prefix.

    python-crfsuite does the same, but writes "key:value" where this has "key=value".
    """
    for key, value in token.items():
        if not isinstance(key, str):
            raise DataError(f"{_place(lengths, t)} has the key {key!r}; keys of attributes are strings.")
        name = prefix + key
        if isinstance(value, str):
            yield f"{name}={value}", 1.0
        elif isinstance(value, (Real, np.bool_)) and np.isfinite(float(value)):
            yield name, float(value)
        elif isinstance(value, Mapping):
            yield from _flatten(value, f"{name}:", lengths, t)
        elif isinstance(value, (list, tuple, set)) and all(isinstance(part, str) for part in value):
            yield from ((f"{name}:{part}", 1.0) for part in value)
        else:
            raise DataError(
                f"{_place(lengths, t)} has {name!r}: {value!r}; values are strings, finite numbers, True or False, or "
                "lists of strings: leave out what is missing."
            )


def _stack_arrays(sequences: list[Any]) -> Any:
    """Return arrays (tokens, attributes) as one sparse matrix."""
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
    return matrix


def _frame_order(source: Source, sequence: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths of the sequences of a frame, in order of their first rows, and the row of each token."""
    if sequence is None or sequence not in source.names:
        remedy = "pass sequence=, the column that names the sequence of each row"
        problem = remedy if sequence is None else f"there is no column {sequence!r}"
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

    Parameters
    ----------
    y : one list or array of labels per sequence; for a frame, the name of a column of ``X``, or a label per row
    read : the sequences
    X : the frame, where ``y`` names a column
    """
    if read.rows is not None:
        return _frame_labels(y, read, X)
    if isinstance(y, (str, bytes, Mapping)) or not hasattr(y, "__len__"):
        raise DataError("y must have a list of labels for each sequence.")
    lengths = np.diff(read.table.offsets)
    if len(y) != len(lengths):
        raise DataError(f"y has {len(y)} sequences, and X has {len(lengths)}.")
    wrong = [s for s, labels in enumerate(y) if not hasattr(labels, "__len__") or len(labels) != lengths[s]]
    if wrong:
        s = wrong[0]
        more = f" ({len(wrong)} sequences do not match)" if len(wrong) > 1 else ""
        size = len(y[s]) if hasattr(y[s], "__len__") else "no"
        raise DataError(f"y[{s}] has {size} labels, and X[{s}] has {lengths[s]} tokens{more}.")
    return _plain(
        list(chain.from_iterable(np.asarray(part).tolist() if hasattr(part, "dtype") else part for part in y))
    )


def _frame_labels(y: Any, read: ReadSequences, X: Any) -> list[Any]:
    if isinstance(y, str):
        source = as_source(X)
        if y not in source.names:
            raise DataError(f"X has no column {y!r}: y names the column of labels.")
        column = source.column(y)
        labels: list[Any] = [None] * source.n_rows
        for row, value in zip(np.flatnonzero(column.present), column.values.tolist(), strict=True):
            labels[row] = value
    else:
        labels = y.to_list() if hasattr(y, "to_list") else list(np.asarray(y, dtype=object).ravel())
    assert read.rows is not None
    if len(labels) != len(read.rows):
        raise DataError(f"y has {len(labels)} labels, and X has {len(read.rows)} rows.")
    return _plain([labels[row] for row in read.rows])


def _plain(labels: list[Any]) -> list[Any]:
    """Return labels with None for missing ones."""
    if set(map(type, labels)) <= {str}:
        return labels
    return [None if is_missing(label) else label for label in labels]


@dataclass(frozen=True)
class ConllSentences:
    """Sentences of a CoNLL file.

    Attributes
    ----------
    columns : tuple of str
    sentences : list of lists of tuples
        A sentence is a list of tokens, and a token has a value for each column.
    """

    columns: tuple[str, ...]
    sentences: list[list[tuple[str, ...]]]

    def __len__(self) -> int:
        return len(self.sentences)

    def column(self, name: str) -> list[list[str]]:
        """Return the values of a column, one list per sentence."""
        if name not in self.columns:
            raise DataError(f"There is no column {name!r}; the columns are {', '.join(self.columns)}.")
        k = self.columns.index(name)
        return [[token[k] for token in sentence] for sentence in self.sentences]

    def tokens(self, *names: str) -> list[list[dict[str, str]]]:
        """Return dictionaries of some columns, or of all, as `ChainCRF` takes them: a list per sentence."""
        chosen = names or self.columns
        parts = zip(*(self.column(name) for name in chosen), strict=True)
        return [[dict(zip(chosen, token, strict=True)) for token in zip(*part, strict=True)] for part in parts]


def read_conll(
    path: str | os.PathLike[str], columns: Sequence[str] | None = None, *, encoding: str = "utf-8"
) -> ConllSentences:
    """Read a CoNLL file: a token per line, columns between tabs, or else blanks, an empty line between sentences.

    Left out are lines that begin with -DOCSTART-, comments (a line that begins with "# " and has other columns than
    tokens), and in CoNLL-U those of ranges such as 1-2 and of empty nodes.

    Parameters
    ----------
    path : path of a text file
    columns : names of the columns, in order; "0", "1" and so on when left out
    encoding : str

    Examples
    --------
    >>> sentences = read_conll("train.txt", columns=("word", "tag", "chunk"))  # doctest: +SKIP
    >>> X, y = sentences.tokens("word", "tag"), sentences.column("chunk")  # doctest: +SKIP
    """
    try:
        text = Path(path).read_bytes().decode(encoding).removeprefix("\ufeff")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    except (UnicodeDecodeError, LookupError) as error:
        raise DataError(f"{path}: not {encoding} text ({error}): give its encoding.") from None
    sentences = _find_sentences(LINE_END.split(text))
    if not sentences:
        raise DataError(f"{path}: there is no token in this file.")
    names = tuple(map(str, range(len(sentences[0][0][1]))) if columns is None else columns)
    if len(set(names)) < len(names):
        raise DataError(f"{path}: columns= names a column twice.")
    wrong = [(line, len(token)) for sentence in sentences for line, token in sentence if len(token) != len(names)]
    if wrong:
        shown = "; ".join(f"line {line} has {count} columns" for line, count in wrong[:SHOWN_LINES])
        more = f" (and {len(wrong) - SHOWN_LINES} more lines)" if len(wrong) > SHOWN_LINES else ""
        raise DataError(f"{path}: {len(names)} columns are expected, and {shown}{more}.")
    return ConllSentences(names, [[token for _, token in sentence] for sentence in sentences])


def _find_sentences(lines: list[str]) -> list[list[tuple[int, Token]]]:
    """Return the tokens of each sentence, with the numbers of their lines, counted from 1.

    A line that begins like a comment may be a token such as "#" in a file with blanks between columns. A token has as
    many columns as others. Comments before the first token of a sentence may have as many, too, such as "# sentence 1";
    there, the last cell of a token also is that of another token, as labels are.
    """
    remarks = {number for number, line in enumerate(lines, 1) if line.startswith(COMMENT) or line == COMMENT.rstrip()}
    tabs = any("\t" in line for line in lines if not line.startswith(COMMENT))
    cells = {
        number: tuple(line.split("\t") if tabs else CELL.findall(line))
        for number, line in enumerate(lines, 1)
        if not PART_OF_TOKEN.match(line)
    }
    breaks = {n for n in cells if not lines[n - 1].strip(BLANKS) or lines[n - 1].startswith(DOCUMENT_START)}
    certain = [token for number, token in cells.items() if number not in breaks and number not in remarks]
    width, last_cells = len(certain[0]) if certain else 0, {token[-1] for token in certain}
    sentences: list[list[tuple[int, Token]]] = [[]]
    for number, token in cells.items():
        if number in breaks:
            sentences.append([])
        elif number in remarks and (len(token) != width or (not sentences[-1] and token[-1] not in last_cells)):
            continue
        else:
            sentences[-1].append((number, token))
    return [sentence for sentence in sentences if sentence]
