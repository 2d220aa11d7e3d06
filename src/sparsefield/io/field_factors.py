"""A field as full tables over its variables: what programs that know no base states read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsefield.data.schema import Label, Schema, Variable
from sparsefield.errors import DataError
from sparsefield.model.field import Field

__all__ = ["Factor", "FieldFactors", "to_factors"]

MAX_NUMBERS = 2**24
"""Entries of one table. A conjunction is one weight, but its full table doubles with every further column."""


@dataclass(frozen=True)
class Factor:
    """Logarithms over the states of some variables, in the order of ``Variable.states``."""

    scope: tuple[int, ...]
    """Places in ``FieldFactors.variables``, ascending."""
    logs: np.ndarray


@dataclass(frozen=True)
class FieldFactors:
    """A distribution: proportional to the exponential of the sum of all factors."""

    variables: tuple[Variable, ...]
    factors: tuple[Factor, ...]
    """One for each variable, and then one for each set of variables that shares features."""

    @property
    def names(self) -> dict[str, list[Label]]:
        """{column: its states}, in the order of places and of axes."""
        return {variable.name: list(variable.states) for variable in self.variables}


def to_factors(field: Field, given: Mapping[str, Any] | None = None) -> FieldFactors:
    """The factors of a field over one table.

    Base coding is expanded: a table holds 0 where a state is a base. Constants are left out, so where no column is
    given the logarithm of the sum over all assignments is that of the field itself.

    Parameters
    ----------
    field : Field
    given : {column: state or number}
        Columns whose values are known: all observed columns that have features, and any others. They are folded in
        and are no variables any more. None for an observed column is a gap, which sits at its mean in training.

    Examples
    --------
    >>> from sparsefield.datasets import make_markov_field
    >>> field = make_markov_field(3, 1, states=3, neighbors=2.0, burn_in=1).field.field_
    >>> [factor.scope for factor in to_factors(field).factors]
    [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    """
    schema = _one_table(field)
    everything, owner = schema.variables, schema.variable_of_column
    held = _held(schema, given or {})
    free = [k for k, variable in enumerate(everything) if variable.role != "observed" and variable.name not in held]
    place = {k: number for number, k in enumerate(free)}
    variables = tuple(everything[k] for k in free)
    tables: dict[tuple[int, ...], np.ndarray] = {(k,): np.zeros(len(v.states)) for k, v in enumerate(variables)}
    lacking: dict[str, None] = {}
    for columns, weight in _features(field):
        scope, states = [], []
        for column in columns:
            k = int(owner[column])
            variable, state = everything[k], column - int(schema.offsets[k])
            if variable.name in held:
                weight *= held[variable.name][state]
            elif k in place:
                scope.append(place[k])
                states.append(int(variable.position_of_code[state + 1]))
            else:
                lacking[variable.name] = None
        if scope and weight:
            key = tuple(scope)
            if key not in tables:
                tables[key] = _empty(key, variables)
            tables[key][tuple(states)] += weight
    if lacking:
        names = ", ".join(repr(name) for name in list(lacking)[:5])
        raise DataError(
            f"The field is conditioned on {len(lacking)} observed column(s) ({names}): say what they hold with "
            "given={column: value}."
        )
    order = sorted(tables, key=lambda scope: (len(scope), scope))
    return FieldFactors(variables, tuple(Factor(scope, tables[scope]) for scope in order))


def _one_table(field: Field) -> Schema:
    if len(field.layout.schemas) != 1 or field.layout.views:
        raise DataError(
            "A field over linked tables has as many variables as there are rows, so it is no single network; "
            "to_networkx and GraphML show its templates."
        )
    return field.schema


def _held(schema: Schema, given: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """What the columns of each given variable hold."""
    held = {}
    for name, value in given.items():
        if name not in schema.index_of_name:
            raise DataError(f"given names the column {name!r}, which the field does not have.")
        variable = schema.variables[schema.index_of_name[name]]
        if value is None and variable.role != "observed":
            continue
        held[name] = _values(variable, value)
    return held


def _values(variable: Variable, value: Any) -> np.ndarray:
    """(width,): one-hot, or a standardized number."""
    if value is None:
        return variable.column_frequencies
    if variable.numeric:
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise DataError(f"Column {variable.name!r} holds numbers; given has {value!r}.")
        return np.array([(number - variable.centre) / variable.scale])
    value = value.item() if isinstance(value, np.generic) else value
    code = variable.code_of_label.get(value) if isinstance(value, (str, int, float)) else None
    if code is None:
        known = ", ".join(map(repr, variable.states[:6]))
        more = ", ..." if len(variable.states) > 6 else ""
        raise DataError(f"Column {variable.name!r} has no state {value!r}; its states are {known}{more}.")
    return (np.arange(1, len(variable.states)) == code).astype(float)


def _features(field: Field) -> Iterator[tuple[list[int], float]]:
    """Columns, ascending, and weight of every feature that has one."""
    # States of a single table are its first columns, so that a unary weight stands at its column.
    for column in np.flatnonzero(field.unary).tolist():
        yield [column], float(field.unary[column])
    for features, weights in ((field.pairs, field.weights), (field.conjunctions, field.conjunction_weights)):
        used = np.flatnonzero(weights)
        for columns, weight in zip(features[used].tolist(), weights[used].tolist(), strict=True):
            yield sorted(column for column in columns if column >= 0), weight


def _empty(scope: tuple[int, ...], variables: tuple[Variable, ...]) -> np.ndarray:
    shape = tuple(len(variables[k].states) for k in scope)
    if math.prod(shape) > MAX_NUMBERS:
        names = ", ".join(variables[k].name for k in scope[:5]) + (", ..." if len(scope) > 5 else "")
        raise DataError(f"The full table over {names} has {math.prod(shape):,} numbers, too many to write out.")
    return np.zeros(shape)
