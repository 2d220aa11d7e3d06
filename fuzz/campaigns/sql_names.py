"""Tables and columns of databases have odd names, or the files changed bytes."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

from fuzz.byte_changes import apply_changes, draw_changes
from fuzz.judging import unchanged
from fuzz.recipes import Campaign, NoCaseError, Step, WrongResultError, first_step, steps_named
from sparsefield.app.tables.file_format import FileFormat
from sparsefield.app.tables.linked import read_database
from sparsefield.app.tables.read import read_table

PIECES = ('"', "'", "`", "[", "]", ";", "--", " ", "a", "B", "ü", "\n", "%", "select", "drop table t", "0", "\\")


def draw(rng: random.Random) -> list[Step]:
    """Return the names of tables and columns."""
    steps: list[Step] = [("table", _name(rng)) for _ in range(rng.randint(1, 2))]
    steps += [("column", _name(rng)) for _ in range(rng.randint(1, 3))]
    steps.append(("ask", rng.choice(("first", "none", _name(rng), _name(rng) + "\x00"))))
    return steps + (draw_changes(rng) if rng.random() < 0.4 else [])


def _name(rng: random.Random) -> str:
    return "".join(rng.choices(PIECES, k=rng.randint(1, 4)))


def run(steps: list[Step], folder: Path) -> None:
    """Read a table of a SQLite file by its name, or by a name that it may not have."""
    path = folder / "data.sqlite"
    tables = [name for (name,) in steps_named(steps, "table")] or ["t"]
    columns = [name for (name,) in steps_named(steps, "column")] or ["c"]
    _write(path, tables, columns)
    path.write_bytes(damaged := apply_changes(content := path.read_bytes(), steps))
    asked = first_step(steps, "ask", ("first",))[0]
    name = tables[0] if asked == "first" else None if asked == "none" else asked
    with unchanged(path):
        if damaged != content:
            read_database(path)
        found = read_table(path, FileFormat(sheet=name))
    if damaged == content and found.shape != (2, len(columns)):
        raise WrongResultError("a table of a database was read in part")


def _write(path: Path, tables: list[str], columns: list[str]) -> None:
    def quoted(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    try:
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA synchronous = OFF")
            for name in tables:
                database.execute(f"CREATE TABLE {quoted(name)} ({', '.join(map(quoted, columns))})")
                database.executemany(
                    f"INSERT INTO {quoted(name)} VALUES ({', '.join('?' * len(columns))})",
                    [tuple(range(len(columns))), tuple(range(1, len(columns) + 1))],
                )
            database.commit()
    except (sqlite3.Error, ValueError) as error:  # which SQLite refused
        raise NoCaseError from error


CAMPAIGN = Campaign("sql", draw, run, has_kernels=False)
