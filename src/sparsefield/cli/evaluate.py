"""``sparsefield evaluate``: the paper's table for any data."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.cli import options as opt
from sparsefield.cli.console import Watch, new_table, note, show
from sparsefield.cli.fit import read_with_roles
from sparsefield.cli.tables import Reading

if TYPE_CHECKING:
    from sparsefield import MarkovField
    from sparsefield.experiments.protocol import Evaluation, Fold

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
    induction: Inductions = None,
    objective: opt.Objective = "pl",
    l1: opt.L1 = 2.0,
    l2: opt.L2 = 1.0,
    threshold: opt.Threshold = 0.2,
    batch_size: opt.BatchSize = "auto",
    certify: opt.Certify = True,
    penalize_unary: opt.PenalizeUnary = True,
    max_iter: opt.MaxIter = 1000,
    jobs: opt.Jobs = None,
    seed: opt.Seed = 0,
) -> None:
    """Hide cells part by part, learn from the others, and say how well the hidden ones are predicted.

    AUC: all states of the hidden cells ranked by belief, the true ones relevant; area under precision and
    recall. CLL: mean natural log of the belief in the true state. Mean (standard deviation) over folds.
    """
    reading = Reading(tuple(missing or ()), not no_header, separator)
    table, roles = read_with_roles(data, reading, observed, identifiers, numeric)
    learning = {
        "objective": objective, "l1": l1, "l2": l2, "threshold": threshold, "batch_size": batch_size,
        "certify": certify, "penalize_unary": penalize_unary, "max_iter": max_iter,
        "numeric": roles["numeric"],
    }  # fmt: skip
    found = {}
    for name in induction or ["cfi"]:
        field = opt.make_field(induction=name, jobs=jobs, seed=seed, **learning)
        found[name] = _evaluate(field, table, roles["observed"], folds, seed)
    if as_json:
        about = {"data": str(data), "folds": folds, "seed": seed, "observed": roles["observed"]}
        results = [{"induction": name, **evaluation.as_dict()} for name, evaluation in found.items()]
        typer.echo(json.dumps({**about, "options": learning, "results": results}, indent=2))
    else:
        _show(found)


def _evaluate(field: MarkovField, table: Any, observed: list[str], folds: int, seed: int) -> Evaluation:
    from sparsefield.experiments.protocol import evaluate as run

    done: list[Fold] = []
    with Watch(f"{field.induction}, {folds} folds") as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said once, below, rather than fold by fold

        def progress(fold: Fold) -> None:
            done.append(fold)
            watch.tell(f"{len(done)} done")

        evaluation = run(table, field, folds, observed, seed, progress)
    early = sum(not fold.converged for fold in done)
    if field.certify and early:
        note(f"{field.induction}: {early} of {folds} fits stopped before their certificate; raise --max-iter.")
    return evaluation


def _show(found: dict[str, Evaluation]) -> None:
    table = new_table("", "AUC", "CLL", "error", "time", "induced", "active")
    frequencies = {name: f"frequency_{name}" for name in ("auc", "cll", "error_rate")}
    for name, evaluation in found.items():
        scores = _scores(evaluation, {key: key for key in frequencies})
        costs = [_figure(evaluation, "seconds", "{:.2f}") + " s"]
        costs += [_figure(evaluation, measure, "{:,.0f}") for measure in ("induced", "active")]
        table.add_row(name, *scores, *costs)
    table.add_row("column frequencies", *_scores(next(iter(found.values())), frequencies))
    show(table)


def _scores(evaluation: Evaluation, names: dict[str, str]) -> list[str]:
    return [_figure(evaluation, names[key], "{:.3f}") for key in ("auc", "cll", "error_rate")]


def _figure(evaluation: Evaluation, measure: str, form: str) -> str:
    spread = evaluation.spread(measure)
    return f"{form.format(spread.mean)} ({form.format(spread.sd)})"
