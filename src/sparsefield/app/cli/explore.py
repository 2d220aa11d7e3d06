"""``sparsefield explore`` serves an interactive page about a model on this machine."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import StatusLine, print_message, show
from sparsefield.app.cli.input_data import is_linked, is_matrix, read_linked
from sparsefield.app.cli.linked_output import prepare_linked
from sparsefield.app.cli.model_input import OpenModel, open_model, read_for_model
from sparsefield.app.tables.read_options import FileFormat, ReadOptions
from sparsefield.errors import DataError
from sparsefield.model.atomic_write import write_atomically

if TYPE_CHECKING:
    from sparsefield.app.pages.table_rows import TableRows

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


@opt.with_shared_options()
def explore(
    model: opt.Model, data: DataArgument = None, *, port: Port = 0, open_page: Open = False, reading: ReadOptions
) -> None:
    """Explore a model in a browser: its network, probabilities given evidence, and, with DATA, rows to complete.

    The page is served on this machine only and needs its address, which contains a secret token. Ctrl-C stops it.
    Nothing is written: values that are accepted on the page are lost unless the table is downloaded.
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise DataError(
            'The page needs starlette and uvicorn, which are not installed: pip install "sparsefield[explore]".'
        )
    saved = open_model(model, data)
    with StatusLine("Reading"):
        rows = None if data is None else read_rows(saved, data, reading)
        from sparsefield.app.pages.server import serve
        from sparsefield.app.pages.session import Session

        session = Session((data or model).stem, saved.load() if rows is None else rows.model, rows)

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
    write_atomically(path, f'<!DOCTYPE html><meta http-equiv="refresh" content="0; url={address}">'.encode())
    return path


def read_rows(model: OpenModel, data: Path, reading: ReadOptions) -> TableRows:
    """Read the tables, with the columns and types of the model."""
    if is_matrix(data):
        raise DataError(f"{data}: rows of a sparse matrix cannot be shown: omit DATA to explore the model alone.")
    if model.linked != is_linked(data):
        what = "linked tables: pass their TOML file" if model.linked else "one table: pass a CSV or Parquet file"
        raise DataError(f"{data}: {model.path} is a {model.estimator} of {what}.")
    return _read_linked_rows(model, data, reading) if model.linked else _read_plain_rows(model, data, reading)


def _read_plain_rows(model: OpenModel, data: Path, reading: ReadOptions) -> TableRows:
    source = read_for_model(data, reading, model)
    from sparsefield.app.tables.fill import prepare_table

    raw, found = source.cells, source.format
    prepared, name = prepare_table(raw, model.field_.schema, found), f"{data.stem}-completed.csv"
    from sparsefield.app.pages.table_rows import InputTable, TableRows

    table = InputTable(raw, prepared.table, prepared.missing, name, found.separator, found.header)
    return TableRows(model.load(), {"": table})


def _read_linked_rows(model: OpenModel, data: Path, reading: ReadOptions) -> TableRows:
    parsed = read_linked(data, reading)
    given = prepare_linked(model, parsed)
    from sparsefield.app.pages.table_rows import InputTable, TableRows

    tables = {}
    for name, prepared in given.prepared.items():
        found, key = parsed.formats.get(name, FileFormat()), parsed.data.keys.get(name)
        output = f"{name}-completed.csv"
        separator, header = found.separator, found.header
        tables[name] = InputTable(given.raw[name], prepared.table, prepared.missing, output, separator, header, key)
    return TableRows(model.load(), tables, given.data)
