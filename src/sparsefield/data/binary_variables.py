"""Columns of 0 and 1 by the million: a schema in arrays, which makes a `Variable` only when one asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import overload

import numpy as np

from sparsefield.data.schema import Label, Role, Schema, Variable

__all__ = ["BinarySchema", "BinaryVariables"]


class BinaryVariables(Sequence[Variable]):
    """Variables with the states 0 and 1, the base being 0; constant ones have one state.

    Parameters
    ----------
    names : their names
    shares : (variables,) how often each was 1 in training, by weight
    seen_off, seen_on : (variables,) bool: which of the two states occurred at all
    role : of all of them
    """

    def __init__(
        self, names: tuple[str, ...], shares: np.ndarray, seen_off: np.ndarray, seen_on: np.ndarray, role: Role
    ) -> None:
        self.names, self.shares = names, shares
        self.role: Role = role
        self.seen_off, self.seen_on = seen_off, seen_on

    @property
    def widths(self) -> np.ndarray:
        """(variables,): 1, or 0 where one is constant."""
        return (self.seen_off & self.seen_on).astype(np.int64)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Variable]:
        return (self._make(k) for k in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Variable: ...
    @overload
    def __getitem__(self, index: slice) -> BinaryVariables: ...
    def __getitem__(self, index: int | slice) -> Variable | BinaryVariables:
        if isinstance(index, slice):
            parts = self.names[index], self.shares[index], self.seen_off[index], self.seen_on[index]
            return BinaryVariables(*parts, self.role)
        return self._make(range(len(self))[index])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BinaryVariables):
            return NotImplemented
        mine, theirs = (
            (one.role, one.names, one.shares.tobytes(), one.seen_off.tobytes(), one.seen_on.tobytes())
            for one in (self, other)
        )
        return mine == theirs

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"<{len(self):,} columns of 0 and 1>"

    def _make(self, k: int) -> Variable:
        share = float(self.shares[k])
        states: list[Label] = []
        frequencies = []
        for seen, state, frequency in ((self.seen_off[k], 0, 1.0 - share), (self.seen_on[k], 1, share)):
            if seen:
                states.append(state)
                frequencies.append(frequency)
        return Variable(self.names[k], self.role, tuple(states), 0, tuple(frequencies))


class BinarySchema(Schema):
    """A schema all of whose columns hold 0 and 1: `Schema` in arrays."""

    def __init__(self, targets: BinaryVariables, observed: BinaryVariables, order: tuple[str, ...]) -> None:
        object.__setattr__(self, "switches", (targets, observed))
        object.__setattr__(self, "order", order)

    switches: tuple[BinaryVariables, BinaryVariables]
    """Targets and observed columns."""

    @property
    def variables(self) -> tuple[Variable, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return (*self.switches[0], *self.switches[1])

    @property
    def n_variables(self) -> int:
        return len(self.switches[0]) + len(self.switches[1])

    @property
    def targets(self) -> Sequence[Variable]:
        return self.switches[0]

    @property
    def observed(self) -> Sequence[Variable]:
        return self.switches[1]

    @property
    def latent(self) -> Sequence[Variable]:
        return ()

    @property
    def input_names(self) -> tuple[str, ...]:
        return self.order

    @cached_property
    def widths(self) -> np.ndarray:
        return np.concatenate([part.widths for part in self.switches])

    @cached_property
    def state_shares(self) -> np.ndarray:
        targets = self.switches[0]
        return targets.shares[targets.widths > 0]

    @cached_property
    def base_shares(self) -> np.ndarray:
        return 1.0 - self.state_shares

    @cached_property
    def index_of_name(self) -> dict[str, int]:
        return {name: k for k, name in enumerate((*self.switches[0].names, *self.switches[1].names))}

    def column_name(self, column: int) -> tuple[str, Label | None]:
        k = int(self.variable_of_column[column])
        targets, observed = self.switches
        return (targets.names[k] if k < len(targets) else observed.names[k - len(targets)]), 1

    @cached_property
    def column_of_place(self) -> np.ndarray:
        """(columns as they came,): where each lies in the flat numbering; -1 for a constant one."""
        number = np.where(self.widths > 0, self.offsets[:-1], -1)
        if not len(self.observed):
            return number
        index = self.index_of_name
        return number[np.fromiter((index[name] for name in self.order), dtype=np.int64, count=len(self.order))]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BinarySchema):
            return NotImplemented
        return self.switches == other.switches and self.order == other.order

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"BinarySchema({self.switches[0]!r}, {self.switches[1]!r})"
