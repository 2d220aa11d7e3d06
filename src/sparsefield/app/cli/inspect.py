"""``sparsefield inspect`` describes the columns of a table before anything is learned from it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import PAGES, StatusLine, check_output, deliver, new_table
from sparsefield.app.cli.inputs import ColumnOptions, describe_columns, form_of
from sparsefield.app.tables.read import STANDARD_INPUT, read_source
from sparsefield.app.tables.write import refuse_overwriting_inputs
from sparsefield.errors import DataError

if TYPE_CHECKING:
    from rich.table import Table

    from sparsefield.app.tables.codebook import Codebook


@opt.expanded
def inspect(
    *,
    data: opt.OneTable,
    output: Annotated[
        Path | None, opt.output_option("Also write an HTML page with a distribution of each column.")
    ] = None,
    all_columns: Annotated[
        bool, typer.Option("--all", help="Show all columns of a wide table, instead of those with findings first.")
    ] = False,
    as_json: opt.Json = False,
    columns: ColumnOptions,
    weight: opt.Weight = None,
    group: opt.Group = None,
    reading: opt.ReadingOptions,
) -> None:
    """Describe the columns of a table: their kinds and levels, missing values, and what deserves a look before a fit.

    Findings are suspected codes of missing values such as -99 or "k.A.", identifiers, free text, dates and numbers that
    are kept as text, constant and empty columns, and many levels of text.
    The advice at the end has the options to give to 'fit'; with them, 'inspect' shows the table as 'fit' will see it. A
    kind in parentheses is that of a column that 'fit' leaves out unless an option names it.
    """
    if output is not None:
        check_output(output, PAGES)
        refuse_overwriting_inputs([output], [data])
    form = form_of(data)
    if form != "table" and not (form == "matrix" and data.is_dir()):
        what = (
            "a sparse 0/1 matrix has no columns to describe"
            if form == "matrix"
            else "linked tables are inspected one at a time"
        )
        raise DataError(f"{data}: {what}: pass the CSV or Parquet file of a table.")
    options = reading.reading()
    with StatusLine("Reading"):
        source = read_source(data, options)
        about = f"{data.name} is read as {source.format.describe()}."
        _, book, _ = describe_columns(source, columns, weight=weight, group=group, about=about)
    if output is not None:
        from sparsefield.app.pages.page import write_codebook

        write_codebook(book, output, title=f"Codebook of {data.name}")
    words = [shlex.join(["sparsefield", "fit", str(data), "-o", "model.safetensors"]), options.as_words()]
    roles = [word for option, name in (("--weight", weight), ("--group", group)) if name for word in (option, name)]
    words += [columns.as_options(), shlex.join(roles), book.options]
    command = " ".join(word for word in words if word) if book.options and str(data) != STANDARD_INPUT else ""
    written = [] if output is None else [output]
    deliver(_describe(book, all_columns, command), book.to_dict, as_json=as_json, written=written)


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
