"""This module defines the record of how the sequences of a chain were read from a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

TEXTS = ("columns", "templates", "numeric", "missing")


@dataclass(frozen=True)
class ChainSource:
    """How sequences were read from a file and made into attributes, so that other files are read alike."""

    file: str
    """The path of the file, as it was given."""
    label: str
    """The column of labels."""
    columns: tuple[str, ...] = ()
    """Names of the columns of a CoNLL file; none for a table, which has them itself."""
    sequence: str | None = None
    """The column of a table that names the sequence of each row; None for a CoNLL file."""
    templates: tuple[str, ...] = ()
    """Attributes of a token, such as "word[-1]"."""
    numeric: tuple[str, ...] = ()
    """Columns of a table whose cells are numbers."""
    missing: tuple[str, ...] = ()
    """Words for missing cells and labels."""
    separator: str | None = None
    encoding: str | None = None

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Return the record that ``dataclasses.asdict`` and JSON made plain.

        Raises
        ------
        ValueError, TypeError
            Where entries are unknown, or have another type.
        """
        if not isinstance(plain, dict):
            raise ValueError("the record of the source is damaged")
        return read_record(cls, plain, TEXTS, _fits)


def read_record(cls: Any, plain: dict[str, Any], texts: Sequence[str], fits: Callable[[str, Any], bool]) -> Any:
    """Return the dataclass of a source from plain values, with tuples for the entries in ``texts``.

    A ValueError says which entry does not fit: ``fits(name, value)``.
    """
    found = cls(**{name: tuple(value) if name in texts else value for name, value in plain.items()})
    for field in fields(cls):
        value = getattr(found, field.name)
        if not fits(field.name, value):
            raise ValueError(f"the record of the source has {field.name} = {str(value)[:40]!r}")
    return found


def _fits(name: str, value: Any) -> bool:
    return all(isinstance(word, str) for word in (value if name in TEXTS else [value or ""]))
