"""``sparsefield evaluate``: cross-validated predictions of held-out cells, as in the paper, or of whole rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import StatusLine, deliver, new_table, note
from sparsefield.app.cli.fit import describe_error, describe_if_nothing_learned, name_baseline
from sparsefield.app.cli.info import plain_option
from sparsefield.app.cli.inputs import ColumnOptions, InputData, read_data
from sparsefield.errors import DataError, count

if TYPE_CHECKING:
    from rich.table import Table

    from sparsefield.analysis.hold_out import Evaluation, Fold
    from sparsefield.analysis.label_evaluation import LabelFolds
    from sparsefield.analysis.metrics import ColumnEvaluation
    from sparsefield.app.cli.options import AnyField

    Progress = Callable[[Any], None]

MEASURES = {"ap": "AP", "ap_positive": "AP (positive)", "cll": "CLL", "error_rate": "error", "rmse": "RMSE / SD"}
LABEL_MEASURES = {
    "hamming_loss": "Hamming loss",
    "subset_accuracy": "subset accuracy",
    "micro_f1": "micro F1",
    "macro_f1": "macro F1",
}
MOST_COLUMNS = 50
"""Number of columns that are shown one by one."""

MOST_NAMED = 5
"""Columns with missing labels that a message names."""


@opt.expanded
def evaluate(
    *,
    data: opt.Data,
    folds: Annotated[
        int, typer.Option("--folds", min=2, help="Number of folds of the cells; each is held out once.")
    ] = 10,
    whole_rows: Annotated[
        bool,
        typer.Option(
            "--whole-rows",
            help="Hold out whole rows instead of cells: all columns of a row that are not observed are its labels, "
            "which are predicted from the observed ones and scored together.",
        ),
    ] = False,
    as_json: opt.Json = False,
    columns: ColumnOptions,
    weight: opt.Weight = None,
    learning: opt.LearningOptions,
    jobs: opt.Jobs = None,
    seed: opt.Seed = 0,
) -> None:
    """Cross-validate over cells: hold out a part of them, learn from the others, and predict the held-out ones.

    The table shows the mean (and standard deviation) over folds. AP is average precision: all states of all held-out
    cells are ranked by probability, and the true states are the relevant ones. AP (positive) ranks the cells of 0/1
    columns by the probability of 1. CLL is the mean natural log of the probability of the true state. These are about
    nominal and ordinal columns; RMSE / SD is the root mean squared error of numeric ones over their standard
    deviation. With --weight, rows have weights in fits and in scores.

    With --whole-rows, the table has the measures of multi-label classification: Hamming loss (the share of wrong
    labels), subset accuracy (the share of rows with no wrong label), and micro and macro F1; for labels that are
    decoded one by one, each its most probable state, and jointly, the most probable combination.
    """
    dataset = read_data(data, learning.reading(), columns, weight=weight)
    if whole_rows:
        _refuse_rows_without_inputs(dataset, learning.latent)
    field = opt.make_estimator(dataset, learning, jobs=jobs, seed=seed)
    about = {"data": str(data), "seed": seed, "observed": dataset.observed, "weight": weight}
    about["options"] = {name: plain_option(value) for name, value in field.get_params(deep=False).items()}
    about["options"]["kinds"] = dataset.kinds
    done: list[Any] = []
    with StatusLine(f"{learning.induction}, {folds} folds") as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one note below replaces a warning per fold

        def progress(fold: Any) -> None:
            done.append(fold)
            watch.update(f"{len(done)} done")

        evaluation: Any = (_evaluate_rows if whole_rows else _evaluate_cells)(field, dataset, folds, seed, progress)
    if not whole_rows:
        _note_early_ends(field, done)
    elif unknown := sum(fold.unknown for fold in done):
        note(
            f"{count(unknown, 'label')} of held-out rows occur in no training row: they are errors, but not in losses."
        )
    parts = _describe_rows(evaluation) if whole_rows else _describe_cells(evaluation, dataset)
    deliver(parts, lambda: about | evaluation.as_dict(), as_json=as_json)


def _evaluate_cells(field: AnyField, dataset: InputData, folds: int, seed: int, progress: Progress) -> Evaluation:
    from sparsefield.analysis.hold_out import evaluate as cross_validate

    return cross_validate(dataset.X, field, folds, dataset.observed, seed, progress, sample_weight=dataset.weight)


def _note_early_ends(field: AnyField, folds: Sequence[Fold]) -> None:
    """Print how many fits stopped before they converged, and the remedy."""
    early = [fold for fold in folds if not fold.converged]
    if early:
        params = field.get_params()
        limited = any(fold.iterations >= params["solver__max_iter"] for fold in early)
        certified = "give a larger --l1 or l2" if params["solver__certify"] else "add --set solver.certify=yes"
        remedy = "raise --set solver.max_iter" if limited else certified
        note(f"{len(early)} of {len(folds)} fits stopped before they converged; {remedy}.")


def _refuse_rows_without_inputs(dataset: InputData, latent: list[str] | None) -> None:
    """Refuse data in which rows have nothing to predict their labels from, or that are not one complete table."""
    if dataset.linked or not hasattr(dataset.X, "columns"):
        raise DataError("--whole-rows is for one table in memory.")
    if latent:
        raise DataError("--whole-rows and --latent exclude each other.")
    if not dataset.observed:
        raise DataError(
            "--whole-rows predicts all other columns of a row from its observed ones: name these with --observed."
        )
    labels = [name for name in dataset.X.columns if name not in dataset.observed]
    if not labels:
        raise DataError(
            "Every column is observed, so --whole-rows has nothing to predict: leave at least one out of --observed."
        )
    missing = {name: dataset.X[name].is_null() for name in labels if dataset.X[name].null_count()}
    if missing:
        named = [f"{name!r} ({count(int(n.sum()), 'row')}, first row {n.arg_max() + 1})" for name, n in missing.items()]
        more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        raise DataError(
            f"--whole-rows needs the labels of all rows, and these columns have missing ones: "
            f"{', '.join(named[:MOST_NAMED])}{more}. Drop these rows, or hold out cells instead, without --whole-rows."
        )


def _evaluate_rows(field: AnyField, dataset: InputData, folds: int, seed: int, progress: Progress) -> LabelFolds:
    """Cross-validate a classifier with the parameters of a field, and its kinds of columns, over whole rows."""
    from sparsefield import CRFClassifier
    from sparsefield.analysis.label_evaluation import cross_validate_labels
    from sparsefield.data import as_source, learn_schema

    schema = learn_schema(as_source(dataset.X), observed=dataset.observed, kinds=dataset.kinds)
    kinds = {v.name: list(v.states) if v.kind == "ordinal" else v.kind for v in schema.variables}
    known = CRFClassifier().get_params(deep=False)
    params: dict[str, Any] = {name: value for name, value in field.get_params(deep=False).items() if name in known}
    model = CRFClassifier().set_params(**params | {"kinds": kinds})
    X, y = dataset.X[dataset.observed], dataset.X.drop(dataset.observed)
    return cross_validate_labels(X, y, model, folds=folds, seed=seed, progress=progress, sample_weight=dataset.weight)


def _describe_cells(evaluation: Evaluation, dataset: InputData) -> Iterator[str | Table]:
    """Yield the measures of held-out cells, mean and standard deviation over folds, and those of columns."""
    measures = [name for name in MEASURES if not math.isnan(evaluation.spread(name).mean)]
    table = new_table("", *(MEASURES[name] for name in measures), "time", "induced", "active")
    costs = [_spread(evaluation.spread("seconds"), "{:.2f}") + " s"]
    costs += [_spread(evaluation.spread(measure), "{:,.0f}") for measure in ("induced", "active")]
    table.add_row("this field", *(_spread(evaluation.spread(name)) for name in measures), *costs)
    baseline = (_spread(evaluation.spread(f"frequency_{name}")) for name in measures)
    table.add_row(name_baseline(numbers="rmse" in measures), *baseline)
    yield table
    yield "\nBy column:"
    yield from _describe_columns(evaluation.columns)
    nothing = describe_if_nothing_learned(evaluation, dataset)
    if nothing:
        yield f"\n{nothing}"


def _describe_rows(evaluation: LabelFolds) -> Iterator[str | Table]:
    """Yield the measures of both decodings, mean and standard deviation over folds, and those of labels."""
    measures = [name for name in LABEL_MEASURES if not math.isnan(evaluation.spread("marginal", name).mean)]
    table = new_table("labels decoded", *(LABEL_MEASURES[name] for name in measures))
    for decoding, words in (("marginal", "one by one"), ("joint", "jointly")):
        table.add_row(words, *(_spread(evaluation.spread(decoding, measure)) for measure in measures))
    yield table
    yield "\nBy label:"
    yield from _describe_columns(evaluation.columns)


def _spread(spread: Any, form: str = "{:.3f}") -> str:
    return f"{form.format(spread.mean)} ({form.format(spread.sd)})"


def _describe_columns(columns: Sequence[ColumnEvaluation]) -> Iterator[str | Table]:
    table = new_table("column", "kind", "cells", "loss", "baseline", "error", "baseline", "calibration", left=2)
    for column in columns[:MOST_COLUMNS]:
        losses = (f"{loss:.3f}" for loss in (column.loss, column.baseline_loss))
        errors = (describe_error(column, error) for error in (column.error, column.baseline_error))
        is_number = column.kind == "numeric"
        calibration = f"{column.coverage:.0%} in 90%" if is_number else f"{column.calibration_error:.1%} off"
        table.add_row(column.name, column.kind, f"{column.cells:,}", *losses, *errors, calibration)
    yield table
    if len(columns) > MOST_COLUMNS:
        yield f"... and {len(columns) - MOST_COLUMNS:,} more: --json lists all."
