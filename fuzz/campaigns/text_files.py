"""Text files in odd encodings, with odd separators and altered bytes are read and inspected."""

from __future__ import annotations

import random
from pathlib import Path

from fuzz.byte_changes import apply_changes, draw_changes
from fuzz.judging import run_command, unchanged
from fuzz.recipes import Campaign, NoCaseError, Step, first_step, steps_named
from sparsefield.app.tables.read import read_table

CELLS = ("0", "1", "2.5", "1,5", "1e400", "-", "NA", "", " x", '"q"', '"a\nb"', "ü", "2020-01-31", "1.000.000", "=1+1")
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252", "cp1251", "shift_jis")
SUFFIXES = (".csv", ".txt", ".tsv", ".jsonl", ".parquet", ".xlsx", ".gz", "")


def draw(rng: random.Random) -> list[Step]:
    """Return the cells of a file, how it is written, and changes of its bytes."""
    names = rng.sample(("a", "b", "c", "ä", "a b", ""), rng.randint(1, 4))
    rows = [("row", *rng.choices(CELLS, k=len(names))) for _ in range(rng.randint(0, 12))]
    steps: list[Step] = [("row", *names), *rows]
    steps.append(("separator", rng.choice((",", ";", "\t", "|", " ", "::"))))
    steps.append(("encoding", rng.choice(ENCODINGS)))
    steps.append(("newline", rng.choice(("\n", "\r\n", "\r"))))
    steps.append(("suffix", rng.choice(SUFFIXES)))
    steps += [("command",)] if rng.random() < 0.2 else []
    return steps + (draw_changes(rng, 3) if rng.random() < 0.6 else [])


def run(steps: list[Step], folder: Path) -> None:
    """Read a file, which is left as it is."""
    separator, newline = first_step(steps, "separator", (",",))[0], first_step(steps, "newline", ("\n",))[0]
    text = newline.join(separator.join(cells) for cells in steps_named(steps, "row")) + newline
    try:
        content = text.encode(first_step(steps, "encoding", ("utf-8",))[0])
    except UnicodeEncodeError as error:
        raise NoCaseError from error
    path = folder / f"table{first_step(steps, 'suffix', ('.csv',))[0]}"
    path.write_bytes(apply_changes(content, steps))
    with unchanged(path):
        if steps_named(steps, "command"):
            run_command("inspect", str(path))
        else:
            read_table(path)


CAMPAIGN = Campaign("text", draw, run, has_kernels=False)
