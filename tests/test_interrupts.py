"""Ctrl-C is an interruption, wherever it arrives."""

from __future__ import annotations

import pytest

from sparsefield import FitCallbacks, MarkovField, Solver

ROWS = [[0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 1, 1], [0, 0, 0]] * 20


def interrupt_like_compiled_code(record: object) -> None:
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        raise SystemError("returned a result with an exception set") from error


def test_an_interruption_of_compiled_code_is_one_of_the_fit() -> None:
    field = MarkovField(l1=1.0, solver=Solver(callbacks=FitCallbacks(on_iteration=interrupt_like_compiled_code)))
    with pytest.raises(KeyboardInterrupt):
        field.fit(ROWS)


def test_other_system_errors_stay() -> None:
    def fail(record: object) -> None:
        raise SystemError("a bug")

    with pytest.raises(SystemError, match="a bug"):
        MarkovField(l1=1.0, solver=Solver(callbacks=FitCallbacks(on_iteration=fail))).fit(ROWS)
