"""The codebook of a table: its columns, what deserves a look before a fit, and the options that answer it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sparsefield.app.tables.column_findings import (
    CODE_NAME,
    MANY_LEVELS,
    ColumnEntry,
    FindingType,
    cut_text,
    describe_column,
)
from sparsefield.app.tables.values import as_polars, missing_numbers
from sparsefield.data.frames import as_source
from sparsefield.errors import count, list_first

TOP_LEVELS = 20
"""Number of levels that the advice proposes to keep."""

HEADINGS = ("column", "kind", "values", "missing", "findings")
MOST_COLUMNS = 30
"""Number of columns that are shown; with more, those that have findings come first."""

NAME_LENGTH, VALUES_LENGTH, FINDINGS_LENGTH = 28, 44, 90

IS_CODE = "looks like a code, not a number/look like codes, not numbers"
LEAVE_OUT: tuple[tuple[FindingType, str], ...] = (
    ("identifier", "is an identifier, which cannot be learned/are identifiers, which cannot be learned"),
    ("free text", "is free text/are free text"),
    ("empty", "has no values/have no values"),
    ("constant", "is constant and says nothing/are constant and say nothing"),
)
"""Findings about columns to leave out, with words for one column and for several."""


@dataclass(frozen=True)
class Advice:
    """What to do about findings of one type, with the option to give at the command line."""

    text: str
    columns: tuple[str, ...]
    option: str = ""
    """The exact option, quoted for a shell; empty if there is none."""
    is_conditional: bool = False
    """Whether the option is right only under a condition that the table does not show."""

    def __str__(self) -> str:
        return f"{self.text}: {self.option}" if self.option else f"{self.text}."


@dataclass(frozen=True)
class Codebook:
    """A codebook describes the columns of a table, and what deserves a look before a fit.

    Attributes
    ----------
    columns : tuple of ColumnEntry
        One entry per column, in the order of the table; ``codebook["age"]`` is that of the column ``age``.
    n_rows : int
    source : str
        A sentence on how the table was read; may be empty.
    """

    columns: tuple[ColumnEntry, ...]
    n_rows: int
    source: str = ""
    values: frozenset[str] = frozenset()
    """Missing codes of some columns that are values like others of other columns."""

    def __getitem__(self, name: str) -> ColumnEntry:
        return next(entry for entry in self.columns if entry.name == name)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def missing_share(self) -> float:
        """Share of all cells that are missing."""
        cells = self.n_rows * len(self.columns)
        return sum(entry.n_missing for entry in self.columns) / cells if cells else 0.0

    @property
    def left_out(self) -> tuple[str, ...]:
        """Columns that commands leave out of a fit unless an option names them."""
        return tuple(entry.name for entry in self.columns if entry.left_out)

    @cached_property
    def advice(self) -> list[Advice]:
        """What to do about the findings, with the options to give at the command line."""
        leave_out = [piece for words in LEAVE_OUT for piece in _say(self.columns, *words, option="--id")]
        gone = {name for piece in leave_out for name in piece.columns}
        rest = [entry for entry in self.columns if entry.name not in gone]
        codes = [entry for entry in rest if CODE_NAME.search(entry.name)]
        others, words = [entry for entry in rest if entry not in codes], "may be a code, not a number/may be codes"
        return [
            *leave_out,
            *_say([entry for entry in codes if entry.n_distinct > MANY_LEVELS], "codes", IS_CODE, option="--id"),
            *_say([entry for entry in codes if entry.n_distinct <= MANY_LEVELS], "codes", IS_CODE, option="--nominal"),
            *_say(others, "codes", words, option="--id", is_conditional=True),
            *_missing(rest, self.values),
            *_named(rest, "outside the scale", "cells outside the scale of the others; correct them"),
            *_texts(rest),
        ]

    @property
    def options(self) -> str:
        """The options of all advice for one command, without those that depend on what the table does not show."""
        sure = [piece for piece in self.advice if not piece.is_conditional]
        ids = [name for piece in sure if piece.option.startswith("--id ") for name in piece.columns]
        words = [piece.option for piece in sure if piece.option and not piece.option.startswith("--id ")]
        return " ".join([column_option("--id", ids), *dict.fromkeys(words)]).strip()

    def to_dict(self) -> dict[str, Any]:
        """Return the codebook as values that JSON can express."""
        return {
            "source": self.source,
            "rows": self.n_rows,
            "missing_share": self.missing_share,
            "columns": [entry.to_dict() for entry in self.columns],
            "advice": [{"text": one.text, "columns": list(one.columns), "option": one.option} for one in self.advice],
            "options": self.options,
        }

    def describe_size(self) -> str:
        """Return the numbers of rows, of columns by kind and with findings, and the share of missing cells."""
        kinds = Counter(entry.kind for entry in self.columns if not entry.left_out)
        parts = [f"{kinds[kind]:,} {kind}" for kind in ("nominal", "ordinal", "numeric") if kinds[kind]]
        parts += [f"{len(self.left_out):,} left out"] if self.left_out else []
        size = f"{count(self.n_rows, 'row')}, {count(len(self), 'column')}"
        number = sum(bool(entry.findings) for entry in self.columns)
        found = f" {count(number, 'column')} {'has' if number == 1 else 'have'} findings." if number else ""
        return f"{size} ({', '.join(parts)}), {self.missing_share:.1%} of the cells missing.{found}"

    def shown_columns(self, all_columns: bool = False) -> Sequence[ColumnEntry]:
        """Return the columns to show: all if they are few, else those with findings first, and not more than fit."""
        if all_columns or len(self) <= MOST_COLUMNS:
            return self.columns
        return sorted(self.columns, key=lambda entry: not entry.findings)[:MOST_COLUMNS]

    def __str__(self) -> str:
        shown = self.shown_columns()
        rows = [HEADINGS, *((*cells, cut_text(text, FINDINGS_LENGTH)) for *cells, text in map(table_row, shown))]
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        lines = [line for line in (self.source, self.describe_size()) if line]
        lines += ["", *("   ".join(map(str.ljust, row, widths)).rstrip() for row in rows)]
        rest = len(self) - len(shown)
        lines += ["", f"{count(rest, 'column')} not shown: see .columns."] if rest else []
        lines += ["", *(f"- {piece}" for piece in self.advice)] if self.advice else []
        return "\n".join(lines)


def inspect(frame: Any, *, source: str = "", decimal: str = ".") -> Codebook:
    """Describe the columns of a table: kinds, levels, missing values, and what deserves a look before a fit.

    Parameters
    ----------
    frame : pandas, polars, arrow or other frame known to narwhals; or a 2-D array
    source : str
        A sentence on how the table was read.
    decimal : str
        The decimal mark with which the table was read, if it was text.

    Returns
    -------
    Codebook

    Examples
    --------
    >>> import polars as pl
    >>> answers = {"person": range(100, 140), "age": [*range(20, 39), -99] * 2, "smokes": ["yes", "no"] * 20}
    >>> book = inspect(pl.DataFrame(answers))
    >>> [entry.kind for entry in book.columns], book.left_out
    (['numeric', 'numeric', 'nominal'], ('person',))
    >>> book["age"].finding("missing codes").values
    ('-99',)
    >>> print(book.advice[0])
    'person' is an identifier, which cannot be learned: --id person
    """
    table = as_source(frame, "The table", may_be_empty=True)
    values = as_polars(table)
    entries = tuple(describe_column(column, table, decimal) for column in values.get_columns())
    numeric = [entry.name for entry in entries if not entry.left_out and values[entry.name].dtype.is_numeric()]
    where = _missing_codes(entries)
    others = {code: [values[name] for name in numeric if name not in names] for code, names in where.items()}
    pairs = [(code, number) for code in others for number in missing_numbers([code])]
    ambiguous = [code for code, number in pairs if any((column == number).any() for column in others[code])]
    return Codebook(entries, values.height, source, frozenset(ambiguous))


def table_row(entry: ColumnEntry) -> tuple[str, ...]:
    """Return the cells of a column for `HEADINGS`."""
    kind = f"({entry.kind})" if entry.left_out else entry.kind
    values = cut_text(entry.describe_values(), VALUES_LENGTH)
    return cut_text(entry.name, NAME_LENGTH), kind, values, f"{entry.missing_share:.1%}", entry.describe_findings()


def column_option(option: str, names: Sequence[str]) -> str:
    """Return an option that names columns, quoted for a shell.

    Examples
    --------
    >>> column_option("--id", ["a", "b", "c, d"])
    "--id a,b --id 'c, d'"
    """
    plain = [name for name in names if "," not in name and name.strip() == name]
    others = [name for name in names if name not in plain]
    return " ".join(f"{option} {shlex.quote(word)}" for word in [",".join(plain)] * bool(plain) + others)


def _missing_codes(columns: Sequence[ColumnEntry]) -> dict[str, list[str]]:
    """Return {missing code: columns that have it}, of codes that an option can name."""
    where: dict[str, list[str]] = {}
    for entry in columns:
        codes = entry.finding("missing codes")
        for code in dict.fromkeys((*(codes.values if codes else ()), *entry.other_texts)):
            if code.strip() and "," not in code:
                where.setdefault(code, []).append(entry.name)
    return where


def _say(
    columns: Sequence[ColumnEntry], type: FindingType, verbs: str, rest: str = "", *, option="", is_conditional=False
) -> Iterator[Advice]:
    """Yield one sentence about the columns with a finding, if any; verbs are for one and for several: "is/are empty".

    ``option`` gets their names unless it has a value.
    """
    names = tuple(entry.name for entry in columns if entry.finding(type))
    if names:
        option = column_option(option, names) if option and " " not in option else option
        yield Advice(f"{_quoted(names)} {verbs.split('/')[len(names) > 1]}{rest}", names, option, is_conditional)


def _named(columns: Sequence[ColumnEntry], type: FindingType, what: str) -> Iterator[Advice]:
    """Yield a sentence about the columns with a finding, if any, with what was found in each."""
    found = [(entry.name, finding.text) for entry in columns if (finding := entry.finding(type))]
    if found:
        names = tuple(name for name, _ in found)
        shown = list_first([f"{name!r} ({text})" for name, text in found])
        yield Advice(f"{shown} {'has' if len(names) == 1 else 'have'} {what}", names)


def _quoted(names: Sequence[str]) -> str:
    return list_first(names, form=repr)


def _missing(columns: Sequence[ColumnEntry], values: frozenset[str]) -> Iterator[Advice]:
    """Yield a sentence about the codes of missing values, and the columns that become numbers or dates by them."""
    where = {code: names for code, names in _missing_codes(columns).items() if code not in values}
    if where:
        names = tuple(dict.fromkeys(name for names in where.values() for name in names))
        shown = f"{_quoted(tuple(where))} in {_quoted(names)} may mean a missing value; the option is for all columns"
        freed = [entry.name for entry in columns if entry.other_texts and set(entry.other_texts) <= where.keys()]
        shown += f", and makes {_quoted(freed)} numbers or dates" if freed else ""
        yield Advice(shown, names, " ".join(f"--missing {shlex.quote(code)}" for code in where))


def _texts(columns: Sequence[ColumnEntry]) -> Iterator[Advice]:
    """Yield sentences about numbers, dates and many levels of columns of text."""
    texts = [entry for entry in columns if not entry.other_texts]
    numbers = [(entry, entry.finding("numbers as text")) for entry in texts]
    plain = [entry for entry, finding in numbers if finding and finding.readable and not finding.values]
    yield from _say(plain, "numbers as text", "has/have", " numbers kept as text", option="--numeric")
    others, rest = [entry for entry in texts if entry not in plain], "; write all of them alike, "
    yield from _named(others, "numbers as text", f"numbers kept as text{rest}without units, to use them")
    rest = f" dates kept as text{rest}or say whether the day comes first"
    option = "--set read.dates=day-first"
    yield from _say(texts, "dates as text", "has/have", rest, option=option, is_conditional=True)
    texts = [entry for entry in texts if not entry.finding("dates as text")]
    yield from _say(texts, "many levels", "has/have", " many levels", option=f"--top-levels {TOP_LEVELS}")
