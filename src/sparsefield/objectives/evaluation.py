"""An objective on a table: loss and gradient summed over blocks, and what induction needs of the same pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.data import Table
from sparsefield.engines import Threads
from sparsefield.field import Graph
from sparsefield.inference.base import InferenceMethod
from sparsefield.kernels.sweep import gradient, uncertainty
from sparsefield.objectives.base import Objective

__all__ = ["Contrast", "Evaluator"]


@dataclass(frozen=True)
class Contrast:
    """Errors and middles of all blocks at one point: all that scoring a candidate takes."""

    errors: tuple[np.ndarray, ...]
    middles: tuple[np.ndarray, ...]
    weights: tuple[np.ndarray, ...]
    means: np.ndarray
    """(columns,): weighted means of the middles over all rows."""
    unary: np.ndarray
    """(states,): gradient of each unary feature."""


class Evaluator:
    """Evaluates an objective on a table; owns the beliefs of its gaps."""

    def __init__(self, table: Table, objective: Objective, engine: Threads) -> None:
        self.schema = table.schema
        self.total_weight = table.total_weight
        self._objective = objective
        self._engine = engine
        self._blocks = [b._replace(beliefs=b.beliefs.copy()) if len(b.gap_rows) else b for b in table.blocks]
        self._spaces = [objective.prepare(block) for block in self._blocks]
        self.has_gaps = table.has_gaps

    def evaluate(self, graph: Graph, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss and gradient, without penalties. Leaves errors and middles for `gradient` and `contrast`."""

        def one(k: int) -> tuple[float, np.ndarray]:
            loss = self._objective.sweep(self._blocks[k], graph, theta, self._spaces[k])
            return loss, self._block_gradient(k, graph, len(theta))

        parts = self._engine.map(one, range(len(self._blocks)))
        return float(sum(loss for loss, _ in parts)), _add([part for _, part in parts])

    def gradient(self, graph: Graph, size: int) -> np.ndarray:
        """Gradient of a graph with ``size`` parameters, from the errors of the last evaluation."""
        return _add(self._engine.map(lambda k: self._block_gradient(k, graph, size), range(len(self._blocks))))

    def fill_gaps(self, inference: InferenceMethod, graph: Graph, theta: np.ndarray) -> float:
        """Re-estimate q0 of the hidden cells; returns the largest change of a belief."""

        def one(k: int) -> float:
            block = self._blocks[k]
            if not len(block.gap_rows):
                return 0.0
            before = block.beliefs.copy()
            inference.fill(block, graph, theta)
            return float(np.abs(block.beliefs - before).max(initial=0.0))

        return max(self._engine.map(one, range(len(self._blocks))), default=0.0)

    def contrast(self) -> Contrast:
        """Errors and middles of the last evaluation."""
        weights = tuple(block.weight for block in self._blocks)
        sums = self._engine.map(lambda k: self._spaces[k].middles @ weights[k], range(len(self._blocks)))
        unary = self._engine.map(lambda space: space.errors.sum(axis=1), self._spaces)
        return Contrast(
            tuple(space.errors for space in self._spaces),
            tuple(space.middles for space in self._spaces),
            weights,
            _add(sums) / max(self.total_weight, np.finfo(float).tiny),
            _add(unary),
        )

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """(columns,) each: weighted mean and variance of q0 over the rows."""
        weight = max(self.total_weight, np.finfo(float).tiny)
        mean = _add([block.beliefs @ block.weight for block in self._blocks]) / weight
        square = _add([np.square(block.beliefs) @ block.weight for block in self._blocks]) / weight
        return mean, np.maximum(square - mean**2, 0.0)

    def uncertainty(self) -> np.ndarray:
        """(states,): p (1 - p) summed over rows, read off the errors: a sure prediction has little curvature."""

        def one(k: int) -> np.ndarray:
            out = np.empty(self.schema.n_states)
            uncertainty(self._spaces[k].errors, self._blocks[k].weight, out)
            return out

        return _add(self._engine.map(one, range(len(self._blocks))))

    def _block_gradient(self, k: int, graph: Graph, size: int) -> np.ndarray:
        out = np.empty(size)
        gradient(graph, self._spaces[k].errors, self._spaces[k].middles, out)
        return out


def _add(parts: list[np.ndarray]) -> np.ndarray:
    """Sum in the order of the blocks, so that the bits never depend on who was ready first."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total
