"""This module compares the speed of a fit with that of one L1 regression per column, on strongly dependent data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.column_peers import (
    PEERS,
    PeerFit,
    is_installed,
    measure_peer,
    sample_columns,
    score_columns,
)
from benchmarks.command_line import Json, Row, Seed, print_rows
from benchmarks.dependent_data import Case, MissingDataError, SplitRows, find_cases
from benchmarks.glmnet_path import PathFits, fit_paths
from benchmarks.measure import CutOffError, Report, in_child, last_line
from benchmarks.nodewise import Regressions, constant_logit
from benchmarks.peers import read_field
from benchmarks.profile import warm_up
from sparsefield.app.cli.console import print_message, show
from sparsefield.estimators import MarkovField

__all__ = ["OurFit", "compare_auto", "compare_speed", "run_auto", "run_dependent"]

Array = np.ndarray[Any, np.dtype[Any]]

SAMPLED = 40
"""Columns whose regressions are timed; the time of all is projected from them."""

SAME_SCORE = 0.001
"""Scores that differ by no more than this share count as the same."""

REPEATS, QUICK_SECONDS = 3, 5.0
"""A fit that takes less than this is repeated, and the least CPU time counts."""

OURS = "sparsefield"
SHOWN = ("data", "method", "l1", "cpu_seconds", "wall_seconds", "times_ours", "weights", "score", "score_compared")


@dataclass(frozen=True)
class OurFit:
    """A fit of ours on one thread.

    Attributes
    ----------
    l1 : float
    cpu_seconds, wall_seconds : float
        Of the repetition with the least CPU time, from the array to the field.
    fitted : Regressions
    largest_working_set, iterations : int
    certified : bool
    score : float
        Held-out pseudo-log-likelihood per row, of all columns.
    """

    l1: float
    cpu_seconds: float
    wall_seconds: float
    fitted: Regressions
    largest_working_set: int
    iterations: int
    certified: bool
    score: float

    def weights(self) -> int:
        """Return the number of pairs with a weight."""
        return int(np.count_nonzero(self.fitted.weights)) // 2


def run_dependent(
    cases: Sequence[Case],
    *,
    l1: float | None = None,
    peers: Sequence[str] = PEERS,
    columns: int = SAMPLED,
    time_limit: float | None = None,
    seed: int = 0,
    report: Report = print,
) -> list[Row]:
    """Return a row per case and method: CPU and wall seconds of a fit, weights, and the score of held-out rows.

    Ours is one certified fit of the whole field. A peer is one L1 logistic regression per column at the equivalent
    penalty, half of ours for each direction of a pair, and a second row where another penalty is better on validation
    rows. All run on one thread, each in a process of its own, and nothing is compiled while the clock runs.

    Parameters
    ----------
    l1 : float, optional
        By default that of each case.
    columns : int
        Columns, drawn at random, whose regressions are timed; the seconds and weights of all are projected from them.
        0 fits all.
    time_limit : float, optional
        Seconds allowed for a method; one that tries several penalties begins no other after half of them.

    Returns
    -------
    list of dict
        data, method, status, l1, cpu_seconds, wall_seconds, times_ours (of CPU seconds), weights, score (of all
        columns, per row), score_compared (of the columns that peers fitted, per row, scaled to all columns),
        fitted_columns, iterations, largest_working_set, certified, unconverged.
    """
    table: list[Row] = []
    for case, data, chosen in _load_cases(cases, columns, seed, report):
        found = [_our_row(case, data, chosen, l1, time_limit)]
        report(describe(found[0]))
        for name in peers:
            for row in _peer_rows(case, data, chosen, name, l1, time_limit):
                found.append(_with_ratio(row, found[0]))
                report(describe(found[-1]))
        report(f"  {compare_speed(found)}")
        table += found
    return table


def run_auto(
    cases: Sequence[Case],
    *,
    columns: int = SAMPLED,
    time_limit: float | None = None,
    seed: int = 0,
    report: Report = print,
) -> list[Row]:
    """Return rows of ``l1="auto"``, of one fit at the value that it selects, and of a path of 20 values by glmnet.

    Of each of glmnet's paths the value counts that is best on validation rows, which ours does not get; neither the
    choice nor cross-validation is in its time.
    """
    table: list[Row] = []
    for case, data, chosen in _load_cases(cases, columns, seed, report):
        auto = _our_row(case, data, chosen, "auto", time_limit)
        found = [auto | {"method": f"{OURS}, auto"}]
        if auto["status"] == "done":
            found.append(_our_row(case, data, chosen, auto["l1"], time_limit) | {"method": f"{OURS}, one fit"})
        found.append(_path_row(case, data, chosen, time_limit))
        found = [_with_ratio(row, found[0]) for row in found]
        for row in found:
            report(describe(row))
        report(f"  {compare_auto(found)}")
        table += found
    return table


def compare_auto(rows: Sequence[Row]) -> str:
    """Return how many single fits and how many paths of glmnet ``l1="auto"`` takes, from the rows of a case.

    Examples
    --------
    >>> rows = [{"method": name, "cpu_seconds": seconds} for name, seconds in (("auto", 6.0), ("one fit", 2.0))]
    >>> compare_auto(rows)
    'auto takes 3 times as long as one fit'
    """
    auto, *others = rows
    known = [row for row in others if row["cpu_seconds"] is not None and auto["cpu_seconds"] is not None]
    parts = [f"{auto['cpu_seconds'] / row['cpu_seconds']:.3g} times as long as {row['method']}" for row in known]
    return f"auto takes {' and '.join(parts)}" if parts else "nothing to compare"


def compare_speed(rows: Sequence[Row]) -> str:
    """Return how many times faster the first row is than the fastest other one whose score is the same or better.

    Examples
    --------
    >>> ours = {"method": "sparsefield", "status": "done", "cpu_seconds": 2.0, "score_compared": -80.0}
    >>> peer = {"method": "skglm", "status": "done", "cpu_seconds": 9.0, "score_compared": -80.05}
    >>> compare_speed([ours, peer])
    '4.5 times faster than skglm, the fastest peer with the same or a better score'
    """
    ours, *others = [row for row in rows if row["status"] == "done"] or [{}]
    if not others or ours != rows[0]:
        return "nothing to compare"
    least = ours["score_compared"] - SAME_SCORE * abs(ours["score_compared"])
    equal = [row for row in others if row["score_compared"] >= least]
    fastest = min(equal or others, key=lambda row: row["cpu_seconds"])
    ratio = f"{fastest['cpu_seconds'] / ours['cpu_seconds']:.3g} times faster than {fastest['method']}"
    if equal:
        return f"{ratio}, the fastest peer with the same or a better score"
    return f"{ratio}, the fastest peer; no peer has a score as good"


def describe(row: Row) -> str:
    """Return a row as a line of text."""
    if row["status"] != "done":
        return f"  {row['method']}: {row['status']}"
    times = "" if row["times_ours"] is None else f" ({row['times_ours']:.3g} times ours)"
    words = [
        f"{row['cpu_seconds']:.2f} CPU s, {row['wall_seconds']:.2f} wall s{times}",
        f"{row['weights']:,} weights, score per row {row['score_compared']:.3f}",
    ]
    if row["largest_working_set"] is not None:
        words.append(f"largest working set {row['largest_working_set']:,}, {row['iterations']} iterations")
    if row["certified"] is False:
        words.append("NOT certified")
    if row["unconverged"]:
        words.append(f"{row['unconverged']} regressions did not converge")
    return f"  {row['method']}: " + "; ".join(words)


def read_fit(field: MarkovField, train: Array) -> Regressions:
    """Return biases and weights of a field over 0/1 columns; a column that did not vary has the bias of its counts."""
    found = read_field(field)
    for column in np.flatnonzero(np.ptp(train, axis=0) == 0):
        found.bias[column] = constant_logit(float(train[0, column]), len(train))
    return found


def fit_ours(data: SplitRows, l1: float | str, seed: int = 0) -> OurFit:
    """Fit on one thread, after a small fit that compiles, and repeat a quick fit."""
    warm_up(data.train, 10.0 if isinstance(l1, str) else l1)
    if l1 == "auto":
        MarkovField(l1="auto", n_jobs=1, random_state=seed).fit(data.train[:200, :20])
    times: list[tuple[float, float]] = []
    field = MarkovField(l1=l1, n_jobs=1, random_state=seed)
    while len(times) < REPEATS and sum(wall for _, wall in times) < QUICK_SECONDS:
        wall, cpu = time.perf_counter(), time.process_time()
        field.fit(data.train)
        times.append((time.process_time() - cpu, time.perf_counter() - wall))
    record = field.field_.record
    fitted = read_fit(field, data.train)
    everything = range(data.train.shape[1])
    return OurFit(
        l1=field.l1_,
        cpu_seconds=min(times)[0],
        wall_seconds=min(times)[1],
        fitted=fitted,
        largest_working_set=max((row.features for row in record.iterations), default=0),
        iterations=record.n_iter,
        certified=record.converged,
        score=float(score_columns(data.held_out, fitted.bias, fitted.weights, everything).sum()),
    )


def _load_cases(
    cases: Sequence[Case], columns: int, seed: int, report: Report
) -> Iterator[tuple[Case, SplitRows, list[int]]]:
    """Yield the cases whose data are here, with their rows and the columns that peers fit."""
    for case in cases:
        data = _load(case, seed, report)
        if data is not None:
            yield case, data, sample_columns(data.train, columns, seed)


def _load(case: Case, seed: int, report: Report) -> SplitRows | None:
    try:
        data = case.draw(seed)
    except MissingDataError as error:
        report(str(error))
        return None
    report(f"{case.name}: {case.words}; {data.train.shape[0]:,} x {data.train.shape[1]:,}, {data.train.mean():.0%} on")
    return data


def _new_row(case: Case, method: str) -> Row:
    empty = ("l1", "cpu_seconds", "wall_seconds", "times_ours", "weights", "score", "score_compared", "fitted_columns")
    more = ("iterations", "largest_working_set", "certified", "unconverged")
    return {"data": case.name, "method": method, "status": "done"} | dict.fromkeys((*empty, *more))


def _attempt(row: Row, call: Callable[..., Any], *args: Any, time_limit: float | None) -> tuple[Row, Any]:
    """Call a function in a process of its own; where it fails or takes too long, the status of the row says so."""
    try:
        return row, in_child(call, *args, time_limit=time_limit)
    except CutOffError as error:
        return row | {"status": str(error)}, None
    except RuntimeError as error:
        return row | {"status": f"failed: {last_line(error)}"}, None


def _our_row(
    case: Case, data: SplitRows, chosen: Sequence[int], l1: float | str | None, time_limit: float | None
) -> Row:
    l1 = case.l1 if l1 is None else l1
    row, found = _attempt(_new_row(case, OURS), fit_ours, data, l1, time_limit=time_limit)
    if found is None:
        return row
    compared = score_columns(data.held_out, found.fitted.bias, found.fitted.weights, chosen)
    return row | {
        "l1": found.l1,
        "cpu_seconds": found.cpu_seconds,
        "wall_seconds": found.wall_seconds,
        "weights": found.weights(),
        "score": found.score,
        "score_compared": _per_row(compared, data),
        "iterations": found.iterations,
        "largest_working_set": found.largest_working_set,
        "certified": found.certified,
    }


def _peer_rows(
    case: Case, data: SplitRows, chosen: Sequence[int], name: str, l1: float | None, time_limit: float | None
) -> list[Row]:
    row = _new_row(case, name)
    if not is_installed(name):
        return [row | {"status": "not installed"}]
    budget = np.inf if time_limit is None else 0.5 * time_limit
    strength = case.l1 if l1 is None else l1
    row, found = _attempt(row, measure_peer, name, data, strength, chosen, budget, time_limit=time_limit)
    return [row] if found is None else [_peer_row(row, fit, data) for fit in found]


def _peer_row(row: Row, found: PeerFit, data: SplitRows) -> Row:
    scale = data.train.shape[1] / len(found.fits)
    return row | {
        "method": row["method"] if found.factor == 1.0 else f"{row['method']}, best l1",
        "l1": found.l1,
        "cpu_seconds": scale * found.cpu_seconds,
        "wall_seconds": scale * found.seconds,
        "weights": round(scale * found.weights()),
        "score_compared": _per_row(found.scores(data.held_out), data),
        "fitted_columns": len(found.fits),
        "unconverged": found.unconverged(),
    }


def _path_row(case: Case, data: SplitRows, chosen: Sequence[int], time_limit: float | None) -> Row:
    row = _new_row(case, "glmnet, path of 20")
    if not is_installed("glmnet"):
        return row | {"status": "not installed"}
    row, found = _attempt(row, fit_paths, data, chosen, time_limit=time_limit)
    return row if found is None else row | _path_figures(found, data)


def _path_figures(found: PathFits, data: SplitRows) -> Row:
    scale = data.train.shape[1] / len(found.scores)
    return {
        "cpu_seconds": scale * found.cpu_seconds,
        "wall_seconds": scale * found.seconds,
        "weights": round(scale * found.weights),
        "score_compared": _per_row(found.scores, data),
        "fitted_columns": len(found.scores),
    }


def _per_row(scores: Array, data: SplitRows) -> float:
    """Return the score per row that all columns would have if they were like those that were scored."""
    return float(scores.mean()) * data.train.shape[1]


def _with_ratio(row: Row, ours: Row) -> Row:
    times, base = row["cpu_seconds"], ours["cpu_seconds"]
    if times is None or base is None or row["method"] == ours["method"]:
        return row | {"times_ours": None}
    return row | {"times_ours": times / base}


def command(
    case: Annotated[list[str] | None, typer.Option("--case", help="Name of a case; by default all.")] = None,
    cases: Annotated[bool, typer.Option("--cases", help="List the cases and exit.")] = False,
    l1: Annotated[float | None, typer.Option("--l1", help="By default that of the case.")] = None,
    auto: Annotated[bool, typer.Option("--auto", help="Compare l1='auto' with paths of glmnet instead.")] = False,
    peer: Annotated[list[str] | None, typer.Option("--peer", help="skglm, celer, liblinear, glmnet; else all.")] = None,
    columns: Annotated[
        int, typer.Option("--columns", min=0, help="Columns that peers fit, drawn at random; 0 for all.")
    ] = SAMPLED,
    time_limit: Annotated[float, typer.Option("--time-limit", help="Seconds allowed for a method.")] = 600.0,
    short: Annotated[bool, typer.Option("--short", help="Small cases.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Fit strongly dependent 0/1 data: CPU seconds and held-out scores, beside one L1 regression per column."""
    chosen = find_cases(case, short=short)
    if cases:
        print_rows([{"case": one.name, "l1": one.l1, "data": one.words} for one in chosen], ("case", "l1", "data"))
        return
    shared: dict[str, Any] = {"columns": columns, "time_limit": time_limit, "seed": seed, "report": print_message}
    found = run_auto(chosen, **shared) if auto else run_dependent(chosen, l1=l1, peers=tuple(peer or PEERS), **shared)
    print_rows(found, SHOWN, as_json)
    if not as_json:
        show("One thread; nothing is compiled while the clock runs. Scores are per held-out row.")
        if any(row["fitted_columns"] for row in found):
            show("Seconds, weights and score compared of peers: from columns drawn at random, scaled to all columns.")
