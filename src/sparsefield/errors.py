"""Exceptions and warnings of the library, and numbers in their messages, which name the place and the remedy."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any


class DataError(ValueError):
    """The data cannot be used; the message names the column, row or file, and the remedy."""


@contextmanager
def prefix_errors(place: object) -> Iterator[None]:
    """Prefix errors in the data with their place."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{place}: {error}") from None


class ModelFileError(ValueError):
    """A file is not a model file that this version can read."""


class ClusterError(RuntimeError):
    """A cluster cannot be used or was lost; the message says how to continue the fit."""


class UnknownStateWarning(UserWarning):
    """A value did not occur in training; it is treated as missing and left unchanged in the output."""


class CovariateWarning(UserWarning):
    """An observed column has many missing cells; they get its mean, which can make other columns dependent."""


class GuessWarning(UserWarning):
    """Keys of tables, or links between them, were guessed from names and values."""


class DateTextWarning(UserWarning):
    """A column holds dates as text, which are categories without an order."""


class NumberTextWarning(UserWarning):
    """A column holds many numbers as text, which are categories without an order."""


class ClippedValueWarning(UserWarning):
    """A value of an observed column is far beyond those of training; it was moved closer, so that no sum overflows."""


class EstimateWarning(UserWarning):
    """An exact result is not feasible; the result was sampled or found by a search instead."""


class WideComponentWarning(UserWarning):
    """The exact likelihood is too expensive for some columns, which keep the weights of the pseudo-likelihood."""


class SelectionWarning(UserWarning):
    """The score still rises at the smallest l1 that was tried: the data support a smaller one."""


class PenaltyWarning(UserWarning):
    """The L2 penalty determines some weights more than the rows do; their confidence intervals can be too narrow."""


class OtherTableWarning(UserWarning):
    """The table is not the one that the field was learned from."""


class DeviceWarning(UserWarning):
    """There is no GPU that can be used; the fit runs on the CPU."""


class CheckpointWarning(UserWarning):
    """The state of a fit could not be saved; the fit goes on."""


PATIENCE = 5.0
"""Seconds that Ctrl-C waits for kernels that load."""


@contextmanager
def interrupts_as_such() -> Iterator[None]:
    """Raise KeyboardInterrupt where Ctrl-C arrives as compiled code returns, but not while a kernel is loaded.

    Python reports the former as SystemError; in the middle of LLVM an exception can end in a segmentation fault.
    """
    alone = threading.current_thread() is threading.main_thread()
    alone = alone and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if alone:
        signal.signal(signal.SIGINT, partial(_interrupt, []))
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
    finally:
        if alone:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(since: list[float], number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; look again in a moment where a thread is within numba."""
    since.append(time.monotonic())
    for inner in sys._current_frames().values():
        frames = (outer.f_globals.get("__name__", "") for outer, _ in traceback.walk_stack(inner))
        if any(name.startswith(("numba.", "llvmlite.")) for name in frames) and since[-1] < since[0] + PATIENCE:
            later = threading.Timer(0.05, _thread.interrupt_main)
            later.daemon = True
            return later.start()
    raise KeyboardInterrupt


def list_first(words: Sequence[Any], most: int = 5, form: Callable[[Any], str] = str) -> str:
    """Return the first words of a list, and how many more there are; ``form=repr`` quotes them.

    Examples
    --------
    >>> list_first(["a", "b"]), list_first(["a", "b", "c"], 1, repr)
    ('a, b', "'a' and 2 more")
    """
    return ", ".join(map(form, words[:most])) + (f" and {len(words) - most:,} more" if len(words) > most else "")


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> count(1, "row"), count(1200, "row"), count(0, "community", "communities")
    ('1 row', '1,200 rows', '0 communities')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
