"""This module turns the findings of a codebook into advice, with the options of the command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from sparsefield.app.tables.column_entries import FRACTIONS, Advice, ColumnEntry, FindingType, column_option, list_names

TOP_LEVELS = 20
"""Number of levels that the advice proposes to keep."""


MOST_DUPLICATES = 5
"""Number of repeated columns that have a sentence each."""

MOST_GROUPS = 6
"""Number of groups of columns whose missing codes are listed."""


def give_advice(
    columns: Sequence[ColumnEntry], decimal: str = ".", values: Mapping[str, Sequence[str]] | None = None
) -> list[Advice]:
    """Return advice about the findings of columns, the most important first, grouped by what to do.

    Parameters
    ----------
    columns : descriptions of the columns
    decimal : decimal mark with which the table was read
    values : {missing code: columns of which it is a value like others}
    """
    left = list(_leave_out(columns))
    gone = {name for one in left if not one.is_conditional for name in one.columns}
    kept = [entry for entry in columns if entry.name not in gone]
    return [*left, *_missing(kept, decimal, values or {}), *_texts(kept, decimal), *_others(kept)]


def join_options(advice: Sequence[Advice]) -> str:
    """Return the options of all advice that needs no condition, for one command; each column is left out once."""
    sure = [one for one in advice if one.option and not one.is_conditional]
    ids = [name for one in sure if one.option.startswith("--id ") for name in one.columns]
    words = [one.option for one in sure if not one.option.startswith("--id ")]
    return " ".join([column_option("--id", list(dict.fromkeys(ids))), *dict.fromkeys(words)]).strip()


def _having(columns: Sequence[ColumnEntry], type: FindingType) -> list[ColumnEntry]:
    return [entry for entry in columns if entry.finding(type) is not None]


def _say(
    entries: Sequence[ColumnEntry], one: str, several: str, option: str = "", *, is_conditional: bool = False
) -> Iterator[Advice]:
    """Yield one sentence about columns, if there are any; ``option`` names them unless it has a value."""
    names = tuple(entry.name for entry in entries)
    if names:
        text = f"{list_names(names)} {one if len(names) == 1 else several}"
        written = column_option(option, names) if option and " " not in option else option
        yield Advice(text, names, written, is_conditional)


def _leave_out(columns: Sequence[ColumnEntry]) -> Iterator[Advice]:
    yield from _say(
        _having(columns, "identifier"),
        "is an identifier, which cannot be learned",
        "are identifiers, which cannot be learned",
        "--id",
    )
    yield from _say(_having(columns, "free text"), "is free text", "are free text", "--id")
    yield from _say(
        _having(columns, "long text"),
        "has long text in many levels, and may be free text",
        "have long text in many levels, and may be free text",
        "--id",
    )
    yield from _say(_having(columns, "empty"), "has no values", "have no values", "--id")
    yield from _say(
        _having(columns, "constant"), "is constant and says nothing", "are constant and say nothing", "--id"
    )
    yield from _say(
        _having(columns, "nearly constant"),
        "is nearly constant, and too few rows differ to learn from; to leave it out",
        "are nearly constant, and too few rows differ to learn from; to leave them out",
        "--id",
        is_conditional=True,
    )
    yield from _duplicates(_having(columns, "duplicate"))
    yield from _say(
        _having(columns, "all different"),
        "is all different: if it is an identifier",
        "are all different: if they are identifiers",
        "--id",
        is_conditional=True,
    )


def _duplicates(entries: Sequence[ColumnEntry]) -> Iterator[Advice]:
    """Yield a sentence for each repeated column, or one for all if there are many."""
    if len(entries) > MOST_DUPLICATES:
        yield from _say(entries, "has", "have the same values as earlier columns", "--id")
        return
    for entry in entries:
        found = entry.finding("duplicate")
        text = f"{entry.name!r} has the {found.text if found else ''}"
        yield Advice(text, (entry.name,), column_option("--id", [entry.name]))


def _missing(columns: Sequence[ColumnEntry], decimal: str, values: Mapping[str, Sequence[str]]) -> Iterator[Advice]:
    """Yield a sentence about the codes of missing values, and the columns that become numbers or dates by them."""
    where = missing_codes_of(columns)
    safe = {code: names for code, names in where.items() if not values.get(code)}
    freed = [entry for entry in columns if entry.other_texts and all(code in safe for code in entry.other_texts)]
    mixed = _mixed_marks(columns, decimal)
    freed = [entry for entry in freed if entry not in mixed and not _has_unclear_dates(entry)]
    if safe:
        yield Advice(
            f"{_list_codes(safe)} may mean a missing value; the option is for all columns{_describe_freed(freed)}",
            tuple(dict.fromkeys(name for names in safe.values() for name in names)),
            " ".join(f"--missing {shlex.quote(code)}" for code in safe) + _decimal_option(freed, decimal),
        )
    for code, names in where.items():
        if code not in safe:
            text = f"{code!r} in {list_names(names)} may mean a missing value, but is a value like others in "
            text += f"{list_names(values[code])}; if so, empty these cells, since --missing is for all columns"
            yield Advice(text, tuple(names))


def missing_codes_of(columns: Sequence[ColumnEntry]) -> dict[str, list[str]]:
    """Return {missing code: columns that have it}, of codes that an option can name, and not of long text."""
    where: dict[str, list[str]] = {}
    for entry in columns:
        found = entry.finding("missing codes")
        codes = () if found is None or entry.finding("long text") else found.values
        for code in dict.fromkeys((*codes, *entry.other_texts)):
            if code.strip() and "," not in code:
                where.setdefault(code, []).append(entry.name)
    return where


def _list_codes(where: Mapping[str, Sequence[str]]) -> str:
    """Return codes with their columns, those of the same columns together."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for code, names in where.items():
        groups.setdefault(tuple(names), []).append(repr(code))
    shown = [f"{', '.join(codes)} in {list_names(names, 3)}" for names, codes in list(groups.items())[:MOST_GROUPS]]
    rest = len(groups) - MOST_GROUPS
    return "; ".join(shown) + (f"; and codes in {rest:,} more columns" if rest > 0 else "")


def _describe_freed(freed: Sequence[ColumnEntry]) -> str:
    """Return which columns become numbers or dates once their other texts are missing."""
    parts, types = [], cast(dict[FindingType, str], {"numbers as text": "numbers", "dates as text": "dates"})
    for type, what in types.items():
        names = [entry.name for entry in freed if entry.finding(type) is not None]
        if names:
            parts.append(f"{list_names(names)} {'a column' if len(names) == 1 else 'columns'} of {what}")
    return f", and makes {' and '.join(parts)}" if parts else ""


def _other_marks(columns: Sequence[ColumnEntry], decimal: str) -> list[ColumnEntry]:
    """Return the columns of text whose numbers have another decimal mark than the one with which the table was read."""
    numbers = [(entry, entry.finding("numbers as text")) for entry in columns]
    return [entry for entry, found in numbers if found and found.readable not in ("", decimal)]


def _mixed_marks(columns: Sequence[ColumnEntry], decimal: str) -> list[ColumnEntry]:
    """Return the columns that would need another decimal mark than columns of the same table."""
    needed = any(entry.reason == FRACTIONS for entry in columns)
    return _other_marks(columns, decimal) if needed else []


def _decimal_option(entries: Sequence[ColumnEntry], decimal: str) -> str:
    """Return the option that reads columns with another decimal mark; empty if none is needed."""
    marks = {found.readable for entry in entries if (found := entry.finding("numbers as text"))} - {decimal}
    return f" --decimal {marks.pop()}" if marks else ""


def _texts(columns: Sequence[ColumnEntry], decimal: str) -> Iterator[Advice]:
    numbers = [(entry, found) for entry in columns if (found := entry.finding("numbers as text"))]
    plain = [entry for entry, found in numbers if found.readable == decimal and not found.values]
    yield from _say(plain, "has numbers kept as text", "have numbers kept as text", "--numeric")
    mixed = _mixed_marks(columns, decimal)
    how = f"numbers with another decimal mark than other columns; write 1234{decimal}5 to use them as numbers"
    yield from _say(mixed, f"has {how}", f"have {how}")
    others = _other_marks(columns, decimal)
    marked = [entry for entry, found in numbers if entry in others and entry not in mixed and not found.values]
    how = f"numbers with a decimal {'comma' if decimal == '.' else 'point'}"
    yield from _say(marked, f"has {how}", f"have {how}", _decimal_option(marked, decimal).strip())
    yield from _corrections(columns, decimal)
    dates = _having(columns, "dates as text")
    yield from _dates([entry for entry in dates if not entry.other_texts or _has_unclear_dates(entry)])
    yield from _orders(_having(columns, "ordered levels"))


def _corrections(columns: Sequence[ColumnEntry], decimal: str) -> Iterator[Advice]:
    """Yield sentences about numbers that no option can make readable."""
    numbers = [(entry, found) for entry in columns if (found := entry.finding("numbers as text"))]
    written = f"numbers with commas or units; write 1234{decimal}5 to use them as numbers"
    odd = [entry for entry, found in numbers if not found.readable]
    yield from _say(odd, f"has {written}", f"have {written}")
    for entry, found in numbers:
        if found.readable and found.values and not entry.other_texts:
            texts = f"numbers and texts such as {found.values[0]!r}; correct these cells to use them as numbers"
            yield from _say([entry], f"has {texts}", "")


def _orders(entries: Sequence[ColumnEntry]) -> Iterator[Advice]:
    """Yield a sentence for the columns of each scale, with its levels in ascending order."""
    scales: dict[tuple[str, ...], list[str]] = {}
    for entry in entries:
        found = entry.finding("ordered levels")
        if found is not None:
            scales.setdefault(found.values, []).append(entry.name)
    for levels, names in scales.items():
        have = "has levels that seem" if len(names) == 1 else "have levels that seem"
        order = "<".join(levels)
        plain = [name for name in names if "=" not in name]  # others cannot be named with their levels
        options = f"--ordinal {shlex.quote('='.join([*plain, order]))}" if plain else ""
        yield Advice(f"{list_names(names)} {have} ordered; check the order, lowest first", tuple(names), options)


def _has_unclear_dates(entry: ColumnEntry) -> bool:
    """Return whether the day or the month may come first: then no column of dates is read without an option."""
    found = entry.finding("dates as text")
    return found is not None and found.readable.startswith("day")


def _dates(entries: Sequence[ColumnEntry]) -> Iterator[Advice]:
    unclear = [entry for entry in entries if _has_unclear_dates(entry)]
    yield from _say(
        unclear,
        "has dates in which the day or the month may come first; if it is not the day (--dates day-first)",
        "have dates in which the day or the month may come first; if it is not the day (--dates day-first)",
        "--dates month-first",
        is_conditional=True,
    )
    yield from _say(
        [entry for entry in entries if entry not in unclear],
        "has dates kept as text; write all of them alike, such as 2024-01-31, or convert them to a type of dates",
        "have dates kept as text; write all of them alike, such as 2024-01-31, or convert them to a type of dates",
    )


def _others(columns: Sequence[ColumnEntry]) -> Iterator[Advice]:
    others = [entry for entry in columns if not entry.other_texts and not entry.finding("dates as text")]
    many = _having(others, "many levels")
    yield from _say(many, "has many levels", "have many levels", f"--top-levels {TOP_LEVELS}")
    yield from _say(
        _having(columns, "spelling"),
        "has levels that differ only in case or spaces; write them in one way",
        "have levels that differ only in case or spaces; write them in one way",
    )
