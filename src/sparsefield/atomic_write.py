"""Atomic writing of files: readers find the old content or the complete new content."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import sys
from pathlib import Path

STANDARD_OUTPUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace the content of a file at once, or write to a device, a pipe or the standard output.

    On failure an existing file is unchanged. A symbolic link is followed, and a file that is replaced keeps its mode.
    """
    try:
        _write(path, content)
    except OSError as error:  # that of a full disk has no name, and that of a folder the name of the partial file
        error.filename = os.fspath(path)
        raise


def _write(path: str | os.PathLike[str], content: bytes) -> None:
    if is_stream(path):
        sys.stdout.flush()  # what was printed before comes first
        # To open /dev/stdout again would truncate a file, and is impossible for a socket.
        with open(os.dup(1) if is_standard_output(path) else path, "wb") as file:
            file.write(content)
        return
    target = Path(os.path.realpath(path))
    if target.is_file() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "the file is write-protected", str(path))
    partial = target.with_name(f".{target.name[:40]}-{secrets.token_hex(8)}.partial")
    try:
        with open(partial, "xb") as file:
            if target.is_file():
                shutil.copymode(target, partial)  # before the content, which others may not be allowed to read
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def remove_with_leftovers(folder: Path, pattern: str) -> None:
    """Delete files that have one writer, and what killed processes have left of their next content."""
    for path in (*folder.glob(f".{pattern}-*.partial"), *folder.glob(pattern)):
        path.unlink(missing_ok=True)


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a device, a pipe or the standard output, which is written to and never replaced."""
    return is_standard_output(path) or (os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path))


def is_standard_output(path: str | os.PathLike[str]) -> bool:
    """Return whether a path such as ``/dev/stdout`` is the standard output of this process."""
    return os.path.abspath(path) in STANDARD_OUTPUT
