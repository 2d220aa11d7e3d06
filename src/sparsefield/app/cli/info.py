"""``sparsefield info`` summarizes a model; ``inspect`` and ``schema`` describe tables before a fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import PAGES, StatusLine, check_output, deliver, new_table, show
from sparsefield.app.cli.inputs import ColumnOptions, describe_columns, fit_command, form_of
from sparsefield.app.cli.models import OpenModel, open_model
from sparsefield.app.pages import fit_summary
from sparsefield.app.tables.places import system_of
from sparsefield.app.tables.read import read_source
from sparsefield.app.tables.write import refuse_overwriting_inputs
from sparsefield.atomic_write import write_atomically
from sparsefield.errors import DataError, count
from sparsefield.options import as_expression
from sparsefield.parameters import FieldParameters

if TYPE_CHECKING:
    from rich.table import Table

    from sparsefield.app.tables.codebook import Codebook
    from sparsefield.model import Field

SHOWN, SHOWN_STATES = 10, 6
"""Variables and edges of a model that are printed, and states of a variable."""

DEFAULTS = {option.name: option.default for option in fields(FieldParameters)}
OWN_PARAMETERS = ("latent", "observed", "templates")
"""Parameters that only some estimators have."""

NOT_SHOWN = ("l1", "templates", "latent", "observed")


@opt.expanded
def info(*, model: opt.Model, as_json: opt.Json = False) -> None:
    """Summarize a model: its variables, states, features and options, and whether the optimizer converged.

    A model that was given, not learned, has no options and no frequencies of states.
    """
    saved = open_model(model)
    params = _params(saved)
    deliver(
        _describe_model(saved, params),
        lambda: {"model": str(model), **model_content(saved.estimator, saved.field_, params)},
        as_json=as_json,
    )


def _describe_model(model: OpenModel, params: Mapping[str, Any]) -> Iterator[str]:
    from sparsefield.app.pages.findings import describe_edges

    field = model.field_
    record, layout = field.record, field.layout
    learned, sentence = record.is_learned, fit_summary.describe_convergence(field, params)
    states = sum(len(variable.states) for schema in layout.schemas for variable in schema.targets)
    yield f"{model.path}: {model.estimator}, written by sparsefield {record.version}"
    yield f"Learned from {count(record.n_rows, 'row')} in {count(record.n_iter, 'iteration')}." if learned else sentence
    targets, observed = layout.n_targets, sum(len(schema.observed) for schema in layout.schemas)
    if layout.tables != ("",):
        yield f"Tables: {', '.join(layout.tables)}. Templates: {', '.join(t.label for t in layout.templates)}."
    yield f"Variables: {targets:,} predicted, with {count(states, 'state')}; {observed:,} observed."
    yield f"Kinds: {fit_summary.describe_kinds(field)}."
    yield f"Features: {fit_summary.describe_size(field)}."
    yield describe_edges(field)
    if model.source is not None:
        left_out = f"; left out: {', '.join(model.source.left_out)}" if model.source.left_out else ""
        yield f"Read from {model.source.file}{left_out}. Command: {model.source.command or 'unknown'}"
    if model.source is not None and (held_out := model.source.held_out) is not None:
        yield (
            f"On {count(held_out.cells, 'held-out cell')}: gain in log-likelihood per cell over column frequencies "
            f"{held_out.gain:+.3f} ± {held_out.error:.3f}; better in {held_out.better:,} of "
            f"{count(held_out.columns, 'column')}."
        )
    if learned:
        yield sentence
        how = f" (auto, by {record.criterion})" if params["l1"] == "auto" else ""
        changed = {name: value for name, value in params.items() if "__" not in name and value != DEFAULTS.get(name)}
        others = [f", {name}={as_expression(value)}" for name, value in changed.items() if name not in NOT_SHOWN]
        yield f"Options: l1={record.l1:.4g}{how}{''.join(others)}."
    yield "\nVariables:"
    named = [
        (f"{table}." if table else "", variable)
        for table, schema in zip(layout.tables, layout.schemas, strict=True)
        for variable in schema.variables
    ]
    for table, variable in named[:SHOWN]:
        yield f"  {table}{variable.name}: {fit_summary.describe_variable(variable, SHOWN_STATES, frequencies=learned)}"
    if len(named) > SHOWN:
        yield f"  ... and {len(named) - SHOWN:,} more: --json lists all."
    yield from describe_features(field, SHOWN)


def _params(model: OpenModel) -> dict[str, Any]:
    """Return all parameters, without the modules that learn and infer if all option objects are the default ones."""
    from sparsefield import config

    saved: Any = model.extra.get("params")
    defaults = DEFAULTS | dict.fromkeys(OWN_PARAMETERS)
    plain = isinstance(saved, dict) and set(saved) <= set(defaults)
    if not plain or any(isinstance(value, dict) for value in saved.values()):
        return model.load().get_params()
    own = {name: value for name, value in (defaults | saved).items() if name in saved or name not in OWN_PARAMETERS}
    return own | {"solver__kkt_tol": config.KKT_TOLERANCE, "solver__certify": True, "features__max_order": 2}


def describe_features(field: Field, number: int) -> Iterator[str]:
    """Yield the strongest edges, of those that hold, one line each: the linear feature, and one beyond that."""
    from sparsefield.analysis.network import Network
    from sparsefield.app.pages.findings import features_by_edge, is_linear

    hold = 0 if field.record.evidence is None else field.record.evidence.n_holding
    edges = features_by_edge(Network(field), min(number, hold) if hold else number)
    if edges:
        how = fit_summary.describe_weights(field)
        yield f"\nStrongest edges{' that hold' if hold else ''}{f' ({how})' if how else ''}:"
    for first, *others in edges:
        beyond = f"; beyond that, {others[0].sentence} ({others[0].weight:+.2f})" if others and is_linear(first) else ""
        yield f"{first.weight:+7.2f}  {first.sentence}{beyond}"


def model_content(estimator: str, field: Field, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a model as values that JSON can express."""
    from sparsefield.model.feature_tables import list_features

    layout, record = field.layout, field.record
    variables = [
        {"table": table, **{name: getattr(variable, name) for name in ("name", "kind", "role", "states")}}
        for table, schema in zip(layout.tables, layout.schemas, strict=True)
        for variable in schema.variables
    ]
    return {
        "estimator": estimator,
        "l1": record.l1,
        "options": {name: plain_option(value) for name, value in params.items() if "__" not in name},
        "variables": variables,
        "features": [feature.as_dict() for feature in list_features(field)],
        "record": msgspec.to_builtins(record),
    }


def plain_option(value: Any) -> Any:
    """Return an option as JSON has it, or as an expression of Python."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else as_expression(value)


# -- tables ----------------------------------------------------------------------------------------------------------


@opt.expanded
def inspect(
    *,
    data: opt.OneTable,
    output: Annotated[
        Path | None, opt.output_option("Also write an HTML page with a distribution of each column.")
    ] = None,
    all_columns: Annotated[bool, typer.Option("--all")] = False,
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

    Options:
        all_columns: Show all columns of a wide table, instead of those with findings first.
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
    command = fit_command(data, options, columns, book, weight=weight, group=group)
    written = [] if output is None else [output]
    deliver(_describe_book(book, all_columns, command), book.to_dict, as_json=as_json, written=written)


def _describe_book(book: Codebook, all_columns: bool, command: str) -> Iterator[str | Table]:
    from sparsefield.app.tables.codebook import HEADINGS, table_row

    yield from filter(None, (book.source, book.describe_size()))
    shown = book.shown_columns(all_columns)
    table = new_table(*HEADINGS, left=len(HEADINGS), rows=map(table_row, shown))
    table.columns[3].justify = "right"
    table.columns[-1].no_wrap = False
    yield ""
    yield table
    if len(shown) < len(book):
        yield f"\n{len(book) - len(shown):,} columns not shown: --all shows them."
    if book.advice:
        yield "\nAdvice:\n" + "\n".join(f"- {advice}" for advice in book.advice)
    if command:
        yield f"\nAll of it in one command, once you agree:\n{command}"


def schema(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="SQLite or DuckDB file, postgresql://USER@HOST/DATABASE, or folder of CSV, Excel or Parquet files.",
        ),
    ],
    output: Annotated[Path | None, opt.output_option("Write the schema to this TOML file, beside the data.")] = None,
) -> None:
    """Propose a schema file for linked tables: their keys and the links between them, with a remark on each guess.

    Keys and links are those that a database declares, or else guessed from names and values. Without --output the
    schema is printed. 'fit' takes DATA itself, too; edit the file where a guess is wrong.
    """
    from sparsefield.app.tables.linked import propose_schema

    if output is not None:
        check_output(output, (".toml",))
        refuse_overwriting_inputs([output], [data])
        folder = data if data.is_dir() else data.parent
        if output.resolve().parent != folder.resolve() and system_of(data) != "postgres":
            raise DataError(f"{output}: paths in a schema file are relative to it: write it into the folder {folder}.")
    proposal = propose_schema(data)
    if output is None:
        show(proposal.as_toml())
        return
    write_atomically(output, proposal.as_toml().encode())
    tables, links = (count(len(proposal.content[part]), part[:-1]) for part in ("tables", "links"))
    deliver([f"{tables}, {links}, {count(sum(map(len, proposal.notes.values())), 'remark')}."], written=[output])
