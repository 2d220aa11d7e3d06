"""This module sums floats without rounding errors, so that sums do not depend on order or grouping."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from sparsefield.errors import DataError

Exact = int | Fraction
"""An exact sum. Exact sums of partitions are added, and ``float`` rounds the total once."""

LARGEST = 2.0**900
"""Magnitude from which the decomposition of a float would overflow."""

PIECE = 2**16
"""Number of floats that are decomposed together: they fit into the cache, and leave 37 bits to a layer."""


def exact_sum(values: np.ndarray) -> Fraction:
    """Return the exact sum of floats; OverflowError if one is not a number, or at least `LARGEST`."""
    total = Fraction(0)
    for start in range(0, len(values), PIECE):
        for layer in _layers(values[start : start + PIECE]):
            total += Fraction(float(layer.sum()))
    return total


def _layers(values: np.ndarray) -> Iterator[np.ndarray]:
    """Decompose ``values`` into arrays that can each be summed exactly in any order.

    The numbers of a layer are multiples of a unit, small enough that 53 bits hold every sum. Adding and subtracting a
    large power of two rounds to that unit (Rump, Ogita and Oishi 2008).
    """
    spare = max((len(values) - 1).bit_length(), 1)
    rest = values
    while (top := float(np.abs(rest).max(initial=0.0))) > 0.0:
        if top >= LARGEST:
            raise OverflowError(f"{top:g} is too large a number")
        large = math.ldexp(1.0, math.frexp(top)[1] + spare)
        layer = (rest + large) - large
        yield layer
        rest = rest - layer
    if math.isnan(top):
        raise OverflowError("a number was too large")


class Weights:
    """The weights of rows, decomposed once for exact sums over many columns; None gives each row weight 1."""

    def __init__(self, weight: np.ndarray | None) -> None:
        self.weight = weight
        try:
            self._layers = [] if weight is None else list(_layers(weight))
        except OverflowError:
            raise DataError(
                f"sample_weight holds weights of {LARGEST:.0e} or more, whose sum would overflow: divide all of "
                "them by a constant."
            ) from None

    def totals(self, codes: np.ndarray, n_codes: int, present: np.ndarray | None = None) -> np.ndarray:
        """Return the exact total weight of each code, (n_codes,); ``codes`` has one entry per ``present`` row."""
        if self.weight is None:
            return np.bincount(codes, minlength=n_codes)
        sums = np.full(n_codes, Fraction(0), dtype=object)
        for layer in self._layers:
            part = np.bincount(codes, layer if present is None else layer[present], n_codes)
            sums += np.array([Fraction(total) for total in part.tolist()], dtype=object)
        return sums

    def total(self, present: np.ndarray) -> Exact:
        """Return the exact total weight of the ``present`` rows."""
        if self.weight is None:
            return int(np.count_nonzero(present))
        return sum((Fraction(float(layer[present].sum())) for layer in self._layers), Fraction(0))


def rounded(totals: np.ndarray) -> np.ndarray:
    """Return the floats nearest to exact numbers."""
    return np.array([float(total) for total in totals]) if totals.dtype == object else totals.astype(np.float64)
