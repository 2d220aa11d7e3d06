"""This module measures how a fit becomes faster with threads, and checks that its bits stay the same.

It needs what the package's estimators need and nothing else, so that it runs on a bare machine with many cores as
``python -m benchmarks.core_scaling``; ``python -m benchmarks cores`` is the same command.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.dependent_data import draw_factors, draw_texts
from benchmarks.ising import draw_ising
from benchmarks.measure import CutOffError, in_child, last_line
from benchmarks.planted import draw_planted

__all__ = ["CORE_CASES", "SHORT_CORE_CASES", "CoreCase", "CoreFit", "find_core_cases", "print_scaling", "thread_counts"]

SECONDS = 600.0
QUICK_SECONDS, REPEATS = 5.0, 3
"""A fit that takes less than this is repeated, and the least wall time counts."""

WARM_UP_ROWS, WARM_UP_COLUMNS = 300, 60
HEADINGS = ("data", "threads", "wall seconds", "speed-up", "CPU seconds", "weights", "same bits")


@dataclass(frozen=True)
class CoreCase:
    """A table, dense or sparse, with the penalty of its fits; ``draw(seed)`` gives the table."""

    name: str
    l1: float
    draw: Callable[[int], Any]
    words: str


@dataclass(frozen=True)
class CoreFit:
    """Times of a fit with some number of threads, and the digest of its biases, pairs and weights."""

    wall_seconds: float
    cpu_seconds: float
    weights: int
    digest: str
    certified: bool


def _factors(seed: int, columns: int, rows: int) -> Any:
    return draw_factors(columns, rows, seed=seed)


def _texts(seed: int, words: int, texts: int) -> Any:
    return draw_texts(words, texts, seed=seed)


def _ising(seed: int, nodes: int, rows: int) -> Any:
    # Rows that are a little dependent take as long to learn from, and a tenth of the time to draw.
    return draw_ising(nodes, rows, thin=10, rows_per_chain=100, seed=seed).samples


def _sparse(seed: int, columns: int, rows: int, on: float) -> Any:
    return draw_planted(columns, rows, on=on, seed=seed).matrix


CORE_CASES: tuple[CoreCase, ...] = (
    CoreCase("factors-1300", 16.0, partial(_factors, columns=1300, rows=1200), "1,300 columns, 1,200 rows, dependent"),
    CoreCase("ising-20000", 100.0, partial(_ising, nodes=1000, rows=20_000), "1,000 columns, 20,000 rows, Ising"),
    CoreCase("texts", 11.0, partial(_texts, words=1058, texts=1670), "1,058 words, 1,670 texts"),
    CoreCase(
        "sparse",
        14.4,
        partial(_sparse, columns=100_000, rows=100_000, on=50.0),
        "100,000 columns, 100,000 rows, sparse",
    ),
)

SHORT_CORE_CASES: tuple[CoreCase, ...] = (
    CoreCase("factors", 6.0, partial(_factors, columns=60, rows=400), "60 columns, 400 rows, dependent"),
    CoreCase("sparse", 6.0, partial(_sparse, columns=300, rows=400, on=4.0), "300 columns, 400 rows, sparse"),
)


def find_core_cases(names: Sequence[str] | None = None, *, short: bool = False) -> list[CoreCase]:
    """Return the cases of these names, or all; an unknown name is a ValueError that lists those there are."""
    known = {case.name: case for case in (SHORT_CORE_CASES if short else CORE_CASES)}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise ValueError(f"no case called {', '.join(unknown)}; there are {', '.join(known)}.")
    return [known[name] for name in names or known]


def thread_counts(cores: int | None = None) -> list[int]:
    """Return 1, 2, 4, ... and the number of cores that this process may use.

    Examples
    --------
    >>> thread_counts(12)
    [1, 2, 4, 8, 12]
    """
    if cores is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return [*(2**k for k in range(cores.bit_length()) if 2**k < cores), cores]


def measure_scaling(
    case: CoreCase, counts: Sequence[int], seconds: float | None = SECONDS, seed: int = 0
) -> Iterator[tuple[int, CoreFit | str]]:
    """Yield, for each number of threads, the fit in a process of its own, or in words why there is none.

    Parameters
    ----------
    seconds : float, optional
        For all fits of the case, without the drawing of data.
    """
    with tempfile.TemporaryDirectory(prefix="sparsefield-cores-") as folder:
        path = in_child(_save_table, case, seed, Path(folder))
        started = time.perf_counter()
        for count in counts:
            left = None if seconds is None else max(seconds - (time.perf_counter() - started), 0.0)
            try:
                yield count, in_child(_fit_saved, path, case.l1, count, time_limit=left)
            except CutOffError:
                yield count, f"cut off: the case had {seconds:.0f} s"
                return
            except RuntimeError as error:
                yield count, f"failed: {last_line(error)}"


def write_line(line: str) -> None:
    """Print a line at once, also where the output is a file."""
    print(line, flush=True)


def print_scaling(
    cases: Sequence[CoreCase],
    counts: Sequence[int],
    *,
    seconds: float | None = SECONDS,
    seed: int = 0,
    write: Callable[[str], Any] = write_line,
) -> bool:
    """Print a Markdown table, each row as soon as it is known; return whether all fits of each case have equal bits."""
    write("| " + " | ".join(HEADINGS) + " |")
    write("| --- " * len(HEADINGS) + "|")
    equal = True
    for case in cases:
        first: CoreFit | None = None
        for count, found in measure_scaling(case, counts, seconds, seed):
            if isinstance(found, str):
                write(f"| {case.name} | {count} | {found} | | | | |")
                continue
            first = first or found
            equal &= found.digest == first.digest
            write(_line(case, count, found, first))
    return equal


def _line(case: CoreCase, count: int, found: CoreFit, first: CoreFit) -> str:
    same = "yes" if found.digest == first.digest else "NO"
    cells = (
        case.name,
        str(count),
        f"{found.wall_seconds:.2f}",
        f"{first.wall_seconds / found.wall_seconds:.2f}",
        f"{found.cpu_seconds:.2f}",
        f"{found.weights:,}" + ("" if found.certified else " (not certified)"),
        f"{same} ({found.digest[:8]})",
    )
    return "| " + " | ".join(cells) + " |"


def _save_table(case: CoreCase, seed: int, folder: Path) -> Path:
    table = case.draw(seed)
    if sp.issparse(table):
        path = folder / "table.npz"
        sp.save_npz(path, table, compressed=False)
    else:
        path = folder / "table.npy"
        np.save(path, table)
    return path


def _fit_saved(path: Path, l1: float, n_jobs: int) -> CoreFit:
    from sparsefield.estimators import MarkovField

    table = sp.load_npz(path) if path.suffix == ".npz" else np.load(path)
    _warm_up(table, l1)
    times: list[tuple[float, float]] = []
    field = MarkovField(l1=l1, n_jobs=n_jobs)
    while len(times) < REPEATS and sum(wall for wall, _ in times) < QUICK_SECONDS:
        wall, cpu = time.perf_counter(), time.process_time()
        field.fit(table)
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return CoreFit(*min(times), len(field.field_.weights), _digest(field.field_), field.converged_)


def _warm_up(table: Any, l1: float) -> None:
    """Fit small tables of the same form on one thread, so that everything is compiled or loaded."""
    from sparsefield.estimators import MarkovField

    if sp.issparse(table):
        for on in (3.0, 30.0):  # one is learned as a sparse table, the other as a dense one
            MarkovField(l1=6.0, n_jobs=1).fit(draw_planted(300, 400, on=on).matrix)
        return
    small = table[:WARM_UP_ROWS, :WARM_UP_COLUMNS]
    small = small[:, np.flatnonzero(np.ptp(small, axis=0))]
    MarkovField(l1=0.1 * l1, n_jobs=1).fit(small)
    MarkovField(l1=10.0 * l1, n_jobs=1).fit(table)  # large tables are learned in single precision first


def _digest(field: Any) -> str:
    content = hashlib.sha256()
    for values in (field.biases, field.pairs, field.weights):
        content.update(np.ascontiguousarray(values).tobytes())
    return content.hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command without the libraries of the command line."""
    parser = argparse.ArgumentParser(description="Measure how a fit becomes faster with threads.")
    parser.add_argument("--case", action="append", help="name of a case; by default all")
    parser.add_argument("--threads", action="append", type=int, help="number of threads; by default 1, 2, 4, ...")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="seconds allowed for a case")
    parser.add_argument("--short", action="store_true", help="small cases")
    asked = parser.parse_args(arguments)
    cases = find_core_cases(asked.case, short=asked.short)
    return int(not print_scaling(cases, asked.threads or thread_counts(), seconds=asked.seconds))


if __name__ == "__main__":
    sys.exit(main())
