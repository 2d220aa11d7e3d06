"""The options of Monte Carlo EM, the way to learn from incomplete rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from sparsefield.data import Layout, Variable
from sparsefield.errors import DataError
from sparsefield.options import OptionObject

FINAL_FACTOR = 4
"""The final objective has this many times the completions of a round."""


@dataclass(frozen=True)
class EM(OptionObject):
    """Average over what is missing: Monte Carlo EM for the pseudo-likelihood.

    Every incomplete row is replaced by completions, given the current field: by all of them, with their probabilities,
    where there are few, and otherwise by draws. The field is learned from the completed rows, in which only observed
    cells are predicted; both steps alternate. Estimates are consistent where cells are missing at random.

    Parameters
    ----------
    copies : int
        Completions of an incomplete row in the first rounds; the final objective has four times as many.
    max_copies : int
        Completions of an incomplete row at most, in the final objective: their number doubles until the weights are
        exact enough.
    max_error : float
        Largest Monte Carlo error of the weights, ``mc_error_``, as a share of their standard errors (root mean square).
    seed : int
        Seed of all draws.
    shift : sequence of (column, state, number)
        A sensitivity check of the assumption that cells are missing at random. With ``("drinks", "yes", 1.0)`` a cell
        of the column that is "yes" is assumed to be missing e times as often as one that is not and has the same other
        values in its row. A column of linked tables is written ``"table.column"``. The shift changes what is learned;
        predictions are those of the learned field, for cells that are missing at random.

    Notes
    -----
    ``mc_error_`` is the noise that the final draws leave in the optimum of their objective, given the weights at which
    they were drawn. It is estimated from the distance between this optimum and the averaged weights of earlier rounds.
    Standard errors are those of the completed rows, and smaller than those that the observed cells allow. It does not
    contain the error of the weights at which the final rows were drawn: EM repeats the noise of one step in the next
    ones, and the result is up to 1 / (1 - s) times as far from that of infinitely many draws, where s is the share of
    missing information. With two fifths of the cells missing at random this was a factor of 2 to 3. Where that matters,
    set ``max_error`` accordingly smaller, and ``max_copies`` larger, and compare fits with other seeds.
    """

    copies: int = 2
    max_copies: int = 64
    max_error: float = 0.2
    seed: int = 0
    shift: Sequence[tuple[str, Any, float]] = ()
    name: ClassVar[str] = "em"

    def problems(self) -> list[str]:
        """Return a sentence for each option that makes no sense."""
        found = super().problems()
        if not found and self.max_copies < FINAL_FACTOR * self.copies:
            found.append(
                f"max_copies must be at least {FINAL_FACTOR} times copies, got {self.max_copies} and {self.copies}."
            )
        if not _are_shifts(self.shift):
            found.append(f"shift must be a list such as [('smokes', 'yes', 0.5)], got {self.shift!r}.")
        return found

    def bias_shifts(self, layout: Layout) -> np.ndarray:
        """Return what ``shift`` adds to the logits of all states, (states of all tables,)."""
        found, targets = np.zeros(layout.n_target_columns), _targets_by_name(layout) if self.shift else {}
        for column, state, number in self.shift:
            if column not in targets:
                close = get_close_matches(str(column), list(targets), 1)
                meant = f" Did you mean {close[0]!r}?" if close else ""
                raise DataError(f"EM(shift=...) names {column!r}, which is no target column of the field.{meant}")
            t, v, variable = targets[column]
            if variable.numeric:
                raise DataError(f"EM(shift=...): column {column!r} holds numbers; only states can be shifted.")
            if state not in variable.states:
                known = ", ".join(repr(label) for label in variable.states)
                raise DataError(f"EM(shift=...): column {column!r} has no state {state!r}; its states are {known}.")
            first, code = int(layout.schemas[t].target_offsets[v]), variable.code_of_label[state]
            start, indicator = int(layout.target_starts[t]) + first, variable.indicators[code]
            if indicator < 0:  # the reference state: all others lose what it gains
                found[start : start + variable.width] -= number
            else:
                found[start + indicator] += number
        return found


def _targets_by_name(layout: Layout) -> dict[str, tuple[int, int, Variable]]:
    """Return table, position and variable of each target column but latent ones, by the name that ``shift`` uses."""
    return {
        variable.name if len(layout.tables) == 1 else f"{table}.{variable.name}": (t, v, variable)
        for t, (table, schema) in enumerate(zip(layout.tables, layout.schemas, strict=True))
        for v, variable in enumerate(schema.targets)
        if variable.role == "target"
    }


def _are_shifts(shift: Any) -> bool:
    if isinstance(shift, str) or not isinstance(shift, Sequence):
        return False
    return all(isinstance(one, (tuple, list)) and len(one) == 3 and _is_finite(one[2]) for one in shift)


def _is_finite(number: Any) -> bool:
    return isinstance(number, Real) and not isinstance(number, bool) and bool(np.isfinite(float(number)))
