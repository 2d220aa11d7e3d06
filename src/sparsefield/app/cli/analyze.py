"""``sparsefield analyze``: how sure the edges of a model are, and which of its columns are central."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.comparison import comparison
from sparsefield.app.cli.console import ProgressBar, ResultTable, StatusLine, deliver, note
from sparsefield.app.cli.inputs import linked_inputs
from sparsefield.app.cli.models import model_parts, open_model, read_rows, read_weights_for_model
from sparsefield.app.cli.outputs import check_output, check_table_output
from sparsefield.app.pages.names import list_some
from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.read import read_source
from sparsefield.app.tables.write import refuse_overwriting_inputs
from sparsefield.errors import DataError, count

if TYPE_CHECKING:
    import polars as pl

    from sparsefield.analysis.bootstrap import CentralityStability
    from sparsefield.analysis.confidence_intervals import ConfidenceIntervals
    from sparsefield.model import Field

SHOWN_FEATURES = 10
MOST_COLUMNS = 40
AUTO = "auto"
RECORDED = ("resamples", "seed", "l1", "halved", "mean_pairs")
"""Entries of the record of stability selection that JSON has."""

LEFT = {"column": "column", "community": "community"}
CENTRALITY = LEFT | {
    "degree": "degree",
    "strength": "strength",
    "expected_influence": "influence",
    "closeness": "closeness",
    "betweenness": "betweenness",
    "bridge_strength": "bridge strength",
    "bridge_expected_influence": "bridge influence",
}
PREDICTABILITY = LEFT | {
    "cells": "values",
    "r_squared": "R^2",
    "accuracy": "accuracy",
    "normalized_accuracy": "normalized accuracy",
    "gain": "gain",
}
"""{column of the result: its heading}"""

app = typer.Typer(
    help="Ask of a model how sure its edges are, which columns are central, and whether groups of rows differ.",
    rich_markup_mode="markdown",
)


@app.command()
def stability(
    model: opt.Model,
    data: opt.Data,
    output: Annotated[
        Path | None, opt.output_option("File for the model with its selection frequencies. Default: MODEL.")
    ] = None,
    resamples: Annotated[
        int, typer.Option("--resamples", min=2, help="Number of halves to learn from; an even number.")
    ] = 50,
    as_json: opt.Json = False,
    weight: opt.Weight = None,
    missing: opt.Missing = None,
    settings: opt.ReadSet = None,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
) -> None:
    """Learn from random halves of the rows, and report how often each feature is selected (stability selection).

    DATA is the table that the model was learned from. Halves are drawn in pairs that share no row. Each fit has the
    options of the model, and its l1 times the square root of 1/2, because the noise in a gradient grows with the square
    root of the number of rows. The selection frequencies are added to the model file; 'report' and 'explore' show them.
    """
    target = model if output is None else output
    check_output(target)
    refuse_overwriting_inputs([target], [data, *linked_inputs(data)])
    reading = opt.reading_options(missing, settings)
    saved = open_model(model, data)
    rows = read_rows(saved, data, reading)
    if weight is not None and not hasattr(rows, "select"):
        raise DataError("--weight names a column of one table: remove it for linked tables and sparse matrices.")
    weights = read_weights_for_model(data, reading, saved, weight)
    field = saved.load(jobs)
    X, y = model_parts(field, rows)
    from sparsefield import stability as select_again

    with ProgressBar(f"Learning from {resamples:,} halves") as meter:
        select_again(field, X, resamples, y=y, sample_weight=weights, random_state=seed, progress=meter.show_progress)
    field.save(target)
    _deliver_stability(field.field_, target, as_json)


def _deliver_stability(field: Field, target: Path, as_json: bool) -> None:
    import polars as pl

    from sparsefield.analysis.feature_sentences import list_features
    from sparsefield.app.pages.fit_summary import describe_stability, often_left_out, stability_column

    features, how = list_features(field), field.record.stability
    share, summary = stability_column(field, features), describe_stability(field, features)

    def parts() -> Iterator[str | ResultTable]:
        if how is not None:
            yield f"{how.resamples:,} halves at l1 = {how.l1:.3g} select {how.mean_pairs:,.1f} pairs on average.\n"
        rows = [(f"{f.weight:+.2f}", f"{share[f.name]:.0%}", f.sentence) for f in features[:SHOWN_FEATURES]]
        if rows:
            yield ResultTable(pl.DataFrame(rows, ["weight", "selected", "strongest features"], orient="row"))
            yield ""
        yield "\n".join(summary)

    def content() -> dict[str, Any]:
        return {
            "model": str(target),
            **({} if how is None else {name: getattr(how, name) for name in RECORDED}),
            "features": [{**feature.as_dict(), "selected": share[feature.name]} for feature in features],
            "left_out": [{**feature.as_dict(), "selected": part} for feature, part in often_left_out(field)],
            "summary": summary,
        }

    if not features:
        note("The model has no features of two columns.")
    deliver(parts, content, as_json=as_json, written=[target])


@app.command()
def intervals(
    model: opt.Model,
    data: opt.Data,
    output: opt.ResultOutput = None,
    method: Annotated[
        Literal["godambe", "bootstrap"],
        typer.Option(help="godambe: the sandwich covariance, in a moment; bootstrap: percentiles of resampled rows."),
    ] = "godambe",
    of: Annotated[
        Literal["weights", "edges"], typer.Option(help="Intervals of single weights, or of edges between two columns.")
    ] = "weights",
    differences: Annotated[
        bool, typer.Option("--differences", help="Test for all pairs of edges whether one is stronger than the other.")
    ] = False,
    centrality: Annotated[
        bool,
        typer.Option(
            "--centrality",
            help="Drop rows, and print how many can be dropped before the centrality of columns changes.",
        ),
    ] = False,
    level: Annotated[float, typer.Option(help="Probability of the intervals, between 0 and 1.")] = 0.95,
    resamples: Annotated[
        int | None,
        typer.Option(min=2, help="Number of resamples: of a bootstrap, 1000 by default; of --centrality, 100 a share."),
    ] = None,
    imputations: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="M",
            help="Impute missing cells this many times, such as 20, and pool the intervals of the imputed tables by "
            "Rubin's rules; for --method godambe.",
        ),
    ] = None,
    drop_incomplete: Annotated[
        bool, typer.Option("--drop-incomplete", help="Leave out rows with missing cells, which are refused otherwise.")
    ] = False,
    as_json: opt.Json = False,
    weight: opt.Weight = None,
    missing: opt.Missing = None,
    settings: opt.ReadSet = None,
    seed: opt.Seed = 0,
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
    if imputations is not None and (drop_incomplete or method == "bootstrap"):
        raise DataError("--imputations is for --method godambe without --drop-incomplete: remove one of them.")
    if centrality:
        options = {
            "--method": method != "godambe",
            "--of": of != "weights",
            "--differences": differences,
            "--level": level != 0.95,
            "--imputations": imputations is not None,
        }
        unused = [name for name, is_set in options.items() if is_set]
        if unused:
            raise DataError(f"--centrality has no intervals: remove {', '.join(unused)}.")
    elif resamples is not None and method != "bootstrap":
        raise DataError("--resamples is for --method bootstrap and --centrality: add one of them, or remove it.")
    check_table_output(output)
    refuse_overwriting_inputs([output], [model, data])
    reading = opt.reading_options(missing, settings)
    saved = open_model(model, data)
    saved.require("MarkovField", "CRFClassifier", what="has confidence intervals")
    rows = read_rows(saved, data, reading)
    weights = read_weights_for_model(data, reading, saved, weight)
    field = saved.load(jobs)
    from sparsefield import centrality_stability, confidence_intervals

    X, y = model_parts(field, rows)
    shared: dict[str, Any] = {"sample_weight": weights, "drop_incomplete": drop_incomplete, "seed": seed}
    drawn = centrality or method == "bootstrap"
    with ProgressBar("Estimating from resampled rows" if drawn else "Estimating weights without L1") as meter:
        shared["progress"] = meter.show_progress
        if centrality:
            dropped = centrality_stability(field, X, y, n=resamples or 100, **shared)
            frame, summary = as_polars(dropped.to_frame()), _describe_case_dropping(dropped)
        else:
            ways = {"method": method, "level": level, "n": resamples or 1000, "imputations": imputations}
            result = confidence_intervals(field, X, y, **ways, **shared)
            frame = as_polars(result.differences() if differences else getattr(result, of))
            summary = _describe_intervals(result, differences)

    def parts() -> Iterator[str | ResultTable]:
        table = [ResultTable(frame), ""] if frame.height else []
        lines = "\n".join(summary)
        yield from [f"{lines}\n", *table[:1]] if centrality else [*table, lines]

    content = {"model": str(model), "rows": frame, "summary": summary}
    deliver(parts, lambda: content, as_json=as_json, output=output, frame=frame)


def as_polars(frame: Any) -> pl.DataFrame:
    """Return a frame of the library as one of polars."""
    import polars as pl

    return frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame)


def _describe_intervals(result: ConfidenceIntervals, differences: bool) -> list[str]:
    """Return sentences on what the intervals are."""
    if not len(result.estimates):
        return ["The model has no features of two columns, so there is nothing to estimate."]
    how = (
        "the sandwich covariance of the pseudo-likelihood"
        if result.draws is None
        else f"percentiles of {len(result.draws):,} bootstrap resamples"
    )
    what = "Differences of strengths" if differences else "Estimates"
    lines = [f"{what} without L1, with l2 = {result.l2:g}, and {result.level:.0%} intervals from {how}."]
    lines.append("Intervals hold for the selected features; that these were selected with the same rows is left out.")
    lines += _describe_rows(result)
    return [*lines, "P-values are not adjusted for the number of comparisons."] if differences else lines


def _describe_rows(result: ConfidenceIntervals | CentralityStability) -> list[str]:
    """Return how many rows were used, where cells were missing."""
    total, imputed = result.n_complete + result.n_incomplete, getattr(result, "imputed", None)
    if imputed is not None:
        return [
            f"Missing cells of {result.n_incomplete:,} of {total:,} rows were imputed {len(imputed):,} times, and "
            "estimates were pooled by Rubin's rules."
        ]
    return [f"Estimated from the {result.n_complete:,} complete rows of {total:,}."] if result.n_incomplete else []


def _describe_case_dropping(result: CentralityStability) -> list[str]:
    """Return a sentence for each index of centrality."""
    lines = _describe_rows(result)
    for index, share in result.coefficients.items():
        name = index.replace("_", " ")
        if share != share:
            lines.append(
                f"The stability of the {name} is not defined: it is the same for all columns, or no edge has a sign."
            )
        else:
            lines.append(
                f"Of the rows, {share:.0%} can be dropped such that the {name} of columns keeps a correlation of 0.7 "
                "with a probability of 95%."
            )
    return lines


@app.command()
def centrality(
    model: opt.Model,
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DATA]",
            help="Rows from which predictability is computed, preferably not used in training. Without them, only "
            "centrality is.",
        ),
    ] = None,
    communities: Annotated[
        list[str] | None,
        typer.Option(
            "--communities",
            metavar="WORDS",
            help="Communities for bridge centrality: 'auto' finds them; a file with a row for each column of the model "
            "has them in its columns 'column' and 'community', which may be empty; or column=community, ... with "
            "commas between. May be repeated.",
        ),
    ] = None,
    output: opt.ResultOutput = None,
    as_json: opt.Json = False,
    missing: opt.Missing = None,
    settings: opt.ReadSet = None,
    jobs: opt.Jobs = None,
) -> None:
    """List how central each column is in the network of a model, and how well it is predicted from the others.

    Centrality: the number of adjacent columns; strength, the sum of the strengths of the edges; expected influence,
    the same with the signs of edges where they have one; closeness and betweenness of shortest paths, where an edge has
    the length 1 / strength; with --communities, strength and influence of edges between communities.

    Predictability, with DATA: each value is predicted from all others of its row. R^2 of numbers; accuracy of others,
    also normalized so that 0 is the most frequent state and 1 is perfect; and the gain in log-likelihood per value over
    the frequencies of the column.
    """
    reading = opt.reading_options(missing, settings)
    if data is None and reading != FileFormat():
        raise DataError("Options such as --missing are for reading DATA: add it or remove them.")
    check_table_output(output)
    files = filter(is_file, map(Path, communities or []))
    refuse_overwriting_inputs([output], [model, data, *files, *linked_inputs(data)])
    named = read_communities(communities)
    saved = open_model(model, data)
    rows = None if data is None else read_rows(saved, data, reading)
    field = saved.load(jobs)
    import polars.selectors as cs

    from sparsefield import centrality as measure

    with StatusLine("Computing centrality"):
        frame = as_polars(measure(field, rows, named))
    frame = frame.sort("strength", descending=True, maintain_order=True).with_columns(cs.float().fill_nan(None))

    def parts() -> Iterator[str | ResultTable]:
        yield ResultTable(frame, CENTRALITY, most=MOST_COLUMNS)
        if "gain" in frame.columns:
            yield ""
            yield ResultTable(frame, PREDICTABILITY, most=MOST_COLUMNS)

    unsigned = int(frame["unsigned_edges"].sum()) // 2
    if unsigned:
        note(f"{count(unsigned, 'edge')} without a sign, of states without an order: expected influence lacks them.")
    deliver(parts, lambda: {"model": str(model), "columns": frame}, as_json=as_json, output=output, frame=frame)


app.command()(comparison)


def read_communities(words: list[str] | None) -> dict[str, str | None] | Literal["auto"] | None:
    """Return the communities of an option: found ones, those of files, or pairs such as ``wet=weather``."""
    if not words:
        return None
    if AUTO in words:
        if len(words) > 1:
            raise DataError("--communities auto finds the communities of all columns: remove the others.")
        return AUTO
    communities: dict[str, str | None] = {}
    for word in words:
        if is_file(Path(word)):
            communities |= _read_community_file(word)
            continue
        if "=" not in word:
            raise DataError(f"--communities {word}: this is no file, no column=community, and not 'auto'.")
        for pair in filter(str.strip, word.split(",")):
            column, _, community = pair.rpartition("=")
            if not column.strip() or not community.strip():
                raise DataError(
                    f"--communities has {pair!r}: write column=community, with commas between, or name a file."
                )
            communities[column.strip()] = community.strip()
    return communities


def _read_community_file(path: str) -> dict[str, str | None]:
    """Return {column: community} of a file that has both as columns."""
    table = read_source(path).table
    if not {"column", "community"} <= set(table.columns):
        raise DataError(
            f"{path}: the table needs the columns column and community, with a row for each column of the data, but "
            f"has {list_some(table.columns)}: \u201csparsefield analyze centrality MODEL --communities auto -o "
            "FILE\u201d writes such a table."
        )
    names = table["column"].cast(str)
    if names.null_count() or names.n_unique() < table.height:
        raise DataError(f"{path}: a column is empty or has several rows: give one row for each column of the data.")
    return dict(zip(names.to_list(), table["community"].cast(str).to_list(), strict=True))


def is_file(path: Path) -> bool:
    """Return whether a path names a file; many pairs are longer than a name of a file may be."""
    try:
        return path.is_file()
    except OSError:
        return False
