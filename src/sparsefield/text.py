"""Words of sentences that the package prints."""

from __future__ import annotations


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> count(1, "row"), count(1200, "row"), count(0, "community", "communities")
    ('1 row', '1,200 rows', '0 communities')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
