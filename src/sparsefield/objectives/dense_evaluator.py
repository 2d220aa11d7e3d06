"""An objective on a mega-sample: loss and gradient summed over parts, and what induction needs of the same pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sparsefield.compute import BlockCollection, Engine
from sparsefield.data import Arcs, Block, Dataset, DenseDataset, Layout, update_neighbor_sums
from sparsefield.inference.method import InferenceMethod, fill_blocks
from sparsefield.model import Adjacency, compile_adjacency
from sparsefield.objectives import block_evaluation
from sparsefield.objectives.block_evaluation import EvaluatedBlock
from sparsefield.objectives.objective import Objective
from sparsefield.objectives.wald import wald_statistics

__all__ = ["DenseEvaluator", "GradientFactors"]


@dataclass(frozen=True)
class GradientFactors:
    """Errors and expectations of all parts at one point: all that scoring a candidate takes."""

    layout: Layout
    parts: BlockCollection
    """`EvaluatedBlock` by `EvaluatedBlock`, with errors and expectations."""
    means: tuple[np.ndarray, ...]
    """Table by table, (columns,): weighted means of the expectations over all rows."""
    unary: tuple[np.ndarray, ...]
    """Table by table, (states,): gradient of each unary feature."""
    total_weights: Sequence[float]
    averaged: bool = False
    """Whether the expectations are (q0 + q1) / 2, see `Objective`."""

    @cached_property
    def local_blocks(self) -> list[list[EvaluatedBlock]]:
        """All blocks in this process, table by table, for inspection."""
        found: list[EvaluatedBlock] = self.parts.map(block_evaluation.identity)
        return [[part for part in found if part.table == t] for t in range(len(self.layout.tables))]

    @property
    def errors(self) -> list[list[np.ndarray]]:
        """Errors, table by table and block by block: (states, rows)."""
        return [[part.errors for part in table] for table in self.local_blocks]

    @property
    def expectations(self) -> list[list[np.ndarray]]:
        """Expectations, table by table and block by block: (columns, rows)."""
        return [[part.expectations for part in table] for table in self.local_blocks]


class DenseEvaluator:
    """Evaluates an objective on a mega-sample; owns the beliefs of its gaps."""

    keeps_errors = True

    def __init__(self, sample: Dataset, objective: Objective, engine: Engine) -> None:
        self.layout = sample.layout
        self.has_missing, self.total_weights = sample.has_missing, sample.total_weights
        self._objective, self._engine = objective, engine
        self._rows: BlockCollection = sample.hold_blocks(engine, block_evaluation.as_evaluated)
        self._found, self._uncertainty = self._rows, np.empty(0)
        self._linked = sample.if_linked() if sample.has_missing else None
        """Linked rows with missing cells are imputed together, in this process."""
        self._blocks: list[tuple[int, Block]] = []
        self._sent: list[Block] = []
        """Their blocks, and the blocks as the engine received them last."""
        if self._linked is not None:
            self._blocks = [(t, block._replace(beliefs=block.beliefs.copy())) for t, block in self._linked.blocks()]
            self._sent = [block for _, block in self._linked.blocks()]

    def compile(self, arcs: Arcs) -> tuple[Adjacency, ...]:
        """Arcs in the form that the other methods take."""
        return compile_adjacency(self.layout, arcs)

    def evaluate(self, graphs: Sequence[Adjacency], theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss and gradient, without penalties. Leaves errors and expectations for `gradient` and `contrast`."""
        self._found = self._rows  # gives back the errors before there are new ones
        self._found, found = self._rows.map_update(
            block_evaluation.evaluate, self.layout, self._objective, graphs, theta
        )
        loss, gradient, self._uncertainty = found
        return float(loss), gradient

    def gradient(self, graphs: Sequence[Adjacency], size: int) -> np.ndarray:
        """Gradient of graphs with ``size`` parameters, from the errors of the last evaluation."""
        return self._found.sum(block_evaluation.gradient, self._objective.averaged, graphs, size)

    def impute_missing(self, inference: InferenceMethod, graphs: Sequence[Adjacency], theta: np.ndarray) -> float:
        """Re-estimate q0 of the hidden cells; returns the largest change of a belief."""
        return float(self._fill(inference, graphs, theta).max(initial=0.0))

    def _fill(self, inference: InferenceMethod, graphs: Sequence[Adjacency], theta: np.ndarray) -> np.ndarray:
        """The same; (states,): of the beliefs of each state."""
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
        """q0 of all hidden cells, one after another."""
        return np.concatenate(self._rows.map(block_evaluation.missing_beliefs, self.layout))

    def set_missing_beliefs(self, beliefs: np.ndarray) -> None:
        """Take over what `missing_beliefs` told."""
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

    def contrast(self) -> GradientFactors:
        """Errors and expectations of the last evaluation."""
        sums, unary = self._found.sum(block_evaluation.sum_factors, self.layout)
        return GradientFactors(
            self.layout,
            self._found,
            means=tuple(self._per_weight(sums)),
            unary=tuple(np.split(unary, self.layout.state_starts[1:-1])),
            total_weights=self.total_weights,
            averaged=self._objective.averaged,
        )

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """(columns of all tables,) each: weighted mean and variance of q0 over the rows."""
        sums, squares = self._rows.sum(block_evaluation.sum_beliefs, self.layout)
        mean, square = (np.concatenate(self._per_weight(values)) for values in (sums, squares))
        return mean, np.maximum(square - mean**2, 0.0)

    def moments_of(self, conjunctions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(conjunctions,) each: weighted mean and variance, over the rows of its table, of a product of columns."""
        weights = np.maximum(self.total_weights, np.finfo(float).tiny)
        total = self._rows.sum(block_evaluation.sum_products, self.layout, conjunctions)
        total = total / weights[self.layout.table_of_column[conjunctions[:, 0]], None]
        return total[:, 0], np.maximum(total[:, 1] - total[:, 0] ** 2, 0.0)

    def uncertainty(self) -> np.ndarray:
        """(states,): p (1 - p) summed over rows: a sure prediction has little curvature."""
        return self._uncertainty

    def wald_statistics(self, arcs: Arcs, weights: np.ndarray) -> np.ndarray:
        """(features,): see `sparsefield.objectives.wald`; at the point of the last evaluation."""
        return wald_statistics(self.layout, self._found, arcs, weights)

    def shared_uncertainty(self, graphs: Sequence[Adjacency]) -> None:
        """Not known for single arcs: it would take as long as a gradient."""

    def state(self, graphs: Sequence[Adjacency]) -> dict[str, np.ndarray]:
        """What another evaluation at the same point would not give back to the bit: nothing."""
        return {}

    def restore(self, graphs: Sequence[Adjacency], state: Mapping[str, np.ndarray]) -> None:
        """Take over what `state` told."""

    def _send_blocks(self, sample: DenseDataset) -> None:
        """Send the engine the new beliefs of linked rows, and the sums over their neighbors."""
        update_neighbor_sums(sample, self._by_table(), self._engine.map)
        pairs = zip(self._sent, self._blocks, strict=True)
        changes = [block_evaluation.find_changes(old, new) for old, (_, new) in pairs]
        self._rows, _ = self._rows.map_update(block_evaluation.apply_changes, each=changes)
        self._sent = [block._replace(beliefs=block.beliefs.copy()) for _, block in self._blocks]

    def _by_table(self) -> tuple[tuple[Block, ...], ...]:
        """Linked blocks, table by table."""
        tables = range(len(self.layout.tables))
        return tuple(tuple(block for t, block in self._blocks if t == table) for table in tables)

    def _per_weight(self, sums: np.ndarray) -> list[np.ndarray]:
        """Sums over rows, of columns of all tables, as means, table by table."""
        by_table = np.split(sums, self.layout.column_starts[1:-1])
        tiny = np.finfo(float).tiny
        return [part / max(weight, tiny) for part, weight in zip(by_table, self.total_weights, strict=True)]
