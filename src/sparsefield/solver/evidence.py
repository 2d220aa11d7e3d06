"""Evidence for edges: Wald tests of decorrelated estimates of the pseudo-likelihood, and false discovery rates.

A test asks whether the rows need the features of an edge beside those of all other edges (Ning and Liu, 2017), by the
estimates of the regressions of both ends without L1. A statistic has the larger of two variances: that of the
information, as squares of scores say little of what rows seldom show; and that of the sandwich estimator (White, 1982)
corrected for the number of parameters (HC1 of MacKinnon and White, 1985), as weights, groups or a wrong model make rows
less sure. q-values are those of Benjamini and Hochberg over all candidates. `python -m benchmarks selection` counts
false edges among those that hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtrc
from scipy.stats import false_discovery_control

from sparsefield.compute import Engine
from sparsefield.compute.torch_engine import import_torch
from sparsefield.data import Block, Dataset, Layout
from sparsefield.data.coding import ColumnClass
from sparsefield.data.table import join_blocks
from sparsefield.model.fit_record import EdgeEvidence
from sparsefield.objectives.curvature import wald_test
from sparsefield.objectives.torch_evaluator import TILE_NUMBERS, runs_of, send
from sparsefield.solver.state import State

MAX_OPERATIONS, MAX_ADDED, MAX_AT_FIXED_L1 = 2e10, 4e9, 5e8
"""Operations of the Hessians, above which edges are not tested; above which columns outside the field are left out of
the regressions; and the same where l1 was given and nothing is refitted, which may take far less time than the tests
(`python -m benchmarks small`)."""

MIN_ROWS = 4.0
"""Rows for each parameter of a regression, below which features outside the field are left out, too."""

MIN_RIDGE, MIN_DIAGONAL, BIAS_RIDGE = 1.0, 1e-6, 1e-8
"""Least curvature that is added to each weight, which holds what the rows do not determine; also as a share of the
largest curvature of its regression; and such a share for biases."""

SCREEN = 0.1
"""P-value by the information, above which the sandwich estimator is not asked."""

MAX_STEPS, TOLERANCE, LONGEST_STEP = 20, 0.05, 4.0
"""Newton steps of a regression at most; the share of standard errors below which they end; and the largest change of a
parameter."""

COPIES, ROUNDS = 4, 6
"""Completions of a row with missing cells, and rounds in which all of them are drawn."""

BATCH_NUMBERS = 2**18
"""Numbers of the sources of regressions that take steps together on a CPU, about: as many as its cache has."""

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
        schema, classes, parts = layout.schemas[0], layout.column_classes, []
        is_used = ~np.isin(classes, (ColumnClass.LEVEL, ColumnClass.OBSERVED_LEVEL, ColumnClass.SQUARE))
        is_score = np.isin(classes, (ColumnClass.SCORE, ColumnClass.OBSERVED_SCORE))
        for v, (variable, (start, stop)) in enumerate(zip(schema.variables, pairwise(schema.offsets), strict=True)):
            columns, is_target = start + np.flatnonzero(is_used[start:stop]), v < schema.n_targets
            table = variable.coded[:, columns - start] if is_target else block.beliefs[columns].T
            kind = np.full(len(columns), LINEAR)
            if is_score[start:stop].any():
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
    rank = (2.0 * np.cumsum(share) - share)[level] - 1.0
    powers = np.column_stack([np.ones(len(score)), score, *(rank**power for power in range(2, degree + 1))])
    upper: Any = np.linalg.qr(np.sqrt(weight)[:, None] * powers, mode="r")
    is_new = np.abs(upper.diagonal()) > 1e-2 * np.linalg.norm(upper, axis=0)[: len(upper)]
    n = int(np.append(is_new, False).argmin())
    return np.column_stack([score, (powers[:, :n] @ np.linalg.inv(upper[:n, :n]))[:, 2:]])


@dataclass(frozen=True)
class Rows:
    """Complete rows of the regressions, in single precision, which is exact enough for tests."""

    values: np.ndarray
    """(columns + 2, rows): after all columns those of 0 and 1."""
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
    n_independent: int
    """The number of rows before equal ones were merged, or of groups."""
    device: Any
    """A device of torch for regressions without missing cells and groups; None for the CPU."""
    arrays: tuple[Any, ...] = ()
    """Values, weights, whether cells are observed, and errors, to be set: as the values; all on the device."""

    @classmethod
    def of(
        cls, columns: Columns, block: Block, groups: np.ndarray | None, n_rows: int, n_independent: int, device: Any
    ) -> Rows:
        """Return the rows of a block, `COPIES` of each incomplete one, in the order of the groups."""
        missing = block.codes < 0
        copies = np.where(missing.any(axis=0), COPIES, 1)
        order = np.arange(block.n_rows) if groups is None else np.argsort(groups, kind="stable")
        take = np.repeat(order, copies[order])
        weight = (block.weight * (n_rows / block.weight.sum()) / copies)[take].astype(np.float32)
        starts = np.flatnonzero(np.diff(take, prepend=-1)) if missing.any() else None
        first = starts if groups is None else np.flatnonzero(np.diff(groups[take], prepend=-1))
        constants = np.repeat(np.array([[0.0], [1.0]], np.float32), len(take), axis=1)
        values = np.concatenate([columns.values[:, take].astype(np.float32), constants])
        counts, device, observed = n_rows != block.n_rows, device if first is None else None, ~missing[:, take]
        rows = cls(values, weight, observed, counts, starts, first, n_independent, device)
        return replace(rows, arrays=tuple(map(rows.send, (values, weight, observed, np.zeros_like(values)))))

    def send(self, array: np.ndarray) -> Any:
        return array if self.device is None else send(array, self.device)

    @cached_property
    def chunks(self) -> list[slice]:
        """Rows, about `CHUNK` at a time, groups together."""
        n_rows = len(self.weight)
        ends = np.append(np.arange(0, n_rows, CHUNK), n_rows)
        if self.groups is not None:
            groups = np.append(self.groups, n_rows)
            ends = groups[np.searchsorted(groups, ends)]
        return [slice(*pair) for pair in pairwise(np.unique(ends).tolist())]

    def independent_sums(self, scores: np.ndarray, some: slice) -> np.ndarray:
        """Return weighted sums of scores (..., rows of a chunk) that are independent: of groups, or of rows."""
        if self.groups is None:
            return scores * self.arrays[1][some] ** (0.5 if self.counts else 1.0)
        return _sum_by(self.groups, scores * self.weight[some], some)

    def information(self, scores: np.ndarray, some: slice) -> np.ndarray:
        """Return what completed rows tell, and what their observed cells do (Louis, 1982): sums of squares (2, ...)."""
        assert self.starts is not None
        scores = scores * self.weight[some]
        copies = _sum_by(self.starts, np.ones(scores.shape[-1]), some)
        squares = copies * _sum_by(self.starts, np.square(scores), some)
        between = copies * np.square(_sum_by(self.starts, scores, some))
        known = np.where(copies > 1, (between - squares) / np.maximum(copies - 1, 1), squares)
        return np.array([squares.sum(axis=-1), known.sum(axis=-1)])


def _sum_by(starts: np.ndarray, values: np.ndarray, some: slice) -> np.ndarray:
    """Return the sums of values (..., rows of a chunk) between starts among all rows."""
    first = starts[slice(*np.searchsorted(starts, [some.start, some.stop]))] - some.start
    return np.add.reduceat(values, first, axis=-1)


class Response(NamedTuple):
    """The targets of regressions, or of as many as there are before the other axes: arrays of NumPy, or of torch."""

    table: Any
    """(..., states, own): the values of the targets' columns in each state."""
    offset: Any
    """(..., states): logits of the states without any parameter."""

    def predict(self, theta: Any, sources: Any) -> Any:
        """Return the probabilities of states, (..., states, rows), for parameters (..., own, 1 + sources)."""
        xp = _namespace(sources)
        p = self.table @ (xp.asarray(theta, dtype=xp.float32) @ sources)
        p += self.offset[..., None]
        p -= xp.amax(p, axis=-2, keepdims=True)
        xp.exp(p, out=p)
        p /= p.sum(axis=-2, keepdims=True)
        return p

    def expect(self, theta: Any, sources: Any) -> tuple[Any, Any]:
        """Return the expectations of own columns, (..., own, rows), and the probabilities of states."""
        p = self.predict(theta, sources)
        return self.table.mT @ p, p


@dataclass
class Regressions:
    """The (multinomial) regressions of targets with as many states and columns on columns of other variables.

    Attributes
    ----------
    target : (regressions,)
    own : (regressions, own), the columns of the targets
    sizes : (regressions,), numbers of parameters
    source : (regressions, 1 + sources): -1 for the bias, whose column is 1, those of others, and -2, whose column is 0
    theta : (regressions, own, 1 + sources)
    inverse : (regressions, parameters, parameters), as the rows: those of the Hessians, with a ridge
    """

    target: np.ndarray
    own: np.ndarray
    sizes: np.ndarray
    response: Response
    source: np.ndarray
    theta: np.ndarray
    inverse: Any = None

    def ends(self, columns: Columns, number: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
        """Yield the ends of edges, which are numbered (variables, variables): those together whose columns are alike.

        These are their regressions, ascending, and edges, (ends,); their parameters, (ends, parameters), among those of
        the regression; kinds of these; and places of the tested ones among the scores of an edge.
        """
        k, m = self.theta.shape[1:]
        regression, place = np.nonzero(self.source >= 0)
        column = self.source[regression, place]
        owner, target = columns.owner[column], self.target[regression]
        _, first, widths = np.unique(regression * len(number) + owner, return_index=True, return_counts=True)
        # A linear column comes before powers, so that the last column of a variable tells how many there are of each.
        keys = widths * (HIGHER + 1) + columns.kind[column[first + widths - 1]]
        keys = 2 * keys + (owner[first] < target[first])
        for key in np.unique(keys).tolist():
            start = first[keys == key]
            sources = start[:, None] + np.arange(key // 2 // (HIGHER + 1))
            parameters = np.arange(k)[:, None] * m + place[sources][:, None]
            kinds = np.maximum.outer(columns.kind[self.own[0]], columns.kind[column[sources[0]]])
            order = np.arange(np.count_nonzero(kinds <= SQUARE)).reshape(k, -1)
            if key % 2:  # scores of an edge are in the order of the first end
                order = np.arange(order.size).reshape(order.shape[::-1]).T
            edge, parameters = number[target[start], owner[start]], parameters.reshape(len(start), -1)
            yield regression[start], edge, parameters, kinds.ravel(), order.ravel()


def _namespace(array: Any) -> Any:
    return np if isinstance(array, np.ndarray) else import_torch()


def _fetch(array: Any) -> np.ndarray:
    return array if isinstance(array, np.ndarray) else array.cpu().numpy()


def _minimize(batch: Regressions, rows: Rows, ridge: float, max_steps: int) -> None:
    """Take Newton steps of regressions to their optima, and keep inverse Hessians unless the steps are few."""
    (n, k, m), xp = batch.theta.shape, _namespace(rows.arrays[0])
    response = Response(*map(rows.send, batch.response))
    source, theta, own, target, sizes = map(
        rows.send, (batch.source, batch.theta, batch.own, batch.target, batch.sizes)
    )
    parts = []
    for values, weight, observed, errors in ((part[..., some] for part in rows.arrays) for some in rows.chunks):
        parts.append((values[source], values[own], (weight * observed[target])[:, None], errors))
    step, curvature, before = xp.zeros_like(theta), 0.0, xp.zeros_like(theta[:, 0, 0])
    is_near = before > 0.0
    for _ in range(max_steps):
        slope, hessian = xp.zeros_like(theta), xp.zeros((n, k, m, k, m), dtype=xp.float64, device=theta.device)
        slope[..., 1:] = ridge * theta[..., 1:]
        for sources, values, weight, _ in parts:
            means, p = response.expect(theta, sources)
            slope += (weight * (means - values)) @ sources.mT
            for a in range(k):  # covariances of an own column with itself and later ones
                squares = (response.table[..., a:] * response.table[..., a, None]).mT @ p
                covariances = weight * (squares - means[:, a:] * means[:, a, None])
                roots = sources * xp.sqrt(covariances[:, :1].clip(0.0))  # a product with itself takes half the time
                hessian[:, a, :, a] += roots @ roots.mT
                for b in range(a + 1, k):
                    hessian[:, a, :, b] += (sources * covariances[:, b - a, None]) @ sources.mT
                    hessian[:, b, :, a] = hessian[:, a, :, b].mT
        hessian = hessian.reshape(n, k * m, k * m)
        diagonal = hessian.reshape(n, -1)[:, :: k * m + 1]
        largest = xp.amax(diagonal, axis=1).clip(1.0)[:, None, None]
        ridges = (MIN_DIAGONAL * largest).clip(ridge) + xp.zeros_like(theta)
        ridges[..., :1] = BIAS_RIDGE * largest
        diagonal += ridges.reshape(n, -1)
        newton = xp.linalg.solve(hessian, slope.reshape(n, -1, 1)).reshape(theta.shape)
        decrement = (slope * newton).sum(axis=(1, 2))
        shrink = LONGEST_STEP / xp.amax(abs(newton), axis=(1, 2)).clip(LONGEST_STEP)
        # Too far beyond the optimum along the last step?
        is_far = (before > 0.0) & ((slope * step).sum(axis=(1, 2)) > 0.5 * before)
        curvature = xp.where((is_far | is_near)[:, None, None], curvature, hessian)
        step = xp.where(is_far[:, None, None], 0.5 * step, -shrink[:, None, None] * newton)
        theta += step * ((1.0 - 2.0 * is_far) * ~is_near)[:, None, None]
        before = xp.where(is_far, 0.5 * before, shrink * decrement)
        is_near = is_near | (~is_far & (decrement <= TOLERANCE**2 * sizes))
        if is_near.all():
            break
    for sources, values, weight, errors in parts:
        errors[own] = (response.expect(theta, sources)[0] - values) * (weight > 0.0)
    batch.theta, batch.inverse = _fetch(theta), xp.linalg.inv(curvature) if max_steps == MAX_STEPS else None


def edge_evidence(
    state: State, dataset: Dataset, groups: np.ndarray | None, n_rows: int, engine: Engine, *, thorough: bool
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
    is_edge, curved = np.zeros((2, n_variables, n_variables), dtype=bool)
    is_edge[tuple(ends.T)] = True
    selected = np.argwhere(is_edge)
    varies = np.bincount(columns.owner, minlength=n_variables) > 0
    every = np.argwhere(np.triu(np.outer(varies, varies), 1)[: schema.n_targets])
    n_copies = block.n_rows + (COPIES - 1) * int((block.codes < 0).any(axis=0).sum())
    n_independent = n_rows if groups is None else len(np.unique(groups))
    # Levels whose features the field has are sources as higher powers.
    is_level = np.isin(layout.column_classes[pairs], (ColumnClass.LEVEL, ColumnClass.OBSERVED_LEVEL)).any(axis=1)
    curved[tuple(ends[is_level].T)] = curved[tuple(ends[is_level].T[::-1])] = True
    operations, number, owner = np.inf, np.full((n_variables, n_variables), -1), columns.owner
    for edges, highest in ((every, HIGHER), (every, LINEAR), (selected, HIGHER), (selected, LINEAR)):
        number[:] = -1
        number[tuple(edges.T)] = number[tuple(edges.T[::-1])] = np.arange(len(edges))
        is_own = columns.kind <= min(highest, SQUARE)
        used = (number[:, owner] >= 0) & (is_own | (curved[:, owner] & (columns.kind <= highest)))
        n_own = np.bincount(owner, is_own, n_variables).astype(int)[: schema.n_targets]
        sizes = n_own * (1.0 + used.sum(axis=1))[: schema.n_targets]
        operations = n_copies * float(np.square(sizes).sum())
        limit = MAX_ADDED if thorough or edges is selected else MAX_AT_FIXED_L1
        if operations <= limit and MIN_ROWS * sizes.max(initial=0.0) <= n_independent:
            break
    if operations > MAX_OPERATIONS:
        return None
    if not len(edges):
        return EdgeEvidence((), (), (), len(every))
    columns = replace(columns, kind=np.where(is_own, columns.kind, HIGHER))
    place = np.full(layout.n_columns, -1)
    place[columns.place[columns.place >= 0]] = np.flatnonzero(columns.place >= 0)
    start, (a, b) = np.zeros((len(owner), len(owner) + 2)), place[pairs].T  # -1 and -2 are sources without a weight
    known = (a >= 0) & (b >= 0)
    start[a[known], b[known]] = start[b[known], a[known]] = weights[known]
    ridge, n_sources = max(state.options.l2 * n_rows / float(block.weight.sum()), MIN_RIDGE), used.sum(axis=1)

    def regressions_of(targets: np.ndarray) -> Regressions:
        table = np.array([columns.tables[v][:, : n_own[v]] for v in targets])
        own = np.searchsorted(owner, targets)[:, None] + np.arange(table.shape[2])
        turn = np.arange(n_sources[targets].max())
        source = np.argsort(~used[targets], axis=1, kind="stable")[:, : len(turn)]
        source = np.where(turn < n_sources[targets, None], source, -2)
        source = np.pad(source, ((0, 0), (1, 0)), constant_values=-1)
        theta, places, biases = start[own[:, :, None], source[:, None]], columns.place[own], working_set.theta
        theta[..., 0] = np.where(places < 0, 0.0, biases[places])
        of_states = [(schema.targets[v], biases[slice(*schema.target_offsets[v : v + 2])]) for v in targets]
        offset = np.array([variable.log_base + variable.coded @ own_biases for variable, own_biases in of_states])
        offset = (offset - (table @ theta[..., :1])[..., 0]).astype(np.float32)
        sizes = own.shape[1] * (1 + n_sources[targets])
        return Regressions(targets, own, sizes, Response(table, offset), source, theta)

    problem: Any = state.problem
    with nullcontext() if engine.device is None else problem.table.memory():
        rows = Rows.of(columns, block, groups, n_rows, n_independent, engine.device)
        alike, batches = dict[Any, list[int]](), []
        for v in np.flatnonzero(n_own).tolist():
            like = (len(columns.tables[v]), *columns.kind[(owner == v) & is_own].tolist())
            alike.setdefault(like if rows.starts is None else v, []).append(v)
        for targets in map(np.array, alike.values()):  # of about as many sources, since these are padded to as many
            targets = targets[np.argsort(n_sources[targets], kind="stable")]
            numbers = len(rows.weight) * (1.0 + n_sources[targets])
            runs = runs_of(numbers, BATCH_NUMBERS if rows.device is None else TILE_NUMBERS / 8)
            batches += [regressions_of(targets[slice(*run)]) for run in runs]
        _estimate(batches, rows, columns, ridge, engine)
        p_values = _test(batches, rows, columns, edges, number)
    q_values = false_discovery_control(np.pad(p_values, (0, len(every) - len(edges)), constant_values=1.0))
    numbers = number[tuple(selected.T)]
    p_values, q_values = p_values[numbers], q_values[numbers]
    return EdgeEvidence(
        tuple(zip(*selected.T.tolist(), strict=True)), tuple(p_values.tolist()), tuple(q_values.tolist()), len(every)
    )


def _estimate(batches: Sequence[Regressions], rows: Rows, columns: Columns, ridge: float, engine: Engine) -> None:
    """Put regressions at their optima; missing cells are drawn in between, each from its regression."""
    if rows.starts is None:
        run = engine.map if rows.device is None else map
        list(run(lambda batch: _minimize(batch, rows, ridge, MAX_STEPS), batches))
        return
    rng, cells = np.random.default_rng(0), []
    for (v,) in (batch.target for batch in batches):
        seen, missing = np.flatnonzero(rows.observed[v]), np.flatnonzero(~rows.observed[v])
        cells.append((np.flatnonzero(columns.owner == v)[:, None], missing))
        rows.values[cells[-1]] = rows.values[cells[-1][0], rng.choice(seen, len(missing))]
    for left in range(ROUNDS, -1, -1):
        for batch, cell in zip(batches, cells, strict=True):
            _minimize(batch, rows, ridge, 1 if left else MAX_STEPS)
            if left and len(cell[1]):
                p = batch.response.predict(batch.theta, rows.values[batch.source][..., cell[1]])[0].cumsum(axis=0)
                codes = (p < rng.random(len(cell[1]))).sum(axis=0).clip(max=len(p) - 1)
                rows.values[cell] = columns.tables[batch.target[0]][codes].T


def _test(
    batches: Sequence[Regressions], rows: Rows, columns: Columns, edges: np.ndarray, number: np.ndarray
) -> np.ndarray:
    """Return the p-values of edges."""
    n_linear, n_square = (np.bincount(columns.owner, columns.kind == k, len(number)) for k in (LINEAR, SQUARE))
    widths = np.array([n_linear, n_linear + n_square], dtype=int)
    sizes, free = widths[1, edges].prod(axis=1), widths.copy()
    for v in np.flatnonzero(n_linear > 1):  # the indicators of all states say what those of all but one do
        free[:, v] -= (
            np.ptp(rows.values[np.flatnonzero((columns.owner == v) & (columns.kind == LINEAR))].sum(axis=0)) < 1e-6
        )
    free = free[:, edges].prod(axis=2)
    free[1] -= free[0]
    # Edges with as many scores, which are in the order of the first end, are tested together.
    alike = {int(size): np.flatnonzero(sizes == size) for size in np.unique(sizes)}
    rank, n_ends = np.zeros(len(edges), dtype=int), np.zeros(len(edges))
    for own in alike.values():
        rank[own] = np.arange(len(own))
    sums = {size: np.zeros((len(own), size)) for size, own in alike.items()}
    is_square = {size: np.zeros(own.shape, dtype=bool) for size, own in sums.items()}
    information, tasks = {size: np.zeros((len(own), size, size)) for size, own in alike.items()}, []
    for batch, ends in [(some, ends) for some in batches for ends in some.ends(columns, number)]:
        regression, edge, parameters, kinds, order = ends
        is_tested, at, there = kinds <= SQUARE, rows.send(regression[:, None, None]), rows.send(parameters)
        inner = np.linalg.inv(_fetch(batch.inverse[at, there[:, :, None], there[:, None]]))[:, is_tested]
        theta = batch.theta.reshape(len(batch.theta), -1)[regression[:, None], parameters]
        own, size = rank[edge][:, None], len(order)
        sums[size][own, order] += (inner @ theta[..., None])[..., 0]
        information[size][own[..., None], order[:, None], order] += inner[..., is_tested]
        is_square[size][own, order] = kinds[is_tested] == SQUARE
        n_ends[edge] += 1.0
        tasks.append((batch, regression, edge, parameters, order, inner))
    statistics = np.zeros((2, len(edges)))
    for size, own in alike.items():  # the variance of a sum is at most twice the sum of two variances
        statistics[:, own] = _statistics(sums[size], n_ends[own, None, None] * information[size], is_square[size])
    p_values = _combine(statistics, free)
    chosen = p_values <= SCREEN
    covariances, shares = _covariances(rows, tasks, {size: own[chosen[own]] for size, own in alike.items()}, len(edges))
    for (size, own), covariance in zip(alike.items(), covariances, strict=True):
        kept = own[chosen[own]]
        robust = _statistics(sums[size][chosen[own]], covariance, is_square[size][chosen[own]])
        statistics[:, kept] = np.minimum(shares[kept] * statistics[:, kept], np.square(shares[kept]) * robust)
    p_values[chosen] = _combine(statistics[:, chosen], free[:, chosen])
    return p_values


def _covariances(
    rows: Rows, tasks: Sequence[tuple[Any, ...]], alike: dict[int, np.ndarray], n_edges: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return covariances by squares of scores, (edges, scores, scores), of alike edges; and what shares of them hold.

    The shares, (edges,), are those of the information that observed cells have. Regressions have as many edges each by
    further ones without parameters, whose scores are added to a last one that is not used.
    """
    bounds = np.cumsum([0, *(size * len(own) for size, own in alike.items())])
    place_of, parts = np.full(n_edges, -1), []
    for start, (size, own) in zip(bounds, alike.items(), strict=False):
        place_of[own] = start + size * np.arange(len(own))
    (values, _, _, errors), xp = rows.arrays, _namespace(rows.arrays[0])
    for batch, regression, edge, parameters, order, inner in tasks:
        keep, (n, k, m) = place_of[edge] >= 0, batch.theta.shape
        if keep.any():
            regression, edge, parameters, inner = (part[keep] for part in (regression, edge, parameters, inner))
            turn, size = np.arange(len(edge)) - np.searchsorted(regression, regression), inner.shape[1]
            factors = 1.0 / np.sqrt(np.maximum(1.0 - batch.sizes / rows.n_independent, 0.25))
            place = np.full((n, turn.max() + 1, size), bounds[-1])
            place[regression, turn] = place_of[edge, None] + order
            scaled, at, turns = map(rows.send, (inner * factors[regression, None, None], regression, turn))
            projections = xp.zeros((*place.shape, k * m), dtype=xp.float64, device=values.device)
            projections[at, turns] = scaled @ batch.inverse[at[:, None], rows.send(parameters)]
            projections = xp.asarray(projections, dtype=xp.float32).reshape(n, -1, k, m)
            parts.append((edge, size, *map(rows.send, (batch.own, batch.source, place.ravel())), projections))
    known, covariances = np.zeros((2, n_edges)), [np.zeros(())] * len(alike)
    precision = xp.float32 if max(alike) == 1 else xp.float64
    for some in rows.chunks:
        scores = xp.zeros((int(bounds[-1]) + 1, some.stop - some.start), dtype=precision, device=values.device)
        for edge, size, own, source, place, projections in parts:
            sources, own_errors = values[source, some], errors[own, some]
            part: Any = sum(projections[:, :, a] @ sources * own_errors[:, a, None] for a in range(own.shape[1]))
            part = part.reshape(len(place), -1)
            scores[place] += part
            if rows.starts is not None:
                known[:, edge] += rows.information(part, some).reshape(2, len(edge), size).sum(axis=2)
        scores = rows.independent_sums(scores, some)
        for k, size in enumerate(alike):
            own = scores[bounds[k] : bounds[k + 1]].reshape(-1, size, scores.shape[1])
            covariances[k] = covariances[k] + _fetch(own @ own.swapaxes(1, 2))
    shares = np.maximum(known[1], 0.01 * known[0]) / np.where(known[0] > 0.0, known[0], 1.0)
    return covariances, shares if rows.starts is not None else np.ones(n_edges)


def _statistics(sums: np.ndarray, covariance: np.ndarray, is_square: np.ndarray) -> np.ndarray:
    """Return the Wald statistics, (2, edges), of linear features and of squares."""
    tests = (~is_square, is_square)
    return np.array([wald_test(sums * own, covariance * (own[:, None] & own[:, :, None]))[0] for own in tests])


def _combine(statistics: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Return the p-values of two tests, (2, edges), together; one without degrees of freedom is none."""
    p_values = chdtrc(degrees, statistics, where=degrees > 0, out=np.ones(statistics.shape))
    return np.minimum((degrees > 0).sum(axis=0) * p_values.min(axis=0), 1.0)
