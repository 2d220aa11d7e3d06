"""Places of tables: what a path or a URL names, and URLs without their passwords."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

MAGIC = {"sqlite": (0, b"SQLite format 3\0"), "duckdb": (8, b"DUCK")}
"""{kind of database: the position of bytes that tell its files, and these bytes}"""

SUFFIXES = (".csv", ".tsv", ".parquet", ".pq", ".xlsx")
"""Files of a folder that are taken for linked tables."""

_URL = re.compile(r"(postgres(?:ql)?):/+(.*)", re.DOTALL)


def system_of(place: Path | str) -> str | None:
    """Return which system a place is a database of, "sqlite", "duckdb" or "postgres"; None if it is something else."""
    if _URL.fullmatch(str(place)):
        return "postgres"
    with suppress(OSError, ValueError):
        if Path(place).is_file():
            with Path(place).open("rb") as file:
                start = file.read(16)
            return next((name for name, (at, magic) in MAGIC.items() if start[at:].startswith(magic)), None)
    return None


def as_url(place: Path | str) -> str:
    """Return the URL of a database, whose slashes a path has lost."""
    text, found = str(place), _URL.fullmatch(str(place))
    if found is None or "://" in text:
        return text
    has_host = any(mark in found[2].partition("?")[0] for mark in "/@")
    return f"{found[1]}:{'//' if has_host else '///'}{found[2]}"


def without_password(url: str) -> tuple[str, str]:
    """Return the URL of a database without its password, and the password, which may be empty.

    Examples
    --------
    >>> without_password("postgresql://ann:a%40b@localhost/shop")
    ('postgresql://ann@localhost/shop', 'a@b')
    """
    found = re.fullmatch(r"(postgres(?:ql)?:/+[^:/?@]*):(.*)(@.*)", url, re.DOTALL)
    if found is not None:
        return found[1] + found[3], unquote(found[2])
    found = re.fullmatch(r"(postgres.*[?&])password=([^&]*)&?(.*)", url, re.DOTALL)
    return (url, "") if found is None else ((found[1] + found[3]).rstrip("?&"), unquote(found[2]))
