"""Sums of floats without a rounding error, so that they do not depend on the order or the grouping of what is added."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from sparsefield.errors import DataError

__all__ = ["Exact", "Weights", "exact_sum", "rounded"]

Exact = int | Fraction
"""A sum as it is. Sums of parts are added like any numbers, and ``float`` rounds the last of them once."""

LARGEST = 2.0**900
"""From here on, what helps to take a float apart would overflow."""

PIECE = 2**16
"""Floats that are taken apart together: they stay in the cache, and leave 37 bits to a layer."""


def exact_sum(values: np.ndarray) -> Fraction:
    """The sum of floats; OverflowError where one is no number, or as large as `LARGEST`."""
    total = Fraction(0)
    for start in range(0, len(values), PIECE):
        for layer in _layers(values[start : start + PIECE]):
            total += Fraction(float(layer.sum()))
    return total


def _layers(values: np.ndarray) -> Iterator[np.ndarray]:
    """Arrays that add up to ``values``, each of which can be summed in any order without an error.

    The numbers of a layer are multiples of a unit, and so few and so small beside it that 53 bits hold every sum of
    them. Adding a large power of two and taking it away again rounds to that unit (Rump, Ogita and Oishi 2008).
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
    """What some rows weigh, ready to be added up for one column after another; None where each counts as one."""

    def __init__(self, weight: np.ndarray | None) -> None:
        self.weight = weight
        try:
            self._layers = [] if weight is None else list(_layers(weight))
        except OverflowError:
            raise DataError(
                f"sample_weight holds weights from {LARGEST:.0e} on, whose sum is beyond all numbers: divide all of "
                "them by something."
            ) from None

    def totals(self, codes: np.ndarray, n_codes: int, seen: np.ndarray | None = None) -> np.ndarray:
        """(codes,) `Exact`: what the rows with each code weigh together; ``codes`` is given of rows that are ``seen``,
        all when None."""
        if self.weight is None:
            return np.bincount(codes, minlength=n_codes)
        sums = np.full(n_codes, Fraction(0), dtype=object)
        for layer in self._layers:
            part = np.bincount(codes, layer if seen is None else layer[seen], n_codes)
            sums += np.array([Fraction(total) for total in part.tolist()], dtype=object)
        return sums

    def total(self, seen: np.ndarray) -> Exact:
        """What the rows that are ``seen`` weigh together."""
        if self.weight is None:
            return int(np.count_nonzero(seen))
        return sum((Fraction(float(layer[seen].sum())) for layer in self._layers), Fraction(0))


def rounded(totals: np.ndarray) -> np.ndarray:
    """`Exact` numbers as the nearest floats."""
    return np.array([float(total) for total in totals]) if totals.dtype == object else totals.astype(np.float64)
