"""This module defines the record of how the table of a fit was read from a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from sparsefield.errors import ModelFileError
from sparsefield.model.text_style import TextStyle

TEXTS = ("missing", "missing_only", "identifiers", "left_out")


@dataclass(frozen=True)
class SourceRecord:
    """The options with which the table of a fit was read, so that other files are read alike and a fit is repeatable.

    Options that were not given, because the file itself tells them, have their defaults.
    """

    file: str
    """The path of the file, as it was given."""
    missing: tuple[str, ...] = ()
    """Words for missing values in addition to the default ones."""
    missing_only: tuple[str, ...] = ()
    """Words for missing values in place of the default ones."""
    header: bool | None = None
    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    dates: str | None = None
    """How dates were read, or the order of their parts that was found."""
    sheet: str | None = None
    table: str | None = None
    """The table of a database file."""
    identifiers: tuple[str, ...] = ()
    """Columns that were left out by request."""
    left_out: tuple[str, ...] = ()
    """Columns that were left out because they cannot be learned."""
    weight: str | None = None
    """The column with the weights of the rows."""
    group: str | None = None
    """The column whose values say which rows belong together."""
    top_levels: int | None = None
    """Number of levels of a nominal column of text that were kept."""
    columns: str | None = None
    """The path of the file with the names of the columns of a matrix."""

    style: TextStyle | None = None
    """How the file is written if it is text, so that rows drawn from the model are written alike."""

    def to_text(self) -> str:
        """Return the text that `FitRecord.source` has."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        """Return the record in a text of `to_text`; None if it is empty."""
        try:
            return cls.from_plain(json.loads(text)) if text else None
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise ModelFileError(f"The model does not say clearly how its table was read: {error}.") from error

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Return the record that ``dataclasses.asdict`` and JSON made plain.

        Raises
        ------
        ValueError, TypeError
            Where entries are unknown, or have another type.
        """
        if plain.get("style") is not None:
            plain = plain | {"style": TextStyle.from_plain(plain["style"])}
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
    if name in TEXTS:
        return all(isinstance(word, str) for word in value)
    if name == "style":
        return value is None or isinstance(value, TextStyle)
    if name == "header":
        return value is None or isinstance(value, bool)
    if name == "top_levels":
        return value is None or (isinstance(value, int) and not isinstance(value, bool))
    return isinstance(value, str) or (value is None and name != "file")
