"""Learning a binary field: ours against one L1 logistic regression per node, by the libraries people pick."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from sparsefield.experiments.ising import IsingData, draw_ising, pseudo_log_likelihood
from sparsefield.experiments.measure import (
    CutOffError,
    Measured,
    Report,
    climb,
    in_child,
    installed,
    last_line,
    measure,
)
from sparsefield.experiments.nodewise import SOLVERS, Regressions, fit_nodewise, symmetrise

Array = np.ndarray[Any, np.dtype[Any]]
Row = dict[str, Any]

L1_GRID = (2.8, 4.0, 5.7, 8.0, 11.0, 16.0, 22.0, 32.0, 45.0)
"""For losses summed over 2,000 rows; scaled by the square root of the rows, as the noise of a gradient is."""

WARM_UP_ROWS, WARM_UP_NODES = 60, 6


@dataclass(frozen=True)
class Method:
    """Something that learns a field from 0/1 samples.

    Attributes
    ----------
    name : str
    module : str
        What must be installed.
    fit : callable
        ``fit(samples, l1)``, the part that is timed.
    read : callable
        ``read(fitted)`` gives :class:`Regressions`, which is not timed.
    one_field : bool
        Whether the weights are one field already, or separate regressions.
    threads : int
        How many it uses.
    """

    name: str
    module: str
    fit: Callable[[Array, float], Any]
    read: Callable[[Any], Regressions]
    one_field: bool
    threads: int = 1


def run_peers(
    nodes: Sequence[int] = (100, 400),
    rows: int = 2000,
    held_out_rows: int = 2000,
    seed: int = 0,
    peers: Sequence[str] | None = None,
    report: Report = print,
    *,
    l2: float = 1.0,
    penalize_unary: bool = False,
    validation_rows: int = 2000,
    l1_grid: Sequence[float] = L1_GRID,
    repeats: int = 3,
    time_limit: float | None = None,
) -> list[Row]:
    """Compare time, memory and quality on random Ising data.

    Every method is timed at its best l1 alone. The l1 is chosen before that on rows of its own, which neither
    training nor the final score sees. Peers run on one thread, ours on one and on two. Each method has a
    process to itself and a small fit first, so that nothing is compiled while the clock runs.

    Parameters
    ----------
    nodes : sequence of int
        One data set for each.
    rows, validation_rows, held_out_rows : int
        Rows for training, for choosing l1, and for the scores.
    seed : int
        Of the data.
    peers : sequence of str, optional
        Some of "skglm", "celer", "liblinear"; all when left out.
    report : callable
        Gets a line of text whenever something is done.
    l2 : float
        Ours has an L2 penalty as well; the peers have none.
    penalize_unary : bool
        Whether ours penalises unary weights; the peers' intercepts are free, or nearly so.
    l1_grid : sequence of float
        Candidates, ascending.
    repeats : int
        How often a quick fit is timed; the best counts.
    time_limit : float, optional
        Seconds allowed for a fit. A process that makes several has the sum; one that needs more is ended, and
        the row says so.

    Returns
    -------
    list of dict
        One per data set and method: data, method, status ("done", or why not), l1, seconds, all_seconds,
        times_ours, peak_mb, score_separate and score_field (held-out pseudo-log-likelihood per cell),
        weights, edge_auc, note. None where a figure has no meaning.
    """
    ours = [_ours(threads, l2, penalize_unary) for threads in (1, 2)]
    methods = [*ours, *map(_peer, SOLVERS if peers is None else peers)]
    grid = [l1 * (rows / 2000) ** 0.5 for l1 in l1_grid]
    table: list[Row] = []
    for count in nodes:
        data = draw_ising(count, rows + validation_rows + held_out_rows, seed=seed)
        bench = _Bench(data, rows, validation_rows, grid, repeats, time_limit)
        report(f"Ising, {count} nodes, {len(data.pairs)} edges, {rows} rows")
        table.append(bench.oracle())
        report(describe(table[-1]))
        for method in methods:
            table.append(bench.row(method))
            report(describe(table[-1]))
    return table


def describe(row: Row) -> str:
    """One row of :func:`run_peers` in a line of text."""
    if row["status"] != "done":
        return f"  {row['method']}: {row['status']}"
    parts = []
    if row["seconds"] is not None:
        times = ", ".join(f"{seconds:.2f}" for seconds in row["all_seconds"])
        parts.append(f"{row['seconds']:.2f} s (all: {times}), {row['peak_mb']:.0f} MB, l1 {row['l1']:.3g}")
    if row["times_ours"] is not None:
        parts.append(f"{row['times_ours']:.1f} times our time")
    if row["score_separate"] is not None:
        parts.append(f"held-out score per cell {row['score_separate']:.4f} as separate regressions")
        parts.append(f"{row['score_field']:.4f} as one field")
    else:
        parts.append(f"held-out score per cell {row['score_field']:.4f}")
    parts.append(f"{row['weights']} weights, edge AUC {row['edge_auc']:.3f}")
    return f"  {row['method']}: " + "; ".join(parts + ([row["note"]] if row["note"] else []))


class _Bench:
    """One data set, and what the rows of its table share."""

    def __init__(
        self,
        data: IsingData,
        rows: int,
        validation_rows: int,
        grid: Sequence[float],
        repeats: int,
        time_limit: float | None,
    ) -> None:
        self.data, self.grid, self.repeats, self.time_limit = data, list(grid), repeats, time_limit
        self.train, self.validation, self.held_out = np.split(data.samples, [rows, rows + validation_rows])
        self.chosen: dict[str, float] = {}
        self.our_seconds: float | None = None

    def oracle(self) -> Row:
        """The true weights, which nobody can beat for long."""
        truth = Regressions(self.data.biases, self.data.weight_matrix(), 0)
        row = self._new_row("oracle (true weights)") | self._quality(truth, one_field=True)
        return row | {"status": "done"}

    def row(self, method: Method) -> Row:
        """Choose l1, time the fit at it, and score the result."""
        row = self._new_row(method.name)
        if not installed(method.module):
            return row | {"status": "not installed"}
        try:
            row["l1"] = self._best_l1(method)
            args = (method, self.train, row["l1"], self.repeats)
            limit = None if self.time_limit is None else self.time_limit * self.repeats
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

    def _best_l1(self, method: Method) -> float:
        family = method.name.split(",")[0]  # the number of threads changes no result
        if family not in self.chosen:
            limit = None if self.time_limit is None else self.time_limit * len(self.grid)
            self.chosen[family] = in_child(_choose_l1, method, self.train, self.validation, self.grid, time_limit=limit)
        return self.chosen[family]

    def _cost(self, measured: Measured) -> Row:
        return {
            "seconds": measured.best,
            "all_seconds": list(measured.seconds),
            "peak_mb": measured.peak_bytes / 2**20,
            "times_ours": None if self.our_seconds is None else measured.best / self.our_seconds,
        }

    def _quality(self, fitted: Regressions, *, one_field: bool) -> Row:
        bias, weights = symmetrise(fitted)
        upper = np.triu_indices(len(bias), k=1)
        separate = pseudo_log_likelihood(self.held_out, fitted.bias, fitted.weights)
        return {
            "score_separate": None if one_field else separate,
            "score_field": pseudo_log_likelihood(self.held_out, bias, weights),
            "weights": int(np.count_nonzero(weights[upper] if one_field else fitted.weights)),
            "edge_auc": float(roc_auc_score(self.data.edge_mask()[upper], np.abs(weights[upper]))),
            "note": f"{fitted.unconverged} regressions did not converge" if fitted.unconverged else "",
        }

    def _new_row(self, name: str) -> Row:
        empty = ("l1", "seconds", "all_seconds", "times_ours", "peak_mb", "score_separate", "score_field")
        head = {"data": f"Ising N={self.data.biases.size}", "method": name, "status": ""}
        return head | dict.fromkeys([*empty, "weights", "edge_auc"]) | {"note": ""}


def _choose_l1(method: Method, train: Array, validation: Array, grid: Sequence[float]) -> float:
    def score(l1: float) -> float:
        fitted = method.read(method.fit(train, l1))
        both = [symmetrise(fitted), (fitted.bias, fitted.weights)]
        return max(pseudo_log_likelihood(validation, bias, weights) for bias, weights in both)

    return climb(grid, score)[0]


def _timed_fit(method: Method, train: Array, l1: float, repeats: int) -> tuple[Measured, Regressions]:
    method.fit(train[:WARM_UP_ROWS, :WARM_UP_NODES], l1)
    measured = measure(partial(method.fit, train, l1), repeats=repeats, threads=method.threads)
    fitted = method.read(measured.result)
    return Measured(measured.seconds, measured.peak_bytes, None), fitted


def _peer(name: str) -> Method:
    if name not in SOLVERS:
        raise ValueError(f"no peer called {name!r}; there are {', '.join(SOLVERS)}")
    solver = SOLVERS[name]
    fit = partial(_fit_peer, name=name)
    return Method(f"nodewise {name}", solver.module, fit, _as_is, one_field=False)


def _ours(threads: int, l2: float, penalize_unary: bool) -> Method:
    fit = partial(_fit_ours, l2=l2, penalize_unary=penalize_unary, n_jobs=threads)
    name = f"sparsefield, {threads} thread{'s' if threads > 1 else ''}"
    return Method(name, "sparsefield", fit, read_field, one_field=True, threads=threads)


def _fit_peer(samples: Array, l1: float, *, name: str) -> Regressions:
    return fit_nodewise(samples, l1, SOLVERS[name])


def _as_is(fitted: Regressions) -> Regressions:
    return fitted


def _fit_ours(samples: Array, l1: float, **options: Any) -> Any:
    from sparsefield import MarkovField

    return MarkovField(l1=l1, **options).fit(samples)


def read_field(field: Any) -> Regressions:
    """Biases and weights of a learned field on x_i and x_i x_j, for columns of 0/1 called x0, x1, ...

    A field may have its features on the state 0; [x = 0] is 1 - x, and the product is multiplied out.
    """
    nodes = field.n_features_in_
    bias, weights = np.zeros(nodes), np.zeros((nodes, nodes))
    for a, state_a, b, state_b, weight in field.features_.select(
        "variable_a", "state_a", "variable_b", "state_b", "weight"
    ).iter_rows():
        first, (constant_a, slope_a) = int(a[1:]), (0.0, 1.0) if int(state_a) == 1 else (1.0, -1.0)
        if b is None:
            bias[first] += weight * slope_a
            continue
        second, (constant_b, slope_b) = int(b[1:]), (0.0, 1.0) if int(state_b) == 1 else (1.0, -1.0)
        bias[first] += weight * slope_a * constant_b
        bias[second] += weight * slope_b * constant_a
        weights[first, second] += weight * slope_a * slope_b
        weights[second, first] = weights[first, second]
    return Regressions(bias=bias, weights=weights, unconverged=0)
