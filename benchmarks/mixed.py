"""This module measures fields over columns of several kinds: Likert items, mixed tables, Gaussian and mixed graphs."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from sklearn.covariance import GraphicalLassoCV, graphical_lasso
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from benchmarks.command_line import Json, Row, choose_parts, print_rows
from benchmarks.inference import conditional_log_likelihood
from benchmarks.measure import Report, installed
from benchmarks.mixed_peers import (
    TimedByR,
    estimate_with_glmnet,
    estimate_with_huge,
    estimate_with_qgraph,
    impute_with_mice,
)
from benchmarks.r_scripts import has_packages
from reproduction.public_data import load_mixed
from sparsefield.app.cli.console import print_message, show, show_json
from sparsefield.errors import DataError
from sparsefield.estimators import MarkovField
from sparsefield.model.fit_record import FALSE_DISCOVERY_RATE

__all__ = ["PARTS", "run_bfi", "run_choice", "run_gaussian", "run_imputation", "run_planted"]

Array = np.ndarray[Any, np.dtype[Any]]
Edges = set[tuple[int, int]]


@dataclass(frozen=True)
class Method:
    """A method that fills a table or learns a graph."""

    name: str
    run: Callable[[Any], Any]
    package: str = ""
    """The package of R that it needs."""
    module: str = ""
    """The module of Python that it needs."""


def run_methods(data: str, methods: Sequence[Method], table: Any, report: Report) -> Iterator[tuple[str, Any, float]]:
    """Yield the name, the result and the seconds of each method; those without their package are reported."""
    for method in methods:
        if method.package and not has_packages(method.package):
            report(f"{data}: {method.name} skipped: no Rscript with the package {method.package} here")
            continue
        if method.module and not installed(method.module):
            report(f"{data}: {method.name} skipped: pip install {method.module}")
            continue
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = method.run(table)
        seconds = time.perf_counter() - started
        if isinstance(found, TimedByR):
            found, seconds = found
        yield method.name, found, seconds


# -- Likert items ---------------------------------------------------------------------------------------------------


def run_bfi(seed: int = 0, report: Report = print, *, quick: bool = False) -> list[Row]:
    """Return a row per l1 and kind: 25 items with six ordered answers, 1,600 people to learn from, 836 to predict."""
    answers = load_mixed("bfi").select(pl.col("^[ACENO][1-5]$")).drop_nulls().to_numpy().astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(answers))
    train, test = answers[order[:1600]], answers[order[1600:2436]]
    names = [f"x{k}" for k in range(train.shape[1])]
    settings: list[tuple[str, dict[str, Any]]] = [
        ("ordinal", {"l1": l1}) for l1 in ((7.0,) if quick else (4.0, 5.0, 7.0, 10.0, "auto"))
    ]
    settings.append(("nominal", {"l1": 20.0, "kinds": dict.fromkeys(names, "nominal")}))
    MarkovField(l1=30.0).fit(train[:200])  # compiles
    rows = []
    for kind, params in settings:
        started = time.perf_counter()
        field = MarkovField(**params).fit(train)
        seconds = time.perf_counter() - started
        found = field.predict_proba(test)
        places = test - 1
        picked = np.column_stack([found[name][np.arange(len(test)), places[:, k]] for k, name in enumerate(names)])
        medians = np.column_stack([(found[name].cumsum(axis=1) < 0.5).sum(axis=1) for name in names])
        modes = np.column_stack([found[name].argmax(axis=1) for name in names])
        rows.append(
            {
                "method": kind,
                "l1": str(params["l1"]),
                "loss": float(-np.log(picked).mean()),
                "weights": len(field.field_.weights),
                "edges": len(edges_of(field)),
                "hold": len(holding_edges(field)),
                "mae": float(np.abs(medians - places).mean()),
                "exact": float((modes == places).mean()),
                "seconds": seconds,
            }
        )
        report(f"bfi: {kind}, l1 {params['l1']}: loss {rows[-1]['loss']:.4f}")
    return rows


# -- hidden cells of mixed tables -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MixedTable:
    """A table with hidden cells, as numbers: the states of a column without numbers are 0, 1, ..."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    truth: Array
    """(rows, columns): NaN where nobody knows."""
    hidden: Array
    """(rows, columns) bool: cells to predict."""
    frame: pl.DataFrame
    """The table without hidden cells."""
    labels: tuple[list[Any], ...]
    """The states of each column; empty for numbers."""

    @property
    def shown(self) -> Array:
        return np.where(self.hidden, np.nan, self.truth)

    def as_numbers(self, filled: pl.DataFrame) -> Array:
        """Return a filled frame as numbers, as in ``truth``."""
        columns = []
        for name, labels in zip(self.names, self.labels, strict=True):
            place = {label: float(k) for k, label in enumerate(labels)}
            columns.append([place.get(value, np.nan) if labels else value for value in filled[name].to_list()])
        return np.array(columns, dtype=float).T

    def error(self, filled: Array) -> float:
        """Return the mean over columns of RMSE / standard deviation, or of the share of wrong states."""
        errors = []
        for k, kind in enumerate(self.kinds):
            cells = self.hidden[:, k]
            truth, found = self.truth[cells, k], filled[cells, k]
            if kind == "numeric":
                errors.append(np.sqrt(np.mean((found - truth) ** 2)) / np.nanstd(self.truth[:, k]))
            else:
                errors.append(np.mean(found != truth))
        return float(np.mean(errors))


def hide_cells(frame: pl.DataFrame, share: float, seed: int) -> MixedTable:
    """Return a table with a share of its known cells hidden; kinds are those that a field chooses."""
    field = MarkovField(l1=1e6).fit(frame)
    variables = {variable.name: variable for variable in field.field_.schema.targets}
    columns, labels = [], []
    for name in frame.columns:
        if variables[name].numeric:
            columns.append(frame[name].cast(pl.Float64).fill_null(np.nan).to_numpy())
            labels.append([])
        else:
            states = list(variables[name].states)
            place = {state: float(k) for k, state in enumerate(states)}
            columns.append(np.array([place.get(value, np.nan) for value in frame[name].to_list()]))
            labels.append(states)
    truth = np.column_stack(columns)
    hidden = (np.random.default_rng(seed).random(truth.shape) < share) & ~np.isnan(truth)
    shown = _without(frame, hidden)
    kinds = tuple(variables[name].kind for name in frame.columns)
    return MixedTable(tuple(frame.columns), kinds, truth, hidden, shown, tuple(labels))


def run_imputation(seed: int = 0, report: Report = print, *, quick: bool = False) -> list[Row]:
    """Return a row per table and method: 20% of the cells are hidden and predicted."""
    rows = []
    for data in ("survey",) if quick else ("survey", "Chile", "bfi"):
        table = hide_cells(load_mixed(data), 0.2, seed)
        for method, filled, seconds in run_methods(data, _fillers(table), table, report):
            rows.append({"data": data, "method": method, "error": table.error(filled), "seconds": seconds})
            report(f"{data}: {method}: {rows[-1]['error']:.4f}, {seconds:.1f} s")
    return rows


def _fill_by_field(table: MixedTable) -> Array:
    return table.as_numbers(MarkovField().fit_transform(table.frame))


def fill_iteratively(table: MixedTable, **options: Any) -> Array:
    """Fill by scikit-learn's IterativeImputer; nominal columns are one-hot."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    parts, shown = [], table.shown
    for k, kind in enumerate(table.kinds):
        column = shown[:, k]
        if kind == "nominal":
            on = (column[:, None] == np.arange(len(table.labels[k]))).astype(float)
            on[np.isnan(column)] = np.nan
            parts.append(on)
        else:
            parts.append(column[:, None])
    found = np.asarray(IterativeImputer(**{"random_state": 0, **options}).fit_transform(np.hstack(parts)))
    filled, start = shown.copy(), 0
    for k, (kind, part) in enumerate(zip(table.kinds, parts, strict=True)):
        piece = found[:, start : start + part.shape[1]]
        start += part.shape[1]
        if kind == "nominal":
            filled[:, k] = piece.argmax(axis=1)
        elif kind == "ordinal":
            filled[:, k] = np.clip(np.round(piece[:, 0]), 0, len(table.labels[k]) - 1)
        else:
            filled[:, k] = piece[:, 0]
    return filled


def _fill_by_boosting(table: MixedTable) -> Array:
    """Fill each column by gradient boosting (depth 3, 100 rounds) on the others."""
    shown = table.shown
    filled = shown.copy()
    for k, kind in enumerate(table.kinds):
        others = np.delete(np.arange(len(table.kinds)), k)
        known, wanted = ~np.isnan(shown[:, k]), table.hidden[:, k]
        nominal = [table.kinds[other] == "nominal" for other in others]
        model: Any = HistGradientBoostingRegressor if kind == "numeric" else HistGradientBoostingClassifier
        made = model(max_depth=3, max_iter=100, categorical_features=nominal)
        made.fit(shown[known][:, others], shown[known, k])
        filled[wanted, k] = made.predict(shown[wanted][:, others])
    return filled


def _fill_with_most_frequent(table: MixedTable) -> Array:
    filled = table.shown
    for k, kind in enumerate(table.kinds):
        known = filled[~np.isnan(filled[:, k]), k]
        value = known.mean() if kind == "numeric" else np.bincount(known.astype(np.int64)).argmax()
        filled[np.isnan(filled[:, k]), k] = value
    return filled


def _fill_by_mice(table: MixedTable) -> TimedByR:
    many = _has_many_items(table)
    return impute_with_mice(table.shown, ["levels" if many and kind == "ordinal" else kind for kind in table.kinds])


def _has_many_items(table: MixedTable) -> bool:
    """Return whether a table has so many ordinal columns that ordered logistic regressions of them take hours."""
    return table.kinds.count("ordinal") > 10


def _fillers(table: MixedTable) -> list[Method]:
    return [
        Method("sparsefield", _fill_by_field),
        Method("IterativeImputer", fill_iteratively),
        Method("boosting per column", _fill_by_boosting),
        Method("mice (R), items as numbers" if _has_many_items(table) else "mice (R)", _fill_by_mice, "mice"),
        Method("column means", _fill_with_most_frequent),
    ]


# -- graphs ---------------------------------------------------------------------------------------------------------


def edge_scores(found: Edges, true: Edges) -> dict[str, float]:
    """Return precision, recall and F1 of found edges."""
    right = len(found & true)
    return {
        "precision": right / max(len(found), 1),
        "recall": right / max(len(true), 1),
        "f1": 2 * right / max(len(found) + len(true), 1),
    }


def edges_of(field: MarkovField) -> Edges:
    """Return the pairs of variables that share features, by their positions among the columns of the input."""
    schema = field.field_.schema
    place = {name: k for k, name in enumerate(schema.order)}
    owner = [place[schema.variables[k].name] for k in schema.variable_of_column]
    return {(min(owner[a], owner[b]), max(owner[a], owner[b])) for a, b in field.field_.pairs.tolist()}


def holding_edges(field: MarkovField) -> Edges:
    """Return the edges that hold at a false discovery rate of 5%, by their positions among the columns of the input."""
    evidence, schema = field.field_.record.evidence, field.field_.schema
    place = {name: k for k, name in enumerate(schema.order)}
    position = [place[name] for name in schema.names]
    tests = [] if evidence is None else zip(evidence.edges, evidence.q_values, strict=True)
    ends = [(position[a], position[b]) for (a, b), q_value in tests if q_value <= FALSE_DISCOVERY_RATE]
    return {(min(a, b), max(a, b)) for a, b in ends}


def run_gaussian(seed: int = 0, report: Report = print, *, quick: bool = False) -> list[Row]:
    """Return a row per method: the edges of a Gaussian graph of 200 columns, learned from 1,000 rows."""
    rng, size, n_rows = np.random.default_rng(seed), 30 if quick else 200, 1000
    true = _random_edges(size, int(1.5 * size), rng)
    precision = np.zeros((size, size))
    for a, b in true:
        precision[a, b] = precision[b, a] = rng.choice([-1.0, 1.0]) * rng.uniform(0.2, 0.45)
    np.fill_diagonal(precision, 0.3 + 0.6 * np.abs(precision).sum(axis=1).max())
    precision += np.eye(size) * max(0.1 - float(np.linalg.eigvalsh(precision).min()), 0.0)
    values = rng.multivariate_normal(np.zeros(size), np.linalg.inv(precision), n_rows)
    values /= values.std(axis=0)
    methods = [
        *OUR_GRAPHS,
        Method("glasso, EBIC", _glasso_by_ebic),
        Method("GraphicalLassoCV", lambda X: _edges_of_precision(GraphicalLassoCV().fit(X).precision_)),
        Method("huge (R), EBIC", estimate_with_huge, "huge"),
        Method("EBICglasso of qgraph (R)", estimate_with_qgraph, "qgraph"),
    ]
    return _compare_graphs("Gaussian", values, true, methods, report)


def run_planted(seed: int = 0, report: Report = print, *, quick: bool = False) -> list[Row]:
    """Return a row per method: the edges of a mixed graph (nominal, ordinal and numeric columns), 2,000 rows."""
    rng = np.random.default_rng(seed)
    counts, n_rows = ((6, 3, 3), 500) if quick else ((50, 25, 25), 2000)
    table, true = draw_mixed_graph(counts, n_rows, rng)
    nodewise = Method("nodewise glmnet (R), EBIC, as mgm", _regress_by_glmnet, "glmnet")
    return _compare_graphs("mixed", table, true, [*OUR_GRAPHS, nodewise], report)


def draw_mixed_graph(counts: tuple[int, int, int], n_rows: int, rng: np.random.Generator) -> tuple[pl.DataFrame, Edges]:
    """Draw rows of a random mixed graph (Lee and Hastie, 2015) by Gibbs sampling, one chain per row.

    Columns are nominal (3 states), ordinal (5 levels) and numeric, with 1.5 edges per column. An edge between two
    ordered columns is a slope between their scores; one of a nominal column has a weight for each of its states.
    """
    kinds = rng.permutation(np.repeat(["nominal", "ordinal", "numeric"], counts))
    true = _random_edges(len(kinds), int(1.5 * len(kinds)), rng)
    tables = {
        "nominal": np.eye(3) - 1 / 3,
        "ordinal": (np.arange(5.0)[:, None] - 2) / np.sqrt(2),
        "numeric": np.ones((1, 1)),
    }
    weights: list[list[tuple[int, Array]]] = [[] for _ in kinds]
    for a, b in sorted(true):
        shape = (tables[kinds[a]].shape[1], tables[kinds[b]].shape[1])
        size = rng.uniform(0.2, 0.4) if shape == (1, 1) else rng.uniform(0.4, 0.8) * np.sqrt(np.prod(shape))
        drawn = rng.normal(size=shape)
        drawn -= drawn.mean(axis=0) if shape[0] > 1 else 0.0
        drawn -= drawn.mean(axis=1, keepdims=True) if shape[1] > 1 else 0.0
        drawn *= size / np.linalg.norm(drawn)
        weights[a].append((b, drawn))
        weights[b].append((a, drawn.T))
    precision = [
        1.0 + sum(float(np.abs(weight).sum()) for b, weight in part if kinds[b] == "numeric") for part in weights
    ]
    components = [np.zeros((n_rows, tables[kind].shape[1])) for kind in kinds]
    codes = np.zeros((len(kinds), n_rows), dtype=np.int64)
    for _ in range(200):
        for k, kind in enumerate(kinds):
            eta = sum((components[b] @ weight.T for b, weight in weights[k]), np.zeros((n_rows, tables[kind].shape[1])))
            if kind == "numeric":
                components[k] = eta / precision[k] + rng.normal(size=eta.shape) / np.sqrt(precision[k])
            else:
                codes[k] = (eta @ tables[kind].T + rng.gumbel(size=(n_rows, len(tables[kind])))).argmax(axis=1)
                components[k] = tables[kind][codes[k]]
    columns = {
        "nominal": lambda k: np.array(["a", "b", "c"])[codes[k]],
        "ordinal": lambda k: codes[k] + 1,
        "numeric": lambda k: components[k][:, 0],
    }
    return pl.DataFrame({f"x{k}": columns[kind](k) for k, kind in enumerate(kinds)}), true


def _random_edges(size: int, count: int, rng: np.random.Generator) -> Edges:
    pairs = [(a, b) for a in range(size) for b in range(a + 1, size)]
    return {pairs[k] for k in rng.choice(len(pairs), count, replace=False)}


def _edges_of_precision(precision: Array) -> Edges:
    return {(int(a), int(b)) for a, b in zip(*np.nonzero(np.abs(np.triu(precision, 1)) > 1e-8), strict=True)}


def _glasso_by_ebic(values: Array, gamma: float = 0.5) -> Edges:
    """Return the edges of the graphical lasso with the best EBIC of 25 penalties."""
    covariance, (n_rows, size) = np.corrcoef(values.T), values.shape
    best: tuple[float, Edges] = (np.inf, set())
    for penalty in np.logspace(-0.4, -2, 25):
        try:
            _, precision = graphical_lasso(covariance, penalty, max_iter=200, tol=1e-3)
        except FloatingPointError:
            break
        edges = _edges_of_precision(precision)
        likelihood = 0.5 * n_rows * (np.linalg.slogdet(precision)[1] - np.trace(covariance @ precision))
        ebic = -2 * likelihood + len(edges) * (np.log(n_rows) + 4 * gamma * np.log(size))
        best = min(best, (float(ebic), edges), key=lambda pair: pair[0])
    return best[1]


def _regress_by_glmnet(frame: pl.DataFrame) -> TimedByR:
    """Return the edges that R's glmnet finds; ordinal columns are numbers for it."""
    nominal = [dtype == pl.String for dtype in frame.dtypes]
    codes = frame.select(
        pl.col(name).rank("dense") - 1 if is_nominal else pl.col(name)
        for name, is_nominal in zip(frame.columns, nominal, strict=True)
    )
    return estimate_with_glmnet(codes.to_numpy(), ["nominal" if is_nominal else "numeric" for is_nominal in nominal])


OUR_GRAPHS = (
    Method("sparsefield, EBIC, refit", lambda table: edges_of(MarkovField(selection="ebic", refit=True).fit(table))),
    Method("sparsefield, EBIC", lambda table: edges_of(MarkovField(selection="ebic").fit(table))),
    Method("sparsefield, edges that hold", lambda table: holding_edges(MarkovField().fit(table))),
)
"""A refit drops features by their Wald statistics."""


def _compare_graphs(data: str, table: Any, true: Edges, methods: Sequence[Method], report: Report) -> list[Row]:
    rows = []
    MarkovField(selection="ebic", refit=True).fit(table[:100])  # compiles
    for method, edges, seconds in run_methods(data, methods, table, report):
        rows.append({"data": data, "method": method, **edge_scores(edges, true), "seconds": seconds})
        report(f"{data}: {method}: F1 {rows[-1]['f1']:.3f}, {seconds:.1f} s")
    return rows


# -- the choice of l1 -----------------------------------------------------------------------------------------------


def run_choice(seed: int = 0, report: Report = print, *, quick: bool = False) -> list[Row]:
    """Return a row per table and share of missing cells: the processor time of l1="auto", and of one fit at its l1.

    ``loss`` is minus the mean log-probability of 20% of the cells of other rows.
    """
    sizes = {"mixed 77x34": (8, 8, 18), "mixed 294x16": (4, 4, 8), "mixed 489x6": (2, 2, 2), "mixed 601x9": (3, 3, 3)}
    rows = []
    for data in ("mixed 77x34",) if quick else ("survey", "Chile", *sizes):
        rng = np.random.default_rng(seed)
        if data in sizes:
            n_rows = int(data.split()[1].split("x")[0])
            table = draw_mixed_graph(sizes[data], 2 * n_rows, rng)[0]
        else:
            table = load_mixed(data)
            table, n_rows = table[rng.permutation(len(table)).tolist()], int(0.75 * len(table))
        for share in (0.2,) if quick else (0.0, 0.2, 0.5):
            hidden = rng.random((len(table), table.width)) < share
            shown = _without(table, hidden)
            MarkovField(l1="auto", n_jobs=1).fit(shown[:60])  # compiles
            field, seconds = _cpu_seconds(
                lambda shown=shown, n=n_rows: MarkovField(n_jobs=1, random_state=0).fit(shown[:n])
            )
            _, single = _cpu_seconds(
                lambda shown=shown, n=n_rows, l1=field.l1_: MarkovField(l1=l1, n_jobs=1, random_state=0).fit(shown[:n])
            )
            asked = _without(shown, rng.random(hidden.shape) < 0.2)
            loss = -conditional_log_likelihood(field, shown[n_rows:], asked[n_rows:])
            times = {"auto": seconds, "single": single, "ratio": seconds / single}
            rows.append({"data": data, "missing": share, "l1": field.l1_, "weights": len(field.field_.weights)})
            rows[-1] |= times | {"loss": loss}
            report(f"{data}, {share:.0%} missing: {rows[-1]['ratio']:.1f} single fits, loss {loss:.4f}")
    return rows


def _without(table: pl.DataFrame, hidden: Array) -> pl.DataFrame:
    """Return a table in which cells (rows, columns) are missing."""
    return table.with_columns(
        pl.when(pl.Series(~hidden[:, k])).then(pl.col(name)).otherwise(None).alias(name)
        for k, name in enumerate(table.columns)
    )


def _cpu_seconds(function: Callable[[], Any]) -> tuple[Any, float]:
    started = time.process_time()
    return function(), time.process_time() - started


@dataclass(frozen=True)
class Part:
    """A part of the benchmark: its function, and the columns of its table."""

    run: Callable[..., list[Row]]
    shown: Sequence[str]


PARTS = {
    "bfi": Part(run_bfi, ("method", "l1", "loss", "weights", "edges", "hold", "mae", "exact", "seconds")),
    "imputation": Part(run_imputation, ("data", "method", "error", "seconds")),
    "gaussian": Part(run_gaussian, ("data", "method", "precision", "recall", "f1", "seconds")),
    "planted": Part(run_planted, ("data", "method", "precision", "recall", "f1", "seconds")),
    "choice": Part(run_choice, ("data", "missing", "l1", "weights", "auto", "single", "ratio", "loss")),
}


def command(
    part: Annotated[list[str] | None, typer.Option("--part", help=f"{', '.join(PARTS)}; by default all.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the splits, of hidden cells and of graphs.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Small data: only to see it run.")] = False,
    as_json: Json = False,
) -> None:
    """Columns of several kinds: Likert items, hidden cells of mixed tables, Gaussian and mixed graphs."""
    names = choose_parts(part, PARTS)
    found: dict[str, list[Row]] = {}
    for name in names:
        try:
            found[name] = PARTS[name].run(seed, print_message, quick=quick)
        except DataError as error:
            print_message(f"{name}: skipped: {error}")
            continue
        if not as_json:
            show(f"\n{name}")
            print_rows(found[name], PARTS[name].shown)
    if as_json:
        show_json(found)
