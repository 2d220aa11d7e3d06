"""``sparsefield compare`` compares the networks of groups of rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.basket_data import BasketOptions
from sparsefield.app.cli.columns_of_fit import options_like
from sparsefield.app.cli.console import ProgressBar, new_table, show, show_json
from sparsefield.app.cli.input_data import ColumnOptions, is_linked, is_matrix, read_data
from sparsefield.app.cli.model_input import open_model, require_estimator
from sparsefield.app.cli.remembered_reading import remember_reading
from sparsefield.app.cli.table_files import check_folder, check_table_output, write_table
from sparsefield.app.tables.output_paths import refuse_overwriting_inputs
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.errors import DataError

if TYPE_CHECKING:
    from sparsefield import GroupComparison

SHOWN_EDGES = 15
NOT_COMPARED = ("objective", "penalty", "refit", "penalize_biases", "max_order", "solver__certify", "solver__stages")
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
Difference = Annotated[
    str,
    typer.Option(
        "--l1-difference",
        metavar="NUMBER|auto",
        help="Penalty of differences between groups; 'auto' selects it by cross-validation, 'inf' allows none.",
    ),
]
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
    l1_difference: Difference = "auto",
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

    Fits the fields of all groups together: weights that all groups share, and penalized differences. Tests permute the
    groups of rows: the difference of global strength (the sum of the strengths of all edges), the largest difference of
    an edge, and every single edge. Prints the tests and the edges that differ most. With '--like MODEL', options for
    reading the table need not be given again; options for learning are those of this command.
    """
    if weight is not None:
        raise DataError(
            f"A comparison of groups counts each row once, so rows have no weights: remove --weight {weight}. Weights "
            "are often made within groups, and rows that are permuted would carry them into the other group."
        )
    from sparsefield.analysis.group_statistics import Adjustment

    difference = _read_difference(l1_difference)
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
        found = sparsefield.compare(
            given.X,
            given.groups,
            observed=given.observed or None,
            l1_difference=difference,
            permutations=permutations,
            adjust=adjust,  # pyright: ignore[reportArgumentType]
            seed=seed,
            drop_missing_groups=drop_missing_groups,
            checkpoint=checkpoint,
            progress=meter.show_progress,
            **options,
        )
    for field in found.fields.values():
        remember_reading(field, data, reading, given, columns.top_levels, BasketOptions())
    written = _write(found, output, models)
    if as_json:
        show_json(_content(found, written))
        return
    _show(found)
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


def _read_difference(word: str) -> float | str:
    try:
        value = word if word == "auto" else float(word)
    except ValueError:
        value = -1.0
    if isinstance(value, float) and not value > 0.0:
        raise typer.BadParameter(f"--l1-difference must be 'auto', or a number above 0, got {word!r}")
    return value


def _check_groups(values: Any, group: str, data: Path) -> None:
    """Refuse rows without a group, in the words of the command line."""
    missing = values.is_null().arg_true()
    if len(missing):
        raise DataError(
            f"{data}: column {group!r} has {len(missing):,} missing value(s), the first in row {missing[0] + 1:,} "
            "below the header: give every row a group, or leave these rows out with --drop-missing-groups."
        )


def _write(found: GroupComparison, output: Path | None, models: Path | None) -> list[Path]:
    """Write what was asked for, and return the files."""
    import polars as pl

    written = []
    if output is not None:
        frame: Any = found.edges
        edges = frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame)
        write_table(edges.with_columns(pl.col("p", "p_adjusted").fill_nan(None)), output)
        written.append(output)
    if models is not None:
        written += found.save_models(models)
    return written


def _content(found: GroupComparison, written: list[Path]) -> dict[str, Any]:
    """Return the comparison as values that JSON can express."""
    from dataclasses import asdict
    from math import isfinite

    def rows(records: Any) -> list[dict[str, Any]]:
        named = [asdict(record) for record in records]
        return [
            {name: None if isinstance(v, float) and not isfinite(v) else v for name, v in row.items()} for row in named
        ]

    return {
        "groups": [{"group": name, "rows": n} for name, n in zip(found.groups, found.sizes, strict=True)],
        "l1": found.l1,
        "l1_difference": found.l1_difference if isfinite(found.l1_difference) else "inf",
        "permutations": found.permutations,
        "tests": rows(found.tables.test_rows),
        "edges": rows(found.tables.edge_rows),
        "nodes": rows(found.tables.node_rows),
        "files": [str(path) for path in written],
    }


def _show(found: GroupComparison) -> None:
    from sparsefield.analysis.comparison_text import TESTS, describe_differing, describe_penalties, name_groups

    facts = found.facts
    sizes = ", ".join(f"{name} ({n:,} rows)" for name, n in zip(facts.groups, facts.sizes, strict=True))
    show(f"Groups: {sizes}\n{describe_penalties(facts)}\n")
    # With two groups, every row would name the same ones.
    heads = ("groups",) if facts.several_pairs else ()

    def groups(row: Any) -> list[str]:
        return [name_groups(row)] if facts.several_pairs else []

    table = new_table(*heads, "test", "difference", "p", left=1 + len(heads))
    for test in facts.tables.test_rows:
        table.add_row(*groups(test), TESTS[test.test], f"{test.statistic:.3f}", _p(test.p))
    show(table)
    show()
    names = (*heads, "edge", "joint fit", "separate fits", "difference", "p", "adjusted")
    edges = new_table(*names, left=1 + len(heads))
    for edge in facts.tables.edge_rows[:SHOWN_EDGES]:
        joint, alone = f"{edge.weight_a:.2f}, {edge.weight_b:.2f}", f"{edge.separate_a:.2f}, {edge.separate_b:.2f}"
        tested = f"{edge.statistic:.2f}", _p(edge.p), _p(edge.p_adjusted)
        edges.add_row(*groups(edge), f"{edge.variable_a} - {edge.variable_b}", joint, alone, *tested)
    if facts.tables.edge_rows:
        show(edges)
        order = "the two groups" if facts.several_pairs else " and ".join(map(str, facts.groups))
        show(f"\nWeights are those of {order}, in this order.")
        show("Differences and p-values are those of the separate fits, of each group by itself.")
    if facts.permutations:
        show(describe_differing(facts))


def _p(value: float) -> str:
    return "" if value != value else f"{value:.3f}"
