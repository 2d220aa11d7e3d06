"""Orthant-wise L-BFGS (Andrew and Gao) over a set of parameters that may grow between steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from sparsefield.solver.penalty import pseudo_gradient

__all__ = ["OrthantLBFGS", "Point"]

SUFFICIENT = 1e-4
"""Share of the predicted decrease that a step must achieve (Armijo)."""
MAX_HALVINGS = 30
MIN_CURVATURE = 1e-10
LONGEST = 3.0
"""No parameter moves further in a step. Where predictions are sure the loss looks flat, and a few parameters would run
off by thousands and hold up all others."""


@dataclass(frozen=True)
class Point:
    """Where the optimizer stands."""

    theta: np.ndarray
    value: float
    """Loss and penalties."""
    gradient: np.ndarray
    """Of everything but the L1 term."""


class OrthantLBFGS:
    """Keeps the curvature seen in the last steps; a step never raises the objective and never leaves finite numbers."""

    def __init__(self, memory: int = 10) -> None:
        self._memory = memory
        self.s_history: list[np.ndarray] = []
        self.y_history: list[np.ndarray] = []

    def grow(self, count: int) -> None:
        """Parameters are appended; nothing is known of their curvature yet."""
        room = np.zeros(count)
        self.s_history = [np.concatenate([s, room]) for s in self.s_history]
        self.y_history = [np.concatenate([y, room]) for y in self.y_history]

    def keep(self, places: np.ndarray) -> None:
        """Only some parameters stay."""
        self.s_history = [s[places] for s in self.s_history]
        self.y_history = [y[places] for y in self.y_history]
        self._drop_flat()

    def translate(self, move: Callable[[np.ndarray], np.ndarray], turn: Callable[[np.ndarray], np.ndarray]) -> None:
        """The coordinates have changed: how a move and a change of gradient read in the new ones."""
        self.s_history = [move(s) for s in self.s_history]
        self.y_history = [turn(y) for y in self.y_history]

    def state(self) -> dict[str, np.ndarray]:
        """What is remembered, as arrays that `restore` takes."""
        return {"s_history": np.array(self.s_history), "y_history": np.array(self.y_history)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.s_history, self.y_history = list(state["s_history"]), list(state["y_history"])

    def branch(self) -> OrthantLBFGS:
        """One that remembers the same."""
        twin = OrthantLBFGS(self._memory)
        twin.s_history, twin.y_history = list(self.s_history), list(self.y_history)
        return twin

    def forget(self) -> None:
        self.s_history, self.y_history = [], []

    def step(
        self,
        point: Point,
        l1: np.ndarray,
        precondition: Callable[[np.ndarray], np.ndarray],
        evaluate: Callable[[np.ndarray], tuple[float, np.ndarray]],
        project: Callable[[np.ndarray], np.ndarray],
    ) -> Point | None:
        """One step from ``point``, or None when no step lowers the objective.

        ``precondition`` multiplies a gradient with a rough, positive inverse of the second derivatives; ``project``
        keeps a trial within what the caller allows. The last call of ``evaluate`` is always at the point returned.
        """
        slope = pseudo_gradient(point.theta, point.gradient, l1)
        while True:
            direction = self._direction(slope, (l1 > 0.0) & (point.theta == 0.0), precondition)
            found = self._search(point, l1, slope, direction, evaluate, project)
            if found is not None:
                self._remember(found.theta - point.theta, found.gradient - point.gradient)
                return found
            if not self.s_history:
                return None
            self.forget()

    def _search(
        self,
        point: Point,
        l1: np.ndarray,
        slope: np.ndarray,
        direction: np.ndarray,
        evaluate: Callable[[np.ndarray], tuple[float, np.ndarray]],
        project: Callable[[np.ndarray], np.ndarray],
    ) -> Point | None:
        """Back-tracking line search within the orthant that ``point`` and the direction choose."""
        orthant = np.where(point.theta != 0.0, np.sign(point.theta), np.sign(-slope))
        length = 1.0
        for _ in range(MAX_HALVINGS):
            theta = point.theta + length * direction
            theta[(l1 > 0.0) & (theta * orthant <= 0.0)] = 0.0
            theta = project(theta)
            promised = float(slope @ (theta - point.theta))
            if promised >= 0.0:  # what was cut off at a kink outweighs the rest: a shorter step cuts off less
                length *= 0.5
                continue
            value, gradient = evaluate(theta)
            if np.isfinite(value) and value <= point.value + SUFFICIENT * promised and np.isfinite(gradient).all():
                return Point(theta, value, gradient)
            length *= _shorter(point.value, promised, value)
        return None

    def _direction(
        self, slope: np.ndarray, at_kink: np.ndarray, precondition: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Two-loop recursion. A parameter at the kink of its penalty may only move the way its own slope points; when
        the rest still goes uphill as a whole, that holds for every parameter."""
        q = slope.copy()
        shares = []
        for s, y in zip(reversed(self.s_history), reversed(self.y_history), strict=True):
            share = (s @ q) / (s @ y)
            q -= share * y
            shares.append(share)
        if self.s_history:
            s, y = self.s_history[-1], self.y_history[-1]
            q = precondition(q) * ((s @ y) / (y @ precondition(y)))
        else:
            q = precondition(q)
        for (s, y), share in zip(zip(self.s_history, self.y_history, strict=True), reversed(shares), strict=True):
            q += (share - (y @ q) / (s @ y)) * s
        direction = np.clip(-q, -LONGEST, LONGEST)
        direction[at_kink & (direction * slope >= 0.0)] = 0.0
        if direction @ slope >= 0.0:
            direction[direction * slope >= 0.0] = 0.0
        return direction

    def _remember(self, move: np.ndarray, turn: np.ndarray) -> None:
        self.s_history.append(move)
        self.y_history.append(turn)
        self._drop_flat()
        if len(self.s_history) > self._memory:
            self.s_history.pop(0)
            self.y_history.pop(0)

    def _drop_flat(self) -> None:
        """Pairs without positive curvature would spoil the recursion."""
        good = [
            (s, y)
            for s, y in zip(self.s_history, self.y_history, strict=True)
            if s @ y > MIN_CURVATURE * max(y @ y, 1e-300)
        ]
        self.s_history, self.y_history = [s for s, _ in good], [y for _, y in good]


def _shorter(value: float, promised: float, tried: float) -> float:
    """Factor for the next trial: the minimum of a parabola through what is known, within [0.1, 0.5]."""
    if not np.isfinite(tried):
        return 0.1
    excess = tried - value - promised
    return float(np.clip(-promised / (2.0 * excess), 0.1, 0.5)) if excess > 0.0 else 0.5
