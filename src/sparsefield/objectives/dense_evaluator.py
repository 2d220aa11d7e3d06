"""This module evaluates an objective on dense rows, and keeps the errors and expectations that induction needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sparsefield.compute import BlockCollection, Engine
from sparsefield.compute.dask_worker import identity
from sparsefield.data import Arcs, Block, Dataset, DenseDataset, Layout, update_neighbor_sums
from sparsefield.inference.method import InferenceMethod, fill_blocks
from sparsefield.model import Adjacency, compile_adjacency
from sparsefield.objectives import block_evaluation
from sparsefield.objectives.block_evaluation import EvaluatedBlock
from sparsefield.objectives.objective import Objective
from sparsefield.objectives.wald import wald_statistics


@dataclass(frozen=True)
class GradientFactors:
    """The errors and expectations of all blocks at one point, from which candidates are scored."""

    layout: Layout
    parts: BlockCollection
    """Items are `EvaluatedBlock`."""
    means: tuple[np.ndarray, ...]
    """Table by table, (columns,): weighted means of the expectations over all rows."""
    bias_gradient: tuple[np.ndarray, ...]
    """Table by table, (states,): gradient of each bias."""
    total_weights: Sequence[float]
    averaged: bool = False
    """Whether the expectations are (q0 + q1) / 2, see `Objective`."""

    @cached_property
    def local_blocks(self) -> list[list[EvaluatedBlock]]:
        """Copy all blocks to this process, table by table, for inspection."""
        found: list[EvaluatedBlock] = self.parts.map(identity)
        return [[part for part in found if part.table == t] for t in range(len(self.layout.tables))]

    @property
    def errors(self) -> list[list[np.ndarray]]:
        """Return the errors (states, rows), table by table and block by block."""
        return [[part.errors for part in table] for table in self.local_blocks]

    @property
    def expectations(self) -> list[list[np.ndarray]]:
        """Return the expectations (columns, rows), table by table and block by block."""
        return [[part.expectations for part in table] for table in self.local_blocks]


class DenseEvaluator:
    """An evaluator of dense rows, which owns the beliefs of their missing cells."""

    keeps_errors = True

    def __init__(self, sample: Dataset, objective: Objective, engine: Engine) -> None:
        self.layout = sample.layout
        self.has_missing, self.total_weights = sample.has_missing, sample.total_weights
        self._objective, self._engine = objective, engine
        self._rows: BlockCollection = sample.hold_blocks(engine, block_evaluation.as_evaluated)
        self._found, self._bias_hessian = self._rows, np.empty(0)
        self._linked = sample.if_linked() if sample.has_missing else None
        """Linked rows with missing cells are imputed together, in this process."""
        self._blocks: list[tuple[int, Block]] = []
        self._sent: list[Block] = []
        """Their blocks, and the blocks as the engine received them last."""
        if self._linked is not None:
            self._blocks = [(t, block._replace(beliefs=block.beliefs.copy())) for t, block in self._linked.blocks()]
            self._sent = [block for _, block in self._linked.blocks()]

    def compile(self, arcs: Arcs) -> tuple[Adjacency, ...]:
        """Return arcs in the form that the other methods take."""
        return compile_adjacency(self.layout, arcs)

    def evaluate(self, graphs: Sequence[Adjacency], theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return loss and gradient without penalties; `gradient` and `gradient_factors` then refer to this point."""
        self._found = self._rows  # frees the old errors before the new ones are computed
        self._found, found = self._rows.map_update(
            block_evaluation.evaluate, self.layout, self._objective, graphs, theta
        )
        loss, gradient, self._bias_hessian = found
        return float(loss), gradient

    def gradient(self, graphs: Sequence[Adjacency], size: int) -> np.ndarray:
        """Return the gradient of graphs with ``size`` parameters, from the errors of the last evaluation."""
        return self._found.sum(block_evaluation.gradient, self._objective.averaged, graphs, size)

    def impute_missing(self, inference: InferenceMethod, graphs: Sequence[Adjacency], theta: np.ndarray) -> float:
        """Impute missing cells and return the largest change of a belief."""
        return float(self._impute(inference, graphs, theta).max(initial=0.0))

    def _impute(self, inference: InferenceMethod, graphs: Sequence[Adjacency], theta: np.ndarray) -> np.ndarray:
        """Impute missing cells and return the largest change of the beliefs of each state (states,)."""
        if self._linked is not None:
            fill_blocks(self._linked, self._by_table(), inference, graphs, theta, self._engine)
            pairs = zip(self._sent, self._blocks, strict=True)
            changes = [block_evaluation.largest_change(t, old, new, self.layout) for old, (t, new) in pairs]
            self._send_blocks(self._linked)
            return np.max(changes, axis=0)
        self._rows, change = self._rows.map_update(
            block_evaluation.impute_missing, self.layout, inference, graphs, theta, combine=np.maximum
        )
        return change

    def missing_beliefs(self) -> np.ndarray:
        """Return q0 of all missing cells, concatenated."""
        return np.concatenate(self._rows.map(block_evaluation.missing_beliefs, self.layout))

    def set_missing_beliefs(self, beliefs: np.ndarray) -> None:
        """Replace q0 of all missing cells by an array as `missing_beliefs` returns it."""
        if not len(beliefs):
            return
        counts = self._rows.map(block_evaluation.count_missing, self.layout)
        pieces = np.split(beliefs, np.cumsum(counts)[:-1])
        if self._linked is not None:
            for (t, block), piece in zip(self._blocks, pieces, strict=True):
                updated, _ = block_evaluation.set_missing(EvaluatedBlock(t, block), piece, self.layout)
                block.beliefs[:] = updated.block.beliefs
            self._send_blocks(self._linked)
            return
        self._rows, _ = self._rows.map_update(block_evaluation.set_missing, self.layout, each=pieces)

    def gradient_factors(self) -> GradientFactors:
        """Return the errors and expectations of the last evaluation."""
        sums, bias_gradient = self._found.sum(block_evaluation.sum_factors, self.layout)
        return GradientFactors(
            self.layout,
            self._found,
            means=tuple(self._per_weight(sums)),
            bias_gradient=tuple(np.split(bias_gradient, self.layout.state_starts[1:-1])),
            total_weights=self.total_weights,
            averaged=self._objective.averaged,
        )

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the weighted mean and variance of q0 over the rows, (columns of all tables,) each."""
        sums, squares = self._rows.sum(block_evaluation.sum_beliefs, self.layout)
        mean, square = (np.concatenate(self._per_weight(values)) for values in (sums, squares))
        return mean, np.maximum(square - mean**2, 0.0)

    def moments_of(self, conjunctions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the weighted mean and variance of products of columns over the rows, (conjunctions,) each."""
        weights = np.maximum(self.total_weights, np.finfo(float).tiny)
        total = self._rows.sum(block_evaluation.sum_products, self.layout, conjunctions)
        total = total / weights[self.layout.table_of_column[conjunctions[:, 0]], None]
        return total[:, 0], np.maximum(total[:, 1] - total[:, 0] ** 2, 0.0)

    def bias_hessian(self) -> np.ndarray:
        """Return the sum over rows of p (1 - p) (states,), the curvature of biases."""
        return self._bias_hessian

    def wald_statistics(self, arcs: Arcs, weights: np.ndarray) -> np.ndarray:
        """Return Wald statistics (features,) at the point of the last evaluation: see `sparsefield.objectives.wald`."""
        return wald_statistics(self.layout, self._found, arcs, weights)

    def arc_hessian(self, graphs: Sequence[Adjacency]) -> None:
        """Return None: for single arcs it would take as long as a gradient."""

    def state(self, graphs: Sequence[Adjacency]) -> dict[str, np.ndarray]:
        """Return what another evaluation at the same point would not reproduce to the bit: nothing."""
        return {}

    def restore(self, graphs: Sequence[Adjacency], state: Mapping[str, np.ndarray]) -> None:
        """Restore what `state` returned."""

    def _send_blocks(self, sample: DenseDataset) -> None:
        """Send the engine the new beliefs of linked rows, and the sums over their neighbors."""
        update_neighbor_sums(sample, self._by_table(), self._engine.map)
        pairs = zip(self._sent, self._blocks, strict=True)
        changes = [block_evaluation.find_changes(old, new) for old, (_, new) in pairs]
        self._rows, _ = self._rows.map_update(block_evaluation.apply_changes, each=changes)
        self._sent = [block._replace(beliefs=block.beliefs.copy()) for _, block in self._blocks]

    def _by_table(self) -> tuple[tuple[Block, ...], ...]:
        """Return the linked blocks, table by table."""
        tables = range(len(self.layout.tables))
        return tuple(tuple(block for t, block in self._blocks if t == table) for table in tables)

    def _per_weight(self, sums: np.ndarray) -> list[np.ndarray]:
        """Divide sums over rows (columns of all tables,) by the weight of the rows, table by table."""
        by_table = np.split(sums, self.layout.column_starts[1:-1])
        tiny = np.finfo(float).tiny
        return [part / max(weight, tiny) for part, weight in zip(by_table, self.total_weights, strict=True)]
