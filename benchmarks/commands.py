"""``python -m benchmarks``: comparisons with what else there is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sparsefield.cli.console import new_table, print_message, show, show_json

app = typer.Typer(help="Compare with other tools on the same data.", add_completion=False)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Seed = Annotated[int, typer.Option("--seed", help="Of the data and of the gaps.")]
Output = Annotated[Path, typer.Option("--output", help="Folder for pictures.")]
BENCH = Path("bench")


@app.command("peers")
def peers(
    nodes: Annotated[
        list[int] | None, typer.Option("--nodes", min=8, help="Columns; 100, 400, 1000 and 3000 unless told.")
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=10, help="Rows to learn from.")] = 2000,
    data: Annotated[str, typer.Option("--data", help="dense (Ising), sparse (planted) or both.")] = "both",
    peer: Annotated[
        list[str] | None, typer.Option("--peer", help="skglm, celer, liblinear, glmnet (by R); else all.")
    ] = None,
    time_limit: Annotated[float | None, typer.Option("--time-limit", help="Seconds allowed for a fit; 600.")] = None,
    short: Annotated[bool, typer.Option("--short", help="100 and 400 columns, 120 seconds a fit.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
    output: Output = BENCH,
) -> None:
    """Learn a binary field: time, memory and held-out score beside one L1 logistic regression per column."""
    from benchmarks.peers import draw_peers, run_peers

    sizes = tuple(nodes or ((100, 400) if short else (100, 400, 1000, 3000)))
    limit = time_limit or (120.0 if short else 600.0)
    kinds = ("dense", "sparse") if data == "both" else (data,)
    found = run_peers(sizes, rows, seed=seed, peers=peer, report=print_message, kinds=kinds, time_limit=limit)
    shown = ("data", "method", "l1", "seconds", "times_ours", "peak_mb", "score_separate", "score_field",
             "weights", "edge_auc")  # fmt: skip
    _draw(draw_peers(found), output)
    _answer(found, shown, as_json)


@app.command("scale")
def scale(
    columns: Annotated[
        list[int] | None, typer.Option("--columns", min=10, help="Sizes; 1,000 to 1,000,000 unless told.")
    ] = None,
    rows: Annotated[
        list[int] | None, typer.Option("--rows", min=10, help="Sizes; 10,000 to 1,000,000 unless told.")
    ] = None,
    on: Annotated[float, typer.Option("--on", help="Expected cells that are on in a row.")] = 50.0,
    l1: Annotated[
        float | None, typer.Option("--l1", help="max(6, 8 sqrt(rows) x the typical rate of a cell) unless told.")
    ] = None,
    l2: Annotated[float, typer.Option("--l2")] = 0.0,
    threads: Annotated[int | None, typer.Option("--threads", help="All cores unless told.")] = None,
    time_limit: Annotated[float | None, typer.Option("--time-limit", help="Seconds allowed for a size.")] = None,
    short: Annotated[bool, typer.Option("--short", help="A few thousand columns and rows.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
    output: Output = BENCH,
) -> None:
    """Learn from large sparse 0/1 data: how time and memory grow, and what of the planted field is found."""
    from benchmarks.scale import SHORT, draw_growth, growth_of, run_scale, sizes_of

    sizes = SHORT if short and not columns and not rows else sizes_of(columns or None, rows or None)
    found = run_scale(
        sizes, on=on, l1=l1, l2=l2, n_jobs=threads, time_limit=time_limit, seed=seed, report=print_message
    )
    exponents = growth_of(found)
    _draw(draw_growth(found), output)
    if as_json:
        show_json({"rows": found, "growth": exponents})
        return
    _answer(found, ("data", "cells_on", "l1", "seconds", "peak_mb", "total_mb", "iterations", "features", "certified",
                    "kkt_violation"), as_json)  # fmt: skip
    show()
    done = [row for row in found if row["status"] == "done"]
    _answer(done, ("data", "precision", "recall", "learnable", "recall_learnable", "score", "score_independent",
                   "score_truth"), as_json)  # fmt: skip
    show()
    if exponents:
        _answer(exponents, ("fixed", "against", "points", "seconds_exponent", "peak_mb_exponent", "total_mb_exponent"),
                as_json)  # fmt: skip


@app.command("paper")
def paper(
    nodes: Annotated[int | None, typer.Option("--nodes", min=8, help="The paper's N; 1000 unless told.")] = None,
    rows: Annotated[int, typer.Option("--rows", min=10, help="The paper's M.")] = 200,
    method: Annotated[list[str] | None, typer.Option("--method", help="cfi, grafting, full; else all.")] = None,
    threshold: Annotated[float, typer.Option("--threshold", help="Of CFI.")] = 0.2,
    certify: Annotated[bool, typer.Option("--certify", help="Go on to a certified optimum.")] = False,
    time_limit: Annotated[float | None, typer.Option("--time-limit", help="Seconds allowed for a fit; 600.")] = None,
    short: Annotated[bool, typer.Option("--short", help="N = 300, 60 seconds a fit.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
    output: Output = BENCH,
) -> None:
    """Learn the paper's synthetic networks: CFI beside Grafting and Full-L1."""
    from benchmarks.paper_scale import METHODS, draw_paper_scale, run_paper_scale

    size, limit = (nodes or (300 if short else 1000)), (time_limit or (60.0 if short else 600.0))
    names = tuple(method or METHODS)
    options = {"threshold": threshold, "certify": certify, "time_limit": limit}
    found = run_paper_scale(size, rows, methods=names, seed=seed, report=print_message, **options)
    _draw({"paper.svg": draw_paper_scale(found)}, output)
    shown = ("data", "method", "batch", "seconds", "times_cfi", "scoring_seconds", "scoring_times_cfi", "iterations",
             "features", "cll", "error", "kkt_violation")  # fmt: skip
    _answer(found, shown, as_json)


@app.command("startup")
def startup(
    short: Annotated[bool, typer.Option("--short", help="Once instead of three times.")] = False,
    as_json: Json = False,
    output: Output = BENCH,
) -> None:
    """Measure imports, and the first fit with nothing compiled yet, in fresh processes."""
    from benchmarks.startup import draw_startup, run_startup

    found = run_startup(repeats=1 if short else 3, report=print_message)
    _draw({"startup.svg": draw_startup(found)}, output)
    _answer(found, ("data", "method", "seconds", "beyond"), as_json)


@app.command("kernels")
def kernels(
    short: Annotated[bool, typer.Option("--short", help="Small data, and a tenth of a second a figure.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
    output: Output = BENCH,
) -> None:
    """Measure how far each kernel is, on one thread, from what this machine can do."""
    from benchmarks.kernels import LONG, NOTES, SHORT, draw_kernels, run_kernels

    machine, found = run_kernels(SHORT if short else LONG, seed=seed, report=print_message)
    _draw({"kernels.svg": draw_kernels(found)}, output)
    if as_json:
        show_json({"machine": machine, "kernels": found})
        return
    _answer(machine, ("figure", "per_second"), as_json)
    show()
    shown = ("kernel", "data", "what", "per_second", "bytes_per_second", "limit", "times_from_limit")
    _answer(found, shown, as_json, left=3)
    show()
    for line in NOTES:
        show(line)


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
    from benchmarks.impute import run_impute

    names = tuple(data or ("ising", "plants"))
    found = run_impute(names, rows=rows, missing=missing, seed=seed, methods=method, report=print_message)
    _answer(found, ("data", "method", "accuracy", "log_loss", "seconds", "tuned", "value"), as_json)


@app.command("inference")
def inference(
    field: Annotated[
        list[str] | None, typer.Option("--field", help="tree-like, weak loops, strong loops; all unless told.")
    ] = None,
    nodes: Annotated[int, typer.Option("--nodes", min=4, help="Columns; few enough for exact beliefs.")] = 24,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows with hidden cells.")] = 300,
    states: Annotated[int, typer.Option("--states", min=2, help="States of a column.")] = 3,
    missing: Annotated[float, typer.Option("--missing", help="Share of cells to hide.")] = 0.5,
    method: Annotated[list[str] | None, typer.Option("--method", help="Some methods only.")] = None,
    learn: Annotated[
        bool, typer.Option("--learn", help="Learn fields from rows with gaps, by mean field and by belief propagation.")
    ] = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Fill gaps of made fields by each inference method: time, and distance from the exact beliefs."""
    from benchmarks.inference import FIELDS, run_inference, run_learned

    if learn:
        _answer(
            run_learned(tuple(field or FIELDS), seed=seed, report=print_message),
            ("data", "method", "seconds", "cll"),
            as_json,
        )
        return
    options = {"nodes": nodes, "rows": rows, "states": states, "missing": missing, "seed": seed}
    found = run_inference(tuple(field or FIELDS), **options, methods=method, report=print_message)
    _answer(found, ("data", "method", "seconds", "off", "cll", "unconverged", "gaps"), as_json)


@app.command("choosing")
def choosing(
    nodes: Annotated[list[int] | None, typer.Option("--nodes", min=10, help="Sizes; 100 and 400 unless told.")] = None,
    rows: Annotated[int, typer.Option("--rows", min=100, help="Rows to learn from, and to score.")] = 2000,
    peer: Annotated[
        list[str] | None, typer.Option("--peer", help="skglm, celer, liblinear; skglm unless told.")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Choose l1 automatically: time, edges and scores beside a path of regressions per node with EBIC."""
    from benchmarks.selection import run_choosing

    found = run_choosing(tuple(nodes or (100, 400)), rows, seed, tuple(peer or ("skglm",)), report=print_message)
    _answer(found, ("data", "method", "seconds", "l1", "edges", "precision", "recall", "score"), as_json)


@app.command("heldout")
def heldout(
    data: Annotated[list[str] | None, typer.Option("--data", help="nltcs, dna, plants; all unless told.")] = None,
    max_order: Annotated[int, typer.Option("--max-order", min=2, help="Most columns of a feature.")] = 2,
    order_penalty: Annotated[float, typer.Option("--order-penalty", min=1.0, help="As of `fit`.")] = 2.0,
    boosting: Annotated[bool, typer.Option("--boosting", help="Beside boosting of each column on the others.")] = False,
    as_json: Json = False,
) -> None:
    """Score held-out rows of public binary data sets, with l1 chosen on their validation rows."""
    from benchmarks.heldout import run_heldout

    found = run_heldout(
        tuple(data or ("nltcs", "dna", "plants")),
        report=print_message,
        max_order=max_order,
        order_penalty=order_penalty,
        boosting=boosting,
    )
    shown = ("data", "method", "l1", "test_score", "features", "candidates", "kkt_violation", "seconds")
    _answer(found, shown, as_json)


@app.command("hidden")
def hidden(
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="'latent classes', digits, nltcs (these unless told), dna, plants."),
    ] = None,
    states: Annotated[int | None, typer.Option("--states", min=2, help="Of the latent variable.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Score held-out rows with a latent variable and without one, with l1 chosen on validation rows."""
    from benchmarks.latent import LATENT_DATA, run_latent

    found = run_latent(tuple(data or LATENT_DATA), report=print_message, states=states, seed=seed)
    shown = ("data", "method", "l1", "test_score", "features", "kkt_violation", "certified", "seconds")
    _answer(found, shown, as_json)


@app.command("ablations")
def ablations(seed: Seed = 0, as_json: Json = False) -> None:
    """Measure what single decisions of the design bring: coordinates, batches, base states."""
    from benchmarks.ablations import run_ablations

    found = run_ablations(print_message, seed=seed)
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
    from benchmarks.sequences import run_sequences

    ours = {"objective": objective, "penalize_unary": penalize_unary}
    names = tuple(data or ("tags", "references"))
    found = run_sequences(names, sentences, seed, methods=method, report=print_message, **ours)
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
    from benchmarks.denoising import run_denoising

    found = run_denoising(tuple(scale or (1, 2)), flipped=flipped, seed=seed, methods=method, report=print_message)
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
    from benchmarks.network import run_network

    sizes = tuple(entities or (12_500, 25_000, 50_000, 100_000))
    found = run_network(sizes, attributes, missing=missing, seed=seed, report=print_message)
    shown = ("entities", "links", "seconds", "exponent", "peak_mb", "iterations", "precision", "recall", "certified")
    _answer(found, shown, as_json)


def _draw(pictures: dict[str, str], folder: Path) -> None:
    from sparsefield.io.atomic_write import write_atomically

    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures.items():
        write_atomically(folder / name, picture.encode("utf-8"))
        print_message(f"Wrote {folder / name}")


def _answer(rows: list[dict[str, Any]], shown: tuple[str, ...], as_json: bool, left: int = 1) -> None:
    if as_json:
        show_json(rows)
        return
    table = new_table(
        *(name.replace("_", " ") for name in shown),
        left=shown.index("method") + 1 if "method" in shown else left,
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
