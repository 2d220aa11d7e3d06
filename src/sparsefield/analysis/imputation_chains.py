"""Chains of data augmentation: missing cells are drawn several times, with weights drawn from their uncertainty.

Each imputation is a chain of its own that alternates two steps (data augmentation, Tanner and Wong 1987): missing cells
are drawn from the field, and the weights of the field are estimated from the completed rows, whose weights are those of
a Bayesian bootstrap. That is an approximate draw from the posterior distribution of the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Event, Lock

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from sparsefield.compute import Engine, Threads
from sparsefield.data import Block, Layout, Table
from sparsefield.data.table import missing_cells
from sparsefield.kernels import row_draws as kernels
from sparsefield.model import Adjacency, Field
from sparsefield.objectives.block_evaluation import EvaluatedBlock, evaluate_regressions
from sparsefield.objectives.curvature import regression_hessians, sample_rows
from sparsefield.objectives.regressions import DividedTable, divide

WARM_UP = 2
"""The common start of all chains takes as many times their iterations: it begins at weights that L1 has shrunk."""

SWEEPS = 1
"""Gibbs sweeps over the missing cells in an iteration."""

LAST_SWEEPS = 10
"""Gibbs sweeps before the first estimate of the weights, and after the last one."""


MAX_PARAMETERS = 3000
"""Number of parameters up to which the whole Hessian is factorized; beyond, its diagonal has to do."""

MAX_HALVINGS, SUFFICIENT_DECREASE = 20, 1e-4
"""Limits of the line search, which hardly ever has to shorten a step."""

BIAS_RIDGE = 1e-3
"""L2 penalty of a bias, which keeps those of absent states finite: it is far below the weight of one row."""

MAX_ITERATIONS = 30
TOLERANCE = 0.1
"""Largest entry of the gradient, in standard errors of complete rows, at which weights are near enough to an optimum:
this error is far smaller than the uncertainty that the weights are drawn from."""


@dataclass(frozen=True)
class ImputationOptions:
    """How missing cells are imputed several times."""

    m: int
    iterations: int
    seed: int
    l2: float
    """L2 penalty of the weights."""
    proper: bool = True
    """Whether weights are drawn, too."""
    shifts: np.ndarray | None = None
    """Added to the biases of missing cells, (states,)."""


def draw_imputations(
    field: Field,
    table: Table,
    options: ImputationOptions,
    engine: Engine,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """Return the codes of all cells in each imputation, int32, (imputations, targets, rows).

    ``progress`` is called with the number of iterations done and the total. The result does not depend on the engine.
    """
    total = options.iterations * (options.m + WARM_UP) if options.proper else options.m
    count = _Counter(total, progress)
    with Threads(1) as inner:  # chains are shared out to threads, not the work in them
        chains = _Chains(field, table, options, inner, count)
        try:
            return np.stack(engine.map(chains.run, range(1, options.m + 1)))
        finally:
            count.stop()  # an interrupt must not wait for the chains of other threads


class _Counter:
    """Counts iterations of chains in all threads, and tells them to stop."""

    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self._done, self._total, self._progress, self._lock = 0, total, progress, Lock()
        self._stopped = Event()

    def add(self, more: int = 1) -> None:
        with self._lock:
            self._done += more
            if self._progress is not None:
                self._progress(self._done, self._total)
        if self._stopped.is_set():
            raise InterruptedError("The imputation was stopped.")

    def stop(self) -> None:
        """Let the chains that still run fail at their next iteration."""
        self._stopped.set()


class _Chains:
    """What the chains of all imputations share: the rows, the features, and the weights that they start from."""

    def __init__(self, field: Field, table: Table, options: ImputationOptions, engine: Engine, count: _Counter) -> None:
        self._options, self._engine, self._count = options, engine, count
        self._layout: Layout = field.layout
        self._graph: Adjacency = field.graphs[0]
        self._blocks, self._n_rows = table.blocks, table.n_rows
        self._base_weight = table.weight()
        self._theta = field.theta
        self._shifts = np.zeros(len(self._theta))
        if options.shifts is not None:
            self._shifts[: len(options.shifts)] = options.shifts
        if options.proper:
            self._objective = CompleteRowsObjective(self._layout, self._graph, options.l2, len(self._theta))
            self._theta, self._whitened = self._warm_up()

    def run(self, number: int) -> np.ndarray:
        """Return the codes (targets, rows) of an imputation."""
        cells, theta, options = self._open(number), self._theta, self._options
        rng = np.random.default_rng([options.seed, number])
        if options.proper:
            cells.draw(theta + self._shifts, LAST_SWEEPS)
            for _ in range(options.iterations):
                weight = self._base_weight * bootstrap_weights(self._n_rows, rng)
                blocks = cells.completed(weight)
                theta = estimate_weights(self._objective, self._whitened, theta, blocks, self._engine)
                cells.draw(theta + self._shifts, SWEEPS)
                self._count.add()
        else:
            self._count.add()
        cells.draw(theta + self._shifts, LAST_SWEEPS)
        return cells.codes()

    def _warm_up(self) -> tuple[np.ndarray, WhitenedCoordinates]:
        """Return weights near the optimum without L1, from which all chains start, and their coordinates."""
        cells, theta, rounds = self._open(0), self._theta, WARM_UP * self._options.iterations
        cells.draw(theta + self._shifts, LAST_SWEEPS)
        whitened = self._whiten(theta, cells)
        for _ in range(rounds):
            theta = estimate_weights(self._objective, whitened, theta, cells.completed(self._base_weight), self._engine)
            cells.draw(theta + self._shifts, SWEEPS)
            self._count.add()
        return theta, self._whiten(theta, cells)

    def _whiten(self, theta: np.ndarray, cells: _DrawnCells) -> WhitenedCoordinates:
        blocks = cells.completed(self._base_weight)
        return WhitenedCoordinates(self._objective.hessian(theta, blocks, self._engine))

    def _open(self, number: int) -> _DrawnCells:
        return _DrawnCells(self._blocks, self._graph, (self._options.seed, number))


class _DrawnCells:
    """The missing cells of all blocks in one chain; ``key`` determines its random numbers."""

    def __init__(self, blocks: Sequence[Block], graph: Adjacency, key: tuple[int, int]) -> None:
        self._blocks, self._graph = blocks, graph
        seed = int(np.random.SeedSequence(key).generate_state(1, np.uint32)[0])
        self._parts = [_BlockCells.of(block, graph, seed) for block in blocks]
        self._seed, self._number = seed, 0

    def draw(self, theta: np.ndarray, sweeps: int) -> None:
        """Draw all missing cells by Gibbs sampling, from those that were drawn last."""
        self._number += 1
        for part in self._parts:
            if not len(part.rows):
                continue
            keys = kernels.row_keys(self._seed, self._number, np.zeros(len(part.rows), dtype=np.int64), part.numbers)
            kernels.draw_rows(
                self._graph, theta, part.cell_offsets, part.missing_rows, keys, sweeps, part.columns, part.drawn
            )

    def completed(self, weight: np.ndarray) -> list[Block]:
        """Return the blocks with the drawn cells, and given weights of the rows."""
        pairs = zip(self._blocks, self._parts, strict=True)
        return [part.complete(block, weight[block.rows]) for block, part in pairs]

    def codes(self) -> np.ndarray:
        """Return the codes (targets, rows) of all cells."""
        pairs = zip(self._blocks, self._parts, strict=True)
        return np.concatenate([part.codes_of(block) for block, part in pairs], axis=1)


@dataclass(frozen=True)
class _BlockCells:
    """The missing cells of the incomplete rows of a block."""

    rows: np.ndarray
    """(incomplete rows,)"""
    numbers: np.ndarray
    """(incomplete rows,): their numbers in the table."""
    cell_offsets: np.ndarray
    missing_rows: np.ndarray
    """As in a `Block`, with positions among the incomplete rows."""
    columns: np.ndarray
    """(columns, incomplete rows), updated by draws."""
    drawn: np.ndarray
    """(missing cells, 1): codes, updated by draws."""

    @classmethod
    def of(cls, block: Block, graph: Adjacency, seed: int) -> _BlockCells:
        rows = np.flatnonzero((block.codes < 0).any(axis=0))
        offsets, missing_rows = missing_cells(np.ascontiguousarray(block.codes[:, rows]))
        columns, drawn = np.ascontiguousarray(block.beliefs[:, rows]), np.zeros((len(missing_rows), 1), dtype=np.int32)
        numbers = block.start + rows
        keys = kernels.row_keys(seed, 0, np.zeros(len(rows), dtype=np.int64), numbers)
        kernels.draw_frequencies(graph.coding, offsets, missing_rows, keys, drawn)
        kernels.set_columns(graph, offsets, missing_rows, drawn, columns)
        return cls(rows, numbers, offsets, missing_rows, columns, drawn)

    def codes_of(self, block: Block) -> np.ndarray:
        """Return the codes of the block (targets, rows) with the drawn ones."""
        codes = block.codes.copy()
        variable = np.repeat(np.arange(len(codes)), np.diff(self.cell_offsets))
        codes[variable, self.rows[self.missing_rows]] = self.drawn[:, 0]
        return codes

    def complete(self, block: Block, weight: np.ndarray) -> Block:
        """Return the block without missing cells."""
        beliefs = block.beliefs.copy()
        beliefs[:, self.rows] = self.columns
        return block._replace(
            codes=self.codes_of(block),
            beliefs=beliefs,
            weight=weight,
            cell_offsets=np.zeros(len(block.codes) + 1, dtype=np.int64),
            missing_rows=np.empty(0, dtype=np.int64),
        )


class CompleteRowsObjective:
    """The pseudo-likelihood of the features of a field over one table, on rows without missing cells.

    Parameters
    ----------
    layout : layout of one table
    graph : arcs of the features
    l2 : L2 penalty of the weights of features
    """

    def __init__(self, layout: Layout, graph: Adjacency, l2: float, size: int) -> None:
        self.layout, self.graph = layout, graph
        self._l2 = np.full(size, l2)
        self._l2[: layout.n_target_columns] = BIAS_RIDGE
        self._divided: DividedTable | None = None

    def evaluate(self, theta: np.ndarray, blocks: Sequence[Block], engine: Engine) -> tuple[float, np.ndarray]:
        """Return the penalized loss and its gradient."""
        tables = (self._pieces(blocks),)
        weights = [[piece.weight_matrix(theta, int(self.layout.widths[0])) for piece in tables[0].pieces]]
        rows = engine.distribute([EvaluatedBlock(0, block) for block in blocks])
        _, (loss, gradient, _) = rows.map_update(evaluate_regressions, self.layout, tables, theta, weights)
        penalty = self._l2 * theta
        return float(loss) + 0.5 * float(penalty @ theta), gradient + penalty

    def _pieces(self, blocks: Sequence[Block]) -> DividedTable:
        if self._divided is None:
            self._divided = divide(self.graph, int(self.layout.widths[0]), blocks[0].n_rows, len(blocks))
        return self._divided

    def hessian(self, theta: np.ndarray, blocks: Sequence[Block], engine: Engine) -> np.ndarray:
        """Return the Hessian at theta (parameters, parameters); its diagonal, (parameters,), if it is too large."""
        rows = engine.distribute([EvaluatedBlock(0, block) for block in blocks])
        penalized = np.zeros(self.layout.n_target_columns, dtype=bool)
        parts = regression_hessians(
            sample_rows(rows, 1), self.layout, (self.graph,), theta, penalized, lambda f, tasks: list(map(f, tasks))
        )
        if len(theta) > MAX_PARAMETERS:
            diagonal = self._l2.copy()
            for part in parts:
                diagonal[part.parameters] += part.matrix.diagonal()
            return diagonal
        found = np.diag(self._l2)
        for part in parts:
            found[np.ix_(part.parameters, part.parameters)] += part.matrix
        return found


class WhitenedCoordinates:
    """Coordinates of the weights in which their Hessian is about the identity: distances are in standard errors."""

    def __init__(self, hessian: np.ndarray) -> None:
        self._hessian = hessian

    @cached_property
    def _inverse_factor(self) -> np.ndarray:
        """The inverse of the Cholesky factor of the Hessian: products with it are cheaper than solutions."""
        # Hessians are computed in single precision: small eigenvalues may come out negative.
        ridge = 1e-6 * float(self._hessian.diagonal().max(initial=1.0))
        identity = np.eye(len(self._hessian))
        return solve_triangular(cholesky(self._hessian + ridge * identity, lower=True), identity, lower=True)

    def to_weights(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the step of the weights for a step of the coordinates."""
        if self._hessian.ndim == 1:
            return coordinates / np.sqrt(self._hessian)
        return coordinates @ self._inverse_factor

    def to_gradient(self, gradient: np.ndarray) -> np.ndarray:
        """Return the gradient by the coordinates, from that by the weights."""
        if self._hessian.ndim == 1:
            return gradient / np.sqrt(self._hessian)
        return self._inverse_factor @ gradient


def estimate_weights(
    objective: CompleteRowsObjective,
    whitened: WhitenedCoordinates,
    start: np.ndarray,
    blocks: Sequence[Block],
    engine: Engine,
) -> np.ndarray:
    """Return the weights that minimize the penalized pseudo-likelihood of complete, weighted rows, from a start."""

    def evaluate(step: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective.evaluate(start + whitened.to_weights(step), blocks, engine)
        return value, whitened.to_gradient(gradient)

    return start + whitened.to_weights(_minimize(evaluate, len(start)))


def _minimize(evaluate: Callable[[np.ndarray], tuple[float, np.ndarray]], size: int) -> np.ndarray:
    """Return the minimum of a convex function, from 0, by L-BFGS whose first steps have length 1.

    The Hessian is about the identity, so that these are Newton steps.
    """
    point = np.zeros(size)
    value, gradient = evaluate(point)
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(MAX_ITERATIONS):
        if np.abs(gradient).max(initial=0.0) <= TOLERANCE:
            break
        direction = -_times_inverse_hessian(gradient, pairs)
        for _ in range(MAX_HALVINGS):
            new_value, new_gradient = evaluate(point + direction)
            if new_value <= value + SUFFICIENT_DECREASE * float(gradient @ direction):
                break
            direction = 0.5 * direction
        else:
            break
        change = new_gradient - gradient
        if change @ direction > 0.0:
            pairs.append((direction, change))
        point, value, gradient = point + direction, new_value, new_gradient
    return point


def _times_inverse_hessian(gradient: np.ndarray, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return the product with the inverse Hessian by the two loops of L-BFGS, which starts at the identity."""
    found, factors = gradient.copy(), []
    for step, change in reversed(pairs):
        factors.append(float(step @ found) / float(step @ change))
        found -= factors[-1] * change
    for (step, change), factor in zip(pairs, reversed(factors), strict=True):
        found += (factor - float(change @ found) / float(step @ change)) * step
    return found


def bootstrap_weights(n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return the weights of rows in a Bayesian bootstrap (Rubin 1981), (rows,): uniform, with mean 1."""
    found = rng.standard_exponential(n_rows)
    return found * (n_rows / found.sum())
