"""``sparsefield inspect`` describes the columns of a table before anything is learned from it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import StatusLine, new_table, show, show_json
from sparsefield.app.cli.input_data import ColumnOptions, is_linked, is_matrix, with_column_options
from sparsefield.app.cli.table_checks import describe_columns
from sparsefield.app.cli.table_files import check_output
from sparsefield.app.tables.read import STANDARD_INPUT, read_source
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.app.tables.write import refuse_overwriting_inputs
from sparsefield.errors import DataError

if TYPE_CHECKING:
    from sparsefield.app.tables.codebook import Codebook

PAGES = (".html", ".htm")

Table = Annotated[Path, typer.Argument(metavar="DATA", help=opt.TABLE_HELP)]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Also write an HTML page with a distribution of each column."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, all columns included, instead of a table.")]
AllColumns = Annotated[
    bool, typer.Option("--all", help="Show all columns of a wide table, instead of those with findings first.")
]


@opt.with_shared_options()
def inspect(
    data: Table,
    *,
    output: Output = None,
    as_json: Json = False,
    all_columns: AllColumns = False,
    columns: ColumnOptions,
    weight: opt.Weight = None,
    group: opt.Group = None,
    reading: ReadOptions,
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
    columns = replace(columns, weight=weight, group=group)
    book = _read_codebook(data, reading, columns)
    if output is not None:
        from sparsefield.app.pages.page import write_codebook

        write_codebook(book, output, title=f"Codebook of {data.name}")
    if as_json:
        show_json(book.to_dict())
        return
    _show(book, all_columns)
    if book.options and str(data) != STANDARD_INPUT:
        show(f"\nAll of it in one command, once you agree:\n{_fit_command(data, book, reading, columns)}")
    if output is not None:
        show(f"\nWrote {output}.")


def _read_codebook(data: Path, reading: ReadOptions, columns: ColumnOptions) -> Codebook:
    if is_matrix(data):
        raise DataError(f"{data}: a sparse 0/1 matrix has no columns to describe: pass a CSV or Parquet file.")
    if is_linked(data):
        raise DataError(f"{data}: linked tables are inspected one at a time: pass the CSV or Parquet file of a table.")
    with StatusLine("Reading"):
        found, roles = with_column_options(read_source(data, reading), columns)
        return describe_columns(
            found.table.drop(dict.fromkeys(roles.not_learned)),
            roles.observed,
            roles.kinds,
            strict=columns.strict,
            top_levels=columns.top_levels,
            decimal=found.format.decimal,
            source=f"{data.name} is read as {found.format.describe()}.",
        ).book


def _fit_command(data: Path, book: Codebook, reading: ReadOptions, columns: ColumnOptions) -> str:
    """Return the command that fits the table with the given options and those of the advice."""
    words = shlex.join(["sparsefield", "fit", str(data), "-o", "model.safetensors"])
    return " ".join(part for part in (words, reading.as_words(), columns.as_options(), book.options) if part)


def _show(book: Codebook, all_columns: bool) -> None:
    from sparsefield.app.tables.codebook import HEADINGS, table_row

    for line in (book.source, book.describe_size(), book.describe_findings()):
        if line:
            show(line)
    shown = book.shown_columns(all_columns)
    table = new_table(*HEADINGS, left=len(HEADINGS))
    table.columns[3].justify = "right"
    table.columns[-1].no_wrap = False
    for entry in shown:
        table.add_row(*table_row(entry))
    show()
    show(table)
    if len(shown) < len(book):
        show(f"\n{len(book) - len(shown):,} columns not shown: --all shows them.")
    if book.advice:
        show("\nAdvice:\n" + "\n".join(f"- {one}" for one in book.advice))
