"""This module draws missing cells several times, with weights that are drawn from their uncertainty each time.

Each imputation is a chain of its own that alternates two steps (data augmentation, Tanner and Wong 1987): missing cells
are drawn from the field, and the weights of the field are estimated from the completed rows, whose weights are those of
a Bayesian bootstrap. That is an approximate draw from the posterior distribution of the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event, Lock

import numpy as np

from sparsefield.analysis.weight_draws import (
    CompleteRowsObjective,
    WhitenedCoordinates,
    bootstrap_weights,
    estimate_weights,
)
from sparsefield.compute import Engine, Threads
from sparsefield.data import Block, Layout, Table
from sparsefield.data.table import missing_cells
from sparsefield.kernels import row_draws as kernels
from sparsefield.model import Adjacency, Field

WARM_UP = 2
"""The common start of all chains takes as many times their iterations: it begins at weights that L1 has shrunk."""

SWEEPS = 1
"""Gibbs sweeps over the missing cells in an iteration."""

LAST_SWEEPS = 10
"""Gibbs sweeps before the first estimate of the weights, and after the last one."""


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
