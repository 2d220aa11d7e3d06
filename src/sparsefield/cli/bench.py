"""``sparsefield bench``: comparisons with what else there is."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sparsefield.cli.console import new_table, say, show, show_json

app = typer.Typer(help="Compare with other tools on the same data.", add_completion=False)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Seed = Annotated[int, typer.Option("--seed", help="Of the data and of the gaps.")]


@app.command("peers")
def peers(
    nodes: Annotated[list[int] | None, typer.Option("--nodes", help="Columns; 100 and 400 unless told.")] = None,
    rows: Annotated[int, typer.Option("--rows", min=10, help="Rows to learn from.")] = 2000,
    peer: Annotated[list[str] | None, typer.Option("--peer", help="skglm, celer, liblinear; else all.")] = None,
    time_limit: Annotated[float | None, typer.Option("--time-limit", help="Seconds allowed for a fit.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Learn a binary field: time, memory and held-out score beside one L1 logistic regression per column."""
    from sparsefield.experiments.peers import run_peers

    found = run_peers(tuple(nodes or (100, 400)), rows, seed=seed, peers=peer, report=say, time_limit=time_limit)
    shown = ("data", "method", "l1", "seconds", "times_ours", "peak_mb", "score_separate", "score_field",
             "weights", "edge_auc")  # fmt: skip
    _answer(found, shown, as_json)


@app.command("impute")
def impute(
    data: Annotated[list[str] | None, typer.Option("--data", help="ising, plants, ...; both unless told.")] = None,
    rows: Annotated[int | None, typer.Option("--rows", min=10, help="At most this many rows.")] = None,
    missing: Annotated[float, typer.Option("--missing", help="Share of cells to hide.")] = 0.2,
    method: Annotated[list[str] | None, typer.Option("--method", help="Some methods only.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Fill gaps: accuracy and log-loss beside the ways that scikit-learn offers."""
    from sparsefield.experiments.impute import run_impute

    names = tuple(data or ("ising", "plants"))
    found = run_impute(names, rows=rows, missing=missing, seed=seed, methods=method, report=say)
    _answer(found, ("data", "method", "accuracy", "log_loss", "seconds", "tuned", "value"), as_json)


@app.command("heldout")
def heldout(
    data: Annotated[list[str] | None, typer.Option("--data", help="nltcs, dna, plants; all unless told.")] = None,
    as_json: Json = False,
) -> None:
    """Score held-out rows of public binary data sets, with l1 chosen on their validation rows."""
    from sparsefield.experiments.heldout import run_heldout

    found = run_heldout(tuple(data or ("nltcs", "dna", "plants")), report=say)
    shown = ("data", "l1", "test_score", "features", "candidates", "kkt_violation", "seconds")
    _answer(found, shown, as_json)


@app.command("ablations")
def ablations(seed: Seed = 0, as_json: Json = False) -> None:
    """Measure what single decisions of the design bring: coordinates, batches, base states."""
    from sparsefield.experiments.ablations import run_ablations

    found = run_ablations(say, seed=seed)
    _answer(found, ("decision", "setting", "steps", "seconds", "objective", "auc", "cll"), as_json)


@app.command("sequences")
def sequences(
    data: Annotated[list[str] | None, typer.Option("--data", help="tags, references; both unless told.")] = None,
    sentences: Annotated[int, typer.Option("--sentences", min=20, help="Sentences to learn from.")] = 400,
    method: Annotated[list[str] | None, typer.Option("--method", help="Some methods only.")] = None,
    objective: Annotated[str, typer.Option("--objective", help="Of ours: pl or cd.")] = "pl",
    penalize_unary: Annotated[bool, typer.Option("--penalize-unary", help="Of ours.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Label the words of sentences: a field over linked words beside CRFsuite and a regression per word."""
    from sparsefield.experiments.sequences import run_sequences

    ours = {"objective": objective, "penalize_unary": penalize_unary}
    names = tuple(data or ("tags", "references"))
    found = run_sequences(names, sentences, seed, methods=method, report=say, **ours)
    _answer(found, ("data", "method", "words_right", "sentences_right", "seconds", "weights", "setting"), as_json)


@app.command("denoising")
def denoising(
    scale: Annotated[
        list[int] | None, typer.Option("--scale", min=1, help="Sides in 8 pixels; 1 and 2 unless told.")
    ] = None,
    flipped: Annotated[float, typer.Option("--flipped", help="Share of pixels that are flipped.")] = 0.2,
    method: Annotated[list[str] | None, typer.Option("--method", help="Some methods only.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Clean pictures of digits: a field over linked pixels beside filters and pixels on their own."""
    from sparsefield.experiments.denoising import run_denoising

    found = run_denoising(tuple(scale or (1, 2)), flipped=flipped, seed=seed, methods=method, report=say)
    _answer(found, ("data", "method", "error", "pictures_right", "seconds", "weights", "setting"), as_json)


@app.command("network")
def network(
    entities: Annotated[
        list[int] | None, typer.Option("--entities", min=200, help="Sizes; 12,500 to 100,000 unless told.")
    ] = None,
    attributes: Annotated[int, typer.Option("--attributes", min=2, help="0/1 columns of an entity.")] = 20,
    missing: Annotated[float, typer.Option("--missing", help="Share of cells that are gaps.")] = 0.0,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Learn from linked entities: how time and memory grow with links, and what of the planted field is found."""
    from sparsefield.experiments.network import run_network

    sizes = tuple(entities or (12_500, 25_000, 50_000, 100_000))
    found = run_network(sizes, attributes, missing=missing, seed=seed, report=say)
    shown = ("entities", "links", "seconds", "exponent", "peak_mb", "iterations", "precision", "recall", "certified")
    _answer(found, shown, as_json)


def _answer(rows: list[dict[str, Any]], shown: tuple[str, ...], as_json: bool) -> None:
    if as_json:
        show_json(rows)
        return
    table = new_table(
        *(name.replace("_", " ") for name in shown),
        left=shown.index("method") + 1 if "method" in shown else 1,
    )
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in shown))
    show(table)
    for row in rows:
        if row.get("status", "done") != "done":
            show(f"{row['data']}, {row['method']}: {row['status']}")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
