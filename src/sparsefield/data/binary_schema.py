"""This module defines the schema of a table of 0/1 columns, which may number millions, without an object per column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np

from sparsefield.data.coding import Coding, ColumnClass
from sparsefield.data.grouped_schema import GroupedSchema
from sparsefield.data.labels import Label
from sparsefield.data.schema import Role, Schema, Variable


@dataclass(frozen=True, eq=False, repr=False)
class BinaryVariables(Sequence[Variable]):
    """Variables with the states 0 and 1, whose reference state is 0; constant variables have one state.

    They may be millions, so they are stored in arrays, and a `Variable` is made when needed.
    """

    names: tuple[str, ...]
    shares: np.ndarray
    """Weighted share of training rows in which each variable is 1, (variables,)."""
    has_zero: np.ndarray
    """Whether 0 occurs in training, bool, (variables,)."""
    has_one: np.ndarray
    role: Role

    @property
    def widths(self) -> np.ndarray:
        """1 for each variable, or 0 if it is constant, (variables,)."""
        return (self.has_zero & self.has_one).astype(np.int64)

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
            parts = self.names[index], self.shares[index], self.has_zero[index], self.has_one[index]
            return BinaryVariables(*parts, self.role)
        return self._make(range(len(self))[index])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BinaryVariables):
            return NotImplemented
        arrays = ("shares", "has_zero", "has_one")
        same = all(getattr(self, name).tobytes() == getattr(other, name).tobytes() for name in arrays)
        return same and (self.role, self.names) == (other.role, other.names)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"<{len(self):,} columns of 0 and 1>"

    def _make(self, k: int) -> Variable:
        share, occurs = float(self.shares[k]), (self.has_zero[k], self.has_one[k])
        states = tuple(state for state in (0, 1) if occurs[state])
        return Variable(self.names[k], self.role, states, 0, tuple((1.0 - share, share)[state] for state in states))


class BinarySchema(GroupedSchema):
    """A schema of 0/1 columns only, stored in arrays."""

    variable_groups: tuple[BinaryVariables, BinaryVariables]

    def with_reference(self) -> Schema:
        return self

    @cached_property
    def widths(self) -> np.ndarray:
        return np.concatenate([part.widths for part in self.variable_groups])

    @property
    def target_labels(self) -> tuple[Label, ...]:
        return (1,) if self.n_target_columns else ()

    @cached_property
    def column_classes(self) -> np.ndarray:
        return np.full(self.n_columns, ColumnClass.PLAIN, dtype=np.int8)

    @cached_property
    def coding(self) -> Coding:
        return Coding.binary(self.variable_groups[0].widths, self._target_shares())

    @cached_property
    def unseen(self) -> np.ndarray:
        shares = self._target_shares()
        return (shares == 0.0) | (shares == 1.0)

    def initial_biases(self, rare: float) -> np.ndarray:
        shares = self._target_shares()
        return np.log(np.maximum(shares, rare)) - np.log(np.maximum(1.0 - shares, rare))

    @property
    def n_candidate_pairs(self) -> int:
        targets, observed = self.n_target_columns, self.n_columns - self.n_target_columns
        return targets * (targets - 1) // 2 + targets * observed

    def _target_shares(self) -> np.ndarray:
        """Return the share of training rows in which each target column is 1, (target columns,)."""
        targets = self.variable_groups[0]
        return targets.shares[targets.widths > 0]

    @cached_property
    def index_of_name(self) -> dict[str, int]:
        return {name: k for k, name in enumerate((*self.variable_groups[0].names, *self.variable_groups[1].names))}

    def column_name(self, column: int) -> tuple[str, Label | None]:
        k = int(self.variable_of_column[column])
        targets, observed = self.variable_groups
        return (targets.names[k] if k < len(targets) else observed.names[k - len(targets)]), 1

    @cached_property
    def column_of_input(self) -> np.ndarray:
        """Number of each input column in the flat numbering, -1 for constant ones, (input columns,)."""
        number = np.where(self.widths > 0, self.offsets[:-1], -1)
        if not len(self.observed):
            return number
        index = self.index_of_name
        return number[np.fromiter((index[name] for name in self.order), dtype=np.int64, count=len(self.order))]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BinarySchema):
            return NotImplemented
        return self.variable_groups == other.variable_groups and self.order == other.order

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"BinarySchema({self.variable_groups[0]!r}, {self.variable_groups[1]!r})"
