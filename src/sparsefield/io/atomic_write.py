"""This module replaces files atomically: readers find the old content or the complete new content."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write ``content`` to a temporary file and rename it to ``path``; on failure an existing file is unchanged."""
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.partial")
    try:
        with open(partial, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
