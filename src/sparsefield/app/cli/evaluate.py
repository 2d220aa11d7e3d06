"""This module defines ``sparsefield evaluate``: cross-validated predictions of held-out cells, as in the paper."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import StatusLine, new_table, note, show, show_json
from sparsefield.app.cli.fit_results import name_baseline, show_if_nothing_learned
from sparsefield.app.cli.input_data import ColumnOptions, InputData, read_data
from sparsefield.app.cli.joint_likelihood import JointLikelihood
from sparsefield.app.cli.row_evaluation import evaluate_rows, refuse_rows_without_inputs, show_rows
from sparsefield.app.tables.read_options import ReadOptions

if TYPE_CHECKING:
    from sparsefield.analysis.hold_out import Evaluation, Fold
    from sparsefield.analysis.label_evaluation import LabelFolds
    from sparsefield.analysis.metrics import ColumnEvaluation
    from sparsefield.app.cli.options import AnyField

MEASURES = {"ap": "AP", "ap_positive": "AP (positive)", "cll": "CLL", "error_rate": "error", "rmse": "RMSE / SD"}

MOST_COLUMNS = 50
"""Number of columns that are shown one by one."""

Inductions = Annotated[
    list[str] | None,
    opt.learning_option(
        "--induction",
        help="Rule that adds features: cfi (the default), cfi-paper, grafting, ideal-parent or full. Repeat it to "
        "compare rules.",
    ),
]
Folds = Annotated[int, typer.Option("--folds", min=2, help="Number of folds of the cells; each is held out once.")]
Likelihood = Annotated[
    bool,
    typer.Option(
        "--likelihood",
        help="Also show the log-likelihood of the held-out cells of a row together, given its other cells.",
    ),
]
WholeRows = Annotated[
    bool,
    typer.Option(
        "--whole-rows",
        help="Hold out whole rows instead of cells: all columns of a row that are not observed are its labels, which "
        "are predicted from the observed ones and scored together.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, every fold included, instead of a table.")]


@opt.with_shared_options(without=("induction",))
def evaluate(
    data: opt.Data,
    *,
    folds: Folds = 10,
    likelihood: Likelihood = False,
    whole_rows: WholeRows = False,
    as_json: Json = False,
    columns: ColumnOptions,
    weight: opt.Weight = None,
    reading: ReadOptions,
    template: opt.Templates = None,
    induction: Inductions = None,
    latent: opt.Latent = None,
    learning: opt.LearningOptions,
    jobs: opt.Jobs = None,
    seed: opt.Seed = 0,
) -> None:
    """Cross-validate over cells: hold out a part of them, learn from the others, and predict the held-out ones.

    The table shows the mean (and standard deviation) over folds. AP is average precision: all states of all held-out
    cells are ranked by probability, and the true states are the relevant ones. AP (positive) ranks the cells of 0/1
    columns by the probability of 1. CLL is the mean natural log of the probability of the true state. These are about
    nominal and ordinal columns; --json also has the relative root mean squared error of numeric ones (rmse). With
    --weight, rows have weights in fits and in scores.

    With --likelihood, a line follows with the mean over rows of the natural log of the joint probability of their
    held-out cells given all others. It is exact where the missing and held-out cells of a row depend on each other
    narrowly, and otherwise estimated by annealed importance sampling, with its standard error.

    With --whole-rows, the table has the measures of multi-label classification: Hamming loss (the share of wrong
    labels), subset accuracy (the share of rows with no wrong label), and micro and macro F1; for labels that are
    decoded one by one, each its most probable state, and jointly, the most probable combination.
    """
    if whole_rows and likelihood:
        raise typer.BadParameter("--likelihood is about held-out cells, and --whole-rows holds out rows: leave one out")
    given = read_data(data, reading, replace(columns, weight=weight))
    learning["selection"] = learning["selection"] or "heldout"
    if whole_rows:
        refuse_rows_without_inputs(given, latent)
    found: dict[str, Any] = {}
    likelihoods: dict[str, JointLikelihood] = {}
    for name in induction or ["cfi"]:
        field = opt.make_estimator(given, template, learning, jobs=jobs, seed=seed, latent=latent, induction=name)
        if whole_rows:
            found[name] = evaluate_rows(field, name, given, folds, seed)
            continue
        if likelihood:
            likelihoods[name] = JointLikelihood(given)
        found[name] = _evaluate(field, name, given, folds, seed, likelihoods.get(name))
    if as_json:
        about = {"data": str(data), "folds": folds, "seed": seed, "observed": given.observed, "weight": weight}
        options = {name.rpartition("__")[2]: value for name, value in learning.items()} | {"kinds": given.kinds}
        options |= {"templates": template} if given.linked else {}
        results = [{"induction": name, **evaluation.as_dict()} for name, evaluation in found.items()]
        for result in results if likelihoods else ():
            result["joint_log_likelihood"] = likelihoods[result["induction"]].as_dict()
        show_json({**about, "options": options, "results": results})
    elif whole_rows:
        _show_rows(found)
    else:
        _show(found, given)
        for name, watched in likelihoods.items():
            show(f"\n{name}: {watched.describe()}")


def _evaluate(
    field: AnyField, name: str, given: InputData, folds: int, seed: int, watched: JointLikelihood | None
) -> Evaluation:
    from sparsefield.analysis.hold_out import evaluate as run

    done: list[Fold] = []
    with StatusLine(f"{name}, {folds} folds") as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one note below replaces a warning per fold

        def progress(fold: Fold) -> None:
            done.append(fold)
            watch.update(f"{len(done)} done")

        options: dict[str, Any] = {"sample_weight": given.weight, "on_fit": watched}
        evaluation = run(given.X, field, folds, given.observed, seed, progress, **options)
    early = sum(not fold.converged for fold in done)
    chosen = field.get_params()
    if early:
        limited = any(fold.iterations >= chosen["solver__max_iter"] for fold in done if not fold.converged)
        certified = "give a larger --l1 or --l2" if chosen["solver__certify"] else "add --certify"
        remedy = "raise --max-iter" if limited else certified
        note(f"{name}: {early} of {folds} fits stopped before they converged; {remedy}.")
    return evaluation


def _show_rows(found: dict[str, LabelFolds]) -> None:
    show_rows(found)
    for name, folds in found.items():
        show(f"\nBy label{f', {name}' if len(found) > 1 else ''}:")
        _show_columns(folds.columns)


def _show(found: dict[str, Evaluation], given: InputData) -> None:
    first = next(iter(found.values()))
    measures = [name for name in MEASURES if not math.isnan(first.spread(name).mean)]
    table = new_table("", *(MEASURES[name] for name in measures), "time", "induced", "active")
    for name, evaluation in found.items():
        scores = [_figure(evaluation, measure, "{:.3f}") for measure in measures]
        costs = [_figure(evaluation, "seconds", "{:.2f}") + " s"]
        costs += [_figure(evaluation, measure, "{:,.0f}") for measure in ("induced", "active")]
        table.add_row(name, *scores, *costs)
    table.add_row(
        name_baseline(numbers="rmse" in measures), *(_figure(first, f"frequency_{name}", "{:.3f}") for name in measures)
    )
    show(table)
    for name, evaluation in found.items():
        show(f"\nBy column{f', {name}' if len(found) > 1 else ''}:")
        _show_columns(evaluation.columns)
        if not evaluation.shows_dependence:
            show()
        show_if_nothing_learned(evaluation, given)


def _show_columns(columns: Sequence[ColumnEvaluation]) -> None:
    table = new_table("column", "kind", "cells", "loss", "baseline", "error", "baseline", "calibration", left=2)
    for column in columns[:MOST_COLUMNS]:
        losses = (f"{loss:.3f}" for loss in (column.loss, column.baseline_loss))
        errors = (_error_of(column, error) for error in (column.error, column.baseline_error))
        exact = column.coverage if column.kind == "numeric" else column.calibration_error
        calibration = f"{exact:.0%} in 90%" if column.kind == "numeric" else f"{exact:.1%} off"
        table.add_row(column.name, column.kind, f"{column.cells:,}", *losses, *errors, calibration)
    show(table)
    if len(columns) > MOST_COLUMNS:
        show(f"... and {len(columns) - MOST_COLUMNS:,} more: --json lists all.")


def _error_of(column: ColumnEvaluation, error: float) -> str:
    from sparsefield.data.number_text import write_number

    number = f"{write_number(error, 3)} {column.unit}".rstrip()
    return {"nominal": f"{error:.1%}", "ordinal": f"{error:.2f} levels", "numeric": number}[column.kind]


def _figure(evaluation: Evaluation, measure: str, form: str) -> str:
    spread = evaluation.spread(measure)
    return f"{form.format(spread.mean)} ({form.format(spread.sd)})"
