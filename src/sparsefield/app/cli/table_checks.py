"""Checks of a table before a fit: what cannot be learned is left out, and that is said once for all columns."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sparsefield.app.cli.console import note
from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl

    from sparsefield.app.tables.codebook import Codebook
    from sparsefield.app.tables.column_findings import ColumnEntry, FindingType

SHOWN_NAMES = 10
FINDINGS_OF_KIND: tuple[FindingType, ...] = (
    "identifier",
    "free text",
    "dates as text",
    "numbers as text",
    "ordered levels",
)
"""Findings that an option about the kind of a column answers."""

KEEP = (
    "name a column with --nominal, --numeric or --observed to keep it, or with --id to leave it out without this note"
)


def check_table(
    table: pl.DataFrame,
    observed: Sequence[str],
    kinds: Mapping[str, str],
    *,
    strict: bool = False,
    top_levels: int | None = None,
    decimal: str = ".",
) -> tuple[pl.DataFrame, Codebook]:
    """Return a table without identifiers, free text and empty columns, and its codebook; print notes about columns.

    Columns that an option names, observed or with a kind, are kept.

    Raises
    ------
    DataError
        If a column that an option names cannot be learned, no column is left, or, if ``strict``, one is left out.
    """
    table, book = describe_columns(table, observed, kinds, strict=strict, top_levels=top_levels, decimal=decimal)
    _print_notes(book, top_levels)
    _print_orders(table, kinds)
    table = table.drop(book.left_out)
    if top_levels is not None:
        named = {*observed, *kinds}
        table = group_levels(table, [name for name in table.columns if name not in named], top_levels)
    return table, book


def describe_columns(
    table: pl.DataFrame,
    observed: Sequence[str],
    kinds: Mapping[str, str],
    *,
    strict: bool = False,
    top_levels: int | None = None,
    decimal: str = ".",
    source: str = "",
) -> tuple[pl.DataFrame, Codebook]:
    """Return a table with the codebook of all its columns that options give to it; refuse what `check_table` does."""
    from sparsefield.app.tables.codebook import inspect
    from sparsefield.data.schema_learning import given_kinds

    named = {*observed, *kinds}
    if top_levels is not None:  # before the inspection, which might find that they are identifiers
        text = [name for name in table.columns if name in named and kinds.get(name, "nominal") == "nominal"]
        table = group_levels(table, text, top_levels)
    book = inspect(table, source=source, decimal=decimal)
    of_options = {name: kind.kind for name, kind in given_kinds(kinds, table.columns).items()}
    entries = []
    for entry in book.columns:
        answered = FINDINGS_OF_KIND if entry.name in of_options else ()
        answered += ("many levels",) if top_levels is not None else ()
        left_out = "" if entry.name in named else entry.left_out
        findings = tuple(finding for finding in entry.findings if finding.type not in answered)
        kind = of_options.get(entry.name, entry.kind)
        entries.append(replace(entry, kind=kind, left_out=left_out, findings=findings))
    book = replace(book, columns=tuple(entries))
    _refuse(book, named, strict=strict)
    return table, book


def group_levels(table: pl.DataFrame, names: list[str], most: int) -> pl.DataFrame:
    """Return a table in which columns of text have their most frequent levels, and "(other)" for the rest.

    Of equally frequent levels the first in alphabetical order are kept.
    """
    import polars as pl

    from sparsefield.app.tables.fill import OTHER_LEVEL

    columns = []
    for name in names:
        column = table[name]
        if column.dtype not in (pl.String, pl.Categorical):  # an Enum is ordered
            continue
        column = column.cast(pl.String)
        levels = column.drop_nulls().alias("level")
        counts = levels.value_counts(name="rows").sort("rows", "level", descending=[True, False])
        if counts.height > most:
            kept = column.is_in(counts["level"].head(most).to_list())
            columns.append(column.set(~kept, OTHER_LEVEL))  # a null is neither
    return table.with_columns(columns)


def _refuse(book: Codebook, named: set[str], *, strict: bool) -> None:
    """Raise one error about all columns that cannot be learned although an option names them, or all if strict."""
    from sparsefield.app.tables.codebook import column_option
    from sparsefield.data.schema_learning import is_identifier

    problems = []
    for entry in book.columns:
        if entry.name in named and not entry.n_values:
            problems.append(f"column {entry.name!r} has no values at all")
        elif entry.name in named and entry.kind != "numeric" and is_identifier(entry.n_distinct, entry.n_values):
            problems.append(
                f"column {entry.name!r} has {entry.n_distinct:,} different values in {entry.n_values:,} cells"
            )
    if problems:
        text = "; ".join(problems)
        remedy = "group its values (--top-levels 20), or leave it out (--id)."
        raise DataError(f"{text[:1].upper()}{text[1:]}: {remedy}")
    dropped = [entry for entry in book.columns if entry.left_out]
    if dropped and strict:
        remedy = f"leave them out with {column_option('--id', [entry.name for entry in dropped])}, or drop --strict"
        raise DataError(f"These columns cannot be learned: {_list(dropped)}: {remedy}.")
    if len(dropped) == len(book):
        raise DataError(f"No column can be learned: {_list(dropped)}; name those to keep with --nominal or --numeric.")


def _print_notes(book: Codebook, top_levels: int | None) -> None:
    """Print what is left out, and what the others have that is worth a look, a line for each type of finding."""
    dropped = [entry for entry in book.columns if entry.left_out]
    kept = [entry for entry in book.columns if not entry.left_out]
    if dropped:
        note(f"Left out: {_list(dropped)}; {KEEP}.")
    constant = [entry.name for entry in kept if entry.finding("constant")]
    if constant:
        note(f"Constant: {_names(constant)}; a column with one value says nothing about others.")
    _print_other_texts(book)
    many = [entry for entry in kept if entry.finding("many levels") and not entry.other_texts]
    if many and top_levels is None:
        shown = _names([entry.name for entry in many], [f"{entry.n_distinct:,}" for entry in many])
        note(f"Many levels: {shown}; --top-levels 20 keeps the most frequent ones and groups the others.")


def _print_other_texts(book: Codebook) -> None:
    """Print which texts keep columns from being read as numbers or dates, a line for columns with the same texts."""
    groups: dict[tuple[str, ...], list[ColumnEntry]] = {}
    for entry in book.columns:
        if entry.other_texts and (entry.left_out or entry.kind == "nominal"):
            groups.setdefault(tuple(sorted(entry.other_texts)), []).append(entry)
    for texts, entries in list(groups.items())[:SHOWN_NAMES]:
        one = len(entries) == 1
        option = " ".join(f"--missing {shlex.quote(text)}" for text in texts)
        dates = all(entry.finding("dates as text") for entry in entries)
        out = [entry.name for entry in entries if entry.left_out]
        rest = f"{_names(out)} cannot be learned" if out else f"{'its' if one else 'their'} values have no order"
        note(
            f"{'Column' if one else 'Columns'} {_names([entry.name for entry in entries])} {'has' if one else 'have'} "
            f"{'dates' if dates else 'numbers'} and text such as {texts[0]!r}: if this means a missing value, give "
            f"{option}; otherwise {rest}."
        )


def _print_orders(table: pl.DataFrame, kinds: Mapping[str, str]) -> None:
    """Print the order of columns of text that an option calls ordinal without giving it, which is alphabetical."""
    import polars as pl

    for name, kind in kinds.items():
        if kind == "ordinal" and name in table.columns and table[name].dtype == pl.String:
            levels = table[name].drop_nulls().unique().sort().to_list()
            order = "<".join(levels[:SHOWN_NAMES]) + ("<..." if len(levels) > SHOWN_NAMES else "")
            example = shlex.quote(f"{name}={'<'.join(reversed(levels[:3]))}")
            note(
                f"Column {name!r} is ordinal in alphabetical order: {order}. If that is not its order, give it, as in "
                f"--ordinal {example}."
            )


def _list(entries: list[ColumnEntry]) -> str:
    return _names([entry.name for entry in entries], [entry.left_out for entry in entries])


def _names(names: list[str], details: list[str] | None = None) -> str:
    shown = [f"{name!r}" + (f" ({details[k]})" if details else "") for k, name in enumerate(names[:SHOWN_NAMES])]
    rest = len(names) - SHOWN_NAMES
    return ", ".join(shown) + (f" and {rest:,} more" if rest > 0 else "")


def read_weights(table: pl.DataFrame, name: str) -> Any:
    """Return the (rows,) weights of a column; DataError unless all cells are numbers that are not negative."""
    import polars as pl

    weights = table[name].cast(pl.Float64, strict=False)
    odd = (weights.is_null() | weights.is_nan() | weights.is_infinite() | (weights < 0)).fill_null(True)
    if odd.any():
        row = odd.arg_max() or 0
        raise DataError(
            f"--weight: column {name!r} has {table[name][row]!r} in row {row + 1}: weights are numbers that are "
            "not negative, and none is missing."
        )
    return weights.to_numpy()
