"""Checks of outputs before any long computation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sparsefield.app.cli.console import send_results_to_stderr, show
from sparsefield.app.tables.write import STANDARD_OUTPUT, check_output_format, find_output_format
from sparsefield.atomic_write import is_standard_output, is_stream
from sparsefield.errors import DataError

PAGES = (".html", ".htm")


def check_output(path: Path, suffixes: Sequence[str] = ()) -> None:
    """Refuse an output file that cannot be written, before any long computation.

    Where the output is standard output, everything else is printed on stderr. Devices and pipes need no suffix.
    """
    if is_standard_output(path):
        send_results_to_stderr()
        return
    if is_stream(path):
        if not os.access(path, os.W_OK):
            raise DataError(f"{path}: this device or pipe is not writable.")
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise DataError(f"{path}: the name of the output should end in {', '.join(suffixes)}.")
    if path.is_dir():
        raise DataError(f"{path}: this is a folder: give a file.")
    target = Path(os.path.realpath(path))
    _check_writable(target.parent, path)
    if target.is_file() and not os.access(target, os.W_OK):
        raise DataError(f"{path}: the file is write-protected: choose another name, or change its mode.")


def check_table_output(path: Path | None) -> None:
    """Refuse an output for a table that cannot be written, before any long computation."""
    if path is None:
        return
    if path == STANDARD_OUTPUT:
        send_results_to_stderr()
        return
    if not is_stream(path):
        check_output_format(path)
    check_output(path)


def check_folder(path: Path) -> None:
    """Refuse an output folder that cannot be created or written, before any long computation."""
    if path.is_file() or (find_output_format(path) is not None and not path.is_dir()):
        raise DataError(f"{path}: several files are written: give a folder, such as 'results'.")
    _check_writable(path if path.is_dir() else path.parent, path)


def _check_writable(folder: Path, path: Path) -> None:
    if not folder.is_dir():
        raise DataError(f"{path}: the folder '{folder}' does not exist; create it first.")
    if not os.access(folder, os.W_OK):
        raise DataError(f"{path}: the folder '{folder}' is not writable.")


def show_written(line: str, output: Path) -> None:
    """Print what was written, and where."""
    show(f"{line}; wrote {'to standard output' if output == STANDARD_OUTPUT else output}.")
