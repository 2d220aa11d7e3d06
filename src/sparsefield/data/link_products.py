"""Sums over the rows at the other end of several links, by products of sparse matrices, without a list of all pairs.

Rows with a shared neighbor are such rows: the sum over all rows at a hub, less the row itself, takes one addition for
each link, where a list has a pair for every two rows of the hub.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import matmul
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from sparsefield.data.layout import COUNT_COLUMN

Array = np.ndarray


class LinkProduct(NamedTuple):
    """A product of sparse matrices, without its diagonal where both ends are one table: no cell predicts itself."""

    factors: tuple[sp.csr_array, ...]
    """The first has a row for each target row, and the last a column for each source row."""
    own: Array
    """(rows,): the diagonal of the product; zeros where the ends are different tables."""
    counts: Array
    """(target rows,): the number of rows at the other end, or the sum of their shares in means."""

    is_expected = True
    """As in `Neighbors`: the sums are those of expectations."""

    @classmethod
    def both_ways(cls, factors: Sequence[Any], same_table: bool, mean: bool) -> tuple[LinkProduct, LinkProduct]:
        """Return the sums over right rows for each left row, and over left rows for each right row.

        With ``mean`` both have the share of a right row in the mean of a left one as a factor, so that a feature has
        the same weight in both directions.
        """
        factors = _multiply_short(factors)
        own = np.zeros(factors[0].shape[0])
        if same_table:
            half = len(factors) // 2
            first, last = reduce(matmul, factors[:half], sp.eye_array(len(own))), reduce(matmul, factors[half:])
            own = np.asarray(sp.csr_array(first).multiply(sp.csr_array(last.T)).sum(axis=1)).ravel()
        counts = _product(factors, np.ones(factors[-1].shape[1])) - own
        if mean:
            share = 1.0 / np.maximum(counts, 1.0)
            factors[0], own = sp.csr_array(sp.diags_array(share) @ factors[0]), own * share
        back: list[Any] = [sp.csr_array(factor.T) for factor in reversed(factors)]
        own_back = own if same_table else np.zeros(back[0].shape[0])
        sums = _product(back, np.ones(back[-1].shape[1])) - own_back
        return cls(tuple(factors), own, counts), cls(tuple(back), own_back, sums)

    def add_up(self, values: Array, columns: Array, out: Sequence[tuple[int, Array]]) -> None:
        """Set out[k] to the sums of the column columns[k] of ``values``: parts of rows, each with its first row."""
        for k, column in enumerate(columns.tolist()):
            sums = self.counts
            if column != COUNT_COLUMN:
                sums = _product(self.factors, values[column])
                if self.own.any():
                    sums -= self.own * values[column]
            for first, part in out:
                part[k] = sums[first : first + part.shape[1]]

    def update_digest(self, digest: Any) -> None:
        """Add the matrices to a hash."""
        for factor in self.factors:
            for array in (factor.indptr, factor.indices, factor.data):
                digest.update(array.tobytes())


def _product(factors: Sequence[sp.csr_array], values: Array) -> Array:
    return reduce(lambda sums, factor: factor @ sums, reversed(factors), values)


def _multiply_short(factors: Sequence[Any]) -> list[Any]:
    """Multiply adjacent matrices as long as their product has no more entries than both."""
    short = [factors[0]]
    for factor in factors[1:]:
        if int(np.diff(factor.indptr)[short[-1].indices].sum()) <= short[-1].nnz + factor.nnz:
            short[-1] = sp.csr_array(short[-1] @ factor)
        else:
            short.append(factor)
    return short
