"""Descriptions of the columns of a table: kind and why, levels, missing codes, identifiers, other text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from sparsefield import config
from sparsefield.app.tables.values import as_polars, date_formats, type_columns
from sparsefield.data.column_summaries import ColumnTraits, find_traits
from sparsefield.data.frames import Source
from sparsefield.data.kinds import kind_of
from sparsefield.data.schema import Kind
from sparsefield.data.schema_learning import is_identifier

FindingType = Literal[
    "empty",
    "identifier",
    "free text",
    "dates as text",
    "numbers as text",
    "missing codes",
    "constant",
    "all different",
    "many levels",
    "ordered levels",
]
"""What may be found about a column."""

FRACTIONS = "numbers with fractions"
"""Why a column is numeric if it has such numbers."""

MOST_CODES = 10
"""Number of suspected values of one column that are named."""

FEW_VALUES = 10
"""Columns with at most this many values are not taken for identifiers."""

MANY_LEVELS = 50
"""Number of levels of a column of text beyond which most of them are too rare to be learned from."""

MOST_LEVELS, RANGES, SHOWN_LEVELS, LABEL_LENGTH = 20, 12, 3, 24

IDENTIFIER_NAME = re.compile(
    r"(?i:(?:^|[\W_])(?:id|ids|nr|key|uuid|guid|idx|index|respondent|participant|subject|record|case|serial|row)(?:[\W_]|$))"
    r"|^$|^[Uu]nnamed|[a-z]I[dD]$"
)
"""Names that identifiers have: respondent, customer_id, PassengerId; that of a pandas index is empty in a CSV."""

YEARS = (1500, 2200)
LARGEST_EXACT = 2**53
"""Larger integers are not numbers that a fit accepts."""

LONG_TEXT, MANY_WORDS, FREE_LEVELS, FREE_SHARE, ROWS_OF_LEVEL = 30, 4, 20, 0.3, 100
"""Free text has cells of so many characters and words on average, more levels, and at most so many rows for a level; it
is left out of a fit if it has more levels than this share of its cells."""

ENOUGH = 0.8
"""Smallest share of the levels that are dates or numbers in a column that is said to hold them."""

DATE = (
    r"^\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})|\d{1,2} [A-Za-z]{3,9}\.? \d{4})"
    r"([T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?\s*([+-]\d{2}:?\d{2}|Z)?)?\s*$"
)
UNITS = "%|€|[$]|£|°C|[cmk]?m|[mk]?g|m?l|min|h|USD|EUR"
WRITTEN_NUMBER = (
    r"^\s*[$€£]?\s*[+-]?((\d+|\d{1,3}([,. ']\d{3})+)([.,]\d*)?|\.\d+)([eE][+-]?\d+)?" rf"\s*(?i:{UNITS})?\.?\s*$"
)

NUMBER_CODES = tuple(sign * int(digit * length) for digit in "789" for length in range(1, 6) for sign in (-1, 1))
NUMBER_CODES += tuple(sign * code for code in (97, 98, 997, 998, 9997, 9998) for sign in (-1, 1))
"""Numbers that surveys use for missing answers; they are suspected only if they are far from all other values."""

TEXT_CODES = frozenset(
    {
        "", "-", "--", "---", ".", "..", "?", "??", "x", "n/a", "#n/a", "na", "n.a.", "n. a.", "nan", "null", "nil",
        "missing", "unknown", "not known", "not available", "not applicable", "not stated", "not specified",
        "no answer", "no response", "refused", "don't know", "don\u2019t know", "dont know", "do not know", "dk",
        "prefer not to say", "prefer not to answer", "undisclosed", "unspecified",
        "k.a.", "k. a.", "k.a", "keine angabe", "keine angaben", "ohne angabe", "unbekannt", "weiß nicht",
        "weiss nicht", "keine antwort", "verweigert", "inconnu", "sans réponse", "desconocido", "onbekend",
    }
)  # fmt: skip
"""Texts for missing answers, in lower case and without spaces at their ends."""

SCALES = (
    "strongly disagree|disagree|somewhat disagree|neutral/undecided|somewhat agree|agree|strongly agree",
    "never|almost never|rarely/seldom|sometimes/occasionally|often/frequently|very often|usually/mostly|always",
    "not at all|a little/slightly|somewhat/moderately|quite a bit/a lot|very/very much|extremely",
    "very low|low|medium/moderate/average|high|very high",
    "very poor/very bad|poor/bad|fair/average/okay|good|very good|excellent",
    "very dissatisfied|dissatisfied|neutral|satisfied|very satisfied",
    "very unlikely|unlikely|neutral|likely|very likely",
    "stimme gar nicht zu|stimme nicht zu|stimme eher nicht zu|teils-teils|stimme eher zu|stimme zu|stimme voll zu",
    "trifft gar nicht zu|trifft nicht zu|trifft eher nicht zu|teils-teils|trifft eher zu|trifft zu|trifft voll zu",
    "nie|selten|manchmal/gelegentlich|oft/häufig|sehr oft|immer",
    "sehr schlecht|schlecht|mittel|gut|sehr gut",
    "sehr unzufrieden|unzufrieden|neutral/teils-teils|zufrieden|sehr zufrieden",
)
"""Common scales, lowest first; a slash is between words that mean the same, and stands for a hyphen in them."""


@dataclass(frozen=True)
class LevelCount:
    """A level of a column, or a range of numbers, and the number of rows that have it."""

    label: str
    rows: int


@dataclass(frozen=True)
class Finding:
    """Something about a column that deserves a look before a fit."""

    type: FindingType
    text: str
    """What was found, in a few words with the numbers."""
    values: tuple[str, ...] = ()
    """The values that it is about: missing codes, texts that are no numbers or dates, or levels in order."""
    readable: str = ""
    """How numbers or dates that are kept as text can be read if those values are missing: the decimal mark, "date", or
    "day-first or month-first" if the table does not show which; empty if they cannot."""


@dataclass(frozen=True)
class ColumnEntry:
    """The description of one column.

    Attributes
    ----------
    name : str
    kind : "nominal", "ordinal" or "numeric"
        The kind that a fit gives to the column unless an option names another one.
    reason : str
        Why it has this kind.
    n_rows, n_missing, n_distinct : int
        Numbers of rows, of missing cells, and of distinct values.
    levels : tuple of LevelCount
        The most frequent levels, in their order if the column is ordinal; equally wide ranges if it is numeric.
    low, high, median : str
        The range and the median of numbers and dates; otherwise empty.
    findings : tuple of Finding
    left_out : str
        Why commands that learn leave the column out unless an option names it; empty if they do not.
    """

    name: str
    kind: Kind
    reason: str
    n_rows: int
    n_missing: int
    n_distinct: int
    levels: tuple[LevelCount, ...] = ()
    low: str = ""
    high: str = ""
    median: str = ""
    findings: tuple[Finding, ...] = ()
    left_out: str = ""

    @property
    def missing_share(self) -> float:
        """Share of the cells that are missing."""
        return self.n_missing / self.n_rows if self.n_rows else 0.0

    @property
    def n_values(self) -> int:
        """Number of cells that are not missing."""
        return self.n_rows - self.n_missing

    def finding(self, type: FindingType) -> Finding | None:
        """Return the finding of a type, or None."""
        return next((finding for finding in self.findings if finding.type == type), None)

    @property
    def other_texts(self) -> tuple[str, ...]:
        """Texts such as "k.A." among numbers or dates; as missing values they leave a column of numbers or dates.

        Empty if they do not, or if they are too many, or have a comma, which separates the values of an option.
        """
        texts = self.finding("numbers as text") or self.finding("dates as text")
        if texts is None or not texts.readable or len(texts.values) > MOST_CODES:
            return ()
        return () if any("," in text for text in texts.values) else texts.values

    def describe_values(self) -> str:
        """Return the range of a number, or the levels with their shares."""
        if self.kind == "numeric" and self.n_values:
            return f"{self.low} to {self.high}, median {self.median}"
        rest = self.n_distinct - len(self.levels)
        shown = [f"{level.label} {level.rows / self.n_values:.0%}" for level in self.levels]
        return ", ".join(shown) + (f", {rest:,} more" if rest > 0 else "")

    def describe_findings(self) -> str:
        """Return the findings in one line."""
        return "; ".join(f"{finding.type}: {finding.text}" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as values that JSON can express."""
        return asdict(self) | {"missing_share": self.missing_share}


def describe_columns(source: Source, decimal: str = ".") -> Iterator[ColumnEntry]:
    """Yield a description of each column; ``decimal`` is the decimal mark of the file that was read."""
    frame = as_polars(source)
    traits = {column.name: _traits_of(source, column) for column in frame.get_columns()}
    levels = [
        name
        for name, own in traits.items()
        if kind_of(own).kind != "numeric" or frame[name].null_count() == frame.height
    ]
    counts = _count_levels(frame, levels)
    for column in frame.get_columns():
        yield _Column(column, traits[column.name], counts.get(column.name)).describe(decimal)


def _traits_of(source: Source, column: pl.Series) -> ColumnTraits:
    """Return the traits that decide about the kind; text needs no look at its cells, unless it has an order."""
    plain = column.dtype == pl.String and source.kind not in ("array", "sparse")
    if plain and source.native[:, source.names.index(column.name)].dtype == nw.String:
        return ColumnTraits(column.null_count() == len(column), False, frozenset())
    try:
        return find_traits(source, None, [column.name])[0]
    except ValueError:  # cells of a type that a fit refuses, such as lists
        return ColumnTraits(False, False, frozenset())


def _count_levels(frame: pl.DataFrame, names: Sequence[str]) -> dict[str, pl.DataFrame]:
    """Return the distinct values of columns, the most frequent first, with their numbers of rows."""
    if not names:
        return {}
    levels = (pl.col(name).drop_nulls().alias("level").value_counts(name="rows") for name in names)
    counted = frame.select(one.implode().alias(name) for name, one in zip(names, levels, strict=True))
    counts = {name: counted[name][0].struct.unnest() for name in names}
    return {name: own.sort("rows", "level", descending=[True, False]) for name, own in counts.items()}


class _Column:
    """A column of values, with the levels of one that is not numeric."""

    def __init__(self, values: pl.Series, traits: ColumnTraits, counts: pl.DataFrame | None) -> None:
        self.values, self.traits, self.counts, self.kind = values, traits, counts, kind_of(traits)
        self.known = values.drop_nulls()
        self.is_text = values.dtype == pl.String
        self.n_distinct = self.known.n_unique() if counts is None else counts.height

    @property
    def is_mostly_different(self) -> bool:
        n = len(self.known)
        return is_identifier(self.n_distinct, n) or (n > FEW_VALUES and self.n_distinct == n)

    def describe(self, decimal: str) -> ColumnEntry:
        role = self._role(decimal)
        left_out = self._left_out(role)
        findings = [*([] if role is None else [role]), *([] if left_out else self._findings_in_values(role))]
        kind, dtype = self.kind.kind, self.values.dtype
        numbers = self.known.to_physical() if kind == "numeric" else self.known.clear()
        limits = ("", "", "")
        if len(numbers):
            middle = self._from_physical(float(np.median(numbers.to_numpy())))
            limits = (format_value(self.known.min()), format_value(self.known.max()), middle)
        return ColumnEntry(
            self.values.name,
            kind,
            self._reason(dtype),
            len(self.values),
            self.values.null_count(),
            self.n_distinct,
            self._ranges(numbers) if len(numbers) else self._levels(),
            *limits,
            tuple(findings),
            left_out,
        )

    def _reason(self, dtype: pl.DataType) -> str:
        """Return why the column has its kind, by the rules of `kind_of`."""
        if not len(self.known):
            return "no values"
        if self.traits.order:
            return "an ordered categorical type"
        if self.kind.kind == "numeric" and self.traits.fractions:
            return "dates or times" if dtype.is_temporal() else FRACTIONS
        if self.traits.numbers:
            count = f"{self.n_distinct:,} different whole number" + "s" * (self.n_distinct != 1)
            return f"{count}, more than {config.NUMERIC_STATES}" if self.kind.kind == "numeric" else count
        return "text" if self.is_text else "true and false" if dtype == pl.Boolean else "categories"

    def _levels(self) -> tuple[LevelCount, ...]:
        pairs = [] if self.counts is None else list(self.counts.head(MOST_LEVELS).iter_rows())
        if self.kind.kind == "ordinal":
            order = {str(label): k for k, label in enumerate(self.kind.order)}
            pairs.sort(key=lambda pair: order.get(str(pair[0]), 0) if order else pair[0])
        return tuple(LevelCount(cut_text(format_value(label).replace("\n", " "), 60), rows) for label, rows in pairs)

    def _ranges(self, numbers: pl.Series) -> tuple[LevelCount, ...]:
        finite = numbers.to_numpy()[np.isfinite(numbers.to_numpy())]
        rows, limits = np.histogram(finite, RANGES) if len(finite) else (np.zeros(0), np.zeros(1))
        ends = [self._from_physical(float(limit)) for limit in limits]
        return tuple(LevelCount(f"{ends[k]} to {ends[k + 1]}", int(count)) for k, count in enumerate(rows))

    def _from_physical(self, number: float) -> str:
        """Return a number as text; that of a column of dates as a date."""
        if not self.values.dtype.is_temporal():
            return format_value(number)
        return format_value(pl.Series([int(number)]).cast(self.values.dtype)[0])

    def _role(self, decimal: str) -> Finding | None:
        """Return the finding that the column is empty, an identifier, free text, or dates or numbers kept as text."""
        if not len(self.known):
            return Finding("empty", "no values at all")
        if self.is_text:
            return self._role_of_text(decimal)
        is_whole = self.values.dtype.is_numeric() and self.traits.numbers and not self.traits.fractions
        if is_whole and self.kind.kind == "numeric":
            return self._role_of_integers()
        if self.counts is not None and is_identifier(self.n_distinct, len(self.known)):
            return Finding("identifier", self._count_distinct())
        return None

    def _role_of_text(self, decimal: str) -> Finding | None:
        levels = self.counts["level"] if self.counts is not None else self.known.unique()
        if _are_mostly(levels, DATE):
            are_dates = levels.str.contains(DATE)
            formats = date_formats(levels.filter(are_dates).str.strip_chars())
            readable = ("", "date", "day-first or month-first")[len(formats)]
            how = ", day or month first" if len(formats) > 1 else ""
            return _kept_as_text("dates as text", levels, are_dates, how, readable)
        if _are_mostly(levels, WRITTEN_NUMBER) and not levels.str.contains(r"^\s*[+-]?0\d").any():
            are_numbers = levels.str.contains(WRITTEN_NUMBER)
            frame = levels.filter(are_numbers).to_frame()
            marks = (decimal, *",.")
            readable = next((mark for mark in marks if type_columns(frame, (), mark).dtypes[0].is_numeric()), "")
            hows = {"": ", with commas or units", ",": ", with a decimal comma", ".": ", with a decimal point"}
            how = (hows | {decimal: ""})[readable]
            return _kept_as_text("numbers as text", levels, are_numbers, how, readable)
        if self._is_free_text():
            return Finding("free text", f"{self._count_distinct()}, long")
        return Finding("identifier", self._count_distinct()) if self.is_mostly_different else None

    def _is_free_text(self) -> bool:
        if self.counts is None or not self.n_distinct > FREE_LEVELS:
            return False
        counts = self.counts.filter(~are_text_codes(self.counts["level"]))
        rows, n = counts["rows"], max(int(counts["rows"].sum()), 1)
        length = (counts["level"].str.len_chars() * rows).sum() / n
        words = (counts["level"].str.count_matches(r"\S+") * rows).sum() / n
        return length >= LONG_TEXT and words >= MANY_WORDS and n <= ROWS_OF_LEVEL * counts.height

    def _role_of_integers(self) -> Finding | None:
        """Return a finding if integers are numbered rows, or different; some are identifiers by their name."""
        if not self.is_mostly_different:
            return None
        low, high, n = int(self.known.min()), int(self.known.max()), len(self.known)  # type: ignore[arg-type]
        consecutive = high - low == n - 1 and self.n_distinct == n
        years = low >= YEARS[0] and high <= YEARS[1]
        if IDENTIFIER_NAME.search(self.values.name) or (consecutive and not years) or high > LARGEST_EXACT:
            return Finding("identifier", self._count_distinct() + ", consecutive" * consecutive)
        return Finding("all different", self._count_distinct()) if self.n_distinct == n else None

    def _count_distinct(self) -> str:
        if self.n_distinct == len(self.known):
            return f"{len(self.known):,} values, all different"
        return f"{self.n_distinct:,} different values in {len(self.known):,} cells"

    def _left_out(self, role: Finding | None) -> str:
        """Return why the column cannot be learned from, or an empty text."""
        if role is None or role.type == "all different":
            return ""
        if role.type == "free text":
            return "free text" if self.n_distinct > FREE_SHARE * len(self.known) else ""
        if role.type in ("empty", "identifier"):
            return {"empty": "empty", "identifier": "an identifier"}[role.type]
        return f"{role.type}, nearly all different" if self.is_mostly_different else ""

    def _findings_in_values(self, role: Finding | None) -> Iterator[Finding]:
        """Yield findings about the values of a column that can be learned from."""
        if role is not None and role.type == "free text":
            return
        codes = self._missing_codes()
        if codes:
            shown = ", ".join(f"{_label(code)} ({rows:,} row{'s' * (rows != 1)})" for code, rows in codes.items())
            yield Finding("missing codes", shown, tuple(codes))
        if self.n_distinct == 1:
            yield Finding("constant", f"only {_label(str(self.known[0]))}")
        if not self.is_text or self.counts is None or self.kind.kind != "nominal":
            return
        if self.n_distinct > MANY_LEVELS:
            yield Finding("many levels", f"{self.n_distinct:,}")
            return
        order = find_order([level for level in self.counts["level"] if level not in codes])
        if order:
            yield Finding("ordered levels", f"from {_label(order[0])!r} to {_label(order[-1])!r}", order)

    def _missing_codes(self) -> dict[str, int]:
        """Return {value that may mean a missing one: its number of rows}."""
        if self.is_text and self.counts is not None and self.n_distinct > 1:
            levels = self.counts["level"].str.strip_chars()
            # Among words, positive numbers are suspicious, too.
            among_words = (~levels.str.contains(r"\d")).sum() >= 3
            numbers = [str(code) for code in NUMBER_CODES if code <= -9 or (among_words and code >= 9)]
            codes = self.counts.filter(are_text_codes(levels) | levels.is_in(numbers))
            return dict(codes.head(MOST_CODES).iter_rows())
        ends = (self.known.min(), self.known.max())
        if not self.values.dtype.is_numeric() or not any(end in NUMBER_CODES for end in ends):
            return {}
        values = self.known.cast(pl.Float64)
        are_codes = values.is_in([float(code) for code in NUMBER_CODES])
        others = values.filter(~are_codes).unique().to_numpy()
        counts = dict(values.filter(are_codes).alias("code").value_counts(name="rows").iter_rows())
        return _far_codes(counts, others, ordinal=self.kind.kind == "ordinal")


def _far_codes(counts: Mapping[float, int], others: np.ndarray, *, ordinal: bool) -> dict[str, int]:
    """Return codes outside the range of other numbers by its width, or negative where no other number is.

    In an ordinal column without gaps, 8, 9, 98 and 99 are suspected if they are only 2 beyond: 1 to 7, and 9.
    """
    if not len(others):
        return {}
    low, high, far = others.min(), others.max(), {}
    near = (8, 9, 98, 99) if ordinal and len(others) == high - low + 1 else ()
    # The nearest first: a code that is not far is one of the other values, and the range grows by it.
    for code in sorted(counts, key=lambda code: max(low - code, code - high)):
        gap = max(low - code, code - high)
        if gap > 0 and (code < 0 <= low or gap >= max(high - low, 2.0) or (code in near and gap >= 2)):
            far[f"{code:.0f}"] = counts[code]
        else:
            low, high = min(low, code), max(high, code)
    return far


def are_text_codes(levels: pl.Series) -> pl.Series:
    """Return which levels are texts for missing answers."""
    return levels.str.strip_chars().str.to_lowercase().is_in(list(TEXT_CODES))


def _are_mostly(levels: pl.Series, pattern: str) -> bool:
    """Return whether at least `ENOUGH` of the levels that are no missing codes, and three, match a pattern."""
    for part in (levels.head(100), levels):  # most columns of text show in their first levels that they are
        part = part.filter(~are_text_codes(part))
        if len(part) < 3 or int(part.str.contains(pattern).sum()) < ENOUGH * len(part):
            return False
    return True


def _kept_as_text(type: FindingType, levels: pl.Series, fits: pl.Series, how: str, readable: str) -> Finding:
    """Return the finding of numbers or dates that are kept as text, with an example and the texts that are none."""
    others = levels.filter(~fits).to_list()
    shown = ", ".join(repr(_label(level)) for level in others[:SHOWN_LEVELS])
    more = f" and {len(others) - SHOWN_LEVELS:,} more" if len(others) > SHOWN_LEVELS else ""
    example = levels.filter(fits)[0]
    text = f"such as {example!r}{how}" + (f", except {shown}{more}" if others else "")
    return Finding(type, text, tuple(others), readable)


def find_order(levels: Sequence[str]) -> tuple[str, ...]:
    """Return levels in ascending order if all of them are of one known scale, each of another place; else nothing.

    Examples
    --------
    >>> find_order(["Agree", "Disagree", "Strongly agree", "Neutral"])
    ('Disagree', 'Neutral', 'Agree', 'Strongly agree')
    >>> find_order(["red", "green", "blue"])
    ()
    """
    words = [" ".join(level.lower().replace("/", "-").split()) for level in levels]
    for scale in SCALES if len(levels) > 2 else ():
        place = {word: k for k, same in enumerate(scale.split("|")) for word in same.split("/")}
        places = [place.get(word, -1) for word in words]
        if min(places) >= 0 and len(set(places)) == len(levels):
            return tuple(level for _, level in sorted(zip(places, levels, strict=True)))
    return ()


def cut_text(text: str, longest: int) -> str:
    """Return the first characters of a text; three dots stand for the rest."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _label(text: str) -> str:
    return cut_text(text, LABEL_LENGTH)


def format_value(value: Any) -> str:
    """Return a value as short text: a number with four digits, and whole numbers with all of them.

    Examples
    --------
    >>> format_value(3.0), format_value(0.123456), format_value(123456)
    ('3', '0.1235', '123456')
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else f"{value:.4g}"
