"""This module converts between the weights of a field and factors with full tables, as other programs use them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsefield.data.schema import Label, Schema, Variable
from sparsefield.errors import DataError
from sparsefield.estimators.field_estimator import FieldEstimator, fitted_field
from sparsefield.model.field import Field

if TYPE_CHECKING:
    from pgmpy.models import DiscreteMarkovNetwork  # pyright: ignore[reportMissingImports]

MAX_NUMBERS = 2**24
"""The largest table of a factor: a conjunction has one weight, but its table is exponential in its order."""


@dataclass(frozen=True)
class Factor:
    """A factor holds logarithms for all joint states of some variables, in the order of ``Variable.states``."""

    scope: tuple[int, ...]
    """Indices into ``FieldFactors.variables``, ascending."""
    logs: np.ndarray


@dataclass(frozen=True)
class FieldFactors:
    """A distribution that is proportional to the exponential of the sum of its factors."""

    variables: tuple[Variable, ...]
    factors: tuple[Factor, ...]
    """One factor for each variable, then one for each set of variables that share features."""

    @property
    def names(self) -> dict[str, list[Label]]:
        """Return {column: states} in the order of ``variables`` and of table axes."""
        return {variable.name: list(variable.states) for variable in self.variables}


def to_factors(field: Field, given: Mapping[str, Any] | None = None) -> FieldFactors:
    """Return the factors of a field over one table.

    A table holds 0 wherever a state is a reference state. The states of a number are its levels. Constants are dropped,
    so without ``given`` the log partition function is that of the field itself.

    Parameters
    ----------
    field : Field
    given : {column: state or number}
        Columns with known values: all observed columns that have features, and optionally others. The factors are
        conditioned on them. None means that an observed column is missing; its mean in training is used.

    Examples
    --------
    >>> from sparsefield.app.datasets import make_markov_field
    >>> field = make_markov_field(3, 1, states=3, neighbors=2.0, burn_in=1).field.field_
    >>> [factor.scope for factor in to_factors(field).factors]
    [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    """
    schema = _one_table(field)
    everything, owner = schema.variables, schema.variable_of_column
    known = _known_values(schema, given or {})
    free = [k for k, variable in enumerate(everything) if variable.role != "observed" and variable.name not in known]
    place = {k: number for number, k in enumerate(free)}
    variables = tuple(everything[k] for k in free)
    tables: dict[tuple[int, ...], np.ndarray] = {(k,): _by_state(v, v.log_base) for k, v in enumerate(variables)}
    coded = [_by_state(variable, variable.coded) for variable in variables]
    unknown: dict[str, None] = {}
    for columns, weight in _features(field):
        scope, values = [], []
        for column in columns:
            k = int(owner[column])
            variable, own = everything[k], column - int(schema.offsets[k])
            if variable.name in known:
                weight *= known[variable.name][own]
            elif k in place:
                scope.append(place[k])
                values.append(coded[place[k]][:, own])
            else:
                unknown[variable.name] = None
        if scope and weight:
            key = tuple(scope)
            if key not in tables:
                tables[key] = _zeros(key, variables)
            # Most columns are indicators of one state, so most entries stay as they are.
            states = [np.flatnonzero(own) for own in values]
            products = reduce(np.multiply.outer, [own[on] for own, on in zip(values, states, strict=True)])
            tables[key][np.ix_(*states)] += weight * products
    if unknown:
        names = ", ".join(repr(name) for name in list(unknown)[:5])
        raise DataError(
            f"The field is conditioned on {len(unknown)} observed column(s) ({names}): pass their values with "
            "given={column: value}, or --given COLUMN=VALUE at the command line."
        )
    order = sorted(tables, key=lambda scope: (len(scope), scope))
    return FieldFactors(variables, tuple(Factor(scope, tables[scope]) for scope in order))


def _by_state(variable: Variable, values: np.ndarray) -> np.ndarray:
    """Return values by code, (states, ...), in the order of the variable's states."""
    found = np.empty_like(values)
    found[variable.position_of_code] = values
    return found


def _one_table(field: Field) -> Schema:
    if len(field.layout.schemas) != 1 or field.layout.neighbor_views:
        raise DataError(
            "A field over linked tables has variables for each row and is not a single network; use to_networkx or "
            "GraphML, which show its templates."
        )
    return field.schema


def _known_values(schema: Schema, given: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return {variable: values of its columns} for the given variables."""
    known = {}
    for name, value in given.items():
        if name not in schema.index_of_name:
            raise DataError(f"given names the column {name!r}, which the field does not have.")
        variable = schema.variables[schema.index_of_name[name]]
        if value is None and variable.role != "observed":
            continue
        known[name] = _values(variable, value)
    return known


def _values(variable: Variable, value: Any) -> np.ndarray:
    """Return the (width,) values of the columns for a state or a number."""
    if value is None:
        return variable.column_means
    if variable.numeric:
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise DataError(f"Column {variable.name!r} holds numbers; given has {value!r}.")
        if variable.role != "observed":
            return variable.coded[variable.codes_of(np.array([number]))[0]]
        return variable.values_of(np.array([number]))[:, 0]
    value = value.item() if isinstance(value, np.generic) else value
    code = variable.code_of_label.get(value) if isinstance(value, (str, int, float)) else None
    if code is None:
        states = ", ".join(map(repr, variable.states[:6]))
        more = ", ..." if len(variable.states) > 6 else ""
        raise DataError(f"Column {variable.name!r} has no state {value!r}; its states are {states}{more}.")
    return variable.coded[code]


def _features(field: Field) -> Iterator[tuple[list[int], float]]:
    """Yield the columns, ascending, and the weight of every active feature."""
    # The states of a single table are its first columns, so a bias has the index of its column.
    for column in np.flatnonzero(field.biases).tolist():
        yield [column], float(field.biases[column])
    for features, weights in ((field.pairs, field.weights), (field.conjunctions, field.conjunction_weights)):
        used = np.flatnonzero(weights)
        for columns, weight in zip(features[used].tolist(), weights[used].tolist(), strict=True):
            yield sorted(column for column in columns if column >= 0), weight


def _zeros(scope: tuple[int, ...], variables: tuple[Variable, ...]) -> np.ndarray:
    shape = tuple(len(variables[k].states) for k in scope)
    if math.prod(shape) > MAX_NUMBERS:
        names = ", ".join(variables[k].name for k in scope[:5]) + (", ..." if len(scope) > 5 else "")
        raise DataError(
            f"The full table over {names} has {math.prod(shape):,} numbers, too many to write: export GraphML."
        )
    return np.zeros(shape)


def to_pgmpy(field: FieldEstimator | Field, *, given: Mapping[str, Any] | None = None) -> DiscreteMarkovNetwork:
    """Return the distribution as a ``pgmpy.models.DiscreteMarkovNetwork`` with the names of columns and states.

    This needs pgmpy: ``pip install 'sparsefield[pgmpy]'``. The largest entry of every factor is 1, so that products of
    many factors do not overflow. pgmpy's ``VariableElimination`` returns unnormalized results for a Markov network: use
    ``query(...).normalize(inplace=False)``.

    Parameters
    ----------
    field : fitted estimator, or its field
        Over one table.
    given : {column: state or number}
        Values of observed columns, and optionally of others; the distribution is conditioned on them.

    Examples
    --------
    >>> from sparsefield.app.datasets import make_markov_field
    >>> field = make_markov_field(3, 1, states=3, neighbors=2.0, burn_in=1).field.field_
    >>> network = to_pgmpy(field, given={"x0": 2})  # doctest: +SKIP
    >>> sorted(network.nodes())  # doctest: +SKIP
    ['x1', 'x2']
    """
    try:
        from pgmpy.factors.discrete import DiscreteFactor  # pyright: ignore[reportMissingImports]
        from pgmpy.models import DiscreteMarkovNetwork  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise DataError("pgmpy is not installed: pip install 'sparsefield[pgmpy]'.") from None
    found = to_factors(fitted_field(field), given)
    names = [variable.name for variable in found.variables]
    network = DiscreteMarkovNetwork()
    network.add_nodes_from(names)
    factors = []
    for factor in found.factors:
        scope = [names[k] for k in factor.scope]
        network.add_edges_from((a, b) for k, a in enumerate(scope) for b in scope[k + 1 :])
        states = {names[k]: list(found.variables[k].states) for k in factor.scope}
        factors.append(DiscreteFactor(scope, factor.logs.shape, np.exp(factor.logs - factor.logs.max()), states))
    network.add_factors(*factors)
    return network


def moebius_transform(log_table: np.ndarray, first: int = 0) -> np.ndarray:
    """Return the log-linear weights of a table, in an array of the same shape (a Möbius transform).

    The weight at (s, t, ...) belongs to the conjunction of its nonzero states. An entry of the table is the sum of the
    weights of all conjunctions that hold there, including the constant at (0, 0, ...). Axes before ``first`` are batch
    axes.
    """
    weights = np.array(log_table, dtype=float)
    for axis in range(first, weights.ndim):
        rows = np.moveaxis(weights, axis, 0)
        rows[1:] -= rows[:1]
    return weights
