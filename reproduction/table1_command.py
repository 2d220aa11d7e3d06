"""This module defines ``python -m reproduction``: the paper's results, measured again beside the reported ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reproduction import printed_command, study_command
from sparsefield.app.cli.console import StatusLine, new_table, note, print_message, show

if TYPE_CHECKING:
    from reproduction.table1 import Comparison, Table1

app = typer.Typer(help="Reproduce the paper's results.", add_completion=False)

Data = Annotated[list[str] | None, typer.Option("--data", help="animals or nations; by default both.")]
Objectives = Annotated[
    list[str] | None,
    typer.Option("--objective", help="pl or cd; by default both, or pl with --quick."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--setting", help="paper, irm, free, open, irm-open, certified, penalties, ...; by default all."),
]
Folds = Annotated[int | None, typer.Option("--folds", min=2, help="Folds; by default 10, or 3 with --quick.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the split into folds.")]
Quick = Annotated[bool, typer.Option("--quick", help="The paper's setting alone; on Nation, CFI alone.")]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="For table1.csv, .json and .svg.")]

NOTES = (
    "Cited lines are as others report them, all other lines are measured. Mean (standard deviation) over folds.",
    "AP (the paper's AUC): all states of the held-out cells, ranked by probability. AP (positive): true cells alone, "
    "as for HIRM and IRM (C++). The areas of MSL, IRM and MRC are listed where the paper lists them; it does not say "
    "which of the two they are.",
    "IRM is measured by a sampler of this repository, on the same folds. MSL and MRC search clauses of Markov logic, "
    "for ten hours and more as reported; they are cited only.",
    "Time is that of a fit, and of the choice of penalties where they are chosen; cited times are of other machines.",
)
TEST_NOTE = (
    "Paired t-tests of the first method against the second, over the same folds: mean difference, p, verdict at 5%; * "
    "where it is not what the paper says. Folds share most of their training cells, so that the plain test's p is too "
    "small: p here has the variance of Nadeau and Bengio (2003), 1/folds + n_test/n_train. It is not corrected for the "
    "number of tests: of twenty without any difference, one is to be expected below 5%. Plain p: see table1.json."
)


app.command("figures")(study_command.figures)
app.command("claims")(study_command.claims)
app.command("printed")(printed_command.printed)
app.command("signals")(printed_command.signals)


@app.callback()
def reproduce() -> None:
    """Reproduce the paper's results."""


@app.command("table1")
def table1(
    data: Data = None,
    objective: Objectives = None,
    setting: Settings = None,
    folds: Folds = None,
    seed: Seed = 0,
    quick: Quick = False,
    output: Output = Path("results/table1"),
) -> None:
    """Table 1: Full-L1, Grafting and CFI on Animal and Nation, beside the paper's and others' figures."""
    from benchmarks.charts import new_figure
    from reproduction.table1 import DATA, run_table1
    from reproduction.table1_files import write_files

    check_folder(output)
    new_figure(1, 1, "")  # without matplotlib this raises before the long work
    with StatusLine("Table 1") as watch:
        found = run_table1(
            data or tuple(DATA), objective, folds, settings=setting, seed=seed, quick=quick, report=print_message,
            progress=watch.update,
        )  # fmt: skip
    files = write_files(found, output)
    for name in found.candidates:
        _show_scores(found, name)
        _show_candidates(found, name)
        _show_tests(found, name)
    for line in NOTES:
        show(line)
    if found.comparisons:
        show(TEST_NOTE)
    _note_uncertified(found)
    print_message(f"Wrote {', '.join(str(file) for file in files)}.")


@app.command("splits")
def splits(
    setting: Settings = None,
    folds: Folds = None,
    seeds: Annotated[int, typer.Option("--splits", min=2, help="Number of splits into folds.")] = 3,
) -> None:
    """Animal in several splits into folds: how far a row of Table 1 depends on its folds."""
    from reproduction.cited import CITED, LAO_ZHU
    from reproduction.table1_splits import MEASURES, run_splits

    with StatusLine("Splits") as watch:
        found = run_splits(setting or ("certified", "penalties"), folds, seeds, print_message, watch.update)
    table = new_table("setting", "split", *MEASURES.values(), left=2)
    for cited in CITED:
        if cited.data == "animals" and cited.source == LAO_ZHU:
            values = [getattr(cited, name) for name in MEASURES]
            table.add_row(cited.method, "cited", *(f"{pair[0]:.3f}" if pair else "" for pair in values))
    for line in found:
        table.add_row(line.setting, line.split, *(f"{mean:.4f} ({error:.4f})" for mean, error in line.scores))
    show(table)
    show(
        "A split: mean and standard error over its folds. All: mean over splits, and standard deviation between them. "
        "Every split holds each cell out once, so that splits differ by what else is held out with it, not by cells."
    )


@app.command("relations")
def relations(
    data: Annotated[
        list[str] | None, typer.Option("--data", help="animals, nations, kinship, umls; default: all.")
    ] = None,
    folds: Folds = None,
    seed: Seed = 0,
    irm: Annotated[bool, typer.Option("--irm", help="Run an infinite relational model, too.")] = False,
) -> None:
    """The four data sets of Kok and Domingos: hidden cells, beside what others report."""
    from reproduction.relations import SETS, load_relations, measure, records

    unknown = [name for name in data or () if name not in SETS]
    if unknown:
        raise ValueError(f"data must be one of {', '.join(SETS)}; got {unknown[0]!r}.")
    for name in data or SETS:
        load_relations(name)  # what cannot be downloaded is refused before the long work
    table = new_table("data", "method", "AP", "AP (positive)", "CLL", "error", "seconds a fold", left=2)
    with StatusLine("Relations") as watch:
        for name in data or SETS:
            done = iter(range(1, 1000))
            tell = lambda _, name=name, done=done: watch.update(f"{SETS[name]}, fold {next(done)} done")  # noqa: E731
            found = [measure(name, folds or 10, seed, irm=way, progress=tell) for way in (False, True)[: 1 + irm]]
            for record in records(name, *found):
                table.add_row(*record)
    show(table)
    show("Mean (standard deviation) over folds. AP (positive) is that of true cells, which others report.")


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to before the long work starts."""
    from sparsefield.errors import DataError

    if folder.exists() and not folder.is_dir():
        raise DataError(f"--output: '{folder}' is a file, not a folder.")
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise DataError(f"--output: '{there}' cannot be written to.")


def _show_scores(found: Table1, data: str) -> None:
    from reproduction.table1 import DATA
    from reproduction.table1_files import records

    folds = f"{found.folds} folds, each holds out {1 / found.folds:.0%} of the cells"
    show(f"{DATA[data].title}, l1 = {DATA[data].l1:g} unless chosen, {folds}")
    table = new_table(
        "method", "setting", "obj.", "AP", "AP (positive)", "CLL", "error", "time a fold", "induced / active", left=3
    )
    for record in records(found):
        if record["data"] == data:
            setting = record["setting"] or f"cited: {record['source']}"
            table.add_row(record["method"], setting, record["objective"], *_figures(record))
    show(table)
    for row in found.rows:
        if row.data == data and row.picks:
            picks = ", ".join("/".join(f"{penalty:g}" for penalty in pick) for pick in row.picks)
            show(f"{row.setting.label}, {row.objective}, {'/'.join(('l1', 'l2')[: len(row.picks[0])])}: {picks}")
    show()


def _figures(record: dict[str, Any]) -> list[str]:
    scores = [_spread(record, name, ".3f") for name in ("ap", "ap_positive", "cll", "error_rate")]
    if record["origin"] == "cited":
        return [*scores, record["cited_time"], ""]
    counts = f"{record['induced']:,.0f} / {record['active']:,.0f}" if record["objective"] else ""
    return [*scores, _spread(record, "seconds", ".2f") + " s", counts]


def _spread(record: dict[str, Any], name: str, form: str) -> str:
    mean, sd = record[name], record[f"{name}_sd"]
    if mean is None:
        return ""
    return f"{mean:{form}}" if sd is None else f"{mean:{form}} ({sd:{form}})"


def _show_candidates(found: Table1, data: str) -> None:
    from reproduction.cited import CANDIDATES

    count = found.candidates[data]
    words = f"{count.biases:,} biases + {count.pairs:,} pairs = {count.total:,}"
    show(f"Candidate features: {words}; the paper counts {CANDIDATES[data]:,}.")
    show()


def _show_tests(found: Table1, data: str) -> None:
    from reproduction.cited import CLAIMS
    from reproduction.table1 import MEASURES

    tests = [one for one in found.comparisons if one.data == data]
    if not tests:
        return
    labels = {row.setting.name: row.setting.label for row in found.rows}
    table = new_table("comparison", "setting", "obj.", "AP", "CLL", "error", left=3)
    for first, second in dict.fromkeys((one.first, one.second) for one in tests):
        pair = [one for one in tests if (one.first, one.second) == (first, second)]
        claims = CLAIMS[data, first, second]
        table.add_row(f"{first} vs {second}", "the paper says", "", *(claims.get(m, "nothing") for m in MEASURES))
        for setting, objective in dict.fromkeys((one.setting, one.objective) for one in pair):
            same = [one for one in pair if (one.setting, one.objective) == (setting, objective)]
            table.add_row("", labels[setting], objective, *(_verdict(one) for one in same))
    show(table)
    show()


def _verdict(one: Comparison) -> str:
    from reproduction.cited import agrees

    mark = " *" if one.claim and not agrees(one.claim, one.verdict) else ""
    p = f"p {one.test.p:.3f}" if one.test.p >= 0.001 else "p <.001"
    return f"{one.test.difference:+z.4f} {p} {one.verdict}{mark}"


def _note_uncertified(found: Table1) -> None:
    for row in found.rows:
        early = sum(not fold.converged for fold in row.evaluation.folds)
        if row.setting.changes.get("solver__certify") and early:
            note(f"{row.data}, {row.setting.label}: {early} of {found.folds} fits stopped before their certificate.")
