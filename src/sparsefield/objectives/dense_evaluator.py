"""An objective on a mega-sample: loss and gradient summed over parts, and what induction needs of the same pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sparsefield.compute import BlockCollection, Engine
from sparsefield.data import Arcs, Block, DenseDataset, DistributedDataset, Layout, update_neighbor_sums
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
    def shown(self) -> list[list[EvaluatedBlock]]:
        """All of them here, table by table. To look at."""
        found: list[EvaluatedBlock] = self.parts.map(block_evaluation.show)
        return [[part for part in found if part.table == t] for t in range(len(self.layout.tables))]

    @property
    def errors(self) -> list[list[np.ndarray]]:
        """The same, block by block: (states, rows)."""
        return [[part.errors for part in table] for table in self.shown]

    @property
    def expectations(self) -> list[list[np.ndarray]]:
        """The same: (columns that are seen, rows)."""
        return [[part.expectations for part in table] for table in self.shown]


class DenseEvaluator:
    """Evaluates an objective on a mega-sample; owns the beliefs of its gaps."""

    keeps_errors = True

    def __init__(self, sample: DenseDataset | DistributedDataset, objective: Objective, engine: Engine) -> None:
        self.sample, self.layout = sample, sample.layout
        self.has_missing, self.total_weights = sample.has_missing, sample.total_weights
        self._objective, self._engine = objective, engine
        if isinstance(sample, DistributedDataset):
            self._rows, _ = engine.distribute(sample.shards).map_update(block_evaluation.of_first_table)
        else:
            self._rows = engine.distribute([EvaluatedBlock(table, block) for table, block in sample.blocks()])
        self._found, self._uncertainty = self._rows, np.empty(0)
        self._linked: list[tuple[int, Block]] = []
        self._told: list[Block] = []
        """Linked rows with gaps are filled together, and here; and what the engine was told of them last."""
        if isinstance(sample, DenseDataset) and sample.has_missing and sample.has_links:
            self._linked = [(t, block._replace(beliefs=block.beliefs.copy())) for t, block in sample.blocks()]
            self._told = [block for _, block in sample.blocks()]

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
        if self._linked:
            assert isinstance(self.sample, DenseDataset)
            fill_blocks(self.sample, self._by_table(), inference, graphs, theta, self._engine)
            pairs = zip(self._told, self._linked, strict=True)
            change = np.max([block_evaluation.moved(t, old, new, self.layout) for old, (t, new) in pairs], axis=0)
            self._tell_neighbors()
            return change
        self._rows, change = self._rows.map_update(
            block_evaluation.impute_missing, self.layout, inference, graphs, theta, combine=np.maximum
        )
        return change

    def missing_beliefs(self) -> np.ndarray:
        """q0 of all hidden cells, one after another."""
        return np.concatenate(self._rows.map(block_evaluation.missing, self.layout))

    def set_missing_beliefs(self, beliefs: np.ndarray) -> None:
        """Take over what `missing_beliefs` told."""
        if not len(beliefs):
            return
        counts = self._rows.map(block_evaluation.count_gaps, self.layout)
        pieces = np.split(beliefs, np.cumsum(counts)[:-1])
        if self._linked:
            for (t, block), piece in zip(self._linked, pieces, strict=True):
                block.beliefs[:] = block_evaluation.believe(EvaluatedBlock(t, block), piece, self.layout)[
                    0
                ].block.beliefs
            self._tell_neighbors()
            return
        self._rows, _ = self._rows.map_update(block_evaluation.believe, self.layout, each=pieces)

    def contrast(self) -> GradientFactors:
        """Errors and expectations of the last evaluation."""
        sums, unary = self._found.sum(block_evaluation.sums_of_middles, self.layout)
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
        sums, squares = self._rows.sum(block_evaluation.sums_of_beliefs, self.layout)
        mean, square = (np.concatenate(self._per_weight(values)) for values in (sums, squares))
        return mean, np.maximum(square - mean**2, 0.0)

    def moments_of(self, conjunctions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(conjunctions,) each: weighted mean and variance, over the rows of its table, of a product of columns."""
        weights = np.maximum(self.total_weights, np.finfo(float).tiny)
        total = self._rows.sum(block_evaluation.sums_of_products, self.layout, conjunctions)
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

    def _tell_neighbors(self) -> None:
        """Send linked rows what is now believed of their gaps, and what they see of their neighbors."""
        assert isinstance(self.sample, DenseDataset)
        update_neighbor_sums(self.sample, self._by_table(), self._engine.map)
        pairs = zip(self._told, self._linked, strict=True)
        self._rows, _ = self._rows.map_update(
            block_evaluation.hear, each=[block_evaluation.news_of(old, new) for old, (_, new) in pairs]
        )
        self._told = [block._replace(beliefs=block.beliefs.copy()) for _, block in self._linked]

    def _by_table(self) -> tuple[tuple[Block, ...], ...]:
        """Linked blocks, table by table."""
        tables = range(len(self.layout.tables))
        return tuple(tuple(block for t, block in self._linked if t == table) for table in tables)

    def _per_weight(self, sums: np.ndarray) -> list[np.ndarray]:
        """Sums over rows, of columns of all tables, as means, table by table."""
        by_table = np.split(sums, self.layout.column_starts[1:-1])
        tiny = np.finfo(float).tiny
        return [part / max(weight, tiny) for part, weight in zip(by_table, self.total_weights, strict=True)]
