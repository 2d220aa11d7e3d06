"""``sparsefield analyze``: how sure edges are, which columns are central, and whether groups of rows differ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import (
    StatusLine,
    check_folder,
    check_output,
    check_table_output,
    deliver,
    frame_table,
    note,
)
from sparsefield.app.cli.inputs import ColumnOptions, form_of, read_data
from sparsefield.app.cli.models import model_parts, open_model, read_rows, remember_source
from sparsefield.app.pages.names import list_some
from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.read import read_source
from sparsefield.app.tables.write import refuse_overwriting_inputs
from sparsefield.errors import DataError, count

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from sparsefield import CentralityStability, ConfidenceIntervals, GroupComparison
    from sparsefield.model import Field

SHOWN_FEATURES, SHOWN_EDGES, SHOWN_COLUMNS = 10, 15, 40
AtLeastTwo = Annotated[int | None, typer.Option(min=2)]
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
    options = reading.reading()
    saved = open_model(model, data)
    rows = read_rows(saved, data, options, [output])
    weights = rows.weights(weight)
    field = saved.load(jobs)
    X, y = model_parts(field, rows.data)
    from sparsefield import stability as select_again

    with StatusLine(f"Learning from {resamples:,} halves") as meter:
        select_again(field, X, resamples, y=y, sample_weight=weights, random_state=seed, progress=meter.show_progress)
    field.save(target)
    _deliver_stability(field.field_, target, as_json)


def _deliver_stability(field: Field, target: Path, as_json: bool) -> None:
    import polars as pl

    from sparsefield.analysis.feature_sentences import list_features
    from sparsefield.app.pages.fit_summary import describe_stability, often_left_out, stability_column

    features, how = list_features(field), field.record.stability
    share, summary = stability_column(field, features), describe_stability(field, features)

    def parts() -> Iterator[str | Table]:
        if how is not None:
            yield f"{how.resamples:,} halves at l1 = {how.l1:.3g} select {how.mean_pairs:,.1f} pairs on average.\n"
        rows = [(f"{f.weight:+.2f}", f"{share[f.name]:.0%}", f.sentence) for f in features[:SHOWN_FEATURES]]
        if rows:
            yield from frame_table(pl.DataFrame(rows, ["weight", "selected", "strongest features"], orient="row"))
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
    deliver(parts(), content, as_json=as_json, written=[target])


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
    centrality: bool = False,
    level: float = 0.95,
    resamples: AtLeastTwo = None,
    imputations: AtLeastTwo = None,
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
    strengths of all pairs of edges. --centrality is case dropping, as in R's bootnet: the coefficient is the largest
    share of rows that can be dropped such that the centrality keeps a correlation of 0.7 with that of all rows, with a
    probability of 95%.

    A table with missing cells is refused without --imputations or --drop-incomplete.

    Options:
        method: godambe: the sandwich covariance, in a moment; bootstrap: percentiles of resampled rows.
        of: Intervals of single weights, or of edges between two columns.
        differences: Test for all pairs of edges whether one is stronger than the other.
        centrality: Drop rows, and print how many can be dropped before the centrality of columns changes.
        level: Probability of the intervals, between 0 and 1.
        resamples: Number of resamples: of a bootstrap, 1000 by default; of --centrality, 100 a share.
        imputations: Impute missing cells this many times, such as 20, and pool the intervals of the imputed tables by
            Rubin's rules; for --method godambe.
        drop_incomplete: Leave out rows with missing cells, which are refused otherwise.
    """
    if imputations is not None and (drop_incomplete or method == "bootstrap"):
        raise DataError("--imputations is for --method godambe without --drop-incomplete: remove one of them.")
    if centrality:
        changed = {
            "--method": method != "godambe",
            "--of": of != "weights",
            "--differences": differences,
            "--level": level != 0.95,
            "--imputations": imputations is not None,
        }
        unused = [name for name, is_set in changed.items() if is_set]
        if unused:
            raise DataError(f"--centrality has no intervals: remove {', '.join(unused)}.")
    elif resamples is not None and method != "bootstrap":
        raise DataError("--resamples is for --method bootstrap and --centrality: add one of them, or remove it.")
    check_table_output(output)
    options = reading.reading()
    saved = open_model(model, data)
    saved.require("MarkovField", "CRFClassifier", what="has confidence intervals")
    rows = read_rows(saved, data, options, [output])
    weights = rows.weights(weight)
    field = saved.load(jobs)
    from sparsefield import centrality_stability, confidence_intervals

    X, y = model_parts(field, rows.data)
    shared: dict[str, Any] = {"sample_weight": weights, "drop_incomplete": drop_incomplete, "seed": seed}
    drawn = centrality or method == "bootstrap"
    with StatusLine("Estimating from resampled rows" if drawn else "Estimating weights without L1") as meter:
        shared["progress"] = meter.show_progress
        if centrality:
            dropped = centrality_stability(field, X, y, n=resamples or 100, **shared)
            frame, summary = as_polars(dropped.to_frame()), _describe_case_dropping(dropped)
        else:
            ways = {"method": method, "level": level, "n": resamples or 1000, "imputations": imputations}
            result = confidence_intervals(field, X, y, **ways, **shared)
            frame = as_polars(result.differences() if differences else getattr(result, of))
            summary = _describe_intervals(result, differences)

    table = frame_table(frame) if frame.height else []
    lines = "\n".join(summary)
    parts = [f"{lines}\n", *table] if centrality else [*table, f"\n{lines}" if frame.height else lines]
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

    Centrality: the number of adjacent columns; strength, the sum of the strengths of the edges; expected influence,
    the same with the signs of edges where they have one; closeness and betweenness of shortest paths, where an edge has
    the length 1 / strength; with --communities, strength and influence of edges between communities.

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

    with StatusLine("Computing centrality"):
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
    ctx: typer.Context,
    data: opt.Data,
    group: Annotated[
        str,
        opt.column_option("--group", metavar="COLUMN", help="Column with the group of each row, such as a country."),
    ],
    output: opt.ResultOutput = None,
    permutations: Annotated[int, typer.Option(min=0)] = 500,
    models: Annotated[Path | None, typer.Option(metavar="FOLDER")] = None,
    drop_missing_groups: bool = False,
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
        models: Write the model of each group into this folder.
        drop_missing_groups: Leave out rows without a group, which are refused otherwise.
    """
    if form_of(data) != "table":
        raise DataError(f"{data}: groups are compared in one table, not in linked tables or a sparse matrix.")
    if learning.latent:
        raise DataError("--latent is not for comparisons: the latent variables of two groups need not be the same.")
    check_table_output(output)
    if models is not None:
        check_folder(models)
    refuse_overwriting_inputs([output], [data])
    reading = learning.reading()
    dataset = read_data(data, reading, columns, group=group)
    without = dataset.groups.is_null().arg_true()
    if len(without) and not drop_missing_groups:
        raise DataError(
            f"{data}: column {group!r} has {len(without):,} missing value(s), the first in row {without[0] + 1:,} "
            "below the header: give every row a group, or leave these rows out with --drop-missing-groups."
        )
    table: Any = dataset.X
    if len(without):
        table = table.filter(dataset.groups.is_not_null())
        note(f"{len(without):,} row(s) have no {group}, and are left out: {table.height:,} remain.")
    options: dict[str, Any] = opt.make_estimator(dataset, learning, jobs=jobs, seed=seed).get_params(deep=False)
    options.pop("observed")
    from sparsefield import compare

    with StatusLine(f"Comparing the groups of {group}") as meter:
        result = compare(
            table,
            dataset.groups.drop_nulls(),
            observed=dataset.observed or None,
            permutations=permutations,
            seed=seed,
            progress=meter.show_progress,
            **options,
        )
    for field in result.fields.values():
        remember_source(field, data, dataset, ctx.obj, columns.top_levels)
    written = [] if models is None else _write_models(result, models)
    import polars as pl

    edges = as_polars(result.edges).with_columns(pl.col("difference", "p", "p_adjusted").fill_nan(None))
    files = [str(path) for path in ([] if output is None else [output]) + written]
    deliver(
        _describe_comparison(result),
        lambda: _comparison_content(result) | {"files": files},
        as_json=as_json,
        output=output,
        frame=edges,
        written=written,
    )


def _write_models(result: GroupComparison, folder: Path) -> list[Path]:
    """Write the model of each group, and return the files, whose names differ in more than case."""
    folder.mkdir(parents=True, exist_ok=True)
    names: list[str] = []
    for label, field in zip(result.groups, result.fields.values(), strict=True):
        name = "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in str(label)).strip(".") or "group"
        taken = any(other.lower() == name.lower() for other in names)
        names.append(f"{name}-{len(names) + 1}" if taken else name)
        field.save(folder / f"{names[-1]}.safetensors")
    return [folder / f"{name}.safetensors" for name in names]


def _comparison_content(result: GroupComparison) -> dict[str, Any]:
    """Return the comparison as values that JSON can express."""
    from sparsefield.analysis.comparison import rows_of

    sizes = zip(result.fields.items(), result.sizes, strict=True)
    return {
        "groups": [{"group": str(name), "rows": n, "l1": field.field_.record.l1} for (name, field), n in sizes],
        "l1": result.pooled.l1_,
        "permutations": result.permutations,
        "hidden_cells": result.hidden_cells,
        "tests": list(rows_of(result.tests)),
        "edges": list(rows_of(result.edges)),
        "nodes": list(rows_of(result.nodes)),
    }


def _describe_comparison(result: GroupComparison) -> Iterator[str | Table]:
    import polars as pl

    from sparsefield.analysis.comparison import name_groups, rows_of

    yield result.summary()
    rows, several = [], len(result.groups) > 2
    first, second = (f"weight in {name}" for name in (("first", "second") if several else result.groups))
    for edge in rows_of(result.edges):
        has_sign = edge["difference"] == edge["difference"]
        form = "{:+.2f}" if has_sign else "norm {:.2f}"
        difference = form.format(edge["difference"] if has_sign else edge["norm"])
        row = {"groups": name_groups(edge)} if several else {}
        row |= {"edge": f"{edge['variable_a']} - {edge['variable_b']}"}
        row |= {first: form.format(edge["weight_a"]), second: form.format(edge["weight_b"]), "difference": difference}
        rows.append({**row, "p": edge["p"], "adjusted": edge["p_adjusted"]})
    if rows:
        yield ""
        yield from frame_table(pl.DataFrame(rows).with_columns(pl.col(pl.Float64).fill_nan(None)), most=SHOWN_EDGES)


def read_communities(communities: str | None) -> dict[str, str | None] | Literal["auto"] | None:
    """Return the communities of an option: found ones, or {column: community} of a file that has both as columns."""
    if communities is None or communities == "auto":
        return communities
    table = read_source(communities).table
    if not {"column", "community"} <= set(table.columns):
        raise DataError(
            f"{communities}: the table needs the columns column and community, with a row for each column of the data, "
            f"but has {list_some(table.columns)}: \u201csparsefield analyze centrality MODEL --communities auto -o "
            "FILE\u201d writes such a table."
        )
    names = table["column"].cast(str)
    if names.null_count() or names.n_unique() < table.height:
        raise DataError(
            f"{communities}: a column is empty or has several rows: give one row for each column of the data."
        )
    return dict(zip(names.to_list(), table["community"].cast(str).to_list(), strict=True))
