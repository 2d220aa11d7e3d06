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
from sparsefield.estimators.training import check_parameters, train
from sparsefield.model import Field
from sparsefield.solver import FitCallbacks, FitResult, Path, TrainingOptions, WarmStart
from sparsefield.solver.fit import batch_size, score
from sparsefield.solver.likelihood import objective_of_structure

__all__ = ["SEVERAL", "Changes", "End", "PrintedOptions", "PrintedPath", "as_printed"]

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


class PrintedPath(Path):
    """A fit whose loop is the paper's; ``ends`` are its states at the tolerances, from loose to tight."""

    def __init__(self, *args: Any, how: PrintedOptions, started: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.how, self._started = how, started
        self.ends: list[End] = []
        self.waited = 0
        """Steps before the first pair was added."""

    def begin(self) -> None:
        """Set the biases of the start."""
        biases = np.zeros(self.layout.n_target_columns)
        zero = WarmStart(biases, np.empty((0, 2), dtype=np.int64), np.empty(0))
        self.state.begin(zero if self.how.start == "zero" else None)

    def run(self) -> FitResult:
        """Fit from the start up to the smallest tolerance."""
        self.begin()
        if self.how.stages == 2:
            self._optimize_alone("biases")
            self.waited = len(self.state.records)
        pairs = self.rule.start(self.layout)
        if len(pairs):
            self.state.working_set.add_features(pairs)
        waiting = [Changes(tolerance, *self._place()) for tolerance in sorted(self.how.tolerances, reverse=True)]
        while waiting and self.state.iterations_left:
            self.iterate()
            reached = [changes for changes in waiting if changes.small_for(*self._place()) >= SEVERAL]
            waiting = [changes for changes in waiting if changes not in reached]
            self._note(reached, met=True)
        self._note(waiting, met=False)
        return self.state.result(converged=not waiting)

    def iterate(self) -> None:
        """Infer hidden cells, add the best candidates, and take a step, or, with ``converge``, as many as it takes."""
        self.state.missing.refresh()
        if not self.state.fixed:
            proposals = score(self.state, self.rule, batch_size(self.state, self.rule), l1=0.0)
            if len(proposals):
                self.state.working_set.add_features(proposals.features)
        if self.how.converge:
            self._optimize_alone("induce")
        else:
            self.state.step("induce")

    def _optimize_alone(self, phase: str) -> None:
        """Optimize the features of the working set until changes are small."""
        changes = Changes(self.how.inner, *self._place())
        while self.state.iterations_left:
            self.state.step(phase)
            if changes.small_for(*self._place()) >= SEVERAL:
                return
            self.state.missing.refresh()

    def _place(self) -> tuple[float, float]:
        """Return objective and norm."""
        working_set = self.state.working_set
        return float(working_set.point.value), float(np.abs(working_set.theta).sum())

    def _note(self, changes: Sequence[Changes], *, met: bool) -> None:
        """Record the present state as the end for some tolerances."""
        if not changes:
            return
        noted, state, working_set = time.process_time(), self.state, self.state.working_set
        facts = noted - self._started, state.scoring_seconds, len(state.records), len(working_set)
        field, value = working_set.field, working_set.point.value
        self.ends += [End(change.tolerance, met, field, value, *facts) for change in changes]
        self._started += time.process_time() - noted


class _AsPrinted:
    """A mixin for estimators, whose fits it replaces; ``how`` and ``started`` are set before a fit."""

    how: PrintedOptions
    started: float
    path: PrintedPath
    _open_training_data: Callable[..., Any]

    def fit(self, X: Any, y: Any = None, **roles: Any) -> Any:
        check_parameters(self)  # pyright: ignore[reportArgumentType]
        with self._open_training_data(X, y, **roles) as data:
            train(self, data, self._make_path)  # pyright: ignore[reportArgumentType]
        return self

    def _make_path(
        self, estimator: FieldEstimator, dataset: Any, options: TrainingOptions, engine: Any, *_: Any
    ) -> PrintedPath:
        rule = estimator.resolve("induction")
        self.path = PrintedPath(
            dataset,
            rule=rule,
            objective=objective_of_structure(estimator.resolve("objective"), dataset, rule),
            missing=estimator.resolve("missing"),
            options=options,
            engine=engine,
            callbacks=estimator.resolve("solver").callbacks or FitCallbacks(),
            how=self.how,
            started=self.started,
        )
        return self.path


class _PrintedField(_AsPrinted, MarkovField):  # pyright: ignore[reportIncompatibleMethodOverride]
    pass


class _PrintedRelationalField(_AsPrinted, RelationalField):  # pyright: ignore[reportIncompatibleMethodOverride]
    pass


def as_printed(estimator: MarkovField | RelationalField, how: PrintedOptions) -> Any:
    """Return an estimator with the same parameters that fits as printed; its clock starts now.

    After a fit, ``path.ends`` has the states at all tolerances, and ``field_`` the last one.

    Examples
    --------
    >>> rain = np.random.default_rng(0).integers(0, 2, 100)
    >>> field = as_printed(MarkovField(l1=2.0), PrintedOptions((0.1, 0.01)))
    >>> [end.tolerance for end in field.fit(np.column_stack([rain, rain])).path.ends]
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
