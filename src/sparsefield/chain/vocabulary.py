"""This module numbers the attributes of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Vocabulary:
    """The number of each attribute that matters."""

    numbers: Mapping[str, int]
    size: int
    """Numbers are below it."""

    @classmethod
    def of(cls, names: Iterable[str]) -> Vocabulary:
        """Number attributes in the order of their first occurrence."""
        numbers = {name: k for k, name in enumerate(dict.fromkeys(names))}
        return cls(numbers, len(numbers))

    @cached_property
    def by_key(self) -> dict[str, dict[str, int]]:
        """{key: {value: number}} of the attributes "key=value", so that tokens that are dictionaries need no names.

        A name with several equals signs is there for each of them, since either part may have one.

        Examples
        --------
        >>> Vocabulary.of(["word=a", "x", "word=a=b"]).by_key
        {'word': {'a': 0, 'a=b': 2}, 'word=a': {'b': 2}}
        """
        found: dict[str, dict[str, int]] = {}
        for name, number in self.numbers.items():
            place = name.find("=")
            while place >= 0:
                found.setdefault(name[:place], {})[name[place + 1 :]] = number
                place = name.find("=", place + 1)
        return found
