"""``sparsefield evaluate``: cross-validated predictions of held-out cells, as in the paper, or of whole rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import mean, stdev
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import StatusLine, deliver, new_table, note
from sparsefield.app.cli.fit import describe_if_nothing_learned, name_baseline
from sparsefield.app.cli.info import plain_option
from sparsefield.app.cli.inputs import ColumnOptions, InputData, read_data
from sparsefield.errors import DataError
from sparsefield.text import count

if TYPE_CHECKING:
    from rich.table import Table

    from sparsefield.analysis.hold_out import Evaluation, Fold
    from sparsefield.analysis.label_evaluation import LabelFolds
    from sparsefield.analysis.metrics import ColumnEvaluation
    from sparsefield.app.cli.options import AnyField

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


def evaluate(
    data: opt.Data,
    folds: Annotated[
        int, typer.Option("--folds", min=2, help="Number of folds of the cells; each is held out once.")
    ] = 10,
    likelihood: Annotated[
        bool,
        typer.Option(
            "--likelihood",
            help="Also show the log-likelihood of the held-out cells of a row together, given its other cells.",
        ),
    ] = False,
    whole_rows: Annotated[
        bool,
        typer.Option(
            "--whole-rows",
            help="Hold out whole rows instead of cells: all columns of a row that are not observed are its labels, "
            "which are predicted from the observed ones and scored together.",
        ),
    ] = False,
    as_json: opt.Json = False,
    observed: opt.Observed = None,
    identifiers: opt.Identifiers = None,
    numeric: opt.Numeric = None,
    ordinal: opt.Ordinal = None,
    nominal: opt.Nominal = None,
    top_levels: opt.TopLevels = None,
    strict: opt.Strict = False,
    weight: opt.Weight = None,
    missing: opt.Missing = None,
    l1: opt.L1 = "auto",
    selection: opt.Selection = "heldout",
    penalty: opt.Penalty = "l1",
    objective: opt.Objective = "pl",
    induction: Annotated[
        list[str] | None,
        opt.learning_option(
            "--induction",
            help="Rule that adds features: cfi (the default), cfi-paper, grafting, ideal-parent or full. Repeat it to "
            "compare rules.",
        ),
    ] = None,
    refit: opt.Refit = "no",
    latent: opt.Latent = None,
    template: opt.Templates = None,
    settings: opt.AnySet = None,
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
    reading = opt.reading_options(missing, settings, learning=True)
    columns = ColumnOptions(observed, identifiers, numeric, ordinal, nominal, top_levels, strict, weight)
    everyday = {"l1": l1, "selection": selection, "penalty": penalty, "objective": objective, "refit": refit}
    rules = induction or ["cfi"]
    learning = {rule: opt.learning_settings(settings, **everyday, induction=rule) for rule in rules}
    given = read_data(data, reading, columns)
    if whole_rows:
        _refuse_rows_without_inputs(given, latent)
    evaluations: dict[str, Any] = {}
    likelihoods: dict[str, JointLikelihood] = {}
    options: dict[str, Any] = {}
    for rule in rules:
        field = opt.make_estimator(given, learning[rule], templates=template, latent=latent, jobs=jobs, seed=seed)
        options = {name: plain_option(value) for name, value in field.get_params(deep=False).items()}
        if whole_rows:
            evaluations[rule] = _evaluate_rows(field, rule, given, folds, seed)
            continue
        if likelihood:
            likelihoods[rule] = JointLikelihood(given)
        evaluations[rule] = _evaluate_cells(field, rule, given, folds, seed, likelihoods.get(rule))

    def content() -> dict[str, Any]:
        results = [{"induction": rule, **evaluation.as_dict()} for rule, evaluation in evaluations.items()]
        for result in results if likelihoods else ():
            result["joint_log_likelihood"] = likelihoods[result["induction"]].as_dict()
        about = {"data": str(data), "folds": folds, "seed": seed, "observed": given.observed, "weight": weight}
        return {**about, "options": options | {"kinds": given.kinds}, "results": results}

    describe = _describe_rows if whole_rows else _describe_cells
    deliver(lambda: describe(evaluations, given, likelihoods), content, as_json=as_json)


class JointLikelihood:
    """Collects ln p(held-out cells of a row | its other cells), the mean over rows, fold by fold.

    It is called with the fitted estimator of each fold and the incomplete table.
    """

    def __init__(self, given: InputData) -> None:
        self._given = given
        self.values: list[float] = []
        self.errors: list[float] = []
        self.exact = True

    def __call__(self, field: Any, incomplete: Any) -> None:
        import numpy as np

        from sparsefield.analysis.hidden_cells import joint_log_likelihood

        result = joint_log_likelihood(field, self._given.X, incomplete)
        if self._given.linked:
            n_rows = sum(source.n_rows for source in self._given.X.sources.values())
            self.values.append(float(result.value) / n_rows)
            self.errors.append(float(result.standard_error) / n_rows)
        else:
            self.values.append(float(np.average(result.value, weights=self._given.weight)))
            self.errors.append(float(result.standard_error.mean()))
        self.exact &= result.method == "exact"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        spread = {"mean": mean(self.values), "sd": stdev(self.values)}
        method = "exact" if self.exact else "ais"
        return {"method": method, "folds": self.values, "standard_errors": self.errors, **spread}

    def describe(self) -> str:
        """Return the mean and standard deviation over folds in a sentence."""
        how = "exact"
        if not self.exact:
            how = f"by annealed importance sampling, with a standard error of up to {max(self.errors):.2g} in a fold"
        spread = f"{mean(self.values):.4f} ({stdev(self.values):.4f})"
        return f"joint log-likelihood of held-out cells, per row: {spread}, {how}"


def _evaluate_cells(
    field: AnyField, rule: str, given: InputData, folds: int, seed: int, watched: JointLikelihood | None
) -> Evaluation:
    from sparsefield.analysis.hold_out import evaluate as cross_validate

    done: list[Fold] = []
    with StatusLine(f"{rule}, {folds} folds") as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one note below replaces a warning per fold
        options: dict[str, Any] = {"sample_weight": given.weight, "on_fit": watched}
        progress = _counter(done, watch)
        evaluation = cross_validate(given.X, field, folds, given.observed, seed, progress, **options)
    early = [fold for fold in done if not fold.converged]
    if early:
        params = field.get_params()
        limited = any(fold.iterations >= params["solver__max_iter"] for fold in early)
        certified = "give a larger --l1 or l2" if params["solver__certify"] else "add --set solver.certify=yes"
        remedy = "raise --set solver.max_iter" if limited else certified
        note(f"{rule}: {len(early)} of {folds} fits stopped before they converged; {remedy}.")
    return evaluation


def _counter(done: list[Any], watch: StatusLine) -> Callable[[Any], None]:
    """Return a function that collects folds and shows how many are done."""

    def progress(fold: Any) -> None:
        done.append(fold)
        watch.update(f"{len(done)} done")

    return progress


def _refuse_rows_without_inputs(given: InputData, latent: list[str] | None) -> None:
    """Refuse data in which rows have nothing to predict their labels from, or that are not one complete table."""
    if given.linked or not hasattr(given.X, "columns"):
        raise typer.BadParameter("--whole-rows is for one table in memory")
    if latent:
        raise typer.BadParameter("--whole-rows and --latent exclude each other")
    if not given.observed:
        raise typer.BadParameter(
            "--whole-rows predicts all other columns of a row from its observed ones: name these with --observed"
        )
    labels = [name for name in given.X.columns if name not in given.observed]
    if not labels:
        raise typer.BadParameter(
            "every column is observed, so --whole-rows has nothing to predict: leave at least one out of --observed"
        )
    missing = {name: given.X[name].is_null() for name in labels if given.X[name].null_count()}
    if missing:
        named = [f"{name!r} ({count(int(n.sum()), 'row')}, first row {n.arg_max() + 1})" for name, n in missing.items()]
        more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        raise DataError(
            f"--whole-rows needs the labels of all rows, and these columns have missing ones: "
            f"{', '.join(named[:MOST_NAMED])}{more}. Drop these rows, or hold out cells instead, without --whole-rows."
        )


def _evaluate_rows(field: AnyField, rule: str, given: InputData, folds: int, seed: int) -> LabelFolds:
    """Cross-validate a classifier with the parameters of a field, and its kinds of columns, over whole rows."""
    from sparsefield import CRFClassifier
    from sparsefield.analysis.label_evaluation import cross_validate_labels
    from sparsefield.data import as_source, learn_schema

    schema = learn_schema(as_source(given.X), observed=given.observed, kinds=given.kinds)
    kinds = {v.name: list(v.states) if v.kind == "ordinal" else v.kind for v in schema.variables}
    known = CRFClassifier().get_params(deep=False)
    params: dict[str, Any] = {name: value for name, value in field.get_params(deep=False).items() if name in known}
    model = CRFClassifier().set_params(**params | {"kinds": kinds})
    labels = [column for column in given.X.columns if column not in given.observed]
    with StatusLine(f"{rule}, {folds} folds") as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of each fold
        options: dict[str, Any] = {"folds": folds, "seed": seed, "sample_weight": given.weight}
        options["progress"] = _counter([], watch)
        return cross_validate_labels(given.X[given.observed], given.X[labels], model, **options)


def _describe_cells(
    evaluations: Mapping[str, Evaluation], given: InputData, likelihoods: Mapping[str, JointLikelihood]
) -> Iterator[str | Table]:
    """Yield the measures of held-out cells, mean and standard deviation over folds, and those of columns."""
    first = next(iter(evaluations.values()))
    measures = [name for name in MEASURES if not math.isnan(first.spread(name).mean)]
    table = new_table("", *(MEASURES[name] for name in measures), "time", "induced", "active")
    for rule, evaluation in evaluations.items():
        scores = [_spread(evaluation.spread(measure)) for measure in measures]
        costs = [_spread(evaluation.spread("seconds"), "{:.2f}") + " s"]
        costs += [_spread(evaluation.spread(measure), "{:,.0f}") for measure in ("induced", "active")]
        table.add_row(rule, *scores, *costs)
    baseline = [_spread(first.spread(f"frequency_{name}")) for name in measures]
    table.add_row(name_baseline(numbers="rmse" in measures), *baseline)
    yield table
    for rule, evaluation in evaluations.items():
        yield f"\nBy column{f', {rule}' if len(evaluations) > 1 else ''}:"
        yield from _describe_columns(evaluation.columns)
        nothing = describe_if_nothing_learned(evaluation, given)
        if nothing:
            yield f"\n{nothing}"
    for rule, watched in likelihoods.items():
        yield f"\n{rule}: {watched.describe()}"


def _describe_rows(evaluations: Mapping[str, LabelFolds], *_: object) -> Iterator[str | Table]:
    """Yield the measures of both decodings, mean and standard deviation over folds, and those of labels."""
    first = next(iter(evaluations.values()))
    measures = [name for name in LABEL_MEASURES if not math.isnan(first.spread("marginal", name).mean)]
    table = new_table("", "labels decoded", *(LABEL_MEASURES[name] for name in measures), left=2)
    for rule, folds in evaluations.items():
        for decoding, words in (("marginal", "one by one"), ("joint", "jointly")):
            table.add_row(rule, words, *(_spread(folds.spread(decoding, measure)) for measure in measures))
    yield table
    for rule, folds in evaluations.items():
        yield f"\nBy label{f', {rule}' if len(evaluations) > 1 else ''}:"
        yield from _describe_columns(folds.columns)


def _spread(spread: Any, form: str = "{:.3f}") -> str:
    return f"{form.format(spread.mean)} ({form.format(spread.sd)})"


def _describe_columns(columns: Sequence[ColumnEvaluation]) -> Iterator[str | Table]:
    table = new_table("column", "kind", "cells", "loss", "baseline", "error", "baseline", "calibration", left=2)
    for column in columns[:MOST_COLUMNS]:
        losses = (f"{loss:.3f}" for loss in (column.loss, column.baseline_loss))
        errors = (_describe_error(column, error) for error in (column.error, column.baseline_error))
        is_number = column.kind == "numeric"
        calibration = f"{column.coverage:.0%} in 90%" if is_number else f"{column.calibration_error:.1%} off"
        table.add_row(column.name, column.kind, f"{column.cells:,}", *losses, *errors, calibration)
    yield table
    if len(columns) > MOST_COLUMNS:
        yield f"... and {len(columns) - MOST_COLUMNS:,} more: --json lists all."


def _describe_error(column: ColumnEvaluation, error: float) -> str:
    from sparsefield.data.number_text import write_number

    number = f"{write_number(error, 3)} {column.unit}".rstrip()
    return {"nominal": f"{error:.1%}", "ordinal": f"{error:.2f} levels", "numeric": number}[column.kind]
