"""``sparsefield centrality`` lists how central each column of a model is, and how well it is predicted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import StatusLine, new_table, note, show, show_json
from sparsefield.app.cli.input_data import linked_inputs
from sparsefield.app.cli.model_input import open_model
from sparsefield.app.cli.model_rows import read_rows
from sparsefield.app.cli.table_files import check_table_output, show_written
from sparsefield.app.tables.read_options import ReadOptions
from sparsefield.app.tables.write import refuse_overwriting_inputs, write_table
from sparsefield.errors import DataError
from sparsefield.text import count

if TYPE_CHECKING:
    import polars as pl

MOST_SHOWN = 40
"""Columns that are printed; a file or JSON has all."""

AUTO = "auto"
CENTRALITY = {
    "degree": "degree",
    "strength": "strength",
    "expected_influence": "influence",
    "closeness": "closeness",
    "betweenness": "betweenness",
    "bridge_strength": "bridge strength",
    "bridge_expected_influence": "bridge influence",
}
PREDICTABILITY = {
    "cells": "values",
    "r_squared": "R^2",
    "accuracy": "accuracy",
    "normalized_accuracy": "normalized accuracy",
    "gain": "gain",
}
"""{column of the result: its heading}"""

Rows = Annotated[
    Path | None,
    typer.Argument(
        metavar="[DATA]",
        help="Rows from which predictability is computed, preferably not used in training. Without them, only "
        "centrality is.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="File to write with all measures, such as .csv or .parquet."),
]
CommunityWords = Annotated[
    list[str] | None,
    typer.Option(
        "--communities",
        metavar="WORDS",
        help="Communities for bridge centrality: 'auto' finds them; a file with a row for each column of the model has "
        "them in its columns 'column' and 'community', which may be empty; or column=community, ... with commas "
        "between. May be repeated.",
    ),
]
Standardized = Annotated[
    bool, typer.Option("--standardized", help="Give measures in standard deviations from their means.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON with all columns instead of a table.")]


@opt.with_shared_options()
def centrality(
    model: opt.Model,
    data: Rows = None,
    *,
    communities: CommunityWords = None,
    standardized: Standardized = False,
    output: Output = None,
    as_json: Json = False,
    reading: ReadOptions,
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
    if data is None and reading != ReadOptions():
        raise DataError("Options such as --missing and --separator are for reading DATA: add it or remove them.")
    if output is not None:
        check_table_output(output)
        refuse_overwriting_inputs(
            [output], [model, data, *filter(is_file, map(Path, communities or [])), *linked_inputs(data)]
        )
    given = read_communities(communities)
    saved = open_model(model, data)
    rows = None if data is None else read_rows(saved, data, reading)
    field = saved.load(jobs)
    from sparsefield.analysis import centrality as analysis

    with StatusLine("Computing centrality"):
        found = _as_table(analysis.centrality(field, rows, given, standardized=standardized))
    if output is not None:
        write_table(found, output)
    if as_json:
        written = {} if output is None else {"output": str(output)}
        show_json({"model": str(model), **written, "columns": found.to_dicts()})
        return
    if output is not None:
        show_written(f"Measures of {count(len(found), 'column')}", output)
        return
    _show(found)


def read_communities(words: list[str] | None) -> dict[str, str | None] | Literal["auto"] | None:
    """Return the communities of an option: found ones, those of files, or pairs such as ``wet=weather``."""
    from sparsefield.app.pages.groups import read_column_values

    if not words:
        return None
    if AUTO in words:
        if len(words) > 1:
            raise DataError("--communities auto finds the communities of all columns: remove the others.")
        return AUTO
    found: dict[str, str | None] = {}
    for word in words:
        if is_file(Path(word)):
            found |= read_column_values(word, "--communities", "community") or {}
        elif "=" in word:
            found |= _pairs(word)
        else:
            raise DataError(f"--communities {word}: this is no file, no column=community, and not 'auto'.")
    return found


def is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # many pairs are longer than a name of a file may be
        return False


def _pairs(word: str) -> dict[str, str]:
    pairs = [part.rpartition("=") for part in word.split(",") if part.strip()]
    bad = ["".join(pair) for pair in pairs if not pair[0].strip() or not pair[2].strip()]
    if bad:
        raise DataError(f"--communities has {bad[0]!r}: write column=community, with commas between, or name a file.")
    return {column.strip(): community.strip() for column, _, community in pairs}


def _as_table(frame: Any) -> pl.DataFrame:
    """Return a frame of polars with the strongest columns first, and null for what is not defined."""
    import polars as pl
    import polars.selectors as cs

    found = frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame)
    return found.sort("strength", descending=True, maintain_order=True).with_columns(cs.float().fill_nan(None))


def _show(found: pl.DataFrame) -> None:
    """Print the columns with the largest strength: their centrality, then their predictability."""
    _show_measures(found, CENTRALITY)
    unsigned = int(found["unsigned_edges"].sum()) // 2
    if unsigned:
        note(f"{count(unsigned, 'edge')} without a sign, of states without an order: expected influence lacks them.")
    if "gain" in found.columns:
        show()
        _show_measures(found, PREDICTABILITY)


def _show_measures(found: pl.DataFrame, headings: dict[str, str]) -> None:
    shown = [name for name in headings if name in found.columns and found[name].null_count() < len(found)]
    left = [name for name in ("column", "community") if name in found.columns]
    table = new_table(*left, *(headings[name] for name in shown), left=len(left))
    for row in found.head(MOST_SHOWN).iter_rows(named=True):
        table.add_row(*(row[name] or "" for name in left), *(_format(row[name]) for name in shown))
    show(table)
    if len(found) > MOST_SHOWN:
        show(f"... and {len(found) - MOST_SHOWN:,} more: --output FILE has all.")


def _format(value: float | int | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"
