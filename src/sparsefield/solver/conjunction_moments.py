"""Mean and variance of conjunctions, which the optimizer's coordinates need as they need those of columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparsefield.data import Arcs
from sparsefield.objectives import Evaluator
from sparsefield.solver.parametrization import CenteredParametrization

__all__ = ["ConjunctionMoments"]


class ConjunctionMoments:
    """What was measured when a conjunction came; it stays so, since coordinates must not move under the optimizer."""

    def __init__(self, evaluator: Evaluator, n_columns: int) -> None:
        self._evaluator, self._n_columns = evaluator, n_columns
        self.known: dict[bytes, tuple[float, float]] = {}

    def extend(self, coordinates: CenteredParametrization, arcs: Arcs) -> CenteredParametrization:
        """The coordinates with mean and variance of the conjunctions of some arcs behind those of the columns."""
        keys = [row.tobytes() for row in arcs.conjunctions]
        new = [k for k, key in enumerate(keys) if key not in self.known]
        if new:
            found = self._evaluator.moments_of(arcs.conjunctions[new])
            self.known |= {keys[k]: (float(m), float(v)) for k, m, v in zip(new, *found, strict=True)}
        known = np.array([self.known[key] for key in keys]).reshape(-1, 2)
        return replace(
            coordinates,
            means=np.concatenate([coordinates.means[: self._n_columns], known[:, 0]]),
            variances=np.concatenate([coordinates.variances[: self._n_columns], known[:, 1]]),
        )

    def recall(self, coordinates: CenteredParametrization, arcs: Arcs) -> None:
        """Take over what `extend` once gave for these arcs."""
        n = self._n_columns
        parts = zip(arcs.conjunctions, coordinates.means[n:].tolist(), coordinates.variances[n:].tolist(), strict=True)
        self.known = {row.tobytes(): (mean, variance) for row, mean, variance in parts}
