"""This module turns what an interruption becomes inside of compiled code back into a KeyboardInterrupt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_as_such() -> Iterator[None]:
    """Raise KeyboardInterrupt where Ctrl-C arrived as compiled code returned, which Python reports as SystemError."""
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
