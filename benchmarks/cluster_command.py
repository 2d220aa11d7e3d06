"""``python -m benchmarks cluster``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from benchmarks.commands import Json, Seed
from sparsefield.cli.console import new_table, print_message, show, show_json


def cluster(
    columns: Annotated[int, typer.Option("--columns", min=4, help="Of 0 and 1.")] = 100,
    rows: Annotated[int, typer.Option("--rows", min=400, help="Rows to learn from.")] = 200_000,
    l1: Annotated[float | None, typer.Option("--l1", help="1.4 sqrt(rows) unless told.")] = None,
    workers: Annotated[
        list[int] | None, typer.Option("--workers", min=1, help="Local worker processes; 1, 2 and 4 unless told.")
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Fits of each kind; the quickest counts.")] = 2,
    predict_rows: Annotated[int, typer.Option("--predict-rows", min=1, help="Foretell a fit to so many.")] = 10**9,
    predict_workers: Annotated[int, typer.Option("--predict-workers", min=1, help="On so many workers.")] = 100,
    predict_threads: Annotated[int, typer.Option("--predict-threads", min=1, help="Of each of them.")] = 4,
    network: Annotated[float, typer.Option("--network", help="Gbit/s of each machine's link.")] = 10.0,
    memory: Annotated[float, typer.Option("--memory", help="GB of each worker.")] = 64.0,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Learn on local Dask workers beside threads: time, bytes, and what a cost model foretells of both."""
    from sparsefield.experiments.cluster_model import Plan

    from benchmarks.cluster import NOTES, WORKERS, run_cluster

    plan = Plan(predict_rows, predict_workers, predict_threads, network, memory)
    options: dict[str, Any] = {"workers": tuple(workers or WORKERS), "repeats": repeats, "plan": plan, "seed": seed}
    found = run_cluster(columns, rows, l1=l1, report=print_message, **options)
    if as_json:
        show_json(found)
        return
    data, planned = found["data"], found["plan"]
    show(
        f"{data['columns']:,} columns x {data['rows']:,} rows ({data['distinct_rows']:,} of them distinct), l1 = "
        f"{data['l1']:g}, {data['pairs']:,} pairs. This machine has {found['cores']} core(s), which all workers share."
    )
    if None not in found["load"]:
        before, after = found["load"]
        show(f"Load: {before:.3g} before, {after:.3g} after; where it is above the number of cores, times tell little.")
    _print("Fits", found["fits"], ("method", "placing_seconds", "seconds", "times_threads", "processor_seconds",
           "iterations", "evaluations", "per_evaluation", "looks", "per_look", "same_bytes"))  # fmt: skip
    _print("Bytes of an iteration, on average", found["bytes"],
           ("workers", "shards", "placed_mb", "out_kb", "back_kb", "loopback_kb", "at_rest_kb"))  # fmt: skip
    _print("Bytes of a search among all candidates, on average", found["bytes"],
           ("workers", "shards", "entries", "exact", "search_kb", "in_full_kb"))  # fmt: skip
    show()
    for line in NOTES:
        show(line)
    _print("Constants of the model", found["constants"], ("constant", "value", "unit"))
    _print("Foretold and seen", found["foretold"], ("workers", "what", "foretold", "seen", "seen_by_foretold"), 2)
    title = (
        f"Foretold: {planned['rows']:,} rows on {planned['workers']:,} workers of {planned['threads']} thread(s), "
        f"{planned['shards']:,} shards, in seconds"
    )
    _print(title, planned["table"],
           ("what", "count", "each", "seconds", "rows", "scheduler", "link", "client", "megabytes"))  # fmt: skip
    show()
    for line in found["assumptions"]:
        show(line)
    _print("Lists of each shard's own large entries instead", found["lists"],
           ("look", "shards", "candidates", "beyond", "listed_by_a_shard", "listed_anywhere", "kb_of_lists",
            "kb_of_two_rounds", "kb_in_full"))  # fmt: skip


def _print(title: str, rows: list[dict[str, Any]], shown: tuple[str, ...], left: int = 1) -> None:
    show()
    show(title)
    table = new_table(*(name.replace("_", " ") for name in shown), left=left)
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in shown))
    show(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
