"""``sparsefield fit`` learns a field from a table and prints what it found; ``evaluate`` cross-validates over cells."""

from __future__ import annotations

import itertools
import math
import shlex
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import StatusLine, check_output, deliver, inform, new_table, note
from sparsefield.app.cli.info import describe_features, model_content, plain_option
from sparsefield.app.cli.inputs import ColumnOptions, InputData, fit_command, read_data
from sparsefield.app.cli.models import remember_source
from sparsefield.app.pages.fit_summary import describe_convergence, describe_kinds, describe_size
from sparsefield.app.tables.file_format import HeldOut
from sparsefield.app.tables.write import refuse_overwriting_inputs
from sparsefield.errors import DataError, count
from sparsefield.parameters import CHECKPOINT_NAME

if TYPE_CHECKING:
    from rich.table import Table

    from sparsefield.analysis.hold_out import Evaluation
    from sparsefield.analysis.metrics import ColumnEvaluation
    from sparsefield.app.cli.options import AnyField

CHECKED_SHARE = 0.1
"""The share of cells that a fit holds out to check itself."""

SHOWN_EDGES = 10
SHOWN_COLUMNS = 12
"""Number of columns up to which all are shown; of more, half of it from each end."""

MEASURES = {
    "error_rate": ("error", "{:.1%}"),
    "cll": ("CLL", "{:.3f}"),
    "ap": ("AP", "{:.3f}"),
    "ap_positive": ("AP (positive)", "{:.3f}"),
    "rmse": ("RMSE / SD", "{:.3f}"),
}
"""Heading and format of the scores of held-out cells: those of states, and that of numbers."""


@opt.expanded
def fit(
    *,
    ctx: typer.Context,
    data: opt.Data,
    output: Annotated[Path, opt.output_option("File for the model, such as m.safetensors.", "MODEL")],
    columns: ColumnOptions,
    weight: opt.Weight = None,
    group: opt.Group = None,
    learning: opt.LearningOptions,
    check: Annotated[bool, opt.running_option("--check/--no-check")] = True,
    as_json: opt.Json = False,
    checkpoint: opt.CheckpointFolder = None,
    cluster: Annotated[str | None, opt.running_option(metavar="ADDRESS")] = None,
    gpu: Annotated[bool, opt.running_option("--gpu")] = False,
    jobs: opt.Jobs = None,
    seed: opt.Seed = 0,
) -> None:
    """Learn a field: which columns depend on each other, and how.

    Mostly `sparsefield fit DATA -o MODEL` is enough: kinds of columns are found, any cell may be missing, and the
    strength of the penalty is selected. Look first at --missing for codes such as -99, and at --ordinal, --nominal and
    --numeric where a kind is wrong. 'inspect' suggests both.

    Prints how many edges hold, the strongest ones, whether the optimizer converged, and how well held-out cells of each
    column are predicted; or that nothing could be learned.

    Options:
        check: Fit again with a tenth of the cells held out, and report how well it predicts them.
        cluster: Fit on the Dask cluster whose scheduler has this address, such as host:8786.
        gpu: Fit on a GPU, which needs the extra gpu.
    """
    if gpu and cluster is not None:
        raise ValueError("--gpu and --cluster are two places for one fit: give one of them.")
    check_output(output)
    refuse_overwriting_inputs([output], [data])
    reading = learning.reading()
    dataset = read_data(data, reading, columns, weight=weight, group=group)
    saved_state = None if checkpoint is None else checkpoint / CHECKPOINT_NAME
    refuse_overwriting_inputs([output, saved_state], dataset.inputs)
    if dataset.book is not None:
        inform(f"{data.name}: {dataset.book.describe_size()}")
        words = ["sparsefield inspect", shlex.quote(str(data)), reading.as_words(), columns.as_options()]
        if any(entry.findings for entry in dataset.book.columns):
            inform(f"More: {' '.join(filter(None, words))}")
        if any(entry.left_out and entry.other_texts for entry in dataset.book.columns):
            command = fit_command(data, reading, columns, dataset.book, weight=weight, group=group)
            note(f"Columns of numbers or dates were left out because of other texts. To use them: {command}")
    field = opt.make_estimator(dataset, learning, jobs=jobs, seed=seed)
    if checkpoint is not None:
        field.set_params(solver__checkpoint=checkpoint)
    started = time.perf_counter()
    with StatusLine(f"Learning from {count(dataset.rows, 'row')}" if dataset.rows else "Learning") as watch:
        field.set_params(solver__callbacks=opt.report_to(watch), solver__engine="cuda" if gpu else cluster)
        field.fit(dataset.X, **dataset.roles)
    field.set_params(solver__callbacks=None)
    seconds = time.perf_counter() - started
    for line in getattr(field, "template_search_", ()):
        note(f"Templates: {line}.")
    source = replace(dataset.source, command=ctx.obj)
    remember_source(field, source)
    field.save(output)
    checked = None
    if check and dataset.unchecked:
        note(f"No check: {dataset.unchecked}")
    elif check and has_features(field):  # a field without features predicts by column frequencies
        checked = _check_on_held_out_cells(field, dataset, seed)
    if checked is not None:
        from sparsefield.analysis.metrics import count_clear_gains, pool_gains

        (fold,), gain, scored = checked.folds, pool_gains(checked.columns), checked.columns
        summary = HeldOut(fold.cells, gain.value, gain.error, count_clear_gains(scored)[0], len(scored))
        remember_source(field, replace(source, held_out=summary))
        field.save(output)
    from sparsefield.app.pages.findings import findings

    sentences = findings(field, dataset.X if has_features(field) else None)
    deliver(
        _describe_fit(field, dataset, sentences, seconds, checked),
        lambda: {
            "model": str(output),
            "seconds": seconds,
            "findings": sentences,
            "held_out": None if checked is None else checked.as_dict(),
            **model_content(type(field).__name__, field.field_, field.get_params()),
        },
        as_json=as_json,
        written=[output],
    )


def _check_on_held_out_cells(field: AnyField, dataset: InputData, seed: int) -> Evaluation | None:
    """Return the scores of a second fit on held-out cells; None where there are too few cells."""
    from sklearn.base import clone

    from sparsefield.analysis.hold_out import hold_out

    with StatusLine(f"Checking with {CHECKED_SHARE:.0%} of the cells held out") as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit to all cells has already given the warnings
        # l1 and templates are those of the fit to all cells: selecting them again would take longer than the fit.
        again: Any = clone(field)
        again.set_params(l1=field.l1_, solver__checkpoint=None, solver__callbacks=opt.report_to(watch))
        if dataset.linked:
            again.set_params(templates=field.field_.layout.templates)
        options: Any = {"sample_weight": dataset.weight}
        options["on_fit"] = lambda *_: watch.watch_inference("Predicting the held-out cells")
        try:
            return hold_out(dataset.X, again, CHECKED_SHARE, dataset.observed, seed, **options)
        except DataError as error:
            note(f"No check: {error}")
            return None


def has_features(field: AnyField) -> bool:
    """Return whether a fitted field has a feature of two or more columns."""
    return bool(field.field_.weights.any() or field.field_.conjunction_weights.any())


def _describe_fit(
    field: AnyField, dataset: InputData, sentences: Sequence[str], seconds: float, checked: Evaluation | None
) -> Iterator[str | Table]:
    """Yield what was learned: findings, features, how it was learned, and how well held-out cells are predicted."""
    evidence = field.field_.record.evidence
    holding = evidence is not None and evidence.n_holding > 0
    nothing = "" if checked is None or holding else _describe_if_nothing_learned(checked, dataset)
    yield nothing or "\n".join(sentences)
    yield from describe_features(field.field_, SHOWN_EDGES)
    yield ""
    yield from _describe_options(field)
    record, steps = field.field_.record, f"{count(field.n_iter_, 'iteration')}, {seconds:.1f} s"
    yield f"Learned {describe_size(field.field_)}; {steps}{', converged' if record.converged else ''}."
    if not record.converged:
        yield describe_convergence(field.field_, field.get_params())
    if checked is not None:
        yield from _describe_check(checked, dataset, auto=field.l1 == "auto")


def _describe_options(field: AnyField) -> Iterator[str]:
    """Yield the kinds of the columns, and how l1 was selected."""
    record, layout = field.field_.record, field.field_.layout
    if not all(schema.is_binary for schema in layout.schemas):
        linked = layout.tables != ("",)
        where = "numeric, ordinal and nominal in the schema file" if linked else "--numeric, --ordinal and --nominal"
        yield f"Kinds: {describe_kinds(field.field_)}. Change them with {where}."
    if record.criterion is not None:
        from sparsefield.solver import SELECTIONS

        tried, by = len(record.path), SELECTIONS[record.criterion].description
        whose = ", of a field without latent variables" if getattr(field, "latent", None) else ""
        yield f"Selected l1 = {field.l1_:.3g} among {count(tried, 'value')}, by {by}{whose}."


def _describe_check(checked: Evaluation, dataset: InputData, *, auto: bool) -> Iterator[str | Table]:
    """Yield how well held-out cells are predicted, overall and by column: those with the largest gain first."""
    from sparsefield.analysis.metrics import shows_dependence
    from sparsefield.app.pages.findings import describe_gains

    chosen = " (its l1 is that of the fit above)" if auto else ""
    cells = count(checked.folds[0].cells, "held-out cell")
    yield f"\nOn {cells}, predicted from all others by a field fitted without them{chosen}:"
    # A matrix is held out as an array, without names.
    yield from _describe_measures(checked, {f"x{k}": name for k, name in enumerate(dataset.names)})
    yield f"\n{describe_gains(checked.columns, than=_name_baseline(checked).replace(',', ' and'))}"
    for table in dataset.X.tables if dataset.linked else ():
        own = [c for c in checked.columns if c.name.removeprefix(f"{table}.") in dataset.X.sources[table].names]
        if own and not shows_dependence(own):
            yield f"Cells of {table} are predicted no better than by column frequencies: one l1 may be too strict here."


def _describe_measures(checked: Evaluation, names: Mapping[str, str]) -> Iterator[str | Table]:
    """Yield the scores over all cells, with their standard deviations over folds, and those of columns."""
    from sparsefield.analysis.metrics import calibration_error

    def spread(name: str, form: str) -> str:
        mean, deviation = checked.spread(name)
        return form.format(mean) + (f" ({form.format(deviation)})" if len(checked.folds) > 1 else "")

    forms = {name: form for name, form in MEASURES.items() if not math.isnan(checked.spread(name).mean)}
    parts = ("this field", ""), (_name_baseline(checked), "frequency_")
    rows = [[row, *(spread(prefix + name, form) for name, (_, form) in forms.items())] for row, prefix in parts]
    yield new_table("", *(heading for heading, _ in forms.values()), rows=rows)
    yield ""
    rows = []
    for column in sorted(checked.columns, key=lambda column: -column.gain.value):
        gain, curve = f"{column.gain.value:+.3f} ± {column.gain.error:.3f}", column.calibration
        calibration = f"{column.coverage:.0%} in 90%" if curve is None else f"{calibration_error(curve):.1%} off"
        cells, errors = f"{column.cells:,}", _describe_errors(column)
        rows.append([names.get(column.name, column.name), column.kind, cells, *errors, gain, calibration])
    if len(rows) > SHOWN_COLUMNS:
        rows[SHOWN_COLUMNS // 2 : -SHOWN_COLUMNS // 2] = [[f"... {len(rows) - SHOWN_COLUMNS:,} more ..."]]
    headings = "column", "kind", "cells", "error", "baseline", "gain in log-likelihood", "calibration"
    yield new_table(*headings, left=2, rows=rows)


def _describe_errors(column: ColumnEvaluation) -> list[str]:
    """Return error rates, distances in levels, or root mean squared errors in the unit: of the field and a baseline."""
    from sparsefield.data.column_types import write_number

    errors = column.error, column.baseline_error
    if column.kind == "numeric":
        return [f"{write_number(error, 3)} {column.unit}".rstrip() for error in errors]
    return [f"{error:.1%}" if column.kind == "nominal" else f"{error:.2f} levels" for error in errors]


def _describe_if_nothing_learned(checked: Evaluation, dataset: InputData) -> str:
    """Return a sentence if held-out cells are predicted no better than by column frequencies; empty otherwise."""
    from sparsefield.analysis.metrics import pool_gains, shows_dependence
    from sparsefield.app.pages.findings import describe_no_gain

    if shows_dependence(checked.columns):
        return ""
    return describe_no_gain(pool_gains(checked.columns), dataset.rows, len(dataset.X.tables) if dataset.linked else 1)


def _name_baseline(checked: Evaluation) -> str:
    """Return the name of the baseline: frequencies of states, and means of numbers."""
    return "column frequencies" if math.isnan(checked.spread("rmse").mean) else "column frequencies, means"


# -- evaluation ------------------------------------------------------------------------------------------------------


@opt.expanded
def evaluate(
    *,
    data: opt.Data,
    folds: Annotated[int, typer.Option(min=2)] = 10,
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

    Options:
        folds: Number of folds of the cells; each is held out once.
    """
    dataset = read_data(data, learning.reading(), columns, weight=weight)
    field = opt.make_estimator(dataset, learning, jobs=jobs, seed=seed)
    about = {"data": str(data), "seed": seed, "observed": dataset.observed, "weight": weight}
    about["options"] = {name: plain_option(value) for name, value in field.get_params(deep=False).items()}
    about["options"]["kinds"] = dataset.kinds
    with StatusLine(f"{learning.induction}, fold 1 of {folds}") as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one note below replaces a warning per fold
        from sparsefield.analysis.hold_out import evaluate as cross_validate

        field.set_params(solver__callbacks=opt.report_to(watch))
        done, begun = itertools.count(1), time.perf_counter()

        def name_next_fold(_: Any) -> None:
            if (k := next(done)) < folds:
                left = (time.perf_counter() - begun) / k * (folds - k)
                watch.change_title(f"{learning.induction}, fold {k + 1} of {folds}, about {left:,.0f} s left")

        options = {"seed": seed, "sample_weight": dataset.weight, "progress": name_next_fold}
        evaluation = cross_validate(dataset.X, field, folds, dataset.observed, **options)
    if early := sum(not fold.converged for fold in evaluation.folds):
        remedy = "raise --set solver.max_iter or l1, and leave --set solver.certify at yes"
        note(f"{early} of {folds} fits stopped before they converged; {remedy}.")
    nothing = _describe_if_nothing_learned(evaluation, dataset)
    parts = [*_describe_measures(evaluation, {}), *([f"\n{nothing}"] if nothing else [])]
    deliver(parts, lambda: about | evaluation.as_dict(), as_json=as_json)
