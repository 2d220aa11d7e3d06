"""``sparsefield confidence`` prints confidence intervals of weights and edges, and tests of differences."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import ProgressBar, new_table, show, show_json
from sparsefield.app.cli.model_input import open_model, read_weights_for_model, require_estimator
from sparsefield.app.cli.model_rows import model_parts, read_rows
from sparsefield.app.cli.table_files import check_output
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.app.tables.write import refuse_overwriting_inputs, write_table
from sparsefield.errors import DataError

if TYPE_CHECKING:
    from sparsefield.analysis.case_dropping import CentralityStability
    from sparsefield.analysis.confidence_intervals import ConfidenceIntervals

SHOWN_ROWS = 20


class Method(StrEnum):
    """How intervals are estimated."""

    GODAMBE = "godambe"
    BOOTSTRAP = "bootstrap"


class Subject(StrEnum):
    """What the intervals are of."""

    WEIGHTS = "weights"
    EDGES = "edges"


Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="File for the whole table, such as intervals.csv.")
]
HowEstimated = Annotated[
    Method,
    typer.Option(
        "--method", help="godambe: the sandwich covariance, in a moment; bootstrap: percentiles of resampled rows."
    ),
]
Of = Annotated[Subject, typer.Option("--of", help="Intervals of single weights, or of edges between two columns.")]
Resamples = Annotated[
    int | None,
    typer.Option(
        "--n", min=2, help="Number of resamples: of a bootstrap, 1000 by default; of --centrality for each share, 100."
    ),
]
Selections = Annotated[
    int,
    typer.Option("--selections", min=0, help="Resamples, of these, whose features are selected again, at the same l1."),
]
Level = Annotated[float, typer.Option("--level", help="Probability of the intervals, between 0 and 1.")]
Differences = Annotated[
    bool, typer.Option("--differences", help="Test for all pairs of edges whether one is stronger than the other.")
]
CentralityOption = Annotated[
    bool,
    typer.Option(
        "--centrality", help="Drop rows, and print how many can be dropped before the centrality of columns changes."
    ),
]
DropIncomplete = Annotated[
    bool, typer.Option("--drop-incomplete", help="Leave out rows with missing cells, which are refused otherwise.")
]
ImputationsOption = Annotated[
    int | None,
    typer.Option(
        "--imputations",
        min=2,
        metavar="M",
        help="Impute missing cells this many times, such as 20, and pool the intervals of the imputed tables by "
        "Rubin's rules; for --method godambe.",
    ),
]
Checkpoint = Annotated[
    Path | None,
    opt.running_option("--checkpoint", metavar="FOLDER", help="Folder from which an interrupted bootstrap continues."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON with all rows instead of a table.")]
Seed = Annotated[int, opt.running_option("--seed", min=0, help="Random seed of the resamples.")]


@opt.with_shared_options()
def confidence(
    model: opt.Model,
    data: opt.Data,
    *,
    output: Output = None,
    method: HowEstimated = Method.GODAMBE,
    of: Of = Subject.WEIGHTS,
    resamples: Resamples = None,
    selections: Selections = 100,
    level: Level = 0.95,
    differences: Differences = False,
    centrality: CentralityOption = False,
    drop_incomplete: DropIncomplete = False,
    imputations: ImputationsOption = None,
    as_json: Json = False,
    weight: opt.Weight = None,
    reading: ReadOptions,
    checkpoint: Checkpoint = None,
    seed: Seed = 0,
    jobs: opt.Jobs = None,
) -> None:
    """Confidence intervals of the weights or the edges of a model, or tests of differences between edges.

    DATA is the table that the model was learned from. Weights are estimated without L1, with the l2 of the model (at
    least 0.01), and intervals hold for the selected features as if these had been given. --differences compares the
    strengths of all pairs of edges. --centrality is case dropping, as in R's bootnet: the coefficient is the largest
    share of rows that can be dropped such that the centrality keeps a correlation of 0.7 with that of all rows, with a
    probability of 95%.

    A table with missing cells is refused without --imputations or --drop-incomplete.
    """
    if imputations is not None and (centrality or drop_incomplete or method is Method.BOOTSTRAP):
        raise DataError(
            "--imputations is for intervals of --method godambe: remove it, or --centrality, --drop-incomplete and "
            "--method bootstrap."
        )
    if output is not None:
        check_output(output)
        refuse_overwriting_inputs([output], [model, data])
    saved = open_model(model, data)
    require_estimator(saved, "MarkovField", "CRFClassifier", what="has confidence intervals")
    rows = read_rows(saved, data, reading)
    weights = read_weights_for_model(data, reading, saved, weight)
    field = saved.load(jobs)
    from sparsefield import centrality_stability, confidence_intervals
    from sparsefield.analysis.refit import rows_without_missing

    X, y = model_parts(field, rows)
    shared: dict[str, Any] = {"sample_weight": weights, "drop_incomplete": drop_incomplete, "seed": seed}
    drawn = centrality or method is Method.BOOTSTRAP
    if imputations is None:  # refuses missing cells before it says that anything is estimated
        rows_without_missing(field, X, y, weights, drop_incomplete, intervals=not centrality)
    with ProgressBar("Estimating from resampled rows" if drawn else "Estimating weights without L1") as meter:
        shared["progress"] = meter.show_progress
        if centrality:
            stability = centrality_stability(field, X, y, n=resamples or 100, **shared)
            found, summary = stability.correlations, _describe_centrality(stability)
        else:
            ways = {"n": resamples or 1000, "selections": selections, "checkpoint": checkpoint}
            ways["imputations"] = imputations
            intervals = confidence_intervals(field, X, y, method=method.value, level=level, **ways, **shared)
            found = intervals.differences() if differences else getattr(intervals, of.value)
            summary = _describe(intervals, differences)
    _print(found, summary, output, as_json, model, summary_first=centrality)


def _print(
    found: Any, summary: list[str], output: Path | None, as_json: bool, model: Path, *, summary_first: bool
) -> None:
    """Print a frame as a table or as JSON, and write it to a file where one is given."""
    import polars as pl

    frame = found if isinstance(found, pl.DataFrame) else pl.DataFrame(found)
    if output is not None:
        write_table(frame, output)
    if as_json:
        show_json({"model": str(model), "rows": frame.to_dicts(), "summary": summary})
        return
    if summary_first:
        show("\n".join(summary) + "\n")
    names = [name for name, kind in frame.schema.items() if kind == pl.String]
    table = new_table(*(name.replace("_", " ") for name in frame.columns), left=len(names) if names else 1)
    for row in frame.head(SHOWN_ROWS).iter_rows():
        table.add_row(*map(_format, row))
    if frame.height:
        show(table)
        show()
    if frame.height > SHOWN_ROWS:
        rest = f"{frame.height - SHOWN_ROWS:,} more rows"
        show(f"{rest}: -o FILE writes all.\n" if output is None else f"{rest} are in {output}.\n")
    if not summary_first:
        show("\n".join(summary))
    if output is not None:
        show(f"\nWrote {output}.")


def _format(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _describe(found: ConfidenceIntervals, differences: bool) -> list[str]:
    """Return sentences on what the intervals are."""
    if not len(found.estimates):
        return ["The model has no features of two columns, so there is nothing to estimate."]
    how = (
        "the sandwich covariance of the pseudo-likelihood"
        if found.draws is None
        else f"percentiles of {len(found.draws):,} bootstrap resamples"
    )
    what = "Differences of strengths" if differences else "Estimates"
    lines = [f"{what} without L1, with l2 = {found.l2:g}, and {found.level:.0%} intervals from {how}."]
    lines.append("Intervals hold for the selected features; that these were selected with the same rows is left out.")
    lines += _describe_rows(found)
    if differences:
        lines.append("P-values are not adjusted for the number of comparisons.")
    return lines


def _describe_rows(found: ConfidenceIntervals | CentralityStability) -> list[str]:
    """Return how many rows were used, where cells were missing."""
    total = found.n_complete + found.n_incomplete
    imputed = getattr(found, "imputed", None)
    if imputed is not None:
        return [
            f"Missing cells of {imputed.n_rows:,} of {total:,} rows were imputed {imputed.m:,} times, and estimates "
            "were pooled by Rubin's rules."
        ]
    return [f"Estimated from the {found.n_complete:,} complete rows of {total:,}."] if found.n_incomplete else []


def _describe_centrality(found: CentralityStability) -> list[str]:
    """Return a sentence for each index of centrality."""
    lines = _describe_rows(found)
    names = {"strength": "strength", "expected_influence": "expected influence"}
    for index, share in found.coefficients.items():
        if index in found.undefined:
            lines.append(f"The stability of the {names[index]} of columns is not defined: {found.undefined[index]}.")
        else:
            lines.append(
                f"Of the rows, {share:.0%} can be dropped such that the {names[index]} of columns keeps a correlation "
                f"of {found.correlation:g} with a probability of {found.probability:.0%}."
            )
    return lines
