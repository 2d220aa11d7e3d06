"""Model files with changed contents, for tests of what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file


def as_bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), dtype=np.uint8)


def rewrite(
    source: Path,
    path: Path,
    *,
    document: Callable[[dict], Any] | None = None,
    arrays: Callable[[dict], dict] | None = None,
    **metadata: str,
) -> None:
    """Copy a model file with a document that was changed in place, with other arrays (None: without them), and with
    other metadata."""
    with safe_open(source, framework="np") as file:
        held, tensors = dict(file.metadata()), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if document is not None:
        inside = json.loads(tensors["document"].tobytes())
        document(inside)
        tensors["document"] = as_bytes(json.dumps(inside))
    changed = tensors | (arrays(tensors) if arrays else {})
    kept = {name: np.ascontiguousarray(array) for name, array in changed.items() if array is not None}
    save_file(kept, path, held | metadata)
