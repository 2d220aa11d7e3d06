"""This module defines ``sparsefield evaluate --whole-rows``: all labels of held-out rows, predicted and scored."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import typer

from sparsefield.app.cli.console import StatusLine, new_table, show
from sparsefield.errors import DataError
from sparsefield.text import count

if TYPE_CHECKING:
    from sparsefield import CRFClassifier
    from sparsefield.analysis.label_evaluation import LabelEvaluation, LabelFolds
    from sparsefield.app.cli.input_data import InputData
    from sparsefield.app.cli.options import AnyField

MOST_SHOWN = 5
"""Columns with missing labels that a message names."""

MEASURES = {
    "hamming_loss": "Hamming loss",
    "subset_accuracy": "subset accuracy",
    "micro_f1": "micro F1",
    "macro_f1": "macro F1",
}


def refuse_rows_without_inputs(given: InputData, latent: list[str] | None) -> None:
    """Refuse data in which rows have nothing to predict their labels from, or that are not one table."""
    if given.linked or not hasattr(given.X, "columns"):
        raise typer.BadParameter("--whole-rows is for one table in memory")
    if latent:
        raise typer.BadParameter("--whole-rows and --latent exclude each other")
    if not given.observed:
        raise typer.BadParameter(
            "--whole-rows predicts all other columns of a row from its observed ones: name these with --observed"
        )
    if set(given.X.columns) <= set(given.observed):
        raise typer.BadParameter(
            "every column is observed, so --whole-rows has nothing to predict: leave at least one out of --observed"
        )


def evaluate_rows(field: AnyField, name: str, given: InputData, folds: int, seed: int) -> LabelFolds:
    """Cross-validate a classifier with the parameters of a field over whole rows."""
    from sparsefield.analysis.label_evaluation import cross_validate_labels

    labels = [column for column in given.X.columns if column not in given.observed]
    _refuse_missing_labels(given, labels)
    done: list[LabelEvaluation] = []
    with StatusLine(f"{name}, {folds} folds") as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of each fold

        def progress(fold: LabelEvaluation) -> None:
            done.append(fold)
            watch.update(f"{len(done)} done")

        model = _as_classifier(field, given)
        options: dict[str, Any] = {"folds": folds, "seed": seed, "progress": progress, "sample_weight": given.weight}
        return cross_validate_labels(given.X[given.observed], given.X[labels], model, **options)


def _refuse_missing_labels(given: InputData, labels: list[str]) -> None:
    """Refuse labels that are missing in some rows, before any fit."""
    missing = [(name, given.X[name].is_null()) for name in labels if given.X[name].null_count()]
    if missing:
        found = [
            f"{name!r} ({count(int(cells.sum()), 'row')}, first row {cells.arg_max() + 1})" for name, cells in missing
        ]
        more = f" and {len(found) - MOST_SHOWN} more" if len(found) > MOST_SHOWN else ""
        raise DataError(
            f"--whole-rows needs the labels of all rows, and these columns have missing ones: "
            f"{', '.join(found[:MOST_SHOWN])}{more}. Drop these rows, or hold out cells instead, without --whole-rows."
        )


def _as_classifier(field: AnyField, given: InputData) -> CRFClassifier:
    """Return a classifier with the parameters of a field, and the kinds of columns that the field would have."""
    from sparsefield import CRFClassifier
    from sparsefield.data import as_source, learn_schema

    schema = learn_schema(as_source(given.X), observed=given.observed, kinds=given.kinds)
    kinds = {v.name: list(v.states) if v.kind == "ordinal" else v.kind for v in schema.variables}
    shared = CRFClassifier().get_params(deep=False)
    params: dict[str, Any] = {name: value for name, value in field.get_params(deep=False).items() if name in shared}
    return CRFClassifier().set_params(**params | {"kinds": kinds})


def show_rows(found: dict[str, LabelFolds]) -> None:
    """Show the measures of both decodings, mean and standard deviation over folds."""
    first = next(iter(found.values()))
    measures = [name for name in MEASURES if not math.isnan(first.spread("marginal", name).mean)]
    table = new_table("", "labels decoded", *(MEASURES[name] for name in measures), left=2)
    for name, folds in found.items():
        for decoding, words in (("marginal", "one by one"), ("joint", "jointly")):
            spreads = [folds.spread(decoding, measure) for measure in measures]
            table.add_row(name, words, *(f"{one.mean:.3f} ({one.sd:.3f})" for one in spreads))
    show(table)
