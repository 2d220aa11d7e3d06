"""This module defines the schema of labels given many real covariates, without an object per covariate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import overload

import numpy as np

from sparsefield.data.coding import ColumnClass
from sparsefield.data.grouped_schema import GroupedSchema
from sparsefield.data.labels import Label
from sparsefield.data.schema import Schema, Variable


@dataclass(frozen=True, repr=False)
class CovariateColumns(Sequence[Variable]):
    """Observed numeric variables whose values are used as they are; a `Variable` is made when needed."""

    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Variable]:
        return map(unscaled_covariate, self.names)

    @overload
    def __getitem__(self, index: int) -> Variable: ...
    @overload
    def __getitem__(self, index: slice) -> CovariateColumns: ...
    def __getitem__(self, index: int | slice) -> Variable | CovariateColumns:
        if isinstance(index, slice):
            return CovariateColumns(self.names[index])
        return unscaled_covariate(self.names[index])

    def __repr__(self) -> str:
        return f"<{len(self):,} covariates>"


def unscaled_covariate(name: str) -> Variable:
    """Return an observed numeric variable with one column, which has its values as they are.

    Examples
    --------
    >>> unscaled_covariate("length").values_of(np.array([2.0, 0.5]))
    array([[2. , 0.5]])
    """
    return Variable(name, "observed", kind="numeric")


class CovariateSchema(GroupedSchema):
    """A schema of labels, which are targets, and of covariates that are columns of a sparse matrix."""

    variable_groups: tuple[tuple[Variable, ...], CovariateColumns]

    def __init__(self, targets: Sequence[Variable], observed: CovariateColumns) -> None:
        super().__init__(tuple(targets), observed, (*(variable.name for variable in targets), *observed.names))

    @property
    def covariates(self) -> CovariateColumns:
        return self.variable_groups[1]

    @cached_property
    def labels(self) -> Schema:
        """The schema of the labels alone."""
        return Schema(self.variable_groups[0], self.order[: len(self.variable_groups[0])])

    def with_reference(self) -> Schema:
        return CovariateSchema([replace(v, symmetric=False) for v in self.variable_groups[0]], self.covariates)

    @cached_property
    def widths(self) -> np.ndarray:
        return np.concatenate([self.labels.widths, np.ones(len(self.covariates), dtype=np.int64)])

    @property
    def target_labels(self) -> tuple[Label, ...]:
        return self.labels.target_labels

    @cached_property
    def column_classes(self) -> np.ndarray:
        observed = np.full(len(self.covariates), ColumnClass.OBSERVED_SCORE, dtype=np.int8)
        return np.concatenate([self.labels.column_classes, observed])

    @cached_property
    def index_of_name(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.order)}

    def column_name(self, column: int) -> tuple[str, Label | None]:
        first = self.n_target_columns
        return self.labels.column_name(column) if column < first else (self.covariates.names[column - first], None)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CovariateSchema):
            return NotImplemented
        return self.variable_groups == other.variable_groups

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"CovariateSchema({self.variable_groups[0]!r}, {self.covariates!r})"
