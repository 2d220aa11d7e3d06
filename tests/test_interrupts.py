"""Ctrl-C is an interruption, wherever it arrives."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from sparsefield import FitCallbacks, MarkovField, Solver
from sparsefield.errors import interrupts_as_such

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


def test_an_interruption_waits_until_a_kernel_is_loaded() -> None:
    """An exception in the middle of LLVM can end the process."""
    space: dict[str, Any] = {"__name__": "numba.core.loading", "signal": signal, "steps": []}
    exec("def load():\n    signal.raise_signal(signal.SIGINT)\n    steps.append('loaded')", space)

    def use_kernels() -> None:
        with interrupts_as_such():
            space["load"]()
            for _ in range(500):
                time.sleep(0.01)
            space["steps"].append("not interrupted")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its background jobs ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            use_kernels()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert space["steps"] == ["loaded"]
