"""Sparse matrices with crafted index arrays, and altered ``.npz`` files, are fitted and scored."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fuzz.byte_changes import NUMBERS, apply_changes, draw_changes
from fuzz.judging import check_finite, unchanged
from fuzz.recipes import Campaign, NoCaseError, Step, first_step
from sparsefield import MarkovField
from sparsefield.app.tables.matrix_files import read_matrix

FORMATS = ("csr", "csc", "bsr", "coo", "dia")
PARTS = ("data", "indices", "indptr", "row", "col", "offsets", "shape", "format")


def draw(rng: random.Random) -> list[Step]:
    """Return where the matrix is, its format, and changes of its bytes or of its arrays."""
    place = rng.choice(("memory", "npz", "npz"))
    steps: list[Step] = [("place", place), ("format", rng.choice(FORMATS)), ("compressed", rng.random() < 0.5)]
    if place != "memory" and rng.random() < 0.6:
        return steps + draw_changes(rng)
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(("entry", "entry", "length", "type"))
        value = {
            "entry": rng.choice((*NUMBERS, 5, 6, 7, 41)),
            "length": rng.choice((0, 1, 3, 100)),
            "type": rng.choice(("f8", "i1", "u8", "U3", "O", "?")),
        }[kind]
        steps.append((kind, rng.choice(PARTS), rng.random(), value))
    return steps


def run(steps: list[Step], folder: Path) -> None:
    """Fit a field to a matrix, or score one."""
    place, form = first_step(steps, "place", ("memory",))[0], first_step(steps, "format", ("csr",))[0]
    if place == "memory":
        _use(_changed_matrix(form, steps))
    else:
        compressed = first_step(steps, "compressed", (True,))[0]
        path = folder / "m.npz"
        (np.savez_compressed if compressed else np.savez)(path, **_changed_arrays(form, steps))
        path.write_bytes(apply_changes(path.read_bytes(), steps))
        with unchanged(path):
            _use(read_matrix(path))


def _use(X: Any) -> None:
    check_finite(float(_field().score(X)), "score")
    field = MarkovField(l1=4.0, n_jobs=1).fit(X)
    check_finite(field.objective_, "objective_")


@cache
def _matrix() -> sp.csr_matrix:
    return sp.csr_matrix((np.random.default_rng(0).random((40, 6)) < 0.4).astype(np.int8))


@cache
def _field() -> MarkovField:
    return MarkovField(l1=4.0, n_jobs=1).fit(_matrix())


def _changed_arrays(form: str, steps: list[Step]) -> dict[str, Any]:
    matrix = _matrix().asformat(form)
    names = [name for name in PARTS if name not in ("shape", "format") and hasattr(matrix, name)]
    arrays: dict[str, Any] = {name: np.array(getattr(matrix, name)) for name in names}
    arrays |= {"shape": np.array(matrix.shape), "format": np.array(form.encode())}
    for name, *values in steps:
        if name in ("entry", "length", "type") and values[0] in arrays:
            arrays[values[0]] = _change(arrays[values[0]], name, values[1], values[2])
    return arrays


def _change(array: np.ndarray, kind: str, place: float, value: Any) -> np.ndarray:
    if array.dtype.kind not in "iu":
        return array
    if kind == "length":
        return np.resize(array, (value, *array.shape[1:]))
    if kind == "type":
        return array.astype(value)
    changed = array.copy()
    flat = changed.reshape(-1)
    if len(flat):
        flat[int(place * len(flat))] = np.array([value % 2**64], dtype=np.uint64).astype(array.dtype)[0]
    return changed


def _changed_matrix(form: str, steps: list[Step]) -> Any:
    """Return a matrix whose arrays were replaced behind scipy's back."""
    arrays, matrix = _changed_arrays(form, steps), _matrix().asformat(form).copy()
    for name in ("data", "indices", "indptr", "row", "col", "offsets"):
        if name in arrays:
            try:
                setattr(matrix, name, arrays[name])
            except Exception as error:  # which scipy refused
                raise NoCaseError from error
    return matrix


CAMPAIGN = Campaign("arrays", draw, run)
