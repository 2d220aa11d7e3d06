"""Paths of two relations: for each row (i, j) of a table, the number of entities z by which two other rows connect it.

A feature of a *triangle* is the product of three cells of one table, r(i, z), s(z, j) and t(i, j), of three different
entities, with one weight for all of them. The conditional of each cell then depends on the number of paths of the other
two: of t(i, j) on that of r(i, z) s(z, j), of r(i, z) on that of t(i, j) s(z, j), and of s(z, j) on that of
r(i, z) t(i, j). These are three *path views*. A *cycle* r(j, z), s(z, i), t(i, j) is alike from each of its cells and
has one view. As the three entities differ, no cell is part of a path of its own row, nor is that of its reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from sparsefield import config

LEAST, SPARSE = 1e-2, 0.1
"""Beliefs and numbers of paths below this count as 0, so that numbers of paths are sparse; and a share of other beliefs
below which products of sparse matrices are faster."""

ADVICE = "leave out the templates of triangles and cycles, or use fewer entities."

Array = np.ndarray


@dataclass(frozen=True)
class PathView:
    """The numbers of paths of each pair of columns of a table, for the cells of one side of a triangle."""

    template: int
    table: int
    side: int
    """0 for t(i, j), 1 for r(i, z), 2 for s(z, j); a cycle has side 0 alone."""
    cyclic: bool
    columns: Array
    """(K,) own columns of the table: states of its targets."""
    start: int
    """First of K x K columns of the view among the columns of the table: r by s, t by s, or r by t."""

    @property
    def stop(self) -> int:
        return self.start + len(self.columns) ** 2

    @property
    def n_features(self) -> int:
        """Number of features over the view, which those of other sides of a triangle share."""
        k = len(self.columns)
        return 0 if self.side else (k**3 + 2 * k) // 3 if self.cyclic else k**3

    def are_features(self, t: Array, r: Array, s: Array) -> Array:
        """Return which positions of states are features: of the rotations of a cycle, the one that comes first."""
        if not self.cyclic:
            return np.ones(len(t), dtype=bool)
        k = len(self.columns)
        code = (t * k + r) * k + s
        return (code <= (r * k + s) * k + t) & (code <= (s * k + t) * k + r)


class Ends(NamedTuple):
    """The two entities (rows,) of each row of a table, -1 where it has not both or they are the same."""

    subject: Array
    object: Array
    n_entities: int

    @classmethod
    def of(cls, subject: Array, object: Array) -> Ends:
        """Return the ends of rows that link to the entities ``subject`` and ``object``, -1 for none."""
        known = (subject >= 0) & (object >= 0) & (subject != object)
        n = int(max(subject.max(initial=-1), object.max(initial=-1))) + 1
        return cls(np.where(known, subject, -1), np.where(known, object, -1), n)


def count_paths(
    view: PathView,
    ends: Ends,
    beliefs: Sequence[Array],
    out: Sequence[Array],
    run: Callable[[Callable[[Any], Any], Iterable[Any]], Any] | None = None,
) -> None:
    """Write the expected numbers of paths of a view into ``out`` from the beliefs of cells, taken as independent.

    Both are arrays (columns, rows) of the blocks of the table in order; those of ``out`` have the columns of the view.
    """
    from sparsefield.kernels.coded_columns import take_counts  # numba is not needed to read a model

    n, k = ends.n_entities, len(view.columns)
    config.refuse_beyond_memory(16.0 * n * n * k, f"Paths between {n:,} entities over {k:,} states", lambda: ADVICE)
    rows = np.flatnonzero(ends.subject >= 0)
    place = ends.subject[rows] * n + ends.object[rows]
    values = np.concatenate([block[view.columns] for block in beliefs], axis=1)[:, rows]
    values[values < LEAST] = 0.0
    matrices = np.stack([np.bincount(place, value, n * n).reshape(n, n) for value in values])
    # One side of each path is that of a row of the product, (i, ...) or (z, ...), the other one that of a column.
    left: Any = matrices.transpose(0, 2, 1) if view.side == 2 else matrices
    right: Any = matrices.transpose(2, 0, 1) if view.side == 1 else matrices.transpose(1, 0, 2)
    right = right.reshape(n, k * n)
    if np.count_nonzero(matrices) < SPARSE * matrices.size:
        left, right = [sp.csr_array(matrix) for matrix in left], sp.csr_array(right)
    row, column = (ends.object, ends.subject) if view.cyclic else (ends.subject, ends.object)
    places = np.where(row >= 0, row * (k * n) + column, -1)
    starts = np.cumsum([0, *(part.shape[1] for part in out)])

    def count(first: int) -> None:
        product, used = left[first] @ right, np.ones(k, dtype=bool)
        if sp.issparse(product):
            used, product = np.bincount(product.indices // n, minlength=k) > 0, product.toarray()
        for part, start in zip(out, starts, strict=False):
            own = part[first * k : (first + 1) * k]
            take_counts(product.ravel(), used, places[start : start + part.shape[1]], n, LEAST, own)

    list(map(count, range(k))) if run is None else run(count, range(k))
