"""This module fits a field as the paper prints it: a batch without a cut at l1, one step, and an end by small changes.

In every iteration the hidden cells are inferred again, the J candidates of largest |h| enter the model, and the
optimizer takes one step. Training ends "if the change of both objective and |theta|_1 are smaller than a threshold for
several consecutive iterations" (section 2). A fit with a loose threshold is a prefix of one with a tight threshold, so
that one fit serves all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from sparsefield.estimators import FieldEstimator, MarkovField, RelationalField
from sparsefield.estimators.likelihood_training import objective_of_structure
from sparsefield.estimators.training import check_parameters, train
from sparsefield.model import Field
from sparsefield.solver import FitCallbacks, TrainingOptions
from sparsefield.solver.fit_state import FitResult, WarmStart
from sparsefield.solver.trainer import Trainer

__all__ = ["SEVERAL", "Changes", "End", "PrintedOptions", "PrintedTrainer", "as_printed"]

SEVERAL = 3
"""The paper's "several consecutive iterations"."""


@dataclass(frozen=True)
class PrintedOptions:
    """Options of a fit as printed.

    Attributes
    ----------
    tolerances : sequence of float
        Thresholds at which the fit could end; it goes on to the smallest. They are shares of objective and norm.
    stages : 1 or 2
        2 optimizes the biases, up to ``inner``, before any pair is added.
    start : biases of the start
    converge : bool
        Whether the optimizer goes on, up to ``inner``, after each batch: the original Grafting.
    inner : float
        Tolerance of the two optimizations "until convergence" above.
    """

    tolerances: tuple[float, ...] = (1e-1, 1e-2, 1e-3, 1e-4)
    stages: int = 1
    start: Literal["zero", "log-odds"] = "zero"
    converge: bool = False
    inner: float = 1e-4


@dataclass(frozen=True)
class End:
    """An end is the state of a fit when a tolerance is met, or when iterations run out before (``met`` is False)."""

    tolerance: float
    met: bool
    field: Field
    objective: float
    cpu_seconds: float
    """Processor time since the fit began, without the time to record earlier ends."""
    scoring_seconds: float
    iterations: int
    """Steps of the optimizer."""
    induced: int


class Changes:
    """Changes counts for how many consecutive iterations objective and norm have changed by less than a tolerance.

    Examples
    --------
    >>> changes = Changes(0.1, 100.0, 10.0)
    >>> [changes.small_for(*point) for point in ((95.0, 10.5), (94.0, 12.0), (93.0, 12.1))]
    [1, 0, 1]
    """

    def __init__(self, tolerance: float, objective: float, norm: float) -> None:
        self.tolerance, self._before, self._count = tolerance, (objective, norm), 0

    def small_for(self, objective: float, norm: float) -> int:
        """Return the number of iterations in a row, with the one that led to these values."""
        pairs = zip(self._before, (objective, norm), strict=True)
        small = all(abs(new - old) < self.tolerance * max(abs(new), 1.0) for old, new in pairs)
        self._before, self._count = (objective, norm), self._count + 1 if small else 0
        return self._count


class PrintedTrainer(Trainer):
    """A trainer whose loop is the paper's; ``ends`` are its states at the tolerances, from loose to tight."""

    def __init__(self, *args: Any, how: PrintedOptions, started: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.how, self._started = how, started
        self.ends: list[End] = []
        self.waited = 0
        """Steps before the first pair was added."""
        if how.start == "zero":
            biases = np.zeros(self.layout.n_target_columns)
            self._warm_start = WarmStart(biases, np.empty((0, 2), dtype=np.int64), np.empty(0))

    def run(self) -> FitResult:
        """Fit from the start up to the smallest tolerance."""
        self._initialize()
        if self.how.stages == 2:
            self._optimize_alone("biases")
            self.waited = len(self.log.records)
        pairs = self.rule.start(self.layout)
        if len(pairs):
            self.problem.add_features(pairs)
        waiting = [Changes(tolerance, *self._place()) for tolerance in sorted(self.how.tolerances, reverse=True)]
        while waiting and self._iterations_left():
            self._iterate()
            reached = [one for one in waiting if one.small_for(*self._place()) >= SEVERAL]
            waiting = [one for one in waiting if one not in reached]
            self._note(reached, met=True)
        self._note(waiting, met=False)
        self.state.converged = not waiting
        result = self.problem.field, tuple(self.log.records), self.problem.point.value
        return FitResult(*result, np.nan, self.state.converged, self.missing.error)

    def _iterate(self) -> None:
        """Infer hidden cells, add the best candidates, and take a step, or, with ``converge``, as many as it takes."""
        self.missing.replace()
        if not self.fixed_candidates:
            found = self._score(self.rule, self._sizes.of_rule, l1=0.0)
            if len(found):
                self.problem.add_features(found.features)
        if self.how.converge:
            self._optimize_alone("induce")
        else:
            self._one_step("induce")

    def _optimize_alone(self, phase: str) -> None:
        """Optimize the features of the working set until changes are small."""
        changes = Changes(self.how.inner, *self._place())
        while self._iterations_left():
            self._one_step(phase)
            if changes.small_for(*self._place()) >= SEVERAL:
                return
            self.missing.replace()

    def _one_step(self, phase: str) -> None:
        self.problem.step()
        self.log.add(phase, self.problem)

    def _place(self) -> tuple[float, float]:
        """Return objective and norm."""
        return float(self.problem.point.value), float(np.abs(self.problem.theta).sum())

    def _note(self, changes: Sequence[Changes], *, met: bool) -> None:
        """Record the present state as the end for some tolerances."""
        if not changes:
            return
        noted = time.process_time()
        seconds, field, problem = noted - self._started, self.problem.field, self.problem
        facts = seconds, self.log.scoring_seconds, len(self.log.records), len(problem.working_set)
        self.ends += [End(one.tolerance, met, field, problem.point.value, *facts) for one in changes]
        self._started += time.process_time() - noted


class _AsPrinted:
    """A mixin for estimators, whose fits it replaces; ``how`` and ``started`` are set before a fit."""

    how: PrintedOptions
    started: float
    trainer: PrintedTrainer
    _open_training_data: Callable[..., Any]

    def fit(self, X: Any, y: Any = None, **roles: Any) -> Any:
        check_parameters(self)  # pyright: ignore[reportArgumentType]
        with self._open_training_data(X, y, **roles) as data:
            train(self, data, self._make_trainer)  # pyright: ignore[reportArgumentType]
        return self

    def _make_trainer(
        self, estimator: FieldEstimator, dataset: Any, options: TrainingOptions, engine: Any, *_: Any
    ) -> PrintedTrainer:
        rule = estimator.resolve("induction")
        self.trainer = PrintedTrainer(
            dataset,
            rule=rule,
            objective=objective_of_structure(estimator.objective, dataset, rule),
            missing=estimator.resolve("missing"),
            options=options,
            engine=engine,
            callbacks=estimator.resolve("solver").callbacks or FitCallbacks(),
            how=self.how,
            started=self.started,
        )
        return self.trainer


class _PrintedField(_AsPrinted, MarkovField):  # pyright: ignore[reportIncompatibleMethodOverride]
    pass


class _PrintedRelationalField(_AsPrinted, RelationalField):  # pyright: ignore[reportIncompatibleMethodOverride]
    pass


def as_printed(estimator: MarkovField | RelationalField, how: PrintedOptions) -> Any:
    """Return an estimator with the same parameters that fits as printed; its clock starts now.

    After a fit, ``trainer.ends`` has the states at all tolerances, and ``field_`` the last one.

    Examples
    --------
    >>> rain = np.random.default_rng(0).integers(0, 2, 100)
    >>> field = as_printed(MarkovField(l1=2.0), PrintedOptions((0.1, 0.01)))
    >>> [end.tolerance for end in field.fit(np.column_stack([rain, rain])).trainer.ends]
    [0.1, 0.01]
    """
    kind = _PrintedRelationalField if isinstance(estimator, RelationalField) else _PrintedField
    found = kind(**estimator.get_params(deep=False))
    found.how, found.started = how, time.process_time()
    return found


def at_end(estimator: Any, end: End) -> Any:
    """Return a fitted estimator with the weights that it had at an end."""
    estimator.field_ = replace(end.field, record=estimator.field_.record)
    return estimator
