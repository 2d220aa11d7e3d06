"""``sparsefield stability`` reports how often the features of a model are selected from halves of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import ProgressBar, new_table, note, show, show_json
from sparsefield.app.cli.input_data import linked_inputs
from sparsefield.app.cli.model_input import open_model, read_weights_for_model
from sparsefield.app.cli.model_rows import model_parts, read_rows
from sparsefield.app.cli.table_files import check_output
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.app.tables.write import refuse_overwriting_inputs
from sparsefield.errors import DataError

if TYPE_CHECKING:
    from sparsefield.model import Field

SHOWN_FEATURES = 10
RECORDED = ("resamples", "seed", "l1", "halved", "mean_pairs")
"""Entries of the record of stability selection that JSON has."""

Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="File for the model with its selection frequencies. Default: MODEL."
    ),
]
Resamples = Annotated[int, typer.Option("--resamples", min=2, help="Number of halves to learn from; an even number.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON with all features instead of a table.")]
Seed = Annotated[int, opt.running_option("--seed", min=0, help="Random seed of the halves.")]


@opt.with_shared_options()
def stability(
    model: opt.Model,
    data: opt.Data,
    *,
    output: Output = None,
    resamples: Resamples = 50,
    as_json: Json = False,
    weight: opt.Weight = None,
    reading: ReadOptions,
    seed: Seed = 0,
    jobs: opt.Jobs = None,
) -> None:
    """Stability selection: learn from random halves of the rows, and report how often each feature is selected.

    DATA is the table that the model was learned from. Halves are drawn in pairs that share no row. Each fit has the
    options of the model, and its l1 times the square root of 1/2, because the noise in a gradient grows with the square
    root of the number of rows. The selection frequencies are added to the model file; 'report' and 'explore' show them.
    """
    target = model if output is None else output
    check_output(target)
    refuse_overwriting_inputs([target], [data, *linked_inputs(data)])
    saved = open_model(model, data)
    rows = read_rows(saved, data, reading)
    if weight is not None and not hasattr(rows, "select"):
        raise DataError("--weight names a column of one table: remove it for linked tables and sparse matrices.")
    weights = read_weights_for_model(data, reading, saved, weight)
    field = saved.load(jobs)
    X, y = model_parts(field, rows)
    from sparsefield.analysis.stability import stability as select_again

    with ProgressBar(f"Learning from {resamples:,} halves") as meter:
        select_again(field, X, resamples, y=y, sample_weight=weights, random_state=seed, progress=meter.show_progress)
    field.save(target)
    if as_json:
        show_json({"model": str(target), **_content(field.field_)})
        return
    _show(field)
    show(f"\nWrote {target}.")


def _content(field: Field) -> dict[str, Any]:
    """Return the selection frequencies as values that JSON can express."""
    from sparsefield.analysis.feature_sentences import list_features
    from sparsefield.app.pages.fit_summary import describe_stability, often_left_out, stability_column

    features, how = list_features(field), field.record.stability
    share = stability_column(field, features)
    return {
        **({} if how is None else {name: getattr(how, name) for name in RECORDED}),
        "features": [{**feature.as_dict(), "selected": share[feature.name]} for feature in features],
        "left_out": [{**feature.as_dict(), "selected": found} for feature, found in often_left_out(field)],
        "summary": describe_stability(field, features),
    }


def _show(field: Any) -> None:
    from sparsefield.analysis.feature_sentences import list_features
    from sparsefield.app.pages.fit_summary import describe_stability, stability_column

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
