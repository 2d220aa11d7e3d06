"""``sparsefield compare``: the networks of groups of rows, and tests of their differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.columns_of_fit import options_like
from sparsefield.app.cli.console import ProgressBar, new_table, show, show_json
from sparsefield.app.cli.input_data import ColumnOptions, is_linked, is_matrix, read_data
from sparsefield.app.cli.model_input import open_model, remember_reading, require_estimator
from sparsefield.app.cli.table_files import check_folder, check_table_output
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.app.tables.write import refuse_overwriting_inputs, write_table
from sparsefield.errors import DataError

if TYPE_CHECKING:
    from sparsefield import GroupComparison

SHOWN_EDGES = 15
NOT_COMPARED = (
    "objective",
    "penalty",
    "refit",
    "features__penalize_biases",
    "features__max_order",
    "solver__certify",
    "solver__stages",
)
"""Learning options that a comparison does not have."""

CompareGroup = Annotated[
    str, opt.reading_option("--group", metavar="COLUMN", help="Column with the group of each row, such as a country.")
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write the edges with their tests to this table, such as .csv."
    ),
]
Permutations = Annotated[int, typer.Option("--permutations", min=0, help="Permutations of each test; 0 tests nothing.")]
Adjust = Annotated[
    str,
    typer.Option("--adjust", metavar="max|holm|bh|none", help="How p-values of edges are adjusted for their number."),
]
Models = Annotated[
    Path | None, typer.Option("--models", metavar="FOLDER", help="Write the model of each group into this folder.")
]
Checkpoint = Annotated[
    Path | None,
    opt.running_option(
        "--checkpoint",
        metavar="FOLDER",
        help="Save the state of the tests here; after an interruption, the same command continues from it.",
    ),
]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing-groups", help="Leave out rows without a group, which are refused otherwise.")
]
Like = Annotated[
    Path | None,
    opt.reading_option(
        "--like",
        metavar="MODEL",
        help="Model that 'fit' learned from this table: read it alike, with the same ids, observed columns and kinds.",
    ),
]
Weight = Annotated[str | None, typer.Option("--weight", hidden=True)]  # refused with the reason
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


@opt.with_shared_options(without=NOT_COMPARED)
def compare(
    data: opt.Data,
    *,
    group: CompareGroup,
    like: Like = None,
    output: Output = None,
    permutations: Permutations = 1000,
    adjust: Adjust = "max",
    models: Models = None,
    drop_missing_groups: DropMissing = False,
    weight: Weight = None,
    as_json: Json = False,
    columns: ColumnOptions,
    reading: ReadOptions,
    learning: opt.LearningOptions,
    checkpoint: Checkpoint = None,
    jobs: opt.Jobs = None,
    seed: opt.Seed = 0,
) -> None:
    """Compare the networks of groups of rows, and test by permutations whether they differ.

    Fits the field of each group by itself. Tests permute the groups of rows: the difference of global strength (the sum
    of the strengths of all edges), the largest difference of an edge, and every single edge. Prints the tests and the
    edges that differ most. With '--like MODEL', options for reading the table need not be given again; options for
    learning are those of this command.
    """
    if weight is not None:
        raise DataError(
            f"A comparison of groups counts each row once, so rows have no weights: remove --weight {weight}. Weights "
            "are often made within groups, and rows that are permuted would carry them into the other group."
        )
    from sparsefield.analysis.permutation_tests import Adjustment

    if adjust not in get_args(Adjustment):
        raise typer.BadParameter(f"--adjust must be one of {', '.join(get_args(Adjustment))}, got {adjust!r}")
    _check_files(data, output, models, like)
    if like is not None:
        model = open_model(like, data)
        require_estimator(model, "MarkovField", "CRFClassifier", what="says how one table is read")
        reading, columns = options_like(model, reading, columns)
    given = read_data(data, reading, replace(columns, group=group))
    if not drop_missing_groups:
        _check_groups(given.groups, group, data)
    learning["selection"] = learning["selection"] or "heldout"
    estimator = opt.make_estimator(given, None, learning, jobs=jobs, seed=seed)
    options: dict[str, Any] = estimator.get_params(deep=False)
    options.pop("observed")
    import sparsefield

    with ProgressBar(f"Comparing the groups of {group}") as meter:
        comparison = sparsefield.compare(
            given.X,
            given.groups,
            observed=given.observed or None,
            permutations=permutations,
            adjust=adjust,  # pyright: ignore[reportArgumentType]
            seed=seed,
            drop_missing_groups=drop_missing_groups,
            checkpoint=checkpoint,
            progress=meter.show_progress,
            **options,
        )
    for field in comparison.fields.values():
        remember_reading(field, data, reading, given, columns.top_levels)
    written = _write(comparison, output, models)
    if as_json:
        show_json(_content(comparison, written))
        return
    _show(comparison)
    if written:
        show(f"\nWrote {', '.join(map(str, written))}.")


def _check_files(data: Path, output: Path | None, models: Path | None, like: Path | None) -> None:
    if is_linked(data) or is_matrix(data):
        raise DataError(f"{data}: groups are compared in one table, not in linked tables or a sparse matrix.")
    if output is not None:
        check_table_output(output)
    if models is not None:
        check_folder(models)
    refuse_overwriting_inputs([output], [data, *([] if like is None else [like])])


def _check_groups(values: Any, group: str, data: Path) -> None:
    """Refuse rows without a group, in the words of the command line."""
    missing = values.is_null().arg_true()
    if len(missing):
        raise DataError(
            f"{data}: column {group!r} has {len(missing):,} missing value(s), the first in row {missing[0] + 1:,} "
            "below the header: give every row a group, or leave these rows out with --drop-missing-groups."
        )


def _write(comparison: GroupComparison, output: Path | None, models: Path | None) -> list[Path]:
    """Write what was asked for, and return the files."""
    import polars as pl

    written = []
    if output is not None:
        frame: Any = comparison.edges
        edges = frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame)
        write_table(edges.with_columns(pl.col("p", "p_adjusted").fill_nan(None)), output)
        written.append(output)
    if models is not None:
        models.mkdir(parents=True, exist_ok=True)
        for name, field in zip(_file_names(comparison.groups), comparison.fields.values(), strict=True):
            field.save(models / f"{name}.safetensors")
            written.append(models / f"{name}.safetensors")
    return written


def _file_names(labels: Sequence[Any]) -> list[str]:
    """Return names of files for groups, each of them once."""
    names: list[str] = []
    for label in labels:
        name = "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in str(label)).strip(".") or "group"
        taken = any(other.lower() == name.lower() for other in names)
        names.append(f"{name}-{len(names) + 1}" if taken else name)
    return names


def _content(comparison: GroupComparison, written: list[Path]) -> dict[str, Any]:
    """Return the comparison as values that JSON can express."""
    from math import isfinite

    from sparsefield.analysis.group_comparison import rows_of

    def rows(frame: Any) -> list[dict[str, Any]]:
        return [
            {name: None if isinstance(value, float) and not isfinite(value) else value for name, value in row.items()}
            for row in rows_of(frame)
        ]

    sizes = zip(comparison.fields.items(), comparison.sizes, strict=True)
    return {
        "groups": [{"group": str(name), "rows": n, "l1": field.field_.record.l1} for (name, field), n in sizes],
        "l1": comparison.l1,
        "permutations": comparison.permutations,
        "hidden_cells": comparison.hidden_cells,
        "tests": rows(comparison.tests),
        "edges": rows(comparison.edges),
        "nodes": rows(comparison.nodes),
        "files": [str(path) for path in written],
    }


def _show(comparison: GroupComparison) -> None:
    from sparsefield.analysis.group_comparison import TESTS, name_groups, rows_of

    sizes = ", ".join(f"{name} ({n:,} rows)" for name, n in zip(comparison.groups, comparison.sizes, strict=True))
    show(f"Groups: {sizes}\n{comparison.describe_fits()}")
    if comparison.hidden_cells:
        show(comparison.describe_hidden_cells())
    show()
    # With two groups, every row would name the same ones.
    several = comparison.has_several_pairs
    heads = ("groups",) if several else ()

    def groups(row: dict[str, Any]) -> list[str]:
        return [name_groups(row)] if several else []

    table = new_table(*heads, "test", "difference", "p", left=1 + len(heads))
    for test in rows_of(comparison.tests):
        table.add_row(*groups(test), TESTS[test["test"]], f"{test['statistic']:.3f}", _p(test["p"]))
    show(table)
    show()
    edges = new_table(*heads, "edge", "weights", "difference", "p", "adjusted", left=1 + len(heads))
    rows = rows_of(comparison.edges)
    for edge in rows[:SHOWN_EDGES]:
        weights = f"{edge['weight_a']:.2f}, {edge['weight_b']:.2f}"
        tested = f"{edge['statistic']:.2f}", _p(edge["p"]), _p(edge["p_adjusted"])
        edges.add_row(*groups(edge), f"{edge['variable_a']} - {edge['variable_b']}", weights, *tested)
    if rows:
        show(edges)
        order = "the two groups" if several else " and ".join(map(str, comparison.groups))
        show(f"\nWeights are those of {order}, in this order.")
    if comparison.permutations:
        show(comparison.describe_edges())


def _p(value: float) -> str:
    return "" if value != value else f"{value:.3f}"
