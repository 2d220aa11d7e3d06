"""``sparsefield explore``: look around in a model, on a page of this machine."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.cli import options as opt
from sparsefield.cli.console import Watch, say, show
from sparsefield.cli.imputation import as_known
from sparsefield.cli.input_data import is_linked, is_matrix, read_linked
from sparsefield.cli.table_files import Reading, listed, read_table, separator_of
from sparsefield.errors import DataError

if TYPE_CHECKING:
    from sparsefield.viz.explorer.table_rows import TableRows

Given = Annotated[
    Path | None,
    typer.Argument(
        metavar="[DATA]",
        help="Table whose rows to look at, CSV or Parquet; or a TOML file that describes linked tables, or its folder.",
    ),
]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of the page; a free one unless told.")]
Open = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]


def explore(
    model: opt.Model,
    data: Given = None,
    port: Port = 0,
    open_page: Open = False,
    missing: opt.Missing = None,
    no_header: opt.NoHeader = False,
    separator: opt.Separator = None,
) -> None:
    """Look around in a model: its network, beliefs under evidence, and, with data, rows and their gaps.

    The page is for this machine alone, and for whoever has its address, which holds a secret word. It ends with
    Ctrl-C. Nothing is written: values that are accepted on the page are lost unless the table is downloaded.
    """
    if find_spec("dash") is None or find_spec("dash_cytoscape") is None:
        raise DataError('The explorer is a Dash page, and Dash is not installed: pip install "sparsefield[explore]".')
    from sparsefield import load
    from sparsefield.viz.explorer.server import serve
    from sparsefield.viz.explorer.session import open_session

    field: Any = load(model)
    reading = Reading(tuple(missing or ()), not no_header, separator)
    with Watch("Reading"):
        rows = None if data is None else read_rows(field, model, data, reading)
        session = open_session(model.name, field, rows)

    with TemporaryDirectory(prefix="sparsefield-") as folder:

        def ready(address: str) -> None:
            show(address)
            say("Open this address in a browser on this machine. Ctrl-C ends it.")
            if open_page:
                typer.launch(str(_signpost(Path(folder), address)))

        serve(session, port=port, ready=ready)
    say("Ended.")


def _signpost(folder: Path, address: str) -> Path:
    """A file that leads to the address: other users of the machine see what programs are started with."""
    path = folder / "explore.html"
    path.write_text(f'<!DOCTYPE html><meta http-equiv="refresh" content="0; url={address}">', encoding="utf-8")
    return path


def read_rows(field: Any, model: Path, data: Path, reading: Reading) -> TableRows:
    """The tables to look at, as the model sees them."""
    from sparsefield import RelationalField
    from sparsefield.viz.explorer.table_rows import InputTable, TableRows

    if is_matrix(data):
        raise DataError(f"{data}: the rows of a sparse matrix cannot be shown yet; leave it out to explore the model.")
    linked = isinstance(field, RelationalField)
    if linked != is_linked(data):
        what = "linked tables: give the TOML file that describes them" if linked else "one table: give a CSV or Parquet"
        raise DataError(f"{data}: {model} holds a {type(field).__name__}, which is over {what}.")
    layout = field.field_.layout
    if not linked:
        raw, schema = read_table(data, reading, as_text=True), layout.schemas[0]
        if not set(schema.order) & set(raw.columns):
            raise DataError(f"No column of the model is in the table; the model has {listed(schema.order)}.")
        asked = as_known(raw, schema, reading.markers(data))
        mark = separator_of(data, reading.separator)
        return TableRows(
            field,
            {"": InputTable(raw, asked.table, asked.missing, f"{data.stem}-completed.csv", mark, reading.header)},
        )
    described = read_linked(data, reading)
    tables, known = {}, {}
    for name, schema in zip(layout.tables, layout.schemas, strict=True):
        if name not in described.data.tables:
            raise DataError(f"Table {name!r}, which the field was learned with, is not there.")
        file = described.files.get(name)
        raw = described.data.tables[name] if file is None else file.read(as_text=True)
        asked = as_known(raw, schema, [] if file is None else file.reading.markers(file.path), name)
        known[name] = described.data.tables[name].with_columns(asked.table.get_columns())
        mark = "," if file is None else separator_of(file.path, file.reading.separator)
        header = file is None or file.reading.header
        key = described.data.keys.get(name)
        tables[name] = InputTable(raw, asked.table, asked.missing, f"{name}-completed.csv", mark, header, key)
    return TableRows(field, tables, described.data.with_tables(known))
