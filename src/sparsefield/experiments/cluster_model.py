"""What a fit on a cluster costs, foretold from what was measured elsewhere.

An operation takes a fixed time (a round trip through the scheduler, and a task for each worker), the time of the
busiest thread for its rows, and the time for its bytes, all of which pass the link of the client. Nothing here is
fitted to times of clusters: rows are timed on threads, round trips and bytes by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsefield import policy
from sparsefield.data.table import dense_bytes
from sparsefield.engines.cluster import SENT_ALONG, shard_length
from sparsefield.engines.limits import MEMORY_SHARE
from sparsefield.experiments.cluster_diary import Diary

__all__ = ["KINDS", "Constants", "Costs", "Parts", "Place", "Plan", "Work", "costs_of", "forecast", "foretell"]

Row = dict[str, Any]
KINDS = ("evaluation", "look", "other")
PARTS = ("rows", "scheduler", "link", "client")


@dataclass(frozen=True)
class Costs:
    """Seconds of one thread, while as many threads work as in the fit that these come from."""

    per_cell: float
    per_arc: float
    """Of an evaluation: for each row and column, and for each row and arc."""
    per_product: float
    """Of a look at all candidates: for each row and pair of columns, either way round."""
    per_other: float
    """Of anything else that goes over all rows: for each row and column."""
    between: float
    """Of a whole fit, not of rows: the optimiser's."""


def costs_of(diary: Diary, rows: int, columns: int, threads: int) -> Costs:
    """From a fit on threads of this machine."""
    from scipy.optimize import nnls

    evaluations = diary.of("evaluation")
    work = np.array([[rows * columns, rows * operation.arcs] for operation in evaluations], dtype=float)
    per_cell, per_arc = nnls(work, threads * np.array([operation.seconds for operation in evaluations]))[0]
    return Costs(
        per_cell=float(per_cell),
        per_arc=float(per_arc),
        per_product=threads * diary.total("look") / (max(diary.count("look"), 1) * rows * columns**2),
        per_other=threads * diary.total("other") / (max(diary.count("other"), 1) * rows * columns),
        between=diary.between,
    )


@dataclass(frozen=True)
class Constants:
    """What was measured; none of it in a fit on a cluster."""

    costs: Mapping[int, Costs]
    """By the number of threads that worked."""
    latency: Mapping[int, float]
    """By the number of workers: seconds of an operation without work."""
    broadcast: Mapping[int, float]
    """What it takes besides to send something to all workers beforehand."""
    adding: float
    """Seconds that the client takes for one entry of what a worker tells in the first round of a search."""
    out: float
    back: float
    """Bytes a second between client and workers."""

    def costs_at(self, threads: int) -> Costs:
        """While so many threads work, or as many as were tried."""
        return self.costs[max(k for k in self.costs if k <= max(threads, min(self.costs)))]

    def rows(self) -> list[Row]:
        found = []
        for n, costs in self.costs.items():
            beside = f"of one thread, {n} at work"
            found += [
                (f"a row and column of an evaluation, {beside}", 1e9 * costs.per_cell, "ns"),
                (f"a row and arc of an evaluation, {beside}", 1e9 * costs.per_arc, "ns"),
                (f"a row and entry of a look, {beside}", 1e9 * costs.per_product, "ns"),
            ]
        found += [(f"an operation without work, {n} worker(s)", 1e3 * s, "ms") for n, s in self.latency.items()]
        found += [(f"something sent to {n} worker(s) beforehand", 1e3 * s, "ms") for n, s in self.broadcast.items()]
        found += [
            ("bytes to a worker", self.out / 1e6, "MB/s"),
            ("bytes from a worker", self.back / 1e6, "MB/s"),
            ("an entry that a worker tells, at the client", 1e9 * self.adding, "ns"),
        ]
        return [{"constant": name, "value": value, "unit": unit} for name, value, unit in found]


def line(measured: Mapping[int, float]) -> tuple[float, float]:
    """(fixed, for each worker), neither below 0, that come nearest to what was measured.

    Examples
    --------
    >>> [round(value, 6) for value in line({1: 0.012, 2: 0.014, 4: 0.018})]
    [0.01, 0.002]
    """
    from scipy.optimize import nnls

    counts = np.array(list(measured), dtype=float)
    fixed, each = nnls(np.column_stack([np.ones_like(counts), counts]), np.array(list(measured.values())))[0]
    return float(fixed), float(each)


def at(measured: Mapping[int, float], workers: int) -> float:
    """As measured for so many workers, else by the line."""
    fixed, each = line(measured)
    return measured.get(workers, fixed + each * workers)


@dataclass(frozen=True)
class Place:
    """Where a fit runs."""

    rows: int
    workers: int
    threads: int = 1
    """Of each worker."""
    cores: int | None = None
    """That all workers share; None: each thread has one."""
    bandwidth: float = np.inf
    """Of the client's link, in bytes a second; Dask may be slower."""

    @property
    def n_threads(self) -> int:
        return self.workers * self.threads

    @property
    def n_shards(self) -> int:
        n_parts = -(-self.rows // policy.block_rows(self.rows))
        return -(-n_parts // shard_length(n_parts, self.n_threads))

    def runs(self) -> list[tuple[int, int]]:
        """First and last but one of the shards of each worker that has some, as rows are placed."""
        n = self.n_shards
        worker = np.arange(n) * self.n_threads // n // self.threads
        starts = np.flatnonzero(np.diff(worker, prepend=-1))
        return list(zip(starts.tolist(), [*starts[1:].tolist(), n], strict=True))

    @property
    def n_nodes(self) -> int:
        """Pieces in which a sum comes back from all workers together."""
        return sum(nodes_of(first, last, self.n_shards) for first, last in self.runs())

    @property
    def busiest(self) -> float:
        """Share of the rows that the thread with most of them has; more where threads outnumber cores."""
        most = max(-(-(last - first) // self.threads) for first, last in self.runs()) / self.n_shards
        return max(most, 1.0 / min(self.n_threads, self.cores or self.n_threads))


def nodes_of(first: int, last: int, n_shards: int) -> int:
    """Fewest nodes of the tree of additions that stand for the shards from ``first`` to ``last`` - 1.

    Examples
    --------
    >>> nodes_of(0, 4, 8), nodes_of(1, 4, 8), nodes_of(6, 7, 7)
    (1, 2, 1)
    """
    count, width = 0, n_shards
    while first < last:
        if width == 1:
            return count + 1
        if first % 2:
            count, first = count + 1, first + 1
        if last % 2 and last < width:
            count, last = count + 1, last - 1
        first, last, width = first // 2, -(-last // 2), -(-width // 2)
    return count


@dataclass(frozen=True)
class Work:
    """What a fit does and sends of one kind of operations, which is the same wherever it runs."""

    count: int
    rounds: int
    broadcasts: int
    arcs: int
    """Of all evaluations together."""
    out: float
    """Bytes to each worker."""
    back: float
    """Bytes from each node of the tree of additions."""
    searched: float
    """Those of searches among them."""
    entries: float = 0.0
    """Of all sums that a search looks at."""


def work_of(diary: Diary, place: Place, entries: float) -> dict[str, Work]:
    """From a fit on a cluster: counts and bytes, no times."""
    found = {}
    for kind in KINDS:
        operations = diary.of(kind)
        searches = [operation for operation in operations if operation.name == "large"]
        found[kind] = Work(
            count=diary.count(kind),
            rounds=sum(operation.rounds for operation in operations),
            broadcasts=sum(operation.broadcasts for operation in operations),
            arcs=sum(operation.arcs for operation in operations),
            out=sum(operation.out for operation in operations) / place.workers,
            back=sum(operation.back for operation in operations) / place.n_nodes,
            searched=sum(operation.back for operation in searches) / place.n_nodes,
            entries=entries if kind == "look" else 0.0,
        )
    return found


@dataclass(frozen=True)
class Parts:
    """Seconds of all operations of a kind."""

    rows: float
    scheduler: float
    link: float
    client: float
    sent: float
    """Bytes, to and fro."""

    @property
    def seconds(self) -> float:
        return self.rows + self.scheduler + self.link + self.client


def foretell(work: Mapping[str, Work], columns: int, constants: Constants, place: Place) -> dict[str, Parts]:
    """What the operations of a fit will take."""
    costs = constants.costs_at(min(place.n_threads, place.cores or place.n_threads))
    trip, broadcast = at(constants.latency, place.workers), at(constants.broadcast, place.workers)
    found = {}
    for kind, done in work.items():
        each = {"evaluation": costs.per_cell, "look": costs.per_product * columns, "other": costs.per_other}[kind]
        of_a_row = each * columns * done.count + costs.per_arc * done.arcs
        broadcasts = done.broadcasts
        weights = 8.0 * (columns + 0.5 * done.arcs / max(done.count, 1))
        if kind == "evaluation" and weights * place.workers > SENT_ALONG:
            broadcasts += done.count  # weights no longer go with the tasks
        out, back = done.out * place.workers, done.back * place.n_nodes
        found[kind] = Parts(
            rows=place.rows * of_a_row * place.busiest,
            scheduler=done.rounds * trip + broadcasts * broadcast,
            link=out / min(constants.out, place.bandwidth) + back / min(constants.back, place.bandwidth),
            client=constants.adding * done.entries * place.n_nodes * done.count,
            sent=out + back,
        )
    return found


# -- a cluster that is not there --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """A cluster to foretell a fit for."""

    rows: int = 10**9
    workers: int = 100
    threads: int = 4
    gigabits: float = 10.0
    """Of a machine's link to the network, a second."""
    gigabytes: float = 64.0
    """Of a worker's memory."""

    @property
    def place(self) -> Place:
        return Place(self.rows, self.workers, self.threads, bandwidth=self.gigabits * 1e9 / 8.0)


def forecast(work: Mapping[str, Work], columns: int, constants: Constants, plan: Plan, placed_per_row: float) -> Row:
    """Rows of a table, what placing and memory take, and what would give way first."""
    place = plan.place
    found = foretell(work, columns, constants, place)
    between = constants.costs_at(1).between
    table: list[Row] = [
        {
            "what": {"evaluation": "evaluations", "look": "looks", "other": "other operations"}[kind],
            "count": work[kind].count,
            "each": parts.seconds / max(work[kind].count, 1),
            "seconds": parts.seconds,
            **{name: getattr(parts, name) for name in PARTS},
            "megabytes": parts.sent / 1e6,
        }
        for kind, parts in found.items()
    ]
    table.append({"what": "between them", "count": 1, "each": between, "seconds": between, "client": between})
    total = sum(row["seconds"] for row in table)
    sums = {name: sum(row.get(name, 0.0) for row in table) for name in (*PARTS, "megabytes")}
    table.append({"what": "the fit", "count": 1, "each": total, "seconds": total} | sums)
    needed = dense_bytes(plan.rows * columns) / plan.workers
    allowed = plan.gigabytes * 1e9
    rows_per_thread = found["evaluation"].rows * place.n_threads / max(work["evaluation"].count, 1)
    each = line(constants.latency)[1]
    best = float(np.sqrt(rows_per_thread / plan.threads / each)) if each > 0.0 else np.inf
    limits = {
        "memory": needed / allowed,
        "the scheduler": plan.workers / best,
        "the client's link, and the client": (found["look"].link + found["look"].client)
        / max(found["look"].rows, np.finfo(float).tiny),
    }
    return {
        "rows": plan.rows,
        "workers": plan.workers,
        "threads": plan.threads,
        "shards": place.n_shards,
        "nodes": place.n_nodes,
        "search_mb": work["look"].searched * place.n_nodes / max(work["look"].count, 1) / 1e6,
        "in_full_mb": 8.0 * work["look"].entries * place.n_nodes / 1e6,
        "table": table,
        "seconds": total,
        "gigabytes_per_worker": needed / 1e9,
        "fits_in_memory": needed <= allowed,
        "fits_without_disk": needed <= MEMORY_SHARE * allowed,
        "most_rows": int(MEMORY_SHARE * allowed * plan.workers / dense_bytes(columns)),
        "most_workers": best,
        "placing_from_client": placed_per_row * plan.rows / min(constants.out, place.bandwidth),
        "placing_by_workers": placed_per_row * plan.rows / plan.workers / place.bandwidth,
        "limits": limits,
        "first": max(limits, key=lambda name: limits[name]),
    }


def assumptions(columns: int, constants: Constants, plan: Plan, found: Row, work: Mapping[str, Work]) -> list[str]:
    """Everything that the forecast takes for granted, and what comes out of it, in plain words."""
    fixed, each = line(constants.latency)
    threads = max(constants.costs)
    return [
        f"Assumed: {columns:,} columns as here, and the same {work['evaluation'].count} evaluations and "
        f"{work['look'].count} looks: l1 grows with the square root of the rows, so that as many pairs join.",
        f"Assumed: each of {plan.place.n_threads:,} threads does a row as fast as one here does while {threads} work.",
        f"Assumed: a round trip costs {1e3 * fixed:.3g} ms and {1e3 * each:.3g} ms for each worker, a line through "
        f"what {', '.join(map(str, constants.latency))} workers took here, where they share the cores.",
        f"Assumed: machines have links of {plan.gigabits:g} Gbit/s, and all bytes pass that of the scheduler and the "
        f"client; Dask moved {constants.out / 1e6:,.0f} MB/s out and {constants.back / 1e6:,.0f} MB/s back here, "
        "and the slower of Dask and the link counts.",
        "Assumed: no worker dies, and none is slower than the others.",
        f"Memory: {found['gigabytes_per_worker']:.3g} GB for each worker, of {plan.gigabytes:g} GB: "
        + ("that fits." if found["fits_without_disk"] else "that fits, but Dask writes to disk from "
           f"{MEMORY_SHARE:.0%} on." if found["fits_in_memory"] else "that does not fit.")
        + f" Up to {found['most_rows']:,} rows stay below {MEMORY_SHARE:.0%}.",
        f"A search brings back {found['search_mb']:.3g} MB in two rounds, in {found['nodes']:,} pieces that workers "
        f"have added up; it would be {found['in_full_mb']:.3g} MB with all sums in full.",
        f"Placing rows comes on top: {found['placing_from_client'] / 60:.3g} minutes from the client, over its one "
        f"link; {found['placing_by_workers'] / 60:.3g} minutes where workers fetch their own, all at once.",
        f"Beyond {found['most_workers']:,.0f} workers the scheduler makes an evaluation slower, not faster."
        if np.isfinite(found["most_workers"])
        else "More workers cost the scheduler nothing that could be measured.",
        "First to give way: "
        + f"{found['first']} ("
        + "; ".join(f"{name} at {share:.0%}" for name, share in found["limits"].items())
        + "; of a worker's memory, of the workers up to which more of them help, and of the time that rows take in a "
        "look).",
    ]  # fmt: skip
