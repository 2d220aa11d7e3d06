"""This module keeps the log of a fit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from sparsefield.compute import Engine
from sparsefield.model import IterationRecord
from sparsefield.solver.fit_state import FitCallbacks
from sparsefield.solver.working_problem import WorkingProblem


class TrainingLog:
    """Records of all iterations, and the time that scoring has taken."""

    def __init__(self, engine: Engine, callbacks: FitCallbacks) -> None:
        self._engine, self._callbacks = engine, callbacks
        self.records: list[IterationRecord] = []
        self.scoring_seconds = 0.0
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Time since the fit began, without interruptions."""
        return time.perf_counter() - self._started

    @contextmanager
    def scoring(self) -> Iterator[None]:
        """Count the time of a block as scoring."""
        started = time.perf_counter()
        yield
        self.scoring_seconds += time.perf_counter() - started

    def add(self, phase: str, problem: WorkingProblem) -> None:
        """Record an iteration and call back."""
        theta = problem.theta
        record = IterationRecord(
            iteration=len(self.records) + 1,
            objective=float(problem.point.value),
            loss=float(problem.loss),
            l1_norm=float(np.abs(theta).sum()),
            features=len(problem.working_set),
            active=int(np.count_nonzero(theta[problem.n_target_columns :])),
            phase=phase,
            seconds=self.seconds,
            scoring_seconds=self.scoring_seconds,
            traffic=self._engine.traffic,
        )
        self.records.append(record)
        self._callbacks.iteration(record)

    def restore(self, records: list[IterationRecord], seconds: float, scoring_seconds: float) -> None:
        """Continue the log of an interrupted fit."""
        self.records, self.scoring_seconds = records, scoring_seconds
        self._started = time.perf_counter() - seconds
