"""The files that a fit runs through, by folder, with their lines."""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import sparsefield
from benchmarks.command_line import Json, print_rows
from sparsefield.estimators import MarkovField

__all__ = ["files_of_fit"]

HOME = Path(sparsefield.__file__).parent


def files_of_fit(X: Any) -> list[Path]:
    """Return the files of the package whose functions ``MarkovField(l1=2).fit(X)`` calls, threads included."""
    called: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            called.add(frame.f_code)

    field = MarkovField(l1=2.0)
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        field.fit(X)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # pyright: ignore[reportArgumentType]
    # A module that is imported on the way runs, too, but is not called.
    paths = {Path(code.co_filename) for code in called if code.co_name != "<module>"}
    return sorted(path for path in paths if path.is_relative_to(HOME))


def command(as_json: Json = False) -> None:
    """Count the files and lines of the package that a fit of a complete binary table runs through.

    Compiled kernels run without the interpreter, and are not counted.
    """
    rng = np.random.default_rng(0)
    X = np.repeat(rng.random((500, 5)) < 0.4, 4, axis=1) ^ (rng.random((500, 20)) < 0.1)
    MarkovField(l1=2.0).fit(X)  # imports and compilation
    by_folder: dict[str, list[Path]] = defaultdict(list)
    for path in files_of_fit(X):
        by_folder[path.relative_to(HOME).parts[0]].append(path)
    by_folder["all"] = [path for paths in by_folder.values() for path in paths]
    print_rows(
        [
            {"folder": folder, "files": len(paths), "lines": sum(len(p.read_text("utf-8").splitlines()) for p in paths)}
            for folder, paths in by_folder.items()
        ],
        ("folder", "files", "lines"),
        as_json,
    )
