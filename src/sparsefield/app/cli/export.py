"""``sparsefield export`` writes the graph or the distribution of a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsefield.app.cli import options as opt
from sparsefield.app.cli.console import show
from sparsefield.app.cli.model_input import open_model
from sparsefield.app.cli.table_files import check_output
from sparsefield.app.tables.write import refuse_overwriting_inputs
from sparsefield.errors import DataError
from sparsefield.text import count

if TYPE_CHECKING:
    from sparsefield.model import Field

GRAPHS, UAI = (".graphml", ".gexf", ".json", ".csv"), ".uai"

Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to this file: .graphml or .gexf for Gephi, Cytoscape, yEd and igraph; .json (nodes and links) or "
        ".csv (a list of edges) for other programs; .uai for inference solvers.",
    ),
]
Evidence = Annotated[
    list[str] | None,
    typer.Option(
        "--given",
        metavar="COLUMN=VALUE",
        help="Condition a UAI file on the value of an observed or other column. May be repeated.",
    ),
]
NamesOut = Annotated[
    Path | None,
    typer.Option(
        "--names", metavar="JSON", help="Write the names of columns and states, which UAI files lack, to this file."
    ),
]


def export(model: opt.Model, output: Output, given: Evidence = None, names: NamesOut = None) -> None:
    """Export the graph of a model, or its distribution as a UAI file.

    A UAI file has the exact distribution of a model of one table, as full tables of factors. Observed columns need
    values: pass them with --given.
    """
    check_output(output, (*GRAPHS, UAI))
    if output.suffix.lower() != UAI and (given or names):
        raise DataError("--given and --names are for UAI files: remove them, or write to a file that ends in .uai.")
    if names is not None:
        check_output(names)
    refuse_overwriting_inputs([output, names], [model])
    saved = open_model(model)
    from sparsefield import write_uai
    from sparsefield.app.tables.graph_export import write_graph

    field = saved.load()
    if output.suffix.lower() != UAI:
        nodes, edges = write_graph(field, output)
        show(f"Wrote {output}: {count(nodes, 'variable')}, {count(edges, 'edge')}.")
        return
    written = write_uai(field, output, given=_values(field.field_, given or ()), names=names)
    also = f"; the names are in {names}" if names else ""
    show(f"Wrote {output}: {count(len(written), 'variable')}{also}.")


def _values(field: Field, given: Any) -> dict[str, Any]:
    """Parse COLUMN=VALUE options into values by column; text that equals a state means that state."""
    known = {variable.name: variable for schema in field.layout.schemas for variable in schema.variables}
    values: dict[str, Any] = {}
    for text in given:
        name, found, word = text.partition("=")
        while name not in known and "=" in word:  # names may contain an equals sign
            more, _, word = word.partition("=")
            name = f"{name}={more}"
        if not found:
            raise DataError(f"--given {text!r}: write COLUMN=VALUE.")
        states = {str(state): state for state in known[name].states} if name in known else {}
        values[name] = states.get(word, word)
    return values
