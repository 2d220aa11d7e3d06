"""Evidence for edges: decorrelated score tests of the pseudo-likelihood, and false discovery rates.

A test asks whether the rows need the features of an edge beside those of all other edges (Ning and Liu, 2017). The
scores are those of the regressions of both ends, estimated without the edge. Variances are those of the sandwich
estimator (Godambe), q-values those of Benjamini and Hochberg over all candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from scipy.linalg import lapack
from scipy.special import chdtrc
from scipy.stats import false_discovery_control

from sparsefield.data import Block, Dataset, Layout
from sparsefield.data.coding import ColumnClass
from sparsefield.data.table import join_blocks
from sparsefield.model.fit_record import EdgeEvidence
from sparsefield.objectives.curvature import groups_by_size, wald_test
from sparsefield.solver.state import State

MAX_OPERATIONS, MAX_ADDED, MAX_AT_FIXED_L1 = 2e10, 4e9, 5e8
"""Operations of the Hessians, above which edges are not tested; above which columns outside the field are left out of
the regressions; and the same where l1 was given and nothing is refitted, which may take far less time than the tests
(`python -m benchmarks small`)."""

MAX_REFITS = 5e8
"""Operations of the Hessians of the regressions without an edge, above which these are those of all edges."""

MIN_ROWS = 4.0
"""Rows for each parameter of a regression, below which features outside the field are left out, too."""

MIN_RIDGE, BIAS_RIDGE = 1.0, 1e-8
"""Least curvature that is added to each weight, which holds what the rows do not determine; and to each bias, as a
share of the largest curvature of its regression."""

SCREEN = 0.1
"""P-value of the Wald test of the regressions with an edge, up to which they are estimated without it, too."""

MAX_STEPS, TOLERANCE, REFIT_TOLERANCE, LONGEST_STEP, MIN_PROGRESS = 20, 0.25, 0.02, 4.0, 0.3
"""Newton steps of a regression at most; the share of standard errors below which they end, with all edges and without
one; the largest change of a parameter; and the share of a decrement above which the next step has a new Hessian."""

COPIES, ROUNDS = 4, 6
"""Completions of a row with missing cells, and rounds in which all of them are drawn."""

CHUNK = 2**12
"""Rows whose probabilities are in memory at a time, about."""

LINEAR, SQUARE, HIGHER = range(3)
"""Kinds of columns: indicators of states and scores; squares of scores; and higher powers, which are sources alone."""


@dataclass(frozen=True)
class Columns:
    """The columns of the regressions of a table: indicators of states, and powers of scores in place of levels."""

    values: np.ndarray
    """(columns, rows)"""
    owner: np.ndarray
    """(columns,): the variable of each."""
    kind: np.ndarray
    """(columns,)"""
    place: np.ndarray
    """(columns,): the column of the layout; -1 for powers."""
    tables: Sequence[np.ndarray]
    """(states, columns) of each target."""

    @classmethod
    def of(cls, layout: Layout, block: Block) -> Columns:
        schema, parts = layout.schemas[0], []
        for v, variable in enumerate(schema.variables):
            columns = np.arange(*schema.offsets[v : v + 2])
            classes = layout.column_classes[columns]
            columns = columns[~np.isin(classes, (ColumnClass.LEVEL, ColumnClass.OBSERVED_LEVEL, ColumnClass.SQUARE))]
            is_target = v < schema.n_targets
            table = variable.coded[:, columns - schema.offsets[v]] if is_target else block.beliefs[columns].T
            kind = np.full(len(columns), LINEAR)
            if np.isin(classes, (ColumnClass.SCORE, ColumnClass.OBSERVED_SCORE)).any():
                degree = 3 if variable.numeric else min(len(variable.states) - 1, 5)
                table = _powers(table[:, 0], variable.code_frequencies if is_target else block.weight, degree)
                kind = np.minimum(np.arange(table.shape[1]), HIGHER)
            place = np.concatenate([columns, np.full(table.shape[1] - len(columns), -1)])
            table = table.astype(np.float32)
            parts.append((table[block.codes[v]].T if is_target else table.T, np.full(len(kind), v), kind, place, table))
        values, owner, kind, place, tables = zip(*parts, strict=True)
        values, owner, kind, place = map(np.concatenate, (values, owner, kind, place))
        return cls(values, owner, kind, place, tables[: schema.n_targets])


def _powers(score: np.ndarray, weight: np.ndarray, degree: int) -> np.ndarray:
    """Return a score and powers of its ranks, (values, powers): orthogonal to those before, with variance 1.

    Powers of scores themselves would depend on few extreme values.
    """
    weight = weight / weight.sum()
    _, level = np.unique(score, return_inverse=True)
    share = np.bincount(level, weight)
    rank, columns = (2.0 * np.cumsum(share) - share)[level] - 1.0, [np.ones(len(score)), score]
    for power in range(2, degree + 1):
        column = rank**power
        size = np.sqrt(weight @ np.square(column))
        for other in (*columns, *columns):  # twice, against rounding errors
            column = column - (weight @ (column * other)) / max(weight @ np.square(other), 1e-300) * other
        scale = np.sqrt(weight @ np.square(column))
        if not scale > 1e-2 * size:
            break
        columns.append(column / scale)
    return np.column_stack(columns[1:])


@dataclass(frozen=True)
class Rows:
    """Complete rows of the regressions, in single precision, which is exact enough for tests."""

    values: np.ndarray
    """(columns, rows)"""
    weight: np.ndarray
    """(rows,), with a mean of about 1."""
    observed: np.ndarray
    """(targets, rows) bool: the cells that are predicted."""
    counts: bool
    """Whether weights are numbers of equal rows."""
    starts: np.ndarray | None
    """The first completion of each row, which are adjacent; None if no cell is missing."""
    groups: np.ndarray | None
    """The first row of each group of rows that depend on each other, which are adjacent; None if there are none."""

    @classmethod
    def of(cls, columns: Columns, block: Block, groups: np.ndarray | None, n_rows: int) -> Rows:
        """Return the rows of a block, `COPIES` of each incomplete one, in the order of the groups."""
        missing = block.codes < 0
        copies = np.where(missing.any(axis=0), COPIES, 1)
        order = np.arange(block.n_rows) if groups is None else np.argsort(groups, kind="stable")
        take = np.repeat(order, copies[order])
        weight = (block.weight * (n_rows / block.weight.sum()) / copies)[take]
        starts = np.flatnonzero(np.diff(take, prepend=-1)) if missing.any() else None
        first = starts if groups is None else np.flatnonzero(np.diff(groups[take], prepend=-1))
        return cls(
            columns.values[:, take].astype(np.float32),
            weight.astype(np.float32),
            ~missing[:, take],
            n_rows != block.n_rows,
            starts,
            first,
        )

    def chunks(self) -> Iterator[slice]:
        """Yield rows, about `CHUNK` at a time, groups together."""
        n_rows = len(self.weight)
        ends = np.append(np.arange(0, n_rows, CHUNK), n_rows)
        if self.groups is not None:
            groups = np.append(self.groups, n_rows)
            ends = groups[np.searchsorted(groups, ends)]
        yield from (slice(*pair) for pair in pairwise(np.unique(ends).tolist()))

    def independent(self, scores: np.ndarray, some: slice) -> np.ndarray:
        """Return weighted sums of scores (..., rows of a chunk) that are independent: of groups, or of rows."""
        if self.groups is None:
            return scores * (np.sqrt(self.weight[some]) if self.counts else self.weight[some])
        return np.add.reduceat(scores * self.weight[some], _within(self.groups, some), axis=-1)

    def information(self, scores: np.ndarray, some: slice) -> np.ndarray:
        """Return what completed rows tell, and what their observed cells do (Louis, 1982): sums of squares (2, ...)."""
        assert self.starts is not None
        starts, scores = _within(self.starts, some), scores * self.weight[some]
        copies = np.diff(np.append(starts, some.stop - some.start))
        squares = copies * np.add.reduceat(np.square(scores), starts, axis=-1)
        between = copies * np.square(np.add.reduceat(scores, starts, axis=-1))
        known = np.where(copies > 1, (between - squares) / np.maximum(copies - 1, 1), squares)
        return np.array([squares.sum(axis=-1), known.sum(axis=-1)])


def _within(starts: np.ndarray, some: slice) -> np.ndarray:
    return starts[slice(*np.searchsorted(starts, [some.start, some.stop]))] - some.start


@dataclass(frozen=True)
class Regression:
    """The (multinomial) regression of a target on columns of other variables."""

    target: int
    own: np.ndarray
    """(own,): the columns of the target."""
    table: np.ndarray
    """(states, own): their values in each state."""
    offset: np.ndarray
    """(states,): logits of the states without any parameter."""
    source: np.ndarray
    """(1 + sources,): -1 for the bias, and columns of others."""
    theta: np.ndarray
    """(own, 1 + sources)"""
    inverse: Any = None
    """(parameters, parameters): that of the Hessian, with a ridge."""

    def sources(self, values: np.ndarray) -> np.ndarray:
        """Return the values of the sources, (1 + sources, rows), from those of all columns."""
        sources = values[self.source]
        sources[0] = 1.0
        return sources

    def predict(self, theta: np.ndarray, sources: np.ndarray) -> np.ndarray:
        """Return the probabilities of states, (..., states, rows), for parameters (..., own, 1 + sources)."""
        theta = theta.astype(np.float32)
        if self.table.shape == (2, 1):
            (low,), (high,) = self.table
            logits = (high - low) * (theta[..., 0, :] @ sources) + (self.offset[1] - self.offset[0])
            p = 1.0 / (1.0 + np.exp(-logits.clip(-80.0, 80.0)))
            return np.concatenate([1.0 - p, p], axis=-1).reshape(*p.shape[:-1], 2, -1)
        p = self.table @ (theta @ sources) + self.offset[:, None]
        p = np.exp(p - p.max(axis=-2, keepdims=True))
        return p / p.sum(axis=-2, keepdims=True)

    def derivatives(
        self, rows: Rows, parts: Iterable[tuple[slice, np.ndarray]], theta: np.ndarray, curvature: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient of the loss, (own, 1 + sources), and its Hessian if it is wanted."""
        k, m = theta.shape
        gradient, hessian = np.zeros((k, m)), np.zeros((k, m, k, m))
        for some, sources in parts:
            weight, p = rows.weight[some] * rows.observed[self.target, some], self.predict(theta, sources)
            means = self.table.T @ p
            gradient += (weight * (means - rows.values[self.own, some])) @ sources.T
            for a, b in combinations(range(k), 2) if curvature else ():
                product = (self.table[:, a] * self.table[:, b]) @ p - means[a] * means[b]
                hessian[a, :, b] += (sources * (weight * product)) @ sources.T
            for a in range(k if curvature else 0):
                variance = weight * (np.square(self.table[:, a]) @ p - np.square(means[a]))
                roots = sources * np.sqrt(variance.clip(0.0))
                hessian[a, :, a] += roots @ roots.T
        for a, b in combinations(range(k), 2):
            hessian[b, :, a] = hessian[a, :, b].T
        return gradient, hessian.reshape(k * m, k * m)

    def minimize(
        self, rows: Rows, theta: np.ndarray, free: np.ndarray, ridge: float, tolerance: float, max_steps: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the optimum over free parameters; and the Hessian, and the inverse of its part of these, near it."""
        theta, before, hessian, inverse, step = theta.copy(), 0.0, np.empty(0), np.empty(0), np.zeros(len(free))
        parts = [(some, self.sources(rows.values[:, some])) for some in rows.chunks()]
        for _ in range(max_steps):
            slope, new = self.derivatives(rows, parts, theta, curvature=not before)
            slope[:, 1:] += ridge * theta[:, 1:]
            gradient = slope.ravel()
            if before and -gradient[free] @ step > 0.5 * before:  # too far beyond the optimum along the step
                step = 0.5 * step
                theta.flat[free] += step
                before *= 0.5
                continue
            if not before:
                largest = new.diagonal().max(initial=1.0)
                ridges = np.full(theta.shape, max(ridge, 1e-12 * largest))
                ridges[:, 0] = BIAS_RIDGE * largest
                hessian = new + np.diag(ridges.ravel())
                inverse = _inverse(hessian[np.ix_(free, free)] if len(free) < theta.size else hessian)
            step = inverse @ gradient[free]
            decrement = float(gradient[free] @ step)
            shrink = LONGEST_STEP / max(np.abs(step).max(initial=0.0), LONGEST_STEP)
            step = shrink * step
            theta.flat[free] -= step
            if decrement <= tolerance**2 * len(free):
                break
            before = 0.0 if before and decrement > MIN_PROGRESS * before else shrink * decrement
        return theta, hessian, inverse

    def without(
        self, rows: Rows, edges: np.ndarray, tested: np.ndarray, ridge: float, refit: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return estimates without edges, and the sources of their scores, decorrelated from those of all others.

        These are (edges, own, 1 + sources) and (edges, tested features, own, 1 + sources). Unless ``refit``, the loss
        is taken as quadratic.

        Parameters
        ----------
        edges : (edges, features) parameters
        tested : (edges, tested features), positions among the features of an edge
        """
        k, m = self.theta.shape
        inner = np.linalg.inv(self.inverse[edges[:, :, None], edges[:, None]])
        projections = inner @ self.inverse[edges]
        theta = self.theta.ravel() - (self.theta.flat[edges][:, None] @ projections)[:, 0]
        projections = projections[np.arange(len(edges))[:, None], tested]
        for number, removed in enumerate(edges) if refit else ():
            free, own, start = np.setdiff1d(np.arange(k * m), removed), removed[tested[number]], theta[number].copy()
            start[removed] = 0.0
            start, hessian, inverse = self.minimize(rows, start.reshape(k, m), free, ridge, REFIT_TOLERANCE, MAX_STEPS)
            theta[number], projections[number] = start.ravel(), 0.0
            projections[number, np.arange(len(own)), own] = 1.0
            projections[number][:, free] = -hessian[np.ix_(own, free)] @ inverse
        return theta.reshape(-1, k, m), projections.reshape(*tested.shape, k, m).astype(np.float32)


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """Return the inverse of a positive definite matrix."""
    routines: Any = lapack
    factor, info = routines.dpotrf(matrix, lower=1)
    if info:
        return np.linalg.pinv(matrix, hermitian=True)
    inverse = routines.dpotri(factor, lower=1)[0]
    return np.tril(inverse) + np.tril(inverse, -1).T


def edge_evidence(
    state: State, dataset: Dataset, groups: np.ndarray | None, n_rows: int, *, thorough: bool
) -> EdgeEvidence | None:
    """Return the evidence for the edges of a fit by pseudo-likelihood to one dense table; None where it is too wide.

    Where the work allows it, all columns of the table are in the regressions, so that no test depends on what was
    selected, and scores also with their squares, since not all edges are monotone. Otherwise edges outside the field
    count as tests with the p-value 1.

    Parameters
    ----------
    dataset : the rows; equal ones may be merged, if weights are numbers of rows
    groups : (rows,) numbers of the groups of rows that depend on each other
    n_rows : number of rows before equal ones were merged
    thorough : whether tests may take as long as a choice of l1
    """
    layout, working_set, schema = state.layout, state.working_set, state.layout.schemas[0]
    block = join_blocks(dataset.tables[0].blocks)
    columns, n_biases, n_variables = Columns.of(layout, block), working_set.n_biases, schema.n_variables
    chosen = working_set.active & (working_set.features[:, 2:] < 0).all(axis=1)
    pairs, weights = working_set.features[chosen, :2], working_set.theta[n_biases:][chosen]
    ends = np.sort(schema.variable_of_column[pairs], axis=1)
    selected = np.unique(ends, axis=0)
    varies = np.bincount(columns.owner, minlength=n_variables) > 0
    every = np.argwhere(np.triu(np.outer(varies, varies), 1)[: schema.n_targets])
    rows = Rows.of(columns, block, groups, n_rows)
    n_independent = n_rows if groups is None else len(np.unique(groups))
    # Levels whose features the field has are sources as higher powers.
    curved = np.zeros((n_variables, n_variables), dtype=bool)
    is_level = np.isin(layout.column_classes[pairs], (ColumnClass.LEVEL, ColumnClass.OBSERVED_LEVEL)).any(axis=1)
    curved[tuple(ends[is_level].T)] = True
    curved |= curved.T
    operations, regressions, number = np.inf, [], np.full((n_variables, n_variables), -1)
    for edges, highest in ((every, HIGHER), (every, LINEAR), (selected, HIGHER), (selected, LINEAR)):
        number[:] = -1
        number[tuple(edges.T)] = number[tuple(edges.T[::-1])] = np.arange(len(edges))
        used = [
            (number[v, columns.owner] >= 0)
            & (columns.kind <= np.where(curved[v, columns.owner], highest, min(highest, SQUARE)))
            for v in range(schema.n_targets)
        ]
        own = [np.flatnonzero((columns.owner == v) & (columns.kind <= min(highest, SQUARE))) for v in range(len(used))]
        sizes = [len(o) * (1.0 + u.sum()) for o, u in zip(own, used, strict=True)]
        operations = len(rows.weight) * float(np.square(sizes).sum())
        limit = MAX_ADDED if thorough or edges is selected else MAX_AT_FIXED_L1
        if operations <= limit and MIN_ROWS * max(sizes, default=0.0) <= n_independent:
            break
    if operations > MAX_OPERATIONS:
        return None
    if not len(edges):
        return EdgeEvidence((), (), (), len(every))
    place = np.full(layout.n_columns, -1)
    place[columns.place[columns.place >= 0]] = np.flatnonzero(columns.place >= 0)
    start, (a, b) = np.zeros((len(columns.owner), len(columns.owner))), place[pairs].T
    known = (a >= 0) & (b >= 0)
    start[a[known], b[known]] = start[b[known], a[known]] = weights[known]
    for v, variable in enumerate(schema.targets):
        source = np.append(-1, np.flatnonzero(used[v]))
        theta = start[own[v]][:, source]
        theta[:, 0] = 0.0
        biases = working_set.theta[slice(*schema.target_offsets[v : v + 2])]
        table, column = columns.tables[v][:, : len(own[v])], columns.place[own[v]]
        theta[column >= 0, 0] = biases[column[column >= 0] - schema.target_offsets[v]]
        offset = variable.log_base + variable.coded @ biases - table @ theta[:, 0]
        regressions.append(Regression(v, own[v], table, offset.astype(np.float32), source, theta))
    ridge = max(state.options.l2 * n_rows / float(block.weight.sum()), MIN_RIDGE)
    regressions = _estimate([r for r in regressions if r.theta.size], rows, columns, ridge)
    p_values = _test(regressions, rows, columns, edges, number, complete=len(edges) == len(every), ridge=ridge)
    q_values = false_discovery_control(np.pad(p_values, (0, len(every) - len(edges)), constant_values=1.0))
    found = number[tuple(selected.T)]
    return EdgeEvidence(
        tuple(map(tuple, selected.tolist())),
        tuple(p_values[found].tolist()),
        tuple(q_values[found].tolist()),
        len(every),
    )


def _estimate(regressions: list[Regression], rows: Rows, columns: Columns, ridge: float) -> list[Regression]:
    """Return the regressions at their optima; missing cells are drawn in between, each from its regression."""
    rng, cells = np.random.default_rng(0), [np.flatnonzero(~rows.observed[r.target]) for r in regressions]
    places = [np.flatnonzero(columns.owner == r.target) for r in regressions]
    for r, missing, place in zip(regressions, cells, places, strict=True):
        seen = np.flatnonzero(rows.observed[r.target])
        rows.values[place[:, None], missing] = rows.values[place[:, None], rng.choice(seen, len(missing))]
    for left in range(ROUNDS if any(map(len, cells)) else 0, -1, -1):
        for k, (r, missing, place) in enumerate(zip(regressions, cells, places, strict=True)):
            theta, _, inverse = r.minimize(
                rows, r.theta, np.arange(r.theta.size), ridge, TOLERANCE, 1 if left else MAX_STEPS
            )
            regressions[k] = r = replace(r, theta=theta, inverse=inverse)
            if left and len(missing):
                p = r.predict(theta, r.sources(rows.values[:, missing])).cumsum(axis=0)
                codes = (p < rng.random(len(missing))).sum(axis=0).clip(max=len(p) - 1)
                rows.values[place[:, None], missing] = columns.tables[r.target][codes].T
    return regressions


def _test(
    regressions: Sequence[Regression],
    rows: Rows,
    columns: Columns,
    edges: np.ndarray,
    number: np.ndarray,
    *,
    complete: bool,
    ridge: float,
) -> np.ndarray:
    """Return the p-values of edges, of which ``number`` (variables, variables) has the positions."""
    owner, kind = columns.owner, columns.kind
    highest = max(kind[np.append(r.own, r.source[1:])].max() for r in regressions)
    widths = np.array([np.bincount(owner, (kind == k) & (k <= highest), len(number)) for k in (LINEAR, SQUARE)])
    shapes = widths.astype(np.int64)[:, edges].transpose(1, 2, 0)  # (edges, ends, kinds)
    sizes = shapes.sum(axis=2).prod(axis=1)
    for v in np.flatnonzero(widths[LINEAR] > 1):  # the indicators of all states say what those of all but one do
        widths[LINEAR, v] -= np.ptp(rows.values[(owner == v) & (kind == LINEAR)].sum(axis=0)) < 1e-6
    free = np.array([widths[LINEAR, edges].prod(axis=1), widths.sum(axis=0)[edges].prod(axis=1)])
    free[1] -= free[0]
    parameters = [np.tile(np.append(-1, number[r.target, owner[r.source[1:]]]), len(r.own)) for r in regressions]
    wald, ends = np.zeros((2, len(edges))), np.zeros(len(edges))
    for r, edge in zip(regressions, parameters, strict=True) if complete else ():
        kinds = np.maximum(kind[r.own][:, None], np.append(HIGHER, kind[r.source[1:]])).ravel()
        for test in (LINEAR, SQUARE):
            for numbers, own in groups_by_size(np.where(kinds == test, edge, -1)):
                information = np.linalg.inv(r.inverse[own[:, :, None], own[:, None]])
                theta = r.theta.flat[own][:, None]
                wald[test, numbers] += (theta @ information @ theta.swapaxes(1, 2))[:, 0, 0]
                ends[numbers] += test == LINEAR
    p_values = _combine(wald / np.maximum(ends, 1.0), free)
    chosen = np.flatnonzero(p_values <= SCREEN) if complete else np.arange(len(edges))
    if not len(chosen):
        return p_values
    first = np.full(len(edges), -1)
    first[chosen] = np.cumsum(sizes[chosen]) - sizes[chosen]
    n_tested = int(sizes[chosen].sum())
    # Those of edges that are not chosen, and of none, become -1.
    parameters = [np.where(np.append(first, -1)[edge] >= 0, edge, -1) for edge in parameters]
    costs = [(edge >= 0).sum() * len(edge) ** 2.0 for edge in parameters]
    refit = 3.0 * len(rows.weight) * sum(costs) <= MAX_REFITS
    tasks: list[list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]] = []
    for r, edge in zip(regressions, parameters, strict=True):
        tasks.append([])
        is_tested = np.tile(np.append(False, kind[r.source[1:]] <= SQUARE), len(r.own))
        for numbers, removed in groups_by_size(edge):
            counts = is_tested[removed].sum(axis=1)
            for count in np.unique(counts).tolist():
                some = counts == count
                own = np.nonzero(is_tested[removed[some]])[1].reshape(-1, count)
                is_second, n_own = edges[numbers[some], :1] != r.target, len(r.own)
                transposed = np.arange(count).reshape(-1, n_own).T.ravel()
                places = first[numbers[some]][:, None] + np.where(is_second, transposed, np.arange(count))
                tasks[-1].append((numbers[some], places, *r.without(rows, removed[some], own, ridge, refit)))
    sums, told = np.zeros(n_tested), np.zeros((2, len(edges)))
    patterns, pattern = np.unique(shapes[chosen].reshape(len(chosen), -1), axis=0, return_inverse=True)
    groups = [chosen[pattern.ravel() == k] for k in range(len(patterns))]
    products: list[Any] = [0.0] * len(groups)
    for some in rows.chunks():
        scores = np.zeros((n_tested, some.stop - some.start))
        for r, own in zip(regressions, tasks, strict=True):
            sources, observed = r.sources(rows.values[:, some]), rows.observed[r.target, some]
            for numbers, places, theta, projections in own:
                errors = r.table.T @ r.predict(theta, sources) - rows.values[r.own, some]
                part = ((projections @ sources) * (errors * observed)[:, None]).sum(axis=2)
                scores[places] += part
                if rows.starts is not None:
                    told[:, numbers] += rows.information(part, some).sum(axis=2)
        sums += scores @ rows.weight[some]
        parts = rows.independent(scores, some)
        for k, group in enumerate(groups):
            own = parts[first[group][:, None] + np.arange(sizes[group[0]])]
            products[k] = products[k] + own @ own.swapaxes(1, 2)
    shares = np.square(np.maximum(told[1], 0.01 * told[0]) / np.where(told[0] > 0.0, told[0], 1.0))
    for group, covariance in zip(groups, products, strict=True):
        linear_a, square_a, linear_b, square_b = shapes[group[0]].ravel()
        kinds = np.maximum.outer(np.arange(linear_a + square_a) >= linear_a, np.arange(linear_b + square_b) >= linear_b)
        statistics, degrees = np.zeros((2, len(group))), np.zeros((2, len(group)))
        for test, own in enumerate((np.flatnonzero(~kinds), np.flatnonzero(kinds))):
            if len(own):
                score = sums[first[group][:, None] + own]
                statistics[test], degrees[test] = wald_test(score, covariance[:, own[:, None], own])
        if rows.starts is not None:
            statistics *= shares[group]
        if not complete:
            degrees = np.maximum(degrees, free[:, group])
        p_values[group] = _combine(statistics, degrees)
    return p_values


def _combine(statistics: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Return the p-values of two tests, (2, edges), together; one without degrees of freedom is none."""
    p_values = np.where(degrees > 0, chdtrc(np.maximum(degrees, 1), statistics), 1.0)
    return np.minimum((degrees > 0).sum(axis=0) * p_values.min(axis=0), 1.0)
