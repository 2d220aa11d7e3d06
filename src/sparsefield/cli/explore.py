"""``sparsefield explore`` serves an interactive page about a model on this machine."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.cli import options as opt
from sparsefield.cli.console import StatusLine, print_message, show
from sparsefield.cli.imputation import prepare_table
from sparsefield.cli.input_data import is_linked, is_matrix, read_linked
from sparsefield.cli.table_files import ReadOptions, list_columns, read_table, resolve_separator
from sparsefield.errors import DataError

if TYPE_CHECKING:
    from sparsefield.viz.explorer.table_rows import TableRows

DataArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="[DATA]",
        help="Show the rows of this table (CSV or Parquet), or of linked tables (their TOML file or its folder).",
    ),
]
Port = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="Serve the page on this port; 0 chooses a free one.")
]
Open = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]


def explore(
    model: opt.Model,
    data: DataArgument = None,
    port: Port = 0,
    open_page: Open = False,
    missing: opt.Missing = None,
    no_header: opt.NoHeader = False,
    separator: opt.Separator = None,
) -> None:
    """Explore a model: its network, beliefs under evidence, and, with data, rows and their missing values.

    The page is served on this machine only and needs its address, which contains a secret token. Ctrl-C stops it.
    Nothing is written: values that are accepted on the page are lost unless the table is downloaded.
    """
    if find_spec("dash") is None or find_spec("dash_cytoscape") is None:
        raise DataError('The explorer needs Dash, which is not installed: pip install "sparsefield[explore]".')
    from sparsefield import load
    from sparsefield.viz.explorer.server import serve
    from sparsefield.viz.explorer.session import open_session

    field: Any = load(model)
    reading = ReadOptions(tuple(missing or ()), not no_header, separator)
    with StatusLine("Reading"):
        rows = None if data is None else read_rows(field, model, data, reading)
        session = open_session(model.name, field, rows)

    with TemporaryDirectory(prefix="sparsefield-") as folder:

        def ready(address: str) -> None:
            show(address)
            print_message("Open this address in a browser on this machine. Press Ctrl-C to stop.")
            if open_page:
                typer.launch(str(_redirect_page(Path(folder), address)))

        serve(session, port=port, ready=ready)
    print_message("Stopped.")


def _redirect_page(folder: Path, address: str) -> Path:
    """Write a page that redirects to the address, because other users can see the arguments of a process."""
    path = folder / "explore.html"
    path.write_text(f'<!DOCTYPE html><meta http-equiv="refresh" content="0; url={address}">', encoding="utf-8")
    return path


def read_rows(field: Any, model: Path, data: Path, reading: ReadOptions) -> TableRows:
    """Read the tables, with the columns and types of the model."""
    from sparsefield import RelationalField
    from sparsefield.viz.explorer.table_rows import InputTable, TableRows

    if is_matrix(data):
        raise DataError(f"{data}: rows of a sparse matrix cannot be shown: omit DATA to explore the model alone.")
    linked = isinstance(field, RelationalField)
    if linked != is_linked(data):
        what = "linked tables: pass their TOML file" if linked else "one table: pass a CSV or Parquet file"
        raise DataError(f"{data}: {model} is a {type(field).__name__} of {what}.")
    layout = field.field_.layout
    if not linked:
        raw, schema = read_table(data, reading, as_text=True), layout.schemas[0]
        if not set(schema.order) & set(raw.columns):
            raise DataError(f"No column of the model is in the table; the model has {list_columns(schema.order)}.")
        prepared = prepare_table(raw, schema, reading.markers(data))
        separator = resolve_separator(data, reading.separator)
        return TableRows(
            field,
            {
                "": InputTable(
                    raw, prepared.table, prepared.missing, f"{data.stem}-completed.csv", separator, reading.header
                )
            },
        )
    parsed = read_linked(data, reading)
    tables, known = {}, {}
    for name, schema in zip(layout.tables, layout.schemas, strict=True):
        if name not in parsed.data.tables:
            raise DataError(f"Table {name!r} of the model does not exist in the data.")
        file = parsed.files.get(name)
        raw = parsed.data.tables[name] if file is None else file.read(as_text=True)
        prepared = prepare_table(raw, schema, [] if file is None else file.reading.markers(file.path), name)
        known[name] = parsed.data.tables[name].with_columns(prepared.table.get_columns())
        separator = "," if file is None else resolve_separator(file.path, file.reading.separator)
        header = file is None or file.reading.header
        key = parsed.data.keys.get(name)
        tables[name] = InputTable(
            raw, prepared.table, prepared.missing, f"{name}-completed.csv", separator, header, key
        )
    return TableRows(field, tables, parsed.data.with_tables(known))
