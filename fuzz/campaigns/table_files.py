"""Tables with odd cells are written in every format, packed, damaged and read again; none of their cells is lost."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import random
import zipfile
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from fuzz.byte_changes import apply_changes, draw_changes
from fuzz.judging import unchanged
from fuzz.recipes import Campaign, NoCaseError, Step, WrongResultError, first_step, steps_named
from sparsefield.app.tables.read import read_table
from sparsefield.app.tables.write import write_table

CELLS: dict[str, tuple[Any, ...]] = {
    "text": (
        "a",
        "ü b",
        "=1+1",
        "http://" + "y" * 3000,
        "internal:Sheet1!A1",
        "c" * 33_000,
        'd"e\nf',
        "g,h;i\tj",
    ),
    "whole": (1, -7, 2**53 + 1, 2**63 - 1, -(2**63)),
    "number": (0.1, -1e300, 5e-324, 1e15 + 0.5, float("inf"), float("nan")),
    "flag": (True, False),
    "date": (date(2020, 1, 31), date(1, 1, 1), date(1900, 2, 28), date(9999, 12, 31)),
    "moment": (datetime(2020, 1, 31, 12, 30, 1, 7), datetime(1899, 1, 1), datetime(9999, 12, 31, 23, 59, 59)),
    "time": (time(23, 59, 59, 999_999), time(0, 0)),
    "duration": (timedelta(days=-3, microseconds=1), timedelta(0), timedelta(days=40_000)),
    "decimal": (Decimal("1.10"), Decimal("123456789012345678.90")),
    "binary": (b"\xff\x00", b"a"),
    "list": ([1], [2, 3]),
    "odd text": ("a\ufffeb", "a\0b", "a\rb", "c"),
}
SUFFIXES = (".csv", ".tsv", ".csv.gz", ".parquet", ".arrow", ".jsonl", ".xlsx", ".out")
PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": b"\x28\xb5\x2f\xfd".__add__,  # damaged, as is the next one
    "lz4": b"\x04\x22\x4d\x18".__add__,
}


def draw(rng: random.Random) -> list[Step]:
    """Return columns, a format, and how the file is packed and damaged."""
    steps: list[Step] = [("column", rng.choice(list(CELLS)), rng.randrange(10**6)) for _ in range(rng.randint(1, 3))]
    statistical = rng.random() < 0.03  # each takes seconds, since a process of its own reads it
    steps.append(("suffix", rng.choice((".sav", ".dta") if statistical else SUFFIXES)))
    if rng.random() < 0.3:
        steps.append(("packed", rng.choice((*PACKINGS, "zip", "encrypted"))))
    return steps + (draw_changes(rng) if rng.random() < 0.5 else [])


def run(steps: list[Step], folder: Path) -> None:
    """Write a table, and read what was written."""
    table, suffix = _table(steps_named(steps, "column")), first_step(steps, "suffix", (".csv",))[0]
    path = folder / f"table{suffix}"
    _write_statistical(table, path) if suffix in (".sav", ".dta") else write_table(table, path)
    content = path.read_bytes()
    for (packing,) in steps_named(steps, "packed"):
        content = PACKINGS[packing](content) if packing in PACKINGS else _zipped(content, path.name, packing)
    path.write_bytes(damaged := apply_changes(content, steps))
    with unchanged(path):
        found = read_table(path)
    if damaged == content and suffix not in (".sav", ".dta"):
        _compare(table, found, exactly=suffix in (".parquet", ".arrow"))


def _table(columns: list[Step]) -> Any:
    import polars as pl

    cells = [random.Random(seed).choices((*CELLS[kind], None), k=6) for kind, seed in columns]
    named = {f"{kind}_{k}": part for k, ((kind, _), part) in enumerate(zip(columns, cells, strict=True))}
    return pl.DataFrame(named | {"whole": range(6)})  # blank rows are left out


def _write_statistical(table: Any, path: Path) -> None:
    try:
        import pyreadstat

        {".sav": pyreadstat.write_sav, ".dta": pyreadstat.write_dta}[path.suffix](table.to_pandas(), str(path))
    except Exception as error:  # of a library that is missing, or that refuses cells
        raise NoCaseError from error


def _zipped(content: bytes, name: str, packing: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    data = bytearray(buffer.getvalue())
    if packing == "encrypted":
        data[data.rindex(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def _compare(table: Any, found: Any, *, exactly: bool) -> None:
    """Raise WrongResultError for cells that differ; columns that a format has no type for may be text."""
    for name in table.columns:
        if not exactly and name.split("_")[0] not in ("text", "whole", "number", "flag"):
            continue
        before, after = table[name].to_list(), found[name].to_list() if name in found.columns else []
        same = map(_is_same, before, after)
        if len(before) != len(after) or not all(same):
            raise WrongResultError(f"column {name!r} had {before!r:.80} and has {after!r:.80}")


def _is_same(a: Any, b: Any) -> bool:
    """Return whether a cell came back; NaN is missing, and Excel has 16 digits."""
    close = isinstance(a, float) and isinstance(b, (int, float)) and math.isclose(a, b, rel_tol=1e-15)
    return close or a == b or str(a) == str(b) or (a != a and b is None)


CAMPAIGN = Campaign("files", draw, run, libraries=("pyreadstat", "pandas", "xlsxwriter"), has_kernels=False)
