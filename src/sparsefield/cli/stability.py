"""``sparsefield stability``: how often the features of a model are selected from halves of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sparsefield.cli import options as opt
from sparsefield.cli.console import ProgressBar, new_table, note, show
from sparsefield.cli.input_data import is_linked, read_linked
from sparsefield.cli.linked_output import refuse_overwriting_inputs
from sparsefield.cli.report import read_rows
from sparsefield.cli.table_files import ReadOptions, check_output

SHOWN_FEATURES = 10

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="MODEL", help="File for the model with its stability; MODEL unless told."),
]
Resamples = Annotated[int, typer.Option("--resamples", min=2, help="How many halves; an even number.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Which halves are drawn.", rich_help_panel=opt.RUNNING)]


def stability(
    model: opt.Model,
    data: opt.Data,
    output: Output = None,
    resamples: Resamples = 50,
    missing: opt.Missing = None,
    no_header: opt.NoHeader = False,
    separator: opt.Separator = None,
    seed: Seed = 0,
    jobs: opt.Jobs = None,
) -> None:
    """Learn from halves of the rows again and again, and say how often each feature of a model is selected.

    DATA is what the model was learned from. Halves come in pairs that share no row, and are learned from with the
    model's own options; its l1 is multiplied by the square root of 1/2, since the noise that it holds down grows with
    the square root of the rows. The model is written anew with what was found, which 'report' and 'explore' show.
    """
    from sparsefield import load

    target = model if output is None else output
    check_output(target)
    refuse_overwriting_inputs([target], [data])
    field: Any = load(model)
    field.n_jobs = jobs
    if is_linked(data):
        refuse_overwriting_inputs(
            [target], read_linked(data, ReadOptions(tuple(missing or ()), not no_header, separator)).inputs
        )
    rows = read_rows(model, field, data, ReadOptions(tuple(missing or ()), not no_header, separator))
    X, y = _parts(field, rows)
    with ProgressBar(f"Learning from {resamples:,} halves") as meter:
        field.stability(X, resamples, y=y, random_state=seed, progress=meter.update)
    field.save(target)
    _show(field)
    show(f"\nWrote {target}.")


def _parts(field: Any, rows: Any) -> tuple[Any, Any]:
    """X, and the labels of a classifier. Other columns than the model's stay out."""
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
