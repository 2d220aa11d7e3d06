"""This module writes all files of the package: readers find the old content or the complete new content.

A regular file is replaced by renaming a temporary file in the same folder; symbolic links, modes and owners are kept.
Devices, pipes and open descriptors such as ``/dev/stdout``, which cannot be replaced, are written to directly.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import socket
import stat
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

STANDARD_OUTPUT_DESCRIPTOR = 1

MIN_AGE = 3600.0
"""Seconds after which a temporary file of a process of this machine that has ended is deleted."""

MIN_AGE_ELSEWHERE = 86400.0
"""The same for a file of another machine, or from before a restart, whose process cannot be asked."""

_DESCRIPTORS = re.compile(r"/dev/(?:(stdout)|(stderr)|fd/(\d+))|/proc/self/fd/(\d+)")
_PARTIAL = re.compile(r"\.sparsefield-(?P<host>[0-9a-f]{12})-(?P<pid>\d+)-[0-9a-f]{16}\.partial")
_cleaned: set[str] = set()
"""Folders in which this process has looked for leftovers."""


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace the content of a file at once, or write to a device, a pipe or an open descriptor.

    On failure an existing file is unchanged. Threads, processes and machines may write the same path at the same time:
    one of the contents remains.

    Parameters
    ----------
    path : path of the file; where it is a symbolic link, the file that it refers to is replaced
    content : the complete new content
    """
    if is_stream(path):
        _write_to_stream(path, content)
        return
    target = Path(os.path.realpath(path))
    if target.is_file() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "the file is write-protected", str(path))
    _clean_once(target.parent)
    partial = target.with_name(_new_name())
    try:
        with open(partial, "xb") as file:
            _keep_attributes(partial, target)  # before the content, which others may not be allowed to read
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    _flush_folder(target.parent)


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


def remove_leftovers(folder: str | os.PathLike[str], min_age: float = MIN_AGE) -> None:
    """Delete temporary files that killed processes left in a folder.

    Only names that this module makes count. A file of this machine is deleted if its process has ended and it is
    ``min_age`` seconds old, one of another machine after a day.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = _PARTIAL.fullmatch(entry.name)
            if found is not None and _is_left(entry, found["host"], int(found["pid"]), min_age):
                with suppress(OSError):
                    os.unlink(entry.path)


def _is_left(entry: os.DirEntry[str], host: str, pid: int, min_age: float) -> bool:
    elsewhere = host != _host()
    if not elsewhere and _is_alive(pid):
        return False
    try:
        age = time.time() - entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return False
    return age >= (max(min_age, MIN_AGE_ELSEWHERE) if elsewhere else min_age)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it belongs to another user
        return True
    return True


def _clean_once(folder: Path) -> None:
    if str(folder) not in _cleaned:
        _cleaned.add(str(folder))
        remove_leftovers(folder)


def _new_name() -> str:
    return f".sparsefield-{_host()}-{os.getpid()}-{secrets.token_hex(8)}.partial"


@cache
def _host() -> str:
    """Return a digest of the machine, its last start and its process namespace: where a process id means a process."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
    with suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=6).hexdigest()


def _keep_attributes(partial: Path, target: Path) -> None:
    """Give a new file the owner, as far as that is permitted, and the mode of the file that it replaces."""
    try:
        old = os.stat(target)
    except FileNotFoundError:
        return
    new = os.stat(partial)
    if hasattr(os, "chown") and (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        for owner in ((old.st_uid, -1), (-1, old.st_gid)):
            with suppress(OSError):
                os.chown(partial, *owner)
    os.chmod(partial, stat.S_IMODE(old.st_mode))


def _flush_folder(folder: Path) -> None:
    """Make a renaming durable; some file systems have no such operation."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _descriptor(path: str | os.PathLike[str]) -> int | None:
    """Return the number of an open descriptor that a path such as ``/dev/fd/3`` names."""
    found = _DESCRIPTORS.fullmatch(os.path.abspath(path))
    if found is None:
        return None
    out, err, *numbers = found.groups()
    return 1 if out else 2 if err else int(numbers[0] or numbers[1])


def _write_to_stream(path: str | os.PathLike[str], content: bytes) -> None:
    descriptor = _descriptor(path)
    if descriptor is None:
        with open(path, "wb") as file:
            file.write(content)
        return
    for stream in (sys.stdout, sys.stderr):  # what was printed before comes first
        stream.flush()
    # To open /dev/stdout again would truncate a file, and is impossible for a socket.
    with open(os.dup(descriptor), "wb") as file:
        file.write(content)
