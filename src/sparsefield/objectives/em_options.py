"""This module defines the options of Monte Carlo EM, the way to learn from incomplete rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from sparsefield.data import Layout
from sparsefield.errors import DataError
from sparsefield.option_objects import OptionObject


@dataclass(frozen=True)
class EM(OptionObject):
    """Average over what is missing: Monte Carlo EM for the pseudo-likelihood.

    Every incomplete row is replaced by completions, given the current field: by all of them, with their probabilities,
    where there are few, and otherwise by draws. The field is learned from the completed rows, in which every cell
    is predicted; both steps alternate. Estimates are consistent where cells are missing at random.

    Parameters
    ----------
    copies : int
        Completions of an incomplete row in the first rounds; a power of two.
    max_copies : int
        Completions of an incomplete row at most: their number doubles until the weights are exact enough.
    max_error : float
        Largest Monte Carlo error of the weights, as a share of their standard errors (root mean square).
    seed : int
        Seed of all draws.
    shift : sequence of (column, state, number)
        Numbers that are added to the log-odds of states, against the reference state, where the column is missing: a
        sensitivity check of the assumption that cells are missing at random. A column of linked tables is written
        ``"table.column"``.
    """

    copies: int = 2
    max_copies: int = 64
    max_error: float = 0.1
    seed: int = 0
    shift: Sequence[tuple[str, Any, float]] = ()
    name: ClassVar[str] = "em"

    def check(self) -> None:
        """Raise a ValueError for an option that makes no sense."""
        for name in ("copies", "max_copies"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 2:
                raise ValueError(f"{name} must be a whole number of at least 2, got {value}.")
        if self.max_copies < self.copies:
            raise ValueError(f"max_copies must not be smaller than copies, got {self.max_copies} and {self.copies}.")
        if not self.max_error > 0.0:
            raise ValueError(f"max_error must be a positive number, got {self.max_error}.")
        if isinstance(self.seed, bool) or not isinstance(self.seed, Integral) or not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must be a non-negative integer, got {self.seed}.")
        for one in self.shift:
            if isinstance(one, str) or len(one) != 3 or isinstance(one[2], str) or not np.isfinite(one[2]):
                raise ValueError(f"shift must have entries such as ('smokes', 'yes', 0.5), got {one!r}.")

    def bias_shifts(self, layout: Layout) -> np.ndarray:
        """Return what ``shift`` adds to the logits of all states, (states of all tables,)."""
        found = np.zeros(layout.n_states)
        for column, state, number in self.shift:
            names = [
                (t, v, variable)
                for t, (table, schema) in enumerate(zip(layout.tables, layout.schemas, strict=True))
                for v, variable in enumerate(schema.targets)
                if column == (variable.name if len(layout.tables) == 1 else f"{table}.{variable.name}")
            ]
            if not names:
                raise DataError(f"EM(shift=...) names the column {column!r}, which is not a target of the field.")
            ((t, v, variable),) = names
            if state not in variable.code_of_label:
                known = ", ".join(repr(label) for label in variable.states)
                raise DataError(f"EM(shift=...): column {column!r} has no state {state!r}; its states are {known}.")
            first, code = int(layout.schemas[t].state_offsets[v]), variable.code_of_label[state]
            start = int(layout.state_starts[t]) + first
            if code == 0:  # the reference state: all others lose what it gains
                found[start : start + variable.width] -= number
            else:
                found[start + code - 1] += number
        return found
