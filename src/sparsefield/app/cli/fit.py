"""``sparsefield fit`` learns a field from a table."""

from __future__ import annotations

import shlex
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import StatusLine, inform, note, show
from sparsefield.app.cli.fit_results import has_features, show_fit, show_fit_as_json
from sparsefield.app.cli.input_data import ColumnOptions, InputData, is_matrix, linked_inputs, read_data
from sparsefield.app.cli.matrix_data import read_named_matrix
from sparsefield.app.cli.model_input import remember_reading
from sparsefield.app.cli.table_files import check_output
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.app.tables.write import refuse_overwriting_inputs
from sparsefield.errors import DataError
from sparsefield.parameters import CHECKED_SHARE, CHECKPOINT_NAME
from sparsefield.text import count

if TYPE_CHECKING:
    from sparsefield.analysis.hold_out import Evaluation
    from sparsefield.app.cli.options import AnyField

Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="MODEL", help="File for the model, such as m.safetensors.")
]
Check = Annotated[
    bool,
    opt.running_option(
        "--check/--no-check",
        help="Fit again with a tenth of the cells held out, and report how well it predicts them.",
    ),
]
Json = Annotated[
    bool,
    opt.running_option(
        "--json", help="Print JSON with the content of the model and the scores of held-out cells instead of tables."
    ),
]
Checkpoint = Annotated[
    Path | None,
    opt.running_option(
        "--checkpoint",
        metavar="FOLDER",
        help="Save the state of the fit here every few iterations; after an interruption, the same command continues "
        "from it.",
    ),
]
Cluster = Annotated[
    str | None,
    opt.running_option(
        "--cluster",
        metavar="ADDRESS",
        help="Fit on the Dask cluster whose scheduler has this address, such as host:8786. DATA are read here and sent "
        "to the workers.",
    ),
]


@opt.with_shared_options()
def fit(
    data: opt.Data,
    output: Output,
    *,
    columns: ColumnOptions,
    weight: opt.Weight = None,
    group: opt.Group = None,
    reading: ReadOptions,
    column_names: opt.ColumnNames = None,
    template: opt.Templates = None,
    latent: opt.Latent = None,
    learning: opt.LearningOptions,
    check: Check = True,
    as_json: Json = False,
    checkpoint: Checkpoint = None,
    cluster: Cluster = None,
    jobs: opt.Jobs = None,
    seed: opt.Seed = 0,
) -> None:
    """Learn a field, a sparse Markov network, from a table with or without missing values.

    Columns are nominal, ordinal or numeric. The field has features, such as "rain=1 and wet=1 go together", each with a
    weight. DATA may also be a sparse 0/1 matrix: an .npz file of scipy, or a folder of Parquet files.

    Identifiers, free text and empty columns are left out with a note, unless an option names them; 'inspect' describes
    a table beforehand.

    Unless --l1 is a number, l1 is selected by held-out cells; --selection sets another criterion.

    Writes the field to a model file, and prints which columns go together and how much, the strongest features, whether
    the optimizer converged, and how well held-out cells of each column are predicted; or that nothing could be learned.
    """
    check_output(output)
    saved_state = None if checkpoint is None else checkpoint / CHECKPOINT_NAME
    refuse_overwriting_inputs([output, saved_state], [data, column_names, *linked_inputs(data)])
    if column_names is not None and not is_matrix(data):
        raise DataError(f"{data}: --columns has names for the columns of an .npz matrix: remove it.")
    columns = replace(columns, weight=weight, group=group)
    if column_names is not None:
        given = read_named_matrix(data, column_names, columns)
    else:
        given = read_data(data, reading, columns)
    _show_codebook(given, data, reading, columns)
    learning["selection"] = learning["selection"] or "heldout"
    field = opt.make_estimator(
        given, template, learning, jobs=jobs, seed=seed, latent=latent, solver__checkpoint=checkpoint
    )
    with _client_of(cluster) as client:
        field.set_params(solver__engine=client)
        seconds = _fit_with_progress(field, given)
    field.set_params(solver__engine=cluster)
    remember_reading(field, data, reading, given, columns.top_levels, column_names)
    field.save(output)
    checked = None
    if check and given.unchecked:
        note(f"No check: {given.unchecked}")
    elif check and has_features(field):  # a field without features predicts by column frequencies
        checked = _check_on_held_out_cells(field, given, seed)
    if as_json:
        show_fit_as_json(output, field, given, seconds, checked)
        return
    show_fit(field, given, seconds, checked)
    show(f"\nWrote {output}.")


def _show_codebook(given: InputData, data: Path, reading: ReadOptions, columns: ColumnOptions) -> None:
    """Print what is in the table, and where to read more about it, in two lines."""
    if given.book is None:
        return
    inform(f"{data.name}: {given.book.describe_size()}")
    found = given.book.describe_findings()
    if found:
        words = ["sparsefield inspect", shlex.quote(str(data)), reading.as_words(), columns.as_options()]
        inform(f"{found} More: {' '.join(word for word in words if word)}")


def _check_on_held_out_cells(field: AnyField, given: InputData, seed: int) -> Evaluation | None:
    """Return the scores of a second fit on held-out cells; None where there are too few cells."""
    from sklearn.base import clone

    from sparsefield.analysis.hold_out import TooFewCellsError, hold_out

    with StatusLine(f"Checking with {CHECKED_SHARE:.0%} of the cells held out") as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit to all cells has already given the warnings
        # l1 is that of the fit to all cells: selecting it again would take longer than the fit.
        again: Any = clone(field)
        again.set_params(l1=field.l1_, solver__checkpoint=None, solver__callbacks=opt.report_to(watch))
        try:
            return hold_out(given.X, again, CHECKED_SHARE, given.observed, seed, sample_weight=given.weight)
        except TooFewCellsError as error:
            note(f"No check: {error}")
            return None


def _fit_with_progress(field: AnyField, given: InputData) -> float:
    """Fit and return the seconds that it took."""
    started = time.perf_counter()
    with StatusLine(f"Learning from {count(given.rows, 'row')}" if given.rows else "Learning") as watch:
        field.set_params(solver__callbacks=opt.report_to(watch))
        field.fit(given.X, **given.roles)
    field.set_params(solver__callbacks=None)
    return time.perf_counter() - started


@contextmanager
def _client_of(cluster: str | None) -> Iterator[Any]:
    """Yield a client of the cluster, and print the address of its dashboard; None if the fit runs here."""
    if cluster is None:
        yield None
        return
    from sparsefield.compute.dask_engine import connect

    with connect(cluster) as client:
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        threads = sum(worker["nthreads"] for worker in workers)
        size = f"{count(len(workers), 'worker')} with {count(threads, 'thread')}"
        note(f"{size}; Dask's dashboard: {client.dashboard_link}")
        yield client
