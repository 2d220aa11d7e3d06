"""This module defines variables with their states and roles, and their flat numbering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from sparsefield.data.labels import Label

Role = Literal["target", "observed", "latent"]


@dataclass(frozen=True)
class Variable:
    """A column: categorical with sorted states, or numeric and observed with a center and a scale.

    The reference state ``base`` has no feature (its logit is 0), so a variable of K states has K - 1 columns in the
    flat numbering; a numeric variable has one, its standardized value. The reference state is the most frequent one,
    but 0 or False if the states are 0 and 1 or False and True.
    """

    name: str
    role: Role
    states: tuple[Label, ...] = ()
    base: int = 0
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
        others = [k for k in range(len(self.states)) if k != self.base]
        return np.array([self.base, *others], dtype=np.int64)

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
        """Number of target states with a unary weight."""
        return int(self.state_offsets[-1])

    @property
    def n_columns(self) -> int:
        """Number of target states and observed columns together."""
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
    def base_frequencies(self) -> np.ndarray:
        """Training frequency of the reference state of each target state's variable, (states,)."""
        bases = np.array([v.frequencies[v.base] for v in self.targets], dtype=float)
        return np.repeat(bases, np.diff(self.state_offsets))

    @property
    def n_candidate_pairs(self) -> int:
        """Number of pairs of columns of two variables, at least one of which is a target."""
        states, columns = self.n_states, self.n_columns
        widths = np.diff(self.state_offsets)
        within = int((widths * (widths - 1) // 2).sum())
        return states * (states - 1) // 2 - within + states * (columns - states)
