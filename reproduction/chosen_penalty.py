"""This module defines fields that choose their penalties from the training cells of each fold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, TypeVar

from sparsefield.analysis.hold_out import hold_out
from sparsefield.data import Label, Relational
from sparsefield.estimators import MarkovField, RelationalField

__all__ = ["CHOICES", "PENALTIES", "ChosenPenalties", "ChosenPenalty"]

Choice = TypeVar("Choice")

CHOICES = (1.0, 2.0, 3.0, 4.0, 6.0)
PENALTIES = tuple(product((0.25, 0.5, 1.0), (1.0, 2.0, 4.0)))
"""Pairs of l1 and l2, those of the paper for Animal among them."""
SHARE = 0.1
HOLD_OUTS = 4


def _best(choices: Sequence[Choice], make: Callable[[Choice], Any], data: Any, seeds: Iterable[int]) -> Choice:
    """Return the choice with the best conditional log-likelihood of cells that are held out with some seeds."""
    scores = [sum(hold_out(data, make(one), SHARE, seed=seed).folds[0].cll for seed in seeds) for one in choices]
    return choices[scores.index(max(scores))]


class ChosenPenalty(RelationalField):
    """A `RelationalField` that chooses its l1 from `CHOICES` when it is fitted.

    It holds out a tenth of the cells that it is given, takes the l1 with the best conditional log-likelihood of these
    cells, and fits to all given cells with this l1. Cells that were missing from the start, such as those of an outer
    fold, are never used. ``random_state`` is the seed of the held-out cells.
    """

    def fit(
        self,
        data: Relational,
        y: Any = None,
        *,
        states: Mapping[str, Mapping[str, Sequence[Label]]] | None = None,
    ) -> ChosenPenalty:
        """Choose l1, which becomes ``l1_``, and fit the field."""
        params = self.get_params(deep=False)
        seed = int(self.random_state or 0)  # pyright: ignore[reportArgumentType]
        given = self.l1
        try:
            self.l1 = _best(CHOICES, lambda l1: RelationalField(**{**params, "l1": l1}), data, [seed])
            super().fit(data, y, states=states)
        finally:
            self.l1 = given
        return self


class ChosenPenalties(MarkovField):
    """A `MarkovField` that chooses its l1 and l2 from `PENALTIES` when it is fitted.

    It holds out a tenth of the cells that it is given, `HOLD_OUTS` times with different seeds, takes the pair with the
    best mean conditional log-likelihood of these cells, and fits to all given cells. Cells that were missing from the
    start, such as those of an outer fold, are never used. ``random_state`` is the first of the seeds.
    """

    def fit(self, X: Any, y: Any = None, **roles: Any) -> ChosenPenalties:
        """Choose l1 and l2, which become ``l1_`` and ``l2_``, and fit the field."""
        params = self.get_params(deep=False)
        first = int(self.random_state or 0)  # pyright: ignore[reportArgumentType]
        seeds = range(first, first + HOLD_OUTS)
        given = self.l1, self.l2
        try:
            self.l1, self.l2 = _best(
                PENALTIES, lambda pair: MarkovField(**{**params, "l1": pair[0], "l2": pair[1]}), X, seeds
            )
            super().fit(X, y, **roles)
            self.l2_ = self.l2
        finally:
            self.l1, self.l2 = given
        return self
