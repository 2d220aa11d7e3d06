"""This module defines schemas of very many columns, which have no object per column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparsefield.data.schema import Schema, Variable


class GroupedSchema(Schema):
    """A schema of targets and observed columns without latent variables, each group a sequence of its own type."""

    variable_groups: tuple[Any, Any]
    """Targets and observed columns, sequences of `Variable`."""

    def __init__(self, targets: Sequence[Variable], observed: Sequence[Variable], order: tuple[str, ...]) -> None:
        object.__setattr__(self, "variable_groups", (targets, observed))
        object.__setattr__(self, "order", order)

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
