"""This module defines variables with their states and roles, and their flat numbering."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, overload

import numpy as np

from sparsefield.data.labels import Label

Role = Literal["target", "observed", "latent"]


@dataclass(frozen=True)
class Variable:
    """A column: categorical with sorted states, or numeric and observed with a center and a scale.

    The reference state has no feature (its logit is 0), so a variable of K states has K - 1 columns in the
    flat numbering; a numeric variable has one, its standardized value. The reference state is the most frequent one,
    but 0 or False if the states are 0 and 1 or False and True.
    """

    name: str
    role: Role
    states: tuple[Label, ...] = ()
    reference: int = 0
    frequencies: tuple[float, ...] = ()
    center: float = 0.0
    scale: float = 1.0

    @property
    def numeric(self) -> bool:
        return not self.states

    @property
    def width(self) -> int:
        return 1 if self.numeric else len(self.states) - 1

    @cached_property
    def position_of_code(self) -> np.ndarray:
        """Index into ``states`` of the codes 0 (the reference state), 1, ..., K - 1, (K,)."""
        others = [k for k in range(len(self.states)) if k != self.reference]
        return np.array([self.reference, *others], dtype=np.int64)

    @cached_property
    def code_of_label(self) -> dict[Label, int]:
        return {self.states[position]: code for code, position in enumerate(self.position_of_code)}

    @cached_property
    def column_frequencies(self) -> np.ndarray:
        """Training frequency of each state but the reference state, 0 for a numeric variable, (width,)."""
        if self.numeric:
            return np.zeros(1)
        return np.asarray(self.frequencies)[self.position_of_code[1:]]


@dataclass(frozen=True)
class Schema:
    """All variables, targets first: target states are numbered 0 .. n_states - 1, and observed columns follow.

    Latent variables are the last targets: they are predicted like missing cells.
    """

    variables: tuple[Variable, ...]
    order: tuple[str, ...]
    """Column names in the order of the input, then the names of latent variables."""

    @classmethod
    def uniform(cls, states: Mapping[str, Sequence[Label]]) -> Schema:
        """Return a schema of targets with equally frequent states, the first of which is the reference state."""
        variables = [Variable(name, "target", tuple(s), 0, (1.0 / len(s),) * len(s)) for name, s in states.items()]
        return cls(tuple(variables), tuple(states))

    @property
    def n_variables(self) -> int:
        return len(self.variables)

    @cached_property
    def targets(self) -> Sequence[Variable]:
        """Variables that are predicted, including latent ones."""
        return tuple(v for v in self.variables if v.role != "observed")

    @cached_property
    def latent(self) -> Sequence[Variable]:
        """Variables without a column in the input."""
        return tuple(v for v in self.variables if v.role == "latent")

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """Names of the input columns."""
        latent = {variable.name for variable in self.latent}
        return tuple(name for name in self.order if name not in latent)

    @cached_property
    def observed(self) -> Sequence[Variable]:
        return tuple(v for v in self.variables if v.role == "observed")

    def without_latent(self) -> Schema:
        """Return the schema of the input columns."""
        return Schema(tuple(v for v in self.variables if v.role != "latent"), self.input_names) if self.latent else self

    @cached_property
    def widths(self) -> np.ndarray:
        """Number of columns of each variable in the flat numbering, (variables,)."""
        return np.array([v.width for v in self.variables], dtype=np.int64)

    @cached_property
    def offsets(self) -> np.ndarray:
        """Variable v has the columns offsets[v]:offsets[v + 1] of the flat numbering, (variables + 1,)."""
        return np.concatenate([[0], np.cumsum(self.widths)]).astype(np.int64)

    @cached_property
    def state_offsets(self) -> np.ndarray:
        """`offsets` of the targets, (targets + 1,)."""
        return self.offsets[: len(self.targets) + 1]

    @property
    def n_states(self) -> int:
        """Number of target states with a bias."""
        return int(self.state_offsets[-1])

    @property
    def n_columns(self) -> int:
        """Number of target states and observed columns."""
        return int(self.offsets[-1])

    @cached_property
    def variable_of_column(self) -> np.ndarray:
        return np.repeat(np.arange(self.n_variables), self.widths)

    @cached_property
    def index_of_name(self) -> dict[str, int]:
        return {v.name: k for k, v in enumerate(self.variables)}

    def column_name(self, column: int) -> tuple[str, Label | None]:
        """Return (variable, state) of a column of the flat numbering; the state of a numeric column is None."""
        return self.column_names[column]

    @cached_property
    def column_names(self) -> tuple[tuple[str, Label | None], ...]:
        names: list[tuple[str, Label | None]] = []
        for variable in self.variables:
            if variable.numeric:
                names.append((variable.name, None))
            else:
                names += [(variable.name, variable.states[k]) for k in variable.position_of_code[1:]]
        return tuple(names)

    @cached_property
    def target_labels(self) -> tuple[Label, ...]:
        """Labels that occur among the target states, possibly more than once."""
        return tuple(label for _, label in self.column_names[: self.n_states] if label is not None)

    @cached_property
    def state_frequencies(self) -> np.ndarray:
        """Training frequency of each target state, (states,)."""
        return np.concatenate([np.empty(0), *(v.column_frequencies for v in self.targets)])

    @cached_property
    def reference_frequencies(self) -> np.ndarray:
        """Training frequency of the reference state of each target state's variable, (states,)."""
        bases = np.array([v.frequencies[v.reference] for v in self.targets], dtype=float)
        return np.repeat(bases, np.diff(self.state_offsets))

    @property
    def n_candidate_pairs(self) -> int:
        """Number of pairs of columns of two variables, at least one of which is a target."""
        states, columns = self.n_states, self.n_columns
        widths = np.diff(self.state_offsets)
        within = int((widths * (widths - 1) // 2).sum())
        return states * (states - 1) // 2 - within + states * (columns - states)


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


class BinarySchema(Schema):
    """A schema of 0/1 columns only, stored in arrays."""

    def __init__(self, targets: BinaryVariables, observed: BinaryVariables, order: tuple[str, ...]) -> None:
        object.__setattr__(self, "variable_groups", (targets, observed))
        object.__setattr__(self, "order", order)

    variable_groups: tuple[BinaryVariables, BinaryVariables]
    """Targets and observed columns."""

    @property
    def variables(self) -> tuple[Variable, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return (*self.variable_groups[0], *self.variable_groups[1])

    @property
    def n_variables(self) -> int:
        return len(self.variable_groups[0]) + len(self.variable_groups[1])

    @property
    def targets(self) -> Sequence[Variable]:
        return self.variable_groups[0]

    @property
    def observed(self) -> Sequence[Variable]:
        return self.variable_groups[1]

    @property
    def latent(self) -> Sequence[Variable]:
        return ()

    @property
    def input_names(self) -> tuple[str, ...]:
        return self.order

    @cached_property
    def widths(self) -> np.ndarray:
        return np.concatenate([part.widths for part in self.variable_groups])

    @property
    def target_labels(self) -> tuple[Label, ...]:
        return (1,) if self.n_states else ()

    @cached_property
    def state_frequencies(self) -> np.ndarray:
        targets = self.variable_groups[0]
        return targets.shares[targets.widths > 0]

    @cached_property
    def reference_frequencies(self) -> np.ndarray:
        return 1.0 - self.state_frequencies

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
