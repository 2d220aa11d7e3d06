"""``sparsefield analyze comparison``: the networks of groups of rows, and tests of their differences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import ProgressBar, ResultTable, deliver, note
from sparsefield.app.cli.inputs import ColumnOptions, is_linked, is_matrix, is_parquet_folder, read_data
from sparsefield.app.cli.models import remember_reading
from sparsefield.app.cli.outputs import check_folder, check_table_output
from sparsefield.app.tables.write import refuse_overwriting_inputs
from sparsefield.errors import DataError

if TYPE_CHECKING:
    from sparsefield import GroupComparison

SHOWN_EDGES = 15


def comparison(
    data: opt.Data,
    group: Annotated[
        str,
        opt.column_option("--group", metavar="COLUMN", help="Column with the group of each row, such as a country."),
    ],
    output: opt.ResultOutput = None,
    permutations: Annotated[int, typer.Option(min=0, help="Permutations of each test; 0 tests nothing.")] = 1000,
    adjust: Annotated[
        Literal["max", "fdr", "none"],
        typer.Option(help="How p-values of edges are adjusted for their number."),
    ] = "max",
    models: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the model of each group into this folder.")
    ] = None,
    drop_missing_groups: Annotated[
        bool, typer.Option("--drop-missing-groups", help="Leave out rows without a group, which are refused otherwise.")
    ] = False,
    as_json: opt.Json = False,
    observed: opt.Observed = None,
    identifiers: opt.Identifiers = None,
    numeric: opt.Numeric = None,
    ordinal: opt.Ordinal = None,
    nominal: opt.Nominal = None,
    top_levels: opt.TopLevels = None,
    strict: opt.Strict = False,
    missing: opt.Missing = None,
    l1: opt.L1 = "auto",
    selection: opt.Selection = "heldout",
    induction: opt.Induction = "cfi",
    settings: opt.AnySet = None,
    jobs: opt.Jobs = None,
    seed: opt.Seed = 0,
) -> None:
    """Compare the networks of groups of rows, and test by permutations whether they differ.

    Fits the field of each group by itself. Tests permute the groups of rows: the difference of global strength (the sum
    of the strengths of all edges), the largest difference of an edge, and every single edge. Prints the tests and the
    edges that differ most.
    """
    if is_linked(data) or is_matrix(data) or is_parquet_folder(data):
        raise DataError(f"{data}: groups are compared in one table, not in linked tables or a sparse matrix.")
    check_table_output(output)
    if models is not None:
        check_folder(models)
    refuse_overwriting_inputs([output], [data])
    reading = opt.reading_options(missing, settings, learning=True)
    learning = opt.learning_settings(settings, l1=l1, selection=selection, induction=induction)
    columns = ColumnOptions(observed, identifiers, numeric, ordinal, nominal, top_levels, strict, group=group)
    given = read_data(data, reading, columns)
    without = given.groups.is_null().arg_true()
    if len(without) and not drop_missing_groups:
        raise DataError(
            f"{data}: column {group!r} has {len(without):,} missing value(s), the first in row {without[0] + 1:,} "
            "below the header: give every row a group, or leave these rows out with --drop-missing-groups."
        )
    table: Any = given.X
    if len(without):
        table = table.filter(given.groups.is_not_null())
        note(f"{len(without):,} row(s) have no {group}, and are left out: {table.height:,} remain.")
    options: dict[str, Any] = opt.make_estimator(given, learning, jobs=jobs, seed=seed).get_params(deep=False)
    options.pop("observed")
    from sparsefield import compare

    with ProgressBar(f"Comparing the groups of {group}") as meter:
        result = compare(
            table,
            given.groups.drop_nulls(),
            observed=given.observed or None,
            permutations=permutations,
            adjust=adjust,
            seed=seed,
            progress=meter.show_progress,
            **options,
        )
    for field in result.fields.values():
        remember_reading(field, data, given, columns.top_levels)
    written = [] if models is None else _write_models(result, models)
    import polars as pl

    edges: Any = result.edges
    edges = edges if isinstance(edges, pl.DataFrame) else pl.DataFrame(edges)
    edges = edges.with_columns(pl.col("p", "p_adjusted").fill_nan(None))
    files = [str(path) for path in ([] if output is None else [output]) + written]
    deliver(
        lambda: _describe(result),
        lambda: _content(result) | {"files": files},
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


def _content(result: GroupComparison) -> dict[str, Any]:
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


def _describe(result: GroupComparison) -> Iterator[str | ResultTable]:
    import polars as pl

    from sparsefield.analysis.comparison import name_groups, rows_of

    yield result.summary()
    rows, several = [], len(result.groups) > 2
    for edge in rows_of(result.edges):
        row = {"groups": name_groups(edge)} if several else {}
        row["edge"] = f"{edge['variable_a']} - {edge['variable_b']}"
        row["weights"] = f"{edge['weight_a']:.2f}, {edge['weight_b']:.2f}"
        rows.append({**row, "difference": edge["statistic"], "p": edge["p"], "adjusted": edge["p_adjusted"]})
    if rows:
        yield ""
        yield ResultTable(pl.DataFrame(rows).with_columns(pl.col(pl.Float64).fill_nan(None)), most=SHOWN_EDGES)
        order = "the two groups" if several else " and ".join(map(str, result.groups))
        yield f"\nWeights are those of {order}, in this order."
