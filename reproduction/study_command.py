"""This module defines ``python -m reproduction figures | claims``: the paper's synthetic study."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli.console import StatusLine, new_table, print_message, show, show_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reproduction.claims import Claim, Finding
    from reproduction.plan import Plan
    from reproduction.runs import Run
    from reproduction.store import Results

Nodes = Annotated[
    list[int] | None,
    typer.Option("--nodes", min=2, help="Size of a network in figure 3; by default 25, 50, 100, 200 and 400."),
]
Size = Annotated[int | None, typer.Option("--size", min=2, help="Size of the networks of figure 2; by default 200.")]
Thresholds = Annotated[
    list[float] | None, typer.Option("--threshold", min=0, help="Threshold of figure 2; by default 0, 0.1, ... 0.8.")
]
Seeds = Annotated[int | None, typer.Option("--seeds", min=1, help="Networks of each size; by default 5.")]
Folds = Annotated[int | None, typer.Option("--folds", min=2, help="Folds; by default 10, or 3 with --quick.")]
Rows = Annotated[int | None, typer.Option("--rows", min=10, help="Rows of each network; by default 200.")]
States = Annotated[int | None, typer.Option("--states", min=2, help="States of each node; by default 2.")]
FreeBiases = Annotated[
    bool, typer.Option("--free-biases", help="No penalty on biases; the paper penalizes every weight.")
]
Objectives = Annotated[list[str] | None, typer.Option("--objective", help="pl or cd; by default both.")]
Jobs = Annotated[
    int,
    typer.Option("--jobs", min=1, help="Runs in parallel; changes no result but the times."),
]
AsPrinted = Annotated[
    bool,
    typer.Option("--as-printed", help="Fits as printed: no cut at l1, one step per batch, an end by small changes."),
]
Tolerances = Annotated[
    list[float] | None,
    typer.Option("--tolerance", min=0, help="End of fits as printed; by default 0.1, 0.01, 0.001 and 0.0001."),
]
Least = Annotated[
    list[str] | None,
    typer.Option(
        "--least",
        metavar="NODES:TOLERANCE",
        help="Smallest tolerance for so many nodes and more; by default 400:0.001 and 1000:0.01.",
    ),
]
FoldsRun = Annotated[
    int | None, typer.Option("--folds-run", min=1, help="Folds that fits as printed perform; by default all.")
]
At = Annotated[
    list[float] | None,
    typer.Option(
        "--at", help="With --as-printed: tolerance whose comparisons are printed; by default verdicts of all."
    ),
]
Number = Annotated[
    list[int] | None,
    typer.Option("--claim", min=1, help="Number of a claim to test; by default all."),
]
LogOdds = Annotated[
    bool, typer.Option("--log-odds", help="Biases of fits as printed start at log-odds of frequencies, not at 0.")
]
NoReal = Annotated[bool, typer.Option("--no-real", help="Networks only, without Animal and Nation.")]
Quick = Annotated[bool, typer.Option("--quick", help="Small networks and few folds: a couple of minutes.")]
Png = Annotated[bool, typer.Option("--png", help="Write PNG files too.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        help="For results and finished runs, which are kept; by default results/study, or results/quick-study.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

CLAIM_NOTE = (
    "Differences are of means over folds, one for each network, with 95% confidence intervals by Student's t; 'x' "
    "marks ratios. On Animal and Nation they are of folds, with the variance of Nadeau and Bengio (2003). A claim that "
    "one is less or more than the other holds when the interval lies on that side, and does not hold when it lies on "
    "the other, or within {margins}: no difference. A claim that two are alike holds when the interval lies within "
    "these margins, and does not hold when it lies outside; a claim that there is no gain, when all of the interval is "
    "less, or more, of a gain than that. All else is within noise. A number of features of 0 counts as 1. Nothing is "
    "corrected for the number of comparisons."
)


def figures(
    nodes: Nodes = None,
    size: Size = None,
    threshold: Thresholds = None,
    seeds: Seeds = None,
    folds: Folds = None,
    rows: Rows = None,
    states: States = None,
    free_biases: FreeBiases = False,
    objective: Objectives = None,
    jobs: Jobs = 1,
    quick: Quick = False,
    png: Png = False,
    output: Output = None,
) -> None:
    """Figures 1 to 4: signals and errors, CFI over its thresholds, and all methods over the size of the network."""
    from benchmarks.charts import new_figure
    from reproduction.figures import draw_spreads, write_figures

    output = output or Path("results/quick-study" if quick else "results/study")
    plan = make_plan(
        quick, nodes=nodes, size=size, thresholds=threshold, seeds=seeds, folds=folds, rows=rows, states=states,
        free_biases=free_biases, objectives=objective,
    )  # fmt: skip
    runs = [*plan.figure_2(), *plan.figure_3(), *plan.structure()]
    new_figure(1, 1, "")  # without matplotlib this raises before the long work
    with open_study(output, "The paper's figures", [name for name in plan.real if name == "nations"]) as watch:
        results = gather_runs(runs, plan, output, jobs, watch)
        spreads = draw_spreads(plan, watch.update)
        files = write_figures(plan, results, spreads, output, png=png)
    _show_figures(plan, results)
    print_message(f"Wrote {', '.join(str(file) for file in files)}.")


def claims(
    size: Size = None,
    threshold: Thresholds = None,
    seeds: Seeds = None,
    folds: Folds = None,
    rows: Rows = None,
    states: States = None,
    free_biases: FreeBiases = False,
    objective: Objectives = None,
    claim: Number = None,
    as_printed: AsPrinted = False,
    tolerance: Tolerances = None,
    least: Least = None,
    folds_run: FoldsRun = None,
    at: At = None,
    log_odds: LogOdds = False,
    no_real: NoReal = False,
    jobs: Jobs = 1,
    quick: Quick = False,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Test the paper's claims: each holds, does not hold, or is within noise."""
    from reproduction.claims import judge, runs_of
    from reproduction.claims_files import as_records, write_claims

    output = output or Path("results/quick-study" if quick else "results/study")
    plan = make_plan(
        quick, size=size, thresholds=threshold, seeds=seeds, folds=folds, rows=rows, states=states,
        free_biases=free_biases, objectives=objective, as_printed=as_printed, tolerances=tolerance,
        least=least, folds_run=folds_run, no_real=no_real, log_odds=log_odds,
    )  # fmt: skip
    chosen = _chosen_claims(claim)
    runs = runs_of(plan, chosen)
    with open_study(output, "The paper's claims", {run.data for run in runs} - {"synthetic"}) as watch:
        results = gather_runs(runs, plan, output, jobs, watch)
    if as_printed:
        found = {t: judge(plan, results.at(t), chosen) for t in plan.tolerances_at(plan.size)}
        file = write_claims(found, output, f"claims-as-printed-{plan.size}.csv")
    else:
        found = {0.0: judge(plan, results, chosen)}
        file = write_claims(found, output)
    if as_json:
        show_json(as_records(found))
    elif as_printed and not at:
        _show_verdicts(found, plan)
    else:
        for t, findings in found.items():
            if not as_printed or t in (at or ()):
                _show_claims(findings, plan, t)
    print_message(f"Wrote {file}.")


def _chosen_claims(numbers: list[int] | None) -> list[Claim]:
    from reproduction.claims import CLAIMS

    for number in numbers or ():
        if number > len(CLAIMS):
            raise ValueError(f"--claim must be from 1 to {len(CLAIMS)}; got {number}.")
    return [CLAIMS[number - 1] for number in sorted(set(numbers))] if numbers else list(CLAIMS)


def make_plan(
    quick: bool, *, folds: Any = None, rows: Any = None, states: Any = None, free_biases: bool = False,
    tolerances: Any = None, folds_run: Any = None, no_real: bool = False, **given: Any,
) -> Plan:  # fmt: skip
    """Return the plan of options of the command line; those that are None have their defaults."""
    from reproduction.plan import QUICK, Plan

    plan = QUICK if quick else Plan()
    own = {"folds": folds, "rows": rows, "states": states, "penalize_biases": False if free_biases else None}
    own |= {"folds_run": folds_run, "tolerances": tuple(sorted(set(tolerances), reverse=True)) if tolerances else None}
    settings = replace(plan.settings, **{name: value for name, value in own.items() if value is not None})
    for name in ("nodes", "thresholds"):
        given[name] = tuple(sorted(set(given[name]))) if given.get(name) else None
    given["objectives"] = tuple(dict.fromkeys(given["objectives"])) if given.get("objectives") else None
    given["real"] = () if no_real else given.get("real")
    given["least"] = tuple(_size_and_tolerance(words) for words in given["least"]) if given.get("least") else None
    return replace(plan, settings=settings, **{name: value for name, value in given.items() if value is not None})


def _size_and_tolerance(words: str) -> tuple[int, float]:
    nodes, _, tolerance = words.partition(":")
    try:
        return int(nodes), float(tolerance)
    except ValueError:
        raise ValueError(f"--least must be like 400:0.001; got {words!r}.") from None


@contextmanager
def open_study(output: Path, title: str, data: Iterable[str]) -> Iterator[StatusLine]:
    """Show the progress of a study; runs that are finished when it is interrupted are kept."""
    from reproduction.runs import load_real
    from reproduction.table1_command import check_folder

    check_folder(output)
    for name in data:
        load_real(name)  # data that cannot be had are missed before the long work
    try:
        with StatusLine(title) as watch:
            yield watch
    except KeyboardInterrupt:
        print_message(f"Finished runs are kept in {output / 'runs'}: the same command goes on from there.")
        raise


def gather_runs(
    runs: Iterable[Run], plan: Plan, output: Path, jobs: int, watch: StatusLine, *, stored: bool = False
) -> Results:
    """Return the records of runs, of which those that are not stored are performed, or, with ``stored``, left out."""
    from reproduction.store import Results, Store, gather

    store = Store(output / "runs")
    if stored:
        found = {run: store.get(run, plan.settings) for run in runs}
        return Results({run: records for run, records in found.items() if records is not None})
    return gather(runs, plan.settings, store, jobs=jobs, progress=watch.update, report=print_message)


def _show_figures(plan: Plan, results: Results) -> None:
    from reproduction.figures import size_rows, structure_table, threshold_rows

    shown = {
        "cpu_seconds": ".2f", "error_rate": ".4f", "cll": ".4f", "ap": ".4f", "induced": ",.0f", "active": ",.0f",
        "looked_at": ".1%",
    }  # fmt: skip
    heads = ("seconds", "error", "CLL", "AP", "induced", "active", "looked at")
    own = plan.settings
    show(f"Figure 2: N = {plan.size}, {own.rows} rows, {own.folds} folds; mean (standard error), {plan.seeds} seeds")
    table = new_table("method", "obj.", "threshold", *heads, left=2)
    for row in threshold_rows(plan, results):
        table.add_row(row["method"], row["objective"], f"{row['threshold']}", *_cells(row, shown))
    show(table)
    show("\nFigure 3")
    table = new_table("method", "obj.", "nodes", *heads, left=2)
    for row in size_rows(plan, results):
        table.add_row(row["method"], row["objective"], str(row["nodes"]), *_cells(row, shown))
    show(table)
    show("\nTrue edges found by fits to complete tables")
    table = new_table("nodes", "method", "obj.", "edges", "precision", "recall", "AP", "ROC", "seconds", left=3)
    forms = {"edges": ",.0f", "edge_precision": ".3f", "edge_recall": ".3f", "edge_ap": ".3f", "edge_roc": ".3f"}
    for row in structure_table(plan, results):
        cells = _cells(row, {**forms, "cpu_seconds": ".2f"})
        table.add_row(str(row["nodes"]), row["method"], row["objective"], *cells)
    show(table)
    show(
        "\nSeconds are of a processor. Looked at: products of a signal and an error that are both beyond the threshold."
    )


def _cells(row: dict[str, Any], forms: dict[str, str]) -> list[str]:
    return ["" if row[name] is None else _spread(row[name], row[f"{name}_se"], form) for name, form in forms.items()]


def _spread(mean: float, error: float | None, form: str) -> str:
    return f"{mean:{form}}" if error is None else f"{mean:{form}} ({error:{form}})"


def _show_claims(found: list[Finding], plan: Plan, tolerance: float) -> None:
    from reproduction.claims import CLAIMS, verdict_of

    if tolerance:
        show(f"As printed, tolerance {tolerance:g}\n")
    for number, claim in enumerate(CLAIMS, start=1):
        own = [finding for finding in found if finding.claim == claim.words]
        if not own:
            continue
        verdicts = (f"{o} {verdict_of([f for f in own if f.objective == o])}" for o in plan.objectives)
        show(f"{number}. {claim.words} ({claim.where}): {', '.join(verdicts)}")
        for words, measure in dict.fromkeys((finding.part.words, finding.part.measure) for finding in own):
            same = [f for f in own if (f.part.words, f.part.measure) == (words, measure)]
            cells = "".join(f"{f.objective} {f.size:<32}{f.verdict:<16}" for f in same)
            show(f"   {words:<38}{NAMES[measure]:<14}{cells}".rstrip())
        show()
    show(_setting_words(plan) + CLAIM_NOTE.format(margins=MARGIN_WORDS))


def _show_verdicts(found: Mapping[float, list[Finding]], plan: Plan) -> None:
    """Show the verdict of each claim at each tolerance."""
    from reproduction.claims import CLAIMS, verdict_of

    table = new_table("claim", "obj.", *(f"{tolerance:g}" for tolerance in found), left=2 + len(found))
    for number, claim in enumerate(CLAIMS, start=1):
        for objective in plan.objectives:
            own = [
                [one for one in findings if (one.claim, one.objective) == (claim.words, objective)]
                for findings in found.values()
            ]
            if any(own):
                table.add_row(f"{number}. {claim.words}", objective, *(verdict_of(one) for one in own))
    show(table)
    show(_setting_words(plan) + "--at TOLERANCE shows the comparisons.")


def _setting_words(plan: Plan) -> str:
    own = plan.settings
    folds = f"{own.folds_run} of {own.folds}" if plan.as_printed and own.folds_run else f"{own.folds}"
    return (
        f"Networks of {plan.size} nodes, {own.rows} rows, {plan.seeds} seeds, {folds} folds, l1 = {own.l1:g}, "
        f"l2 = {own.l2:g}. "
    )


NAMES = {
    "cpu_seconds": "time", "scoring_seconds": "scoring time", "error_rate": "error", "cll": "CLL", "ap": "AP",
    "induced": "induced", "active": "active", "looked_at": "looked at",
}  # fmt: skip
MARGIN_WORDS = "0.005 of error and AP, 0.01 of CLL, a factor of 1.25 of time and of 1.1 of induced features"
