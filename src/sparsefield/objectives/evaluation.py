"""An objective on a mega-sample: loss and gradient summed over blocks, and what induction needs of the same pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sparsefield.data import Arcs, MegaSample, look_around
from sparsefield.engines import Threads
from sparsefield.field import Graph, compile_graphs
from sparsefield.inference.base import InferenceMethod
from sparsefield.inference.web import fill_blocks
from sparsefield.kernels.sweep import add_changed_conjunctions, add_conjunctions, gradient, product_moments, uncertainty
from sparsefield.objectives.base import Objective
from sparsefield.objectives.evidence import wald_statistics

__all__ = ["Contrast", "Evaluator"]

Blocks = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Contrast:
    """Errors and middles of all blocks at one point: all that scoring a candidate takes."""

    errors: tuple[Blocks, ...]
    """Table by table, block by block: (states, rows)."""
    middles: tuple[Blocks, ...]
    """(columns that are seen, rows)"""
    weights: tuple[Blocks, ...]
    """(rows,)"""
    means: tuple[np.ndarray, ...]
    """Table by table, (columns,): weighted means of the middles over all rows."""
    unary: tuple[np.ndarray, ...]
    """Table by table, (states,): gradient of each unary feature."""
    averaged: bool = False
    """Whether the middles are (q0 + q1) / 2, see `Objective`."""


class Evaluator:
    """Evaluates an objective on a mega-sample; owns the beliefs of its gaps."""

    keeps_errors = True

    def __init__(self, sample: MegaSample, objective: Objective, engine: Threads) -> None:
        self.sample, self.layout = sample, sample.layout
        self.has_gaps = sample.has_gaps
        self._objective, self._engine = objective, engine
        self._tables = [t for t, _ in sample.blocks()]
        self._blocks = [block for _, block in sample.blocks()]
        if self.has_gaps:
            # What a gap is believed to hold changes during learning, and so does what its row's neighbours see.
            copied = [sample.has_links or len(block.gap_rows) > 0 for block in self._blocks]
            parts = zip(self._blocks, copied, strict=True)
            self._blocks = [b._replace(beliefs=b.beliefs.copy()) if copy else b for b, copy in parts]
        self._spaces = [objective.prepare(block) for block in self._blocks]
        self.total_weights = [table.total_weight for table in sample.tables]

    def compile(self, arcs: Arcs) -> tuple[Graph, ...]:
        """Arcs in the form that the other methods take."""
        return compile_graphs(self.layout, arcs)

    def evaluate(self, graphs: Sequence[Graph], theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss and gradient, without penalties. Leaves errors and middles for `gradient` and `contrast`."""

        def one(k: int) -> tuple[float, np.ndarray]:
            loss = self._objective.sweep(self._blocks[k], graphs[self._tables[k]], theta, self._spaces[k])
            return loss, self._block_gradient(k, graphs, len(theta))

        parts = self._engine.map(one, range(len(self._blocks)))
        return float(sum(loss for loss, _ in parts)), _add([part for _, part in parts])

    def gradient(self, graphs: Sequence[Graph], size: int) -> np.ndarray:
        """Gradient of graphs with ``size`` parameters, from the errors of the last evaluation."""
        return _add(self._engine.map(lambda k: self._block_gradient(k, graphs, size), range(len(self._blocks))))

    def fill_gaps(self, inference: InferenceMethod, graphs: Sequence[Graph], theta: np.ndarray) -> float:
        """Re-estimate q0 of the hidden cells; returns the largest change of a belief."""
        before = [block.beliefs[: block.n_target_states].copy() for block in self._blocks]
        fill_blocks(self.sample, self._by_table(self._blocks), inference, graphs, theta, self._engine)
        if self.sample.has_links:
            look_around(self.sample, self._by_table(self._blocks), self._engine.map)
        parts = zip(self._blocks, before, strict=True)
        changes = [float(np.abs(b.beliefs[: b.n_target_states] - old).max(initial=0.0)) for b, old in parts]
        return max(changes, default=0.0)

    def beliefs_in_gaps(self) -> np.ndarray:
        """q0 of all hidden cells, one after another."""
        parts = [block.beliefs[: block.n_target_states][self._gaps(k)] for k, block in enumerate(self._blocks)]
        return np.concatenate(parts)

    def believe_in_gaps(self, beliefs: np.ndarray) -> None:
        """Take over what `beliefs_in_gaps` told."""
        start = 0
        for k, block in enumerate(self._blocks):
            gaps = self._gaps(k)
            count = int(gaps.sum())
            if count:
                block.beliefs[: block.n_target_states][gaps] = beliefs[start : start + count]
            start += count
        if self.has_gaps and self.sample.has_links:
            look_around(self.sample, self._by_table(self._blocks), self._engine.map)

    def contrast(self) -> Contrast:
        """Errors and middles of the last evaluation."""
        weights = [block.weight for block in self._blocks]
        sums = self._engine.map(lambda k: self._spaces[k].middles @ weights[k], range(len(self._blocks)))
        unary = self._engine.map(lambda space: space.errors.sum(axis=1), self._spaces)
        return Contrast(
            errors=self._by_table([space.errors for space in self._spaces]),
            middles=self._by_table([space.middles for space in self._spaces]),
            weights=self._by_table(weights),
            means=tuple(_add(part) / weight for part, weight in self._with_weights(sums)),
            unary=tuple(_add(part) for part in self._by_table(unary)),
            averaged=self._objective.averaged,
        )

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """(columns of all tables,) each: weighted mean and variance of q0 over the rows."""
        sums = [block.beliefs @ block.weight for block in self._blocks]
        squares = [np.square(block.beliefs) @ block.weight for block in self._blocks]
        mean = np.concatenate([_add(part) / weight for part, weight in self._with_weights(sums)])
        square = np.concatenate([_add(part) / weight for part, weight in self._with_weights(squares)])
        return mean, np.maximum(square - mean**2, 0.0)

    def moments_of(self, conjunctions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(conjunctions,) each: weighted mean and variance, over the rows of its table, of a product of columns."""
        mean, variance = np.zeros(len(conjunctions)), np.zeros(len(conjunctions))
        table = self.layout.table_of_column[conjunctions[:, 0]]
        for t in np.unique(table):
            mine = np.flatnonzero(table == t)
            start = self.layout.column_starts[t]
            which = np.where(conjunctions[mine] >= 0, conjunctions[mine] - start, -1)
            total = np.zeros((len(mine), 2))
            for owner, block in zip(self._tables, self._blocks, strict=True):
                if owner == t:
                    part = np.empty_like(total)
                    product_moments(block.beliefs, block.weight, which, part)
                    total += part
            total /= max(self.total_weights[t], np.finfo(float).tiny)
            mean[mine], variance[mine] = total[:, 0], np.maximum(total[:, 1] - total[:, 0] ** 2, 0.0)
        return mean, variance

    def uncertainty(self) -> np.ndarray:
        """(states,): p (1 - p) summed over rows, read off the errors: a sure prediction has little curvature."""

        def one(k: int) -> np.ndarray:
            out = np.empty(len(self._spaces[k].errors))
            uncertainty(self._spaces[k].errors, self._blocks[k].weight, out)
            return out

        parts = self._engine.map(one, range(len(self._blocks)))
        return np.concatenate([_add(part) for part in self._by_table(parts)])

    def wald_statistics(self, arcs: Arcs, weights: np.ndarray) -> np.ndarray:
        """(features,): see `sparsefield.objectives.evidence`; at the point of the last evaluation."""
        parts = list(zip(self._tables, self._blocks, self._spaces, strict=True))
        return wald_statistics(self.layout, parts, arcs, weights)

    def shared_uncertainty(self, graphs: Sequence[Graph]) -> None:
        """Not known for single arcs: it would take as long as a gradient."""

    def state(self, graphs: Sequence[Graph]) -> dict[str, np.ndarray]:
        """What another evaluation at the same point would not give back to the bit: nothing."""
        return {}

    def restore(self, graphs: Sequence[Graph], state: Mapping[str, np.ndarray]) -> None:
        """Take over what `state` told."""

    def _gaps(self, k: int) -> np.ndarray:
        """(states, rows): which of a block's beliefs are about hidden cells."""
        schema = self.layout.schemas[self._tables[k]]
        return np.repeat(self._blocks[k].codes < 0, np.diff(schema.state_offsets), axis=0)

    def _block_gradient(self, k: int, graphs: Sequence[Graph], size: int) -> np.ndarray:
        out = np.empty(size)
        graph, space, block = graphs[self._tables[k]], self._spaces[k], self._blocks[k]
        gradient(graph, space.errors, space.middles, out)
        if len(graph.members):
            if self._objective.averaged:
                add_changed_conjunctions(graph, space.errors, block.beliefs, block.weight, out)
            else:
                add_conjunctions(graph, space.errors, space.middles, out)
        return out

    def _by_table(self, items: list) -> tuple[tuple, ...]:
        """Things of all blocks, table by table."""
        tables = range(len(self.layout.tables))
        return tuple(tuple(x for x, t in zip(items, self._tables, strict=True) if t == table) for table in tables)

    def _with_weights(self, sums: list[np.ndarray]) -> list[tuple[tuple[np.ndarray, ...], float]]:
        tiny = np.finfo(float).tiny
        return [(s, max(w, tiny)) for s, w in zip(self._by_table(sums), self.total_weights, strict=True)]


def _add(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Sum in the order of the blocks, so that the bits never depend on who was ready first."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total
