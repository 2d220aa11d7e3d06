"""Descriptions of the columns of a table: kind and why, levels, missing codes, identifiers, other text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from sparsefield import config
from sparsefield.app.tables.values import date_formats, numbers_of, type_columns
from sparsefield.data.column_summaries import ColumnSummary, ColumnTraits
from sparsefield.data.frames import Source
from sparsefield.data.schema import Kind
from sparsefield.data.schema_learning import is_identifier, kind_of
from sparsefield.errors import count, list_first

FindingType = Literal[
    "empty", "identifier", "free text", "dates as text", "numbers as text", "codes", "missing codes",
    "constant", "many levels", "outside the scale",
]  # fmt: skip
"""What may be found about a column."""

MOST_CODES, MOST_LEVELS, RANGES, SHOWN_LEVELS, LABEL_LENGTH = 10, 20, 12, 3, 24
"""Numbers of suspected values, levels and ranges of one column that are named, and the length of a name."""

FEW_VALUES = 10
"""Columns with at most this many values are not taken for identifiers."""

MANY_LEVELS = 50
"""Number of levels of a column of text beyond which most of them are too rare to be learned from."""

IDENTIFIER_NAME = re.compile(
    r"(?i:(?:^|[\W_])(?:id|ids|nr|key|uuid|guid|idx|index|respondent|participant|subject|record|case|serial|row)(?:[\W_]|$))"
    r"|^$|^[Uu]nnamed|[a-z]I[dD]$"
)
"""Names that identifiers have: respondent, customer_id, PassengerId; that of a pandas index is empty in a CSV."""

CODE_NAME = re.compile(r"(?i:(?:^|[\W_])(?:plz|zip|zipcode|postcode|postal|code|nr|id)(?:[\W_]|$))")
"""Names of whole numbers that are codes: plz, zip_code, school_nr."""

POSTCODE_NAME = re.compile(r"(?i:(?:^|[\W_])(?:plz|zip|zipcode|postcode|postal)(?:[\W_]|$))")
"""Names of codes that may begin with a zero."""

YEARS = (1500, 2200)
LARGEST_EXACT = 2**53
"""Larger integers are not numbers that a fit accepts."""

FEWEST_OF_SCALE, FEW_CELLS = 30, 2
"""Cells of a scale, at least, and of a typing error in it, at most."""

NUMBERED_SPAN = 1.5
"""Different whole numbers are those of rows, some of them removed, if their range is at most so many times as long."""

MANY_WORDS = 4
"""Nearly all different cells with so many words on average are free text."""

ENOUGH = 0.8
"""Smallest share of the levels that are dates or numbers in a column that is said to hold them."""

DATE = (
    r"^\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})|\d{1,2} [A-Za-z]{3,9}\.? \d{4})"
    r"([T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?\s*([+-]\d{2}:?\d{2}|Z)?)?\s*$"
)
WRITTEN_NUMBER = (
    r"^\s*[$€£]?\s*[+-]?((\d+|\d{1,3}([,. ']\d{3})+)([.,]\d*)?|\.\d+)([eE][+-]?\d+)?"
    r"\s*(?i:%|€|[$]|£|°C|[cmk]?m|[mk]?g|m?l|min|h|USD|EUR)?\.?\s*$"
)

NUMBER_CODES = tuple(sign * int(digit * length) for digit in "789" for length in range(1, 6) for sign in (-1, 1))
NUMBER_CODES += tuple(sign * code for code in (97, 98, 997, 998, 9997, 9998) for sign in (-1, 1))
"""Numbers that surveys use for missing answers; they are suspected only if they are far from all other values."""

TEXT_CODES = [
    "", "-", "--", "---", ".", "..", "?", "??", "x", "n/a", "#n/a", "na", "n.a.", "n. a.", "nan", "null", "nil",
    "missing", "unknown", "not known", "not available", "not applicable", "not stated", "not specified", "dk",
    "no answer", "no response", "refused", "don't know", "don\u2019t know", "dont know", "do not know",
    "prefer not to say", "prefer not to answer", "undisclosed", "unspecified", "k.a.", "k. a.", "k.a", "keine angabe",
    "keine angaben", "ohne angabe", "unbekannt", "weiß nicht", "weiss nicht", "keine antwort", "verweigert",
]  # fmt: skip
"""Texts for missing answers, in lower case and without spaces at their ends."""


@dataclass(frozen=True)
class LevelCount:
    """A level of a column, or a range of numbers, and the number of rows that have it."""

    label: str
    rows: int


@dataclass(frozen=True)
class Finding:
    """Something about a column that deserves a look before a fit: what was found, in a few words with the numbers."""

    type: FindingType
    text: str
    values: tuple[str, ...] = ()
    """The values that it is about: missing codes, or texts that are no numbers or dates."""
    readable: bool = False
    """Whether numbers or dates that are kept as text can be read if those values are missing."""


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
    range : str
        The limits and the median of numbers and dates; otherwise empty.
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
    levels: tuple[LevelCount, ...]
    range: str
    findings: tuple[Finding, ...]
    left_out: str

    @property
    def missing_share(self) -> float:
        """Share of the cells that are missing."""
        return self.n_missing / self.n_rows if self.n_rows else 0.0

    @property
    def n_values(self) -> int:
        """Number of cells that are not missing."""
        return self.n_rows - self.n_missing

    def finding(self, *types: FindingType) -> Finding | None:
        """Return the first finding of one of the types, or None."""
        return next((finding for finding in self.findings if finding.type in types), None)

    @property
    def other_texts(self) -> tuple[str, ...]:
        """Texts such as "k.A." among numbers or dates; as missing values they leave a column of numbers or dates.

        Empty if they do not, or if they are too many, or have a comma, which separates the values of an option.
        """
        texts = self.finding("numbers as text", "dates as text")
        if texts is None or not texts.readable or len(texts.values) > MOST_CODES:
            return ()
        return () if any("," in text for text in texts.values) else texts.values

    def describe_values(self) -> str:
        """Return the range of a number, or the levels with their shares."""
        if self.range:
            return self.range
        rest = self.n_distinct - len(self.levels)
        shown = [f"{level.label} {level.rows / self.n_values:.0%}" for level in self.levels]
        return ", ".join(shown) + (f", {rest:,} more" if rest > 0 else "")

    def describe_findings(self) -> str:
        """Return the findings in one line."""
        return "; ".join(f"{finding.type}: {finding.text}" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as values that JSON can express."""
        return asdict(self) | {"missing_share": self.missing_share}


def describe_column(values: pl.Series, source: Source, decimal: str = ".") -> ColumnEntry:
    """Return the description of a column of a table, and of the same table as a frame of polars with other types.

    ``decimal`` is the decimal mark of the file that was read.
    """
    traits = ColumnTraits(values.null_count() == len(values))
    is_frame = source.kind not in ("array", "sparse")
    if not is_frame or source.native[:, source.names.index(values.name)].dtype != nw.String:  # text needs no look
        try:
            traits = ColumnSummary.of(source, values.name).traits
        except ValueError:  # cells that a fit refuses, such as lists or infinity
            traits = ColumnTraits(values.dtype.is_float(), values.dtype.is_float())
    column = _Column(values, traits)
    role = column.find_role(decimal)
    left_out = column.why_left_out(role)
    findings = [] if role is None else [role]
    if role is None or role.values or not left_out:
        findings += column.findings_in_values()
    sizes = len(values), values.null_count(), column.n_distinct
    return ColumnEntry(
        values.name, column.kind, column.reason(), *sizes, *column.describe_values(), tuple(findings), left_out
    )


class _Column:
    """A column of values, with the levels of one that is not numeric."""

    def __init__(self, values: pl.Series, traits: ColumnTraits) -> None:
        self.values, self.traits, self.column_kind = values, traits, kind_of(traits)
        self.kind: Kind = self.column_kind.kind
        self.known, self.is_text = values.drop_nulls(), values.dtype == pl.String

    @cached_property
    def counts(self) -> pl.DataFrame:
        """Distinct values, the most frequent first, with their numbers of rows."""
        counts = self.known.alias("level").value_counts(name="rows")
        return counts.sort("rows", "level", descending=[True, False])

    @cached_property
    def n_distinct(self) -> int:
        return self.known.n_unique() if self.kind == "numeric" else self.counts.height

    @cached_property
    def is_mostly_different(self) -> bool:
        n = len(self.known)
        return is_identifier(self.n_distinct, n) or (n > FEW_VALUES and self.n_distinct == n)

    def reason(self) -> str:
        """Return why the column has its kind, by the rules of `kind_of`."""
        if not len(self.known):
            return "no values"
        if self.traits.order:
            return "an ordered categorical type"
        if self.kind == "numeric" and self.traits.fractions:
            return "dates or times" if self.values.dtype.is_temporal() else "numbers with fractions"
        if self.traits.numbers:
            number = count(self.n_distinct, "different whole number")
            return f"{number}, more than {config.NUMERIC_STATES}" if self.kind == "numeric" else number
        return "text" if self.is_text else "true and false" if self.values.dtype == pl.Boolean else "categories"

    def describe_values(self) -> tuple[tuple[LevelCount, ...], str]:
        """Return the levels; or ranges of numbers, and their limits and median in words."""
        if self.kind != "numeric":
            pairs = list(self.counts.head(MOST_LEVELS).iter_rows())
            if self.kind == "ordinal":
                order = {str(label): k for k, label in enumerate(self.column_kind.order)}
                pairs.sort(key=lambda pair: order.get(str(pair[0]), 0) if order else pair[0])
            texts = [(cut_text(format_value(label).replace("\n", " "), 60), rows) for label, rows in pairs]
            return tuple(LevelCount(text, rows) for text, rows in texts), ""
        numbers = self.known.to_physical().cast(pl.Float64)
        halves = numbers.filter(numbers.is_finite()).to_numpy() / 2  # whose differences are finite, too
        low = halves.min() if len(halves) else 0.0
        rows, limits = np.histogram(halves - low, RANGES)  # since values may differ in their last digits only
        ends = pl.Series([*(2 * (limits + low)), numbers.median()])
        if self.values.dtype.is_temporal():
            ends = ends.cast(pl.Int64).cast(self.values.dtype)
        *texts, median = map(format_value, ends)
        ranges = tuple(LevelCount(f"{texts[k]} to {texts[k + 1]}", int(number)) for k, number in enumerate(rows))
        low, high = format_value(self.known.min()), format_value(self.known.max())
        return ranges, f"{low} to {high}, median {median}" if len(numbers) else ""

    def find_role(self, decimal: str) -> Finding | None:
        """Return the finding that a column is empty, an identifier, codes, free text, or text of dates or numbers."""
        n, is_unlearnable = len(self.known), False
        if not n:
            return Finding("empty", "no values at all")
        values = f"{self.n_distinct:,} different values in {n:,} cells"
        if self.is_text:
            if written := self._dates_or_numbers(decimal):
                return written
            is_unlearnable = self.is_mostly_different
            many = is_unlearnable or (self.n_distinct > MANY_LEVELS and 2 * self.n_distinct > n)
            words: Any = self.known.str.count_matches(r"\S+").mean()
            if many and words >= MANY_WORDS:
                return Finding("free text", f"{values}, long")
        elif self.kind != "numeric":
            is_unlearnable = is_identifier(self.n_distinct, n)
        elif self.values.dtype.is_numeric() and not self.traits.fractions:
            low, high = int(self.known.min()), int(self.known.max())  # type: ignore[arg-type]
            years, digits = YEARS[0] <= low and high <= YEARS[1], len(str(high))
            span = n if n <= config.IDENTIFIER_STATES else NUMBERED_SPAN * n
            consecutive = high - low < span and self.n_distinct == n and not years
            if self.is_mostly_different:
                is_named = IDENTIFIER_NAME.search(self.values.name) is not None
                is_unlearnable = is_named or consecutive or high > LARGEST_EXACT
            is_code = CODE_NAME.search(self.values.name) or self.is_mostly_different
            least = digits - 1 - bool(POSTCODE_NAME.search(self.values.name))  # 01067 is the number 1067
            if is_code and not is_unlearnable and not years and low >= 10**least > 10:
                return Finding("codes", f"{self.n_distinct:,} different whole numbers of {digits} digits")
        return Finding("identifier", values) if is_unlearnable else None

    def _dates_or_numbers(self, decimal: str) -> Finding | None:
        """Return the finding of dates or numbers that are kept as text, with an example and the texts that are none."""
        levels, how = self.counts["level"], ""
        type: FindingType
        if _are_mostly(levels, DATE):
            type, fits = "dates as text", levels.str.contains(DATE)
            formats = date_formats(levels.filter(fits).str.strip_chars())
            is_readable, how = len(formats) == 1, ", day or month first" * (len(formats) > 1)
        elif _are_mostly(levels, WRITTEN_NUMBER) and not levels.str.contains(r"^\s*[+-]?0\d").any():
            type, fits = "numbers as text", levels.str.contains(WRITTEN_NUMBER)
            is_readable = type_columns(levels.filter(fits).to_frame(), (), decimal).dtypes[0].is_numeric()
            how = "" if is_readable else ", with another decimal mark or units"
            plain = levels.filter(numbers_of(levels, decimal).is_not_null())
            if not is_readable and len(plain) >= ENOUGH * int(fits.sum()):
                odd = [text for text in levels.filter(fits) if text not in set(plain)]
                how = f", but not {list_first([f'{text!r} (row {self._row(text)})' for text in odd], SHOWN_LEVELS)}"
        else:
            return None
        others = tuple(levels.filter(~fits))
        text = f"such as {levels.filter(fits)[0]!r}{how}" + (f", except {_shown(others)}" if others else "")
        return Finding(type, text, others, is_readable)

    def why_left_out(self, role: Finding | None) -> str:
        """Return why the column cannot be learned from, or an empty text."""
        if role is None or (role.type == "codes" and not CODE_NAME.search(self.values.name)):
            return ""
        if role.type in ("empty", "identifier", "free text"):
            return "an identifier" if role.type == "identifier" else role.type
        if role.readable and role.values and self.n_distinct > config.NUMERIC_STATES:
            return f"{role.type}, because of {_shown(role.values)}"
        return f"{role.type}, nearly all different" if self.is_mostly_different else ""

    def findings_in_values(self) -> Iterator[Finding]:
        """Yield findings about the values of a column that can be learned from."""
        codes = self._missing_codes()
        if codes:
            shown = ", ".join(f"{cut_text(code)} ({count(rows, 'row')})" for code, rows in codes.items())
            yield Finding("missing codes", shown, tuple(codes))
        if outside := self._outside_scale(codes):
            rows = [f"{text} (row {self._row(text)})" for text in outside]
            yield Finding("outside the scale", ", ".join(rows), outside)
        if self.n_distinct == 1:
            yield Finding("constant", f"only {cut_text(str(self.known[0]))}")
        if self.is_text and self.kind == "nominal" and self.n_distinct > MANY_LEVELS:
            yield Finding("many levels", f"{self.n_distinct:,}")

    def _row(self, value: str) -> int:
        """Return the first row with a value, counted from 1."""
        texts = self.values.cast(pl.String).str.strip_suffix("" if self.is_text else ".0")
        return int((texts == value).fill_null(False).arg_max() or 0) + 1

    def _outside_scale(self, codes: Mapping[str, int]) -> tuple[str, ...]:
        """Return whole numbers in a cell or two beyond a scale without gaps, such as 55 or 0 beside 1 to 5."""
        if self.kind != "ordinal" or not self.values.dtype.is_numeric() or len(self.known) < FEWEST_OF_SCALE:
            return ()
        levels = {value: rows for value, rows in self.counts.iter_rows() if f"{value:.0f}" not in codes}
        scale = [value for value, rows in levels.items() if rows > FEW_CELLS]
        if len(scale) < 3 or max(scale) - min(scale) >= len(scale):
            return ()
        low, high = min(scale), max(scale)
        return tuple(f"{value:.0f}" for value in levels if not low - (low != 1) <= value <= high + 1)

    def _missing_codes(self) -> dict[str, int]:
        """Return {value that may mean a missing one: its number of rows}."""
        if self.is_text and self.n_distinct > 1:
            levels = self.counts["level"].str.strip_chars()
            # Among words, positive numbers are suspicious, too.
            among_words = (~levels.str.contains(r"\d")).sum() >= 2
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
        return _far_codes(counts, others, ordinal=self.kind == "ordinal") if len(others) else {}


def _shown(texts: Sequence[str]) -> str:
    return list_first([repr(cut_text(text)) for text in texts], SHOWN_LEVELS)


def _far_codes(counts: Mapping[float, int], others: np.ndarray, *, ordinal: bool) -> dict[str, int]:
    """Return codes outside the range of other numbers by its width, or negative where no other number is.

    In an ordinal column without gaps, 8, 9, 98 and 99 are suspected if they are only 2 beyond: 1 to 7, and 9.
    """
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
    return levels.str.strip_chars().str.to_lowercase().is_in(TEXT_CODES)


def _are_mostly(levels: pl.Series, pattern: str) -> bool:
    """Return whether at least `ENOUGH` of the levels that are no missing codes, and three, match a pattern."""
    for part in (levels.head(100), levels):  # most columns of text show in their first levels that they are
        part = part.filter(~are_text_codes(part))
        if len(part) < 3 or int(part.str.contains(pattern).sum()) < ENOUGH * len(part):
            return False
    return True


def cut_text(text: str, longest: int = LABEL_LENGTH) -> str:
    """Return the first characters of a text; three dots stand for the rest."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


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
