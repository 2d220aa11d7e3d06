"""Pseudo-likelihood of a table with hidden variables, which are summed out exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsefield.data import Arcs, MegaSample
from sparsefield.engines import Threads
from sparsefield.field.hidden import split
from sparsefield.inference.base import InferenceMethod
from sparsefield.inference.hidden import Summed, sum_hidden
from sparsefield.kernels.sweep import gradient
from sparsefield.objectives.evaluation import Evaluator
from sparsefield.objectives.pl import PseudoLikelihood

__all__ = ["HiddenEvaluator"]


class HiddenEvaluator(Evaluator):
    """- sum over rows and seen cells of ln p(cell | other cells of the row): no belief has seen the cell.

    Its gradient is exact. For two columns that tables have it is errors x beliefs, as ever, so that induction and
    certificate hold for them; that of hidden features is not of this form, so these are in the field from the start.
    """

    def __init__(self, sample: MegaSample, engine: Threads) -> None:
        super().__init__(sample, PseudoLikelihood(), engine)
        (schema,) = sample.layout.schemas
        n_seen = len(schema.targets) - len(schema.hidden)
        self.has_gaps = any(block.gap_offsets[n_seen] > 0 for block in self._blocks)
        self._summed: list[Summed] = []

    def compile(self, arcs: Arcs) -> Any:
        return split(self.layout, arcs)

    def evaluate(self, graphs: Any, theta: np.ndarray) -> tuple[float, np.ndarray]:
        def one(k: int) -> Summed:
            return sum_hidden(self._blocks[k], graphs, theta, self._spaces[k].errors)

        self._summed = self._engine.map(one, range(len(self._blocks)))
        return float(sum(part.loss for part in self._summed)), self.gradient(graphs, len(theta))

    def gradient(self, graphs: Any, size: int) -> np.ndarray:
        def one(k: int) -> np.ndarray:
            out = np.empty(size)
            gradient(graphs.visible, self._spaces[k].errors, self._spaces[k].middles, out)
            graphs.add_gradient(self._summed[k].totals, self._summed[k].moved, out)
            return out

        return np.sum(self._engine.map(one, range(len(self._blocks))), axis=0)

    def fill_gaps(self, inference: InferenceMethod, graphs: Any, theta: np.ndarray) -> float:
        """Re-estimate q0 of gaps; returns the largest change. That of hidden variables comes with every evaluation."""
        before = [block.beliefs[: graphs.first].copy() for block in self._blocks]
        super().fill_gaps(inference, graphs.whole, theta)
        parts = zip(self._blocks, before, strict=True)
        return max(float(np.abs(b.beliefs[: graphs.first] - old).max(initial=0.0)) for b, old in parts)

    def uncertainty(self) -> np.ndarray:
        """(states,): of a hidden state from its beliefs: its errors say how much single cells tell of it."""
        (schema,) = self.layout.schemas
        first, out = int(schema.state_offsets[-1 - len(schema.hidden)]), super().uncertainty()
        q0 = [(block.beliefs[first : len(out)], block.weight) for block in self._blocks]
        out[first:] = np.sum([(q * (1.0 - q)) @ weight for q, weight in q0], axis=0)
        return out
