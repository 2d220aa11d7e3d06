"""A penalty that is chosen from the data at hand, within the protocol's folds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from sparsefield.data import Label, Relational
from sparsefield.estimators import RelationalField
from sparsefield.evaluation.hold_out import hold_out
from sparsefield.model import IterationRecord
from sparsefield.solver import TrainingOptions

__all__ = ["CHOICES", "ChosenPenalty", "Picks"]

CHOICES = (1.0, 2.0, 3.0, 4.0, 6.0)
SHARE = 0.1


class Picks:
    """Hears what every fit of a `ChosenPenalty` has chosen: its callback ``on_iteration``."""

    def __init__(self) -> None:
        self.l1: list[float] = []

    def __call__(self, step: IterationRecord) -> None:
        """Nothing to say of single steps."""


class ChosenPenalty(RelationalField):
    """A `RelationalField` that picks its l1 from `CHOICES` when it is fitted.

    A tenth of the cells that it is given is hidden from it once more; the l1 whose field has the best mean log-belief
    in them is taken, and the field is learned anew with it from all that was given. Cells that were gaps from the
    start, those of an outer fold above all, are seen by nobody. ``random_state`` says which cells are hidden.
    """

    def fit(
        self,
        data: Relational,
        y: Any = None,
        *,
        states: Mapping[str, Mapping[str, Sequence[Label]]] | None = None,
    ) -> ChosenPenalty:
        """Choose l1, kept as ``l1_``, and learn the field."""
        params = self.get_params(deep=False)
        seed = int(self.random_state or 0)  # pyright: ignore[reportArgumentType]
        scores = {l1: hold_out(data, RelationalField(**{**params, "l1": l1}), SHARE, seed=seed).cll for l1 in CHOICES}
        self._picked = max(scores, key=lambda l1: scores[l1])
        listener = None if self.callbacks is None else self.callbacks.on_iteration
        if isinstance(listener, Picks):
            listener.l1.append(self._picked)
        super().fit(data, y, states=states)
        return self

    def _training_options(self) -> TrainingOptions:
        return dataclasses.replace(super()._training_options(), l1=getattr(self, "_picked", self.l1))
