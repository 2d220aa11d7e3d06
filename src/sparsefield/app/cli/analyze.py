"""``sparsefield analyze``: how sure edges are, which columns are central, and whether groups of rows differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import StatusLine, check_output, check_table_output, deliver, frame_table, note
from sparsefield.app.cli.inputs import ColumnOptions, form_of, read_data
from sparsefield.app.cli.models import model_parts, open_model, read_rows
from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.read import list_columns, read_source
from sparsefield.app.tables.write import refuse_overwriting_inputs
from sparsefield.errors import DataError, count

if TYPE_CHECKING:
    import polars as pl

    from sparsefield import ConfidenceIntervals

SHOWN_FEATURES, SHOWN_EDGES, SHOWN_COLUMNS = 10, 15, 40

CENTRALITY = (
    "column", "community", "degree", "strength", "expected_influence", "closeness", "betweenness", "bridge_strength",
    "bridge_expected_influence",
)  # fmt: skip
PREDICTABILITY = ("column", "cells", "r_squared", "accuracy", "normalized_accuracy", "gain")
"""Columns of the result that are printed."""

app = typer.Typer(
    help="Ask of a model how sure its edges are, which columns are central, and whether groups of rows differ.",
    rich_markup_mode="markdown",
)


@app.command()
@opt.expanded
def stability(
    *,
    model: opt.Model,
    data: opt.Data,
    output: Annotated[
        Path | None, opt.output_option("File for the model with its selection frequencies. Default: MODEL.")
    ] = None,
    resamples: Annotated[int, typer.Option(min=2)] = 50,
    as_json: opt.Json = False,
    weight: opt.Weight = None,
    reading: opt.ReadingOptions,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
) -> None:
    """Learn from random halves of the rows, and report how often each feature is selected (stability selection).

    DATA is the table that the model was learned from. Halves are drawn in pairs that share no row. Each fit has the
    options of the model, and its l1 times the square root of 1/2, because the noise in a gradient grows with the square
    root of the number of rows. The selection frequencies are added to the model file; 'report' and 'explore' show them.

    Options:
        resamples: Number of halves to learn from; an even number.
    """
    target = model if output is None else output
    check_output(target)
    saved = open_model(model, data)
    rows = read_rows(saved, data, reading.reading(), [output])
    weights = rows.weights(weight)
    field = saved.load(jobs)
    X, y = model_parts(field, rows.data)
    from sparsefield import stability as select_again

    with StatusLine(f"Learning from {resamples:,} halves") as meter:
        how = {"sample_weight": weights, "random_state": seed, "progress": meter.show_progress}
        frame = as_polars(select_again(field, X, resamples, y=y, **how))
    field.save(target)
    import polars as pl

    from sparsefield.app.pages.fit_summary import describe_stability, stability_column
    from sparsefield.model.feature_tables import list_features

    record, features = field.field_.record.stability, list_features(field.field_)
    share, summary = stability_column(field.field_, features), describe_stability(field.field_, features)
    others = frame.filter((pl.col("weight") == 0) & (pl.col("frequency") >= 0.5)).drop("weight")
    parts, about = [], {}
    if features:
        shown = [(f"{f.weight:+.2f}", f"{share[f.name]:.0%}", f.sentence) for f in features[:SHOWN_FEATURES]]
        table = frame_table(pl.DataFrame(shown, ["weight", "selected", "strongest features"], orient="row"))
        first = f"{record.resamples:,} halves at l1 = {record.l1:.3g} select {record.mean_pairs:,.1f} pairs on average."
        parts = [f"{first}\n", *table, ""]
        about = {name: getattr(record, name) for name in ("resamples", "seed", "l1", "halved", "mean_pairs")}
    else:
        note("The model has no features of two columns.")
    parts.append("\n".join(summary))
    if others.height:
        parts += ["\nOften selected, although not in the model:", *frame_table(others, most=SHOWN_FEATURES)]
    content = about | {
        "model": str(target),
        "features": [{**feature.as_dict(), "selected": share[feature.name]} for feature in features],
        "left_out": others,
        "summary": summary,
    }
    deliver(parts, lambda: content, as_json=as_json, written=[target])


@app.command()
@opt.expanded
def intervals(
    *,
    model: opt.Model,
    data: opt.Data,
    output: opt.ResultOutput = None,
    method: Literal["godambe", "bootstrap"] = "godambe",
    of: Literal["weights", "edges"] = "weights",
    differences: bool = False,
    level: float = 0.95,
    resamples: Annotated[int, typer.Option(min=2)] = 1000,
    imputations: Annotated[int | None, typer.Option(min=2)] = None,
    drop_incomplete: bool = False,
    as_json: opt.Json = False,
    weight: opt.Weight = None,
    reading: opt.ReadingOptions,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
) -> None:
    """Confidence intervals of the weights or the edges of a model, or tests of differences between edges.

    DATA is the table that the model was learned from. Weights are estimated without L1, with the l2 of the model (at
    least 0.01), and intervals hold for the selected features as if these had been given. --differences compares the
    strengths of all pairs of edges.

    A table with missing cells is refused without --imputations or --drop-incomplete.

    Options:
        method: godambe: the sandwich covariance, in a moment; bootstrap: percentiles of resampled rows.
        of: Intervals of single weights, or of edges between two columns.
        differences: Test for all pairs of edges whether one is stronger than the other.
        level: Probability of the intervals, between 0 and 1.
        resamples: Number of resamples of a bootstrap.
        imputations: Impute missing cells this many times, such as 20, and pool the intervals of the imputed tables by
            Rubin's rules; for --method godambe.
        drop_incomplete: Leave out rows with missing cells, which are refused otherwise.
    """
    if imputations is not None and (drop_incomplete or method == "bootstrap"):
        raise DataError("--imputations is for --method godambe without --drop-incomplete: remove one of them.")
    check_table_output(output)
    saved = open_model(model, data)
    saved.require("MarkovField", "CRFClassifier", what="has confidence intervals")
    rows = read_rows(saved, data, reading.reading(), [output])
    weights = rows.weights(weight)
    field = saved.load(jobs)
    from sparsefield import confidence_intervals

    X, y = model_parts(field, rows.data)
    how: dict[str, Any] = {"method": method, "level": level, "n": resamples, "imputations": imputations}
    title = "Estimating from resampled rows" if method == "bootstrap" else "Estimating weights without L1"
    with StatusLine(title) as meter:
        how |= {"sample_weight": weights, "drop_incomplete": drop_incomplete, "seed": seed}
        result = confidence_intervals(field, X, y, **how, progress=meter.show_progress)
        frame = as_polars(result.differences() if differences else getattr(result, of))
        summary = _describe_intervals(result, differences)
    content = {"model": str(model), "rows": frame, "summary": summary}
    parts = [*frame_table(frame), "", *summary] if frame.height else summary
    deliver(parts, lambda: content, as_json=as_json, output=output, frame=frame)


def as_polars(frame: Any) -> pl.DataFrame:
    """Return a frame of the library as one of polars."""
    import polars as pl

    return frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame)


def _describe_intervals(result: ConfidenceIntervals, differences: bool) -> list[str]:
    """Return sentences on what the intervals are."""
    if not len(result.estimates):
        return ["The model has no features of two columns, so there is nothing to estimate."]
    draws = "" if result.draws is None else f"percentiles of {len(result.draws):,} bootstrap resamples"
    what = "Differences of strengths" if differences else "Estimates"
    lines = [
        f"{what} without L1, with l2 = {result.l2:g}, and {result.level:.0%} intervals from "
        f"{draws or 'the sandwich covariance of the pseudo-likelihood'}.",
        "Intervals hold for the selected features; that these were selected with the same rows is left out.",
    ]
    total = result.n_complete + result.n_incomplete
    if result.imputed is not None:
        lines.append(
            f"Missing cells of {result.n_incomplete:,} of {total:,} rows were imputed {len(result.imputed):,} times, "
            "and estimates were pooled by Rubin's rules."
        )
    elif result.n_incomplete:
        lines.append(f"Estimated from the {result.n_complete:,} complete rows of {total:,}.")
    return [*lines, "P-values are not adjusted for the number of comparisons."] if differences else lines


@app.command()
@opt.expanded
def centrality(
    *,
    model: opt.Model,
    data: Annotated[Path | None, typer.Argument(metavar="[DATA]")] = None,
    communities: opt.Communities = None,
    output: opt.ResultOutput = None,
    as_json: opt.Json = False,
    reading: opt.ReadingOptions,
    jobs: opt.Jobs = None,
) -> None:
    """List how central each column is in the network of a model, and how well it is predicted from the others.

    Centrality, of the edges that hold where edges were tested: the number of adjacent columns; strength, the sum of the
    strengths of the edges; expected influence, the same with the signs of edges where they have one; closeness and
    betweenness of shortest paths, where an edge has the length 1 / strength; with --communities, strength and influence
    of edges between communities.

    Predictability, with DATA: each value is predicted from all others of its row. R^2 of numbers; accuracy of others,
    also normalized so that 0 is the most frequent state and 1 is perfect; and the gain in log-likelihood per value over
    the frequencies of the column.

    Options:
        data: Rows from which predictability is computed, preferably not used in training. Without them, only
            centrality is.
    """
    options = reading.reading()
    if data is None and options != FileFormat():
        raise DataError("Options such as --missing are for reading DATA: add it or remove them.")
    check_table_output(output)
    refuse_overwriting_inputs([output], [model, Path(communities) if communities else None])
    named = read_communities(communities)
    saved = open_model(model, data)
    rows = None if data is None else read_rows(saved, data, options, [output]).data
    field = saved.load(jobs)
    import polars.selectors as cs

    from sparsefield import centrality as measure

    with StatusLine("Computing centrality", inference=True):
        frame = as_polars(measure(field, rows, named))
    frame = frame.sort("strength", descending=True, maintain_order=True).with_columns(cs.float().fill_nan(None))

    parts = [*frame_table(frame, CENTRALITY, SHOWN_COLUMNS)]
    if "gain" in frame.columns:
        parts += ["", *frame_table(frame, PREDICTABILITY, SHOWN_COLUMNS)]
    unsigned = int(frame["unsigned_edges"].sum()) // 2
    if unsigned:
        note(f"{count(unsigned, 'edge')} without a sign, of states without an order: expected influence lacks them.")
    deliver(parts, lambda: {"model": str(model), "columns": frame}, as_json=as_json, output=output, frame=frame)


@app.command()
@opt.expanded
def comparison(
    *,
    data: opt.Data,
    group: Annotated[
        str,
        opt.column_option("--group", metavar="COLUMN", help="Column with the group of each row, such as a country."),
    ],
    output: opt.ResultOutput = None,
    permutations: Annotated[int, typer.Option(min=0)] = 500,
    as_json: opt.Json = False,
    columns: ColumnOptions,
    learning: opt.LearningOptions,
    jobs: opt.Jobs = None,
    seed: opt.Seed = 0,
) -> None:
    """Compare the networks of groups of rows, and test by permutations whether they differ.

    Fits the field of each group by itself. Tests permute the groups of rows: the difference of global strength (the sum
    of the strengths of all edges), the largest difference of an edge, and every single edge. Prints the tests and the
    edges that differ most.

    Options:
        permutations: Permutations of each test, at most; 0 tests nothing.
    """
    if form_of(data) != "table":
        raise DataError(f"{data}: groups are compared in one table, not in linked tables or a sparse matrix.")
    if learning.latent:
        raise DataError("--latent is not for comparisons: the latent variables of two groups need not be the same.")
    check_table_output(output)
    refuse_overwriting_inputs([output], [data])
    reading = learning.reading()
    dataset = read_data(data, reading, columns, group=group)
    has_group = dataset.groups.is_not_null()
    table: Any = dataset.X.filter(has_group)  # pyright: ignore[reportAttributeAccessIssue]
    if table.height < dataset.rows:
        note(f"{count(dataset.rows - table.height, 'row')} without a {group} left out: {table.height:,} remain.")
    options: dict[str, Any] = opt.make_estimator(dataset, learning, jobs=jobs, seed=seed).get_params(deep=False)
    from sparsefield import compare

    with StatusLine(f"Comparing the groups of {group}") as meter:
        options |= {"observed": dataset.observed or None, "permutations": permutations, "seed": seed}
        result = compare(table, dataset.groups.filter(has_group), progress=meter.show_progress, **options)
    import polars.selectors as cs

    from sparsefield.analysis.comparison import rows_of

    edges = as_polars(result.edges).with_columns(cs.float().fill_nan(None))
    sizes = zip(result.fields.items(), result.sizes, strict=True)
    content = {
        "groups": [{"group": str(name), "rows": n, "l1": field.field_.record.l1} for (name, field), n in sizes],
        "l1": result.pooled.l1_,
        "permutations": result.permutations,
        "imputed_cells": result.imputed_cells,
        "tests": rows_of(result.tests),
        "edges": edges,
        "nodes": rows_of(result.nodes),
        "files": [] if output is None else [str(output)],
    }
    parts: list[Any] = [result.summary()]
    if edges.height and len(result.groups) > 2:
        parts += ["", *frame_table(edges, most=SHOWN_EDGES)]
    elif edges.height:
        names = {f"weight_{end}": f"weight in {name}" for end, name in zip("ab", result.groups, strict=True)}
        parts += ["", *frame_table(edges.drop("group_a", "group_b").rename(names), most=SHOWN_EDGES)]
    deliver(parts, lambda: content, as_json=as_json, output=output, frame=edges)


def read_communities(communities: str | None) -> dict[str, str | None] | Literal["auto"] | None:
    """Return the communities of an option: found ones, or {column: community} of a file that has both as columns."""
    if communities is None or communities == "auto":
        return communities
    table = read_source(communities).table
    if not {"column", "community"} <= set(table.columns):
        raise DataError(
            f"{communities}: the table needs the columns column and community, but has {list_columns(table.columns)}: "
            "\u201csparsefield analyze centrality MODEL --communities auto -o FILE\u201d writes such a table."
        )
    names = table["column"].cast(str)
    if names.null_count() or names.n_unique() < table.height:
        raise DataError(f"{communities}: a name is empty or occurs twice: give one row for each column of the data.")
    return dict(zip(names.to_list(), table["community"].cast(str).to_list(), strict=True))
