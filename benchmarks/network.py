"""This module learns large networks of linked entities with a known field, to see how cost grows with links."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
import typer

from benchmarks.command_line import Json, Seed, print_rows
from benchmarks.measure import in_child, measure
from sparsefield.app.cli.console import print_message
from sparsefield.compute import Threads
from sparsefield.data import (
    NEIGHBOR_COUNT,
    Dataset,
    Layout,
    Relational,
    Schema,
    Source,
    Template,
    Variable,
    compile_table,
)
from sparsefield.estimators import RelationalField
from sparsefield.inference import draw
from sparsefield.model import Field

__all__ = ["PlantedNetwork", "draw_network", "run_network"]

Row = dict[str, Any]
Edge = tuple[str, str, str]

WITHIN, ACROSS = "within person", "joined who whom"


@dataclass(frozen=True)
class PlantedNetwork:
    """A planted network has entities with 0/1 attributes, their links, and the edges of the true field.

    Attributes
    ----------
    data : Relational
        Tables ``person`` (id, a0, a1, ...) and ``knows`` (who, whom).
    edges : set of (template, attribute, attribute)
    """

    data: Relational
    edges: frozenset[Edge]


def draw_network(
    entities: int,
    attributes: int = 20,
    links: int | None = None,
    *,
    missing: float = 0.0,
    sweeps: int = 20,
    seed: int = 0,
) -> PlantedNetwork:
    """Draw a network by Gibbs sampling from a planted field.

    Each attribute depends on the next one of the same entity, and on one attribute of those whom the entity knows.

    Parameters
    ----------
    entities, attributes, links : int
        By default there are five links per entity; their ends are drawn at random.
    missing : float
        Share of the cells that are gaps.
    sweeps : int
        Gibbs sweeps over all cells.
    """
    rng = np.random.default_rng(seed)
    names = [f"a{k}" for k in range(attributes)]
    who, whom = rng.integers(0, entities, (2, 5 * entities if links is None else links))
    whom = np.where(whom == who, (whom + 1) % entities, whom)
    field, edges = _plant(names, rng)
    empty = Source(tuple(names), entities, "array", np.full((entities, attributes), np.nan))
    table = compile_table(empty, field.layout.schemas[0], width=int(field.layout.widths[0]))
    nothing = np.empty(0, dtype=np.int64)
    sample = Dataset.linked(field.layout, [table], [(nothing, nothing), (who, whom)]).with_tables([table])
    with Threads() as engine:
        ((codes,),) = draw(field, sample, sweeps=sweeps, seed=seed, engine=engine)
    cells = {name: pl.Series(codes[k].astype(np.int8)) for k, name in enumerate(names)}
    if missing > 0:
        cells = {name: column.set(pl.Series(rng.random(entities) < missing), None) for name, column in cells.items()}
    people = pl.DataFrame({"id": np.arange(entities), **cells})
    return PlantedNetwork(_as_data(people, pl.DataFrame({"who": who, "whom": whom})), edges)


def run_network(
    entities: Sequence[int] = (12_500, 25_000, 50_000, 100_000),
    attributes: int = 20,
    *,
    missing: float = 0.0,
    seed: int = 0,
    report: Callable[[str], None] = print,
) -> list[Row]:
    """Return a row per size: seconds and memory of the fit, and how much of the planted structure it found.

    ``exponent`` is the slope of log seconds against log links since the size before.
    """
    rows: list[Row] = []
    for size in entities:
        report(f"{size:,} entities with {attributes} attributes, {5 * size:,} links ...")
        row = in_child(_one_size, size, attributes, missing, seed)
        before = rows[-1] if rows else None
        row["exponent"] = None if before is None else _slope(before, row)
        rows.append(row)
    return rows


def _one_size(entities: int, attributes: int, missing: float, seed: int) -> Row:
    # l1 grows with the root of the number of rows, as the noise of a gradient does.
    field = RelationalField(l1=6.0 * float(np.sqrt(entities)), l2=0.0, templates="base")
    field.fit(draw_network(200, attributes, missing=missing, seed=seed).data)  # compiles what is compiled
    network = draw_network(entities, attributes, missing=missing, seed=seed)
    measured = measure(lambda: field.fit(network.data), repeats=1, threads=1)
    found = _found(field)
    hits = len(found & network.edges)
    return {
        "entities": entities,
        "links": 5 * entities,
        "seconds": round(measured.best, 2),
        "peak_mb": round(measured.peak_bytes / 2**20),
        "iterations": field.n_iter_,
        "precision": round(hits / max(len(found), 1), 3),
        "recall": round(hits / len(network.edges), 3),
        "certified": field.converged_,
    }


def _found(field: RelationalField) -> set[Edge]:
    native: Any = field.edges_
    edges = nw.from_native(native, eager_only=True)
    columns = (edges[name].to_list() for name in ("template", "variable_a", "variable_b"))
    return {edge for edge in zip(*columns, strict=True) if NEIGHBOR_COUNT not in edge}


def _slope(before: Row, after: Row) -> float:
    return round(float(np.log(after["seconds"] / before["seconds"]) / np.log(after["links"] / before["links"])), 2)


def _plant(names: Sequence[str], rng: np.random.Generator) -> tuple[Field, frozenset[Edge]]:
    """Return a field whose attributes form a chain within an entity, each with one partner across links."""
    count = len(names)
    schema = Schema(tuple(Variable(n, "target", (0, 1), 0, (0.5, 0.5)) for n in names), tuple(names))
    templates = (Template("within", ("person",)), Template("joined", ("who", "whom")))
    layout = Layout(("person",), (schema,), templates, ((0, 0), (0, 0)))
    seen = int(layout.candidate_blocks[1].right.neighbor_columns[0])
    within = [(k, k + 1) for k in range(count - 1)]
    partners = rng.permutation(count)
    across = [(k, int(partners[k])) for k in range(count)]
    pairs = np.array(within + [(a, seen + b) for a, b in across], dtype=np.int64)
    signs = rng.choice([-1.0, 1.0], len(pairs))
    weights = signs * np.where(np.arange(len(pairs)) < len(within), 0.8, 0.25)
    edges = {(WITHIN, names[a], names[b]) for a, b in within} | {(ACROSS, names[a], names[b]) for a, b in across}
    # Biases that keep every attribute near a half, whatever its partners add.
    push = np.zeros(count)
    arcs = layout.arcs(pairs)
    degree = np.where(arcs.source < count, 1.0, 5.0)
    np.add.at(push, arcs.target, weights[arcs.feature] * degree)
    return Field(layout, -0.5 * push, pairs, weights), frozenset(edges)


def _as_data(people: pl.DataFrame, knows: pl.DataFrame) -> Relational:
    return Relational(
        {"person": people, "knows": knows},
        keys={"person": "id"},
        links={"who": ("knows", "who", "person"), "whom": ("knows", "whom", "person")},
    )


def command(
    entities: Annotated[
        list[int] | None, typer.Option("--entities", min=200, help="Numbers of entities; by default 12,500 to 100,000.")
    ] = None,
    attributes: Annotated[int, typer.Option("--attributes", min=2, help="0/1 columns of an entity.")] = 20,
    missing: Annotated[float, typer.Option("--missing", help="Share of cells that are gaps.")] = 0.0,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Learn from linked entities: growth of time and memory with links, and recovery of the planted field."""
    sizes = tuple(entities or (12_500, 25_000, 50_000, 100_000))
    found = run_network(sizes, attributes, missing=missing, seed=seed, report=print_message)
    shown = ("entities", "links", "seconds", "exponent", "peak_mb", "iterations", "precision", "recall", "certified")
    print_rows(found, shown, as_json)
