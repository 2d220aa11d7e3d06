"""``sparsefield stability`` reports how often the features of a model are selected from halves of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sparsefield.cli import options as opt
from sparsefield.cli.basket_data import BasketOptions
from sparsefield.cli.console import ProgressBar, new_table, note, show
from sparsefield.cli.input_data import linked_inputs
from sparsefield.cli.remembered_reading import read_for_model
from sparsefield.cli.report import read_rows
from sparsefield.cli.table_checks import read_weights
from sparsefield.cli.table_files import check_output, find_columns
from sparsefield.errors import DataError
from sparsefield.io.output_paths import refuse_overwriting_inputs
from sparsefield.io.read_options import ReadOptions

SHOWN_FEATURES = 10

Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="File for the model with its selection frequencies. Default: MODEL."
    ),
]
Resamples = Annotated[int, typer.Option("--resamples", min=2, help="Number of halves to learn from; an even number.")]
Seed = Annotated[int, opt.running_option("--seed", min=0, help="Random seed of the halves.")]


@opt.with_shared_options()
def stability(
    model: opt.Model,
    data: opt.Data,
    *,
    output: Output = None,
    resamples: Resamples = 50,
    weight: opt.Weight = None,
    reading: ReadOptions,
    orders: BasketOptions,
    seed: Seed = 0,
    jobs: opt.Jobs = None,
) -> None:
    """Stability selection: learn from random halves of the rows, and report how often each feature is selected.

    DATA is the table that the model was learned from. Halves are drawn in pairs that share no row. Each fit has the
    options of the model, and its l1 times the square root of 1/2, because the noise in a gradient grows with the square
    root of the number of rows. The selection frequencies are added to the model file; 'report' and 'explore' show them.
    """
    from sparsefield import load

    target = model if output is None else output
    check_output(target)
    refuse_overwriting_inputs([target], [data, *linked_inputs(data)])
    field: Any = load(model)
    field.n_jobs = jobs
    rows = read_rows(model, field, data, reading, orders)
    if weight is not None and not hasattr(rows, "select"):
        raise DataError("--weight names a column of one table: remove it for linked tables and sparse matrices.")
    source = field.field_.record.source
    weight = weight or (None if source is None else source.weight)
    weights = None if weight is None else _weights(read_for_model(data, reading, field, as_text=False).table, weight)
    X, y = _parts(field, rows)
    with ProgressBar(f"Learning from {resamples:,} halves") as meter:
        field.stability(X, resamples, y=y, sample_weight=weights, random_state=seed, progress=meter.show_progress)
    field.save(target)
    _show(field)
    show(f"\nWrote {target}.")


def _weights(table: Any, weight: str) -> Any:
    return read_weights(table, find_columns([weight], table.columns, "--weight")[0])


def _parts(field: Any, rows: Any) -> tuple[Any, Any]:
    """Return X and the labels of a classifier, both without columns that the model does not have."""
    from sparsefield import CRFClassifier, RelationalField

    if isinstance(field, RelationalField) or not hasattr(rows, "select"):
        return rows, None
    schema = field.field_.schema
    if not isinstance(field, CRFClassifier):
        return rows.select(schema.input_names), None
    labels = [variable.name for variable in schema.targets]
    return rows.select([name for name in schema.input_names if name not in labels]), rows.select(labels)


def _show(field: Any) -> None:
    from sparsefield.viz.feature_sentences import list_features
    from sparsefield.viz.report.stability_text import describe_stability, stability_column

    features = list_features(field.field_)
    share = stability_column(field.field_, features)
    how = field.field_.record.stability
    show(f"{how.resamples:,} halves at l1 = {how.l1:.3g} select {how.mean_pairs:,.1f} pairs on average.\n")
    if features:
        table = new_table("weight", "selected", "strongest features", left=0)
        table.columns[2].justify = "left"
        for feature in features[:SHOWN_FEATURES]:
            table.add_row(f"{feature.weight:+.2f}", f"{share[feature.name]:.0%}", feature.sentence)
        show(table)
        show()
    else:
        note("The model has no features of two columns.")
    show("\n".join(describe_stability(field.field_, features)))
