"""This module compares learning a binary field with one L1 logistic regression per node by common libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import scipy.sparse as sp
import typer
from sklearn.metrics import roc_auc_score

from benchmarks.binary_data import DRAW, BinaryData
from benchmarks.charts import Series, draw_lines
from benchmarks.command_line import RESULTS, Json, Output, Seed, print_rows, write_charts
from benchmarks.glmnet import TimedFits, fit_glmnet, has_glmnet
from benchmarks.ising import pseudo_log_likelihood
from benchmarks.measure import (
    CutOffError,
    Measured,
    Report,
    climb,
    in_child,
    installed,
    last_line,
    measure,
)
from benchmarks.nodewise import SOLVERS, NodeFit, Regressions, assemble, fit_nodes, symmetrize
from benchmarks.planted import draw_planted
from sparsefield.app.cli.console import print_message
from sparsefield.solver import Features

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray[Any, np.dtype[Any]]
Row = dict[str, Any]

L1_GRID = (2.8, 4.0, 5.7, 8.0, 11.0, 16.0, 22.0, 32.0, 45.0, 64.0, 90.0)
SPARSE_L1_GRID = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.7, 8.0, 11.0)
"""For losses summed over 2,000 rows; scaled by the square root of the rows, as the noise of a gradient is."""

CHOSEN_ON = 40
"""Nodes whose regressions choose a peer's l1 and foretell its time: they do not know of each other, so some will do."""

AROUND_A_FIT = 60.0
"""Seconds that a process has beside its fit: for starting, for the small fits before, and to repeat a quick one."""

WARM_UP_ROWS, WARM_UP_NODES = 60, 6


@dataclass(frozen=True)
class Method:
    """A method learns a field from 0/1 samples.

    Attributes
    ----------
    name : str
    module : str
        What must be installed.
    fit : callable
        ``fit(samples, l1)``, the part that is timed; for separate regressions also ``fit(samples, l1, nodes)``.
    read : callable
        ``read(fitted, nodes)`` gives :class:`Regressions`, which is not timed.
    one_field : bool
        Whether the weights are one field already, or separate regressions.
    threads : int
        How many it uses.
    """

    name: str
    module: str
    fit: Callable[..., Any]
    read: Callable[[Any, int], Regressions]
    one_field: bool
    threads: int = 1

    @property
    def installed(self) -> bool:
        return has_glmnet() if self.module == "Rscript" else installed(self.module)


def run_peers(
    nodes: Sequence[int] = (100, 400),
    rows: int = 2000,
    held_out_rows: int = 2000,
    seed: int = 0,
    peers: Sequence[str] | None = None,
    report: Report = print,
    *,
    kinds: Sequence[str] = ("dense",),
    l2: float | None = None,
    penalize_biases: bool = False,
    validation_rows: int = 2000,
    l1_grid: Sequence[float] | None = None,
    repeats: int = 3,
    time_limit: float | None = None,
) -> list[Row]:
    """Compare time, memory and quality on random Ising data, on sparse planted data, or both.

    Every method is timed at its best l1 alone. The l1 is chosen before that on rows of its own, which neither
    training nor the final score sees: for ours by fits of the whole field, for peers by the regressions of 40 nodes
    drawn at random. Peers run on one thread, ours on one and on two. Each method has a process to itself and a
    small fit first, so that nothing is compiled while the clock runs.

    Parameters
    ----------
    nodes : sequence of int
        One data set of each kind for each.
    rows, validation_rows, held_out_rows : int
        Rows for training, for choosing l1, and for the scores.
    seed : int
        Of the data.
    peers : sequence of str, optional
        Some of "skglm", "celer", "liblinear", "glmnet"; all when left out.
    report : callable
        Gets a line of text whenever something is done.
    kinds : sequence of {"dense", "sparse"}
        Dense is an Ising field whose nodes are 1 half of the time. Sparse is planted data with 1.5% of the cells on,
        but at least five in a row; everyone gets a sparse matrix in the form that suits them best.
    l2 : float, optional
        Ours has an L2 penalty as well; the peers have none. By default 1 for dense data and 0 for sparse data.
    penalize_biases : bool
        Whether ours penalizes biases; the peers' intercepts are free, or nearly so.
    l1_grid : sequence of float, optional
        Candidates, ascending.
    repeats : int
        How often a quick fit is timed; the best counts.
    time_limit : float, optional
        Seconds allowed for a fit. A process that chooses l1 has as much for each candidate; one that needs over a
        minute more is ended, and the row says so. A peer that would need more for all its nodes, going by the 40,
        is not run: its row says what it would take.

    Returns
    -------
    list of dict
        One per data set and method: data, kind, nodes, method, status ("done", or why not), l1, seconds, all_seconds,
        projected_seconds, times_ours, peak_mb, score_separate and score_field (held-out pseudo-log-likelihood per
        cell), weights, edge_roc, note. None where a figure has no meaning.
    """
    named = [_peer(name) for name in ([*SOLVERS, "glmnet"] if peers is None else peers)]
    split = (rows, validation_rows, held_out_rows)
    table: list[Row] = []
    for kind in kinds:
        if kind not in DRAW:
            raise ValueError(f"no data called {kind!r}; there are {', '.join(DRAW)}")
        scale = (rows / 2000) ** 0.5
        grid = [l1 * scale for l1 in l1_grid or (L1_GRID if kind == "dense" else SPARSE_L1_GRID)]
        ridge = (1.0 if kind == "dense" else 0.0) if l2 is None else l2
        ours = [_ours(threads, ridge, penalize_biases) for threads in (1, 2)]
        for count in nodes:
            data = DRAW[kind](count, split, seed)
            bench = _Bench(data, grid, repeats, time_limit, {"data": data.name, "kind": kind, "nodes": count}, seed)
            report(f"{data.name}, {np.count_nonzero(data.weights) // 2} edges, {rows} rows")
            table.append(bench.oracle())
            report(describe(table[-1]))
            for method in [*ours, *named]:
                table.append(bench.row(method))
                report(describe(table[-1]))
    return table


def draw_peers(table: Sequence[Row]) -> dict[str, Figure]:
    """Draw seconds against nodes from the rows of :func:`run_peers`, a chart for each kind of data."""
    charts = {}
    for kind in dict.fromkeys(row["kind"] for row in table):
        lines = []
        for method in dict.fromkeys(row["method"] for row in table if row["kind"] == kind):
            rows = [row for row in table if row["kind"] == kind and row["method"] == method]
            run = [(row["nodes"], row["seconds"]) for row in rows if row["seconds"] is not None]
            projected = [
                (row["nodes"], row["projected_seconds"]) for row in rows if row["projected_seconds"] is not None
            ]
            if run or projected:
                lines.append(Series(method, run, projected))
        subtitle = "Ising data, half of the cells on" if kind == "dense" else "sparse data, about 1.5% of the cells on"
        title = "Learning a binary field: seconds of a fit"
        drawn = draw_lines(title, lines, x_label="nodes (columns)", y_label="seconds", subtitle=subtitle)
        charts[f"peers-{kind}.svg"] = drawn
    return charts


def describe(row: Row) -> str:
    """Return one row of :func:`run_peers` as a line of text."""
    if row["status"] != "done":
        return f"  {row['method']}: {row['status']}"
    parts = []
    if row["seconds"] is not None:
        times = ", ".join(f"{seconds:.2f}" for seconds in row["all_seconds"])
        memory = "" if row["peak_mb"] is None else f", {row['peak_mb']:.0f} MB"
        parts.append(f"{row['seconds']:.2f} s (all: {times}){memory}, l1 {row['l1']:.3g}")
    if row["times_ours"] is not None:
        parts.append(f"{row['times_ours']:.1f} times our time")
    if row["score_separate"] is not None:
        parts.append(f"held-out score per cell {row['score_separate']:.4f} as separate regressions")
        parts.append(f"{row['score_field']:.4f} as one field")
    else:
        parts.append(f"held-out score per cell {row['score_field']:.4f}")
    parts.append(f"{row['weights']} weights, edge ROC {row['edge_roc']:.3f}")
    return f"  {row['method']}: " + "; ".join(parts + ([row["note"]] if row["note"] else []))


class _Bench:
    """A bench is one dataset, and what the rows of its table share."""

    def __init__(
        self,
        data: BinaryData,
        grid: Sequence[float],
        repeats: int,
        time_limit: float | None,
        head: Row,
        seed: int,
    ) -> None:
        self.data, self.grid, self.repeats, self.time_limit, self.head = data, list(grid), repeats, time_limit, head
        count = data.biases.size
        drawn = np.random.default_rng(seed).permutation(count)[:CHOSEN_ON]
        self.some_nodes: list[int] = np.sort(drawn).tolist()
        self.chosen: dict[str, tuple[float, float | None]] = {}
        self.our_seconds: float | None = None

    def oracle(self) -> Row:
        """Return the row of the true weights, an upper limit of the score."""
        truth = Regressions(self.data.biases, self.data.weights, 0)
        row = self._new_row("oracle (true weights)") | self._quality(truth, one_field=True)
        return row | {"status": "done"}

    def row(self, method: Method) -> Row:
        """Choose l1, time the fit at it, and score the result."""
        row = self._new_row(method.name)
        if not method.installed:
            return row | {"status": "not installed"}
        try:
            row["l1"], projected = self._best_l1(method)
            if projected is not None and self.time_limit is not None and projected > self.time_limit:
                status = f"not run: would take about {projected:.0f} s (projected from {len(self.some_nodes)} nodes)"
                return row | {"projected_seconds": projected, "status": status}
            args = (method, self.data.train, row["l1"], self.repeats)
            limit = None if self.time_limit is None else self.time_limit + AROUND_A_FIT
            measured, fitted = in_child(_timed_fit, *args, time_limit=limit)
        except CutOffError as error:
            return row | {"status": str(error)}
        except RuntimeError as error:
            return row | {"status": f"failed: {last_line(error)}"}
        if self.our_seconds is None and method.one_field:
            self.our_seconds = measured.best
        row |= self._cost(measured) | self._quality(fitted, one_field=method.one_field) | {"status": "done"}
        if row["l1"] in (self.grid[0], self.grid[-1]):
            row["note"] = "; ".join(filter(None, [row["note"], "the best l1 stands at the end of the grid"]))
        return row

    def _best_l1(self, method: Method) -> tuple[float, float | None]:
        """Return the best l1, and for separate regressions the seconds that all nodes would take at it."""
        family = method.name.split(",")[0]  # the number of threads changes no result
        if family not in self.chosen:
            limit = None if self.time_limit is None else self.time_limit * len(self.grid) + AROUND_A_FIT
            args = (method, self.data.train, self.data.validation, self.grid)
            if method.one_field:
                self.chosen[family] = (in_child(_choose_l1, *args, time_limit=limit), None)
            else:
                self.chosen[family] = in_child(_choose_by_nodes, *args, self.some_nodes, time_limit=limit)
        return self.chosen[family]

    def _cost(self, measured: Measured) -> Row:
        return {
            "seconds": measured.best,
            "all_seconds": list(measured.seconds),
            "peak_mb": measured.peak_bytes / 2**20 if measured.peak_bytes else None,
            "times_ours": None if self.our_seconds is None else measured.best / self.our_seconds,
        }

    def _quality(self, fitted: Regressions, *, one_field: bool) -> Row:
        bias, weights = symmetrize(fitted)
        upper = np.triu_indices(len(bias), k=1)
        held_out = self.data.held_out
        return {
            "score_separate": None if one_field else pseudo_log_likelihood(held_out, fitted.bias, fitted.weights),
            "score_field": pseudo_log_likelihood(held_out, bias, weights),
            "weights": int(np.count_nonzero(weights[upper] if one_field else fitted.weights)),
            "edge_roc": float(roc_auc_score(self.data.weights[upper] != 0.0, np.abs(weights[upper]))),
            "note": f"{fitted.unconverged} regressions did not converge" if fitted.unconverged else "",
        }

    def _new_row(self, name: str) -> Row:
        empty = ("l1", "seconds", "all_seconds", "projected_seconds", "times_ours", "peak_mb", "score_separate")
        filled = dict.fromkeys([*empty, "score_field", "weights", "edge_roc"])
        return self.head | {"method": name, "status": ""} | filled | {"note": ""}


def _choose_l1(method: Method, train: Any, validation: Array, grid: Sequence[float]) -> float:
    def score(l1: float) -> float:
        fitted = method.read(method.fit(train, l1), train.shape[1])
        return pseudo_log_likelihood(validation, *symmetrize(fitted))

    return climb(grid, score)[0]


def _choose_by_nodes(
    method: Method, train: Any, validation: Array, grid: Sequence[float], nodes: Sequence[int]
) -> tuple[float, float]:
    """Return the l1 that is best for the regressions of some nodes, and the seconds that all nodes would take."""
    _warm_up(method, train)
    cells = validation.astype(np.float64)
    seconds: dict[float, float] = {}

    def score(l1: float) -> float:
        fits = _fits(method.fit(train, l1, nodes))
        seconds[l1] = float(np.mean([fit.seconds for fit in fits])) * train.shape[1]
        losses = [_log_loss(fit, cells) for fit in fits]
        return -float(np.mean(losses))

    best = climb(grid, score)[0]
    return best, seconds[best]


def _log_loss(fit: NodeFit, cells: Array) -> float:
    logits = cells[:, fit.columns] @ fit.weights + fit.bias
    return float(np.mean(np.logaddexp(0.0, (1.0 - 2.0 * cells[:, fit.node]) * logits)))


def _timed_fit(method: Method, train: Any, l1: float, repeats: int) -> tuple[Measured, Regressions]:
    _warm_up(method, train)
    measured = measure(partial(method.fit, train, l1), repeats=repeats, threads=method.threads)
    fitted = method.read(measured.result, train.shape[1])
    if isinstance(measured.result, TimedFits):  # with a clock of its own, and its memory in another process
        return Measured((measured.result.seconds,), 0, None), fitted
    return Measured(measured.seconds, measured.peak_bytes, None), fitted


def _warm_up(method: Method, train: Any) -> None:
    """Run small fits of the same form, so that everything is compiled."""
    cells = np.random.default_rng(0).integers(0, 2, (WARM_UP_ROWS, WARM_UP_NODES)).astype(np.int8)
    method.fit(sp.csr_matrix(cells) if sp.issparse(train) else cells, 1.0)
    if sp.issparse(train):  # where few cells are on, ours goes another way
        method.fit(draw_planted(100, 300, on=1.5).matrix, 1.0)


def _peer(name: str) -> Method:
    if name == "glmnet":
        return Method("nodewise glmnet (R)", "Rscript", fit_glmnet, _read_nodes, one_field=False)
    if name not in SOLVERS:
        raise ValueError(f"no peer called {name!r}; there are {', '.join([*SOLVERS, 'glmnet'])}")
    fit = partial(_fit_peer, name=name)
    return Method(f"nodewise {name}", SOLVERS[name].module, fit, _read_nodes, one_field=False)


def _ours(threads: int, l2: float, penalize_biases: bool) -> Method:
    fit = partial(_fit_ours, l2=l2, features=Features(penalize_biases=penalize_biases), n_jobs=threads)
    name = f"sparsefield, {threads} thread{'s' if threads > 1 else ''}"
    return Method(name, "sparsefield", fit, _read_ours, one_field=True, threads=threads)


def _fit_peer(samples: Any, l1: float, nodes: Sequence[int] | None = None, *, name: str) -> list[NodeFit]:
    return fit_nodes(samples, l1, SOLVERS[name], nodes)


def _fits(fitted: Any) -> list[NodeFit]:
    return fitted.fits if isinstance(fitted, TimedFits) else fitted


def _read_nodes(fitted: Any, nodes: int) -> Regressions:
    return assemble(_fits(fitted), nodes)


def _fit_ours(samples: Any, l1: float, **options: Any) -> Any:
    from sparsefield import MarkovField

    return MarkovField(l1=l1, **options).fit(samples)


def _read_ours(field: Any, nodes: int) -> Regressions:
    return read_field(field)


def read_field(field: Any) -> Regressions:
    """Return biases and weights of a learned field on x_i and x_i x_j, for 0/1 columns x0, x1, ...

    A field may have its features on the state 0; [x = 0] is 1 - x, and the product is multiplied out.
    """
    nodes = field.n_features_in_
    bias, weights = np.zeros(nodes), np.zeros((nodes, nodes))
    for name, state, weight in field.biases_.select("variable", "state", "weight").iter_rows():
        bias[int(name[1:])] += weight if int(state) == 1 else -weight
    for a, state_a, b, state_b, weight in field.features_.select(
        "variable_a", "state_a", "variable_b", "state_b", "weight"
    ).iter_rows():
        first, (constant_a, slope_a) = int(a[1:]), (0.0, 1.0) if int(state_a) == 1 else (1.0, -1.0)
        second, (constant_b, slope_b) = int(b[1:]), (0.0, 1.0) if int(state_b) == 1 else (1.0, -1.0)
        bias[first] += weight * slope_a * constant_b
        bias[second] += weight * slope_b * constant_a
        weights[first, second] += weight * slope_a * slope_b
        weights[second, first] = weights[first, second]
    return Regressions(bias=bias, weights=weights, unconverged=0)


def command(
    nodes: Annotated[
        list[int] | None, typer.Option("--nodes", min=8, help="Columns; by default 100, 400, 1000 and 3000.")
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
    output: Output = RESULTS,
) -> None:
    """Learn a binary field: time, memory and held-out score, compared with one L1 logistic regression per column."""
    sizes = tuple(nodes or ((100, 400) if short else (100, 400, 1000, 3000)))
    limit = time_limit or (120.0 if short else 600.0)
    kinds = ("dense", "sparse") if data == "both" else (data,)
    found = run_peers(sizes, rows, seed=seed, peers=peer, report=print_message, kinds=kinds, time_limit=limit)
    shown = ("data", "method", "l1", "seconds", "times_ours", "peak_mb", "score_separate", "score_field",
             "weights", "edge_roc")  # fmt: skip
    write_charts(draw_peers, found, output)
    print_rows(found, shown, as_json)
