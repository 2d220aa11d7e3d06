"""``sparsefield evaluate``: the paper's table for any data."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Annotated

import typer

from sparsefield.cli import options as opt
from sparsefield.cli.console import Watch, new_table, note, show, show_json
from sparsefield.cli.input_data import Given, read_data
from sparsefield.cli.table_files import Reading

if TYPE_CHECKING:
    from sparsefield.cli.options import AnyField
    from sparsefield.evaluation.hold_out import Evaluation, Fold

MEASURES = {"ap": "AP", "ap_positive": "AP (positive)", "cll": "CLL", "error_rate": "error"}

Inductions = Annotated[
    list[str] | None,
    typer.Option(
        "--induction",
        help="Who joins the field: cfi, grafting, ideal-parent or full. Repeat it to compare. [cfi]",
        rich_help_panel=opt.LEARNING,
    ),
]
Folds = Annotated[int, typer.Option("--folds", min=2, help="Each hides one part of the cells in turn.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, every fold included, instead of a table.")]


def evaluate(
    data: opt.Data,
    folds: Folds = 10,
    as_json: Json = False,
    observed: opt.Observed = None,
    identifiers: opt.Identifiers = None,
    numeric: opt.Numeric = None,
    missing: opt.Missing = None,
    no_header: opt.NoHeader = False,
    separator: opt.Separator = None,
    template: opt.Templates = None,
    induction: Inductions = None,
    objective: opt.Objective = "pl",
    hidden: opt.Hidden = None,
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
    jobs: opt.Jobs = None,
    seed: opt.Seed = 0,
) -> None:
    """Hide cells part by part, learn from the others, and say how well the hidden ones are predicted.

    DATA may also be a TOML file that describes linked tables, or a folder with a schema.toml.
    AP: all states of the hidden cells ranked by belief, the true ones relevant; area under precision and
    recall. AP (positive): the same for the question which cells of 0/1 columns are 1. CLL: mean natural log of
    the belief in the true state. Mean (standard deviation) over folds.
    """
    reading = Reading(tuple(missing or ()), not no_header, separator)
    given = read_data(data, reading, observed, identifiers, numeric)
    learning = {
        "objective": objective, "l1": opt.read_l1(l1), "l2": l2,
        "selection": selection or "heldout", "refit": refit, "threshold": threshold, "batch_size": batch_size,
        "inference": inference, "max_order": max_order, "lift": lift, "order_penalty": order_penalty,
        "certify": certify, "penalize_unary": penalize_unary, "max_iter": max_iter,
    }  # fmt: skip
    found = {}
    for name in induction or ["cfi"]:
        field = opt.make_markov_field(given, template, induction=name, jobs=jobs, seed=seed, hidden=hidden, **learning)
        found[name] = _evaluate(field, given, folds, seed)
    if as_json:
        about = {"data": str(data), "folds": folds, "seed": seed, "observed": given.observed}
        learning |= {"templates": template, "numeric": given.numeric} if given.linked else {"numeric": given.numeric}
        results = [{"induction": name, **evaluation.as_dict()} for name, evaluation in found.items()]
        show_json({**about, "options": learning, "results": results})
    else:
        _show(found)


def _evaluate(field: AnyField, given: Given, folds: int, seed: int) -> Evaluation:
    from sparsefield.evaluation.hold_out import evaluate as run

    done: list[Fold] = []
    with Watch(f"{field.induction}, {folds} folds") as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said once, below, rather than fold by fold

        def progress(fold: Fold) -> None:
            done.append(fold)
            watch.tell(f"{len(done)} done")

        evaluation = run(given.X, field, folds, given.observed, seed, progress)
    early = sum(not fold.converged for fold in done)
    if field.certify and early:
        note(f"{field.induction}: {early} of {folds} fits stopped before their certificate; raise --max-iter.")
    return evaluation


def _show(found: dict[str, Evaluation]) -> None:
    first = next(iter(found.values()))
    measures = [name for name in MEASURES if not math.isnan(first.spread(name).mean)]
    table = new_table("", *(MEASURES[name] for name in measures), "time", "induced", "active")
    for name, evaluation in found.items():
        scores = [_figure(evaluation, measure, "{:.3f}") for measure in measures]
        costs = [_figure(evaluation, "seconds", "{:.2f}") + " s"]
        costs += [_figure(evaluation, measure, "{:,.0f}") for measure in ("induced", "active")]
        table.add_row(name, *scores, *costs)
    table.add_row("column frequencies", *(_figure(first, f"frequency_{name}", "{:.3f}") for name in measures))
    show(table)


def _figure(evaluation: Evaluation, measure: str, form: str) -> str:
    spread = evaluation.spread(measure)
    return f"{form.format(spread.mean)} ({form.format(spread.sd)})"
