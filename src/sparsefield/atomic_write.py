"""Atomic writing of files: readers find the old content or the complete new content.

Devices, pipes and open descriptors such as ``/dev/stdout``, which cannot be replaced, are written to directly.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import sys
from pathlib import Path

STANDARD_OUTPUT_DESCRIPTOR = 1
_DESCRIPTORS = re.compile(r"/dev/(?:(stdout)|(stderr)|fd/(\d+))|/proc/self/fd/(\d+)")


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace the content of a file at once, or write to a device, a pipe or an open descriptor.

    On failure an existing file is unchanged. A symbolic link is followed, and a file that is replaced keeps its mode.
    """
    if is_stream(path):
        _write_to_stream(path, content)
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
    """Return whether a path is a device, a pipe or an open descriptor, which is written to and never replaced."""
    if _descriptor(path) is not None:
        return True
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def is_standard_output(path: str | os.PathLike[str]) -> bool:
    """Return whether a path such as ``/dev/stdout`` is the standard output of this process."""
    return _descriptor(path) == STANDARD_OUTPUT_DESCRIPTOR


def _descriptor(path: str | os.PathLike[str]) -> int | None:
    """Return the number of an open descriptor that a path such as ``/dev/fd/3`` names."""
    match = _DESCRIPTORS.fullmatch(os.path.abspath(path))
    if match is None:
        return None
    out, err, *numbers = match.groups()
    return 1 if out else 2 if err else int(numbers[0] or numbers[1])


def _write_to_stream(path: str | os.PathLike[str], content: bytes) -> None:
    descriptor = _descriptor(path)
    if descriptor is not None:
        for stream in (sys.stdout, sys.stderr):  # what was printed before comes first
            stream.flush()
    # To open /dev/stdout again would truncate a file, and is impossible for a socket.
    with open(path if descriptor is None else os.dup(descriptor), "wb") as file:
        file.write(content)
