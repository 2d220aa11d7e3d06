"""This module reads sequences of tokens from the CoNLL files and tables of commands, and writes their labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sparsefield.app.cli.console import note
from sparsefield.app.cli.table_files import find_columns
from sparsefield.app.pages.fit_summary import count
from sparsefield.app.tables.read import SourceTable, list_columns, read_content, read_source
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.app.tables.write import COMPRESSION_OF_SUFFIX, STANDARD_OUTPUT, compress, write_table
from sparsefield.chain.conll_text import ConllText, parse_conll
from sparsefield.errors import DataError
from sparsefield.model.atomic_write import write_atomically

if TYPE_CHECKING:
    import polars as pl

    from sparsefield.app.cli.chain_options import SequenceOptions
    from sparsefield.app.cli.input_data import ColumnOptions
    from sparsefield.chain.source import ChainSource

Labels = list[list[str | None]]


class TokenFile(Protocol):
    """A file of sequences of tokens with columns."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of tokens; that of the sequence is none of them."""
        ...

    @property
    def lengths(self) -> list[int]:
        """Number of tokens of each sequence."""
        ...

    def numeric(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return those of some columns that are numbers."""
        ...

    def cells(self, column: str, *, numeric: bool = False) -> list[list[Any]]:
        """Return the cells of a column for each sequence, None where they are missing."""
        ...

    def write_labels(self, labels: Labels, column: str, output: Path) -> None:
        """Write the file with labels in a column, which is added as the last one if it is not there."""
        ...


@dataclass(frozen=True)
class ConllTokens:
    """The tokens of a CoNLL file."""

    text: ConllText
    columns: tuple[str, ...]
    missing: tuple[str, ...]

    @cached_property
    def sentences(self) -> list[list[tuple[str, ...]]]:
        return self.text.sentences()

    @property
    def lengths(self) -> list[int]:
        return list(map(len, self.text.places))

    def numeric(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return nothing, since cells of CoNLL files are words."""
        return ()

    def cells(self, column: str, *, numeric: bool = False) -> list[list[Any]]:
        """Return the words of a column for each sentence, None for those that stand for a missing one."""
        k, missing = self.columns.index(column), {*self.missing, ""}
        found = [[token[k] for token in sentence] for sentence in self.sentences]
        return [[None if word in missing else word for word in sentence] for sentence in found]

    def write_labels(self, labels: Labels, column: str, output: Path) -> None:
        """Write the lines of the file with other labels; comments and empty lines stay."""
        place = self.columns.index(column) if column in self.columns else None
        content = self.text.with_column([[str(word) for word in one] for one in labels], place).encode()
        if output == STANDARD_OUTPUT:
            import sys

            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        else:
            write_atomically(output, compress(content, COMPRESSION_OF_SUFFIX.get(output.suffix.lower())))


@dataclass(frozen=True)
class TableTokens:
    """The tokens of a table with a row per token; cells of text files are text."""

    name: str
    source: SourceTable
    sequence: str

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name in self.source.table.columns if name != self.sequence)

    @cached_property
    def groups(self) -> list[list[int]]:
        """The rows of each sequence, in the order of the table."""
        rows: dict[Any, list[int]] = {}
        names = self._nulled(self.sequence).to_list()
        for row, name in enumerate(names):
            rows.setdefault(name, []).append(row)
        if None in rows:
            raise DataError(
                f"{self.name}: the column {self.sequence!r} is empty in row {rows[None][0] + 1}: every row belongs to "
                "a sequence."
            )
        return list(rows.values())

    @property
    def lengths(self) -> list[int]:
        return list(map(len, self.groups))

    def numeric(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return those of some columns whose cells are all numbers, or missing."""
        from sparsefield.app.tables.values import type_columns

        table = self.source.table.select(columns)
        if self.source.format.is_text:
            table = type_columns(table, self.source.format.missing, self.source.format.decimal)
        return tuple(name for name, dtype in table.schema.items() if dtype.is_numeric())

    def cells(self, column: str, *, numeric: bool = False) -> list[list[Any]]:
        """Return the numbers or words of a column for each sequence, None where they are missing."""
        import polars as pl

        found = self._numbers(column) if numeric else self._nulled(column).cast(pl.String)
        values = found.to_list()
        return [[values[row] for row in rows] for rows in self.groups]

    def write_labels(self, labels: Labels, column: str, output: Path) -> None:
        """Write the table with labels in a column."""
        import polars as pl

        found: list[str | None] = [None] * self.source.table.height
        for rows, words in zip(self.groups, labels, strict=True):
            for row, word in zip(rows, words, strict=True):
                found[row] = word
        table = self.source.table.with_columns(pl.Series(column, found, dtype=pl.String))
        write_table(table, output, self.source.format)

    def _nulled(self, column: str) -> pl.Series:
        from sparsefield.app.tables.values import with_nulls

        return with_nulls(self.source.table.select(column), self.source.format.missing).to_series()

    def _numbers(self, column: str) -> pl.Series:
        import polars as pl

        from sparsefield.app.tables.values import numbers_of

        cells = self._nulled(column)
        if cells.dtype != pl.String:
            return cells.cast(pl.Float64)
        numbers = numbers_of(cells.str.strip_chars(), self.source.format.decimal, known=True)
        odd = cells.filter(numbers.is_null() & cells.is_not_null())
        if len(odd):
            raise DataError(
                f"{self.name}: column {column!r} has {count(len(odd), 'cell')} that are not numbers, such as "
                f"{odd[0]!r}: correct them, or give words for missing values with --missing."
            )
        return numbers.cast(pl.Float64)


def read_tokens(data: Path, reading: ReadOptions, options: SequenceOptions) -> TokenFile:
    """Read a CoNLL file, or a table if --sequence names the column of its sequences.

    Words such as "." and "NA" are words here; only empty cells and words of --missing are missing.
    """
    if options.sequence is not None:
        if options.names is not None:
            raise DataError("--names is for CoNLL files; with --sequence, the table has names: remove one of them.")
        return _read_table(data, reading, options.sequence)
    text = _read_text(data, reading)
    names = None if options.names is None else [name.strip() for name in options.names.split(",")]
    if names is not None and (len(names) != text.width or len(set(names)) < len(names)):
        raise DataError(
            f"{data}: --names has {count(len(names), 'name')}, {', '.join(names)}, and the file has "
            f"{count(text.width, 'column')}: give each its own name."
        )
    return ConllTokens(text, tuple(names or map(str, range(text.width))), _missing_words(reading))


def read_tokens_of_model(data: Path, reading: ReadOptions, source: ChainSource) -> TokenFile:
    """Read a file as that of the fit; the column of labels may be absent."""
    reading = replace(reading, missing=(*source.missing, *reading.missing))
    if source.sequence is not None:
        found: TokenFile = _read_table(data, reading, source.sequence)
    else:
        given = {name: getattr(reading, name) or getattr(source, name) for name in ("separator", "encoding")}
        text = _read_text(data, replace(reading, **given))
        found = ConllTokens(text, _columns_of_model(text, source), _missing_words(reading))
    return found


def _columns_of_model(text: ConllText, source: ChainSource) -> tuple[str, ...]:
    """Return the names of the columns of a CoNLL file, which may lack the last one if that has the labels."""
    names = source.columns
    if text.width == len(names) - 1 and names[-1] == source.label:
        return names[:-1]
    if text.width != len(names):
        raise DataError(
            f"{text.name}: the file has {count(text.width, 'column')}, and the model was learned from "
            f"{len(names)}: {', '.join(names)}, of which {source.label!r} has the labels."
        )
    return names


def _missing_words(reading: ReadOptions) -> tuple[str, ...]:
    return (*reading.missing_only, *reading.missing)


def _read_text(data: Path, reading: ReadOptions) -> ConllText:
    for option in ("header", "decimal", "sheet", "table"):
        if getattr(reading, option) is not None:
            name = "no-header" if option == "header" else option
            raise DataError(f"{data}: --{name} is for tables; CoNLL files do not have it: remove it.")
    content = read_content(data)
    return parse_conll(content.data, content.name, separator=reading.separator, encoding=reading.encoding)


def _read_table(data: Path, reading: ReadOptions, sequence: str) -> TableTokens:
    words = replace(reading, missing_only=reading.missing_only or ("",))
    source = read_source(data, words)
    source = replace(source, table=source.cells)
    if sequence not in source.table.columns:
        raise DataError(
            f"{data}: there is no column {sequence!r}, which names the sequence of each row; "
            f"{list_columns(source.table.columns)}."
        )
    return TableTokens(str(data), source, sequence)


def describe_tokens(tokens: TokenFile) -> str:
    """Return the numbers of sequences and of tokens in words."""
    lengths = tokens.lengths
    return f"{count(len(lengths), 'sequence')} with {count(sum(lengths), 'token')}"


def find_label(tokens: TokenFile, options: SequenceOptions) -> str:
    """Return the column of labels."""
    columns, label = tokens.columns, options.label
    if label is None and options.sequence is not None:
        raise DataError(f"--label is needed with --sequence: name the column of labels; {list_columns(columns)}.")
    if label is not None and label not in columns:
        raise DataError(f"--label names the column {label!r}, which does not exist; {list_columns(columns)}.")
    return columns[-1] if label is None else label


def find_inputs(tokens: TokenFile, label: str, columns: ColumnOptions) -> tuple[str, ...]:
    """Return the columns of inputs: those of --observed, or all but the labels and those of --id."""
    rest = [name for name in tokens.columns if name != label]
    left_out = find_columns(columns.identifiers, rest, "--id")
    chosen = find_columns(columns.observed, rest, "--observed") or rest
    inputs = tuple(name for name in chosen if name not in left_out)
    if not rest:
        raise DataError(f"There is no input: the label {label!r} is the only column.")
    if not inputs:
        raise DataError(f"--id leaves no input, since it names {', '.join(chosen)}: name fewer columns with it.")
    return inputs


def read_known_labels(tokens: TokenFile, label: str, what: str) -> Labels:
    """Return the labels, None for those that are missing, and refuse a file without any."""
    if label not in tokens.columns:
        raise DataError(f"The file has no column {label!r}, whose labels {what}; {list_columns(tokens.columns)}.")
    labels = tokens.cells(label)
    known = sum(word is not None for one in labels for word in one)
    if not known:
        raise DataError(f"The column {label!r} has no label, and labels are what {what}.")
    if known < sum(map(len, labels)):
        note(f"{count(sum(map(len, labels)) - known, 'token')} without a label.")
    return labels
