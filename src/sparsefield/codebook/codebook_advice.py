"""This module turns the findings of a codebook into advice, with the options of the command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from sparsefield.codebook.column_entries import Advice, ColumnEntry, FindingType, column_option, list_names

TOP_LEVELS = 20
"""Number of levels that the advice proposes to keep."""


MOST_DUPLICATES = 5
"""Number of repeated columns that have a sentence each."""


def give_advice(columns: Sequence[ColumnEntry]) -> list[Advice]:
    """Return advice about the findings of columns, the most important first, grouped by what to do."""
    return [*_leave_out(columns), *_missing(columns), *_texts(columns), *_others(columns)]


def _having(columns: Sequence[ColumnEntry], type: FindingType) -> list[ColumnEntry]:
    return [entry for entry in columns if entry.finding(type) is not None]


def _say(entries: Sequence[ColumnEntry], one: str, several: str, option: str = "") -> Iterator[Advice]:
    """Yield one sentence about columns, if there are any; ``option`` names them unless it has a value."""
    names = tuple(entry.name for entry in entries)
    if names:
        text = f"{list_names(names)} {one if len(names) == 1 else several}"
        written = column_option(option, names) if option and " " not in option else option
        yield Advice(text, names, written)


def _leave_out(columns: Sequence[ColumnEntry]) -> Iterator[Advice]:
    yield from _say(
        _having(columns, "identifier"),
        "is an identifier, which cannot be learned",
        "are identifiers, which cannot be learned",
        "--id",
    )
    yield from _say(_having(columns, "free text"), "is free text", "are free text", "--id")
    yield from _say(_having(columns, "empty"), "has no values", "have no values", "--id")
    yield from _say(
        _having(columns, "constant"), "is constant and says nothing", "are constant and say nothing", "--id"
    )
    yield from _duplicates(_having(columns, "duplicate"))
    yield from _say(
        _having(columns, "all different"),
        "is all different: if it is an identifier",
        "are all different: if they are identifiers",
        "--id",
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


def _missing(columns: Sequence[ColumnEntry]) -> Iterator[Advice]:
    entries = _having(columns, "missing codes")
    numbers = [entry for entry in _having(columns, "numbers as text") if entry not in entries]
    found = [(entry, entry.finding("missing codes")) for entry in entries]
    found += [(entry, entry.finding("numbers as text")) for entry in numbers]
    codes = list(dict.fromkeys(code for _, finding in found if finding for code in finding.values if code.strip()))
    if codes:
        names = tuple(entry.name for entry, finding in found if finding and any(finding.values))
        shown = ", ".join(repr(code) for code in codes[:5]) + (f" and {len(codes) - 5} more" if len(codes) > 5 else "")
        text = f"{list_names(names)}: {shown} may mean a missing value; the option is for all columns"
        freed = [entry.name for entry in columns if entry.other_texts]
        if freed:
            text += f", and makes {list_names(freed)} numeric"
        yield Advice(text, names, " ".join(f"--missing {shlex.quote(code)}" for code in codes))


def _texts(columns: Sequence[ColumnEntry]) -> Iterator[Advice]:
    numbers = [(entry, entry.finding("numbers as text")) for entry in _having(columns, "numbers as text")]
    plain = [entry for entry, finding in numbers if finding and not finding.values]
    written = [entry for entry, finding in numbers if finding and finding.values == ("",)]
    yield from _say(plain, "has numbers kept as text", "have numbers kept as text", "--numeric")
    yield from _say(
        written,
        "has numbers with commas or units; write 1234.5 to use them as numbers",
        "have numbers with commas or units; write 1234.5 to use them as numbers",
    )
    yield from _dates(_having(columns, "dates as text"))
    yield from _orders(_having(columns, "ordered levels"))


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
        plain = [name for name in names if not {",", "="} & set(name)]  # others cannot be named with their levels
        options = " ".join(f"--ordinal {shlex.quote(f'{name}={order}')}" for name in plain)
        yield Advice(f"{list_names(names)} {have} ordered; check the order, lowest first", tuple(names), options)


def _dates(entries: Sequence[ColumnEntry]) -> Iterator[Advice]:
    found = [(entry, entry.finding("dates as text")) for entry in entries]
    unclear = [entry for entry, finding in found if finding and finding.values]
    yield from _say(
        unclear,
        "has dates in which the day or the month may come first; decide with --dates day-first or",
        "have dates in which the day or the month may come first; decide with --dates day-first or",
        "--dates month-first",
    )
    yield from _say(
        [entry for entry in entries if entry not in unclear],
        "has dates kept as text; write all of them alike, such as 2024-01-31, or convert them to a type of dates",
        "have dates kept as text; write all of them alike, such as 2024-01-31, or convert them to a type of dates",
    )


def _others(columns: Sequence[ColumnEntry]) -> Iterator[Advice]:
    many = [entry for entry in _having(columns, "many levels") if not entry.other_texts]
    yield from _say(many, "has many levels", "have many levels", f"--top-levels {TOP_LEVELS}")
    yield from _say(
        _having(columns, "spelling"),
        "has levels that differ only in case or spaces; write them in one way",
        "have levels that differ only in case or spaces; write them in one way",
    )
