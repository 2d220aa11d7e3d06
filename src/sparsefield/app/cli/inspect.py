"""``sparsefield inspect`` describes the columns of a table before anything is learned from it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import StatusLine, deliver, new_table
from sparsefield.app.cli.inputs import ColumnOptions, is_linked, is_matrix, with_column_options
from sparsefield.app.cli.outputs import PAGES, check_output
from sparsefield.app.cli.table_checks import describe_columns
from sparsefield.app.tables.read import STANDARD_INPUT, read_source
from sparsefield.app.tables.write import refuse_overwriting_inputs
from sparsefield.errors import DataError

if TYPE_CHECKING:
    from rich.table import Table

    from sparsefield.app.tables.codebook import Codebook


def inspect(
    data: opt.OneTable,
    output: Annotated[
        Path | None, opt.output_option("Also write an HTML page with a distribution of each column.")
    ] = None,
    all_columns: Annotated[
        bool, typer.Option("--all", help="Show all columns of a wide table, instead of those with findings first.")
    ] = False,
    as_json: opt.Json = False,
    observed: opt.Observed = None,
    identifiers: opt.Identifiers = None,
    numeric: opt.Numeric = None,
    ordinal: opt.Ordinal = None,
    nominal: opt.Nominal = None,
    top_levels: opt.TopLevels = None,
    strict: opt.Strict = False,
    weight: opt.Weight = None,
    group: opt.Group = None,
    missing: opt.Missing = None,
    settings: opt.ReadSet = None,
) -> None:
    """Describe the columns of a table: their kinds and levels, missing values, and what deserves a look before a fit.

    Findings are suspected codes of missing values such as -99 or "k.A.", identifiers, free text, dates and numbers that
    are kept as text, constant and empty columns, and levels of text that are many or seem ordered.
    The advice at the end has the options to give to 'fit'; with them, 'inspect' shows the table as 'fit' will see it. A
    kind in parentheses is that of a column that 'fit' leaves out unless an option names it.
    """
    if output is not None:
        check_output(output, PAGES)
        refuse_overwriting_inputs([output], [data])
    if is_matrix(data):
        raise DataError(f"{data}: a sparse 0/1 matrix has no columns to describe: pass a CSV or Parquet file.")
    if is_linked(data):
        raise DataError(f"{data}: linked tables are inspected one at a time: pass the CSV or Parquet file of a table.")
    reading = opt.reading_options(missing, settings)
    columns = ColumnOptions(observed, identifiers, numeric, ordinal, nominal, top_levels, strict, weight, group)
    with StatusLine("Reading"):
        source, roles = with_column_options(read_source(data, reading), columns)
        _, book = describe_columns(
            source.table.drop(dict.fromkeys(roles.not_learned)),
            roles.observed,
            roles.kinds,
            strict=strict,
            top_levels=top_levels,
            decimal=source.format.decimal or ".",
            source=f"{data.name} is read as {source.format.describe()}.",
        )
    if output is not None:
        from sparsefield.app.pages.page import write_codebook

        write_codebook(book, output, title=f"Codebook of {data.name}")
    words = [shlex.join(["sparsefield", "fit", str(data), "-o", "model.safetensors"]), reading.as_words()]
    words += [columns.as_options(), book.options]
    command = " ".join(word for word in words if word) if book.options and str(data) != STANDARD_INPUT else ""
    written = [] if output is None else [output]
    deliver(lambda: _describe(book, all_columns, command), book.to_dict, as_json=as_json, written=written)


def _describe(book: Codebook, all_columns: bool, command: str) -> Iterator[str | Table]:
    from sparsefield.app.tables.codebook import HEADINGS, table_row

    yield from filter(None, (book.source, book.describe_size(), book.describe_findings()))
    shown = book.shown_columns(all_columns)
    table = new_table(*HEADINGS, left=len(HEADINGS))
    table.columns[3].justify = "right"
    table.columns[-1].no_wrap = False
    for entry in shown:
        table.add_row(*table_row(entry))
    yield ""
    yield table
    if len(shown) < len(book):
        yield f"\n{len(book) - len(shown):,} columns not shown: --all shows them."
    if book.advice:
        yield "\nAdvice:\n" + "\n".join(f"- {advice}" for advice in book.advice)
    if command:
        yield f"\nAll of it in one command, once you agree:\n{command}"
