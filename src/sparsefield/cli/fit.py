"""``sparsefield fit``: learn a field from a table."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.cli import options as opt
from sparsefield.cli.console import Watch, new_table, note, show
from sparsefield.cli.field_summary import STRONGEST, certificate, size, strongest
from sparsefield.cli.input_data import Given, is_matrix, may_be_placed, place_data, read_data, stream_data
from sparsefield.cli.linked_output import keep_inputs
from sparsefield.cli.table_files import Reading, check_output

if TYPE_CHECKING:
    from sparsefield.cli.options import AnyField
    from sparsefield.evaluation.hold_out import Fold

SHOWN_FEATURES = 10
CHECKED_SHARE = 0.1

Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="MODEL", help="File for the model, such as m.safetensors.")
]
Check = Annotated[
    bool,
    typer.Option(
        "--check/--no-check",
        help="Fit once more without a tenth of the cells, and say how well these are predicted.",
        rich_help_panel=opt.RUNNING,
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="FOLDER",
        help="Save the fit here every few iterations; the same command goes on from there after an interruption.",
        rich_help_panel=opt.RUNNING,
    ),
]
Stream = Annotated[
    bool,
    typer.Option(
        "--stream",
        help="Read DATA, Parquet or a folder of such, block by block: for more rows than memory holds. It has no gaps "
        "then, and nothing is checked on hidden cells. Temporary files go where TMPDIR says.",
        rich_help_panel=opt.READING,
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Fit on the Dask cluster whose scheduler is at this address, such as host:8786. Workers read DATA where "
        "it is Parquet; other data are read here and sent.",
        rich_help_panel=opt.RUNNING,
    ),
]
Induction = Annotated[
    str,
    typer.Option(
        "--induction",
        help="Who joins the field: cfi, grafting, ideal-parent, or full (every candidate).",
        rich_help_panel=opt.LEARNING,
    ),
]


def fit(
    data: opt.Data,
    output: Output,
    observed: opt.Observed = None,
    identifiers: opt.Identifiers = None,
    numeric: opt.Numeric = None,
    missing: opt.Missing = None,
    no_header: opt.NoHeader = False,
    separator: opt.Separator = None,
    stream: Stream = False,
    template: opt.Templates = None,
    induction: Induction = "cfi",
    objective: opt.Objective = "pl",
    latent: opt.Hidden = None,
    l1: opt.L1 = "auto",
    selection: opt.Selection = None,
    refit: opt.Refit = False,
    l2: opt.L2 = 1.0,
    threshold: opt.Threshold = 0.2,
    batch_size: opt.BatchSize = "auto",
    inference: opt.Inference = "mean-field",
    max_order: opt.MaxOrder = 2,
    lift: opt.Lift = "active",
    order_penalty: opt.OrderPenalty = 2.0,
    certify: opt.Certify = True,
    penalize_unary: opt.PenalizeUnary = False,
    max_iter: opt.MaxIter = 1000,
    check: Check = True,
    checkpoint: Checkpoint = None,
    cluster: Cluster = None,
    jobs: opt.Jobs = None,
    seed: opt.Seed = 0,
) -> None:
    """Learn a field from a table of categories with gaps, and write it to a file.

    DATA may also be a TOML file that describes linked tables, a folder with a schema.toml, or a sparse 0/1
    matrix in an .npz file of scipy's.
    Prints the strongest features, the certificate, and how well hidden cells are predicted.
    """
    check_output(output)
    reading = Reading(tuple(missing or ()), not no_header, separator)
    on_workers = cluster is not None and may_be_placed(data)
    read = read_data if is_matrix(data) else place_data if on_workers else stream_data if stream else read_data
    given = read(data, reading, observed, identifiers, numeric)
    keep_inputs([output], [data, *given.inputs])
    field = opt.make_markov_field(
        given, template, induction=induction, objective=objective, l1=opt.read_l1(l1), l2=l2,
        selection=selection or ("ebic" if stream or on_workers else "heldout"), refit=refit, threshold=threshold,
        batch_size=batch_size, inference=inference, max_order=max_order, lift=lift,
        order_penalty=order_penalty, certify=certify, penalize_unary=penalize_unary, max_iter=max_iter,
        jobs=jobs, seed=seed, latent=latent,
    )  # fmt: skip
    field.checkpoint = checkpoint
    with _client_of(cluster) as field.engine:  # pyright: ignore[reportAttributeAccessIssue]
        seconds = _learn(field, given)
    field.engine = cluster
    field.save(output)
    _report(field, seconds)
    if check and given.unchecked:
        note(f"No check: {given.unchecked}")
    elif check:
        _tell(_check(field, given, seed), auto=field.l1 == "auto")
    show(f"\nWrote {output}.")


def _check(field: AnyField, given: Given, seed: int) -> Fold | None:
    from sklearn.base import clone

    from sparsefield.evaluation.hold_out import TooFewCellsError, hold_out

    # l1 is that of the fit to all cells; choosing it anew would take longer than the fit.
    again: Any = clone(field)
    again.set_params(l1=field.l1_, checkpoint=None)
    with Watch(f"Checking with {CHECKED_SHARE:.0%} hidden") as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what there is to say was said of the fit to all cells
        again._progress = watch.step
        try:
            return hold_out(given.X, again, CHECKED_SHARE, given.observed, seed)
        except TooFewCellsError as error:
            note(f"No check: {error}")
            return None


def _learn(field: AnyField, given: Given) -> float:
    started = time.perf_counter()
    with Watch(f"Learning from {given.rows:,} rows" if given.rows else "Learning") as watch:
        field._progress = watch.step  # pyright: ignore[reportAttributeAccessIssue]
        field._hear_path = lambda point: watch.tell(  # pyright: ignore[reportAttributeAccessIssue]
            f"l1 {point.l1:.3g}, {len(point.learned.field.features):,} features"
        )
        field._reading = lambda rows: watch.tell(f"{rows:,} read")  # pyright: ignore[reportAttributeAccessIssue]
        given.fit(field)
    return time.perf_counter() - started


@contextmanager
def _client_of(cluster: str | None) -> Iterator[Any]:
    """A client of the cluster, with word of where it can be watched; None where the fit runs here."""
    if cluster is None:
        yield None
        return
    from sparsefield.compute.dask_engine import connect

    with connect(cluster) as client:
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        threads = sum(worker["nthreads"] for worker in workers)
        note(f"{len(workers)} worker(s) with {threads} thread(s); Dask's dashboard: {client.dashboard_link}")
        yield client


def _report(field: AnyField, seconds: float) -> None:
    if field.l1 == "auto":
        from sparsefield.estimators.field_estimator import SELECTIONS

        tried, by = len(field.field_.about["path"]), SELECTIONS[field.selection]
        whose = ", of a field without latent variables" if getattr(field, "latent", None) else ""
        show(f"Chose l1 = {field.l1_:.3g} among {tried} values, by {by}{whose}.")
    show(f"Learned {size(field)}; {field.n_iter_:,} iterations, {seconds:.1f} s.")
    sent = [step.get("traffic", 0) for step in field.field_.about["history"]]
    if len(sent) > 1 and sent[-1] > sent[0]:
        each = (sent[-1] - sent[0]) / (len(sent) - 1) / 1e6
        show(f"Sent to and from the cluster, beside the rows: {each:.3g} MB an iteration.")
    features = strongest(field, SHOWN_FEATURES)
    show(f"\n{STRONGEST}")
    show("\n".join(features) if features else "  none: no pair of columns depends on each other at this l1.")
    show(f"\n{certificate(field)}")


def _tell(checked: Fold | None, *, auto: bool) -> None:
    if checked is None:
        return
    chosen = " (its l1 is that of the fit above)" if auto else ""
    show(f"\nOn {checked.cells:,} hidden cells, predicted from all others by a field that never saw them{chosen}:")
    table = new_table("", "error", "CLL", "AP")
    table.add_row("this field", *_figures(checked.error_rate, checked.cll, checked.ap))
    frequencies = checked.frequency_error_rate, checked.frequency_cll, checked.frequency_ap
    table.add_row("column frequencies", *_figures(*frequencies))
    show(table)


def _figures(error_rate: float, cll: float, ap: float) -> tuple[str, str, str]:
    return f"{error_rate:.1%}", f"{cll:.3f}", f"{ap:.3f}"
